"""
Sessions of the OpenAI Agents SDK in a memory, and a tool with which an agent searches it.

Items are kept as the SDK gives them, tool calls included, but for secrets in them: those are replaced unless the memory
was opened with `redact=False`. Every call runs in a thread, so the event loop is not blocked.
"""

import asyncio
from typing import Any

from memorist.adapters.project_documents import check_project
from memorist.adapters.session_items import SessionItem, SessionItems, copy_item, find_texts
from memorist.engine import Memorist
from memorist.errors import MissingExtra

try:
    from agents import FunctionTool, SessionSettings, TResponseInputItem, function_tool
    from agents.memory import SessionABC
    from agents.memory.session_settings import resolve_session_limit
except ImportError as exc:
    raise MissingExtra(
        "sessions of the OpenAI Agents SDK need an extra: pip install 'memorist[openai-agents]'"
    ) from exc

_TEXT_KEYS = ("text", "refusal", "output", "summary", "arguments", "input", "code", "action", "content")


class MemoristSession(SessionABC):
    """
    The history of one conversation, for `Runner.run(..., session=...)`.

    Each item is a turn that searches find. Sessions of the same id in different projects, such as one for each user,
    are different conversations.
    """

    def __init__(
        self,
        session_id: str,
        memory: Memorist,
        *,
        project: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._items = SessionItems(memory, "openai-agents", session_id, project=project)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items in order: all, or the latest `limit`."""
        latest = resolve_session_limit(limit, self.session_settings)
        items: list[Any] = await asyncio.to_thread(self._items.items, latest)
        return items

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        await asyncio.to_thread(self._items.add, [_to_item(item) for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Forget the latest item and return it; of several callers, each gets another."""
        item: Any = await asyncio.to_thread(self._items.pop)
        return item

    async def clear_session(self) -> None:
        """Forget all items; they can be restored until they are purged."""
        await asyncio.to_thread(self._items.clear)


def memory_search_tool(memory: Memorist, *, project: str | None = None, budget: int = 2000) -> FunctionTool:
    """Return a tool that finds memories; what it returns is marked as data and has at most `budget` tokens."""

    check_project(project)

    @function_tool
    async def memory_search(query: str, limit: int = 5) -> str:
        """
        Search what is remembered from earlier conversations and notes, by word and by meaning.

        Args:
            query: A question or a few words, in any language.
            limit: The most memories to return.
        """
        found = await asyncio.to_thread(
            memory.context, query, budget=budget, limit=max(1, min(limit, 50)), project=project, core=False
        )
        return found or "Nothing is remembered about this."

    return memory_search


def _to_item(item: TResponseInputItem) -> SessionItem:
    plain = copy_item(item)
    kind = str(plain.get("type") or "message")
    role = str(plain.get("role") or ("tool" if kind.endswith("_output") else "assistant"))
    return SessionItem(role, "\n".join(find_texts(plain, _TEXT_KEYS)) or kind, plain)
