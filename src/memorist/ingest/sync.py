"""
Files into the store, and kept up with.

A file that has not changed costs a look at its size and time. One that has is read, cut and compared with what is
there: only new chunks are embedded, and they take the place of the old ones in one transaction, when they are ready.
A run that is stopped goes on from the last files that were stored.

Others may write the files, and the index, all the while. So a file that changes while it is read is read again the next
time, and nothing goes from the index that another process has touched since this one looked.
"""

import codecs
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorist.documents import ChunkDraft, FileDraft, IndexedFile, IndexReport
from memorist.embed.base import truncate_to_tokens
from memorist.errors import EmbedderError, InvalidInput, MissingExtra, StoreBusy, StoreCorrupt, StoreError
from memorist.ingest.chunk import Count
from memorist.ingest.markdown import Parsed
from memorist.ingest.readers import Unreadable, load, makes_text, parse, source_text
from memorist.ingest.vectorizer import BATCH, TITLE_TOKENS, Vectorizer
from memorist.ingest.walk import LARGEST, FoundFile, Skipped, Walk, is_there
from memorist.records import SECTORS
from memorist.redact import redact
from memorist.store.base import DocumentStore
from memorist.validation import MAX_NAME_CHARACTERS, MAX_TAGS

BUDGET = 200  # tokens of a chunk: with its heading it stays below what the bundled model reads
HEADING = 300  # characters of what stands above a chunk
HELD = 4 * BATCH  # chunks, new or not, of files that wait to be stored
PLACES = 1000  # of secrets, in a report
TICK = 2_000_000_000  # nanoseconds; within the time of one tick, a file system may give two writes the same time

Texts = tuple[str | None, str]
Vector = NDArray[np.float32]
Progress = Callable[[int, int], None]
"""Is told how many files are done, and how many there are."""


@dataclass(slots=True)
class _SyncCounter:
    """What becomes of the files, while they are gone through."""

    counts: dict[str, int] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    redacted: dict[str, int] = field(default_factory=dict)
    redacted_at: list[tuple[str, str, int]] = field(default_factory=list)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def redaction(self, kind: str, path: str, line: int) -> None:
        self.redacted[kind] = self.redacted.get(kind, 0) + 1
        if len(self.redacted_at) < PLACES:
            self.redacted_at.append((kind, path, line))

    def report(self) -> IndexReport:
        return IndexReport(
            **self.counts,
            skipped=tuple(self.skipped),
            redacted=self.redacted,
            redacted_at=tuple(self.redacted_at),
        )


@dataclass(frozen=True, slots=True)
class _Changed:
    """A file that has to be stored, and the chunks of it that need a vector first."""

    file: FileDraft
    new: tuple[Texts, ...]
    what: str  # became of it: added, changed or renamed
    moved: IndexedFile | None = None  # what it was before it was renamed


