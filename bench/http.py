"""
Measure what HTTP costs a search, and how the server bears many clients.

    python bench/http.py --data DIR [--size 100000] [--workers 2] [--clients 50] [--seconds 60] [--json]

The same questions are asked in turns in this process and over a kept connection to a server of one worker on the same
database, both warm: the ratio of the medians is the cost of HTTP. Then many clients at once ask a server of several
workers, in turns with as many processes that ask the library: the ratio of the searches a second is the cost of
serving. Where other programs are at work, more threads get more of the processors, so compare the time of the processor
that a search takes. Errors, the 50th and 99th percentile, and the memory of all workers after each turn are reported,
too. The data is that of bench/core.py: DIR contains `locomo`. It needs Linux.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE.resolve()]  # Python has an `http`, too
sys.path.append(str(HERE))

import numpy as np  # noqa: E402

import corpus  # noqa: E402
import http_load  # noqa: E402
import memorist  # noqa: E402
from memorist import Memorist  # noqa: E402

TARGET_RATIO = 1.3  # at most, at p50
TARGET_LOAD_RATIO = 0.7  # at least, of the searches a second of as many processes of the library
TOKEN = "a-token-for-the-bench-0123456789"
LIMIT = http_load.LIMIT
START_SECONDS = 60.0
WARM_UP_SECONDS = 6.0
IDLE_SHARE = 0.1  # of one processor, that a server takes at most while it has nothing to do


@contextmanager
def serve(database: Path, workers: int) -> Iterator[tuple[str, int]]:
    """Run a server, and give its address and process."""
    environment = os.environ | {"MEMORIST_HTTP_TOKEN": TOKEN}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "memorist", "--db", str(database), "serve", "--port", "0",
             "--workers", str(workers)],
            env=environment, cwd=database.parent, stderr=errors,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (found := re.search(r"http://\S+?(?=/login)", _read(errors))):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the server did not start: {_read(errors)}")
                time.sleep(0.05)
            yield found[0], process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _read(file: Any) -> str:
    file.seek(0)
    return str(file.read())


def compare_searches(memory: memorist.Memorist, remote: Memorist, questions: Sequence[str]) -> dict[str, float]:
    """Ask every question both ways in turns; return the medians in milliseconds, and their ratio."""
    ways = {"in_process": memory.search, "over_http": remote.search}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for search in ways.values():
        for question in questions[:10]:
            search(question, limit=LIMIT)
    for number, question in enumerate(questions):
        order = list(ways.items())
        for name, search in order if number % 2 else reversed(order):
            started = time.perf_counter()
            search(question, limit=LIMIT)
            times[name].append((time.perf_counter() - started) * 1000)
    medians = {f"{name}_ms": float(np.median(values)) for name, values in times.items()}
    return medians | {"ratio": medians["over_http_ms"] / medians["in_process_ms"]}


def compare_load(
    url: str, server: int, database: Path, questions: Sequence[str], options: argparse.Namespace
) -> dict[str, Any]:
    """Have many clients ask the server, in turns with as many processes of the library as the server has workers."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    seconds = options.seconds / options.rounds
    load, sizes, searches = http_load.Load(), [], 0
    busy = {"library": 0.0, "server": 0.0, "clients": 0.0}
    with http_load.library_processes(database, questions, options.workers) as library:
        warmed = 0
        while warmed < options.workers * len(questions):  # as many for each as every process of the library has asked
            answered = http_load.ask_from_many((host, int(port)), TOKEN, questions, options.clients, WARM_UP_SECONDS)
            warmed += answered.answers
            _wait_until_idle(server)
        for _ in range(options.rounds):
            with _add_busy(busy, "library", library.pids):
                searches += library.count_searches(seconds)
            with _add_busy(busy, "server", _list_processes(server)), _add_busy(busy, "clients", [os.getpid()]):
                answered = http_load.ask_from_many((host, int(port)), TOKEN, questions, options.clients, seconds)
            load.times += answered.times
            load.errors += answered.errors
            sizes.append(_measure_memory(server))
    p50, p99 = np.percentile(load.times, (50, 99))
    return {
        "clients": options.clients,
        "seconds": options.seconds,
        "answers": load.answers,
        "errors": len(load.errors),
        "per_second": load.answers / options.seconds,
        "library_per_second": searches / options.seconds,
        "ratio": load.answers / searches,
        "target": TARGET_LOAD_RATIO,
        "busy_ms": {
            name: seconds * 1000 / (searches if name == "library" else load.answers) for name, seconds in busy.items()
        },
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "memory_mib": sizes,
        "first_errors": load.errors[:3],
    }


