"""The seam to databases: the verbs every backend speaks. One store serves one namespace and sees nothing else."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memorist.documents import ChunkLocation, Document, FileDraft, IndexedFile, StoredChunk
from memorist.records import (
    CheckReport,
    ConversationBatch,
    Decay,
    Fact,
    FactDraft,
    Feedback,
    Filter,
    Match,
    Memory,
    MemoryDraft,
    Page,
    Query,
    Recall,
    Reinforcement,
    Related,
    Relation,
    Row,
    Session,
    SessionContext,
    Stats,
    Term,
    Version,
)
from memorist.store.export_schema import ExportRecord, LoadReport


@dataclass(frozen=True, slots=True)
class Model:
    """Whose vectors are compared."""

    name: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """A memory that waits for its vector; it is made of title and content as they are now."""

    key: int
    title: str | None
    content: str

    @property
    def text(self) -> str:
        return f"{self.title}\n{self.content}" if self.title else self.content


PART_BITS = 16  # number the parts of a memory; of a million characters, the bundled model makes some thousand


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text that is too long for one vector: characters of its content, from `first` up to `last`."""

    text: EmbeddingJob
    first: int
    last: int
    title: str | None = None  # as much of it as leaves room for the part

    @property
    def embedded(self) -> str:
        """What the model gets of it: with the title, which tells what it is a part of."""
        return EmbeddingJob(self.text.key, self.title, self.text.content[self.first : self.last]).text


@dataclass(frozen=True, slots=True)
class AddResult:
    """What became of a draft: stored as new, or known already and reinforced (then nothing is pending)."""

    memory: Memory
    pending: EmbeddingJob | None


@dataclass(frozen=True, slots=True)
class ConversationResult:
    """What became of turns: the ids of those that are new, their texts, how many were known, and new sessions."""

    ids: tuple[str, ...]
    pending: tuple[EmbeddingJob, ...]
    known: int
    sessions: int


@dataclass(frozen=True, slots=True)
class Scope:
    """A filter as both legs of one search take it. `keys`, as JSON, are those of all that passes, if it is little."""

    filter: Filter
    keys: str | None = None


@dataclass(frozen=True, slots=True)
class VectorMatches:
    """
    What the vector leg found, and how many memories have no vector yet to be found by. `unfiltered` is what it would
    have found without a filter.
    """

    matches: Sequence[Match]
    missing: int = 0
    total: int = 0
    unfiltered: Sequence[Match] = ()


@dataclass(frozen=True, slots=True)
class KeywordMatches:
    """
    What the keyword leg found, and the words of the question that may stand in no memory. `all_keys` are those of
    everything that holds one of the words, where the leg came across them.
    """

    matches: list[Match]
    strange: tuple[str, ...] = ()
    all_keys: Sequence[int] | None = None


class LinkStore(Protocol):
    """What memories have to do with each other."""

    def supersede(self, old: str, new: str, at: datetime | None, said_by: str | None, now: datetime) -> Memory: ...

    def unsupersede(self, old: str, now: datetime) -> Memory: ...

    def relate(
        self, source: str, target: str, kind: str, confidence: float, said_by: str | None, now: datetime
    ) -> Relation: ...

    def unrelate(self, source: str, target: str, kind: str, now: datetime) -> None: ...

    def linked(self, id: str, limit: int, as_of: datetime | None) -> list[Related]: ...

    def replaced(self, id: str) -> list[Memory]: ...


class StrengthStore(Protocol):
    """How much memories matter, and how sure their facts are. `rates` are the decay rates of kinds of facts."""

    def change(self, id: str, share: float, now: datetime, decay: Decay, session: str | None) -> Memory: ...

    def pin(self, id: str, pinned: bool, now: datetime) -> Memory: ...

    def add_fact(self, id: str, draft: FactDraft, now: datetime) -> Fact: ...

    def reinforce_fact(self, id: str, share: float, now: datetime, rates: Mapping[str, float]) -> Fact: ...

    def remove_fact(self, id: str) -> Fact: ...


