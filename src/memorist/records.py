"""Records that the stages exchange: memories, filters, queries, hits, sessions, relations, recalls, lenses."""

import hashlib
import math
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, overload

from msgspec import Struct, StructMeta, field

from memorist.errors import ChangedMeanwhile, InvalidInput
from memorist.ids import shorten_id
from memorist.notebook import html_table, one_line

SECTORS = ("reflective", "semantic", "procedural", "emotional", "episodic")
GLOBAL = "global"  # the tier of memories that hold in every project
TIERS = ("session", "project", GLOBAL)
MODES = ("hybrid", "keyword", "semantic")
GRAMMARS = ("auto", "or_prefix", "and", "or", "fts5")
FUSIONS = ("convex", "rrf", "linear", "vector_first")
DETAILS = ("index", "snippet", "full")
RECORD_MODES = ("off", "log", "reinforce")
SURFACES = ("library", "cli", "hook", "mcp", "chat", "http")  # by which a search can come
SERVED = ("mcp", "http")  # surfaces whose callers may be on other machines
AGENT_SURFACES = ("hook", "mcp", "chat")  # what they find goes into the prompt of a model
NEAR_ACTIONS = ("off", "report", "merge")
IF_EXISTS = ("update", "error", "keep")
FACETS = ("project", "sector", "tier", "kind", "tag", "source", "fact_kind", "month")
TURN = "turn"  # the kind of a turn of a conversation
CHAT = "chat"  # the format of conversations that are recorded while they go on
ASSISTANT = "assistant"  # the role of a turn that is not the user's
FILE = "file"  # the kind of a file that an agent writes for itself
SUPERSEDES = "supersedes"
RECORDED_CHARACTERS = 1_000  # of a question that is recorded
_DEFAULT_FACT_KIND = "kv"  # whose decay rate applies to kinds that a table does not list

# Relevance is a probability: from here on a memory is more likely about the question than not.
RELEVANT = 0.5

T = TypeVar("T")


class _MappingRecord(Struct, frozen=True):
    """A record that can also be read like a mapping: `hit.session.id` and `hit.session["id"]` are the same."""

    def keys(self) -> tuple[str, ...]:
        return self.__struct_fields__

    def __getitem__(self, key: str) -> Any:
        if key not in self.keys():
            raise KeyError(key)
        return getattr(self, key)


class FactDraft(Struct, frozen=True):
    """A fact that is checked, but not stored yet."""

    id: str
    text: str
    kind: str | None
    subject: str | None
    predicate: str | None
    object: str | None
    confidence: float | None
    decay_rate: float | None
    reinforced_at: datetime | None = None  # now, if it is not given


