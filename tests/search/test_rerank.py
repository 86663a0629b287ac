"""A second opinion, blended with the first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates import Found, Ranked, apply, keys
from memorist.search.rerank import RerankScore, blend_scores


def ranked(*scores: float) -> list[Ranked]:
    return [Ranked(Found(key), score, {"keyword": score}) for key, score in enumerate(scores, 1)]


def read(**scores: float) -> dict[int, RerankScore]:
    """Opinions of whole memories."""
    return {int(key[1:]): RerankScore(score, 1.0) for key, score in scores.items()}


def test_what_answers_better_moves_up() -> None:
    assert keys(apply(blend_scores, ranked(0.6, 0.5, 0.4), read(_1=0.1, _2=0.6, _3=0.9), 0.8)) == [3, 2, 1]


def test_without_weight_the_order_stays() -> None:
    assert keys(apply(blend_scores, ranked(0.6, 0.5, 0.4), read(_1=0.1, _2=0.2, _3=0.9), 0.0)) == [1, 2, 3]


def test_what_was_not_read_stays_behind_what_was() -> None:
    assert keys(apply(blend_scores, ranked(0.9, 0.8, 0.7, 0.6), read(_1=0.0, _2=0.3), 0.8)) == [2, 1, 3, 4]


def test_where_nothing_was_read_nothing_changes_its_place() -> None:
    assert keys(apply(blend_scores, ranked(0.9, 0.8), {}, 0.8)) == [1, 2]


def test_a_passage_of_a_long_text_counts_for_less_than_a_whole_memory() -> None:
    before = ranked(0.9, 0.5)

    assert keys(apply(blend_scores, before, {1: RerankScore(0.1, 1.0), 2: RerankScore(0.9, 1.0)}, 0.8)) == [2, 1]
    assert keys(apply(blend_scores, before, {1: RerankScore(0.1, 0.2), 2: RerankScore(0.9, 0.2)}, 0.8)) == [1, 2]


def test_of_nothing_comes_nothing() -> None:
    assert apply(blend_scores, [], {}, 0.8) == []


scores = st.lists(st.floats(0, 1), max_size=12).map(lambda values: sorted(values, reverse=True))


opinions = st.dictionaries(st.integers(1, 12), st.builds(RerankScore, st.floats(0, 1), st.floats(0.01, 1)))


@given(scores, opinions, st.floats(0, 1))
def test_every_entry_stays_its_score_orders_and_its_trace_adds_up(
    first: list[float], told: dict[int, RerankScore], weight: float
) -> None:
    before = ranked(*first)

    after = apply(blend_scores, before, told, weight)

    assert sorted(keys(after)) == sorted(keys(before))
    assert all(0 <= entry.score <= 1 + 1e-9 for entry in after)
    assert [entry.score for entry in after] == sorted((entry.score for entry in after), reverse=True)
    assert all(sum(entry.trace.values()) == pytest.approx(entry.score) for entry in after)
