"""
LlamaIndex's memory block and retriever over a memory.

Messages that leave the short-term memory of a chat become turns of its session, which searches by other programs find,
too. Every async call runs in a thread, so the event loop is not blocked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from memorist.adapters.project_documents import check_project
from memorist.adapters.session_items import SessionItem, SessionItems
from memorist.engine import Memorist
from memorist.errors import MissingExtra
from memorist.records import Hit

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as exc:
    raise MissingExtra("LlamaIndex's interfaces need an extra: pip install 'memorist[llama-index]'") from exc

_FRAMEWORK = "llama-index"


class MemoristMemoryBlock(BaseMemoryBlock[str]):
    """
    The long-term memory of a chat, for `Memory.from_defaults(memory_blocks=[...])`.

    It adds to the prompt what is remembered about the latest message of the user, from all sessions of the project.
    """

    name: str = Field(default="memories", description="The name of the memory block.")
    memory: Memorist = Field(exclude=True, description="The memory, which is open.")
    project: str | None = Field(default=None, description="The project that is read and written, such as a user.")
    budget: int = Field(default=2000, description="The most tokens that the block adds to a prompt.")
    limit: int = Field(default=5, description="The most memories that the block adds, besides pinned ones.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        query = _find_question(messages or ())
        if not query:
            return ""
        options: dict[str, Any] = {"budget": self.budget, "limit": self.limit, "project": check_project(self.project)}
        return await asyncio.to_thread(self.memory.context, query, **options)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Add what was said. Messages without text, such as calls of tools alone, are left out."""
        sessions: dict[str, list[SessionItem]] = {}
        for message in messages:
            if text := (message.content or "").strip():
                session = message.additional_kwargs.get("session_id") or self.name
                sessions.setdefault(session, []).append(_to_item(message, text))
        await asyncio.to_thread(self._add, sessions)

    def _add(self, sessions: Mapping[str, Sequence[SessionItem]]) -> None:
        for session, items in sessions.items():
            SessionItems(self.memory, _FRAMEWORK, session, project=self.project).add(items)


class MemoristNodeRetriever(BaseRetriever):
    """
    A retriever that finds memories by word and by meaning, for query engines and agents.

    `options` are those of `Memorist.search`, such as `kind`, `tags`, `since` or a filter by `metadata`.
    """

    def __init__(
        self,
        memory: Memorist,
        *,
        project: str | None = None,
        similarity_top_k: int = 10,
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._memory = memory
        self._options = {"project": check_project(project), "limit": similarity_top_k, **(options or {})}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_to_node(hit) for hit in self._memory.search(query_bundle.query_str, **self._options)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _find_question(messages: Sequence[ChatMessage]) -> str:
    """Return the latest text of the user, or the latest of anyone if the user said nothing."""
    said = [message for message in reversed(messages) if (message.content or "").strip()]
    by_user = [message for message in said if message.role == MessageRole.USER]
    return next((message.content or "" for message in by_user or said), "")


def _to_item(message: ChatMessage, text: str) -> SessionItem:
    return SessionItem(message.role.value, text, message.model_dump(mode="json", exclude_none=True))


def _to_node(hit: Hit) -> NodeWithScore:
    # Metadata is part of what a model reads, so the copy of a message that a turn has is left out.
    metadata = {key: value for key, value in hit.memory.metadata.items() if key != "item"}
    return NodeWithScore(node=TextNode(id_=hit.memory.id, text=hit.memory.content, metadata=metadata), score=hit.score)
