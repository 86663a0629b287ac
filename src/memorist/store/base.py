"""The store protocol: the operations every database backend offers. A store serves one namespace and sees no other."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

PART_BITS = 16  # number the parts of a memory; of a million characters, the bundled model makes some thousand


@dataclass(frozen=True, slots=True)
class Model:
    """An embedding model. Only vectors of the same model are compared."""

    name: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """A memory that needs a vector, made of its title and content as they are now."""

    key: int
    title: str | None
    content: str

    @property
    def text(self) -> str:
        return f"{self.title}\n{self.content}" if self.title else self.content


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text too long for one vector: the characters of its content from `first` up to `last`."""

    job: EmbeddingJob
    first: int
    last: int
    title: str | None = None  # shortened to leave room for the part

    @property
    def embedding_text(self) -> str:
        """The text given to the model: the part, under the title of the memory."""
        return EmbeddingJob(self.job.key, self.title, self.job.content[self.first : self.last]).text


@dataclass(frozen=True, slots=True)
class AddResult:
    """The memory that holds a draft. `pending` is None if its text was known already and was reinforced."""

    memory: Memory
    pending: EmbeddingJob | None


@dataclass(frozen=True, slots=True)
class ConversationResult:
    """The ids and embedding jobs of new turns, the number of turns known already, and the number of new sessions."""

    ids: tuple[str, ...]
    pending: tuple[EmbeddingJob, ...]
    known: int
    sessions: int


@dataclass(frozen=True, slots=True)
class Scope:
    """A filter, resolved once for both legs. `keys` are those of all memories that pass, ascending, if they are few."""

    filter: Filter
    keys: NDArray[np.int64] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class VectorMatches:
    """
    The matches of the vector leg. `unembedded` of the `total` memories have no vector yet. `unfiltered` are the matches
    without the filter.
    """

    matches: Sequence[Match]
    unembedded: int = 0
    total: int = 0
    unfiltered: Sequence[Match] = ()


@dataclass(frozen=True, slots=True)
class KeywordMatches:
    """
    The matches of the keyword leg, and the words of the query that may be in no memory. `all_keys` are the keys of
    every memory with one of the words, where the leg read them all.
    """

    matches: list[Match]
    unknown_words: tuple[str, ...] = ()
    all_keys: Sequence[int] | None = None


class LinkStore(Protocol):
    """Supersession and other relations between memories."""

    def supersede(self, old: str, new: str, at: datetime | None, said_by: str | None, now: datetime) -> Memory: ...

    def unsupersede(self, old: str, now: datetime) -> Memory: ...

    def relate(
        self, source: str, target: str, kind: str, confidence: float, said_by: str | None, now: datetime
    ) -> Relation: ...

    def unrelate(self, source: str, target: str, kind: str, now: datetime) -> None: ...

    def list_related(self, id: str, limit: int, as_of: datetime | None) -> list[Related]: ...

    def list_superseded(self, id: str) -> list[Memory]: ...


class StrengthStore(Protocol):
    """The salience of memories and the confidence of their facts. `rates` are the decay rates of fact kinds."""

    def adjust_salience(self, id: str, share: float, now: datetime, decay: Decay, session: str | None) -> Memory: ...

    def set_pinned(self, id: str, pinned: bool, now: datetime) -> Memory: ...

    def add_fact(self, id: str, draft: FactDraft, now: datetime) -> Fact: ...

    def reinforce_fact(self, id: str, share: float, now: datetime, rates: Mapping[str, float]) -> Fact: ...

    def remove_fact(self, id: str) -> Fact: ...


class SessionStore(Protocol):
    """Sessions, and the memories made and used in them."""

    def start(self, id: str, project: str | None, summary: str | None, now: datetime) -> Session: ...

    def end(self, id: str, summary: str | None, now: datetime) -> Session: ...

    def set_summary(self, id: str, summary: str | None) -> Session: ...

    def list_sessions(self, project: str | None, active: bool | None, limit: int) -> list[Session]: ...

    def resolve_id(self, id: str, *, open: bool = False) -> str: ...

    def require(self, id: str, project: str | None = None) -> Session:
        """Return the session with this id, or a unique part of it; of a project, if one is given."""

    def find_context(self, id: str) -> SessionContext | None: ...

    def list_by_ids(self, ids: Sequence[str]) -> list[Session]: ...


