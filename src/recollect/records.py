"""What the stages hand to each other: frozen records, never dicts."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, overload
from uuid import UUID

SECTORS = ("reflective", "semantic", "procedural", "emotional", "episodic")
TIERS = ("session", "project", "global")
MODES = ("hybrid", "keyword", "semantic")
GRAMMARS = ("auto", "or_prefix", "and", "or", "fts5")
FUSIONS = ("convex", "rrf", "linear", "vector_first")

T = TypeVar("T")


def new_id() -> str:
    """A UUIDv7 (RFC 9562): sortable by time to a quarter of a microsecond, the rest random."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    value = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    return str(UUID(int=value))


@dataclass(frozen=True, slots=True)
class Draft:
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


@dataclass(frozen=True, slots=True)
class Memory:
    """One thing that was said, decided or learnt."""

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
    deleted_at: datetime | None = None
    pinned: bool = False

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
    inclusive, `until` exclusive.
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
    What a leg found: a row of the store and how well it fits, higher being better.

    The keyword leg adds whether the row has all words of the query (`whole`), and which share of them it has, rare
    words counting for more (`coverage`).
    """

    key: int
    score: float
    whole: bool = False
    coverage: float = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """
    What ranking looks at of a stored memory; `similarity` is exact, where it has a vector of the active model.

    Ranking sees many rows and a page shows few, so the memory itself is made when it is asked for.
    """

    key: int
    similarity: float | None
    created_at: float
    updated_at: float
    salience: float
    sector: str
    memory: Callable[[], Memory]


class _SequenceOf(Sequence[T]):
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
class Page(_SequenceOf[Memory]):
    """One page of a listing, newest first, and where the next begins (None at the end)."""

    memories: tuple[Memory, ...]
    cursor: str | None

    def _items(self) -> tuple[Memory, ...]:
        return self.memories


@dataclass(frozen=True, slots=True)
class Memories(_SequenceOf[Memory]):
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
    facts: tuple[Any, ...] = ()
    session: Mapping[str, Any] | None = None
    superseded_by: Mapping[str, Any] | None = None
    related_count: int = 0
    trace: Mapping[str, float] = field(default_factory=dict)
    raw: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Results(_SequenceOf[Hit]):
    """
    The answer to a search: a sequence of hits, best first.

    `degraded` says in words what was missing (no model, vectors yet to be made); None means all was there.
    `hidden` counts what a threshold held back, by the threshold's name. `plan` tells how the question was
    understood, if `explain` was asked for.
    """

    hits: tuple[Hit, ...]
    query: str
    mode: str
    profile: str
    took_ms: float
    degraded: str | None = None
    suggestion: str | None = None
    hidden: Mapping[str, int] = field(default_factory=dict)
    facets: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] | None = None

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


@dataclass(frozen=True, slots=True)
class Report:
    """What `check` found, and what it mended."""

    ok: bool
    problems: tuple[str, ...]
    repaired: tuple[str, ...]
    skipped: tuple[str, ...]
    memories: int
    vectors: int
