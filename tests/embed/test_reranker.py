"""The reranker: its scores, its time limit, and the message where it is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import MODELS
from memorist.embed.local import CrossEncoder
from memorist.embed.onnx_models import OPTIONAL_MODELS
from memorist.errors import EmbedderUnavailable

FOLDER = MODELS / "reranker" / "src" / "memorist_reranker"
QUESTION = "how many people live in Berlin?"
PASSAGES = [
    "New York City is famous for the Metropolitan Museum of Art.",
    "Berlin has a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
    "Berlin is known for its museums and its night life.",
]


def test_what_answers_scores_highest_and_what_is_about_something_else_lowest() -> None:
    other, answer, related = CrossEncoder().score_passages(QUESTION, PASSAGES, 60)

    assert answer is not None
    assert related is not None
    assert other is not None
    assert answer > 0.9
    assert answer > related > other


def test_a_passage_has_the_same_score_alone_and_among_others_on_any_number_of_threads() -> None:
    alone = [CrossEncoder(threads=1).score_passages(QUESTION, [passage], 60)[0] for passage in PASSAGES]

    assert CrossEncoder(threads=2).score_passages(QUESTION, PASSAGES, 60) == alone
    assert CrossEncoder(threads=1).score_passages(QUESTION, PASSAGES, 60) == alone


def test_with_no_time_nothing_is_read() -> None:
    assert CrossEncoder().score_passages(QUESTION, PASSAGES, 0) == [None, None, None]


@pytest.mark.parametrize("passages", [[], ["", "日本語", "🦊" * 2000, "word " * 5000]])
def test_any_passage_can_be_read(passages: list[str]) -> None:
    scores = CrossEncoder().score_passages("what? " * 500, passages, 60)

    assert len(scores) == len(passages)
    assert all(score is not None and 0 <= score <= 1 for score in scores)


def test_the_weights_in_the_repository_are_the_ones_that_are_expected() -> None:
    assert OPTIONAL_MODELS["reranker"].matches(FOLDER)


def test_where_it_is_missing_it_is_said_how_to_get_it(elsewhere: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="not installed; `pip install memorist-reranker` adds it"):
        CrossEncoder(folder=elsewhere).score_passages(QUESTION, PASSAGES, 60)


def test_it_is_found_in_a_folder_of_models(elsewhere: Path) -> None:
    os.symlink(FOLDER, elsewhere / "reranker")

    assert CrossEncoder(folder=elsewhere).score_passages(QUESTION, PASSAGES[:1], 60)[0] is not None


def test_a_damaged_file_is_refused(elsewhere: Path) -> None:
    shutil.copytree(FOLDER, elsewhere / "reranker")
    with (elsewhere / "reranker" / "model.onnx").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"damage")

    with pytest.raises(EmbedderUnavailable, match=r"model\.onnx is damaged"):
        CrossEncoder(folder=elsewhere).score_passages(QUESTION, PASSAGES, 60)


def test_after_it_was_closed_it_loads_again() -> None:
    reranker = CrossEncoder()
    before = reranker.score_passages(QUESTION, PASSAGES, 60)
    reranker.close()

    assert reranker.score_passages(QUESTION, PASSAGES, 60) == before


def test_a_memory_that_never_reranks_never_loads_it() -> None:
    code = (
        "import sys, memorist\n"
        "with memorist.open(':memory:', embedder='none') as memory:\n"
        "    memory.add('a note'); memory.search('note')\n"
        "print('onnxruntime' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
