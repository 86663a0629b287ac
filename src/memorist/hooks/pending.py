"""
Notes of conversations that are still to be saved, or still without vectors.

A hook has little time, and the program that called it may end at any moment. Work that it leaves undone is finished by
another process; if that is stopped as well, the next session starts one more. After some days, a note is given up.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from memorist.atomic_file import write_atomically

_FOLDER, _LOCK = "unsaved", "lock"
_MAX_AGE_NANOSECONDS = 7 * 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class UnsavedConversation:
    """A transcript, the project it belongs to, and the database it goes to."""

    transcript: str
    folder: str | None
    project: str | None
    arguments: Mapping[str, str]  # of the command line, which name the database


@dataclass(frozen=True, slots=True)
class PendingNote:
    """A note of an unsaved conversation: its file, and when that was written."""

    conversation: UnsavedConversation
    file: Path
    written: int  # nanoseconds

    @property
    def is_expired(self) -> bool:
        return time.time_ns() - self.written > _MAX_AGE_NANOSECONDS

    def remove(self) -> None:
        """Delete the note, unless it was written anew because the conversation went on."""
        with suppress(OSError):  # another process deleted it first
            if self.file.stat().st_mtime_ns == self.written:
                self.file.unlink()


class PendingNotes:
    """The notes of one user."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = state_folder / _FOLDER

    def add(self, conversation: UnsavedConversation) -> PendingNote:
        """Write a note, in the place of an older one of the same conversation."""
        key = json.dumps([conversation.transcript, conversation.arguments])
        file = self._folder / f"{sha256(key.encode()).hexdigest()[:32]}.json"
        self._make_folder()
        write_atomically(file, json.dumps(asdict(conversation)).encode())
        return PendingNote(conversation, file, file.stat().st_mtime_ns)

    def read(self) -> Iterator[PendingNote]:
        """Yield the notes; one that cannot be parsed is deleted."""
        for file in sorted(self._folder.glob("*.json")):
            try:
                written = file.stat().st_mtime_ns
                yield PendingNote(UnsavedConversation(**json.loads(file.read_text("utf-8"))), file, written)
            except OSError:
                continue
            except (ValueError, TypeError):
                file.unlink(missing_ok=True)

    @contextmanager
    def try_lock(self) -> Iterator[bool]:
        """Keep other processes from working on the notes during a block; yield False if one of them has the lock."""
        self._make_folder()
        with (self._folder / _LOCK).open("ab") as file:  # closing it frees the lock, and so does the process's end
            yield _lock(file)

    def _make_folder(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _lock(file: BinaryIO) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks: doing the work twice does no harm
        return True
    return True
