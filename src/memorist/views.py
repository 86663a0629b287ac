"""Records for a person who looks at a memory: pages of what is there, its surroundings, its growth, what to review."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from memorist.file_records import Document
from memorist.records import Fact, Memory, Recall, RecordSequence, Results, Session

REVIEW_KINDS = ("duplicates", "contradictions", "stale_facts", "never_recalled", "secrets")


@dataclass(frozen=True, slots=True)
class SessionPage(RecordSequence[Session]):
    """Sessions, the latest first, and the cursor of the next page (None at the end)."""

    sessions: tuple[Session, ...]
    cursor: str | None

    def _items(self) -> tuple[Session, ...]:
        return self.sessions


@dataclass(frozen=True, slots=True)
class DocumentPage(RecordSequence[Document]):
    """Indexed files by path, and the cursor of the next page (None at the end)."""

    documents: tuple[Document, ...]
    cursor: str | None

    def _items(self) -> tuple[Document, ...]:
        return self.documents


@dataclass(frozen=True, slots=True)
class RecallPage(RecordSequence[Recall]):
    """Recorded searches, the latest first, and the cursor of the next page (None at the end)."""

    recalls: tuple[Recall, ...]
    cursor: str | None

    def _items(self) -> tuple[Recall, ...]:
        return self.recalls


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A chunk of an indexed file, with its lines; `id` is the one that hits have."""

    id: str
    text: str
    breadcrumb: tuple[str, ...]
    start_line: int
    end_line: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class ChunkPage(RecordSequence[DocumentChunk]):
    """Chunks of a file in their order, and the cursor of the next page (None at the end)."""

    chunks: tuple[DocumentChunk, ...]
    cursor: str | None

    def _items(self) -> tuple[DocumentChunk, ...]:
        return self.chunks


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answers to one question by several profiles or lenses, in the order they were named."""

    answers: tuple[Results, ...]


@dataclass(frozen=True, slots=True)
class ReviewItem:
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


@dataclass(frozen=True, slots=True)
class ReviewPage(RecordSequence[ReviewItem]):
    """Items to review, how many memories or facts were looked at for them, and the cursor to go on with."""

    items: tuple[ReviewItem, ...]
    looked_at: int
    cursor: str | None

    def _items(self) -> tuple[ReviewItem, ...]:
        return self.items


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A link between two memories of a graph; a `kind` of "similar" was found, any other was stated."""

    source: str
    target: str
    kind: str
    weight: float


@dataclass(frozen=True, slots=True)
class Graph:
    """The surroundings of a memory, itself first, and the links between them."""

    center: str
    memories: tuple[Memory, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(frozen=True, slots=True)
class DayCount:
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


@dataclass(frozen=True, slots=True)
class Growth:
    """Counts of each day since a time on which anything happened, the earliest first."""

    since: datetime
    days: tuple[DayCount, ...]


@dataclass(frozen=True, slots=True)
class EvalResult:
    """The quality of the answers of one system to one dataset: the mean of a measure, and its 95 % interval."""

    dataset: str
    system: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class EvalRun:
    """A saved run of an evaluation, with its results by one measure."""

    name: str
    saved_at: datetime
    version: str
    measure: str
    results: tuple[EvalResult, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """
    A change of a memory that some process made: the ids of what is new, by kind.

    `memories`, `strengths`, `facts`, `relations` and `feedback` hold ids of memories, `recalls`, `sessions` and
    `documents` ids of their own. Nothing of it is there if what was written has no log of its own, such as an edit.
    """

    position: str
    new: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that is bundled or can be added."""

    name: str
    description: str
    licence: str
    installed: bool
    active: bool


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """A ranking profile and its options."""

    name: str
    options: Mapping[str, Any]
