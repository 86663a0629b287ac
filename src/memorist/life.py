"""What a memory lives through: sessions, relations, recalls, and the lenses it is seen with. Frozen records, too."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memorist.records import Draft, Memory, SequenceOf


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation or a piece of work in which memories were made and used."""

    id: str
    namespace: str
    project: str | None
    started_at: datetime
    ended_at: datetime | None
    summary: str | None
    memories: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """A stretch of a conversation on its way in: the session it is, and turns of it, at least one, in their order."""

    id: str
    project: str | None
    summary: str | None
    turns: tuple[Draft, ...]


@dataclass(frozen=True, slots=True)
class SessionContext:
    """The session a memory was last used in, how (`usage`), and how many memories that session has."""

    session: Session
    usage: str
    at: datetime

    @property
    def memories(self) -> int:
        return self.session.memories


@dataclass(frozen=True, slots=True)
class Timeline(SequenceOf[Memory]):
    """Memories in the order they happened, the anchor among them, and every session they come from, once."""

    memories: tuple[Memory, ...]
    anchor: str | None
    sessions: tuple[Session, ...]

    @property
    def before(self) -> tuple[Memory, ...]:
        return self.memories[: self._place()]

    @property
    def after(self) -> tuple[Memory, ...]:
        return self.memories[self._place() + 1 :]

    def _place(self) -> int:
        return next((at for at, memory in enumerate(self.memories) if memory.id == self.anchor), len(self.memories))

    def _items(self) -> tuple[Memory, ...]:
        return self.memories


@dataclass(frozen=True, slots=True)
class Relation:
    """What was said of two memories: `source` `kind` `target`."""

    source: str
    target: str
    kind: str
    confidence: float
    said_by: str | None
    valid_from: datetime
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Related:
    """A memory that belongs to another: by a relation, or by being similar (then `relation` is None)."""

    memory: Memory
    relation: Relation | None = None
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Decay:
    """What is lost a day: of salience, by sector, and of the confidence of facts, by kind."""

    sectors: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recalled:
    """One memory in the answer to a question, with the facts it had."""

    id: str
    place: int
    score: float
    relevance: float
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recall:
    """What was asked, when and where, and what came back. `query` is None once a memory it found was erased."""

    id: str
    query: str | None
    at: datetime
    mode: str
    profile: str
    lens: str | None
    session: str | None
    memories: tuple[Recalled, ...]


@dataclass(frozen=True, slots=True)
class Feedback:
    """What was said of an answer: whether a memory, by its id, was a good one to a question."""

    memory: str
    query: str
    good: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Reinforcement:
    """How much a recall adds to the salience of what it found, and what salience loses meanwhile."""

    share: float = 0.0
    decay: Decay = Decay()


@dataclass(frozen=True, slots=True)
class Lens:
    """
    A way of looking, by name: filters, a profile, and what counts for more.

    `boosts` are factors by field and value, as {"tag": {"decision": 1.5}}; `recency` is that of a profile.
    """

    name: str
    filters: Mapping[str, Any] = field(default_factory=dict)
    boosts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    recency: Mapping[str, Any] | None = None
    profile: str | None = None
