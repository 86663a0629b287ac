"""What the stages hand to each other: frozen records, never dicts.

What a memory lives through: sessions, relations, recalls, and the lenses it is seen with. Frozen records, too.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload
from uuid import UUID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SECTORS = ("reflective", "semantic", "procedural", "emotional", "episodic")
GLOBAL = "global"  # the tier of what holds in every project
TIERS = ("session", "project", GLOBAL)
MODES = ("hybrid", "keyword", "semantic")
GRAMMARS = ("auto", "or_prefix", "and", "or", "fts5")
FUSIONS = ("convex", "rrf", "linear", "vector_first")
DETAILS = ("index", "snippet", "full")
RECORDING = ("off", "log", "reinforce")
NEAR = ("off", "report", "merge")
FACETS = ("project", "sector", "tier", "kind", "tag", "source", "fact_kind", "month")
TURN = "turn"  # the kind of what was said in a conversation
FILE = "file"  # the kind of a file that an agent keeps in memory
SUPERSEDES = "supersedes"
OTHER_FACTS = "kv"  # facts of a kind that no table of decay rates lists decay like this one

# Relevance is a likelihood: from here on a memory is rather about the question than not.
RELEVANT = 0.5

T = TypeVar("T")


def new_id() -> str:
    """A UUIDv7 (RFC 9562): sortable by time to a quarter of a microsecond, the rest random."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    value = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    return str(UUID(int=value))


class _Mapped:
    """A record that can be read like a mapping, too: `hit.session.id` and `hit.session["id"]` are the same."""

    __slots__ = ()

    def keys(self) -> tuple[str, ...]:
        return tuple(each.name for each in fields(self))  # type: ignore[arg-type]

    def __getitem__(self, key: str) -> Any:
        if key not in self.keys():
            raise KeyError(key)
        return getattr(self, key)


@dataclass(frozen=True, slots=True)
class FactDraft:
    """A fact on its way in."""

    id: str
    text: str
    kind: str | None
    subject: str | None
    predicate: str | None
    object: str | None
    confidence: float | None
    decay_rate: float | None


@dataclass(frozen=True, slots=True)
class Fact(_Mapped):
    """
    One thing a memory says, and how sure it is.

    `confidence` was so at `reinforced_at`; `effective` is what is left of it at the time it is read, after
    `decay_rate` a day (its own, or that of its kind). Nothing is written back.
    """

    id: str
    memory_id: str
    text: str
    kind: str | None
    subject: str | None
    predicate: str | None
    object: str | None
    confidence: float
    decay_rate: float | None
    created_at: datetime
    reinforced_at: datetime
    effective: float = 1.0

    def confidence_at(self, moment: datetime, rates: Mapping[str, float]) -> float:
        """What is left of its confidence at a time; `rates` are those of kinds, for a fact without one of its own."""
        rate = self.rate(rates)
        days = max(0.0, (moment - self.reinforced_at).total_seconds()) / 86_400
        return self.confidence * math.exp(-rate * days)

    def rate(self, rates: Mapping[str, float]) -> float:
        if self.decay_rate is not None:
            return self.decay_rate
        return rates.get(self.kind or OTHER_FACTS, rates.get(OTHER_FACTS, 0.0))


@dataclass(frozen=True, slots=True)
class SessionRef(_Mapped):
    """The session a memory comes from."""

    id: str
    started_at: datetime
    summary: str | None
    project: str | None


@dataclass(frozen=True, slots=True)
class Successor(_Mapped):
    """What replaced a memory: the newest of the chain, with the beginning of its text."""

    id: str
    content: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NearDuplicate(_Mapped):
    """An older memory that says almost the same, and how much of the words they share (0..1)."""

    id: str
    content: str
    resemblance: float
    merged: bool = False