class Fact(_MappingRecord, frozen=True):
    """
    A statement of a memory, with its confidence.

    `confidence` held at `reinforced_at`; `effective` is the confidence when the fact is read, after a decay of
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
        """Return its confidence after decay; `rates` are those of kinds, for a fact without a rate of its own."""
        rate = self.rate(rates)
        days = max(0.0, (moment - self.reinforced_at).total_seconds()) / 86_400
        return self.confidence * math.exp(-rate * days)

    def rate(self, rates: Mapping[str, float]) -> float:
        """Return its own decay rate, or that of its kind."""
        if self.decay_rate is not None:
            return self.decay_rate
        return rates.get(self.kind or _DEFAULT_FACT_KIND, rates.get(_DEFAULT_FACT_KIND, 0.0))


class SessionRef(_MappingRecord, frozen=True):
    """The session a memory comes from."""

    id: str
    started_at: datetime
    summary: str | None
    project: str | None


class Successor(_MappingRecord, frozen=True):
    """The memory that replaced another: the newest of the chain, with the beginning of its text."""

    id: str
    content: str
    created_at: datetime
    project: str | None = None


class NearDuplicate(_MappingRecord, frozen=True):
    """An older memory that says almost the same, and the share of words in common (Jaccard, 0..1)."""

    id: str
    content: str
    resemblance: float
    merged: bool = False


class MemoryDraft(NamedTuple):
    """
    A memory that is checked, but not stored yet.

    With `if_exists` it is known by the id that the caller chose, which may be taken: then it replaces that memory
    ("update"), but for a salience that was not given (`keeps_salience`); is refused ("error"); or left out ("keep").
    Without, it is known by its text.
    """

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
    expires_at: datetime | None = None
    session: str | None = None
    facts: tuple[FactDraft, ...] = ()
    if_exists: str | None = None
    keeps_salience: bool = False


class Memory(Struct, frozen=True):
    """
    One stored text with its metadata.

    `created_at` is when it happened, `recorded_at` when it was stored. It is superseded since `valid_until`. From
    `expires_at` on, nothing finds it.
    `access_count` and `accessed_at` tell of recorded recalls. `near` is set by `add` alone, and `degraded`
    by `add` and `update`: why the text waits for its vector, if it does.
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
    expires_at: datetime | None = None
    pinned: bool = False
    valid_until: datetime | None = None
    superseded_by: Successor | None = None
    session: SessionRef | None = None
    facts: tuple[Fact, ...] = ()
    related_count: int = 0
    access_count: int = 0
    accessed_at: datetime | None = None
    near: NearDuplicate | None = None
    degraded: str | None = None

    def __repr__(self) -> str:
        labels = [f"{name}={value}" for name in ("project", "kind") if (value := getattr(self, name)) is not None]
        about = " ".join([f"{self.created_at:%Y-%m-%d}", *labels, *(f"#{tag}" for tag in self.tags)])
        return f"<Memory {one_line(f'{self.short_id} {about}', 200)}: {one_line(self.content or self.summary or '')!r}>"

    def _repr_html_(self) -> str:
        named = ("id", "content", "title", "summary", "project", "kind", "tags", "created_at", "metadata")
        rows = [(name, getattr(self, name)) for name in named if getattr(self, name)]
        return html_table(f"Memory {self.short_id}", ("field", "value"), rows)

    @property
    def superseded(self) -> bool:
        return self.valid_until is not None

    @property
    def version(self) -> str:
        """A name for all that a person can change of it, and nothing that changes by being read."""
        facts = [(fact.id, fact.text, fact.confidence, fact.decay_rate) for fact in self.facts]
        successor = self.superseded_by.id if self.superseded_by else None
        state = (
            self.id, self.updated_at.timestamp(), self.content, self.title, self.tags, self.salience, self.pinned,
            self.deleted_at, self.valid_until, self.expires_at, successor, facts,
        )  # fmt: skip
        return hashlib.sha256(repr(state).encode(errors="replace")).hexdigest()[:32]

    @property
    def short_id(self) -> str:
        """The last 8 characters of its id, which are unique in almost any store; all of an id that you chose."""
        return shorten_id(self.id)


def check_version(wanted: str | Sequence[str] | None) -> Callable[[Memory], None] | None:
    """Return a check that raises ChangedMeanwhile for a memory of another version."""
    if wanted is None:
        return None
    versions = (wanted,) if isinstance(wanted, str) else wanted
    if not isinstance(versions, list | tuple) or not all(isinstance(one, str) for one in versions):
        raise InvalidInput(f"if_version must be the version of a memory, or several, not {wanted!r:.60}")

    def check(memory: Memory) -> None:
        if memory.version not in versions:
            raise ChangedMeanwhile(f"memory {memory.short_id} has been changed since it was read; read it again")

    return check


class Version(Struct, frozen=True):
    """A memory's text before an update."""

    content: str
    title: str | None
    tags: tuple[str, ...]
    replaced_at: datetime


MAX_PHRASE_WORDS = 32  # of a phrase or an identifier in a query; what has all of these is what was meant


