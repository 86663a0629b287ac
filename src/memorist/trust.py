"""
Trust: the settings of projects that the user has approved, each by the path of its file and by its content.

A file that has changed is another file, so it has to be approved again. What is approved is noted among the user's own
settings, never in the project. A note is a file: its name is the fingerprint, its content the path.
"""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from memorist.atomic_file import write_atomically

_FOLDER = "trusted"


def fingerprint(file: Path, content: bytes) -> str:
    """Return what tells a file with this content from any other; links to its folder are resolved."""
    return sha256(os.fsencode(_locate(file)) + b"\0" + content).hexdigest()


class TrustedFiles:
    """The files that one user trusts."""

    def __init__(self, settings_folder: Path) -> None:
        self._folder = settings_folder / _FOLDER

    def contains(self, file: Path, content: bytes) -> bool:
        return (self._folder / fingerprint(file, content)).is_file()

    def add(self, file: Path, content: bytes) -> None:
        """Trust a file as it is, and no longer as it was."""
        self.remove(file)
        write_atomically(self._folder / fingerprint(file, content), os.fsencode(_locate(file)), private=True)

    def remove(self, file: Path) -> bool:
        """Trust a file no longer; return whether it was trusted, as it is or as it was."""
        notes = [note for note, path in self._read() if path == _locate(file)]
        for note in notes:
            note.unlink(missing_ok=True)
        return bool(notes)

    def list(self) -> list[Path]:
        """Return the files that were trusted; some of them may have changed since."""
        return sorted(path for _, path in self._read())

    def _read(self) -> Iterator[tuple[Path, Path]]:
        for note in self._folder.glob("[0-9a-f]" * 64):
            yield note, Path(os.fsdecode(note.read_bytes()))


def _locate(file: Path) -> Path:
    return file.parent.resolve() / file.name