class SessionStore(Protocol):
    def start(self, id: str, project: str | None, summary: str | None, now: datetime) -> Session: ...

    def end(self, id: str, summary: str | None, now: datetime) -> Session: ...

    def summarise(self, id: str, summary: str | None) -> Session: ...

    def page(self, project: str | None, active: bool | None, limit: int) -> list[Session]: ...

    def whole_id(self, id: str, *, open: bool = False) -> str: ...

    def require(self, id: str) -> Session: ...

    def context(self, id: str) -> SessionContext | None: ...

    def of(self, ids: Sequence[str]) -> list[Session]: ...


class RecallStore(Protocol):
    def record(self, recalls: Sequence[tuple[Recall, Reinforcement]]) -> None: ...

    def page(self, memory: str | None, session: str | None, since: datetime | None, limit: int) -> list[Recall]: ...

    def clear(self, before: datetime | None) -> int: ...


class FeedbackStore(Protocol):
    def put(self, id: str, query: str, good: bool, now: datetime) -> Feedback: ...

    def page(self, memory: str | None, limit: int) -> list[Feedback]: ...


class LensStore(Protocol):
    def put(self, name: str, definition: Mapping[str, Any]) -> None: ...

    def remove(self, name: str) -> bool: ...

    def all(self) -> dict[str, dict[str, Any]]: ...


class DocumentStore(Protocol):
    """Files and their chunks. `chunks` is the store in which the chunks are found, like memories."""

    @property
    def chunks(self) -> "Store": ...

    def known(self) -> dict[str, IndexedFile]: ...

    def texts(self, path: str) -> set[tuple[str | None, str]]: ...

    def put(
        self,
        files: Sequence[FileDraft],
        vectors: Mapping[tuple[str | None, str], NDArray[np.float32]],
        model: Model | None,
        now: datetime,
    ) -> None: ...

    def touch(self, key: int, size: int, modified_at: int) -> None: ...

    def move(self, key: int, path: str, root: str, modified_at: int) -> None: ...

    def remove(self, keys: Sequence[int]) -> int: ...

    def page(self, project: str | None, limit: int) -> list[Document]: ...

    def get(self, path: str) -> Document: ...

    def links(self) -> list[tuple[str, int, str, str]]:
        """Every link of every file: the file's path, line, target, text."""

    def places(self, keys: Sequence[int]) -> dict[int, ChunkLocation]: ...

    def stretches(self, wanted: Sequence[tuple[str, int, int]]) -> list[list[StoredChunk]]: ...


class AgentFileStore(Protocol):
    """Files that are kept as memories, by path, within a project or outside of all."""

    def files(self, path: str, project: str | None) -> list[Memory]:
        """The file of a path or those of a folder, by path; where several took one path, the newest first."""

    def create(self, draft: MemoryDraft) -> AddResult: ...

    def edit(
        self, path: str, project: str | None, change: Callable[[Memory], Mapping[str, Any]], now: datetime
    ) -> tuple[Memory, EmbeddingJob | None]:
        """Change a file as a function of it says, which is called while nobody else can write."""

    def move(self, path: str, to: str, project: str | None, now: datetime) -> int: ...

    def forget(self, path: str, project: str | None, now: datetime) -> int: ...


class RecordLoader(Protocol):
    """One import, in batches."""

    def put(self, lines: Sequence[ExportRecord]) -> LoadReport:
        """Write records; what is there already stays as it is."""