class Term(Struct, frozen=True):
    """
    A word or phrase of a query, without operators.

    An `exact` one is a phrase or an identifier, never a stop word; a `literal` one ends in symbols that the index does
    not hold, such as C++.
    """

    text: str
    prefix: bool = False
    exact: bool = False
    literal: bool = False
    is_phrase: bool = False  # of several words, in quotation marks


class Query(Struct, frozen=True):
    """
    A parsed query.

    `terms` are searched for; `stopwords` only when the page is not full. `every` puts matches of all terms first;
    `any_of` allows matches of some. Without `stemmed`, words match as they are written. `raw` is an
    expression in the index's own syntax; where it has an error, the terms are used.
    """

    text: str
    terms: tuple[Term, ...] = ()
    stopwords: tuple[Term, ...] = ()
    every: bool = True
    any_of: bool = True
    stemmed: bool = True
    raw: str | None = None

    def __bool__(self) -> bool:
        return bool(self.terms or self.raw)


class Model(Struct, frozen=True):
    """An embedding model. Only vectors of the same model are compared."""

    name: str
    dimensions: int


# A search makes a hundred of the following records, and shows ten: tuples are the quickest to make.


class Match(NamedTuple):
    """
    A match of a leg: the key of a row and its score, higher being better.

    The keyword leg adds whether the row has all words of the query, and the share of them it has, rare words counting
    for more (`coverage`).
    """

    key: int
    score: float
    has_all_words: bool = False
    coverage: float = 1.0


class _RecordSequenceType(StructMeta, ABCMeta):
    """The type of records that are sequences, too."""


class RecordSequence(Sequence[T], Struct, frozen=True, metaclass=_RecordSequenceType):
    """A record that behaves as a sequence of the items it holds."""

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


class Page(RecordSequence[Memory], frozen=True):
    """One page of a listing, newest first, and the cursor of the next (None at the end)."""

    memories: tuple[Memory, ...]
    cursor: str | None

    def _items(self) -> tuple[Memory, ...]:
        return self.memories


class Memories(RecordSequence[Memory], frozen=True):
    """Memories in the order their ids were asked for, and the ids that were not found."""

    memories: tuple[Memory, ...]
    missing: tuple[str, ...] = ()

    def _items(self) -> tuple[Memory, ...]:
        return self.memories


class Hit(Struct, frozen=True):
    """
    A memory found by a search, with its scores.

    `score` orders one answer (0..1); `relevance` is the probability that the memory is about the question (0..1,
    comparable across questions). `trace` holds what each ranking step added; its values sum up to `score`. `raw` holds
    the scores before scaling.
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

    def __repr__(self) -> str:
        numbers = f"score {self.score:.2f}, relevance {self.relevance:.2f}, by {' and '.join(self.match)}"
        text = self.memory.content or self.memory.summary or ""
        return f"<Hit {one_line(self.memory.short_id, 100)}: {one_line(text)!r}, {numbers}>"

    @property
    def session(self) -> SessionRef | None:
        """The session it comes from."""
        return self.memory.session

    @property
    def superseded_by(self) -> Successor | None:
        """The memory that replaced it, if one did."""
        return self.memory.superseded_by

    @property
    def is_superseded(self) -> bool:
        """True if another memory replaced it, also where that one is not shown."""
        return self.memory.superseded

    @property
    def related_count(self) -> int:
        """The number of its links with live memories, supersession among them."""
        return self.memory.related_count


class Results(RecordSequence[Hit], frozen=True):
    """
    The answer to a search: a sequence of hits, best first.

    `degraded` says in words what was missing (no model, vectors not made yet); None means nothing was. `suggestion` is
    the query with misspelt words corrected, where its words find little. `hidden` counts what each filter and threshold
    held back, by name. `facets` count all that matches. `plan` tells how the query was parsed, if `explain` was asked
    for. `relevant` is False where no hit is likely to answer.
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

    def __repr__(self) -> str:
        lines = [f"{place:>4}. {hit!r}" for place, hit in enumerate(self.hits, 1)]
        return "\n".join([f"<Results for {one_line(self.query)!r}: {len(self.hits)} in {self.took_ms:.1f} ms>", *lines])

    def _repr_html_(self) -> str:
        rows = [
            (f"{hit.score:.2f}", f"{hit.relevance:.2f}", hit.memory.short_id, hit.snippet, hit.memory.project)
            for hit in self.hits
        ]
        caption = f"{len(self.hits)} results for {one_line(self.query)!r} in {self.took_ms:.1f} ms"
        return html_table(caption, ("score", "relevance", "id", "text", "project"), rows)

    @property
    def relevant(self) -> bool:
        """True if any hit is more likely about the question than not."""
        return any(hit.relevance >= RELEVANT for hit in self.hits)

    def _items(self) -> tuple[Hit, ...]:
        return self.hits


