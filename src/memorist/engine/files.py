"""Files: those that are indexed and watched, and those that an agent writes for itself."""

import logging
import os
import posixpath
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memorist import validation
from memorist.documents import Document, DocumentLink, File, IndexedFile, IndexProgress, IndexReport
from memorist.embed.base import token_counter
from memorist.engine.resources import Resources
from memorist.errors import InvalidInput, StoreBusy
from memorist.records import FILE, Memory

if TYPE_CHECKING:
    from memorist.ingest.changes import Changes

# After changes that changed nothing, watching waits so many times as long as looking at them took.
_IDLE_FACTOR = 10
_MAX_IDLE_SECONDS = 5.0

_IMPLIED_SUFFIXES = ("", ".md", ".markdown", "/index.md", "/_index.md", "/README.md")  # a link may leave them out

# A memory cannot be empty, a file can. An empty file is stored under this text, with its real one in the metadata.
_EMPTY_TEXT, _BLANK_KEY = "(empty file)", "blank"

Paths = str | Path | Sequence[str | Path]
IndexCallback = Callable[[IndexProgress], None]

_log = logging.getLogger("memorist.watch")


class _Stopped(Exception):
    """Watching was asked to end, before pending files are stored: each is stored whole or not at all."""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Options of indexing: which files, for which project, and what is redacted."""

    project: str | None
    include: Sequence[str]
    exclude: Sequence[str]
    redact: bool
    allow: Sequence[str]


class Documents:
    """Keeps the index of files in step with the files."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store.documents

    def index(self, paths: Paths, options: IndexOptions, progress: IndexCallback | None) -> IndexReport:
        from memorist.ingest.sync import Sync
        from memorist.ingest.walk import Walk

        chosen = validation.paths(paths, "index")
        redaction = self._resources.choose_redaction(options.redact, options.allow)
        sync = Sync(
            self._resources.store,
            self._resources.file_vectorizer,
            token_counter(self._resources.model.embedder),
            project=validation.name(options.project, "project"),
            allow=redaction.allow if redaction.on else None,
        )
        include = validation.patterns(options.include, "include")
        exclude = validation.patterns(options.exclude, "exclude")
        return sync.run(Walk(chosen, include=include, exclude=exclude), progress)

    def list_documents(self, project: str | None, limit: int, after: str | None = None) -> list[Document]:
        validation.whole_number(limit, "limit", 1, 1_000_000_000)
        return self._store.list_documents(validation.name(project, "project"), limit, after)

    def get(self, path: str | Path) -> Document:
        return self.get_stored(os.path.realpath(validation.path(path)))

    def get_stored(self, path: str) -> Document:
        """Return a file by the path that it is stored under, without a look at the file system."""
        document, known = self._store.get(path), self._store.load_indexed_files()
        resolver = _LinkResolver.of(known.values())
        links, linked_from = [], dict[str, None]()
        for source, line, target, text in self._store.list_links():
            leads_to = resolver.resolve(known[source], target) if source in known else None
            if source == document.path:
                links.append(DocumentLink(line, target, text, leads_to))
            elif leads_to == document.path:
                linked_from[source] = None
        return replace(document, links=tuple(links), linked_from=tuple(linked_from))

    def remove(self, path: str | Path) -> int:
        named = validation.path(path)
        return self.remove_stored({named.absolute(), Path(os.path.realpath(named))})  # of a link, where it leads, too

    def remove_stored(self, roots: Set[Path]) -> int:
        """Remove what is stored under these paths, without a look at the file system."""
        known = self._store.load_indexed_files()
        keys = [file.key for name, file in known.items() if roots & {Path(name), *Path(name).parents}]
        return self._store.remove(keys)

    def watch(self, paths: Paths, options: IndexOptions, stop: threading.Event | None) -> Iterator[IndexReport]:
        from memorist.ingest.changes import Changes
        from memorist.ingest.walk import Walk

        chosen = validation.paths(paths, "watch")
        Walk(chosen, include=options.include, exclude=options.exclude)  # raises where there is nothing
        stopped = stop or threading.Event()
        own_files = list(self._resources.store.own_files)  # watching must not follow its own writes
        changes = Changes(chosen, own_files, stopped)
        index = partial(self.index, options=options, progress=partial(_stop_if_set, stopped))
        return self._follow_changes(chosen, changes, index, stopped)

    def _follow_changes(
        self, paths: Sequence[str | Path], changes: "Changes", index: "partial[IndexReport]", stop: threading.Event
    ) -> Iterator[IndexReport]:
        """Yield a report for each settled burst of changes that changed something; for the first in any case."""
        last: IndexReport | None = None
        failed = False  # a burst could not be indexed; it is tried again, and reported once
        for changed in changes:
            if not (changed or failed):
                continue
            started, failed_before = time.monotonic(), failed
            try:
                report, failed = self._index_burst(paths, changes, index), False
            except _Stopped:
                return
            except (StoreBusy, InvalidInput) as exc:
                if last is None and isinstance(exc, InvalidInput):
                    raise  # an argument that cannot be used will not get better
                _log.warning("changes could not be indexed yet: %s", exc)
                names = ", ".join(str(path) for path in paths)
                report, failed = IndexReport(skipped=((names, str(exc)),)), True
            repeated = failed and failed_before
            if last is None or not report.quiet or (report.skipped != last.skipped and not repeated):
                last = report
                yield report
            else:
                # Something that is not indexed is written all the time: a log, a build.
                stop.wait(min(_MAX_IDLE_SECONDS, _IDLE_FACTOR * (time.monotonic() - started)))

    def _index_burst(
        self, paths: Sequence[str | Path], changes: "Changes", index: "partial[IndexReport]"
    ) -> IndexReport:
        """Index the paths that are there, and remove those that were deleted."""
        missing = changes.missing_paths()
        present = [path for path in paths if str(path) not in missing]
        report = index(present) if present else IndexReport()
        for path, mark in missing.items():
            if mark.was_deleted:
                report = replace(report, removed=report.removed + self.remove(mark.path))
            else:
                reason = "it is not there, nor the disk it was on; what is indexed of it stays"
                report = replace(report, skipped=(*report.skipped, (path, reason)))
        return report


