"""
A memory store for Strands Agents over a memory.

Notes that an agent adds are memories, and messages that its memory manager hands over are turns of a session; searches
by other programs find both. Every call runs in a thread, so the event loop is not blocked.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

from memorist.adapters.session_items import SessionItem, SessionItems
from memorist.engine import Memorist
from memorist.engine.project_view import for_model
from memorist.errors import InvalidInput, MissingExtra
from memorist.ids import new_id
from memorist.records import Hit

try:
    from strands.memory import AddMessagesContext, ExtractionConfig, MemoryEntry, MemoryStore, SearchOptions
    from strands.types.content import Message
except ImportError as exc:
    raise MissingExtra("the memory store for Strands Agents needs an extra: pip install 'memorist[strands]'") from exc

_FRAMEWORK = "strands"


class MemoristMemoryStore(MemoryStore):
    """
    A store for `MemoryManager(stores=[...])`, over the memories of one project, or of all without one.

    With `extraction=True` the manager stores what is said, without asking a model, as turns of the `session`, which is
    a new one for each store unless it is named.
    """

    def __init__(
        self,
        memory: Memorist,
        *,
        name: str = "memorist",
        description: str | None = None,
        project: str | None = None,
        session: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: ExtractionConfig | bool | None = None,
    ) -> None:
        self.name, self.description = name, description
        self.max_search_results = max_search_results
        self.writable, self.extraction = writable, extraction
        self._memory, self._project = memory, project
        self._items = SessionItems(memory, _FRAMEWORK, session or new_id(), project=project)

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the memories that are about a query, best first."""
        if not query.strip():
            return []
        limit = (options or {}).get("max_search_results") or self.max_search_results or 10
        hits = await asyncio.to_thread(self._memory.search, query, limit=limit, project=self._project)
        return [_to_entry(hit) for hit in hits]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> str:
        """Add a memory and return its id. The same text again is the same memory."""
        self._check_writable()
        added = await asyncio.to_thread(
            for_model(self._memory).add, content, project=self._project, metadata=metadata, source=_FRAMEWORK
        )
        return added.id

    async def add_messages(self, messages: list[Message], context: AddMessagesContext | None = None) -> None:
        """Add what was said, without calls of tools and their results. A batch that is tried again adds nothing."""
        self._check_writable()
        numbers: Sequence[int | None] = (context and context.sequence_numbers) or [None] * len(messages)
        items = [
            SessionItem(message["role"], text, dict(message), id=self._make_id(number, text))
            for message, number in zip(messages, numbers, strict=True)
            if (text := _find_text(message))
        ]
        await asyncio.to_thread(self._items.add, items)

    def _check_writable(self) -> None:
        if not self.writable:
            raise InvalidInput(f"the store {self.name!r} is read-only; make it with writable=True to add to it")

    def _make_id(self, number: int | None, text: str) -> str | None:
        """Return the same id for a message that is tried again. Numbers start anew with each agent, so text counts."""
        if number is None:
            return None
        return hashlib.sha256(f"{_FRAMEWORK}/{self._items.session_id}/{number}/{text}".encode()).hexdigest()


def _find_text(message: Message) -> str:
    return "\n".join(block["text"] for block in message["content"] if "text" in block).strip()


def _to_entry(hit: Hit) -> MemoryEntry:
    # The model reads metadata, so the copy of a message that a turn has is left out.
    metadata = {key: value for key, value in hit.memory.metadata.items() if key != "item"}
    metadata |= {"id": hit.memory.id, "created_at": hit.memory.created_at.isoformat()}
    return MemoryEntry(content=hit.memory.content, metadata=metadata)
