"""Memories of one session lend each other score."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates import Found, Ranked, apply, keys
from memorist.search.rerank import smooth_scores
from memorist.store.ranking_columns import NO_POSITION


def entry(key: int, score: float, session: str | None = "talk", position: int | None = None) -> Ranked:
    """A turn whose position is its key, if nothing else is said: nobody wrote in between."""
    place = position if position is not None else NO_POSITION if session is None else key
    return Ranked(Found(key, session=session, position=place), score, {"keyword": score})


def test_a_turn_beside_a_good_one_comes_before_a_lonely_one() -> None:
    ranked = [entry(5, 0.9), entry(50, 0.4), entry(6, 0.3)]

    assert keys(apply(smooth_scores, ranked, 0.4)) == [5, 6, 50]


def test_a_neighbour_one_further_lends_half_as_much() -> None:
    ranked = [entry(5, 0.9), entry(50, 0.4), entry(6, 0.3), entry(7, 0.3)]

    assert keys(apply(smooth_scores, ranked, 0.4)) == [5, 6, 7, 50]


def test_the_next_row_of_another_session_is_no_neighbour() -> None:
    ranked = [entry(5, 0.9, "one"), entry(50, 0.4, "two"), entry(6, 0.3, "two")]

    assert keys(apply(smooth_scores, ranked, 0.4)) == [5, 50, 6]


def test_neighbours_are_known_by_their_positions_and_not_by_their_keys() -> None:
    ranked = [entry(5, 0.9, "one", 1), entry(50, 0.4, "one", 9), entry(7, 0.3, "one", 2), entry(6, 0.2, "two", 1)]

    assert keys(apply(smooth_scores, ranked, 0.4)) == [5, 7, 50, 6]


def test_a_turn_without_a_position_has_no_neighbours() -> None:
    alone = Ranked(Found(6, session="talk"), 0.3, {"keyword": 0.3})

    assert keys(apply(smooth_scores, [entry(5, 0.9), entry(50, 0.4), alone], 0.4)) == [5, 50, 6]


def test_what_comes_from_no_session_keeps_its_place_and_its_score() -> None:
    note, other = entry(70, 0.8, None), entry(71, 0.35, None)
    ranked = [entry(5, 0.9), note, entry(50, 0.4), other, entry(6, 0.3)]

    after = apply(smooth_scores, ranked, 0.4)

    assert keys(after) == [5, 70, 6, 71, 50]
    assert after[1] == note
    assert after[3] == other


def test_a_long_text_speaks_for_itself() -> None:
    long = Ranked(Found(6, session="talk", position=6, length=10_000), 0.3, {"keyword": 0.3})

    assert keys(apply(smooth_scores, [entry(5, 0.9), entry(50, 0.4), long], 0.4)) == [5, 50, 6]


def test_without_a_share_nothing_moves() -> None:
    ranked = [entry(5, 0.9), entry(50, 0.4), entry(6, 0.3)]

    assert apply(smooth_scores, ranked, 0.0) == ranked


scores = st.lists(st.floats(0, 1), max_size=10).map(lambda values: sorted(values, reverse=True))


@given(scores, st.permutations(range(10)), st.lists(st.sampled_from(["a", "b", None]), min_size=10, max_size=10))
def test_scores_stay_in_order_and_traces_add_up(
    values: list[float], places: list[int], sessions: list[str | None]
) -> None:
    ranked = [entry(key, score, sessions[key]) for key, score in zip(places, values, strict=False)]

    after = apply(smooth_scores, ranked, 0.4)

    assert [each.score for each in after] == values
    assert sorted(keys(after)) == sorted(keys(ranked))
    assert all(sum(each.trace.values()) == pytest.approx(each.score) for each in after)


def test_the_trace_adds_up_to_the_score_however_often_score_is_lent() -> None:
    ranked = [entry(5, 0.9), entry(50, 0.4), entry(6, 0.3), entry(7, 0.2)]

    twice = apply(smooth_scores, apply(smooth_scores, ranked, 0.4), 0.8)

    assert keys(twice) != keys(ranked)
    assert [sum(each.trace.values()) for each in twice] == pytest.approx([each.score for each in twice])
