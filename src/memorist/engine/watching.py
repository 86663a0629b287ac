"""Files: watched, so that the index follows them."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memorist import validation
from memorist.documents import IndexReport
from memorist.engine.filing import Filing
from memorist.errors import InvalidInput, StoreBusy

if TYPE_CHECKING:
    from memorist.ingest.changes import Changes

SHARE = 10  # for each second that was spent on changes that changed nothing, so many are waited
LONGEST_WAIT = 5.0  # seconds

log = logging.getLogger("memorist.watch")


class _Stopped(Exception):
    """Somebody wants this to end: between two files, so that each is stored whole or not at all."""


class Watching(Filing):
    """Everything about documents, and keeping up with them."""

    def watch(
        self,
        paths: str | Path | Sequence[str | Path],
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

        The first report is of all that changed since the last time; each further one of changes that settled. Where
        the database is locked by others for too long, that is in a report's `skipped`, and tried again.
        """
        from memorist.ingest.changes import Changes
        from memorist.ingest.walk import walk

        chosen = validation.paths(paths, "watch")
        walk(chosen, include=include, exclude=exclude)  # raises where there is nothing
        ended = stop or threading.Event()
        changes = Changes(chosen, list(self._store.own_files), ended)
        options = {"project": project, "include": include, "exclude": exclude, "redact": redact, "allow": allow}
        run = partial(self.index, **options, progress=partial(_end_if, ended))  # type: ignore[arg-type]
        return self._reports(chosen, changes, run, ended)

    def _reports(
        self, paths: Sequence[str | Path], changes: "Changes", run: "partial[IndexReport]", stop: threading.Event
    ) -> Iterator[IndexReport]:
        """One report for each settled burst of changes that changed something; the first in any case."""
        last: IndexReport | None = None
        owed = False  # a burst could not be followed; it is tried again, and nobody told twice
        for changed in changes:
            if not (changed or owed):
                continue
            started = time.monotonic()
            try:
                report, owed_before, owed = self._followed(paths, changes, run), owed, False
            except _Stopped:
                return
            except (StoreBusy, InvalidInput) as exc:
                if last is None and isinstance(exc, InvalidInput):
                    raise  # what cannot be used will not get better
                log.warning("changes could not be followed yet: %s", exc)
                report, owed_before, owed = IndexReport(skipped=((_names(paths), str(exc)),)), owed, True
            if last is None or not report.quiet or (report.skipped != last.skipped and not (owed and owed_before)):
                last = report
                yield report
            else:
                # Something that is not indexed is written all the time: a log, a build.
                stop.wait(min(LONGEST_WAIT, SHARE * (time.monotonic() - started)))

    def _followed(self, paths: Sequence[str | Path], changes: "Changes", run: "partial[IndexReport]") -> IndexReport:
        """What is there, indexed; and what was named and is deleted, taken out."""
        missing = changes.missing()
        present = [path for path in paths if str(path) not in missing]
        report = run(present) if present else IndexReport()
        for path, mark in missing.items():
            if mark.was_deleted:
                report = replace(report, removed=report.removed + self.unindex(mark.path))
            else:
                reason = "it is not there, nor the disk it was on; what is indexed of it stays"
                report = replace(report, skipped=(*report.skipped, (path, reason)))
        return report


def _end_if(stop: threading.Event, done: int, total: int) -> None:
    if stop.is_set():
        raise _Stopped


def _names(paths: Sequence[str | Path]) -> str:
    return ", ".join(str(path) for path in paths)
