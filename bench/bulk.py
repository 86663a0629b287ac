"""
Measure writing with vectors given: batches, imports and single memories, beside plain SQLite with FTS5.

    python bench/bulk.py [ROWS] [--rounds N]        50,000 rows and 3 rounds by default

No model is measured: the vectors are random, and ready. In each round every way of writing takes its turn with the same
rows, in a new file with default settings, so that each is durable when it returns. Plain SQLite inserts text, hash and
vector by `executemany` into a table with a full-text index, in batches of the same size.

Then single memories are added to those, one by one, each in turn with a bare transaction: plain SQLite that inserts the
same row and commits it in the same way. Both once more with `synchronous=normal`, which waits for no disk, tell what
that costs. At last one thread and several add as many, in turns.
"""

import argparse
import hashlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

import memorist

DIMENSIONS = 384
WORDS_PER_TEXT = 17
VOCABULARY = 20_000
PLAIN_BATCH = 8192
SINGLE = 200  # memories added one by one
THREADS, BY_THREADS = 8, 800  # that add at once, and memories that they add together
CONSONANTS, VOWELS = "bcdfghjklmnprstvwz", "aeiou"

Texts = Sequence[str]


class ReadyVectors:
    """An embedder that has the vector of every text ready, by the number that the text begins with."""

    model_id, dimensions = "ready", DIMENSIONS

    def __init__(self, count: int) -> None:
        self._vectors: NDArray[np.float32] = np.random.default_rng(1).standard_normal((count, DIMENSIONS), np.float32)

    def embed(self, texts: Texts) -> NDArray[np.float32]:
        return self._vectors[[int(text[: text.index(" ")]) for text in texts]]


def make_texts(count: int) -> list[str]:
    """Return texts of some 117 characters, whose words are as frequent as those of a language."""
    generator = random.Random(1)
    words = [
        "".join(generator.choice(CONSONANTS) + generator.choice(VOWELS) for _ in range(3)) for _ in range(VOCABULARY)
    ]
    weights = list(np.cumsum([1 / place for place in range(1, VOCABULARY + 1)]))
    return [
        f"{number} {' '.join(generator.choices(words, cum_weights=weights, k=WORDS_PER_TEXT))}"
        for number in range(count)
    ]


def open_plain(folder: Path, synchronous: str = "full") -> apsw.Connection:
    database = apsw.Connection(str(folder / "plain.db"))
    database.pragma("journal_mode", "wal")
    database.pragma("synchronous", synchronous)
    return database


def write_plain(folder: Path, texts: Texts, embedder: ReadyVectors) -> None:
    database = open_plain(folder)
    database.execute("create table texts(key integer primary key, text text, hash blob, vector blob)")
    database.execute("create virtual table words using fts5(text, content = texts, content_rowid = key)")
    for start in range(0, len(texts), PLAIN_BATCH):
        batch = texts[start : start + PLAIN_BATCH]
        halves = embedder.embed(batch).astype(np.float16)
        rows = [
            (start + place, text, hashlib.sha256(text.encode()).digest(), half.tobytes())
            for place, (text, half) in enumerate(zip(batch, halves, strict=True))
        ]
        with database:
            database.executemany("insert into texts values (?, ?, ?, ?)", rows)
            database.execute("insert into words(rowid, text) select key, text from texts where key >= ?", (start,))
    database.close()


def write_many(folder: Path, texts: Texts, embedder: ReadyVectors) -> None:
    with memorist.open(folder / "many.db", embedder=embedder) as memory:
        memory.add_many(texts)


def export(folder: Path, texts: Texts, embedder: ReadyVectors) -> None:
    with memorist.open(folder / "many.db", embedder=embedder) as memory:
        memory.transfer.export(folder / "export.jsonl", vectors=True)


def import_export(folder: Path, texts: Texts, embedder: ReadyVectors) -> None:
    with memorist.open(folder / "imported.db", embedder=embedder) as memory:
        memory.transfer.import_(folder / "export.jsonl")
        if memory.stats().vectors != len(texts):
            raise SystemExit("Error: the import lacks vectors, so its time cannot be compared")


