"""
Measure what HTTP costs a search, and how the server bears many clients.

    python bench/http.py --data DIR [--size 100000] [--searches 200] [--clients 50] [--seconds 60] [--json]

The same questions are asked in turns in this process and over a kept connection to a server process on the same
database, both warm: the ratio of the medians is the cost of HTTP. Then so many clients at once ask the server for so
many seconds; errors, the 50th and 99th percentile, and the server's memory at the start, in the middle and at the end
are reported. The data is that of bench/core.py: DIR contains `locomo`.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
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
import memorist  # noqa: E402
from memorist import Memorist  # noqa: E402

TARGET_RATIO = 1.3  # at most, at p50
TOKEN = "a-token-for-the-bench-0123456789"
LIMIT = 10
START_SECONDS = 60.0


@contextmanager
def serve(database: Path) -> Iterator[tuple[str, int]]:
    """Run a server, and give its address and process."""
    environment = os.environ | {"MEMORIST_HTTP_TOKEN": TOKEN}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "memorist", "--db", str(database), "serve", "--port", "0"],
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


def load(url: str, pid: int, questions: Sequence[str], clients: int, seconds: float) -> dict[str, Any]:
    """Ask from many clients at once; return the number of answers and errors, percentiles, and the server's memory."""
    times: list[list[float]] = [[] for _ in range(clients)]
    errors: list[str] = []
    end = time.monotonic() + seconds

    def ask(number: int) -> None:
        with memorist.connect(url, token=TOKEN) as remote:
            turn = number
            while time.monotonic() < end:
                started = time.perf_counter()
                try:
                    remote.search(questions[turn % len(questions)], limit=LIMIT)
                except memorist.MemoristError as exc:
                    errors.append(str(exc))
                times[number].append((time.perf_counter() - started) * 1000)
                turn += clients

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    sizes = []
    for part in (0.1, 0.5, 1.0):  # not before all clients are at work
        time.sleep(max(0.0, end - seconds * (1 - part) - time.monotonic()))
        sizes.append(_measure_memory(pid))
    for thread in threads:
        thread.join()
    all_times = [one for some in times for one in some]
    p50, p99 = np.percentile(all_times, (50, 99))
    return {
        "clients": clients,
        "seconds": seconds,
        "answers": len(all_times),
        "errors": len(errors),
        "per_second": len(all_times) / seconds,
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "memory_mib": sizes,
        "first_errors": errors[:3],
    }


def _measure_memory(pid: int) -> float | None:
    """Return the resident memory of a process in MiB, where the system tells."""
    try:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return None
    return round(int(found[1]) / 1024, 1) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what HTTP costs a search, and the server under load.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder that contains `locomo`")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "memorist-bench"), metavar="DIR")
    parser.add_argument("--size", type=int, default=100_000, help="memories (default %(default)s)")
    parser.add_argument("--searches", type=int, default=200, help="questions, asked both ways (default %(default)s)")
    parser.add_argument("--clients", type=int, default=50, help="at once (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of load (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    halves = corpus.load(options.data, options.cache, None)
    database = corpus.build_database(halves, options.size, options.cache, real=False)
    questions = halves.questions[: options.searches]
    with memorist.open(database) as memory, serve(database) as (url, pid):
        with memorist.connect(url, token=TOKEN) as remote:
            compared = compare_searches(memory, remote, questions)
        loaded = load(url, pid, questions, options.clients, options.seconds) if options.clients else {}
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
        print(f"{loaded['clients']} clients  {loaded['answers']:,} answers in {loaded['seconds']:g} s,", end=" ")
        print(f"{loaded['errors']} errors, p50 {loaded['p50_ms']:.0f} ms, p99 {loaded['p99_ms']:.0f} ms,", end=" ")
        print(f"memory {' → '.join(map(str, loaded['memory_mib']))} MiB")


if __name__ == "__main__":
    main()