class RecallStore(Protocol):
    """The log of answered searches."""

    def record(self, recalls: Sequence[tuple[Recall, Reinforcement]]) -> None: ...

    def list_recalls(
        self, memory: str | None, session: str | None, since: datetime | None, limit: int
    ) -> list[Recall]: ...

    def clear(self, before: datetime | None) -> int: ...


class FeedbackStore(Protocol):
    """Judgements of answers."""

    def put(self, id: str, query: str, good: bool, now: datetime) -> Feedback: ...

    def list_feedback(self, memory: str | None, limit: int) -> list[Feedback]: ...


class LensStore(Protocol):
    """Lenses by name."""

    def put(self, name: str, definition: Mapping[str, Any]) -> None: ...

    def remove(self, name: str) -> bool: ...

    def load_all(self) -> dict[str, dict[str, Any]]: ...


class DocumentStore(Protocol):
    """Indexed files. `chunks` is the store in which their chunks are found, like memories."""

    @property
    def chunks(self) -> "Store": ...

    def load_indexed_files(self) -> dict[str, IndexedFile]: ...

    def load_chunk_texts(self, path: str) -> set[tuple[str | None, str]]: ...

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

    def list_documents(self, project: str | None, limit: int) -> list[Document]: ...

    def get(self, path: str) -> Document: ...

    def list_links(self) -> list[tuple[str, int, str, str]]:
        """Return every link of every file as the file's path, the line, the target and the text."""

    def locate_chunks(self, keys: Sequence[int]) -> dict[int, ChunkLocation]: ...

    def load_chunk_ranges(self, ranges: Sequence[tuple[str, int, int]]) -> list[list[StoredChunk]]: ...


class AgentFileStore(Protocol):
    """Files kept as memories, by path, within a project or outside of all."""

    def list_files(self, path: str, project: str | None) -> list[Memory]:
        """Return the file of a path or those of a folder, by path; of files with the same path, the newest first."""

    def create(self, draft: MemoryDraft) -> AddResult: ...

    def edit(
        self, path: str, project: str | None, change: Callable[[Memory], Mapping[str, Any]], now: datetime
    ) -> tuple[Memory, EmbeddingJob | None]:
        """Apply the changes that a function of the file returns; it is called while nobody else can write."""

    def move(self, path: str, to: str, project: str | None, now: datetime) -> int: ...

    def forget(self, path: str, project: str | None, now: datetime) -> int: ...


class RecordLoader(Protocol):
    """One import, in batches."""

    def put(self, records: Sequence[ExportRecord]) -> LoadReport:
        """Write records; what is stored already stays as it is."""


