"""Sessions: the conversations and pieces of work in which memories are made and used."""

from datetime import UTC, datetime

from memorist import validation
from memorist.engine.resources import Resources
from memorist.records import Session, SessionContext, new_id


class Sessions:
    """Starts, ends and lists sessions."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store.sessions

    def start(self, project: str | None, id: str | None, summary: str | None) -> Session:
        return self._store.start(
            new_id() if id is None else validation.session_id(id),
            validation.name(project, "project"),
            self._redact(summary),
            datetime.now(UTC),
        )

    def end(self, id: str, summary: str | None) -> Session:
        self._resources.recorder.flush()  # its recalls belong to it
        return self._store.end(validation.session_id(id), self._redact(summary), datetime.now(UTC))

    def summarise(self, id: str, summary: str | None) -> Session:
        return self._store.set_summary(validation.session_id(id), self._redact(summary))

    def get(self, id: str) -> Session:
        self._resources.recorder.settle()
        return self._store.require(validation.session_id(id))

    def list_sessions(self, project: str | None, active: bool | None, limit: int) -> list[Session]:
        validation.whole_number(limit, "limit", 1, 1_000_000)
        self._resources.recorder.settle()
        if active is not None:
            validation.flag(active, "active")
        return self._store.list_sessions(validation.name(project, "project"), active, limit)

    def context_of(self, memory_id: str) -> SessionContext | None:
        self._resources.recorder.settle()
        return self._store.find_context(validation.id_or_part(memory_id))

    def _redact(self, summary: object) -> str | None:
        return self._resources.redaction.redact_optional(validation.text_or_none(summary, "summary"))
