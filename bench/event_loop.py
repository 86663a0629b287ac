"""
Measure many searches at once in one event loop, beside the same searches by plain threads.

    python bench/event_loop.py [SIZE] [--searches N] [--rounds N] [--threads N]

20,000 memories, 200 searches, 5 rounds and 4 threads by default. No model is measured: vectors are random, and ready.
In each round both ways take their turn with the same questions, on memories of their own in the same file. Look at the
ratio of the throughputs, and at how long the event loop was kept: a task that sleeps for a millisecond measures how
much later it wakes. It wakes late while plain threads search, too, with nothing of Memorist in the loop: the
interpreter hands its lock over every 5 ms (`sys.getswitchinterval()`), to whichever thread is first. What a busy
machine adds is left out: of the time that the task was late, only what this process worked meanwhile counts.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import memorist
from bulk import ReadyVectors, make_texts
from memorist import AsyncMemorist, Memorist

LIMIT = 10
WARM_UP = 60
TICK = 0.001
TARGET_RATIO = 0.9  # at least, of the throughput


@dataclass(slots=True)
class Way:
    """Measurements of one way to search: seconds of each round, and of every tick how late it was."""

    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)  # seconds of the processor
    late: list[float] = field(default_factory=list)  # milliseconds
    kept: list[float] = field(default_factory=list)  # those of them that this process worked


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure searches at once in one event loop, beside plain threads.")
    parser.add_argument("size", type=int, nargs="?", default=20_000, metavar="SIZE", help="memories")
    parser.add_argument("--searches", type=int, default=200, help="at once (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of each way (default %(default)s)")
    parser.add_argument("--threads", type=int, default=4, help="of each way (default %(default)s)")
    options = parser.parse_args()
    texts, embedder = make_texts(options.size), ReadyVectors(options.size)
    generator = random.Random(2)
    questions = [" ".join(generator.choice(texts).split()[:4]) for _ in range(options.searches)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        with memorist.open(path, embedder=embedder) as memory:
            memory.add_many(texts)
            ways = asyncio.run(compare(memory, path, embedder, questions, options.rounds, options.threads))
    report(ways, options.searches)


async def compare(
    memory: Memorist, path: Path, embedder: ReadyVectors, questions: Sequence[str], rounds: int, threads: int
) -> dict[str, Way]:
    """Search in both ways in turns."""
    ways = {"plain threads": Way(), "in the loop": Way()}
    async with memorist.open_async(path, embedder=embedder, concurrency=threads) as awaited:
        with ThreadPoolExecutor(threads) as pool:
            tasks: dict[str, Callable[[], Awaitable[object]]] = {
                "plain threads": lambda: asyncio.to_thread(search_by_threads, memory, pool, questions),
                "in the loop": lambda: search_in_loop(awaited, questions),
            }
            for start in tasks.values():
                for _ in range(1 + WARM_UP // len(questions)):
                    await start()
            for number in range(rounds):
                order = list(tasks.items())
                for name, start in order if number % 2 else reversed(order):
                    await measure(ways[name], start)
    return ways


def search_by_threads(memory: Memorist, pool: ThreadPoolExecutor, questions: Sequence[str]) -> None:
    list(pool.map(lambda question: memory.search(question, limit=LIMIT), questions))


async def search_in_loop(memory: AsyncMemorist, questions: Sequence[str]) -> None:
    await asyncio.gather(*(memory.search(question, limit=LIMIT) for question in questions))


async def measure(way: Way, start: Callable[[], Awaitable[object]]) -> None:
    """Time one round, while a task looks how late the loop wakes it."""
    watch = asyncio.create_task(record_lateness(way))
    await asyncio.sleep(10 * TICK)
    started, busy = time.perf_counter(), time.process_time()
    await start()
    way.seconds.append(time.perf_counter() - started)
    way.busy.append(time.process_time() - busy)
    watch.cancel()


async def record_lateness(way: Way) -> None:
    while True:
        started, busy = time.perf_counter(), time.process_time()
        await asyncio.sleep(TICK)
        late = max(0.0, time.perf_counter() - started - TICK)
        way.late.append(late * 1000)
        way.kept.append(min(late, time.process_time() - busy) * 1000)


def report(ways: dict[str, Way], searches: int) -> None:
    print("| way | searches/s | ms of the processor a search | loop kept, p50 ms | p99 | longest | with other load |")
    print("|---|---|---|---|---|---|---|")
    for name, way in ways.items():
        kept = statistics.quantiles(way.kept, n=100)
        rate, busy = searches / statistics.median(way.seconds), statistics.median(way.busy) / searches * 1000
        times = " | ".join(f"{late:.2f}" for late in (kept[49], kept[98], max(way.kept), max(way.late)))
        print(f"| {name} | {rate:.0f} | {busy:.2f} | {times} |")
    threads, loop = ways["plain threads"], ways["in the loop"]
    ratio = statistics.median(one / other for one, other in zip(threads.seconds, loop.seconds, strict=True))
    met = "met" if ratio >= TARGET_RATIO else "MISSED"
    print(f"throughput in the loop: {ratio:.2f} of that of plain threads (at least {TARGET_RATIO:g}: {met})")


if __name__ == "__main__":
    main()
