"""
Measure a writer beside readers: processes that search one database while another adds to it.

    python bench/readers.py [SIZE] [--readers N] [--seconds N] [--rounds N]

20,000 memories, eight readers, and rounds of five seconds by default. In each round the writer adds alone, the readers
search alone, and then both do it at once, each time on a copy of the database. No model is measured: vectors are
random, and ready. Readers never wait for a writer, nor it for them: what remains is that all share the processors, so
on Linux the time for which the writer only waited for one is left out in a second line.
"""

import argparse
import itertools
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import memorist
from bulk import ReadyVectors, make_texts
from measurements import read_waited

TARGET = 3.0  # of the writer's p99 beside readers, at most
WARM_UP = 60
MOST_ADDS = 20_000
WAYS = ("alone", "beside the others")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a writer beside readers.")
    parser.add_argument("size", type=int, nargs="?", default=20_000, metavar="SIZE", help="memories")
    parser.add_argument("--readers", type=int, default=8, help="processes (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default %(default)s)")
    parser.add_argument("--work", choices=("write", "read"), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.path, options.work, options.size, options.seconds)
        return
    times: dict[tuple[str, str], list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        stored, path = Path(folder, "stored.db"), Path(folder, "memories.db")
        with memorist.open(stored, embedder=ReadyVectors(options.size)) as memory:
            memory.add_many(make_texts(options.size))
        for _ in range(options.rounds):
            for way, works in (
                (WAYS[0], ["write"]),
                (WAYS[0], ["read"] * options.readers),
                (WAYS[1], ["write", *["read"] * options.readers]),
            ):
                shutil.copy(stored, path)
                for done, measured in run(path, works, options):
                    times.setdefault((done, way), []).extend(measured)
    print_table(times, options)


def run(path: Path, works: list[str], options: argparse.Namespace) -> Iterator[tuple[str, list[list[float]]]]:
    """Run processes at the same time, and yield what each did with its times."""
    command = [sys.executable, __file__, str(options.size), "--path", str(path), "--seconds", str(options.seconds)]
    processes = [subprocess.Popen([*command, "--work", work], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
                 for work in works]  # fmt: skip
    for work, process in zip(works, processes, strict=True):
        assert process.stdout is not None
        if not process.stdout.readline():
            raise SystemExit(f"Error: a process that should {work} has ended, see above")
    for process in processes:
        assert process.stdin is not None
        print(file=process.stdin, flush=True)
    for work, process in zip(works, processes, strict=True):
        output, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"Error: a process that should {work} ended with {process.returncode}")
        yield work, json.loads(output)


def work(path: Path, kind: str, size: int, seconds: float) -> None:
    """Add or search for some time, once told to start; print the milliseconds of each, and those without waiting."""
    texts = make_texts(size + MOST_ADDS)
    asked, added = random.sample(texts[:size], size), texts[size:]
    times = []
    with memorist.open(path, embedder=ReadyVectors(len(texts))) as memory:
        for text in asked[:WARM_UP]:
            memory.search(text)
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.perf_counter() + seconds
        for text in added if kind == "write" else itertools.cycle(asked):
            waited, began = read_waited(), time.perf_counter()
            if began > end:
                break
            if kind == "write":
                memory.add(text)
            else:
                memory.search(text)
            taken = time.perf_counter() - began
            times.append([taken * 1e3, max(0.0, taken - (read_waited() - waited)) * 1e3])
    print(json.dumps(times))


def print_table(times: dict[tuple[str, str], list[list[float]]], options: argparse.Namespace) -> None:
    print(f"{options.size:,} memories, one writer and {options.readers} readers, milliseconds")
    print(f"{'':56}{'each second':>12}{'p50':>8}{'p99':>8}")
    waiting = "without waiting for a processor"
    for kind, column, name in (("write", 0, "add"), ("write", 1, f"... {waiting}"), ("read", 0, "search, all readers")):
        tails = []
        for way in WAYS:
            taken = [one[column] for one in times[kind, way]]
            tails.append(statistics.quantiles(taken, n=100)[98])
            rate = "" if column else f"{len(taken) / options.seconds / options.rounds:,.0f}"
            print(f"{f'{name}, {way}':56}{rate:>12}{statistics.median(taken):8.2f}{tails[-1]:8.2f}")
        aim = f", at most {TARGET:g}x" if column else ""
        print(f"{'':56}p99 beside the others: {tails[1] / tails[0]:.2f}x{aim}")


if __name__ == "__main__":
    main()
