"""What went wrong in a hook, in a file of limited size: an agent has no place to show it, and must not be stopped."""

import os
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from memorist.errors import MemoristError

MAX_SIZE = 256 * 1024  # bytes; then it becomes the old log, in the place of the one before


class Log:
    """A log that never raises."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def error(self, event: str, error: BaseException) -> None:
        """One line for what is foreseen; for anything else, where it came from, too."""
        self.write(event, f"{type(error).__name__}: {error}")
        if not isinstance(error, MemoristError):
            self._append("".join(traceback.format_exception(error)))

    def write(self, event: str, message: str) -> None:
        line = " ".join(message.split())
        self._append(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {event} (process {os.getpid()}) {line}\n")

    def _append(self, text: str) -> None:
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._file.exists() and self._file.stat().st_size > MAX_SIZE:
                self._file.replace(self._file.with_name(self._file.name + ".old"))
            with self._file.open("a", encoding="utf-8", errors="backslashreplace") as out:
                out.write(text)
