"""
Measure writing with vectors given: batches, single memories and imports, beside plain SQLite with FTS5.

    python bench/bulk.py [ROWS] [--rounds N]        50,000 rows and 3 rounds by default

No model is measured: the vectors are random, and ready. In each round every way of writing takes its turn with the same
rows, in a new file with default settings, so that each is durable when it returns. Plain SQLite inserts text, hash and
vector by `executemany` into a table with a full-text index, in batches of the same size.
"""

import argparse
import hashlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
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


def write_plain(folder: Path, texts: Texts, embedder: ReadyVectors) -> None:
    database = apsw.Connection(str(folder / "plain.db"))
    database.pragma("journal_mode", "wal")
    database.pragma("synchronous", "full")
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


def write_single(folder: Path, texts: Texts, embedder: ReadyVectors) -> None:
    with memorist.open(folder / "many.db", embedder=embedder) as memory:
        for text in texts[:SINGLE]:
            memory.add(f"{text} once more, {text[::-1]}")


WAYS: dict[str, Callable[[Path, Texts, ReadyVectors], None]] = {
    "plain SQLite with FTS5": write_plain,
    "add_many": write_many,
    "export": export,
    "import": import_export,
    f"add, {SINGLE} times": write_single,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=50_000, metavar="ROWS")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args()
    texts, embedder = make_texts(options.rows), ReadyVectors(options.rows)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            for name, write in WAYS.items():
                started, busy = time.perf_counter(), time.process_time()
                write(Path(folder), texts, embedder)
                seconds[name].append((time.perf_counter() - started, time.process_time() - busy))
    print(f"{options.rows:,} rows of {statistics.mean(map(len, texts)):.0f} characters, {options.rounds} rounds")
    plain = statistics.median(took for took, _ in seconds["plain SQLite with FTS5"])
    for name, times in seconds.items():
        rows = SINGLE if write_single is WAYS[name] else options.rows
        took, busy = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = took / rows / (plain / options.rows)
        print(f"{name:<24} {rows / took:>9,.0f} rows/s {busy / rows * 1e6:>9.1f} us of CPU a row {ratio:>8.1f} x plain")


if __name__ == "__main__":
    main()
