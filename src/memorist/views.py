"""Records for a person who looks at a memory: pages of what is there, its surroundings, its growth, what to review."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from msgspec import Struct

from memorist.file_records import Document
from memorist.records import Fact, Memory, Recall, RecordSequence, Results, Session

REVIEW_KINDS = ("duplicates", "contradictions", "stale_facts", "never_recalled", "secrets")


class SessionPage(RecordSequence[Session], frozen=True):
    """Sessions, the latest first, and the cursor of the next page (None at the end)."""

    sessions: tuple[Session, ...]
    cursor: str | None

    def _items(self) -> tuple[Session, ...]:
        return self.sessions


class DocumentPage(RecordSequence[Document], frozen=True):
    """Indexed files by path, and the cursor of the next page (None at the end)."""

    documents: tuple[Document, ...]
    cursor: str | None

    def _items(self) -> tuple[Document, ...]:
        return self.documents


class RecallPage(RecordSequence[Recall], frozen=True):
    """Recorded searches, the latest first, and the cursor of the next page (None at the end)."""

    recalls: tuple[Recall, ...]
    cursor: str | None

    def _items(self) -> tuple[Recall, ...]:
        return self.recalls


class DocumentChunk(Struct, frozen=True):
    """A chunk of an indexed file, with its lines; `id` is the one that hits have."""

    id: str
    text: str
    breadcrumb: tuple[str, ...]
    start_line: int
    end_line: int
    ordinal: int


class ChunkPage(RecordSequence[DocumentChunk], frozen=True):
    """Chunks of a file in their order, and the cursor of the next page (None at the end)."""

    chunks: tuple[DocumentChunk, ...]
    cursor: str | None

    def _items(self) -> tuple[DocumentChunk, ...]:
        return self.chunks


class Comparison(Struct, frozen=True):
    """The answers to one question by several profiles or lenses, in the order they were named."""

    answers: tuple[Results, ...]


class ReviewItem(Struct, frozen=True):
    """
    Something worth a look: `memories` are concerned, the newer one first.

    Of a pair, `similarity` says how near they are in meaning or in words, and `reasons` what differs. Of a stale fact,
    `fact` is the one that has faded. Of secrets, `reasons` are their kinds and lines, never the secrets themselves.
    """

    kind: str
    memories: tuple[Memory, ...]
    reasons: tuple[str, ...] = ()
    similarity: float | None = None
    fact: Fact | None = None


class ReviewPage(RecordSequence[ReviewItem], frozen=True):
    """Items to review, how many memories or facts were looked at for them, and the cursor to go on with."""

    items: tuple[ReviewItem, ...]
    looked_at: int
    cursor: str | None

    def _items(self) -> tuple[ReviewItem, ...]:
        return self.items


class GraphEdge(Struct, frozen=True):
    """A link between two memories of a graph; a `kind` of "similar" was found, any other was stated."""

    source: str
    target: str
    kind: str
    weight: float


class Graph(Struct, frozen=True):
    """The surroundings of a memory, itself first, and the links between them."""

    center: str
    memories: tuple[Memory, ...]
    edges: tuple[GraphEdge, ...]


class DayCount(Struct, frozen=True):
    """The numbers of one day (UTC): memories by when they happened and were stored, recalls, and those that helped."""

    day: str
    created: int = 0
    recorded: int = 0
    recalls: int = 0
    relevant: int = 0

    @classmethod
    def of(cls, number: int, counts: Mapping[str, int]) -> "DayCount":
        """Return the counts of a day, by its number since 1970."""
        return cls(date.fromordinal(date(1970, 1, 1).toordinal() + number).isoformat(), **counts)


class Growth(Struct, frozen=True):
    """Counts of each day since a time on which anything happened, the earliest first."""

    since: datetime
    days: tuple[DayCount, ...]


class EvalResult(Struct, frozen=True):
    """The quality of the answers of one system to one dataset: the mean of a measure, and its 95 % interval."""

    dataset: str
    system: str
    mean: float
    low: float
    high: float


class EvalRun(Struct, frozen=True):
    """A saved run of an evaluation, with its results by one measure."""

    name: str
    saved_at: datetime
    version: str
    measure: str
    results: tuple[EvalResult, ...]


class Change(Struct, frozen=True):
    """
    A change of a memory that some process made: the ids of what is new, by kind.

    `memories`, `strengths`, `facts`, `relations` and `feedback` hold ids of memories, `recalls`, `sessions` and
    `documents` ids of their own. Nothing of it is there if what was written has no log of its own, such as an edit.
    """

    position: str
    new: Mapping[str, tuple[str, ...]]


class ModelInfo(Struct, frozen=True):
    """A model that is bundled or can be added."""

    name: str
    description: str
    licence: str
    installed: bool
    active: bool


class ProfileInfo(Struct, frozen=True):
    """A ranking profile and its options."""

    name: str
    options: Mapping[str, Any]