class Session(Struct, frozen=True):
    """A conversation or a piece of work in which memories were made and used."""

    id: str
    namespace: str
    project: str | None
    started_at: datetime
    ended_at: datetime | None
    summary: str | None
    memories: int = 0


class ConversationBatch(Struct, frozen=True):
    """Turns of one conversation that are to be stored, at least one, in their order, and the session they belong to."""

    id: str
    project: str | None
    summary: str | None
    turns: tuple[MemoryDraft, ...]


class SessionContext(Struct, frozen=True):
    """The session a memory was last used in, how (`usage`), and how many memories that session has."""

    session: Session
    usage: str
    at: datetime

    @property
    def memories(self) -> int:
        return self.session.memories


class Timeline(RecordSequence[Memory], frozen=True):
    """Memories in the order they happened, the anchor among them, and the sessions they come from."""

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


class Relation(Struct, frozen=True):
    """A link between two memories: `source` `kind` `target`."""

    source: str
    target: str
    kind: str
    confidence: float
    said_by: str | None
    valid_from: datetime
    valid_until: datetime | None = None


class Related(Struct, frozen=True):
    """
    A memory related to another: by links, the most certain of which is `relation`, or by similarity (then it is None).
    """

    memory: Memory
    relation: Relation | None = None
    similarity: float | None = None
    further_relations: tuple[Relation, ...] = ()


class Decay(Struct, frozen=True):
    """Decay rates a day: of salience by sector, and of the confidence of facts by kind."""

    sectors: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)


class RecalledMemory(Struct, frozen=True):
    """A memory in the answer to a recorded search, with the ids of its facts and its text in an agent's prompt."""

    id: str
    place: int
    score: float
    relevance: float
    facts: tuple[str, ...] = ()
    prompt: str | None = None


class Recall(Struct, frozen=True):
    """
    A recorded search and what it found. `query` is None once a memory it found was erased.

    `surface` is one of SURFACES. `tokens` is the length of what came into a prompt, or None if it was only an answer.
    """

    id: str
    query: str | None
    at: datetime
    mode: str
    profile: str
    lens: str | None
    session: str | None
    memories: tuple[RecalledMemory, ...]
    surface: str | None = None
    tokens: int | None = None


class Feedback(Struct, frozen=True):
    """A judgement whether a memory, by its id, was a good answer to a query."""

    memory: str
    query: str
    good: bool
    at: datetime


class Reinforcement(Struct, frozen=True):
    """The share by which salience rises, and its decay in the meantime."""

    share: float = 0.0
    decay: Decay = Decay()


class Lens(Struct, frozen=True):
    """
    A saved view: filters, a profile, and boosts.

    `boosts` are factors by field and value, as {"tag": {"decision": 1.5}}; `recency` is that of a profile.
    """

    name: str
    filters: Mapping[str, Any] = field(default_factory=dict)
    boosts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    recency: Mapping[str, Any] | None = None
    profile: str | None = None
