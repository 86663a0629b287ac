"""The cache of reranker scores: kept next to the dataset, and bypassed where the result would differ."""

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sets import harbours

from conftest import MODELS, HashingEmbedder
from memorist.embed.local import CrossEncoder
from memorist.errors import EmbedderUnavailable
from memorist.evaluate.dataset import Dataset, load_dataset
from memorist.evaluate.evaluation import evaluate_dataset, parse_configs
from memorist.evaluate.html_report import render_page
from memorist.evaluate.indexing import CachedReranker, index_dataset
from memorist.evaluate.report import build_run, format_run

WEIGHTS = MODELS / "reranker" / "src" / "memorist_reranker"
QUESTION, ANOTHER = "how many people live in Berlin?", "what is New York famous for?"
PASSAGES = [
    "New York City is famous for the Metropolitan Museum of Art.",
    "Berlin has a population of 3,520,031 registered inhabitants.",
    "Berlin is known for its museums.",
]
JsonObject = dict[str, Any]


@pytest.fixture(scope="module")
def reranker() -> CrossEncoder:
    encoder = CrossEncoder(threads=2)
    encoder.score_passages(QUESTION, PASSAGES[:1], math.inf)  # loads it, before a test hides the models
    return encoder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pairs.txt"


class OfAnotherName(CrossEncoder):
    model_id = "another"


class TestScores:
    def test_what_was_read_is_kept_for_the_next_run_which_reads_only_what_is_new(
        self, reranker: CrossEncoder, file: Path
    ) -> None:
        CachedReranker(reranker, file).score_passages(QUESTION, PASSAGES[:2], math.inf)
        next_run = CachedReranker(reranker, file)

        assert next_run.score_passages(QUESTION, PASSAGES, math.inf) == reranker.score_passages(
            QUESTION, PASSAGES, math.inf
        )
        assert next_run.cache_hits == 2

    def test_where_all_is_kept_no_model_is_needed(self, reranker: CrossEncoder, file: Path, elsewhere: Path) -> None:
        read = CachedReranker(reranker, file).score_passages(QUESTION, PASSAGES, math.inf)
        without = CachedReranker(CrossEncoder(folder=elsewhere), file)

        assert without.score_passages(QUESTION, PASSAGES[::-1], math.inf) == read[::-1]
        with pytest.raises(EmbedderUnavailable):
            without.score_passages(ANOTHER, PASSAGES, math.inf)

    def test_another_model_has_scores_of_its_own(self, reranker: CrossEncoder, file: Path, elsewhere: Path) -> None:
        CachedReranker(reranker, file).score_passages(QUESTION, PASSAGES, math.inf)

        with pytest.raises(EmbedderUnavailable):
            CachedReranker(OfAnotherName(folder=elsewhere), file).score_passages(QUESTION, PASSAGES, math.inf)

    def test_where_time_is_watched_nothing_is_kept_or_used(self, reranker: CrossEncoder, file: Path) -> None:
        cached = CachedReranker(reranker, file)
        cached.score_passages(QUESTION, PASSAGES, 60)
        assert not file.exists()
        cached.score_passages(QUESTION, PASSAGES, math.inf)

        assert CachedReranker(reranker, file).score_passages(QUESTION, PASSAGES, 0) == [None, None, None]

    def test_a_question_that_asks_again_at_once_is_read_again_and_only_later_not(
        self, reranker: CrossEncoder, file: Path
    ) -> None:
        cached = CachedReranker(reranker, file)
        used = []
        for question in (QUESTION, QUESTION, ANOTHER, QUESTION):
            cached.score_passages(question, PASSAGES, math.inf)
            used.append(cached.cache_hits)

        assert used == [0, 0, 0, 3]

    @pytest.mark.parametrize(
        ("damage", "left"),
        [
            (lambda whole: b"", 0),
            (lambda whole: b"\x00\xff" * 1000, 0),
            (lambda whole: whole[:-1], 1),  # as a crash leaves it
            (lambda whole: whole.replace(b" {", b" {0", 1), 2),
        ],
    )
    def test_what_is_damaged_is_read_again(
        self, damage: Any, left: int, reranker: CrossEncoder, file: Path, elsewhere: Path
    ) -> None:
        first = CachedReranker(reranker, file)
        read = [
            *first.score_passages(QUESTION, PASSAGES[:1], math.inf),
            *first.score_passages(QUESTION, PASSAGES[1:], math.inf),
        ]
        whole = file.read_bytes()
        file.write_bytes(damage(whole))
        cached = CachedReranker(reranker, file)

        assert cached.score_passages(QUESTION, PASSAGES, math.inf) == read
        assert cached.cache_hits == left
        assert CachedReranker(CrossEncoder(folder=elsewhere), file).score_passages(QUESTION, PASSAGES, math.inf) == read


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return load_dataset(harbours(tmp_path / "harbours"))


