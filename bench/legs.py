"""Measurements within one process: the vector scan, searches, and writing."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import memorist
from corpus import PROJECT_COUNT, Corpus, Vectors, derive_vector_batches, make_filters
from measurements import Comparison, Percentiles, time_in_turns
from memorist.embed.local import LocalEmbedder
from memorist.ingest.vectorizer import BATCH, cut_into_parts
from memorist.records import FACETS
from memorist.store.records import EmbeddingJob
from memorist.store.vector_scan import VectorScan, encode

CANDIDATES = 50  # that a search for ten hits asks of a leg
RECALL_RANK = 20
FILTERED_SHARE = 0.01
TARGET_SIZE = 100_000  # of the databases that targets are set for

Keys = NDArray[np.int64]


class UncachedEmbedder(LocalEmbedder):
    """The bundled model without its cache of questions, so that a question can be timed again."""

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed([text])[0]
        return vector


def _target(size: int, target: float) -> float | None:
    """Return the target if it applies to this size."""
    return target if size == TARGET_SIZE else None


def measure_vector_leg(corpus: Corpus, size: int, queries: int, passes: int) -> list[Comparison]:
    """Compare the scan with an exact search in numpy (float32, all cores): time and recall."""
    matrix, scan = _build_scan(corpus, size)
    questions = corpus.question_vectors[:queries]
    generator = np.random.default_rng(size)
    rows = np.sort(generator.choice(size, max(CANDIDATES, round(size * FILTERED_SHARE)), replace=False))
    keys = rows + 1
    tasks: dict[str, Callable[[int], object]] = {
        "numpy": lambda n: _search_exact(matrix, questions[n], CANDIDATES),
        "scan": lambda n: scan.find_nearest(questions[n], CANDIDATES),
        "filtered": lambda n: scan.find_nearest(questions[n], CANDIDATES, keys),
        "numpy filtered": lambda n: _search_exact(matrix[rows], questions[n], CANDIDATES),
    }
    for task in tasks.values():
        task(0)
    times = time_in_turns(tasks, len(questions), passes)
    section, baseline = "Vector leg: VectorScan.find_nearest, k=50", "float32 matrix @ query"
    recalls = [
        _recall(scan.find_nearest(vector, CANDIDATES)[0], _search_exact(matrix, vector, RECALL_RANK) + 1)
        for vector in questions
    ]
    filtered_recalls = [
        _recall(scan.find_nearest(vector, CANDIDATES, keys)[0], keys[_search_exact(matrix[rows], vector, RECALL_RANK)])
        for vector in questions
    ]
    filtered = "filtered to 1 %"
    return [
        Comparison(section, size, "scan", times["scan"], baseline, times["numpy"], target=_target(size, 0.35)),
        _compare_recall(section, size, "recall@20", recalls),
        Comparison(section, size, filtered, times["filtered"], baseline, times["numpy"], target=_target(size, 0.2)),
        Comparison(section, size, filtered, times["filtered"], "matrix[rows] @ query", times["numpy filtered"]),
        _compare_recall(section, size, "recall@20, filtered", filtered_recalls),
    ]


def measure_searches(corpus: Corpus, database: Path, size: int, queries: int, passes: int) -> list[Comparison]:
    """Compare whole searches for LoCoMo's questions with embedding the same questions."""
    bare, embedder = LocalEmbedder(), UncachedEmbedder()
    questions, warm_up = corpus.questions[:queries], corpus.questions[queries:][:20]
    with memorist.open(database, embedder=embedder) as memory:
        tasks: dict[str, Callable[[int], object]] = {
            "embedding": lambda n: bare.embed([questions[n]]),
            "keyword": lambda n: memory.search(questions[n], mode="keyword"),
            "hybrid": lambda n: memory.search(questions[n]),
            "semantic": lambda n: memory.search(questions[n], mode="semantic"),
            "filtered": lambda n: memory.search(questions[n], project=f"p{n % 100}"),
        }
        for question in warm_up:
            bare.embed([question])
            results = memory.search(question)
            if results.degraded or not results:
                raise SystemExit(f"Error: {database} cannot be measured: {results.degraded or 'nothing found'}")
        times = time_in_turns(tasks, len(questions), passes)
    section, baseline = "Search: Memorist.search, ten hits, LoCoMo's questions", "embedding the question"
    hybrid = Comparison(
        section, size, "hybrid", times["hybrid"], baseline, times["embedding"],
        target=_target(size, 4), target_p95=_target(size, 6),
    )  # fmt: skip
    others = {"keyword": "keyword", "semantic": "semantic", "filtered": "hybrid, filtered to 1 %"}
    return [
        hybrid,
        *(
            Comparison(section, size, label, times[task], baseline, times["embedding"])
            for task, label in others.items()
        ),
    ]


