"""
Bring the documents of a store up to date with the files.

An unchanged file costs a look at its size and time. A changed one is read, split and compared with its indexed chunks:
only new chunks are embedded, and they replace the old ones in one transaction when they are ready. A run that is
stopped goes on from the last files that were stored.

Other processes may write the files and the index meanwhile. So a file that changes while it is read is read again the
next time, and nothing is removed from the index that another process has touched since this run looked.
"""

import codecs
import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist.embed.base import TokenCounter, truncate_to_tokens
from memorist.errors import EmbedderError, InvalidInput, MissingExtra, StoreBusy, StoreCorrupt, StoreError
from memorist.file_records import ChunkDraft, FileDraft, IndexedFile
from memorist.ingest.markdown import ParsedDocument
from memorist.ingest.readers import UnreadableFile, decode_source, extracts_text, parse_file, read_bytes
from memorist.ingest.vectorizer import BATCH, TITLE_TOKENS, Vectorizer
from memorist.ingest.walk import MAX_FILE_BYTES, FoundFile, SkippedPath, Walk, may_exist
from memorist.records import SECTORS, Model
from memorist.redact import redact
from memorist.reports import IndexProgress, IndexReport
from memorist.store.store import Store
from memorist.validation import MAX_NAME_CHARACTERS, MAX_TAGS

_CHUNK_TOKENS = 200  # with its heading, a chunk stays below what the bundled model reads
_MAX_BREADCRUMB_CHARACTERS = 300
_MAX_PENDING_CHUNKS = 4 * BATCH  # new or not, of files that wait to be stored
_MAX_REPORTED_SECRETS = 1000
_CLOCK_TICK_NS = 2_000_000_000  # within one tick, a file system may give two writes the same time

_ChunkTexts = tuple[str | None, str]  # heading, text
_ProgressCallback = Callable[[IndexProgress], None]


class _ReportBuilder(Struct):
    """An index report while the files are processed."""

    counts: Counter[str] = field(default_factory=Counter)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    redacted: Counter[str] = field(default_factory=Counter)
    redacted_at: list[tuple[str, str, int]] = field(default_factory=list)

    def add_secret(self, kind: str, path: str, line: int) -> None:
        self.redacted[kind] += 1
        if len(self.redacted_at) < _MAX_REPORTED_SECRETS:
            self.redacted_at.append((kind, path, line))

    def build(self) -> IndexReport:
        return IndexReport(
            **self.counts,
            skipped=tuple(self.skipped),
            redacted=dict(self.redacted),
            redacted_at=tuple(self.redacted_at),
        )


class _PendingFile(Struct, frozen=True):
    """A file that is to be stored, and those of its chunks that need a vector first."""

    file: FileDraft
    new: tuple[_ChunkTexts, ...]
    outcome: str  # added, changed or renamed
    moved_from: IndexedFile | None = None


