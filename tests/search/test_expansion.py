"""The question with its best answers added."""

import numpy as np
import pytest
from numpy.typing import NDArray

from candidates import make_candidate
from memorist.profiles import PROFILES
from memorist.search.fusion import Candidate, Ranked, rank_candidates
from memorist.search.rerank import pseudo_relevance_feedback

NOW = 1_800_000_000.0
QUESTION = np.array([1, 0, 0, 0], np.float32)
LONG, SHORT = 2_000, 100


def half(*numbers: float) -> NDArray[np.float16]:
    vector = np.array(numbers, np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float16)


VECTORS = {1: half(3, 3, 0, 0), 2: half(3, 4, 0, 0), 3: half(3, 0, 4, 0)}  # 2 and 3 are equally near; 2 is like 1


def found(length: int, vectors: dict[int, NDArray[np.float16]] = VECTORS) -> list[Candidate]:
    near = {1: 0.71, 2: 0.6, 3: 0.6}
    return [
        make_candidate(
            key, similarity=similarity, vector=vectors.get(key), vector_rank=place, length=length, created_at=NOW + key
        )
        for place, (key, similarity) in enumerate(near.items(), 1)
    ]


def asked_again(length: int, weight: float = 0.5) -> list[Candidate]:
    ranked = rank_candidates(found(length), PROFILES["balanced"], NOW)
    return pseudo_relevance_feedback(ranked, QUESTION, weight)


def test_what_is_like_the_best_answer_comes_before_what_is_only_as_near_to_the_question() -> None:
    assert [entry.candidate.key for entry in rank_candidates(found(LONG), PROFILES["balanced"], NOW)] == [1, 3, 2]

    again = rank_candidates(asked_again(LONG), PROFILES["balanced"], NOW)

    assert [entry.candidate.key for entry in again] == [1, 2, 3]
    assert all(sum(entry.trace.values()) == pytest.approx(entry.score) for entry in again)
    assert [entry.candidate.row.similarity for entry in again] == [0.71, 0.6, 0.6]  # what is shown stays true


def test_among_turns_and_notes_nothing_is_added() -> None:
    assert [candidate.feedback_gain for candidate in asked_again(SHORT)] == [0.0, 0.0, 0.0]


def test_half_way_between_a_note_and_a_page_half_as_much_is_added() -> None:
    whole, half_of_it = asked_again(LONG, 0.25), asked_again(500, 0.5)

    assert [each.feedback_gain for each in half_of_it] == pytest.approx([each.feedback_gain for each in whole])


def test_without_a_weight_or_a_vector_nothing_changes() -> None:
    ranked = rank_candidates(found(LONG), PROFILES["balanced"], NOW)
    before = [entry.candidate for entry in ranked]

    assert pseudo_relevance_feedback(ranked, QUESTION, 0.0) == before
    plain = rank_candidates(found(LONG, {}), PROFILES["balanced"], NOW)
    assert pseudo_relevance_feedback(plain, QUESTION, 0.5) == [entry.candidate for entry in plain]
    assert pseudo_relevance_feedback([], QUESTION, 0.5) == []


def test_answers_that_are_worth_nothing_are_not_added() -> None:
    worthless = [Ranked(candidate, 0.0, {}, {}) for candidate in found(LONG)]

    assert [candidate.feedback_gain for candidate in pseudo_relevance_feedback(worthless, QUESTION, 0.5)] == [
        0.0,
        0.0,
        0.0,
    ]
