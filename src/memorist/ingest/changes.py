"""
When files change: told by the system, once a burst of changes has settled.

Only folders are watched by the system. A file is replaced rather than written by many editors, and with it goes whoever
watched it; so files that were named themselves are looked at between times, and so is whether a folder that was named
is still the same one. It may be deleted and made anew, or a link may lead elsewhere.
"""

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput, MissingExtra
from memorist.ingest.walk import start_of

SETTLED = 100  # milliseconds without another change; an editor that replaces a file needs a few
LONGEST = 2_000  # milliseconds of changes without a pause, before what is there by then is looked at
LOOK = 300  # milliseconds between looks at what the system does not tell


@dataclass(frozen=True, slots=True)
class Mark:
    """What something was when it was last looked at."""

    path: str  # where it really is
    device: int
    inode: int
    file: tuple[int, int] | None = None  # of a file, its size and time

    @property
    def was_deleted(self) -> bool:
        """Of what is not there now, whether it is gone for good: the folder it was in is there, on the same disk."""
        try:
            return os.stat(os.path.dirname(self.path)).st_dev == self.device
        except OSError:
            return False


class Changes:
    """What is watched, and what became of it."""

    def __init__(self, paths: Sequence[str | Path], ours: Collection[str], stop: threading.Event) -> None:
        """`ours` are files that change because we write them."""
        self._watch = _watchfiles()
        self._paths, self._ours, self._stop = [str(path) for path in paths], frozenset(ours), stop
        self._last: dict[str, Mark] = {}  # the last that was seen of each
        self._now = self._look()

    def missing(self) -> dict[str, Mark]:
        """What was there once and is not now, by the path it was named by."""
        return {path: self._last[path] for path, mark in self._now.items() if mark is None and path in self._last}

    def __iter__(self) -> Iterator[bool]:
        """
        True when something has changed, False now and then if not. The first is True, as soon as changes are watched:
        what is looked at then is either seen by that look, or told afterwards.
        """
        while not self._stop.is_set():
            self._now, first = self._look(), True
            with closing(self._events(self._now)) as events:
                for told in events:
                    before, self._now = self._now, self._look()
                    if _folders(before) != _folders(self._now):
                        break  # and begin anew, before anybody looks
                    yield first or bool(told) or before != self._now
                    first = False

    def _look(self) -> dict[str, Mark | None]:
        marks = {path: _mark(path) for path in self._paths}
        if any(mark is None and path in self._last for path, mark in marks.items()):
            self._stop.wait(SETTLED / 1000)  # it may be about to be replaced
            marks = {path: _mark(path) for path in self._paths}
        self._last |= {path: mark for path, mark in marks.items() if mark}
        return marks

    def _events(self, marks: dict[str, Mark | None]) -> Any:
        try:
            yield from self._watch(
                *sorted(_folders(marks)),
                watch_filter=self._matters,
                debounce=LONGEST,
                step=SETTLED,
                rust_timeout=LOOK,
                yield_on_timeout=True,
                stop_event=self._stop,
                ignore_permission_denied=True,
            )
        except FileNotFoundError:  # gone since it was looked at
            self._stop.wait(LOOK / 1000)
        except (OSError, RuntimeError) as exc:
            raise InvalidInput(
                f"these folders cannot be watched: {exc}; with WATCHFILES_FORCE_POLLING=1 they are looked through "
                "again and again instead"
            ) from exc

    def _matters(self, change: object, path: str) -> bool:
        """Whether files to index may have changed, or the rules for them. What git keeps for itself is neither."""
        if path in self._ours:
            return False
        folders = Path(path).parts[:-1]
        return ".git" not in folders or path.endswith(os.path.join(".git", "info", "exclude"))


def _watchfiles() -> Any:
    try:
        from watchfiles import watch
    except ImportError as exc:
        raise MissingExtra("to watch files needs an extra: pip install 'memorist[watch]'") from exc
    return watch


def _mark(path: str) -> Mark | None:
    try:
        start = start_of(path)
        if start is None:
            return None
        about = os.stat(start.path)
        file = (about.st_size, about.st_mtime_ns) if start.is_file else None
        return Mark(start.path, about.st_dev, about.st_ino, file)
    except OSError:
        return None


def _folders(marks: dict[str, Mark | None]) -> dict[str, tuple[int, int]]:
    return {mark.path: (mark.device, mark.inode) for mark in marks.values() if mark and mark.file is None}