@dataclass(frozen=True, slots=True)
class MemoryDraft:
    """A memory on its way in: checked, but not stored yet."""

    id: str
    content: str
    project: str | None
    sector: str
    tier: str
    kind: str | None
    tags: tuple[str, ...]
    salience: float
    source: str | None
    title: str | None
    summary: str | None
    metadata: Mapping[str, Any]
    created_at: datetime
    recorded_at: datetime
    session: str | None = None
    facts: tuple[FactDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """
    One thing that was said, decided or learnt.

    `created_at` is when it happened, `recorded_at` when it was written down. From `valid_until` on it is superseded.
    `access_count` and `accessed_at` count recorded recalls. `near` is set by `add` alone.
    """

    id: str
    content: str
    namespace: str
    project: str | None
    sector: str
    tier: str
    kind: str | None
    tags: tuple[str, ...]
    salience: float
    source: str | None
    title: str | None
    summary: str | None
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    reinforced_at: datetime
    recorded_at: datetime
    deleted_at: datetime | None = None
    pinned: bool = False
    valid_until: datetime | None = None
    superseded_by: Successor | None = None
    session: SessionRef | None = None
    facts: tuple[Fact, ...] = ()
    related_count: int = 0
    access_count: int = 0
    accessed_at: datetime | None = None
    near: NearDuplicate | None = None

    @property
    def superseded(self) -> bool:
        return self.valid_until is not None

    @property
    def short_id(self) -> str:
        """The last 8 characters: enough to name it in almost any store."""
        return self.id[-8:]


@dataclass(frozen=True, slots=True)
class Version:
    """What a memory said before an update."""

    content: str
    title: str | None
    tags: tuple[str, ...]
    replaced_at: datetime


@dataclass(frozen=True, slots=True)
class Filter:
    """
    Which memories may be found at all.

    Within one field any of the values will do, except for `tags`, where all must be there. `since` is
    inclusive, `until` exclusive. `month` is a local one, as 2026-03. `superseded` lets superseded ones through.
    With `include_global`, memories of no project and of the tier `global` pass, whatever the `project`.
    `as_of` asks what was so at that time; all other fields then hold for that time.
    """

    project: tuple[str, ...] = ()
    sector: tuple[str, ...] = ()
    tier: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    min_salience: float | None = None
    session: str | None = None
    fact_kind: tuple[str, ...] = ()
    month: tuple[str, ...] = ()
    pinned: bool | None = None
    recalled: bool | None = None
    superseded: bool = True
    include_global: bool = False
    as_of: datetime | None = None


EVERYTHING = Filter()


@dataclass(frozen=True, slots=True)
class Term:
    """
    A word or phrase to look for, free of any operator.

    An `exact` one is a phrase or an identifier, never a stop word; a `literal` one ends in symbols that no index
    holds, such as C++.
    """

    text: str
    prefix: bool = False
    exact: bool = False
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """
    A question, understood.

    `terms` are looked for; `spare` are words so common that they come back only when the page is not full.
    `every` asks for all terms first; `any_of` allows some of them (after those with all, if both are set).
    Without `stemmed`, words are looked for as they are. `raw` is an expression in the index's own syntax, which falls
    back to the terms where it has an error.
    """

    text: str
    terms: tuple[Term, ...] = ()
    spare: tuple[Term, ...] = ()
    every: bool = True
    any_of: bool = True
    stemmed: bool = True
    raw: str | None = None

    def __bool__(self) -> bool:
        return bool(self.terms or self.raw)


@dataclass(frozen=True, slots=True)
class Match:
    """
    A candidate of a leg: the key of a memory and its score there, higher being better.

    The keyword leg adds if the memory has all words of the query, and the share of them it has, rare words counting for
    more (`coverage`).
    """

    key: int
    score: float
    has_all_words: bool = False
    coverage: float = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """
    The data of a memory that ranking needs. `similarity` is exact if it has a vector of the active model; of a memory
    with parts it is that of the nearest part, combined with that of the whole text the more parts there are. `passage`
    are the characters of that part.

    `session` is the id of the session it was created in, and `position` its place among the memories created there.
    Ranking reads many rows and a page shows few, so the memory itself, and its facts, are made on demand.
    """

    key: int
    similarity: float | None
    vector: "NDArray[np.float16] | None" = field(compare=False)  # of the active model
    created_at: float
    updated_at: float
    accessed_at: float | None
    reinforced_at: float
    salience: float
    sector: str
    kind: str | None
    source: str | None
    tags: tuple[str, ...]
    superseded: bool
    session: str | None
    position: int | None
    length: int
    facts: Callable[[], tuple[Fact, ...]]
    memory: Callable[[], Memory]
    passage: tuple[int, int] | None = None


class SequenceOf(Sequence[T]):
    """A record that is, first of all, a sequence of what it holds."""

    __slots__ = ()

    def _items(self) -> tuple[T, ...]:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._items()[index]

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[T]:
        return iter(self._items())


@dataclass(frozen=True, slots=True)
class Page(SequenceOf[Memory]):
    """One page of a listing, newest first, and where the next begins (None at the end)."""

    memories: tuple[Memory, ...]
    cursor: str | None

    def _items(self) -> tuple[Memory, ...]:
        return self.memories


@dataclass(frozen=True, slots=True)
class Memories(SequenceOf[Memory]):
    """The memories asked for by id, in that order, and the ids nobody has."""

    memories: tuple[Memory, ...]
    missing: tuple[str, ...] = ()

    def _items(self) -> tuple[Memory, ...]:
        return self.memories


@dataclass(frozen=True, slots=True)
class Hit:
    """
    A memory that answers, and why.

    `score` orders (0..1 within one answer), `relevance` tells how likely the memory is about the question at all
    (0..1, comparable between questions). `trace` names what each ranking step added; its values sum up to `score`.
    `raw` holds the numbers before they were brought to one scale.
    """

    memory: Memory
    score: float
    relevance: float
    match: tuple[str, ...]
    snippet: str
    highlights: tuple[tuple[int, int], ...] = ()
    keyword_score: float | None = None
    similarity: float | None = None
    confidence: float = 1.0
    facts: tuple[Fact, ...] = ()
    trace: Mapping[str, float] = field(default_factory=dict)
    raw: Mapping[str, float] = field(default_factory=dict)

    @property
    def session(self) -> SessionRef | None:
        """The session it comes from."""
        return self.memory.session

    @property
    def superseded_by(self) -> Successor | None:
        """What replaced it, if anything did."""
        return self.memory.superseded_by

    @property
    def related_count(self) -> int:
        """How many live memories it is linked with."""
        return self.memory.related_count


@dataclass(frozen=True, slots=True)
class Results(SequenceOf[Hit]):
    """
    The answer to a search: a sequence of hits, best first.

    `degraded` says in words what was missing (no model, vectors yet to be made); None means all was there.
    `suggestion` is the question as it was perhaps meant, where its words find little. `hidden` counts what each filter
    and threshold held back, by its name. `facets` count the whole matching set. `plan` tells how the question was
    understood, if `explain` was asked for. `relevant` is False where nothing that was found is likely to answer.
    """

    hits: tuple[Hit, ...]
    query: str
    mode: str
    profile: str
    took_ms: float
    degraded: str | None = None
    suggestion: str | None = None
    hidden: Mapping[str, int] = field(default_factory=dict)
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    plan: Mapping[str, Any] | None = None
    detail: str = "full"
    lens: str | None = None

    @property
    def relevant(self) -> bool:
        return any(hit.relevance >= RELEVANT for hit in self.hits)

    def _items(self) -> tuple[Hit, ...]:
        return self.hits


@dataclass(frozen=True, slots=True)
class Stats:
    """The state of a store in numbers."""

    path: str
    namespace: str
    memories: int
    deleted: int
    projects: int
    vectors: int
    pending: int
    model: str | None
    models: Mapping[str, int]
    size_bytes: int
    schema: str
    sqlite: str
    superseded: int = 0
    pinned: int = 0
    facts: int = 0
    relations: int = 0
    sessions: int = 0
    recalls: int = 0
    documents: int = 0
    chunks: int = 0
    chunks_pending: int = 0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check` found, and what it mended."""

    ok: bool
    problems: tuple[str, ...]
    repaired: tuple[str, ...]
    skipped: tuple[str, ...]
    memories: int
    vectors: int


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
class ConversationBatch:
    """A stretch of a conversation on its way in: the session it is, and turns of it, at least one, in their order."""

    id: str
    project: str | None
    summary: str | None
    turns: tuple[MemoryDraft, ...]


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
class RecalledMemory:
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
    memories: tuple[RecalledMemory, ...]


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
