"""An empty memory in a file, made once in a process: to make one anew takes most of the time of a short test."""

import os
import tempfile
from functools import cache
from pathlib import Path

import memorist


def place_empty_memory(path: Path) -> None:
    """Put an empty memory where there is none, as `memorist.open` would have made it."""
    if not path.exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(_read_empty_memory())


@cache
def _read_empty_memory() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "memory.db")
        memorist.open(file, embedder="none").close()
        return file.read_bytes()
