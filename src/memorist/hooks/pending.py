"""
Conversations that are still to be saved, or still without vectors: a note of each, until that is done.

A hook has little time, and the program that called it may end any moment. What it leaves undone is finished by another
process; should that be stopped as well, the next session starts one more. What could not be done for days is given up.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

FOLDER, LOCK = "unsaved", "lock"
KEPT = 7 * 86_400 * 10**9  # nanoseconds


@dataclass(frozen=True, slots=True)
class Unsaved:
    """A conversation, the project it belongs to, and the database it goes to."""

    transcript: str
    folder: str | None
    project: str | None
    arguments: Mapping[str, str]  # where it goes to, as the command line would be told


@dataclass(frozen=True, slots=True)
class Note:
    """What is written down of one, where, and when."""

    unsaved: Unsaved
    file: Path
    written: int

    @property
    def old(self) -> bool:
        """Whether it was tried for long enough."""
        return time.time_ns() - self.written > KEPT

    def remove(self) -> None:
        """It is done; but not if it was written anew since, for the conversation went on."""
        with suppress(OSError):  # another process was here first
            if self.file.stat().st_mtime_ns == self.written:
                self.file.unlink()


class PendingWork:
    """The notes of one user."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def add(self, unsaved: Unsaved) -> Note:
        name = sha256(json.dumps([unsaved.transcript, unsaved.arguments]).encode()).hexdigest()[:32]
        self._make_folder()
        file = self._folder / f"{name}.json"
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(asdict(unsaved)), "utf-8")
        part.replace(file)
        return Note(unsaved, file, file.stat().st_mtime_ns)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether no other process is at work on them; none is, meanwhile."""
        self._make_folder()
        with (self._folder / LOCK).open("ab") as file:  # closed, it is free again; also where the process is killed
            yield _locked(file)

    def all(self) -> Iterator[Note]:
        """Those there are; one that cannot be read is of no use to anybody, and goes."""
        for file in sorted(self._folder.glob("*.json")):
            try:
                written = file.stat().st_mtime_ns
                yield Note(Unsaved(**json.loads(file.read_text("utf-8"))), file, written)
            except OSError:
                continue
            except (ValueError, TypeError):
                file.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _locked(file: BinaryIO) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system that knows no locks: work that is done twice does no harm
        return True
    return True
