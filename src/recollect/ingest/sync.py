"""
Files into the store, and kept up with.

A file that has not changed costs a look at its size and time. One that has is read, cut and compared with what is
there: only new chunks are embedded, and they take the place of the old ones in one transaction, when they are ready.
A run that is stopped goes on from the last batch of files that was stored.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.documents import ChunkDraft, FileDraft, IndexReport, Known
from recollect.errors import InvalidInput
from recollect.ingest.chunk import Count
from recollect.ingest.readers import parse
from recollect.ingest.vectorize import BATCH, Vectorizer
from recollect.ingest.walk import Found, Skipped
from recollect.records import SECTORS
from recollect.redact import redact
from recollect.store.base import Documents

BUDGET = 200  # tokens of a chunk: with its heading it stays below what the bundled model reads
HEADING = 300  # characters of what stands above a chunk

Texts = tuple[str | None, str]
Vector = NDArray[np.float32]


@dataclass(slots=True)
class _Tally:
    """What becomes of the files, while they are gone through."""

    counts: dict[str, int] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    redacted: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def report(self) -> IndexReport:
        return IndexReport(**self.counts, skipped=tuple(self.skipped), redacted=self.redacted)


@dataclass(frozen=True, slots=True)
class _Changed:
    """A file that has to be stored, and the chunks of it that need a vector first."""

    file: FileDraft
    new: tuple[Texts, ...]


class Sync:
    """Brings the documents of a store up to what is in the files."""

    def __init__(
        self,
        documents: Documents,
        vectorizer: Vectorizer,
        count: Count,
        *,
        project: str | None,
        allow: Sequence[str] | None = (),
    ) -> None:
        self._documents, self._vectorizer, self._count = documents, vectorizer, count
        self._project = project
        self._allow = allow  # None: nothing is redacted
        self._tally = _Tally()

    def run(self, found: Iterable[Found | Skipped], progress: Callable[[int], None] | None = None) -> IndexReport:
        """Index what was found; files that were indexed below the same roots before, and are there no more, go."""
        known, seen, roots, done = self._documents.known(), set[str](), set[str](), 0
        waiting: list[_Changed] = []
        fresh: list[Found] = []
        for entry in found:
            if isinstance(entry, Skipped):
                self._tally.skipped.append((str(entry.path), entry.reason))
                continue
            path = str(entry.path)
            seen.add(path)
            roots.add(str(entry.root))
            before = known.get(path)
            if before is None:
                fresh.append(entry)
            elif (before.size, before.modified_at) == (entry.size, entry.mtime_ns):
                self._tally.count("unchanged")
                done = self._told(done, progress)
            else:
                self._take(entry, before, waiting)
                done = self._told(done, progress)
        gone = {path: each for path, each in known.items() if path not in seen and _below(path, roots)}
        for entry in fresh:
            self._take_new(entry, gone, waiting)
            done = self._told(done, progress)
        self._store(waiting)
        self._tally.count("removed", self._documents.remove([each.key for each in gone.values()]) if gone else 0)
        return self._tally.report()

    def _told(self, done: int, progress: Callable[[int], None] | None) -> int:
        if progress:
            progress(done + 1)
        return done + 1

    def _take(self, entry: Found, before: Known, waiting: list[_Changed]) -> None:
        """A file whose size or time has changed."""
        content = self._read(entry)
        if content is None:
            return
        if hashlib.sha256(content).digest() == before.hash:
            self._documents.touch(before.key, entry.size, entry.mtime_ns)
            self._tally.count("unchanged")
        else:
            self._prepare(entry, content, waiting, "changed")

    def _take_new(self, entry: Found, gone: dict[str, Known], waiting: list[_Changed]) -> None:
        """A file at a path that is new: perhaps one that stood elsewhere before."""
        content = self._read(entry)
        if content is None:
            return
        digest = hashlib.sha256(content).digest()
        moved = next((path for path, each in gone.items() if each.hash == digest), None)
        if moved is None:
            self._prepare(entry, content, waiting, "added")
            return
        self._documents.move(gone.pop(moved).key, str(entry.path), str(entry.root), entry.mtime_ns)
        self._tally.count("renamed")

    def _read(self, entry: Found) -> bytes | None:
        try:
            return entry.path.read_bytes()
        except OSError as exc:
            self._tally.skipped.append((str(entry.path), f"cannot be read: {exc.strerror}"))
            return None

    def _prepare(self, entry: Found, content: bytes, waiting: list[_Changed], what: str) -> None:
        try:
            file = self._file(entry, content)
        except InvalidInput as exc:
            self._tally.skipped.append((str(entry.path), str(exc)))
            return
        there = self._documents.texts(file.path)
        texts = ((chunk.heading, chunk.text) for chunk in file.chunks)
        waiting.append(_Changed(file, tuple(dict.fromkeys(text for text in texts if text not in there))))
        self._tally.count(what)
        if sum(len(each.new) for each in waiting) >= BATCH:
            self._store(waiting)

    def _store(self, waiting: list[_Changed]) -> None:
        """Embed what is new, all together, and put every file in its place."""
        texts = list(dict.fromkeys(text for each in waiting for text in each.new))
        vectors, model = self._vectorizer.vectors(["\n".join(part for part in text if part) for text in texts])
        made: Mapping[Texts, Vector] = {} if vectors is None else dict(zip(texts, vectors, strict=True))
        self._documents.put([each.file for each in waiting], made, model, datetime.now(UTC))
        self._tally.count("chunks", sum(len(each.file.chunks) for each in waiting))
        self._tally.count("embedded", len(made))
        waiting.clear()

    def _file(self, entry: Found, content: bytes) -> FileDraft:
        document = parse(entry.path.name, content, BUDGET, self._count)
        matter = document.front_matter
        chunks = []
        for chunk in document.chunks:
            text = self._redacted(chunk.text)
            if text.strip():
                heading = " › ".join(part for part in (document.title, *chunk.breadcrumb) if part)[:HEADING] or None
                chunks.append(ChunkDraft(text, heading, chunk.start_line, chunk.end_line, chunk.breadcrumb))
        return FileDraft(
            path=str(entry.path),
            root=str(entry.root),
            project=self._project,
            title=document.title,
            sector=_sector(entry, matter),
            tags=_tags(matter),
            front_matter=matter,
            size=entry.size,
            modified_at=entry.mtime_ns,
            hash=hashlib.sha256(content).digest(),
            chunks=tuple(chunks),
            links=tuple((link.line, link.target, link.text) for link in document.links),
        )

    def _redacted(self, text: str) -> str:
        if self._allow is None:
            return text
        clean, found = redact(text, self._allow)
        for each in found:
            self._tally.redacted[each.kind] = self._tally.redacted.get(each.kind, 0) + 1
        return clean


def _below(path: str, roots: set[str]) -> bool:
    return any(str(parent) in roots for parent in Path(path).parents)


def _sector(entry: Found, matter: Mapping[str, Any]) -> str:
    """What kind of memory a file is: as its front matter says, or the folder it is in."""
    said = str(matter.get("type") or matter.get("sector") or "").lower()
    folders: Iterator[str] = (part.lower() for part in Path(entry.name).parts[:-1])
    return next((name for name in (said, *folders) if name in SECTORS), "semantic")


def _tags(matter: Mapping[str, Any]) -> tuple[str, ...]:
    given = matter.get("tags") or matter.get("keywords") or ()
    names = given.replace(",", " ").split() if isinstance(given, str) else given
    return tuple(dict.fromkeys(str(name).strip().lstrip("#") for name in names if str(name).strip()))[:100]
