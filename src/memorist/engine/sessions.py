"""Sessions: the conversations and pieces of work in which memories are made and used."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from memorist import validation
from memorist.arguments import Allowances, Cursor, Limit, OwnId, Text
from memorist.contract import operation
from memorist.engine.room import Room, check_cursor, next_cursor, parse_position
from memorist.errors import Ambiguous, InvalidInput, NotFound
from memorist.ids import new_id
from memorist.records import CHAT, ConversationBatch, Memory, Page, Session, SessionContext
from memorist.schemas import Meta
from memorist.views import SessionPage

if TYPE_CHECKING:
    from memorist.engine.memory import Memorist


def choose_project(memory: "Memorist", session: object, default: str | None) -> str | None:
    """Return the project to add a memory with that names none: None if its session gives it one, else a default."""
    if default is None or session is None:
        return default
    try:
        return None if memory.sessions.get(str(session)).project else default
    except (NotFound, Ambiguous, InvalidInput):
        return default  # adding the memory tells what is wrong with the session


class Sessions(Room):
    """Starts, ends and lists sessions, and records conversations turn by turn."""

    _name = "sessions"

    @operation("POST /sessions", status=201)
    def start(
        self,
        project: Annotated[str | None, Meta("The project it is about")] = None,
        *,
        id: Annotated[str | None, Meta("An id of your own")] = None,
        summary: Annotated[str | None, Meta("What it is about")] = None,
    ) -> Session:
        """Start a session; give its id to `add(session=...)` and `search(record_session=...)`."""
        return self._store.sessions.start(
            new_id() if id is None else validation.session_id(id),
            validation.name(project, "project"),
            self._redact(summary),
            datetime.now(UTC),
        )

    @operation("POST /sessions/{id}/end")
    def end(self, id: str, summary: str | None = None) -> Session:
        """End a session; nothing can be added to it any more."""
        self._resources.recorder.flush()  # its recalls belong to it
        return self._store.sessions.end(validation.session_id(id), self._redact(summary), datetime.now(UTC))

    @operation("PATCH /sessions/{id}")
    def summarise(self, id: str, summary: Annotated[str | None, Meta(nullable=True)]) -> Session:
        """Set the summary of a session, also after it has ended."""
        return self._store.sessions.set_summary(validation.session_id(id), self._redact(summary))

    @operation("DELETE /sessions/{id}")
    def forget(self, id: str, *, hard: bool = False) -> Session:
        """Hide a session with the memories made in it, until it is purged; `hard` erases them at once."""
        self._resources.recorder.flush()  # a recall written later would bring traces of it back
        id, sessions = validation.session_id(id), self._store.sessions
        return sessions.erase(id) if validation.flag(hard, "hard") else sessions.forget(id, datetime.now(UTC))

    @operation("POST /sessions/{id}/restore")
    def restore(self, id: str) -> Session:
        """Bring a forgotten session back, with the memories that were forgotten with it."""
        self._resources.vectorizer.expect_backlog()
        return self._store.sessions.restore(validation.session_id(id))

    @operation("GET /sessions/{id}")
    def get(self, id: str) -> Session:
        """Return one session, by its id or a unique part of it."""
        self._resources.recorder.settle()
        return self._store.sessions.require(validation.session_id(id))

    @operation("GET /sessions")
    def list(
        self,
        *,
        project: Annotated[str | None, Meta("Only of this project")] = None,
        active: Annotated[bool | None, Meta("Only sessions that have not ended")] = None,
        deleted: Annotated[bool, Meta("Only forgotten sessions")] = False,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> SessionPage:
        """List sessions, the latest first, page by page; `active` chooses those that have not, or have, ended."""
        count, before = validation.whole_number(limit, "limit", 1, 1_000_000), check_cursor(cursor)
        self._resources.recorder.settle()
        if active is not None:
            validation.flag(active, "active")
        project, deleted = validation.name(project, "project"), validation.flag(deleted, "deleted")
        found = self._store.sessions.list_sessions(project, active, count + 1, before, deleted=deleted)
        return SessionPage(tuple(found[:count]), next_cursor(found, count, lambda session: session.id))

    @operation("GET /memories/{memory}/session")
    def context_of(self, memory: str) -> SessionContext | None:
        """Return the session that used a memory last, and how; None where no session did."""
        self._resources.recorder.settle()
        return self._store.sessions.find_context(validation.id_or_part(memory))

    @operation("GET /sessions/{id}/turns")
    def turns(self, id: str, *, limit: Limit = 50, cursor: Cursor | None = None) -> Page:
        """Return what was said in a session, in its order, page by page."""
        count = validation.whole_number(limit, "limit", 1, 1_000_000)
        session = self._store.sessions.resolve_id(validation.session_id(id))
        found = self._store.inspection.list_turns(session, parse_position(cursor, 0), count + 1)
        memories = tuple(self._resources.present(memory) for _, memory in found[:count])
        return Page(memories, next_cursor(found, count, lambda turn: str(turn[0])))

    @operation("POST /conversations/{conversation}/turns", status=201, renamed={"id": "turn"})
    def add_turn(
        self,
        role: str,
        text: Text,
        *,
        conversation: str,
        project: str | None = None,
        id: OwnId | None = None,
        redact: bool = True,
        allow: Allowances = (),
    ) -> Memory:
        """
        Remember a turn of a conversation that goes on. The session `chat:CONVERSATION` starts with its first turn, is
        named after it, and lasts until its latest. A turn with an `id` is stored once.

        Secrets are redacted before anything is stored, unless `redact` is False; `allow` lists exceptions.
        """
        from memorist.importers.conversations import draft_turns, session_id_of
        from memorist.importers.formats.conversation import ImportedConversation, Turn
        from memorist.importers.transcripts import ImportProblem

        redaction = self._resources.choose_redaction(redact, allow)
        now, role = datetime.now(UTC), validation.required_name(role, "role")
        turn_id = new_id() if id is None else validation.memory_id(id)
        turns = (Turn(turn_id, role, validation.content(text, "text"), now),)
        name, project = validation.session_id(conversation), validation.name(project, "project")
        recorded = ImportedConversation(name, CHAT, None, project, now, now, turns)
        (draft,) = draft_turns(recorded, project=project, source=CHAT, default_time=now, redaction=redaction)
        if isinstance(draft, ImportProblem):
            raise InvalidInput(draft.reason)
        batch = ConversationBatch(session_id_of(recorded), project, None, (draft,))
        result = self._store.add_conversations([batch])
        if result.erased:
            raise NotFound(
                f"the turn {turn_id} was erased, and is not stored again; choose another id, or leave it out"
            )
        if not result.ids:  # it is stored already, or the session was forgotten
            self._store.sessions.require(batch.id)
        self._resources.embed(*result.pending)
        return self._resources.present(self._store.require(draft.id))

    def _redact(self, summary: object) -> str | None:
        return self._resources.model_redaction.redact_optional(validation.text_or_none(summary, "summary"))