@contextmanager
def _add_busy(busy: dict[str, float], name: str, processes: Sequence[int]) -> Iterator[None]:
    """Add the seconds of the processor that some processes take within a block."""
    before = sum(map(_read_busy, processes))
    yield
    busy[name] += sum(map(_read_busy, processes)) - before


def _read_busy(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_until_idle(server: int) -> None:
    """Wait until every worker has read its image and the index of words, which goes on after the first answers."""
    busy = [0.0]
    while len(busy) < 3 or busy[-1] > busy[-2] + IDLE_SHARE:
        time.sleep(1)
        busy.append(sum(map(_read_busy, _list_processes(server))))


def _list_processes(server: int) -> list[int]:
    """Return a server's process and its workers."""
    children = Path(f"/proc/{server}/task").glob("*/children")
    return [server, *(int(child) for file in children for child in file.read_text().split())]


def _measure_memory(server: int) -> float:
    """Return the resident memory of a server with its workers in MiB."""
    statuses = [Path(f"/proc/{process}/status").read_text() for process in _list_processes(server)]
    return round(sum(map(int, re.findall(r"VmRSS:\s+(\d+)", "".join(statuses)))) / 1024, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what HTTP costs a search, and the server under load.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder that contains `locomo`")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "memorist-bench"), metavar="DIR")
    parser.add_argument("--size", type=int, default=100_000, help="memories (default %(default)s)")
    parser.add_argument("--searches", type=int, default=200, help="questions, asked both ways (default %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="of the server under load (default %(default)s)")
    parser.add_argument("--clients", type=int, default=50, help="at once (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="turns that they share the time in (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of load (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    halves = corpus.load(options.data, options.cache, None)
    database = corpus.build_database(halves, options.size, options.cache, real=False)
    questions = halves.questions[: options.searches]
    with (
        memorist.open(database) as memory,
        serve(database, 1) as (url, _),
        memorist.connect(url, token=TOKEN) as remote,
    ):
        compared = compare_searches(memory, remote, questions)
    loaded: dict[str, Any] = {}
    if options.clients:
        with serve(database, options.workers) as (url, server):
            loaded = compare_load(url, server, database, questions, options)
    results = {"size": options.size, "target": TARGET_RATIO, **compared, "load": loaded}
    if options.json:
        print(json.dumps(results))
        return
    ratio = compared["ratio"]
    print(
        f"one search  {compared['in_process_ms']:.2f} ms in process, {compared['over_http_ms']:.2f} ms over HTTP:",
        end=" ",
    )
    print(f"{ratio:.2f}x at p50 (target {TARGET_RATIO}x at most), {options.size:,} memories")
    if loaded:
        print(
            f"{loaded['clients']} clients  {loaded['per_second']:.0f} searches/s of {options.workers} workers,", end=" "
        )
        print(f"{loaded['library_per_second']:.0f} of as many processes of the library:", end=" ")
        print(f"{loaded['ratio']:.2f}x (target {TARGET_LOAD_RATIO}x at least)")
        cost = {name: f"{milliseconds:.2f} ms" for name, milliseconds in loaded["busy_ms"].items()}
        print(
            f"  of the processor, a search takes {cost['library']} in the library and {cost['server']} in a worker,",
            end=" ",
        )
        print(f"and {cost['clients']} in the clients")
        print(f"  {loaded['answers']:,} answers in {loaded['seconds']:g} s, {loaded['errors']} errors,", end=" ")
        print(f"p50 {loaded['p50_ms']:.0f} ms, p99 {loaded['p99_ms']:.0f} ms,", end=" ")
        print(f"memory {' → '.join(map(str, loaded['memory_mib']))} MiB")


if __name__ == "__main__":
    main()