WAYS: dict[str, Callable[[Path, Texts, ReadyVectors], None]] = {
    "plain SQLite with FTS5": write_plain,
    "add_many": write_many,
    "export": export,
    "import": import_export,
}


def add_bare(database: apsw.Connection, text: str, vector: bytes) -> None:
    """Insert one row into plain SQLite and commit it."""
    with database:
        row = (text, hashlib.sha256(text.encode()).digest(), vector)
        database.execute("insert into texts(text, hash, vector) values (?, ?, ?)", row)
        database.execute("insert into words(rowid, text) values (?, ?)", (database.last_insert_rowid(), text))


def time_single(folder: Path, texts: Texts, embedder: ReadyVectors) -> dict[str, list[float]]:
    """Return the seconds of each `add`, and of each bare transaction, which take turns."""
    seconds: dict[str, list[float]] = {}
    for synchronous in ("full", "normal"):
        database = open_plain(folder, synchronous)
        with memorist.open(folder / "many.db", embedder=embedder, synchronous=synchronous) as memory:
            for text in texts[:SINGLE]:
                new = f"{text} once more with {synchronous}, {text[::-1]}"
                vector = embedder.embed([text])[0].astype(np.float16).tobytes()
                for name, write in (
                    ("bare transaction", lambda: add_bare(database, new, vector)),  # noqa: B023
                    ("add", lambda: memory.add(new)),  # noqa: B023
                ):
                    started = time.perf_counter()
                    write()
                    seconds.setdefault(f"{name}, synchronous={synchronous}", []).append(time.perf_counter() - started)
        database.close()
    return seconds


def time_threads(folder: Path, texts: Texts, embedder: ReadyVectors) -> dict[int, float]:
    """Return the seconds that one thread takes to add memories, and several together."""
    seconds = {}
    with memorist.open(folder / "many.db", embedder=embedder) as memory:
        for count in (1, THREADS):
            new = [f"{text} again by one of {count}, {text[::-1]}" for text in texts[:BY_THREADS]]
            started = time.perf_counter()
            with ThreadPoolExecutor(count) as threads:
                list(threads.map(memory.add, new))
            seconds[count] = time.perf_counter() - started
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=50_000, metavar="ROWS")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args()
    texts, embedder = make_texts(options.rows), ReadyVectors(options.rows)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    single: dict[str, list[float]] = {}
    by_threads: dict[int, list[float]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            for name, write in WAYS.items():
                started, busy = time.perf_counter(), time.process_time()
                write(Path(folder), texts, embedder)
                seconds[name].append((time.perf_counter() - started, time.process_time() - busy))
            for name, times in time_single(Path(folder), texts, embedder).items():
                single.setdefault(name, []).extend(times)
            for count, took in time_threads(Path(folder), texts, embedder).items():
                by_threads.setdefault(count, []).append(took)
    print(f"{options.rows:,} rows of {statistics.mean(map(len, texts)):.0f} characters, {options.rounds} rounds")
    plain = [statistics.median(column) for column in zip(*seconds["plain SQLite with FTS5"], strict=True)]
    for name, both in seconds.items():
        took, busy = (statistics.median(column) for column in zip(*both, strict=True))
        print(
            f"{name:<24} {options.rows / took:>9,.0f} rows/s {busy / options.rows * 1e6:>9.1f} us of CPU a row "
            f"{busy / plain[1]:>8.1f} x plain's CPU {took / plain[0]:>8.1f} x its time"
        )
    for name, times in single.items():
        bare = statistics.median(single[name.replace("add", "bare transaction")])
        p50 = statistics.median(times)
        print(f"{name:<38} {p50 * 1e3:>7.2f} ms at p50 {p50 / bare:>6.2f} x bare")
    one = statistics.median(by_threads[1])
    for count, runs in by_threads.items():
        took = statistics.median(runs)
        print(f"add by {count} threads {BY_THREADS / took:>9,.0f} adds/s {one / took:>6.2f} x one thread")


if __name__ == "__main__":
    main()
