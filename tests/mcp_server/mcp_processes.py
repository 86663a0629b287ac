"""Servers for tests that speak plain JSON lines: quick to import, for clients in processes of their own."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from timeouts import MAX_WAIT_SECONDS

SOURCE = Path(__file__).parents[2] / "src"
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def environment(path: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORIST_", "XDG_"))}
    settings = {"PYTHONPATH": str(SOURCE), "MEMORIST_DB": str(path), "MEMORIST_EMBEDDER": "none"}
    (config := path.parent / "config.toml").touch()
    return own | settings | {"MEMORIST_CONFIG": str(config)} | dict(more or {})


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "memorist", "mcp", *arguments]


class Server:
    """A server process, called in plain JSON lines."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process, self._number = process, 0
        self.say(HELLO)
        self.hear()

    def say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        heard: dict[str, Any] = json.loads(self.process.stdout.readline())
        return heard

    def ask(self, tool: str, **arguments: Any) -> None:
        self._number += 1
        params = {"name": tool, "arguments": arguments}
        self.say({"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": params})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.ask(tool, **arguments)
        result = self.hear()["result"]
        assert not result["isError"], result
        answer: dict[str, Any] = result["structuredContent"]
        return answer


@contextmanager
def started(path: Path, *arguments: str) -> Iterator[Server]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(*arguments), env=environment(path), cwd=path.parent, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        watchdog = threading.Timer(MAX_WAIT_SECONDS * 3, process.kill)
        watchdog.start()
        try:
            yield Server(process)
        finally:
            watchdog.cancel()
            process.kill()


def alive(pid: int) -> bool:
    """Check that a process runs and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return sys.platform != "linux"
