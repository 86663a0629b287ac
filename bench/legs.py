"""The figures of one process: the vector scan, the legs of a search, and writing."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import memorist
from corpus import PROJECTS, Corpus, Vectors, derived, filters
from figures import Figure, Spread, interleave
from memorist.embed.local import LocalEmbedder
from memorist.ingest.vectorizer import BATCH, cut_into_parts
from memorist.records import FACETS
from memorist.store.base import EmbeddingJob
from memorist.store.vector_scan import VectorScan, encode

CANDIDATES = 50  # what a search of ten hits asks of a leg
RECALL_AT = 20
FILTERED = 0.01
TARGET_SIZE = 100_000

Keys = NDArray[np.int64]


class Uncached(LocalEmbedder):
    """The bundled model without its cache of questions, so that the same question may be timed again."""

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed([text])[0]
        return vector


def at_target(size: int, target: float) -> float | None:
    """Targets are set for one size; the others are there to compare."""
    return target if size == TARGET_SIZE else None


def vector_leg(corpus: Corpus, size: int, queries: int, passes: int) -> list[Figure]:
    """The scan against plain numpy over the same vectors in float32, all cores, and its recall against that."""
    matrix, scan = _scan(corpus, size)
    questions = corpus.question_vectors[:queries]
    draw = np.random.default_rng(size)
    rows = np.sort(draw.choice(size, max(CANDIDATES, round(size * FILTERED)), replace=False))
    keys = rows + 1
    tasks: dict[str, Callable[[int], object]] = {
        "numpy": lambda n: _exact(matrix, questions[n], CANDIDATES),
        "scan": lambda n: scan.find_nearest(questions[n], CANDIDATES),
        "filtered": lambda n: scan.find_nearest(questions[n], CANDIDATES, keys),
        "numpy filtered": lambda n: _exact(matrix[rows], questions[n], CANDIDATES),
    }
    for task in tasks.values():
        task(0)
    took = interleave(tasks, len(questions), passes)
    section, base = "Vector leg: VectorScan.nearest, k=50", "float32 matrix @ query"
    recall = [_recall(scan.find_nearest(q, CANDIDATES)[0], _exact(matrix, q, RECALL_AT) + 1) for q in questions]
    within = [
        _recall(scan.find_nearest(q, CANDIDATES, keys)[0], keys[_exact(matrix[rows], q, RECALL_AT)]) for q in questions
    ]
    return [
        Figure(section, size, "scan", took["scan"], base, took["numpy"], target=at_target(size, 0.35)),
        _recall_figure(section, size, "recall@20", recall),
        Figure(section, size, "filtered to 1 %", took["filtered"], base, took["numpy"], target=at_target(size, 0.2)),
        Figure(section, size, "filtered to 1 %", took["filtered"], "matrix[rows] @ query", took["numpy filtered"]),
        _recall_figure(section, size, "recall@20, filtered", within),
    ]


def search_legs(corpus: Corpus, database: Path, size: int, queries: int, passes: int) -> list[Figure]:
    """Whole searches with LoCoMo's questions against embedding the same questions."""
    bare, embedder = LocalEmbedder(), Uncached()
    questions, warming = corpus.questions[:queries], corpus.questions[queries:][:20]
    with memorist.open(database, embedder=embedder) as memory:
        tasks: dict[str, Callable[[int], object]] = {
            "embedding": lambda n: bare.embed([questions[n]]),
            "keyword": lambda n: memory.search(questions[n], mode="keyword"),
            "hybrid": lambda n: memory.search(questions[n]),
            "semantic": lambda n: memory.search(questions[n], mode="semantic"),
            "filtered": lambda n: memory.search(questions[n], project=f"p{n % 100}"),
        }
        for question in warming:
            bare.embed([question])
            answer = memory.search(question)
            if answer.degraded or not answer:
                raise SystemExit(f"Error: {database} cannot be measured: {answer.degraded or 'nothing found'}")
        took = interleave(tasks, len(questions), passes)
    section, base = "Search: Memorist.search, ten hits, LoCoMo's questions", "embedding the question"
    hybrid = Figure(
        section, size, "hybrid", took["hybrid"], base, took["embedding"],
        target=at_target(size, 4), target_p95=at_target(size, 6),
    )  # fmt: skip
    others = {"keyword": "keyword", "semantic": "semantic", "filtered": "hybrid, filtered to 1 %"}
    return [hybrid, *(Figure(section, size, what, took[t], base, took["embedding"]) for t, what in others.items())]


