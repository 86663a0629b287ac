"""Many HTTP clients at once in one thread, and processes that ask the library the same: who answers more questions?"""

import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LIMIT = 10


@dataclass(slots=True)
class Load:
    """The answers to some clients: their times in milliseconds, and what was no answer."""

    times: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def answers(self) -> int:
        return len(self.times) - len(self.errors)


def ask_from_many(address: tuple[str, int], token: str, questions: Sequence[str], clients: int, seconds: float) -> Load:
    """Ask over so many kept connections, one question at a time on each. It takes little of the processor itself."""
    host = f"{address[0]}:{address[1]}"
    requests = [_write_request(host, token, question) for question in questions]
    load = Load()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for number in range(clients):
            client = stack.enter_context(socket.create_connection(address))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(client, selectors.EVENT_READ, _Asking(client, requests, number, clients))
        end = time.perf_counter() + seconds
        for key in list(selector.get_map().values()):
            key.data.ask()
        while (left := end - time.perf_counter()) > 0:
            for key, _ in selector.select(left):
                key.data.read(load)
    return load


class _Asking:
    """One client: the question it waits for, and what came of the answer."""

    __slots__ = ("_client", "_got", "_number", "_requests", "_started", "_step")

    def __init__(self, client: socket.socket, requests: Sequence[bytes], number: int, step: int) -> None:
        self._client, self._requests, self._number, self._step = client, requests, number, step
        self._got = b""
        self._started = 0.0

    def ask(self) -> None:
        self._started = time.perf_counter()
        self._client.sendall(self._requests[self._number % len(self._requests)])
        self._number += self._step

    def read(self, load: Load) -> None:
        part = self._client.recv(1 << 18)
        if not part:
            raise SystemExit("the server closed a connection")
        self._got += part
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r", 1)[0]):
            return
        load.times.append((time.perf_counter() - self._started) * 1000)
        if not head.startswith(b"HTTP/1.1 200"):
            load.errors.append(body.decode())
        self._got = b""
        self.ask()


def _write_request(host: str, token: str, question: str) -> bytes:
    body = json.dumps({"query": question, "limit": LIMIT}).encode()
    lines = (
        "POST /api/v1/search HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}",
        "Content-Type: application/json", f"Content-Length: {len(body)}", "", "",
    )  # fmt: skip
    return "\r\n".join(lines).encode() + body


@contextmanager
def library_processes(database: Path, questions: Sequence[str], count: int) -> Iterator["LibraryProcesses"]:
    """Start processes that have the database open and warm."""
    started: list[subprocess.Popen[str]] = []
    try:
        for number in range(count):
            command = [sys.executable, __file__, str(database), str(number), str(count)]
            started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            _say(started[-1], json.dumps(list(questions)))
        processes = LibraryProcesses(started)
        processes.wait()
        yield processes
    finally:
        for process in started:
            process.kill()
            process.wait()


class LibraryProcesses:
    """Processes that search with the library, all at once, when they are told to."""

    def __init__(self, processes: Sequence["subprocess.Popen[str]"]) -> None:
        self._processes = processes

    def wait(self) -> list[int]:
        return [int(process.stdout.readline()) for process in self._processes if process.stdout is not None]

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def count_searches(self, seconds: float) -> int:
        """Return how many searches all of them make together."""
        for process in self._processes:
            _say(process, str(seconds))
        return sum(self.wait())


def _say(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _search_when_told(database: str, number: int, step: int) -> None:
    """In a process of its own: search for as many seconds as each line says, and print how often."""
    import memorist

    questions = json.loads(sys.stdin.readline())
    with memorist.open(database) as memory:
        for question in questions:
            memory.search(question, limit=LIMIT)
        print(0, flush=True)
        for line in sys.stdin:
            searches, turn, end = 0, number, time.perf_counter() + float(line)
            while time.perf_counter() < end:
                memory.search(questions[turn % len(questions)], limit=LIMIT)
                searches, turn = searches + 1, turn + step
            print(searches, flush=True)


if __name__ == "__main__":
    _search_when_told(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
