"""
Compare the searches of two checkouts of Memorist, in turns, on the same texts and vectors.

    python bench/versions.py --data DIR --other CHECKOUT                  10k and 100k memories, vectors given
    python bench/versions.py --data DIR --other CHECKOUT --sizes 1k,100k

Each version has a process and a database of its own, and answers the same questions in turns with the other, so that
both meet the same load of the machine. The vectors of the questions are given: no model is measured.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

WARM_UP, QUESTIONS, BLOCK = 60, 200, 20
THREADS = ("memorist-image", "memorist-words")  # make what searches use, which the measurement waits for


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare the searches of two checkouts, in turns.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder that contains `locomo`")
    parser.add_argument("--other", type=Path, required=True, metavar="CHECKOUT", help="the version to compare with")
    parser.add_argument(
        "--cache", type=Path, default=Path("/tmp/memorist-bench"), metavar="DIR", help="keeps databases"
    )
    parser.add_argument("--sizes", default="10k,100k", help="numbers of memories (default %(default)s)")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="asked (default %(default)s)")
    parser.add_argument("--passes", type=int, default=2, help="the fastest of so many counts (default %(default)s)")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options)
        return
    here = Path(__file__).parent.parent
    print("| memories | search | p50 | before | p99 | before |\n|---|---|---|---|---|---|")
    for size in (int(text.removesuffix("k")) * 1000 for text in options.sizes.split(",")):
        for row in compare(options, size, [here, options.other]):
            print(f"| {size:,} | {row} |", flush=True)


def compare(options: argparse.Namespace, size: int, checkouts: Sequence[Path]) -> list[str]:
    """Ask both versions in turns, and return a row for each kind of search."""
    servants = [start(options, checkout, size) for checkout in checkouts]
    try:
        modes, _ = (json.loads(read(servant)) for servant in servants)
        fastest: list[dict[str, list[float]]] = [{mode: [9e9] * options.questions for mode in modes} for _ in servants]
        for _ in range(options.passes):
            for first in range(0, options.questions, BLOCK):
                for servant, times in zip(servants, fastest, strict=True):
                    print(first, file=servant.stdin, flush=True)
                    for mode, taken in json.loads(read(servant)).items():
                        for number, seconds in enumerate(taken, first):
                            times[mode][number] = min(times[mode][number], seconds)
    finally:
        for servant in servants:
            servant.kill()
    new, old = fastest
    rows = []
    for mode in modes:
        figures = [f"{percentile(times[mode], share) * 1000:.2f}" for share in (0.5, 0.99) for times in (new, old)]
        rows.append(" | ".join([mode, *figures]))
    return rows


def percentile(times: Sequence[float], share: float) -> float:
    return sorted(times)[int(share * (len(times) - 1))]


def start(options: argparse.Namespace, checkout: Path, size: int) -> "subprocess.Popen[str]":
    command = [sys.executable, str(Path(__file__)), "--serve", str(size)]
    command += [f"--{name}={getattr(options, name)}" for name in ("data", "cache", "questions")]
    command += ["--other", str(checkout)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read(servant: "subprocess.Popen[str]") -> str:
    assert servant.stdout is not None
    line = servant.stdout.readline()
    if not line:
        raise SystemExit("Error: a version could not be measured, see above")
    return line


def serve(options: argparse.Namespace) -> None:
    """Answer questions with one version, block by block."""
    sys.path[:0] = [str(options.other / "src"), str(options.other / "bench")]
    import corpus
    import memorist
    from memorist.embed.local import LocalEmbedder

    options.cache.mkdir(parents=True, exist_ok=True)
    halves = corpus.load(options.data, options.cache, None)
    vectors = dict(zip(halves.questions, halves.question_vectors, strict=True))

    class GivenVectors(LocalEmbedder):
        is_loaded = True  # otherwise each search begins to read the vectors beside loading the model

        def embed_query(self, text: str) -> Any:
            return vectors[text]

    # A folder for each version: another schema makes another database.
    cache = options.cache / options.other.resolve().name
    cache.mkdir(exist_ok=True)
    database = corpus.build_database(halves, options.serve, cache, real=False)
    with memorist.open(database, embedder=GivenVectors()) as memory:
        modes: dict[str, Callable[[str, int], object]] = {
            "hybrid": lambda text, number: memory.search(text),
            "words": lambda text, number: memory.search(text, mode="keyword"),
            "meaning": lambda text, number: memory.search(text, mode="semantic"),
            "filtered to 1 %": lambda text, number: memory.search(text, project=f"p{number % corpus.PROJECT_COUNT}"),
        }
        questions = halves.questions[: options.questions]
        for number, text in enumerate(halves.questions[-WARM_UP:]):
            for ask in modes.values():
                ask(text, number)
        for thread in threading.enumerate():
            if thread.name in THREADS:
                thread.join()
        print(json.dumps(list(modes)), flush=True)
        while line := sys.stdin.readline():
            first = int(line)
            times: dict[str, list[float]] = {mode: [] for mode in modes}
            for number, text in enumerate(questions[first : first + BLOCK], first):
                for mode, ask in modes.items():
                    started = time.perf_counter()
                    ask(text, number)
                    times[mode].append(time.perf_counter() - started)
            print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
