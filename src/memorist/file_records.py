"""Records of files: those that are indexed, with their chunks and links, and those that agents write."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from memorist.records import Hit


class DocumentLink(Struct, frozen=True):
    """A link in a file, and the path of the indexed file that it leads to."""

    line: int
    target: str
    text: str
    path: str | None


class Document(Struct, frozen=True):
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


class File(Struct, frozen=True):
    """A file that an agent wrote into memory. `id` is that of the memory that holds it."""

    path: str
    text: str
    id: str
    project: str | None
    created_at: datetime
    updated_at: datetime


class IndexedFile(Struct, frozen=True):
    """The state of a file when it was indexed, which tells whether it has changed."""

    key: int
    path: str
    root: str
    size: int
    modified_at: int
    hash: bytes
    project: str | None
    redacted: bool


class ChunkDraft(Struct, frozen=True):
    """A chunk that is not stored yet. `heading` stands above it: the model and the index get it, the text lacks it."""

    text: str
    heading: str | None
    start_line: int
    end_line: int
    breadcrumb: tuple[str, ...] = ()


class FileDraft(Struct, frozen=True):
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


class ChunkLocation(Struct, frozen=True):
    """The position of a chunk in its file."""

    document: str
    path: str
    title: str | None
    breadcrumb: tuple[str, ...]
    start_line: int
    end_line: int
    ordinal: int


class StoredChunk(Struct, frozen=True):
    """The text and lines of a stored chunk."""

    text: str
    start_line: int
    end_line: int
    ordinal: int


class DocumentHit(Hit, frozen=True):
    """A passage of an indexed file. `memory` is the chunk, with the file's path as its source."""

    path: str = ""
    title: str | None = None
    breadcrumb: tuple[str, ...] = ()
    start_line: int = 0
    end_line: int = 0
    document: str = ""  # the id of the file
    ordinal: int = 0  # which chunk of it
