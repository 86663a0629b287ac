"""
Conversations that are still to be saved, or still without vectors: a note of each, until that is done.

A hook has little time, and the program that called it may end any moment. What it leaves undone is finished by another
process; should that be stopped as well, the next session starts one more.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

FOLDER = "unsaved"


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

    def remove(self) -> None:
        """It is done; but not if it was written anew since, for the conversation went on."""
        with suppress(OSError):  # another process was here first
            if self.file.stat().st_mtime_ns == self.written:
                self.file.unlink()


class Notes:
    """The notes of one user."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def add(self, unsaved: Unsaved) -> Note:
        name = sha256(json.dumps([unsaved.transcript, unsaved.arguments]).encode()).hexdigest()[:32]
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._folder / f"{name}.json"
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(asdict(unsaved)), "utf-8")
        part.replace(file)
        return Note(unsaved, file, file.stat().st_mtime_ns)

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