def _stop_if_set(stop: threading.Event, progress: IndexProgress) -> None:
    if stop.is_set():
        raise _Stopped


@dataclass(frozen=True, slots=True)
class _LinkResolver:
    """The documents that links can lead to, by path and by root and name; paths have forward slashes here."""

    paths: dict[str, str]
    names: dict[tuple[str, str], str]

    @classmethod
    def of(cls, files: Iterable[IndexedFile]) -> "_LinkResolver":
        paths, names = dict[str, str](), dict[tuple[str, str], str]()
        for file in sorted(files, key=lambda file: (len(file.path), file.path)):  # of one name, the nearest to the root
            paths[_with_slashes(file.path)] = file.path
            names.setdefault((file.root, _document_name(_with_slashes(file.path))), file.path)
        return cls(paths, names)

    def resolve(self, source: IndexedFile, target: str) -> str | None:
        """Return the document that a link in `source` leads to: by path or, as in `[[a note]]`, by name."""
        base = _with_slashes(source.root) if target.startswith("/") else posixpath.dirname(_with_slashes(source.path))
        path = posixpath.normpath(posixpath.join(base, target.lstrip("/")))
        by_path = next((self.paths[path + end] for end in _IMPLIED_SUFFIXES if path + end in self.paths), None)
        is_name = not posixpath.splitext(target)[1]
        return by_path or (self.names.get((source.root, _document_name(target))) if is_name else None)


def _document_name(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0].casefold()


def _with_slashes(path: str) -> str:
    return path.replace("\\", "/")


class AgentFiles:
    """Creates, edits, moves and forgets files that exist in memory alone."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store.agent_files

    def create(self, path: str, text: str, project: str | None) -> File:
        fields = dict(kind=FILE, source=self._check_path(path), project=project, **_fields(text, {}))
        draft = self._resources.model_redaction.redact_draft(validation.draft(fields, datetime.now(UTC)))
        result = self._store.create(draft)
        self._resources.embed(result.pending)
        return _as_file(result.memory)

    def edit(self, path: str, change: Callable[[str], str], project: str | None) -> File:

        def changes(memory: Memory) -> dict[str, Any]:
            new = validation.changes(_fields(change(_text_of(memory)), memory.metadata))
            return self._resources.model_redaction.redact_changes(new, memory.metadata)

        path, project = self._check_path(path), validation.name(project, "project")
        memory, job = self._store.edit(path, project, changes, datetime.now(UTC))
        self._resources.embed(job)
        return _as_file(memory)

    def list_files(self, path: str, project: str | None) -> list[File]:
        found = self._store.list_files(self._check_path(path, folder=True), validation.name(project, "project"))
        return list({memory.source: _as_file(memory) for memory in reversed(found)}.values())[::-1]

    def move(self, path: str, to: str, project: str | None) -> int:
        project = validation.name(project, "project")
        return self._store.move(self._check_path(path), self._check_path(to), project, datetime.now(UTC))

    def forget(self, path: str, project: str | None) -> int:
        self._resources.recorder.flush()  # a recall written later would bring traces of it back
        path = self._check_path(path, folder=True)
        return self._store.forget(path, validation.name(project, "project"), datetime.now(UTC))

    def _check_path(self, path: object, *, folder: bool = False) -> str:
        checked = validation.file_path(path, folder=folder)
        if self._resources.model_redaction.redact_text(checked) != checked:
            raise InvalidInput("the path holds what looks like a secret; choose another name")
        return checked


def _fields(text: object, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a memory that hold a file's text, keeping other metadata."""
    others = {key: value for key, value in metadata.items() if key != _BLANK_KEY}
    if isinstance(text, str) and not text.strip():
        return {"content": _EMPTY_TEXT, "metadata": {**others, _BLANK_KEY: text}}
    return {"content": validation.content(text, "a file"), "metadata": others}


def _text_of(memory: Memory) -> str:
    blank = memory.metadata.get(_BLANK_KEY)
    return blank if memory.content == _EMPTY_TEXT and isinstance(blank, str) else memory.content


def _as_file(memory: Memory) -> File:
    return File(memory.source or "", _text_of(memory), memory.id, memory.project, memory.created_at, memory.updated_at)
