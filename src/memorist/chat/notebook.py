"""A conversation written down while it goes on, so that whatever happens, at most the exchange under way is lost."""

from collections.abc import Callable, Iterable
from itertools import dropwhile

from memorist.chat.base import Message
from memorist.engine import Memorist
from memorist.engine.conversing import CHAT
from memorist.errors import InvalidInput, MemoristError, NotFound
from memorist.life import Session
from memorist.records import TURN, new_id

MOST_SESSIONS = 1000  # that are looked through for the latest conversation
MOST_TURNS = 200  # of an earlier conversation that the model is told
_PREFIX = f"{CHAT}:"


class Notebook:
    """Takes turns down. What could not be written is kept, and written with what comes next."""

    def __init__(
        self,
        memory: Memorist | None,
        conversation: str | None = None,
        *,
        project: str | None,
        redact: bool,
        warn: Callable[[str], None],
    ) -> None:
        """Without a memory, nothing is written down; with a conversation, it goes on there."""
        self._memory, self._project, self._redact, self._warn = memory, project, redact, warn
        self._conversation = conversation or new_id()
        self._waiting: list[tuple[str, str, str]] = []  # id, role, text
        self._written = 0
        self._warned: str | None = None

    @property
    def session(self) -> str:
        """The id of the session that it is, or will be."""
        return f"{_PREFIX}{self._conversation}"

    @property
    def saved(self) -> bool:
        """Whether there is anything of it, and nothing is missing."""
        return self._written > 0 and not self._waiting

    def write(self, turns: Iterable[tuple[str, str]]) -> None:
        """Write turns down, each a role and a text, and what had to wait before them."""
        if self._memory is None:
            return
        self._waiting += [(new_id(), role, text) for role, text in turns]
        while self._waiting and self._taken_down(self._memory, *self._waiting[0]):
            self._waiting.pop(0)

    def _taken_down(self, memory: Memorist, id: str, role: str, text: str) -> bool:
        """Whether nothing more can be done about a turn: it is written, or nobody could write it."""
        try:
            memory.add_turn(
                role, text, conversation=self._conversation, project=self._project, id=id, redact=self._redact
            )
            self._written += 1
        except InvalidInput as exc:
            self._warn(f"a turn of this conversation cannot be saved: {exc}")
        except MemoristError as exc:
            if str(exc) != self._warned:
                self._warn(f"this conversation is not being saved: {exc}")
            self._warned = str(exc)
            return False
        return True


def conversation_of(session: Session) -> str:
    """What a conversation is called by; its session has to be one of ours."""
    if not session.id.startswith(_PREFIX):
        raise InvalidInput(f"session {session.id} is no conversation of `memorist chat`, which are named {_PREFIX}...")
    return session.id.removeprefix(_PREFIX)


def latest(memory: Memorist, project: str | None) -> Session:
    """The conversation that was begun last."""
    for session in memory.sessions(project=project, limit=MOST_SESSIONS):
        if session.id.startswith(_PREFIX):
            return session
    raise NotFound("there is no conversation to go on with yet; `memorist chat` begins one")


def said_in(memory: Memorist, session: Session) -> list[Message]:
    """What was said, in order; of a very long conversation, the end."""
    turns = memory.list(session=session.id, kind=TURN, limit=MOST_TURNS)
    said = (Message(str(turn.metadata.get("role")), turn.content) for turn in reversed(turns))
    return list(dropwhile(lambda message: message.role != "user", said))  # as every provider wants it
