"""Records of files: those that are indexed, their chunks, those that agents write, and reports of imports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memorist.records import Hit


@dataclass(frozen=True, slots=True)
class DocumentLink:
    """A link in a file, and the path of the indexed file that it leads to."""

    line: int
    target: str
    text: str
    path: str | None


@dataclass(frozen=True, slots=True)
class Document:
    """An indexed file. Its links are filled in for a single document only."""

    id: str
    path: str
    root: str
    project: str | None
    title: str | None
    sector: str
    tags: tuple[str, ...]
    front_matter: Mapping[str, Any]
    size: int
    indexed_at: datetime
    chunks: int
    links: tuple[DocumentLink, ...] = ()
    linked_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """A file that an agent wrote into memory. `id` is that of the memory that holds it."""

    path: str
    text: str
    id: str
    project: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """The state of a file when it was indexed, which tells whether it has changed."""

    key: int
    path: str
    root: str
    size: int
    modified_at: int
    hash: bytes
    project: str | None
    redacted: bool


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    """A chunk that is not stored yet. `heading` stands above it: the model and the index get it, the text lacks it."""

    text: str
    heading: str | None
    start_line: int
    end_line: int
    breadcrumb: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A file that is cut into chunks, but not stored yet."""

    path: str
    root: str
    project: str | None
    title: str | None
    sector: str
    tags: tuple[str, ...]
    front_matter: Mapping[str, Any]
    size: int
    modified_at: int
    hash: bytes
    redacted: bool
    chunks: tuple[ChunkDraft, ...]
    links: tuple[tuple[int, str, str], ...] = ()  # line, target, text


@dataclass(frozen=True, slots=True)
class ChunkLocation:
    """The position of a chunk in its file."""

    document: str
    path: str
    title: str | None
    breadcrumb: tuple[str, ...]
    start_line: int
    end_line: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """The text and lines of a stored chunk."""

    text: str
    start_line: int
    end_line: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class DocumentHit(Hit):
    """A passage of an indexed file. `memory` is the chunk, with the file's path as its source."""

    path: str = ""
    title: str | None = None
    breadcrumb: tuple[str, ...] = ()
    start_line: int = 0
    end_line: int = 0
    document: str = ""  # the id of the file
    ordinal: int = 0  # which chunk of it


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The progress of an index run: files done, files in all, and chunks embedded so far."""

    files: int
    total_files: int
    chunks: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Counts of one indexing run."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    renamed: int = 0
    removed: int = 0
    chunks: int = 0
    embedded: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # path, reason
    redacted: Mapping[str, int] = field(default_factory=dict)  # kind, how often
    redacted_at: tuple[tuple[str, str, int], ...] = ()  # kind, path, line: the first thousand

    @property
    def quiet(self) -> bool:
        """True if nothing changed."""
        return not (self.added or self.changed or self.renamed or self.removed)


@dataclass(frozen=True, slots=True)
class DiscoveredSource:
    """Conversations or memories that another program keeps on this machine, and how many are not imported yet."""

    program: str  # also the format
    title: str
    kind: str  # "conversations" or "memories"
    paths: tuple[str, ...]
    total: int = 0
    new: int = 0  # a conversation that has gone on since is new, too
    skipped: tuple[tuple[str, str], ...] = ()  # place, reason


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Counts of one import. `known` was there already; `skipped` could not be imported."""

    format: str
    added: int = 0
    known: int = 0
    sessions: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # place, reason
    redacted: Mapping[str, int] = field(default_factory=dict)  # kind, how often
