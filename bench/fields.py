"""
Measure searches filtered by metadata, with an index of the field and without, beside a search without a filter.

    python bench/fields.py [SIZE] [--questions N] [--passes N] [--disk]    100,000 memories and 60 questions by default

No model is measured: vectors are random, and ready. Two files hold the same memories; one of them has an index of the
fields. Every kind of search takes its turn with the same questions, each with another filter; before that,
answers are compared with a check of all metadata. Look at the ratio of the processor's time.
"""

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import memorist
from bulk import ReadyVectors, make_texts
from measurements import time_in_turns
from memorist import Memorist

FIELDS = ("user", "team", "n", "likes")
BATCH = 8192
LIMIT = 10
WARM_UP = 20
THREAD = "memorist-image"  # makes the image, which the measurement waits for


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure searches filtered by metadata, beside searches without.")
    parser.add_argument("size", type=int, nargs="?", default=100_000, metavar="SIZE", help="memories")
    parser.add_argument("--questions", type=int, default=60, help="asked of each kind (default %(default)s)")
    parser.add_argument("--passes", type=int, default=3, help="the fastest of so many counts (default %(default)s)")
    parser.add_argument("--disk", action="store_true", help="have the database answer, and make no image of it")
    options = parser.parse_args()
    image = 0 if options.disk else 1000
    texts = make_texts(options.size)
    metadata = [make_metadata(number, options.size) for number in range(options.size)]
    embedder = ReadyVectors(options.size)
    generator = random.Random(2)
    questions = [" ".join(generator.choice(texts).split()[:4]) for _ in range(options.questions)]
    with tempfile.TemporaryDirectory() as folder:
        plain = memorist.open(Path(folder, "plain.db"), embedder=embedder, image_megabytes=image)
        indexed = memorist.open(
            Path(folder, "indexed.db"), embedder=embedder, metadata_index=FIELDS, image_megabytes=image
        )
        with plain, indexed:
            for memory in (plain, indexed):
                fill(memory, texts, metadata)
            check(indexed, questions, metadata)
            compare(plain, indexed, questions, options.size, options.passes)


def make_metadata(number: int, size: int) -> dict[str, Any]:
    """Return metadata of which each field lets another share of the memories through."""
    return {
        "user": f"u{number * 7919 % 100}",  # 1 %
        "team": f"t{number * 7919 % 10}",  # 10 %
        "n": number * 7919 % size,
        "likes": [f"x{number % 1000}", f"y{number % 77}"],  # 0.1 %, 1.3 %
    }


def make_filters(question: int, size: int) -> dict[str, dict[str, Any]]:
    low = question * 991 % size
    return {
        "user = one of 100": {"user": f"u{question % 100}"},
        "likes has one of 1000": {"likes": f"x{question * 37 % 1000}"},
        "n within 1 %": {"n": {"$gte": low, "$lt": low + size // 100}},
        "user in two, and team": {
            "user": {"$in": [f"u{question % 100}", f"u{(question + 10) % 100}"]}, "team": f"t{question % 10}"
        },
        "team = one of 10": {"team": f"t{question % 10}"},
        "team is not one of 10": {"team": {"$ne": f"t{question % 10}"}},
    }  # fmt: skip


def fill(memory: Memorist, texts: list[str], metadata: list[dict[str, Any]]) -> None:
    started = time.perf_counter()
    for first in range(0, len(texts), BATCH):
        memory.add_many(
            {"content": text, "metadata": metadata[number]}
            for number, text in enumerate(texts[first : first + BATCH], first)
        )
    print(f"{len(texts):,} memories written in {time.perf_counter() - started:.1f} s", flush=True)


def compare(plain: Memorist, indexed: Memorist, questions: Sequence[str], size: int, passes: int) -> None:
    """Time all kinds of search in turns, and print the ratio of each to a search without a filter."""
    for memory in (plain, indexed):
        for number in range(WARM_UP):
            memory.search(questions[number % len(questions)])
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()

    def search(memory: Memorist, name: str) -> Callable[[int], object]:
        return lambda n: memory.search(questions[n], limit=LIMIT, metadata=make_filters(n, size)[name])

    names = list(make_filters(0, size))
    tasks: dict[str, Callable[[int], object]] = {"no filter": lambda n: indexed.search(questions[n], limit=LIMIT)}
    tasks |= {f"{name}, indexed": search(indexed, name) for name in names}
    tasks |= {f"{name}, no index": search(plain, name) for name in names}
    times = time_in_turns(tasks, len(questions), passes, time.process_time)
    print("| search | p50 ms of the processor | ratio to no filter | p95 ms | ratio |\n|---|---|---|---|---|")
    for name, took in times.items():
        base = times["no filter"]
        ratios = took.p50 / base.p50, took.p95 / base.p95
        print(f"| {name} | {took.p50:.2f} | {ratios[0]:.2f} | {took.p95:.2f} | {ratios[1]:.2f} |")


def check(indexed: Memorist, questions: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> None:
    """Compare counts and pages of every filter with a check of all metadata."""
    for number, question in enumerate(questions[:2]):
        for name, filter in make_filters(number, len(metadata)).items():
            passing = [one for one in metadata if PASSES[name](filter, one)]
            found = indexed.search(question, limit=LIMIT, metadata=filter)
            if indexed.count(metadata=filter) != len(passing) or len(found) != min(LIMIT, len(passing)):
                raise SystemExit(f"Error: {filter} gives {len(found)} hits, and {len(passing)} memories pass")
            if any(hit.memory.metadata not in passing for hit in found):
                raise SystemExit(f"Error: {filter} lets a memory through that does not pass")


PASSES: Mapping[str, Callable[[Any, Any], bool]] = {
    "user = one of 100": lambda wanted, one: one["user"] == wanted["user"],
    "likes has one of 1000": lambda wanted, one: wanted["likes"] in one["likes"],
    "n within 1 %": lambda wanted, one: wanted["n"]["$gte"] <= one["n"] < wanted["n"]["$lt"],
    "user in two, and team": lambda wanted, one: one["user"] in wanted["user"]["$in"] and one["team"] == wanted["team"],
    "team = one of 10": lambda wanted, one: one["team"] == wanted["team"],
    "team is not one of 10": lambda wanted, one: one["team"] != wanted["team"]["$ne"],
}

if __name__ == "__main__":
    main()
