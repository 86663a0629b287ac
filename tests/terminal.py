"""A command at a terminal of its own: what it shows, what is typed, and keys such as Ctrl-C."""

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from timeouts import MAX_WAIT_SECONDS

CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"
_COLOUR = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")  # what readline and colours write


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], side: int) -> None:
        self._process, self._side = process, side
        self._shown = b""
        self._read = 0  # how far what was shown has been looked at

    @property
    def raw(self) -> bytes:
        """All that was shown, byte by byte."""
        return self._shown

    def type(self, text: str) -> None:
        os.write(self._side, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C where the command waits: in the moment before, Python would not see it until the next key."""
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while not self._waits():
            if time.monotonic() > deadline:
                raise AssertionError("it never waits for anything")
            self._more(time.monotonic() + 0.01)
        self.type(CTRL_C)

    def enter(self, text: str) -> None:
        """Type a line at the next prompt."""
        self.expect("> ")
        self.type(text + "\r")

    def expect(self, text: str) -> str:
        """Wait until this shows; what showed since the last time, up to and with it."""
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while (place := self._shown.find(text.encode(), self._read)) < 0:
            if not self._more(deadline):
                raise AssertionError(f"{text!r} never showed; instead: {self._shown[self._read :].decode()!r}")
        new = self._shown[self._read : place + len(text.encode())]
        self._read = place + len(text.encode())
        return _COLOUR.sub(b"", new).decode().replace("\r\n", "\n")

    def end(self) -> tuple[int, str]:
        """Wait for the command to end by itself: its exit code, and what showed since the last time."""
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while self._more(deadline):
            pass
        rest = self._shown[self._read :]
        return self._process.wait(MAX_WAIT_SECONDS), _COLOUR.sub(b"", rest).decode().replace("\r\n", "\n")

    def _waits(self) -> bool:
        """Whether the system says that the command sleeps; where it does not say, it is taken to."""
        try:
            status = Path(f"/proc/{self._process.pid}/stat").read_text()
        except FileNotFoundError:
            return True
        return status.rpartition(")")[2].split()[0] == "S"

    def _more(self, deadline: float) -> bool:
        """Read on; False at the end, or when it takes too long."""
        ready, _, _ = select.select([self._side], [], [], max(0.0, deadline - time.monotonic()))
        try:
            piece = os.read(self._side, 65536) if ready else b""
        except OSError:  # the other side is closed
            piece = b""
        self._shown += piece
        return bool(piece)


def _open() -> tuple[int, int]:
    """Open a pseudo-terminal, or skip the test: containers may have none, and Windows never has."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    try:
        sides: tuple[int, int] = pty.openpty()
    except OSError as exc:
        pytest.skip(f"no pseudo-terminal can be opened here: {exc}")
    return sides


@contextmanager
def terminal(*arguments: str, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """`memorist` at a terminal; it does not outlive the block."""
    ours, theirs = _open()
    process = subprocess.Popen(
        [sys.executable, "-m", "memorist", *arguments],
        env={**environment, "TERM": "xterm"},
        preexec_fn=lambda: os.login_tty(theirs),
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
