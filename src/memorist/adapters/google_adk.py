"""
The memory service of Google's Agent Development Kit over a memory.

Each user of each app has a project, which no other user and no other app can see. What was said in a session is turns
of it, which searches by other programs find, too. Every call runs in a thread, so the event loop is not blocked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from memorist.adapters.project_documents import ProjectDocuments
from memorist.adapters.session_items import add_turns, session_id_of
from memorist.engine import Memorist
from memorist.errors import InvalidInput, MissingExtra
from memorist.records import Memory

try:
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai.types import Content, Part
except ImportError as exc:
    raise MissingExtra("the memory service of Google's ADK needs an extra: pip install 'memorist[google-adk]'") from exc

_FRAMEWORK = "google-adk"
_OWN_METADATA = ("role", "author", "framework")  # the rest is the caller's own


class MemoristMemoryService(BaseMemoryService):
    """
    The memories of the users of apps, for `Runner(memory_service=...)`.

    A search returns at most `limit` memories. Adding a session or an event again changes nothing, and what was deleted
    stays so.
    """

    def __init__(self, memory: Memorist, *, limit: int = 10) -> None:
        self._memory, self._limit = memory, limit

    async def add_session_to_memory(self, session: Session) -> None:
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add what was said in events. Thoughts, and calls of tools and their results, are left out."""
        project = project_of(app_name, user_id)
        documents = ProjectDocuments(self._memory, project)
        turns = [
            {
                "id": documents.memory_id(event.id),
                "content": text,
                "metadata": {**(custom_metadata or {}), **_describe(event.author, event.content)},
                "created_at": event.timestamp,
            }
            for event in events
            if (text := _find_text(event.content))
        ]
        session = None if session_id is None else session_id_of(session_id, project)
        await asyncio.to_thread(add_turns, self._memory, _FRAMEWORK, turns, session=session, project=project)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add memories. One whose id is there already replaces it."""
        documents = ProjectDocuments(self._memory, project_of(app_name, user_id))
        fields = [(entry.id, _to_fields(entry, custom_metadata)) for entry in memories]
        await asyncio.to_thread(documents.write, fields)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the memories of a user of an app that are about a query, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        project = project_of(app_name, user_id)
        hits = await asyncio.to_thread(self._memory.search, query, limit=self._limit, project=project)
        documents = ProjectDocuments(self._memory, project)
        return SearchMemoryResponse(memories=[_to_entry(hit.memory, documents.id_of(hit.memory)) for hit in hits])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget a memory, which `restore` undoes until it is purged. An id that is not there is ignored."""
        if memory_id:
            documents = ProjectDocuments(self._memory, project_of(app_name, user_id))
            await asyncio.to_thread(documents.forget, [memory_id])


def project_of(app_name: str, user_id: str) -> str:
    """Return the project of a user of an app. Escaped, no two pairs of names have the same one."""
    return f"{quote(app_name, safe='@')}/{quote(user_id, safe='@')}"


def _find_text(content: Content | None) -> str:
    parts = (content.parts if content else None) or ()
    return "\n".join(part.text for part in parts if part.text and not part.thought).strip()


def _describe(author: str | None, content: Content | None) -> dict[str, Any]:
    is_user = author == "user" if author else content is None or content.role != "model"
    return {"role": "user" if is_user else "assistant", "author": author, "framework": _FRAMEWORK}


def _to_fields(entry: MemoryEntry, metadata: Mapping[str, object] | None) -> dict[str, Any]:
    text = _find_text(entry.content)
    if not text:
        raise InvalidInput("a memory for Memorist needs text; this one has none")
    described = {**(metadata or {}), **entry.custom_metadata, **_describe(entry.author, entry.content)}
    return {"content": text, "source": _FRAMEWORK, "metadata": described, "created_at": entry.timestamp}


def _to_entry(memory: Memory, id: str) -> MemoryEntry:
    metadata = dict(memory.metadata)
    role = "model" if metadata.get("role") == "assistant" else "user"
    return MemoryEntry(
        id=id,
        content=Content(role=role, parts=[Part(text=memory.content)]),
        author=metadata.get("author"),
        timestamp=memory.created_at.isoformat(),
        custom_metadata={key: value for key, value in metadata.items() if key not in _OWN_METADATA},
    )
