"""
Measure a new process from inside. core.py runs this script once for each process.

    new_process.py start DATABASE QUESTION...     open a database and search: the stages up to the first answer
    new_process.py embed FOLDER QUESTION          load the model of a folder and embed a question, without Memorist
    new_process.py scan COUNT VECTORS             scan that many vectors: the memory it takes

Prints one JSON object. Only the standard library is imported before the clock starts.
"""

import json
import os
import resource
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

MEGABYTE = 1_000_000


def time_start(database: str, questions: list[str]) -> dict[str, Any]:
    """Time the stages of a first search, then searches of the warm process."""
    marks = [time.perf_counter()]

    def mark() -> None:
        marks.append(time.perf_counter())

    import memorist.engine
    from memorist.embed.local import LocalEmbedder
    from memorist.embed.onnx_models import import_onnxruntime

    mark()
    embedder = LocalEmbedder()
    with memorist.engine.open_memory(database, embedder=embedder) as memory:
        mark()
        import_onnxruntime()  # loading the model would
        mark()
        embedder.load()
        mark()
        first = memory.search(questions[0])
        mark()
        warm = []
        for question in questions[1:]:  # each once, so that no embedding comes from the cache
            started = time.perf_counter()
            memory.search(question)
            warm.append(time.perf_counter() - started)
        names = ("import", "open", "onnxruntime", "model", "search")
        stages = {name: (end - begin) * 1000 for name, (begin, end) in zip(names, pairwise(marks), strict=True)}
        return {"stages": stages, "warm": statistics.median(warm) * 1000 if warm else None, "hits": len(first)}


def embed(folder: str, question: str) -> dict[str, Any]:
    """Embed a question with nothing but onnxruntime: every program that uses the model takes at least so long."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import numpy as np
    import onnxruntime

    pieces = Path(folder, "vocab.txt").read_text("utf-8").split("\n")
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(Path(folder, "model.onnx"), options, providers=["CPUExecutionProvider"])
    words = ["[CLS]", *question.lower().rstrip("?").split(), "[SEP]"]
    ids = [vocabulary.get(word, vocabulary["[UNK]"]) for word in words]
    (vector,) = session.run(["embedding"], {"input_ids": np.array([ids], np.int64)})[0]
    return {"dimensions": len(vector)}


def load_scan(count: int, file: str) -> dict[str, Any]:
    """Load `count` vectors into a scan and search it."""
    import numpy as np

    from corpus import derive_vector_batches
    from memorist.store.vector_scan import VectorScan, encode

    with np.load(file) as cached:
        heads, tails, questions = cached["heads"], cached["tails"], cached["questions"][:10]
    codes, filled = np.empty((count, heads.shape[1]), np.int8), 0
    for vectors in derive_vector_batches(heads, tails, count):
        codes[filled : filled + len(vectors)] = encode(vectors.astype(np.float16))
        filled += len(vectors)
    vector_scan = VectorScan(heads.shape[1])
    vector_scan.load([(np.arange(1, count + 1), codes)], count)
    for question in questions:
        vector_scan.find_nearest(question, 50)
    return {"vectors": len(vector_scan), "float32_mb": codes.size * 4 / MEGABYTE}


def peak_mb() -> float:
    """Return the peak memory of this process in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, ru_maxrss includes the memory of the parent before exec
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024 / MEGABYTE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MEGABYTE if sys.platform == "darwin" else peak * 1024 / MEGABYTE


if __name__ == "__main__":
    command, target, *rest = sys.argv[1:]
    if command == "start":
        result = time_start(target, rest)
    else:
        result = embed(target, rest[0]) if command == "embed" else load_scan(int(target), rest[0])
    print(json.dumps(result | {"peak_mb": peak_mb()}))
