"""Memories carried elsewhere and back: exports, imports, backups."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from memorist import validation
from memorist.documents import ImportReport
from memorist.engine.conversing import Conversing
from memorist.errors import InvalidInput
from memorist.profiles import SENTENCE_MODELS
from memorist.store.export_schema import ExportRecord

EXPORTS = ("jsonl", "markdown")
OWN, MARKDOWN, MEM0, CONVERSATION = "memorist", "markdown", "mem0", "conversation"
BATCH, BATCH_BYTES = 500, 4_000_000  # records, and characters of their texts, that are written together

Progress = Callable[[int], None]


class Carrying(Conversing):
    """Everything about taking memories out and in, as files."""

    def export(
        self,
        path: str | Path | BinaryIO,
        *,
        format: str = "jsonl",
        vectors: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """
        Write all of this namespace to a file, as of one moment; gives how many records that are.

        "jsonl" is lossless: imported into an empty database and exported again it gives the same bytes. `vectors` adds
        what can be made again from the texts. "markdown" makes a folder with a file for each live memory, to be read.
        `path` may be a file that is open for bytes, too. A file of that name is replaced only if it is an export.
        """
        wanted = validation.choice(format, EXPORTS, "format")
        if validation.flag(vectors, "vectors") and wanted == "markdown":
            raise InvalidInput("vectors are no part of markdown; export jsonl to keep them")
        self._recorder.settle()
        if wanted == "markdown":
            return self._export_folder(validation.path(path), progress)
        from memorist.importers import exports

        if not isinstance(path, str | os.PathLike) and hasattr(path, "write"):
            return exports.write(self._store.dump(vectors=vectors), path, progress)
        with _replacing(validation.path(path)) as file:
            return exports.write(self._store.dump(vectors=vectors), file, progress)

    def _export_folder(self, folder: Path, progress: Progress | None) -> int:
        from memorist.importers.markdown_folder import write_folder

        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInput(f"{folder} is there and not an empty folder; name a new one")
        relations = (one for one in self._store.dump(vectors=False, types=["relation"]) if "type" in one)
        memories = (one for one in self._store.dump(vectors=False, types=["memory"]) if "type" in one)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return write_folder(memories, relations, folder, progress)
        except OSError as exc:
            raise InvalidInput(f"cannot write {exc.filename or folder}: {exc.strerror}") from exc

    def import_(
        self,
        path: str | Path | BinaryIO,
        *,
        format: str | None = None,
        project: str | None = None,
        tools: bool = False,
        redact: bool = True,
        allow: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> ImportReport:
        """
        Take in what was written down elsewhere; doing it again changes nothing.

        Without a `format` it is found out: "memorist" (an export), "markdown" (a folder of notes), "mem0" (a JSON list
        of memories), else a conversation. What is there already stays as it is. Secrets are replaced by a mark, unless
        `redact` is False or it is our own export; `allow` names what is none. `tools` is for conversations. `path` may
        be a file that is open for bytes, too, and the file may be packed with gzip.
        """
        from memorist.importers.foreign import unpacked

        belongs_to, allowed = validation.name(project, "project"), validation.allowances(allow, "allow")
        validation.flag(tools, "tools")
        with unpacked(path) as source:
            try:
                found = _format(source.file, format)
                if found == OWN and belongs_to is not None:
                    raise InvalidInput("an export of Memorist keeps its projects; leave project out")
                if found in (OWN, MARKDOWN, MEM0):
                    clean = (*self._redaction.allow, *allowed) if validation.flag(redact, "redact") else None
                    report = self._import(source.file, found, belongs_to, clean, progress)
                else:
                    report = self.import_conversations(
                        source.file, format=format, project=belongs_to, tools=tools, redact=redact, allow=allowed,
                        progress=progress,
                    )  # fmt: skip
            except OSError as exc:
                raise InvalidInput(f"cannot read {exc.filename or source.file}: {exc.strerror or exc}") from exc
            return source.named(report)

    def _import(
        self, file: Path, found: str, project: str | None, allowed: tuple[str, ...] | None, progress: Progress | None
    ) -> ImportReport:
        """What is written in records of its own: our export, notes, memories of mem0."""
        from memorist.importers.foreign import Redactor

        redactor = Redactor(allowed)
        if found == OWN:
            from memorist.importers import exports

            exports.check(file)
            return self._take(exports.read(file), found, (), redactor.found, progress)
        if found == MARKDOWN:
            from memorist.importers.markdown_folder import MarkdownFolder

            notes = MarkdownFolder(file, project, redactor)
            return self._take(notes.lines(), found, notes.skipped, redactor.found, progress)
        from memorist.importers.mem0 import read_mem0

        lines = list(read_mem0(file, project, redactor))  # all of them, before the first is taken
        return self._take(lines, found, (), redactor.found, progress)

    def _take(
        self,
        lines: Iterable[ExportRecord],
        format: str,
        unread: Sequence[tuple[str, str]],
        redacted: Counter[str],
        progress: Progress | None,
    ) -> ImportReport:
        """Write records in batches, then make the vectors they lack."""
        loader, done = self._store.create_loader(SENTENCE_MODELS), 0
        added = known = sessions = 0
        skipped: list[tuple[str, str]] = []
        for batch in _batches(lines):
            taken = loader.put(batch)
            added, known, sessions = added + taken.added, known + taken.known, sessions + taken.sessions
            skipped += taken.skipped
            done += len(batch)
            if progress:
                progress(done)
        self._catch_up(done, progress)
        return ImportReport(format, added, known, sessions, (*unread, *skipped), dict(redacted))

    def _catch_up(self, done: int, progress: Progress | None) -> None:
        """Make the vectors of texts that wait; a model that fails leaves them waiting."""
        if self._vectorizer.embedder is None:
            return
        for vectorizer in (self._vectorizer, self._file_vectorizer):
            done += vectorizer.catch_up(_beyond(done, progress))

    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """
        Copy the whole database, every namespace of it, to a file, while others read and write it.

        The copy is checked before it gets its name. A file of that name is left alone unless `overwrite` is True.
        """
        validation.flag(overwrite, "overwrite")
        self._recorder.settle()
        self._store.backup(str(validation.path(path)), overwrite=overwrite)


def restore_backup(
    path: str | Path, target: str | Path, *, overwrite: bool = False, busy_timeout: float = 30.0
) -> Path | None:
    """
    Make a database what a backup holds; what was there is kept beside it, as `memory.db.before-restore`. If that is
    there from another restore, it is `memory.db.before-restore-2`, and so on. Gives where it is kept, if anything was.
    """
    from memorist.store.sqlite.backup import restore_database

    return restore_database(str(validation.path(path)), str(target), overwrite=overwrite, busy_timeout=busy_timeout)


def _beyond(done: int, progress: Progress | None) -> Progress | None:
    """Progress of a part, told as that of the whole."""
    return None if progress is None else lambda more: progress(done + more)


def _format(file: Path, wanted: object) -> str:
    """Which way of reading a file, or folder, is for; the formats of conversations are told apart further on."""
    from memorist.importers import exports, transcripts
    from memorist.importers.markdown_folder import SUFFIXES
    from memorist.importers.mem0 import is_mem0

    formats = (OWN, MARKDOWN, MEM0, *transcripts.FORMATS)
    format = None if wanted is None else validation.choice(wanted, formats, "format")
    if not file.exists():
        raise InvalidInput(f"cannot read {file}: there is no such file or folder")
    if format is not None:
        if file.is_dir() and format in (OWN, MEM0):
            raise InvalidInput(f"cannot read {file} as {format}: it is a folder")
        return format
    if file.is_dir():
        notes = any(name.lower().endswith(SUFFIXES) for _, _, names in os.walk(file) for name in names)
        return MARKDOWN if notes else CONVERSATION
    if file.name.lower().endswith(SUFFIXES):
        return MARKDOWN
    if exports.is_export(file):
        return OWN
    return MEM0 if is_mem0(file) else CONVERSATION


def _batches(lines: Iterable[ExportRecord]) -> Iterator[list[ExportRecord]]:
    """As many records as are worth a transaction, and no more than fit in a little memory."""
    batch: list[ExportRecord] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.fields.get("content", "")) + sum(
            len(chunk["content"]) for chunk in line.fields.get("chunks", ())
        )
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when it is whole. What has the name is replaced only if it is an export as well."""
    from memorist.importers.exports import is_export

    try:
        if target.is_dir():
            raise InvalidInput(f"{target} is a directory; name a file in it")
        if target.exists() and target.stat().st_size and not is_export(target):
            raise InvalidInput(f"{target} exists and is no export of Memorist; choose another name")
        handle, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".part", dir=target.parent)
    except OSError as exc:
        raise InvalidInput(f"cannot write {target}: {exc.strerror}") from exc
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as exc:
        raise InvalidInput(f"cannot write {target}: {exc.strerror}") from exc
    finally:
        part.unlink(missing_ok=True)