class Sync:
    """One run that indexes the files of a walk."""

    def __init__(
        self,
        store: Store,
        vectorizer: Vectorizer,
        count: TokenCounter,
        *,
        project: str | None,
        allow: Sequence[str] | None = (),
    ) -> None:
        self._documents, self._vectorizer, self._count = store.documents, vectorizer, count
        self._project = project  # None: a file stays in its project
        self._allow = allow  # None: nothing is redacted
        if allow:
            redact("", allow)  # raises if one of them is not valid
        self._report = _ReportBuilder()
        self._known: dict[str, IndexedFile] = {}
        self._seen: set[str] = set()  # files that are there, and stay
        self._unreachable: set[str] = set()  # paths that could not be read, and may be there
        self._pending: list[_PendingFile] = []
        self._progress: _ProgressCallback | None = None
        self._files_done = self._files_total = self._chunks_embedded = 0

    def run(self, walk: Walk, progress: _ProgressCallback | None = None) -> IndexReport:
        """Index the files that a walk finds, and remove indexed ones that it should have found and are gone."""
        self._known = self._documents.load_indexed_files()
        changed = self._find_changed(walk)
        missing = self._missing_by_hash()
        self._progress, self._files_total = progress, self._files_done + len(changed)
        self._report_progress()
        for entry in changed:
            before = self._known.get(str(entry.path))
            if (content := self._read(entry)) is None:
                self._report_progress(files=1)
            elif before is None:
                self._add_file(entry, content, missing)
            else:
                self._update_file(entry, content, before)
        self._store_pending()
        self._remove_missing(walk)
        self._embed_missing()
        return self._report.build()

    def _find_changed(self, walk: Walk) -> list[FoundFile]:
        """Return the files that are new or may have changed."""
        changed = []
        for entry in walk:
            path = str(entry.path)
            if isinstance(entry, SkippedPath):
                self._report.skipped.append((path, entry.reason))
                if entry.keep_indexed:
                    self._unreachable.add(path)
                continue
            self._seen.add(path)
            before = self._known.get(path)
            if (
                before
                and (before.size, before.modified_at) == (entry.size, entry.mtime_ns)
                and self._matches_options(before)
            ):
                self._report.counts["unchanged"] += 1
                self._files_done += 1
            else:
                changed.append(entry)
        return changed

    def _missing_by_hash(self) -> dict[bytes, list[IndexedFile]]:
        """Return indexed files that the walk did not find: one may have been renamed to a new file of the same hash."""
        missing: dict[bytes, list[IndexedFile]] = {}
        for path, indexed in self._known.items():
            if path not in self._seen and not self._is_unreachable(path):
                missing.setdefault(indexed.hash, []).append(indexed)
        return missing

    def _is_unreachable(self, path: str) -> bool:
        if not self._unreachable:
            return False
        return path in self._unreachable or any(str(above) in self._unreachable for above in Path(path).parents)

    def _matches_options(self, before: IndexedFile) -> bool:
        """Return True if a file is indexed in the project of this run, and redacted if this run redacts."""
        redacted = self._allow is None or before.redacted
        return redacted and (self._project is None or before.project == self._project)

    def _report_progress(self, *, files: int = 0, chunks: int = 0) -> None:
        self._files_done += files
        self._chunks_embedded += chunks
        if self._progress:
            self._progress(IndexProgress(self._files_done, self._files_total, self._chunks_embedded))

    def _read(self, entry: FoundFile) -> bytes | None:
        """Return the bytes of a file. One that cannot be read stays indexed, unless it was deleted since the walk."""
        try:
            return read_bytes(entry.path, MAX_FILE_BYTES)
        except UnreadableFile as exc:
            if may_exist(entry.path):
                self._report.skipped.append((str(entry.path), str(exc)))
            else:
                self._seen.discard(str(entry.path))
            return None

    def _update_file(self, entry: FoundFile, content: bytes, before: IndexedFile) -> None:
        """Index a file again if its content has changed, or it is to be in another project."""
        if hashlib.sha256(content).digest() != before.hash or not self._matches_options(before):
            self._parse_and_queue(entry, content, "changed", before.project)
            return
        if (entry.size, _stable_mtime(entry)) != (before.size, before.modified_at):
            self._documents.touch(before.key, entry.size, _stable_mtime(entry))
        self._report.counts["unchanged"] += 1
        self._report_progress(files=1)

    def _add_file(self, entry: FoundFile, content: bytes, missing: Mapping[bytes, list[IndexedFile]]) -> None:
        """Index a file at a new path: a new one, or one that was renamed."""
        candidates = missing.get(hashlib.sha256(content).digest(), ())
        same = [indexed for indexed in candidates if _is_gone(indexed.path, entry.path)]
        if not same:
            self._parse_and_queue(entry, content, "added", None)
            return
        moved = min(same, key=lambda indexed: Path(indexed.path).name != entry.path.name)
        missing[moved.hash].remove(moved)
        # Its title, its sector and its reader may depend on its name; unchanged chunks are not embedded again.
        self._parse_and_queue(entry, content, "renamed", moved.project, moved)

    def _parse_and_queue(
        self, entry: FoundFile, content: bytes, outcome: str, project: str | None, moved_from: IndexedFile | None = None
    ) -> None:
        """Split a file into chunks, and store all pending files as soon as there is enough to embed."""
        try:
            file = self._draft_file(entry, content, self._project or project)
        except (InvalidInput, MissingExtra) as exc:
            self._report.skipped.append((str(entry.path), str(exc)))
            if isinstance(exc, InvalidInput):  # its indexed text is not there any more
                self._seen.discard(str(entry.path))
            self._report_progress(files=1)
            return
        indexed = self._documents.load_chunk_texts(moved_from.path if moved_from else file.path)
        texts = ((chunk.heading, chunk.text) for chunk in file.chunks)
        new = tuple(dict.fromkeys(text for text in texts if text not in indexed))
        self._pending.append(_PendingFile(file, new, outcome, moved_from))
        # Enough to embed or, if little is new, as much as should wait in memory.
        new_chunks = sum(len(pending.new) for pending in self._pending)
        all_chunks = sum(len(pending.file.chunks) + 1 for pending in self._pending)
        if new_chunks >= BATCH or all_chunks >= _MAX_PENDING_CHUNKS:
            self._store_pending()

    def _store_pending(self) -> None:
        """Embed the new chunks of all pending files together, and store the files."""
        if not self._pending:
            return
        vectors, model = self._embed(list(dict.fromkeys(text for pending in self._pending for text in pending.new)))
        stored, self._pending = self._pending, []
        self._report.counts["embedded"] += len(vectors)
        for pending in stored:
            if pending.moved_from:
                self._move_file(pending.moved_from, pending.file)
        self._documents.put([pending.file for pending in stored], vectors, model, datetime.now(UTC))
        for pending in stored:
            self._report.counts[pending.outcome] += 1
            self._report.counts["chunks"] += len(pending.file.chunks)
        self._report_progress(files=len(stored))

    def _embed(self, texts: Sequence[_ChunkTexts]) -> tuple[dict[_ChunkTexts, NDArray[np.float32]], Model | None]:
        """Return the vectors of chunks and their model, as far as the model can be had."""
        vectors: dict[_ChunkTexts, NDArray[np.float32]] = {}
        model = None
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            made, batch_model = self._vectorizer.embed_unstored(
                ["\n".join(part for part in text if part) for text in batch]
            )
            if made is None:
                break
            model = batch_model
            vectors |= zip(batch, made, strict=True)
            self._report_progress(chunks=len(batch))
        return vectors, model

    def _move_file(self, before: IndexedFile, file: FileDraft) -> None:
        try:
            self._documents.move(before.key, file.path, file.root, file.modified_at)
        except (StoreBusy, StoreCorrupt):
            raise
        except StoreError:  # another process was first to index it at its new path
            pass

    def _remove_missing(self, walk: Walk) -> None:
        """Remove indexed files that are gone, unless another process has indexed them again meanwhile."""
        gone = [
            indexed
            for path, indexed in self._known.items()
            if path not in self._seen and not self._is_unreachable(path) and walk.should_remove(path)
        ]
        if gone:
            now = self._documents.load_indexed_files()
            keys = [indexed.key for indexed in gone if now.get(indexed.path) == indexed]
            self._report.counts["removed"] += self._documents.remove(keys)

    def _embed_missing(self) -> None:
        """Embed chunks that the model failed at in an earlier run, though their files have not changed."""
        if self._vectorizer.model.embedder is not None and self._documents.chunks.vectors.list_unembedded(0, 1):
            try:
                self._report.counts["embedded"] += self._vectorizer.embed_all()
            except EmbedderError:
                self._vectorizer.expect_backlog()

    def _draft_file(self, entry: FoundFile, content: bytes, project: str | None) -> FileDraft:
        document = self._parse(entry, content)
        chunks = []
        for chunk in document.chunks:
            if chunk.text.strip():
                above = " › ".join(part for part in (document.title, *chunk.breadcrumb) if part)
                heading = truncate_to_tokens(above[:_MAX_BREADCRUMB_CHARACTERS], TITLE_TOKENS, self._count) or None
                chunks.append(ChunkDraft(chunk.text, heading, chunk.start_line, chunk.end_line, chunk.breadcrumb))
        return FileDraft(
            path=str(entry.path),
            root=str(entry.root),
            project=project,
            title=document.title,
            sector=_choose_sector(entry, document.front_matter),
            tags=_parse_tags(document.front_matter),
            front_matter=document.front_matter,
            size=entry.size,
            modified_at=_stable_mtime(entry),
            hash=hashlib.sha256(content).digest(),
            redacted=self._allow is not None,
            chunks=tuple(chunks),
            links=tuple((link.line, link.target, link.text) for link in document.links),
        )

    def _parse(self, entry: FoundFile, content: bytes) -> ParsedDocument:
        """Parse a file. It is redacted as a whole first, because a key may be longer than a chunk."""
        name, path = entry.path.name, str(entry.path)
        if self._allow is None:
            return parse_file(name, content, _CHUNK_TOKENS, self._count)
        text = decode_source(name, content)
        if text is not None:
            clean, secrets = redact(text, self._allow, keep_lines=True)
            content = codecs.BOM_UTF8 + clean.encode() if secrets else content
            for secret in secrets:
                self._report.add_secret(secret.kind, path, secret.line)
        document = parse_file(name, content, _CHUNK_TOKENS, self._count)
        return self._redact_document(path, document, self._allow) if extracts_text(name) else document

    def _redact_document(self, path: str, document: ParsedDocument, allow: Sequence[str]) -> ParsedDocument:
        """Redact extracted text: a tag or an entity may have split a secret, and a PDF has no text before."""
        lines = [line for chunk in document.chunks for line in chunk.text.split("\n")]
        line_numbers = [
            min(chunk.start_line + offset, chunk.end_line)
            for chunk in document.chunks
            for offset in range(chunk.text.count("\n") + 1)
        ]
        clean, secrets = redact("\n".join(lines), allow, keep_lines=True)
        for secret in secrets:
            self._report.add_secret(secret.kind, path, line_numbers[secret.line - 1])
        clean_lines = iter(clean.split("\n"))
        chunks = tuple(
            replace(
                chunk,
                text="\n".join(next(clean_lines) for _ in range(chunk.text.count("\n") + 1)),
                breadcrumb=tuple(redact(part, allow)[0] for part in chunk.breadcrumb),
            )
            for chunk in document.chunks
        )
        return replace(document, title=document.title and redact(document.title, allow)[0], chunks=chunks)


