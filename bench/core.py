"""
Measure the speed and memory use of Memorist.

    python bench/core.py --data DIR                    10k, 100k and (vectors only) 1M memories: some six minutes
    python bench/core.py --data DIR --quick            a smoke run of under a minute
    python bench/core.py --data DIR --json > out.json  the same as JSON

Every result is a ratio: each measurement is taken in turns with its baseline, so that it holds on any machine.

The texts (halves of LoCoMo's turns, recombined), the questions, their embeddings, the database and the command line are
real. The vectors of the texts are derived from the real vectors of their halves, see corpus.py. With `--real`, every
text of the databases is embedded instead: five minutes more for 100k, with the same search times. bench/README.md
explains the table.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw
import numpy as np

import corpus
import legs
import processes
from measurements import Comparison, format_size, format_table

MILLION = 1_000_000


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse_options(arguments)
    options.cache.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    halves = corpus.load(options.data, options.cache, 1_500 if options.quick else None)
    comparisons = _measure(options, halves)
    took = round(time.perf_counter() - started)
    machine = _describe_machine() | {"took_s": took, "vectors": "real" if options.real else "derived"}
    if options.json:
        print(json.dumps({"machine": machine, "figures": [item.as_json() for item in comparisons]}, indent=2))
        return
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    print(format_table(comparisons))
    results = [item.target_met for item in comparisons if item.target_met is not None]
    print(f"\n{len(results)} targets, {results.count(False)} missed.")


def _measure(options: argparse.Namespace, halves: corpus.Corpus) -> list[Comparison]:
    queries, passes = (40, 2) if options.quick else (300, 4)
    vector_sizes = [*options.sizes, *([MILLION] if options.million else [])]
    comparisons: list[Comparison] = []
    for size in vector_sizes:
        _report_step(f"vectors, {format_size(size)}")
        comparisons += legs.measure_vector_leg(halves, size, min(queries, 30) if size >= MILLION else queries, passes)
    databases = {}
    for size in options.sizes:
        databases[size] = corpus.build_database(halves, size, options.cache, real=options.real)
        _report_step(f"searches, {format_size(size)}")
        comparisons += legs.measure_searches(halves, databases[size], size, queries, passes)
        _report_step(f"search options, {format_size(size)}")
        comparisons += legs.measure_search_options(halves, databases[size], size, queries // 3, passes, options.cache)
    _report_step("writing")
    comparisons += legs.measure_writing(halves, 512 if options.quick else 3_072, options.cache)
    for size, database in databases.items():
        _report_step(f"new processes, {format_size(size)}")
        comparisons += processes.measure_start(halves, database, size, 3 if options.quick else 9)
    for size in vector_sizes:
        _report_step(f"memory, {format_size(size)}")
        comparisons += processes.measure_memory(halves, databases.get(size), size)
    return comparisons


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure the speed and memory use of Memorist, as ratios.",
        epilog="bench/README.md explains the table.",
    )
    parser.add_argument("--sizes", type=_parse_sizes, metavar="N,N", help="numbers of memories (default 10k,100k)")
    parser.add_argument("--no-million", dest="million", action="store_false", help="skip the million vectors")
    parser.add_argument("--quick", action="store_true", help="2k and 10k memories, few questions: a smoke run")
    parser.add_argument("--real", action="store_true", help="embed every text of the databases, derive no vectors")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder that contains `locomo`")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "memorist-bench"), metavar="DIR",
                        help="keeps databases between runs (default %(default)s; 100k take 500 MB)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    options.million = options.million and not options.quick
    options.sizes = options.sizes or ([2_000, 10_000] if options.quick else [10_000, 100_000])
    return options


def _parse_sizes(text: str) -> list[int]:
    units = {"k": 1_000, "m": MILLION}
    sizes = []
    for size in text.lower().split(","):
        digits, unit = (size[:-1], units[size[-1]]) if size[-1:] in units else (size, 1)
        if not digits.isdecimal() or int(digits) * unit < 1_000:
            raise argparse.ArgumentTypeError(f"{size!r} is not a size of at least 1k; write 10k,100k")
        sizes.append(int(digits) * unit)
    return sizes


def _describe_machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "sqlite": apsw.sqlite_lib_version(),
        "onnxruntime": version("onnxruntime"),
    }


def _report_step(name: str) -> None:
    print(f"measuring {name} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
