"""Searches: the record of past searches, and feedback on what they found."""

import builtins
from datetime import UTC, datetime
from typing import Annotated

from memorist import validation
from memorist.arguments import Cursor, Limit, QueryText, Time
from memorist.contract import operation
from memorist.engine.room import Room, check_cursor, next_cursor
from memorist.errors import Hint, InvalidInput, NotFound
from memorist.records import Feedback
from memorist.schemas import Meta
from memorist.views import RecallPage

_MAX_SEARCHED = 1000  # recorded searches, for the last question that found a memory


class Searches(Room):
    """Lists recorded searches, and keeps feedback on their hits."""

    _name = "searches"

    @operation("GET /recalls")
    def list(
        self,
        *,
        memory: Annotated[str | None, Meta("Only searches that found this memory")] = None,
        session: Annotated[str | None, Meta("Only searches in this session")] = None,
        since: Annotated[Time | None, Meta("Only from this time on")] = None,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> RecallPage:
        """List recorded searches and what they found, the latest first, page by page."""
        count, before = validation.whole_number(limit, "limit", 1, 1_000_000), check_cursor(cursor)
        self._resources.recorder.settle()
        found = self._store.recalls.list_recalls(
            None if memory is None else validation.id_or_part(memory),
            None if session is None else self._store.sessions.resolve_id(validation.session_id(session)),
            validation.moment_or_none(since, "since"),
            count + 1,
            before,
        )
        return RecallPage(tuple(found[:count]), next_cursor(found, count, lambda recall: recall.id))

    @operation("DELETE /recalls")
    def clear(self, *, before: Time | None = None) -> int:
        """Delete recorded searches, all or those before a time; what they reinforced stays so. Return how many."""
        self._resources.recorder.flush()
        return self._store.recalls.clear(validation.moment_or_none(before, "before"))

    @operation("POST /memories/{id}/feedback")
    def add_feedback(self, id: str, good: bool, *, query: QueryText | None = None) -> Feedback:
        """
        Record whether a memory was a good answer: to `query`, or else to the last recorded search that found it. It
        changes no ranking; `memorist eval --from-recalls` measures by it.
        """
        self._resources.recorder.settle()
        id, good = validation.id_or_part(id), validation.flag(good, "good")
        text = self._last_query(id) if query is None else validation.query_text(query)
        if not text.strip():
            raise InvalidInput("the query is empty; say which question the memory answers, or does not")
        return self._store.feedback.put(id, self._resources.redaction.redact_text(text), good, datetime.now(UTC))

    @operation("GET /feedback")
    def list_feedback(self, *, memory: str | None = None, limit: Limit = 1000) -> builtins.list[Feedback]:
        """List feedback, the latest first."""
        validation.whole_number(limit, "limit", 1, 1_000_000)
        return self._store.feedback.list_feedback(None if memory is None else validation.id_or_part(memory), limit)

    @property
    def lost(self) -> int:
        """The number of searches that could not be recorded; they were answered all the same."""
        if self._remote is not None:
            from memorist.engine.memory import Memorist

            return Memorist(self._remote).stats().recalls_lost
        return self._resources.recorder.lost

    def _last_query(self, id: str) -> str:
        """Return the query of the last recorded search that found a memory."""
        for recall in self._store.recalls.list_recalls(id, None, None, _MAX_SEARCHED):
            if recall.query and recall.query.strip():
                return recall.query
        raise NotFound(f"no recorded search found memory {id}; give the query that it answers", hint=Hint("give_query"))
