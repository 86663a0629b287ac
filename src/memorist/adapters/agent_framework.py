"""
History and context providers of Microsoft's Agent Framework over a memory.

The history provider keeps the messages of sessions, tool calls included, and the context provider adds what is
remembered from other sessions. Every call runs in a thread, so the event loop is not blocked.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from memorist.adapters.project_documents import check_project
from memorist.adapters.session_items import SessionItem, SessionItems, copy_item, find_texts
from memorist.engine import Memorist
from memorist.errors import MissingExtra
from memorist.redact.redaction import Redaction

try:
    from agent_framework import (
        AgentSession,
        ContextProvider,
        HistoryProvider,
        Message,
        SessionContext,
        SupportsAgentRun,
    )
except ImportError as exc:
    raise MissingExtra(
        "providers for the Agent Framework need an extra: pip install 'memorist[agent-framework]'"
    ) from exc

_FRAMEWORK = "agent-framework"
_NO_SESSION = "default"
_CONTENT_TYPES, _TEXT_KEYS = ("text", "function_call", "function_result"), ("text", "arguments", "result")


class MemoristHistoryProvider(HistoryProvider):
    """
    The messages of sessions, for `Agent(context_providers=[...])`.

    Sessions of the same id in different projects, such as one for each user, are different conversations. Other options
    are those of the framework's `HistoryProvider`; with `load_messages=False` messages are only stored.
    """

    def __init__(
        self,
        memory: Memorist,
        *,
        project: str | None = None,
        source_id: str = "memorist_history",
        **options: Any,
    ) -> None:
        super().__init__(source_id, **options)
        self._memory, self._project = memory, check_project(project)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, in order and as they were saved."""
        items = await asyncio.to_thread(self._items(session_id).items)
        return [Message.from_dict(item) for item in items]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add messages to a session. Of a transcript that begins with the whole session, only the rest is added."""
        await asyncio.to_thread(self._save, self._items(session_id), [_to_item(message) for message in messages])

    def _items(self, session_id: str | None) -> SessionItems:
        return SessionItems(self._memory, _FRAMEWORK, session_id or _NO_SESSION, project=self._project)

    def _save(self, items: SessionItems, added: Sequence[SessionItem]) -> None:
        known = items.items(limit=len(added))
        first = [_said(item.item) for item in added[: len(known)]]
        is_replay = 1 < len(known) < len(added) and [_said(item) for item in known] == first
        items.add(added[len(known) :] if is_replay else added)


class MemoristContextProvider(ContextProvider):
    """
    Memories about what the user says, for `Agent(context_providers=[...])`.

    They are added as a message of at most `budget` tokens, marked as data. It only reads: a `MemoristHistoryProvider`
    stores what is said.
    """

    def __init__(
        self,
        memory: Memorist,
        *,
        project: str | None = None,
        budget: int = 2000,
        limit: int = 5,
        source_id: str = "memorist",
    ) -> None:
        super().__init__(source_id)
        self._memory, self._project = memory, check_project(project)
        self._options: dict[str, Any] = {"project": project, "budget": budget, "limit": limit}

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add what is remembered about the new messages, except what this session said itself."""
        query = "\n".join(message.text for message in context.input_messages if message.text).strip()
        if not query:
            return
        under_way = SessionItems(self._memory, _FRAMEWORK, context.session_id or _NO_SESSION, project=self._project)
        options = {**self._options, "session": under_way.session_id}
        if found := await asyncio.to_thread(self._memory.context, query, **options):
            context.extend_messages(self, [Message("user", [found])])


def _to_item(message: Message) -> SessionItem:
    item = copy_item(json.loads(message.to_json()))
    contents = [content for content in item["contents"] if content["type"] in _CONTENT_TYPES]
    return SessionItem(item["role"], "\n".join(find_texts(contents, _TEXT_KEYS)), item)


def _said(item: Any) -> tuple[Any, Any]:
    """Return who said what, without secrets: those in a session that is stored were replaced."""
    return item["role"], Redaction(on=True).redact_value(item["contents"])[0]
