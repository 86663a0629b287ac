"""bge-small: how it differs from the bundled model, and the message where it is missing."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import memorist
from conftest import MODELS
from memorist.embed.local import BgeSmall
from memorist.embed.onnx_models import OPTIONAL_MODELS
from memorist.errors import EmbedderUnavailable
from memorist.profiles import BGE_SMALL, LATIN_ONLY, NOISE_FLOOR, UNRELATED_SIMILARITY
from memorist.search.signals import RELEVANCE_MODELS

FOLDER = MODELS / "bge-small" / "src" / "memorist_bge_small"
NOTES = [
    "We ship every Friday with `make release`.",
    "Backups are kept for thirty days in the cold storage.",
    "The cat is called Mitzi and likes tuna.",
]


def test_the_weights_in_the_repository_are_the_ones_that_are_expected() -> None:
    assert OPTIONAL_MODELS["bge-small"].matches(FOLDER)


def test_a_question_is_asked_with_the_words_it_was_trained_with(bge: BgeSmall) -> None:
    asked = bge.embed_query("How many people live in Berlin?")

    meant = bge.embed(["Represent this sentence for searching relevant passages: How many people live in Berlin?"])[0]
    assert np.array_equal(asked, meant)
    assert not np.array_equal(asked, bge.embed(["How many people live in Berlin?"])[0])


def test_what_answers_is_nearer_than_what_is_about_something_else(bge: BgeSmall) -> None:
    answer, other = bge.embed(["Berlin has 3.5 million inhabitants.", "New York is famous for its museums."])

    asked = bge.embed_query("how many people live in Berlin?")

    assert asked @ answer > 0.75
    assert asked @ other < 0.6


def test_where_it_is_missing_words_find_and_degraded_tells_how_to_install_it(elsewhere: Path, path: Path) -> None:
    with memorist.open(path, embedder="local:bge-small", models=elsewhere) as memory:
        memory.add_many(NOTES)
        found = memory.search("backups")

        assert found[0].memory.content == NOTES[1]
        assert "memorist-bge-small is not installed; `pip install memorist-bge-small` adds it" in str(found.degraded)
        with pytest.raises(EmbedderUnavailable, match="pip install memorist-bge-small"):
            memory.search("backups", mode="semantic")


def test_once_it_is_there_the_missing_vectors_are_made(elsewhere: Path, path: Path) -> None:
    with memorist.open(path, embedder="local:bge-small", models=elsewhere) as memory:
        memory.add_many(NOTES)
    os.symlink(FOLDER, elsewhere / "bge-small")

    with memorist.open(path, embedder="local:bge-small", models=elsewhere) as memory:
        assert memory.reembed() == len(NOTES)
        assert memory.search("when do we deploy?")[0].memory.content == NOTES[0]


def test_a_memory_changes_to_it_and_looks_in_its_own_folder_of_models(elsewhere: Path, path: Path) -> None:
    os.symlink(FOLDER, elsewhere / "bge-small")
    with memorist.open(path, embedder="none", models=elsewhere) as memory:
        memory.add_many(NOTES)

        assert memory.reembed("local:bge-small") == len(NOTES)
        assert memory.stats().model == BGE_SMALL


def test_a_damaged_file_is_refused(elsewhere: Path) -> None:
    shutil.copytree(FOLDER, elsewhere / "bge-small")
    with (elsewhere / "bge-small" / "model.onnx").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"damage")

    with pytest.raises(
        EmbedderUnavailable, match=r"memorist-bge-small's file model\.onnx is damaged.*install it again"
    ):
        BgeSmall(folder=elsewhere).load()


def test_what_ranking_knows_of_a_model_is_kept_under_its_name(bge: BgeSmall) -> None:
    assert bge.model_id == BGE_SMALL
    assert all(BGE_SMALL in known for known in (NOISE_FLOOR, UNRELATED_SIMILARITY, LATIN_ONLY, RELEVANCE_MODELS))
    assert UNRELATED_SIMILARITY[BGE_SMALL] <= NOISE_FLOOR[BGE_SMALL]  # what counts as found by meaning keeps its order


def test_what_has_nothing_to_do_with_the_question_is_not_relevant(bge: BgeSmall, path: Path) -> None:
    with memorist.open(path, embedder=bge) as memory:
        memory.add_many(NOTES)

        known = memory.search("how long do we keep backups?", mode="semantic", limit=1)[0]
        unknown = memory.search("who won the chess olympiad?", mode="semantic", limit=1, noise_floor=False)[0]

        assert known.relevance > 0.5
        assert known.similarity == pytest.approx(known.score)
        assert unknown.relevance < 0.1