def measure_search_options(
    corpus: Corpus, database: Path, size: int, queries: int, passes: int, cache: Path
) -> list[Comparison]:
    """Compare searches with filters, facets and recording with a plain search."""
    questions, embedder = corpus.questions[:queries], UncachedEmbedder()
    filters = [make_filters(4 * number) for number in range(PROJECT_COUNT // 4)]  # projects whose memories have facts
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        copy = shutil.copy(database, Path(folder, "copy.db"))  # recording writes
        with memorist.open(copy, embedder=embedder) as memory:
            tasks: dict[str, Callable[[int], object]] = {
                "plain": lambda n: memory.search(questions[n]),
                "all": lambda n: memory.search(
                    questions[n], **filters[n % len(filters)], facets=FACETS, record="reinforce",
                    record_session=f"s{n % PROJECT_COUNT}",
                ),
                "filters": lambda n: memory.search(questions[n], **filters[n % len(filters)]),
                "facets": lambda n: memory.search(questions[n], facets=FACETS),
                "record": lambda n: memory.search(questions[n], record="reinforce"),
                "as_of": lambda n: memory.search(questions[n], as_of="now"),
            }  # fmt: skip
            for task in tasks.values():
                if not any(task(number) for number in range(min(20, queries))):  # one of few memories may find none
                    raise SystemExit("Error: a search of the bench found nothing, so its time is meaningless")
            times = time_in_turns(tasks, len(questions), passes)
            memory.searches.list(limit=1)
            if lost := memory.stats().recalls_lost:
                raise SystemExit(f"Error: {lost} recalls were lost; their time cannot be compared")
    section, plain = "Search options: Memorist.search with filters, facets, recording", "a plain search"
    others = {"filters": "every filter", "facets": "every facet", "record": "recording", "as_of": "as of a time"}
    return [
        Comparison(
            section, size, "every filter, every facet, recording", times["all"], plain, times["plain"],
            target=_target(size, 1.5),
        ),
        *(Comparison(section, size, label, times[task], plain, times["plain"]) for task, label in others.items()),
    ]  # fmt: skip


def measure_writing(corpus: Corpus, count: int, cache: Path) -> list[Comparison]:
    """Compare add_many into a new file, with default settings, with embedding the same texts and their parts."""
    embedder = LocalEmbedder()
    texts, _ = corpus.make_texts(count)
    batches = [texts[start : start + BATCH] for start in range(0, count, BATCH)]

    def part_texts(text: str) -> list[str]:
        return [part.embedding_text for part in cut_into_parts(EmbeddingJob(0, None, text), embedder)]

    batches_with_parts = [[*batch, *(part for text in batch for part in part_texts(text))] for batch in batches]
    embedder.embed(batches[0])
    with (
        tempfile.TemporaryDirectory(dir=cache) as folder,
        memorist.open(Path(folder, "new.db"), embedder=embedder) as memory,
    ):
        tasks: dict[str, Callable[[int], object]] = {
            "texts and parts": lambda n: embedder.embed(batches_with_parts[n]),
            "texts": lambda n: embedder.embed(batches[n]),
            "add_many": lambda n: memory.add_many(batches[n]),
        }
        times = time_in_turns(tasks, len(batches))
        if memory.stats().pending or memory.stats().memories != count:
            raise SystemExit("Error: add_many did not embed every text, so its time cannot be compared")
    name, added = f"add_many, {BATCH} at a time", times["add_many"]
    with_parts, without_parts = "embedding the same texts and their parts", "embedding the texts without parts"
    return [
        Comparison("Writing", count, name, added, with_parts, times["texts and parts"], target=1.15),
        Comparison("Writing", count, name, added, without_parts, times["texts"]),
    ]


def _build_scan(corpus: Corpus, size: int) -> tuple[Vectors, VectorScan]:
    matrix = np.empty((size, corpus.head_vectors.shape[1]), np.float32)
    codes = np.empty(matrix.shape, np.int8)
    filled = 0
    for vectors in derive_vector_batches(corpus.head_vectors, corpus.tail_vectors, size):
        rows = slice(filled, filled + len(vectors))
        matrix[rows], codes[rows] = vectors, encode(vectors.astype(np.float16))  # as a database stores them
        filled += len(vectors)
    scan = VectorScan(matrix.shape[1])
    scan.load([(np.arange(1, size + 1), codes)], size)
    return matrix, scan


def _search_exact(matrix: Vectors, query: Vectors, k: int) -> Keys:
    scores = matrix @ query
    best = np.argpartition(scores, len(scores) - k)[len(scores) - k :]
    ordered: Keys = best[np.argsort(-scores[best])]
    return ordered


def _recall(found: Keys, exact: Keys) -> float:
    return float(np.isin(exact, found[:RECALL_RANK]).mean())


def _compare_recall(section: str, size: int, name: str, recalls: list[float]) -> Comparison:
    mean = float(np.mean(recalls))
    return Comparison(
        section, size, name, Percentiles(mean, mean), "exact", Percentiles(1.0, 1.0), "share",
        target=_target(size, 0.99), higher_is_better=True,
    )  # fmt: skip