@pytest.fixture
def shelf(elsewhere: Path) -> Path:
    """The only folder with a reranker."""
    (elsewhere / "reranker").symlink_to(WEIGHTS)
    return elsewhere


def measure(dataset: Dataset, shelf: Path, *specs: str, rebuild: bool = False) -> JsonObject:
    """Return a run as a new process would make it."""
    reranker = CrossEncoder(folder=shelf, threads=2)
    indexed = index_dataset(dataset, HashingEmbedder(), shelf.parent, reranker=reranker, rebuild=rebuild)
    with closing(indexed.memory) as memory:
        result = evaluate_dataset(dataset, parse_configs(["hybrid"], specs, {}), memory, indexed)
    return build_run([result], version="0", embedder="hashing-64", seed=0)


def chosen(run: JsonObject) -> Sequence[JsonObject]:
    (set_json,) = run["sets"]
    return [system for system in set_json["ways"] if system["name"] in set_json["chosen"]]


class TestRuns:
    def test_a_second_run_has_the_same_measures_without_reading(self, dataset: Dataset, shelf: Path) -> None:
        (first,) = chosen(measure(dataset, shelf, "precise:rerank=3"))
        (shelf / "reranker").unlink()
        (second,) = chosen(measure(dataset, shelf, "precise:rerank=3"))

        assert first["degraded"] == second["degraded"] == []
        assert first["measures"] == second["measures"]
        assert [one["found"] for one in first["answers"]] == [one["found"] for one in second["answers"]]

    def test_another_weight_or_fewer_need_no_reading_and_more_do(self, dataset: Dataset, shelf: Path) -> None:
        measure(dataset, shelf, "precise:rerank=2")
        (shelf / "reranker").unlink()
        lighter, fewer, more = chosen(
            measure(dataset, shelf, "precise:rerank=2,rerank_weight=.5", "precise:rerank=1", "precise:rerank=3")
        )

        assert lighter["degraded"] == fewer["degraded"] == []
        assert "memorist-reranker is not installed" in more["degraded"][0]

    def test_only_what_was_wholly_read_has_a_latency(self, dataset: Dataset, shelf: Path) -> None:
        (first,) = chosen(measure(dataset, shelf, "precise:rerank=3"))
        run = measure(dataset, shelf, "precise:rerank=3", "precise")
        kept, watching_time = chosen(run)

        assert first["latency_ms"]["p95"] >= first["latency_ms"]["p50"] > 0
        assert kept["latency_ms"] == {"p50": None, "p95": None}
        assert [one["ms"] for one in kept["answers"]] == [None] * 4
        assert watching_time["latency_ms"]["p50"] > 0
        line, *_, note = (one for one in format_run(run) if "precise:rerank=3" in one)
        assert line.split()[-2:] == ["–", "–"]
        assert note.endswith("not timed, because some reranker scores were cached; `--rebuild` computes them again")
        assert render_page(run).count("not timed") == 1

    def test_made_anew_all_is_read_again(self, dataset: Dataset, shelf: Path) -> None:
        measure(dataset, shelf, "precise:rerank=3")
        (again,) = chosen(measure(dataset, shelf, "precise:rerank=3", rebuild=True))

        assert again["latency_ms"]["p50"] > 0