def lives(corpus: Corpus, database: Path, size: int, queries: int, passes: int, cache: Path) -> list[Figure]:
    """What a search costs with all that it can be asked for, against the plain one."""
    questions, embedder = corpus.questions[:queries], Uncached()
    asked = [filters(4 * number) for number in range(PROJECTS // 4)]  # projects whose memories have facts
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        copy = shutil.copy(database, Path(folder, "lives.db"))  # recording writes
        with memorist.open(copy, embedder=embedder) as memory:
            tasks: dict[str, Callable[[int], object]] = {
                "plain": lambda n: memory.search(questions[n]),
                "all": lambda n: memory.search(
                    questions[n], **asked[n % len(asked)], facets=FACETS, record="reinforce",
                    record_session=f"s{n % PROJECTS}",
                ),
                "filters": lambda n: memory.search(questions[n], **asked[n % len(asked)]),
                "facets": lambda n: memory.search(questions[n], facets=FACETS),
                "record": lambda n: memory.search(questions[n], record="reinforce"),
                "then": lambda n: memory.search(questions[n], as_of="now"),
            }  # fmt: skip
            for number, task in enumerate(tasks.values()):
                if not task(number):
                    raise SystemExit("Error: a search of the bench found nothing; its time says nothing")
            took = interleave(tasks, len(questions), passes)
            memory.recalls(limit=1)
            if memory.recalls_lost:
                raise SystemExit(f"Error: {memory.recalls_lost} recalls were lost; their time cannot be compared")
    section = "Life: Memorist.search with more asked of it"
    others = {"filters": "every filter", "facets": "every facet", "record": "recording", "then": "as of a time"}
    return [
        Figure(
            section, size, "every filter, every facet, recording", took["all"], "a plain search", took["plain"],
            target=at_target(size, 1.5),
        ),
        *(Figure(section, size, what, took[task], "a plain search", took["plain"]) for task, what in others.items()),
    ]  # fmt: skip


def writing(corpus: Corpus, texts: int, cache: Path) -> list[Figure]:
    """add_many into a fresh file with default settings, in turns with the bare embedding of what the model gets."""
    embedder = LocalEmbedder()
    wanted, _ = corpus.texts(texts)
    batches = [wanted[start : start + BATCH] for start in range(0, len(wanted), BATCH)]
    given = [
        [*batch, *(part.embedded for text in batch for part in cut_into_parts(EmbeddingJob(0, None, text), embedder))]
        for batch in batches
    ]
    embedder.embed(batches[0])
    with (
        tempfile.TemporaryDirectory(dir=cache) as folder,
        memorist.open(Path(folder, "fresh.db"), embedder=embedder) as memory,
    ):
        tasks: dict[str, Callable[[int], object]] = {
            "embedding": lambda n: embedder.embed(given[n]),
            "wholes": lambda n: embedder.embed(batches[n]),
            "add_many": lambda n: memory.add_many(batches[n]),
        }
        took = interleave(tasks, len(batches))
        if memory.stats().pending or memory.stats().memories != len(wanted):
            raise SystemExit("Error: add_many left texts behind; its time cannot be compared")
    what = f"add_many, {BATCH} at a time"
    base = "embedding the same texts and their parts"
    return [
        Figure("Writing", len(wanted), what, took["add_many"], base, took["embedding"], target=1.15),
        Figure("Writing", len(wanted), what, took["add_many"], "embedding the texts without parts", took["wholes"]),
    ]


def _scan(corpus: Corpus, size: int) -> tuple[Vectors, VectorScan]:
    matrix = np.empty((size, corpus.head_vectors.shape[1]), np.float32)
    codes = np.empty(matrix.shape, np.int8)
    filled = 0
    for vectors in derived(corpus.head_vectors, corpus.tail_vectors, size):
        part = slice(filled, filled + len(vectors))
        matrix[part], codes[part] = vectors, encode(vectors.astype(np.float16))  # as a database keeps them
        filled += len(vectors)
    scan = VectorScan(matrix.shape[1])
    scan.load([(np.arange(1, size + 1), codes)], size)
    return matrix, scan


def _exact(matrix: Vectors, query: Vectors, k: int) -> Keys:
    scores = matrix @ query
    best = np.argpartition(scores, len(scores) - k)[len(scores) - k :]
    ordered: Keys = best[np.argsort(-scores[best])]
    return ordered


def _recall(found: Keys, exact: Keys) -> float:
    return float(np.isin(exact, found[:RECALL_AT]).mean())


def _recall_figure(section: str, size: int, what: str, shares: list[float]) -> Figure:
    mean = float(np.mean(shares))
    return Figure(
        section, size, what, Spread(mean, mean), "exact", Spread(1.0, 1.0), "share",
        target=at_target(size, 0.99), more=True,
    )  # fmt: skip
