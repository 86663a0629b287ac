"""
Measure many searches at once in one event loop, beside the same searches by plain threads.

    python bench/event_loop.py [SIZE] [--searches N] [--rounds N] [--threads N] [--concurrency N] [--freeze]

20,000 memories, 200 searches and 5 rounds by default, in the loop as `open_async` runs them, beside 4 plain threads. No
model is measured: vectors are random, and ready. In each round both ways take their turn with the same questions, on
memories of their own in the same file; then the loop idles for a second. Look at the ratio of the throughputs, and at
how late the loop is: a task that sleeps for a millisecond measures how much later it wakes. On Linux, the time is left
out in a second line for which the loop only waited for a processor, because other threads or programs had them all.
What is left is the interpreter's lock: turns of other threads, and garbage collections, of which the longest is shown.
With `--freeze`, collections pass over what the program had at its start (`gc.freeze()`).
"""

import argparse
import asyncio
import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import memorist
from bulk import ReadyVectors, make_texts
from measurements import KNOWS_WAITED, read_waited
from memorist import AsyncMemorist, Memorist

LIMIT = 10
WARM_UP = 60
TICK = 0.001
IDLE_SECONDS = 1.0
TARGET_RATIO, TARGET_LATE = 0.9, 5.0  # at least, of the throughput; at most, in milliseconds
PLAIN_INTERVAL = sys.getswitchinterval()


@dataclass(slots=True)
class Way:
    """Measurements of one way to search: seconds of each round, and of every tick how late it was."""

    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)  # seconds of the processor
    late: list[float] = field(default_factory=list)  # milliseconds
    kept: list[float] = field(default_factory=list)  # those of them that were no waiting for a processor
    collections: list[float] = field(default_factory=list)  # milliseconds of each garbage collection


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure searches at once in one event loop, beside plain threads.")
    parser.add_argument("size", type=int, nargs="?", default=20_000, metavar="SIZE", help="memories")
    parser.add_argument("--searches", type=int, default=200, help="at once (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of each way (default %(default)s)")
    parser.add_argument("--threads", type=int, default=4, help="plain ones (default %(default)s)")
    parser.add_argument("--concurrency", type=int, help="in the loop (default: that of open_async)")
    parser.add_argument("--freeze", action="store_true", help="call gc.freeze() before the first round")
    options = parser.parse_args()
    texts, embedder = make_texts(options.size), ReadyVectors(options.size)
    generator = random.Random(2)
    questions = [" ".join(generator.choice(texts).split()[:4]) for _ in range(options.searches)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        with memorist.open(path, embedder=embedder) as memory:
            memory.add_many(texts)
            ways = asyncio.run(compare(memory, path, embedder, questions, options))
    report(ways, options.searches)


async def compare(
    memory: Memorist, path: Path, embedder: ReadyVectors, questions: Sequence[str], options: argparse.Namespace
) -> dict[str, Way]:
    """Search in both ways in turns."""
    ways = {"plain threads": Way(), "in the loop": Way(), "idle": Way()}
    chosen = {} if options.concurrency is None else {"concurrency": options.concurrency}
    async with memorist.open_async(path, embedder=embedder, **chosen) as awaited:
        own_interval = sys.getswitchinterval()
        with ThreadPoolExecutor(options.threads) as pool:
            tasks: dict[str, Callable[[], Awaitable[object]]] = {
                "plain threads": lambda: asyncio.to_thread(search_by_threads, memory, pool, questions),
                "in the loop": lambda: search_in_loop(awaited, questions),
                "idle": lambda: asyncio.sleep(IDLE_SECONDS),
            }
            for start in tasks.values():
                for _ in range(1 + WARM_UP // len(questions)):
                    await start()
            if options.freeze:
                gc.collect()
                gc.freeze()
            for number in range(options.rounds):
                order = list(tasks.items())
                for name, start in order if number % 2 else reversed(order):
                    sys.setswitchinterval(PLAIN_INTERVAL if name == "plain threads" else own_interval)
                    await measure(ways[name], start)
    return ways


def search_by_threads(memory: Memorist, pool: ThreadPoolExecutor, questions: Sequence[str]) -> None:
    list(pool.map(lambda question: memory.search(question, limit=LIMIT), questions))


async def search_in_loop(memory: AsyncMemorist, questions: Sequence[str]) -> None:
    await asyncio.gather(*(memory.search(question, limit=LIMIT) for question in questions))


async def measure(way: Way, start: Callable[[], Awaitable[object]]) -> None:
    """Time one round, while a task looks how late the loop wakes it."""

    def time_collection(phase: str, _: dict[str, int]) -> None:
        nonlocal collecting
        if phase == "start":
            collecting = time.perf_counter()
        else:
            way.collections.append((time.perf_counter() - collecting) * 1000)

    collecting = 0.0
    watch = asyncio.create_task(record_lateness(way))
    await asyncio.sleep(10 * TICK)
    gc.callbacks.append(time_collection)
    started, busy = time.perf_counter(), time.process_time()
    await start()
    way.seconds.append(time.perf_counter() - started)
    way.busy.append(time.process_time() - busy)
    gc.callbacks.remove(time_collection)
    watch.cancel()


async def record_lateness(way: Way) -> None:
    while True:
        waited, started = read_waited(), time.perf_counter()
        await asyncio.sleep(TICK)
        late = max(0.0, time.perf_counter() - started - TICK)
        way.late.append(late * 1000)
        way.kept.append(max(0.0, late - (read_waited() - waited)) * 1000)


def report(ways: dict[str, Way], searches: int) -> None:
    print("| way | searches/s | ms of the processor a search | loop late, p50 ms | p99 | longest | over 5 ms |")
    print("|---|---|---|---|---|---|---|")
    for name, way in ways.items():
        rate, busy = searches / statistics.median(way.seconds), statistics.median(way.busy) / searches * 1000
        numbers = f"{rate:.0f} | {busy:.2f}" if name != "idle" else " | "
        print(f"| {name} | {numbers} | {describe(way.late)} |")
        if KNOWS_WAITED:
            print(f"| ... without waiting for a processor | | | {describe(way.kept)} |")
        if name != "idle":
            print(f"| ... longest garbage collection | | | | | {max(way.collections, default=0):.2f} | |")
    threads, loop = ways["plain threads"], ways["in the loop"]
    ratio = statistics.median(one / other for one, other in zip(threads.seconds, loop.seconds, strict=True))
    met = "met" if ratio >= TARGET_RATIO else "MISSED"
    print(f"throughput in the loop: {ratio:.2f} of that of plain threads (at least {TARGET_RATIO:g}: {met})")


def describe(late: Sequence[float]) -> str:
    """Return median, p99, the longest, and the share of ticks that were later than the target."""
    percentiles, over = statistics.quantiles(late, n=100), sum(one > TARGET_LATE for one in late) / len(late)
    return " | ".join(f"{value:.2f}" for value in (percentiles[49], percentiles[98], max(late))) + f" | {over:.2%}"


if __name__ == "__main__":
    main()
