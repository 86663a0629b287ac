"""
How fast Memorist is, as ratios that hold on any machine: each figure is measured in turns with what it is compared to.

    python bench/core.py                    10k, 100k and (vectors only) 1M memories: some six minutes
    python bench/core.py --quick            a smoke run of under a minute
    python bench/core.py --json > out.json  the same figures for a program

What is real: the texts (halves of LoCoMo's turns, recombined), the questions, every embedding of a question, the
database, the command line, everything timed. What is not: the vectors of the texts in the databases and in the scan
are derived from the real vectors of their halves, see corpus.py; `--real` embeds every text of the databases instead
(some five minutes more for 100k; the time of a search does not change by it). bench/README.md says how to read the
table.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import onnxruntime

import corpus
import legs
import processes
from figures import Figure, short, table

ROOT = Path(__file__).resolve().parent.parent
MILLION = 1_000_000


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    options.cache.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    data = corpus.load(options.data, options.cache, 1_500 if options.quick else None)
    figures = _measure(options, data)
    machine = _machine() | {"took_s": round(time.perf_counter() - started), "vectors": _kind(options)}
    if options.json:
        print(json.dumps({"machine": machine, "figures": [figure.as_json() for figure in figures]}, indent=2))
        return
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    print(table(figures))
    missed = [figure for figure in figures if figure.met is False]
    print(f"\n{sum(figure.met is not None for figure in figures)} targets, {len(missed)} missed.")


def _measure(options: argparse.Namespace, data: corpus.Corpus) -> list[Figure]:
    queries, passes = (40, 2) if options.quick else (300, 4)
    figures: list[Figure] = []
    for size in [*options.sizes, *([MILLION] if options.million else [])]:
        _say(f"vectors, {short(size)}")
        figures += legs.vector_leg(data, size, min(queries, 30) if size >= MILLION else queries, passes)
    databases = {}
    for size in options.sizes:
        databases[size] = corpus.database(data, size, options.cache, real=options.real)
        _say(f"searches, {short(size)}")
        figures += legs.search_legs(data, databases[size], size, queries, passes)
        _say(f"life, {short(size)}")
        figures += legs.lives(data, databases[size], size, queries // 3, passes, options.cache)
    _say("writing")
    figures += legs.writing(data, 512 if options.quick else 3_072, options.cache)
    for size, database in databases.items():
        _say(f"new processes, {short(size)}")
        figures += processes.starting(data, database, size, 3 if options.quick else 9)
    for size in [*options.sizes, *([MILLION] if options.million else [])]:
        _say(f"memory, {short(size)}")
        figures += processes.memory(data, databases.get(size), size)
    return figures


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Memorist's speed and memory, as ratios.", epilog="See bench/README.md for how to read it."
    )
    parser.add_argument("--sizes", type=_sizes, metavar="N,N", help="memories (default 10k,100k)")
    parser.add_argument("--no-million", dest="million", action="store_false", help="leave the million vectors out")
    parser.add_argument("--quick", action="store_true", help="2k and 10k memories, few questions: a smoke run")
    parser.add_argument("--real", action="store_true", help="embed every text of the databases, derive no vectors")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="holds the folder locomo")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "memorist-bench"), metavar="DIR",
                        help="keeps what was built between runs (default %(default)s; 100k take 500 MB)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    options.million = options.million and not options.quick
    options.sizes = options.sizes or ([2_000, 10_000] if options.quick else [10_000, 100_000])
    return options


def _sizes(text: str) -> list[int]:
    units = {"k": 1_000, "m": MILLION}
    sizes = []
    for part in text.lower().split(","):
        digits, unit = (part[:-1], units[part[-1]]) if part[-1:] in units else (part, 1)
        if not digits.isdecimal() or int(digits) * unit < 1_000:
            raise argparse.ArgumentTypeError(f"{part!r} is no size of at least 1k; write 10k,100k")
        sizes.append(int(digits) * unit)
    return sizes


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "sqlite": apsw.sqlite_lib_version(),
        "onnxruntime": onnxruntime.__version__,
    }


def _kind(options: argparse.Namespace) -> str:
    return "real" if options.real else "derived"


def _say(what: str) -> None:
    print(f"measuring {what} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