class Sync:
    """Brings the documents of a store up to what is in the files, once."""

    def __init__(
        self,
        documents: DocumentStore,
        vectorizer: Vectorizer,
        count: Count,
        *,
        project: str | None,
        allow: Sequence[str] | None = (),
    ) -> None:
        self._documents, self._vectorizer, self._count = documents, vectorizer, count
        self._project = project  # None: that of a file stays as it is
        self._allow = allow  # None: nothing is redacted
        if allow:
            redact("", allow)  # raises where one of them cannot be used
        self._tally = _SyncCounter()
        self._known: dict[str, IndexedFile] = {}
        self._seen: set[str] = set()  # files that are there, and stay
        self._out_of_reach: set[str] = set()  # what could not be looked at, and may be there
        self._waiting: list[_Changed] = []
        self._progress: Progress | None = None
        self._done = self._total = 0

    def run(self, walk: Walk, progress: Progress | None = None) -> IndexReport:
        """Index what a walk finds; what it speaks for, was indexed before and is there no more, goes."""
        self._known = self._documents.load_indexed_files()
        changed = self._look(walk)
        lost = self._lost_by_hash()
        self._progress, self._total = progress, self._done + len(changed)
        self._tell(0)
        for entry in changed:
            before = self._known.get(str(entry.path))
            if (content := self._read(entry)) is None:
                self._tell(1)
            elif before is None:
                self._take_new(entry, content, lost)
            else:
                self._take(entry, content, before)
        self._store()
        self._remove(walk)
        self._give_missing_vectors()
        return self._tally.report()

    def _look(self, walk: Walk) -> list[FoundFile]:
        """Go through what is there; gives what is new, or may have changed."""
        changed = []
        for entry in walk:
            if isinstance(entry, Skipped):
                self._tally.skipped.append((str(entry.path), entry.reason))
                if entry.stays:
                    self._out_of_reach.add(str(entry.path))
                continue
            path = str(entry.path)
            self._seen.add(path)
            before = self._known.get(path)
            if (
                before
                and (before.size, before.modified_at) == (entry.size, entry.mtime_ns)
                and self._is_as_asked(before)
            ):
                self._tally.count("unchanged")
                self._done += 1
            else:
                changed.append(entry)
        return changed

    def _lost_by_hash(self) -> dict[bytes, list[IndexedFile]]:
        """Files that may have been renamed, by content. Whether one is gone is looked up when another has the same."""
        lost: dict[bytes, list[IndexedFile]] = {}
        for path, each in self._known.items():
            if path not in self._seen and not self._is_out_of_reach(path):
                lost.setdefault(each.hash, []).append(each)
        return lost

    def _is_out_of_reach(self, path: str) -> bool:
        if not self._out_of_reach:
            return False
        return path in self._out_of_reach or any(str(above) in self._out_of_reach for above in Path(path).parents)

    def _is_as_asked(self, before: IndexedFile) -> bool:
        """Whether it is in the project, and without secrets, as this run would have it."""
        secrets_stay = self._allow is None or before.redacted
        return secrets_stay and (self._project is None or before.project == self._project)

    def _tell(self, files: int) -> None:
        self._done += files
        if self._progress:
            self._progress(self._done, self._total)

    def _read(self, entry: FoundFile) -> bytes | None:
        """The bytes of a file. One that cannot be read stays as it was; one that went since it was found is gone."""
        try:
            return load(entry.path, LARGEST)
        except Unreadable as exc:
            if is_there(entry.path):
                self._tally.skipped.append((str(entry.path), str(exc)))
            else:
                self._seen.discard(str(entry.path))
            return None

    def _take(self, entry: FoundFile, content: bytes, before: IndexedFile) -> None:
        """A file whose size or time has changed, or that is to be in another project."""
        if hashlib.sha256(content).digest() != before.hash or not self._is_as_asked(before):
            self._prepare(entry, content, "changed", before.project)
            return
        if (entry.size, _settled(entry)) != (before.size, before.modified_at):
            self._documents.touch(before.key, entry.size, _settled(entry))
        self._tally.count("unchanged")
        self._tell(1)

    def _take_new(self, entry: FoundFile, content: bytes, lost: Mapping[bytes, list[IndexedFile]]) -> None:
        """A file at a path that is new: perhaps one that stood elsewhere before."""
        same = [each for each in lost.get(hashlib.sha256(content).digest(), ()) if _is_gone(each.path, entry.path)]
        if not same:
            self._prepare(entry, content, "added", None)
            return
        moved = min(same, key=lambda each: Path(each.path).name != entry.path.name)
        lost[moved.hash].remove(moved)
        # Its title, its sector and how it is read may come from its name; what stays the same is not embedded again.
        self._prepare(entry, content, "renamed", moved.project, moved)

    def _prepare(
        self, entry: FoundFile, content: bytes, what: str, project: str | None, moved: IndexedFile | None = None
    ) -> None:
        """Cut a file, and store it with others as soon as there is enough to embed."""
        try:
            file = self._file(entry, content, self._project or project)
        except (InvalidInput, MissingExtra) as exc:
            self._tally.skipped.append((str(entry.path), str(exc)))
            if isinstance(exc, InvalidInput):  # what it said is not there any more
                self._seen.discard(str(entry.path))
            self._tell(1)
            return
        there = self._documents.load_chunk_texts(moved.path if moved else file.path)
        texts = ((chunk.heading, chunk.text) for chunk in file.chunks)
        new = tuple(dict.fromkeys(text for text in texts if text not in there))
        self._waiting.append(_Changed(file, new, what, moved))
        # Enough to embed, or, where little is new, as much as should wait in memory.
        held = [(len(each.new), len(each.file.chunks) + 1) for each in self._waiting]
        if sum(new for new, _ in held) >= BATCH or sum(chunks for _, chunks in held) >= HELD:
            self._store()

    def _store(self) -> None:
        """Embed what is new, all together, and put every file in its place."""
        if not self._waiting:
            return
        texts = list(dict.fromkeys(text for each in self._waiting for text in each.new))
        vectors, model = self._vectorizer.embed_unstored(["\n".join(part for part in text if part) for text in texts])
        made: Mapping[Texts, Vector] = {} if vectors is None else dict(zip(texts, vectors, strict=True))
        waiting, self._waiting = self._waiting, []
        self._tally.count("embedded", len(made))
        for each in waiting:
            if each.moved:
                self._move(each.moved, each.file)
        self._documents.put([each.file for each in waiting], made, model, datetime.now(UTC))
        for each in waiting:
            self._tally.count(each.what)
            self._tally.count("chunks", len(each.file.chunks))
        self._tell(len(waiting))

    def _move(self, before: IndexedFile, file: FileDraft) -> None:
        try:
            self._documents.move(before.key, file.path, file.root, file.modified_at)
        except (StoreBusy, StoreCorrupt):
            raise
        except StoreError:  # another process was first to index it where it is now
            pass

    def _remove(self, walk: Walk) -> None:
        """Take out what is no longer to be found, unless somebody has written it anew in the meantime."""
        gone = [
            each
            for path, each in self._known.items()
            if path not in self._seen and not self._is_out_of_reach(path) and walk.gave_up(path)
        ]
        if gone:
            now = self._documents.load_indexed_files()
            keys = [each.key for each in gone if now.get(each.path) == each]
            self._tally.count("removed", self._documents.remove(keys))

    def _give_missing_vectors(self) -> None:
        """Chunks the model failed at wait for it, though their files do not change: now, or the next time."""
        if self._vectorizer.model.embedder is not None and self._documents.chunks.list_unembedded(0, 1):
            try:
                self._tally.count("embedded", self._vectorizer.embed_all())
            except EmbedderError:
                self._vectorizer.expect_backlog()

    def _file(self, entry: FoundFile, content: bytes, project: str | None) -> FileDraft:
        document = self._parsed(entry, content)
        matter = document.front_matter
        chunks = []
        for chunk in document.chunks:
            if chunk.text.strip():
                above = " › ".join(part for part in (document.title, *chunk.breadcrumb) if part)
                heading = truncate_to_tokens(above[:HEADING], TITLE_TOKENS, self._count) or None
                chunks.append(ChunkDraft(chunk.text, heading, chunk.start_line, chunk.end_line, chunk.breadcrumb))
        return FileDraft(
            path=str(entry.path),
            root=str(entry.root),
            project=project,
            title=document.title,
            sector=_sector(entry, matter),
            tags=_tags(matter),
            front_matter=matter,
            size=entry.size,
            modified_at=_settled(entry),
            hash=hashlib.sha256(content).digest(),
            redacted=self._allow is not None,
            chunks=tuple(chunks),
            links=tuple((link.line, link.target, link.text) for link in document.links),
        )

    def _parsed(self, entry: FoundFile, content: bytes) -> Parsed:
        """A file read without its secrets: those of the whole text, for a key is longer than a chunk."""
        name, path = entry.path.name, str(entry.path)
        if self._allow is None:
            return parse(name, content, BUDGET, self._count)
        text = source_text(name, content)
        if text is not None:
            clean, found = redact(text, self._allow, keep_lines=True)
            content = codecs.BOM_UTF8 + clean.encode() if found else content
            for each in found:
                self._tally.redaction(each.kind, path, each.line)
        document = parse(name, content, BUDGET, self._count)
        return self._without_secrets(path, document) if makes_text(name) else document

    def _without_secrets(self, path: str, document: Parsed) -> Parsed:
        """What a reader made, again: a tag or an entity may have stood within a secret, or a PDF be all there was."""
        assert self._allow is not None
        lines = [line for chunk in document.chunks for line in chunk.text.split("\n")]
        places = [
            min(chunk.start_line + number, chunk.end_line)
            for chunk in document.chunks
            for number in range(chunk.text.count("\n") + 1)
        ]
        clean, found = redact("\n".join(lines), self._allow, keep_lines=True)
        for each in found:
            self._tally.redaction(each.kind, path, places[each.line - 1])
        rest = iter(clean.split("\n"))
        chunks = tuple(
            replace(
                chunk,
                text="\n".join(next(rest) for _ in range(chunk.text.count("\n") + 1)),
                breadcrumb=tuple(redact(part, self._allow)[0] for part in chunk.breadcrumb),
            )
            for chunk in document.chunks
        )
        return replace(document, title=document.title and redact(document.title, self._allow)[0], chunks=chunks)


