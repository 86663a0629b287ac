"""
What a new process does, timed from inside; run by core.py, once a process.

    fresh.py start DATABASE QUESTION...     open and search: where the time goes until the first answer
    fresh.py scan COUNT VECTORS             a scan over that many vectors: how much memory it takes

Prints one JSON object. Nothing but the standard library is imported before the clock runs.
"""

import json
import resource
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

MEGABYTE = 1_000_000


def start(database: str, questions: list[str]) -> dict[str, Any]:
    """The stages of a first search one by one, then the same process warm."""
    marks = [time.perf_counter()]

    def mark() -> None:
        marks.append(time.perf_counter())

    import memorist.engine
    from memorist.embed.local import LocalEmbedder

    mark()
    embedder = LocalEmbedder()
    with memorist.engine.open_memory(database, embedder=embedder) as memory:
        mark()
        import onnxruntime  # noqa: F401 - what loading the model would import

        mark()
        embedder.load()
        mark()
        first = memory.search(questions[0])
        mark()
        warm = []
        for question in questions[1:]:  # each once: none is answered from the cache of questions
            started = time.perf_counter()
            memory.search(question)
            warm.append(time.perf_counter() - started)
        names = ("import", "open", "onnxruntime", "model", "search")
        stages = {name: (b - a) * 1000 for name, (a, b) in zip(names, pairwise(marks), strict=True)}
        return {"stages": stages, "warm": statistics.median(warm) * 1000 if warm else None, "hits": len(first)}


def scan(count: int, file: str) -> dict[str, Any]:
    """Fill a scan of `count` vectors and search it."""
    import numpy as np

    from corpus import derived
    from memorist.store.vector_scan import VectorScan, encode

    with np.load(file) as kept:
        heads, tails, questions = kept["heads"], kept["tails"], kept["questions"][:10]
    codes, filled = np.empty((count, heads.shape[1]), np.int8), 0
    for vectors in derived(heads, tails, count):
        codes[filled : filled + len(vectors)] = encode(vectors.astype(np.float16))
        filled += len(vectors)
    held = VectorScan(heads.shape[1])
    held.load([(np.arange(1, count + 1), codes)], count)
    for question in questions:
        held.find_nearest(question, 50)
    return {"vectors": len(held), "float32_mb": codes.size * 4 / MEGABYTE}


def _peak_mb() -> float:
    """The most memory this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux counts into ru_maxrss what the process was before it became this program
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024 / MEGABYTE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MEGABYTE if sys.platform == "darwin" else peak * 1024 / MEGABYTE


if __name__ == "__main__":
    what, target, *rest = sys.argv[1:]
    answer = start(target, rest) if what == "start" else scan(int(target), rest[0])
    print(json.dumps(answer | {"peak_mb": _peak_mb()}))
