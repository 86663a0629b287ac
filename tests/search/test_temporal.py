"""When a question names a time, what is from that time comes first among what answers alike."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates import Found, Ranked, apply, keys
from memorist.search.rerank import boost_by_time, period_weights
from memorist.text.dates import Period

MAY = Period(datetime(2023, 5, 1, tzinfo=UTC), datetime(2023, 6, 1, tzinfo=UTC))
SUNDAY = Period(datetime(2023, 5, 7, tzinfo=UTC), datetime(2023, 5, 8, tzinfo=UTC))


def at(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


def entry(key: int, score: float, moment: str) -> Ranked:
    return Ranked(Found(key, created_at=at(moment)), score, {"keyword": score})


def test_of_two_that_answer_alike_the_one_from_that_time_comes_first() -> None:
    ranked = [entry(1, 0.5, "2023-03-10"), entry(2, 0.45, "2023-05-10")]

    assert keys(apply(boost_by_time, ranked, [MAY], 0.7)) == [2, 1]


def test_what_answers_clearly_better_stays_first() -> None:
    ranked = [entry(1, 0.9, "2023-03-10"), entry(2, 0.5, "2023-05-10")]

    assert keys(apply(boost_by_time, ranked, [MAY], 0.7)) == [1, 2]


def test_what_was_told_the_day_after_is_preferred_too_and_a_month_after_hardly() -> None:
    ranked = [entry(1, 0.5, "2023-06-07"), entry(2, 0.49, "2023-05-08 20:00"), entry(3, 0.48, "2023-05-07 12:00")]

    assert keys(apply(boost_by_time, ranked, [SUNDAY], 0.7)) == [3, 2, 1]


def test_one_of_several_times_is_enough() -> None:
    ranked = [entry(1, 0.5, "2023-03-10"), entry(2, 0.45, "2023-05-10")]

    assert apply(
        boost_by_time, ranked, [Period(*(datetime(2020, month, 1, tzinfo=UTC) for month in (1, 2))), MAY], 0.7
    ) == apply(boost_by_time, ranked, [MAY], 0.7)


def test_the_trace_tells_what_it_added_and_what_is_from_another_time_is_as_it_was() -> None:
    other = entry(1, 0.9, "2013-03-10")

    first, second = apply(boost_by_time, [other, entry(2, 0.5, "2023-05-10")], [MAY], 0.7)

    assert first == other
    assert second.trace == {"keyword": 0.5, "time": pytest.approx(0.7 * 0.25)}


def test_without_a_weight_or_a_time_nothing_moves() -> None:
    ranked = [entry(1, 0.5, "2023-03-10"), entry(2, 0.45, "2023-05-10")]

    assert apply(boost_by_time, ranked, [MAY], 0.0) == apply(boost_by_time, ranked, [], 0.7) == ranked


def test_the_longer_the_time_the_further_its_edges_reach() -> None:
    year = Period(datetime(2023, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC))
    days = np.array([timedelta(days=days).total_seconds() for days in (1, 10)])
    of_a_day, of_a_month, of_a_year = (
        [*period_weights(time.end.timestamp() + days, time)] for time in (SUNDAY, MAY, year)
    )

    assert of_a_day[0] < of_a_month[0] < of_a_year[0] < 1
    assert of_a_day[1] < of_a_month[1] < of_a_year[1] < 1


scores = st.lists(st.floats(0, 1), max_size=10).map(lambda values: sorted(values, reverse=True))
moments = st.lists(st.floats(at("2023-04-01"), at("2023-07-01")), min_size=10, max_size=10)


@given(scores, moments, st.floats(0, 1))
def test_no_score_falls_or_leaves_its_scale_and_of_one_time_nothing_changes_places(
    values: list[float], when: list[float], weight: float
) -> None:
    ranked = [
        Ranked(Found(key, created_at=moment), score, {"keyword": score})
        for key, (score, moment) in enumerate(zip(values, when, strict=False))
    ]

    after = apply(boost_by_time, ranked, [MAY], weight)

    before = {each.key: each.score for each in ranked}
    assert sorted(keys(after)) == sorted(before)
    assert all(before[each.key] <= each.score <= 1 for each in after)
    assert all(sum(each.trace.values()) == pytest.approx(each.score) for each in after)
    then = [each.key for each in after if MAY.start.timestamp() <= each.candidate.created_at <= MAY.end.timestamp()]
    assert [before[key] for key in then] == sorted((before[key] for key in then), reverse=True)
