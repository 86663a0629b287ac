"""
A tool set for Pydantic AI, with which an agent searches a memory, adds to it and forgets.

The project is chosen by the program, for all runs or for each from its dependencies, and never by the model. Every call
runs in a thread, so the event loop is not blocked.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from memorist.adapters.project_documents import check_project
from memorist.engine import Memorist
from memorist.engine.project_view import ProjectView, for_model
from memorist.errors import MemoristError, MissingExtra
from memorist.redact.redaction import redaction_report

try:
    from pydantic_ai import FunctionToolset, ModelRetry, RunContext
    from pydantic_ai.tools import AgentDepsT
except ImportError as exc:
    raise MissingExtra("the tool set for Pydantic AI needs an extra: pip install 'memorist[pydantic-ai]'") from exc

_INSTRUCTIONS = (
    "You have a memory of earlier conversations. "
    "Search it before you say that you do not know something about the user or earlier work."
)
_INSTRUCTIONS_TO_ADD = "Add what will be useful later: preferences, decisions, facts. One thought per memory."


class MemoristToolset(FunctionToolset[AgentDepsT]):
    """
    The tools `memory_search`, `memory_add` and `memory_forget`, for `Agent(toolsets=[...])`.

    `project` is a name, or a function that returns it for a run, such as `lambda run: run.deps.user`. With
    `read_only=True` there is only the search. What a search returns has at most `budget` tokens.
    """

    def __init__(
        self,
        memory: Memorist,
        *,
        project: str | Callable[[RunContext[AgentDepsT]], str | None] | None = None,
        budget: int = 2000,
        read_only: bool = False,
        id: str | None = "memorist",
        **options: Any,
    ) -> None:
        instructions = _INSTRUCTIONS if read_only else f"{_INSTRUCTIONS} {_INSTRUCTIONS_TO_ADD}"
        super().__init__(id=id, **{"instructions": instructions, **options})
        self._memory, self._project, self._budget = memory, project, budget
        self.add_function(self.memory_search)
        if not read_only:
            self.add_function(self.memory_add)
            self.add_function(self.memory_forget)

    async def memory_search(self, run: RunContext[AgentDepsT], query: str, limit: int = 5) -> str:
        """
        Search what is remembered from earlier conversations and notes, by word and by meaning.

        Args:
            query: A question or a few words, in any language.
            limit: The most memories to return.
        """
        chosen = {"budget": self._budget, "limit": max(1, min(limit, 50)), "project": self._project_of(run)}
        found: str = await self._call(self._memory.context, query, core=False, **chosen)
        return found or "Nothing is remembered about this."

    async def memory_add(self, run: RunContext[AgentDepsT], content: str, tags: list[str] | None = None) -> str:
        """
        Remember something for later conversations.

        Args:
            content: One thought, in words that will be understood without this conversation.
            tags: A few words to file it under.
        """
        options = {"project": self._project_of(run), "tags": tags, "source": "pydantic-ai"}
        added = await self._call(for_model(self._memory).add, content, **options)
        note = " What looked like a secret was replaced." if redaction_report(added.metadata) else ""
        return f"Remembered as {added.short_id}.{note}"

    async def memory_forget(self, run: RunContext[AgentDepsT], id: str) -> str:
        """
        Forget a memory that is wrong, or that the user does not want to be remembered.

        Args:
            id: The id of the memory, as memory_search returned it.
        """
        await self._call(self._forget, id, self._project_of(run))
        return "Forgotten."

    def _project_of(self, run: RunContext[AgentDepsT]) -> str | None:
        return check_project(self._project(run) if callable(self._project) else self._project)

    def _forget(self, id: str, project: str | None) -> None:
        memory = self._memory if project is None else ProjectView(self._memory, project)
        memory.forget(id)

    async def _call(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run a method in a thread. Its error is told to the model, which may try again in another way."""
        try:
            return await asyncio.to_thread(method, *args, **options)
        except MemoristError as exc:
            raise ModelRetry(str(exc)) from exc