class Store(Protocol):
    """Each verb is one transaction: done whole, or not at all."""

    @property
    def namespace(self) -> str: ...

    @property
    def documents(self) -> DocumentStore: ...

    @property
    def links(self) -> LinkStore: ...

    @property
    def strength(self) -> StrengthStore: ...

    @property
    def sessions(self) -> SessionStore: ...

    @property
    def recalls(self) -> RecallStore: ...

    @property
    def feedback(self) -> FeedbackStore: ...

    @property
    def lenses(self) -> LensStore: ...

    @property
    def notebook(self) -> AgentFileStore: ...

    def add(self, drafts: Sequence[MemoryDraft], reinforcement: Reinforcement) -> list[AddResult]: ...

    def take(self, told: Sequence[ConversationBatch]) -> ConversationResult:
        """Turns of conversations that are not there yet, each in its session. Nothing that is known is changed."""

    def find(self, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory | None]:
        """The live memories with these ids, or unique beginnings or endings of ids, in the order asked."""

    def require(self, id: str) -> Memory:
        """The live memory with this id; NotFound says what became of it otherwise."""

    def page(self, filter: Filter, *, limit: int, cursor: str | None, deleted: bool) -> Page: ...

    def around(self, id: str, filter: Filter, *, before: int, after: int) -> list[Memory]:
        """The memories nearest in time on both sides of one, and itself, in the order they happened."""

    def between(self, filter: Filter, limit: int) -> list[Memory]:
        """What passes a filter, in the order it happened."""

    def update(
        self, id: str, changes: Mapping[str, Any], now: datetime, session: str | None
    ) -> tuple[Memory, EmbeddingJob | None]: ...

    def history(self, id: str) -> list[Version]: ...

    def forget(self, id: str, now: datetime) -> None: ...

    def restore(self, id: str) -> Memory: ...

    def erase(self, ids: Sequence[str]) -> int: ...

    def purge(self, before: datetime | None) -> int:
        """Erase what was forgotten (before a time), and wipe what is left of it in the file."""

    def scope(self, filter: Filter) -> Scope:
        """A filter as both legs of one search take it."""

    def match(
        self, query: Query, scope: Scope, *, limit: int, page: int, weights: Mapping[str, float]
    ) -> KeywordMatches:
        """The keyword leg: what holds the words of the query, best first; a page of it if there is so much."""

    def nearest(self, model: Model, vector: NDArray[np.float32], scope: Scope, *, limit: int) -> VectorMatches:
        """The vector leg: what is closest in meaning, best first; `limit` of them if so many pass the filter."""

    def rows(
        self,
        keys: Sequence[int],
        model: Model | None,
        vector: NDArray[np.float32] | None,
        as_of: datetime | None = None,
    ) -> list[Row]:
        """What ranking and presenting need of these memories, in one read; gone ones are left out."""

    def vector(self, id: str, model: Model, as_of: datetime | None) -> NDArray[np.float32] | None:
        """The vector of a memory, or of what it said at a time; None where it has none."""

    def facets(
        self, query: Query | None, filter: Filter, keys: Sequence[int], fields: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        """Counts by field over all that matches the words of a query, and these keys; with None, over all there is."""

    def held_back(self, query: Query, filter: Filter, keys: Sequence[int]) -> dict[str, int]:
        """How many of all that match the words of a query, and of these keys, each part of a filter keeps out."""

    def known_terms(self, terms: Sequence[Term]) -> set[Term]:
        """Those of the terms that live memories have: beginnings as they are, everything else by its stems."""

    def similar_words(self, word: str) -> list[str]:
        """Words of live memories that one letter or two make of this one, best first."""

    def texts(self, filter: Filter) -> Iterator[tuple[str, str | None, str]]:
        """
        The id, project and text of every memory that passes a filter, in the order they were added. Turns are left out:
        what was said twice was said twice.
        """

    def merge(self, keep: str, others: Sequence[str], now: datetime) -> Memory:
        """Let one memory supersede others and take over their tags, facts and pins."""

    def pending(self, after: int, limit: int) -> Sequence[EmbeddingJob]:
        """Live texts beyond a key that no vector was made of since they were written."""

    def without_vector(self, model: Model, after: int, limit: int) -> Sequence[EmbeddingJob]:
        """Live texts beyond a key that have no vector of this model."""

    def put_vectors(
        self,
        model: Model,
        texts: Sequence[EmbeddingJob],
        vectors: NDArray[np.float32],
        parts: Sequence[Part] = (),
    ) -> None:
        """Store vectors for texts that still say what was embedded: those of the texts, then those of the parts."""

    def drop_other_vectors(self, model: Model) -> int: ...

    def dump(self, *, vectors: bool, types: Collection[str] = ()) -> Iterator[dict[str, Any]]:
        """Every record of this namespace as of one moment, after one that tells what follows; see `carried`."""

    def loader(self) -> RecordLoader: ...

    def backup(self, path: str, *, overwrite: bool) -> None:
        """Copy the whole database, as of one moment, and check the copy."""

    def stats(self, model: str | None) -> Stats: ...

    def check(self, *, repair: bool) -> CheckReport: ...

    def close(self) -> None: ...