def _settled(entry: FoundFile) -> int:
    """The time of a file; a little less while another write could still leave it the same, so that it is read again."""
    return entry.mtime_ns - (abs(time.time_ns() - entry.mtime_ns) < TICK)


def _is_gone(path: str, now: Path) -> bool:
    """Whether a file is there no more. Where upper and lower case are the same, it is there under its new name, too."""
    try:
        return not is_there(path) or (path.casefold() == str(now).casefold() and os.path.samefile(path, now))
    except OSError:
        return False


def _sector(entry: FoundFile, matter: Mapping[str, Any]) -> str:
    """What kind of memory a file is: as its front matter says, or the folder it is in."""
    said = str(matter.get("type") or matter.get("sector") or "").lower()
    folders: Iterator[str] = (part.lower() for part in Path(entry.name).parts[:-1])
    return next((name for name in (said, *folders) if name in SECTORS), "semantic")


def _tags(matter: Mapping[str, Any]) -> tuple[str, ...]:
    given = matter.get("tags") or matter.get("keywords") or ()
    names = given if isinstance(given, list) else str(given or "").replace(",", " ").split()
    tags = (str(name).strip().lstrip("#")[:MAX_NAME_CHARACTERS] for name in names if name is not None)
    return tuple(dict.fromkeys(tag for tag in tags if tag))[:MAX_TAGS]
