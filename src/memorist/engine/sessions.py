"""Sessions: the conversations and pieces of work in which memories are made and used."""

from datetime import UTC, datetime

from memorist import validation
from memorist.engine.resources import Resources
from memorist.errors import InvalidInput
from memorist.ingest.redaction import Redaction
from memorist.records import CHAT, ConversationBatch, Memory, Session, SessionContext, new_id


class Sessions:
    """Starts, ends and lists sessions, and records conversations turn by turn."""

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

    def forget(self, id: str, *, hard: bool) -> Session:
        self._resources.recorder.flush()  # a recall written later would bring traces of it back
        id = validation.session_id(id)
        return self._store.erase(id) if validation.flag(hard, "hard") else self._store.forget(id, datetime.now(UTC))

    def restore(self, id: str) -> Session:
        self._resources.vectorizer.expect_backlog()
        return self._store.restore(validation.session_id(id))

    def get(self, id: str) -> Session:
        self._resources.recorder.settle()
        return self._store.require(validation.session_id(id))

    def list_sessions(
        self, project: str | None, active: bool | None, limit: int, before: str | None = None, *, deleted: bool = False
    ) -> list[Session]:
        validation.whole_number(limit, "limit", 1, 1_000_000)
        self._resources.recorder.settle()
        if active is not None:
            validation.flag(active, "active")
        deleted = validation.flag(deleted, "deleted")
        return self._store.list_sessions(validation.name(project, "project"), active, limit, before, deleted=deleted)

    def context_of(self, memory_id: str) -> SessionContext | None:
        self._resources.recorder.settle()
        return self._store.find_context(validation.id_or_part(memory_id))

    def add_turn(
        self, role: str, text: str, conversation: str, project: str | None, id: str | None, redaction: Redaction
    ) -> Memory:
        from memorist.importers.conversations import draft_turns, session_id_of
        from memorist.importers.transcripts import ImportedConversation, ImportProblem, Turn

        now, role = datetime.now(UTC), validation.required_name(role, "role")
        turn_id = new_id() if id is None else validation.memory_id(id)
        turns = (Turn(turn_id, role, validation.content(text, "text"), now),)
        name, project = validation.session_id(conversation), validation.name(project, "project")
        recorded = ImportedConversation(name, CHAT, None, project, now, now, turns)
        (draft,) = draft_turns(recorded, project=project, source=CHAT, default_time=now, redaction=redaction)
        if isinstance(draft, ImportProblem):
            raise InvalidInput(draft.reason)
        batch = ConversationBatch(session_id_of(recorded), project, None, (draft,))
        store = self._resources.store
        result = store.add_conversations([batch])
        if not result.ids:  # it is stored already, or the session was forgotten
            self._store.require(batch.id)
        self._resources.embed(*result.pending)
        return self._resources.present(store.require(draft.id))

    def _redact(self, summary: object) -> str | None:
        return self._resources.model_redaction.redact_optional(validation.text_or_none(summary, "summary"))