class Store(Protocol):
    """The memories of one namespace. Each method is one transaction."""

    @property
    def namespace(self) -> str: ...

    @property
    def own_files(self) -> Sequence[str]:
        """The paths of the files that this store writes."""

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
    def agent_files(self) -> AgentFileStore: ...

    def add(self, drafts: Sequence[MemoryDraft], reinforcement: Reinforcement) -> list[AddResult]: ...

    def add_conversations(self, batches: Sequence[ConversationBatch]) -> ConversationResult:
        """Add the turns that are not stored yet, each to its session. Stored turns stay as they are."""

    def find(self, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory | None]:
        """Return the live memories with these ids, or unique beginnings or endings of ids, in the order asked."""

    def require(self, id: str) -> Memory:
        """Return the live memory with this id; a NotFound says if it was forgotten."""

    def find_in_project(self, id: str, project: str) -> Memory | None:
        """Return the live memory of a project with this id, or with this part of it, which other projects may share."""

    def list_page(self, filter: Filter, *, limit: int, cursor: str | None, deleted: bool) -> Page: ...

    def list_around(self, id: str, filter: Filter, *, before: int, after: int) -> list[Memory]:
        """Return one memory and those nearest in time on both sides of it, oldest first."""

    def list_between(self, filter: Filter, limit: int) -> list[Memory]:
        """Return the memories that pass a filter, oldest first."""

    def update(
        self, id: str, changes: Mapping[str, Any], now: datetime, session: str | None
    ) -> tuple[Memory, EmbeddingJob | None]: ...

    def list_versions(self, id: str) -> list[Version]: ...

    def forget(self, id: str, now: datetime) -> None: ...

    def restore(self, id: str) -> Memory: ...

    def erase(self, ids: Sequence[str]) -> int: ...

    def purge(self, before: datetime | None) -> int:
        """Erase the memories forgotten before a time, or all of them, and wipe their remains from the file."""

    def resolve_scope(self, filter: Filter) -> Scope:
        """Resolve a filter once for both legs of a search."""

    def match_keywords(
        self, query: Query, scope: Scope, *, limit: int, page: int, weights: Mapping[str, float]
    ) -> KeywordMatches:
        """
        Return the memories with words of the query, best first: up to `limit`, at least `page` if there are as many.

        `weights` are those of title, content, tags, source and facts.
        """

    def find_nearest(self, model: Model, vector: NDArray[np.float32], scope: Scope, *, limit: int) -> VectorMatches:
        """Return the memories most similar to a vector, best first: `limit` of them if as many pass the filter."""

    def load_rows(
        self,
        keys: Sequence[int],
        model: Model | None,
        vector: NDArray[np.float32] | None,
        as_of: datetime | None = None,
    ) -> list[Row]:
        """Read the rows that ranking and presentation need, at once; memories that are gone are left out."""

    def load_vector(self, id: str, model: Model, as_of: datetime | None) -> NDArray[np.float32] | None:
        """Return the vector of a memory, or of its text at a time; None if it has none."""

    def count_facets(
        self, query: Query | None, filter: Filter, keys: Sequence[int], fields: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        """Count by field the memories that match a query's words, and these keys; without a query, all memories."""

    def count_filtered_out(self, query: Query, filter: Filter, keys: Sequence[int]) -> dict[str, int]:
        """Count the memories that match a query's words, and these keys, but fail a field of a filter, by field."""

    def find_known_terms(self, terms: Sequence[Term]) -> set[Term]:
        """Return the terms that live memories contain: prefixes as they are, everything else by its stems."""

    def find_similar_words(self, word: str) -> list[str]:
        """Return the words of live memories that differ from this one by a letter or two, best first."""

    def iter_texts(self, filter: Filter) -> Iterator[tuple[str, str | None, str]]:
        """
        Yield the id, project and text of every memory that passes a filter, in the order they were added.

        Memories known by their ids, such as turns, are left out: the same words said twice are two turns.
        """

    def merge(self, keep: str, others: Sequence[str], now: datetime) -> Memory:
        """Let one memory supersede others and take over their tags, facts and pins."""

    def list_unembedded(self, after: int, limit: int, project: str | None = None) -> Sequence[EmbeddingJob]:
        """Return live texts beyond a key, of all projects or one, for which no vector was made since they changed."""

    def list_without_vector(self, model: Model, after: int, limit: int) -> Sequence[EmbeddingJob]:
        """Return live texts beyond a key that have no vector of this model."""

    def put_vectors(
        self,
        model: Model,
        texts: Sequence[EmbeddingJob],
        vectors: NDArray[np.float32],
        parts: Sequence[Part] = (),
    ) -> None:
        """Store the vectors of texts, then those of parts, unless a text has changed since it was embedded."""

    def drop_other_vectors(self, model: Model) -> int: ...

    def dump(self, *, vectors: bool, types: Collection[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield a header and every record of this namespace, as of one moment; see `export_schema`."""

    def create_loader(self, sentence_models: Collection[str] = ()) -> RecordLoader:
        """
        Begin an import. Of `sentence_models`, a text of several sentences has vectors of its parts, too.

        Such texts that come without them are listed by `list_without_vector`.
        """

    def backup(self, path: str, *, overwrite: bool) -> None:
        """Copy the whole database, as of one moment, and check the copy."""

    def stats(self, model: str | None) -> Stats: ...

    def check(self, *, repair: bool) -> CheckReport: ...

    def close(self) -> None: ...
