"""The methods of a memory that are about files: indexed ones, those that an agent writes, exports and backups."""

import builtins
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from memorist.documents import DiscoveredSource, Document, File, ImportReport, IndexReport
from memorist.engine.files import AgentFiles, Documents, IndexCallback, IndexOptions, Paths
from memorist.engine.transfer import Transfer
from memorist.ingest.vectorizer import Progress


class FileMethods:
    """A part of `Memorist`, kept apart because there is much of it."""

    _documents: Documents
    _files: AgentFiles
    _transfer: Transfer

    # Indexed files

    def index(
        self,
        paths: Paths,
        *,
        project: str | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        redact: bool = True,
        allow: Sequence[str] = (),
        progress: IndexCallback | None = None,
    ) -> IndexReport:
        """
        Index files, folders and globs: markdown, text, code. Unchanged files are skipped; files that are gone from a
        folder are removed from the index. Where no project is given, files that are indexed stay in theirs.

        Secrets are redacted before anything is stored, unless `redact` is False; `allow` lists exceptions. `progress`
        is called with an IndexProgress after each batch of chunks and of files.
        """
        return self._documents.index(paths, IndexOptions(project, include, exclude, redact, allow), progress)

    def watch(
        self,
        paths: Paths,
        *,
        project: str | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        redact: bool = True,
        allow: Sequence[str] = (),
        stop: threading.Event | None = None,
    ) -> Iterator[IndexReport]:
        """
        Index files, folders and globs, and again whenever something in them changes, until `stop` is set.

        The first report is of all that changed since the last run, each further one of changes that settled. Where
        other processes keep the database locked for too long, a report's `skipped` says so, and it is tried again.
        """
        return self._documents.watch(paths, IndexOptions(project, include, exclude, redact, allow), stop)

    def documents(self, *, project: str | None = None, limit: int = 1000) -> builtins.list[Document]:
        """List the indexed files, by path."""
        return self._documents.list_documents(project, limit)

    def document(self, path: str | Path) -> Document:
        """Return one indexed file, with the files that its links lead to and those that link to it."""
        return self._documents.get(path)

    def unindex(self, path: str | Path) -> int:
        """Remove a file, or all files of a folder, from the index; return how many."""
        return self._documents.remove(path)

    # Files that an agent writes for itself

    def create_file(self, path: str, text: str, *, project: str | None = None) -> File:
        """Store a new file under a path such as /notes/today.md; folders need not be made. May raise AlreadyExists."""
        return self._files.create(path, text, project)

    def edit_file(self, path: str, change: Callable[[str], str], *, project: str | None = None) -> File:
        """
        Replace the text of a file by what `change` returns for it; the earlier text is in the file's history.
        Nobody else writes meanwhile, so `change` must be quick and use no memory itself; if it raises, nothing changes.
        """
        return self._files.edit(path, change, project)

    def files(self, path: str = "/", *, project: str | None = None) -> builtins.list[File]:
        """List the file of this path, or every file below this folder, by path."""
        return self._files.list_files(path, project)

    def move_files(self, path: str, to: str, *, project: str | None = None) -> int:
        """Give a file, or all files of a folder at once, another path; return how many."""
        return self._files.move(path, to, project)

    def forget_files(self, path: str, *, project: str | None = None) -> int:
        """Forget a file, or all files of a folder at once, as `forget` does; return how many."""
        return self._files.forget(path, project)

    # Export, import and backup

    def export(
        self,
        path: str | Path | BinaryIO,
        *,
        format: str = "jsonl",
        vectors: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """
        Write all of this namespace to a file, as of one moment; return how many records.

        "jsonl" is lossless: imported into an empty database and exported again it gives the same bytes. `vectors` adds
        what can be made again from the texts. "markdown" makes a folder with a file for each live memory, for reading.
        `path` may be a file that is open for bytes, too. A file of that name is replaced only if it is an export.
        """
        return self._transfer.export(path, format, vectors=vectors, progress=progress)

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
        Import a file or folder of memories or conversations; importing it again changes nothing.

        Without a `format` it is detected: "memorist" (an export), "markdown" (a folder of notes), "mem0" (a JSON list
        of memories), else a conversation. What is there already stays as it is. Secrets are redacted, unless `redact`
        is False or it is our own export; `allow` lists exceptions. `tools` is for conversations. `path` may be a file
        that is open for bytes, too, and the file may be compressed with gzip.
        """
        options = self._transfer.check_options(format, project, tools, redact, allow)
        return self._transfer.import_file(path, options, progress)

    def discover(self, programs: Sequence[str] = (), *, tools: bool = False) -> builtins.list[DiscoveredSource]:
        """
        List what other programs, or only these, keep on this machine, and how much of it is new here. To import it,
        give `import_` each of the `paths`, with the `program` as `format`, and the same `tools`.
        """
        return self._transfer.discover(programs, tools)

    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """
        Copy the whole database, with every namespace, to a file while others use it, and check the copy. A file of that
        name is left alone unless `overwrite` is True.
        """
        self._transfer.backup(path, overwrite=overwrite)
