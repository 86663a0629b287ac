"""Transfer: exports, imports and backups."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from memorist import validation
from memorist.arguments import Allowances
from memorist.atomic_file import is_stream, make_folder, open_output
from memorist.config import UserFolders
from memorist.contract import LINES, MULTIPART, local_only, names_unknown, operation
from memorist.engine.room import Room
from memorist.errors import InvalidInput, MissingExtra
from memorist.ingest.vectorizer import Progress, offset_progress
from memorist.profiles import SENTENCE_MODELS
from memorist.redact.redaction import Redaction
from memorist.reports import DiscoveredSource, ImportReport, SalvageReport
from memorist.schemas import Meta
from memorist.store.export import ExportRecord, take_batches

if TYPE_CHECKING:
    from memorist.importers.conversations import ImportOptions
    from memorist.importers.discovery import Program

_EXPORT_FORMATS = ("jsonl", "markdown")
OWN, MARKDOWN, _MEM0, CONVERSATION = "memorist", "markdown", "mem0", "conversation"
_FOLDER = "folder"  # of notes, perhaps with conversations
BATCH, _BATCH_CHARACTERS = 5000, 4_000_000  # records, and characters of their texts, that are written together


class Transfer(Room):
    """Writes memories to files, and reads them back."""

    _name = "transfer"

    @operation("GET /export", gives=LINES, local=("path", "format"))
    def export(
        self,
        path: str | Path | BinaryIO,
        *,
        format: str = "jsonl",
        vectors: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """
        Export everything of this namespace to a file, as of one moment; return how many records.

        "jsonl" is lossless: imported into an empty database and exported again it gives the same bytes. `vectors` adds
        what can be made again from the texts. "markdown" makes a folder with a file for each live memory, for reading.
        `path` may be a file that is open for bytes, too. A file of that name is replaced only if it is an export.
        """
        format = validation.choice(format, _EXPORT_FORMATS, "format")
        if validation.flag(vectors, "vectors") and format == "markdown":
            raise InvalidInput("vectors are no part of markdown; export jsonl to keep them")
        self._resources.recorder.settle()
        if format == "markdown":
            return self._export_folder(validation.path(path), progress)
        from memorist.importers import memorist_export

        if not isinstance(path, str | os.PathLike) and hasattr(path, "write"):
            return memorist_export.write_export(self._store.dump(vectors=vectors), path, progress)
        with open_export(validation.path(path)) as file:
            return memorist_export.write_export(self._store.dump(vectors=vectors), file, progress)

    def _export_folder(self, folder: Path, progress: Progress | None) -> int:
        from memorist.importers.markdown_folder import write_folder

        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInput(f"{folder} exists and is not an empty folder; name a new one")
        relations = (one for one in self._store.dump(vectors=False, types=["relation"]) if "type" in one)
        memories = (one for one in self._store.dump(vectors=False, types=["memory"]) if "type" in one)
        try:
            make_folder(folder, private=True)  # it holds every memory
            return write_folder(memories, relations, folder, progress)
        except OSError as exc:
            raise InvalidInput(f"cannot write {exc.filename or folder}: {exc.strerror}") from exc

    def _check_options(
        self, format: str | None, project: str | None, tools: bool, redact: bool, allow: Sequence[str]
    ) -> "ImportOptions":
        """Check the options of an import; `tools` is for conversations."""
        from memorist.importers.conversations import ImportOptions

        redaction = self._resources.choose_redaction(redact, allow)
        return ImportOptions(format, validation.name(project, "project"), validation.flag(tools, "tools"), redaction)

    @operation("POST /import", takes=MULTIPART, renamed={"path": "file"})
    def import_(
        self,
        path: str | Path | BinaryIO,
        *,
        format: Annotated[str | None, Meta("Detected if it is left out")] = None,
        project: str | None = None,
        tools: bool = False,
        redact: bool = True,
        allow: Allowances = (),
        progress: Progress | None = None,
    ) -> ImportReport:
        """
        Import a file or folder of memories or conversations; importing it again changes nothing.

        Without a `format` it is detected: "memorist" (an export), "markdown" (a folder of notes), "mem0" (a JSON list
        of memories), else a conversation. What is there already stays as it is. Secrets are redacted, unless `redact`
        is False or it is our own export; `allow` lists exceptions. `tools` is for conversations. `path` may be a file
        that is open for bytes, too, and the file may be compressed with gzip.
        """
        options = self._check_options(format, project, tools, redact, allow)
        from memorist.importers.input_file import open_input
        from memorist.importers.memories import TABLES

        with open_input(path) as source:
            try:
                detected = _detect_format(source.file, options.format)
                if detected == _FOLDER:
                    return self._import_folder(source.file, options, progress)
                if detected == OWN and options.project is not None:
                    raise InvalidInput("an export of Memorist keeps its projects; leave project out")
                if detected in (OWN, MARKDOWN, _MEM0, *TABLES):
                    report = self._import_records(source.file, detected, options, progress)
                else:
                    report = self._import_conversations(source.file, options, progress)
            except OSError as exc:
                raise InvalidInput(f"cannot read {exc.filename or source.file}: {exc.strerror or exc}") from exc
            return source.restore_names(report)

    def _import_folder(self, folder: Path, options: "ImportOptions", progress: Progress | None) -> ImportReport:
        """Import the notes of a folder and the conversations in it; beside notes, other files are passed over."""
        notes = self._import_records(folder, MARKDOWN, options, progress)
        done = notes.added + notes.known
        try:
            talks = self._import_conversations(folder, options, offset_progress(done, progress))
        except InvalidInput:  # there are none
            return notes
        told = {os.path.join(os.path.realpath(folder), place) for place, _ in notes.skipped}
        return ImportReport(
            f"{notes.format}, {talks.format}",
            notes.added + talks.added,
            notes.known + talks.known,
            notes.sessions + talks.sessions,
            (*notes.skipped, *(skipped for skipped in talks.skipped if skipped[0] not in told)),
            Counter(notes.redacted) + Counter(talks.redacted),
        )

    @names_unknown
    def import_conversations(
        self,
        path: str | Path,
        *,
        format: str | None = None,
        project: str | None = None,
        tools: bool = False,
        redact: bool = True,
        allow: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> ImportReport:
        """
        Import a file of conversations, or every such file of a folder: sessions of Claude Code, exports of ChatGPT and
        Claude.ai, lists of messages, JSONL. Each conversation becomes a session, each turn a memory. What is there
        already, or was forgotten, stays as it is; what was erased stays away.

        Calls and results of tools are left out unless `tools`. Secrets are redacted before anything is stored, unless
        `redact` is False; `allow` lists exceptions. `progress` is told how many turns are done.
        """
        if self._remote is not None:  # which finds out that they are conversations
            return self.import_(
                path, format=format, project=project, tools=tools, redact=redact, allow=allow, progress=progress
            )
        return self._import_conversations(path, self._check_options(format, project, tools, redact, allow), progress)

    def _import_conversations(
        self, path: str | Path, options: "ImportOptions", progress: Progress | None
    ) -> ImportReport:
        from memorist.importers.conversations import ImportCounter, read_batches

        counter = ImportCounter()
        for batch in read_batches(validation.path(path), options, counter):
            result = self._store.add_conversations(batch)
            self._resources.embed(*result.pending, promptly=False)
            counter.add_result(batch, result)
            if progress:
                progress(counter.added + counter.known)
        return counter.build_report(options.format)

    @local_only("looks at files of the server's machine: run `memorist import --discover` there")
    def discover(self, programs: Sequence[str] = (), *, tools: bool = False) -> list[DiscoveredSource]:
        """
        List what other programs, or only these, keep on this machine, and how much of it is new here. To import it,
        give `import_` each of the `paths`, with the `program` as `format`, and the same `tools`.
        """
        from memorist.importers.discovery import PROGRAMS

        chosen = [PROGRAMS[name] for name in validation.choices(programs, PROGRAMS, "programs")]
        folders = UserFolders(Path.home(), os.environ)
        tools = validation.flag(tools, "tools")
        found = [self._examine(program, program.find(folders), tools) for program in chosen or PROGRAMS.values()]
        return [source for source in found if source.total or source.skipped]

    def _examine(self, program: "Program", paths: Sequence[Path], tools: bool) -> DiscoveredSource:
        total, new = set[str](), set[str]()
        skipped: list[tuple[str, str]] = []
        for path in paths:
            try:
                for found, unknown in self._read_groups(program, path, tools, skipped):
                    total |= found
                    new |= unknown
            except (InvalidInput, MissingExtra, OSError) as exc:
                skipped.append((str(path), str(exc)))
        kind = "memories" if program.keeps_memories else "conversations"
        names = tuple(map(str, paths))
        redact = Redaction(True).redact_text  # a reason may quote what cannot be imported
        reasons = tuple((place, redact(reason)) for place, reason in skipped)
        return DiscoveredSource(program.name, program.title, kind, names, len(total), len(new), reasons)

    def _read_groups(
        self, program: "Program", path: Path, tools: bool, skipped: list[tuple[str, str]]
    ) -> Iterator[tuple[set[str], set[str]]]:
        """Yield the ids of conversations, or of memories, in batches: all of them, and those with anything new."""
        from memorist.importers.conversations import ImportCounter, ImportOptions, has_files, read_batches
        from memorist.importers.memories import MemoryDatabase, Redactor

        if program.keeps_memories:
            database = MemoryDatabase(path, program.name, None, Redactor(None))
            for records in _batches(database.read_records()):
                ids = [record.fields["id"] for record in records]
                yield set(ids), self._store.find_unknown(ids)
            skipped += database.skipped
            return
        if path.is_dir() and not has_files(path):
            return
        counter = ImportCounter()
        options = ImportOptions(program.name, None, tools, Redaction(False, ()))  # ids do not depend on what is masked
        for batches in read_batches(path, options, counter):
            new = self._store.find_new_turns(batches)
            unknown = {batch.id for batch in batches if any(turn.id in new for turn in batch.turns)}
            yield {batch.id for batch in batches}, unknown
        skipped += counter.skipped

    def _import_records(
        self, file: Path, format: str, options: "ImportOptions", progress: Progress | None
    ) -> ImportReport:
        """Import a file that holds memories as records: an export, notes, memories of mem0 and of other programs."""
        from memorist.importers.memories import TABLES, MemoryDatabase, Redactor, read_mem0

        redactor = Redactor(options.redaction.allow if options.redaction.on else None)
        if format == OWN:
            from memorist.importers import memorist_export

            memorist_export.check_export(file)
            return self._load(memorist_export.read_export(file), format, (), redactor.counts, progress)
        if format == MARKDOWN:
            from memorist.importers.markdown_folder import MarkdownFolder

            notes = MarkdownFolder(file, options.project, redactor)
            return self._load(notes.read_records(), format, notes.skipped, redactor.counts, progress)
        if format in TABLES:
            database = MemoryDatabase(file, format, options.project, redactor)
            return self._load(database.read_records(), format, database.skipped, redactor.counts, progress)
        records = list(read_mem0(file, options.project, redactor))  # all of them, before the first is written
        return self._load(records, format, (), redactor.counts, progress)

    def _load(
        self,
        records: Iterable[ExportRecord],
        format: str,
        unread: Sequence[tuple[str, str]],
        redacted: Counter[str],
        progress: Progress | None,
    ) -> ImportReport:
        """Write records in batches, then embed what lacks a vector."""
        loader, done = self._store.create_loader(SENTENCE_MODELS), 0
        added = known = sessions = 0
        skipped: list[tuple[str, str]] = []
        for batch in _batches(records):
            report = loader.put(batch)
            added, known, sessions = added + report.added, known + report.known, sessions + report.sessions
            skipped += report.skipped
            done += len(batch)
            if progress:
                progress(done)
        for vectorizer in (self._resources.vectorizer, self._resources.file_vectorizer):
            done += vectorizer.embed_backlog(offset_progress(done, progress))
        return ImportReport(format, added, known, sessions, (*unread, *skipped), dict(redacted))

    @local_only("copies the server's database: run `memorist backup create` there, or `export` from here")
    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """
        Copy the whole database, with every namespace, to a file while others use it, and check the copy. A file of that
        name is left alone unless `overwrite` is True.
        """
        validation.flag(overwrite, "overwrite")
        self._resources.recorder.settle()
        self._store.backup(str(validation.path(path)), overwrite=overwrite)


def restore_backup(
    path: str | Path, target: str | Path, *, overwrite: bool = False, busy_timeout: float = 30.0
) -> Path | None:
    """
    Put a backup in the place of a database, and return where the old database is kept, if there was one.

    It is kept beside the new one as `memory.db.before-restore` or, if that is taken by another restore,
    `memory.db.before-restore-2`, and so on.
    """
    from memorist.store.sqlite.backup import restore_database

    return restore_database(str(validation.path(path)), str(target), overwrite=overwrite, busy_timeout=busy_timeout)


def salvage(path: str | Path, target: str | Path, *, busy_timeout: float = 30.0) -> SalvageReport:
    """Copy everything that can still be read in a damaged database to a new file, and tell what was kept and lost."""
    from memorist.store.sqlite.check import salvage_database

    return salvage_database(str(validation.path(path)), str(validation.path(target)), busy_timeout=busy_timeout)


def _detect_format(file: Path, wanted: object) -> str:
    """Return the format of a file or folder; the formats of conversations are told apart by their own reader."""
    from memorist.importers import memories, memorist_export, transcripts
    from memorist.importers.markdown_folder import SUFFIXES, has_notes

    formats = (OWN, MARKDOWN, _MEM0, *memories.TABLES, *transcripts.FORMATS)
    format = None if wanted is None else validation.choice(wanted, formats, "format")
    if not file.exists():
        raise InvalidInput(f"cannot read {file}: there is no such file or folder")
    if format is not None:
        if file.is_dir() and format in (OWN, _MEM0, *memories.TABLES):
            raise InvalidInput(f"cannot read {file} as {format}: it is a folder")
        return format
    if file.is_dir():
        return _FOLDER if has_notes(file) else CONVERSATION
    if file.name.lower().endswith(SUFFIXES):
        return MARKDOWN
    if memory_format := memories.find_memory_format(file):
        return memory_format
    if memorist_export.is_export(file):
        return OWN
    return _MEM0 if memories.is_mem0(file) else CONVERSATION


def _batches(records: Iterable[ExportRecord]) -> Iterator[list[ExportRecord]]:
    """Group records into batches that are worth a transaction and fit in little memory."""
    return take_batches(records, BATCH, _BATCH_CHARACTERS, _count_characters)


def _count_characters(record: ExportRecord) -> int:
    chunks = record.fields.get("chunks", ())
    return len(record.fields.get("content", "")) + sum(len(chunk["content"]) for chunk in chunks)


@contextmanager
def open_export(target: Path) -> Iterator[BinaryIO]:
    """Open a file or a stream for an export; a file that is there is replaced only if it is an export as well."""
    from memorist.importers.memorist_export import is_export

    try:
        if target.is_dir():
            raise InvalidInput(f"{target} is a directory; name a file in it")
        if not is_stream(target) and target.exists() and target.stat().st_size and not is_export(target):
            raise InvalidInput(f"{target} exists and is not a Memorist export; choose another name")
        with open_output(target, new_mode=0o600) as file:  # it holds every memory
            yield file
    except OSError as exc:
        raise InvalidInput(f"cannot write {target}: {exc.strerror}") from exc
