"""The question with its best answers added."""

import numpy as np
import pytest
from numpy.typing import NDArray

from candidates import Found, Ranked, keys, list_ranked, to_candidates, to_ranking
from memorist.profiles import PROFILES
from memorist.search.candidates import Ranking
from memorist.search.fusion import rank_candidates
from memorist.search.rerank import pseudo_relevance_feedback

NOW = 1_800_000_000.0
QUESTION = np.array([1, 0, 0, 0], np.float32)
LONG, SHORT = 2_000, 100


def half(*numbers: float) -> NDArray[np.float16]:
    vector = np.array(numbers, np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float16)


VECTORS = {1: half(3, 3, 0, 0), 2: half(3, 4, 0, 0), 3: half(3, 0, 4, 0)}  # 2 and 3 are equally near; 2 is like 1


def found(length: int, vectors: dict[int, NDArray[np.float16]] = VECTORS) -> list[Found]:
    near = {1: 0.71, 2: 0.6, 3: 0.6}
    return [
        Found(
            key, similarity=similarity, vector=vectors.get(key), vector_rank=place, length=length, created_at=NOW + key
        )
        for place, (key, similarity) in enumerate(near.items(), 1)
    ]


def rank(candidates: list[Found], gains: NDArray[np.float64] | None = None) -> Ranking:
    return rank_candidates(to_candidates(candidates), PROFILES["balanced"], NOW, gains=gains)


def gains(length: int, weight: float = 0.5) -> NDArray[np.float64] | None:
    return pseudo_relevance_feedback(rank(found(length)), QUESTION, weight)


def test_what_is_like_the_best_answer_comes_before_what_is_only_as_near_to_the_question() -> None:
    assert rank(found(LONG)).keys == [1, 3, 2]

    again = list_ranked(rank(found(LONG), gains(LONG)), found(LONG))

    assert keys(again) == [1, 2, 3]
    assert all(sum(entry.trace.values()) == pytest.approx(entry.score) for entry in again)
    assert [entry.raw["cosine"] for entry in again] == [0.71, 0.6, 0.6]  # what is shown stays true


def test_among_turns_and_notes_nothing_is_added() -> None:
    assert gains(SHORT) is None


def test_half_way_between_a_note_and_a_page_half_as_much_is_added() -> None:
    assert gains(500, 0.5) == pytest.approx(gains(LONG, 0.25))


def test_without_a_weight_or_a_vector_nothing_changes() -> None:
    assert gains(LONG, 0.0) is None
    assert pseudo_relevance_feedback(rank(found(LONG, {})), QUESTION, 0.5) is None
    assert pseudo_relevance_feedback(rank([]), QUESTION, 0.5) is None


def test_answers_that_are_worth_nothing_are_not_added() -> None:
    worthless = to_ranking([Ranked(candidate, 0.0) for candidate in found(LONG)])

    assert pseudo_relevance_feedback(worthless, QUESTION, 0.5) is None
