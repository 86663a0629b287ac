"""Documents: files that are indexed, watched and searched."""

import json
import logging
import os
import posixpath
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from msgspec import Struct
from msgspec.structs import replace

from memorist import validation
from memorist.arguments import Cursor, DocumentFilters, Limit, Mode, ProfileName, QueryText
from memorist.contract import local_only, operation
from memorist.embed.base import token_counter
from memorist.engine.room import Room, check_cursor, next_cursor, parse_position
from memorist.engine.search import Searcher, split_options
from memorist.errors import InvalidInput, StoreBusy
from memorist.file_records import Document, DocumentLink, IndexedFile
from memorist.profiles.profile import ProfileOptions
from memorist.records import Results
from memorist.reports import IndexProgress, IndexReport
from memorist.schemas import Meta
from memorist.views import ChunkPage, DocumentChunk, DocumentPage

if TYPE_CHECKING:
    from memorist.ingest.changes import Changes

# After changes that changed nothing, watching waits so many times as long as looking at them took.
_IDLE_FACTOR = 10
_MAX_IDLE_SECONDS = 5.0

_IMPLIED_SUFFIXES = ("", ".md", ".markdown", "/index.md", "/_index.md", "/README.md")  # a link may leave them out

_FILTERS = tuple(name for name in DocumentFilters.__annotations__ if name not in ProfileOptions.__annotations__)

Paths = str | Path | Sequence[str | Path]
IndexCallback = Callable[[IndexProgress], None]

_log = logging.getLogger("memorist.watch")


class _Stopped(Exception):
    """Watching was asked to end, before pending files are stored: each is stored whole or not at all."""


class Documents(Room):
    """Keeps the index of files in step with the files, and finds passages in them."""

    _name = "documents"

    @local_only("reads files of the server's machine: run `memorist index` there")
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
        from memorist.ingest.sync import Sync
        from memorist.ingest.walk import Walk

        chosen = validation.paths(paths, "index")
        redaction = self._resources.choose_redaction(redact, allow)
        sync = Sync(
            self._store,
            self._resources.file_vectorizer,
            token_counter(self._resources.model.embedder),
            project=validation.name(project, "project"),
            allow=redaction.allow if redaction.on else None,
        )
        include, exclude = validation.patterns(include, "include"), validation.patterns(exclude, "exclude")
        return sync.run(Walk(chosen, include=include, exclude=exclude), progress)

    @local_only("reads files of the server's machine: run `memorist watch` there")
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
        from memorist.ingest.changes import Changes
        from memorist.ingest.walk import Walk

        chosen = validation.paths(paths, "watch")
        Walk(chosen, include=include, exclude=exclude)  # raises where there is nothing
        stopped = stop or threading.Event()
        own_files = list(self._store.own_files)  # watching must not follow its own writes
        changes = Changes(chosen, own_files, stopped)
        index = partial(
            self.index, project=project, include=include, exclude=exclude, redact=redact, allow=allow,
            progress=partial(_stop_if_set, stopped),
        )  # fmt: skip
        return self._follow_changes(chosen, changes, index, stopped)

    @operation("POST /documents:search", reads=True, nested="options")
    def search(
        self,
        query: QueryText,
        *,
        limit: Limit | None = None,
        mode: Mode = "hybrid",
        profile: ProfileName | None = None,
        grouped: bool = True,
        neighbours: Annotated[
            int, Meta("Also show this many chunks before and after each hit", minimum=0, maximum=100)
        ] = 0,
        explain: bool = False,
        **options: Unpack[DocumentFilters],
    ) -> Results:
        """
        Find passages in indexed files by word and by meaning: the best of each file, or every one unless `grouped`.
        `neighbours` adds so many chunks before and after each passage; passages that then meet become one.
        """
        searcher = Searcher(self._resources)
        filters, others = split_options(options, Documents.search)
        if unknown := filters.keys() - DocumentFilters.__annotations__.keys():
            raise InvalidInput(f"{min(unknown)} is no filter of files; there are: {', '.join(_FILTERS)}")
        request = searcher.build_request(
            query, filters, {**others, "limit": limit, "record": "off"}, mode=mode, profile=profile,
            include_superseded=True,
        )  # fmt: skip
        return searcher.search_documents(request, grouped, neighbours, explain)

    @operation("GET /documents")
    def list(self, *, project: str | None = None, limit: Limit = 1000, cursor: Cursor | None = None) -> DocumentPage:
        """List the indexed files, by path, page by page."""
        count, after = validation.whole_number(limit, "limit", 1, 1_000_000_000), check_cursor(cursor)
        found = self._store.documents.list_documents(validation.name(project, "project"), count + 1, after)
        return DocumentPage(tuple(found[:count]), next_cursor(found, count, lambda document: document.path))

    @operation("GET /documents/{id}")
    def get(self, id: str) -> Document:
        """Return an indexed file by its id, with the files that its links lead to and those that link to it."""
        return self._find_stored(self._store.inspection.find_document_path(validation.clean(id)))

    @operation("GET /document")
    def find(self, path: Annotated[str | Path, Meta(min_length=1)]) -> Document:
        """
        Return an indexed file by its path, with its links. A path of a server is taken as it is written there, as
        `list` shows it.
        """
        if self._resources.is_served:
            return self._find_stored(validation.required_name(str(path), "path"))
        return self._find_stored(os.path.realpath(validation.path(path)))

    def _find_stored(self, path: str) -> Document:
        """Return a file by the path that it is stored under, without a look at the file system."""
        documents = self._store.documents
        document, known = documents.get(path), documents.load_indexed_files()
        resolver = _LinkResolver.of(known.values())
        links, linked_from = [], dict[str, None]()
        for source, line, target, text in documents.list_links():
            leads_to = resolver.resolve(known[source], target) if source in known else None
            if source == document.path:
                links.append(DocumentLink(line, target, text, leads_to))
            elif leads_to == document.path:
                linked_from[source] = None
        return replace(document, links=tuple(links), linked_from=tuple(linked_from))

    @operation("GET /documents/{id}/chunks")
    def chunks(self, id: str, *, limit: Limit = 50, cursor: Cursor | None = None) -> ChunkPage:
        """Return the chunks of an indexed file, in its order, with their lines, page by page."""
        count, id = validation.whole_number(limit, "limit", 1, 1_000_000), validation.clean(id)
        self._store.inspection.find_document_path(id)
        found = self._store.inspection.list_chunks(id, parse_position(cursor, -1), count + 1)
        chunks = tuple(
            DocumentChunk(id, text, tuple(json.loads(breadcrumb)), first, last, ordinal)
            for id, text, breadcrumb, first, last, ordinal in found[:count]
        )
        return ChunkPage(chunks, next_cursor(found, count, lambda row: str(row[-1])))

    @operation("DELETE /document")
    def remove(self, path: Annotated[str | Path, Meta(min_length=1)]) -> int:
        """Remove a file, or all files of a folder, from the index; return how many."""
        if self._resources.is_served:
            return self._remove_stored({Path(validation.required_name(str(path), "path"))})
        named = validation.path(path)
        return self._remove_stored({named.absolute(), Path(os.path.realpath(named))})  # of a link, where it leads, too

    def _remove_stored(self, roots: Set[Path]) -> int:
        """Remove what is stored under these paths, without a look at the file system."""
        known = self._store.documents.load_indexed_files()
        keys = [file.key for name, file in known.items() if roots & {Path(name), *Path(name).parents}]
        return self._store.documents.remove(keys)

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


class _LinkResolver(Struct, frozen=True):
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
