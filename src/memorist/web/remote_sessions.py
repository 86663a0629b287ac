"""Sessions and the turns of conversations on a server, over HTTP."""

from collections.abc import Sequence

from memorist.present.codec import decode
from memorist.records import Memory, Session, SessionContext
from memorist.views import SessionPage
from memorist.web.remote_calls import RemoteCalls
from memorist.web.transport import path_of


class RemoteSessions(RemoteCalls):
    """The methods of `Memorist` that are about sessions."""

    def start_session(
        self, project: str | None = None, *, id: str | None = None, summary: str | None = None
    ) -> Session:
        """Start a session; give its id to `add(session=...)` and `search(record_session=...)`."""
        return self._post(Session, "sessions", project=project, id=id, summary=summary)

    def end_session(self, id: str, summary: str | None = None) -> Session:
        """End a session; nothing can be added to it any more."""
        return self._post(Session, "sessions", id, "end", summary=summary)

    def summarise_session(self, id: str, summary: str | None) -> Session:
        """Set the summary of a session, also after it has ended."""
        answer = self._transport.call("PATCH", path_of("sessions", id), body={"summary": summary})
        session: Session = decode(Session, answer)
        return session

    def forget_session(self, id: str, *, hard: bool = False) -> Session:
        """Hide a session with the memories made in it, until it is purged; `hard` erases them at once."""
        return self._delete(Session, "sessions", id, hard=hard or None)

    def restore_session(self, id: str) -> Session:
        """Bring a forgotten session back, with the memories that were forgotten with it."""
        return self._post(Session, "sessions", id, "restore")

    def session(self, id: str) -> Session:
        """Return one session, by its id or a unique part of it."""
        return self._get(Session, "sessions", id)

    def sessions(
        self, *, project: str | None = None, active: bool | None = None, deleted: bool = False, limit: int = 50
    ) -> list[Session]:
        """List sessions, the latest first; `active` chooses those that have not, or have, ended."""
        filters = {"project": project, "active": active, "deleted": deleted or None}
        return self._pages(SessionPage, "sessions", limit, "sessions", **filters)

    def session_context(self, memory_id: str) -> SessionContext | None:
        """Return the session that used a memory last, and how; None where no session did."""
        return self._get(SessionContext, "memories", memory_id, "session")

    def add_turn(
        self,
        role: str,
        text: str,
        *,
        conversation: str,
        project: str | None = None,
        id: str | None = None,
        redact: bool = True,
        allow: Sequence[str] = (),
    ) -> Memory:
        """Remember a turn of a conversation that goes on; see `Memorist.add_turn`."""
        return self._post(
            Memory, "conversations", conversation, "turns", role=role, text=text, project=project, turn=id,
            redact=redact, allow=list(allow),
        )  # fmt: skip