def _stable_mtime(entry: FoundFile) -> int:
    """Return the time of a file; a little less if a later write could still get the same time, so it is read again."""
    return entry.mtime_ns - (abs(time.time_ns() - entry.mtime_ns) < _CLOCK_TICK_NS)


def _is_gone(path: str, now: Path) -> bool:
    """Return True if a file is gone, or is the same file as `now` on a file system that ignores case."""
    try:
        return not may_exist(path) or (path.casefold() == str(now).casefold() and os.path.samefile(path, now))
    except OSError:
        return False


def _choose_sector(entry: FoundFile, front_matter: Mapping[str, Any]) -> str:
    """Return the sector that the front matter names, or else a folder of the path."""
    named = str(front_matter.get("type") or front_matter.get("sector") or "").lower()
    folders: Iterator[str] = (part.lower() for part in Path(entry.name).parts[:-1])
    return next((name for name in (named, *folders) if name in SECTORS), "semantic")


def _parse_tags(front_matter: Mapping[str, Any]) -> tuple[str, ...]:
    value = front_matter.get("tags") or front_matter.get("keywords") or ()
    names = value if isinstance(value, list) else str(value or "").replace(",", " ").split()
    tags = (str(name).strip().lstrip("#")[:MAX_NAME_CHARACTERS] for name in names if name is not None)
    return tuple(dict.fromkeys(tag for tag in tags if tag))[:MAX_TAGS]
