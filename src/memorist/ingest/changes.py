"""
Watch files for changes, and report them once a burst of changes has settled.

The system watches folders only: many editors replace a file instead of writing it, which ends a watch of the file. So
files that were named themselves are polled, and so is the identity of each named folder, which may be deleted and
created again, or may be a link that leads elsewhere now.
"""

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from memorist.errors import InvalidInput, MissingExtra
from memorist.ingest.walk import find_root

_SETTLE_MS = 100  # without another change; an editor that replaces a file needs a few
_MAX_BURST_MS = 2_000  # of changes without a pause, before they are reported all the same
_POLL_MS = 300  # between looks at files and folders that were named


class _PathState(Struct, frozen=True):
    """The identity of a file or folder when it was last looked at."""

    path: str  # with links resolved
    device: int
    inode: int
    file: tuple[int, int] | None = None  # size and time of a file

    @property
    def was_deleted(self) -> bool:
        """True if it was deleted: the folder it was in is still there, on the same disk."""
        try:
            return os.stat(os.path.dirname(self.path)).st_dev == self.device
        except OSError:
            return False


class Changes:
    """The changes of some paths: iterate over it to wait for them."""

    def __init__(self, paths: Sequence[str | Path], own_files: Collection[str], stop: threading.Event) -> None:
        """Watch paths until `stop` is set. Changes of `own_files`, which this program writes itself, are ignored."""
        self._watch = _import_watch()
        self._paths, self._own_files, self._stop = [str(path) for path in paths], frozenset(own_files), stop
        self._last: dict[str, _PathState] = {}  # the last state of each path that was there
        self._now = self._read_states()

    def missing_paths(self) -> dict[str, _PathState]:
        """Return the last state of each named path that was there once and is not now."""
        return {path: self._last[path] for path, state in self._now.items() if state is None and path in self._last}

    def __iter__(self) -> Iterator[bool]:
        """
        Yield True when something has changed, and False now and then if not.

        The first is True, as soon as the watch is on: a change is then either found by the caller's first look at the
        files, or reported afterwards.
        """
        while not self._stop.is_set():
            self._now, first = self._read_states(), True
            with closing(self._watch_events(self._now)) as events:
                for changes in events:
                    before, self._now = self._now, self._read_states()
                    if _folder_identities(before) != _folder_identities(self._now):
                        break  # and watch the folders that are there now
                    yield first or bool(changes) or before != self._now
                    first = False

    def _read_states(self) -> dict[str, _PathState | None]:
        states = {path: _read_state(path) for path in self._paths}
        if any(state is None and path in self._last for path, state in states.items()):
            self._stop.wait(_SETTLE_MS / 1000)  # it may be about to be replaced
            states = {path: _read_state(path) for path in self._paths}
        self._last |= {path: state for path, state in states.items() if state}
        return states

    def _watch_events(self, states: dict[str, _PathState | None]) -> Any:
        try:
            yield from self._watch(
                *sorted(_folder_identities(states)),
                watch_filter=self._is_relevant,
                debounce=_MAX_BURST_MS,
                step=_SETTLE_MS,
                rust_timeout=_POLL_MS,
                yield_on_timeout=True,
                stop_event=self._stop,
                ignore_permission_denied=True,
            )
        except FileNotFoundError:  # deleted since it was looked at
            self._stop.wait(_POLL_MS / 1000)
        except (OSError, RuntimeError) as exc:
            raise InvalidInput(
                f"these folders cannot be watched: {exc}; set WATCHFILES_FORCE_POLLING=1 to poll them instead"
            ) from exc

    def _is_relevant(self, change: object, path: str) -> bool:
        """Return False for files that this program writes, and for those of git, except its rules."""
        if path in self._own_files:
            return False
        folders = Path(path).parts[:-1]
        return ".git" not in folders or path.endswith(os.path.join(".git", "info", "exclude"))


def _import_watch() -> Any:
    try:
        from watchfiles import watch
    except ImportError as exc:
        raise MissingExtra("watching files needs an extra: pip install 'memorist[watch]'") from exc
    return watch


def _read_state(path: str) -> _PathState | None:
    try:
        start = find_root(path)
        if start is None:
            return None
        about = os.stat(start.path)
        file = (about.st_size, about.st_mtime_ns) if start.is_file else None
        return _PathState(start.path, about.st_dev, about.st_ino, file)
    except OSError:
        return None


def _folder_identities(states: dict[str, _PathState | None]) -> dict[str, tuple[int, int]]:
    return {state.path: (state.device, state.inode) for state in states.values() if state and state.file is None}
