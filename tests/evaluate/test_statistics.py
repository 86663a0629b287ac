"""Bootstrap intervals and paired differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.evaluate.metrics import estimate_difference, estimate_means

samples = st.lists(st.floats(0, 1), min_size=2, max_size=40)


def normal(count: int, seed: int) -> list[float]:
    return list(np.random.default_rng(seed).normal(0.5, 0.2, count))


class TestEstimates:
    def test_the_interval_is_that_of_the_mean(self) -> None:
        (found,) = estimate_means([[value] for value in normal(400, 1)], seed=0)

        # The standard error of a mean is .2 / sqrt(400), and 1.96 of them are 95 %.
        assert (found.high - found.low) / 2 == pytest.approx(1.96 * 0.2 / 20, rel=0.15)
        assert found.low < found.mean < found.high

    def test_it_holds_the_truth_in_about_nineteen_cases_of_twenty(self) -> None:
        cases = [estimate_means([[value] for value in normal(100, seed)], seed=0)[0] for seed in range(200)]

        held = sum(case.low <= 0.5 <= case.high for case in cases)

        assert 0.90 <= held / 200 <= 0.985

    def test_each_column_is_estimated_by_itself(self) -> None:
        one, other = estimate_means([[0.0, 1.0], [0.0, 1.0]], seed=3)

        assert (one.low, one.mean, one.high) == (0.0, 0.0, 0.0)
        assert (other.low, other.mean, other.high) == (1.0, 1.0, 1.0)

    @given(samples)
    def test_it_is_the_same_each_time_and_within_the_values(self, values: list[float]) -> None:
        rows = [[value] for value in values]
        (first,), (second,) = estimate_means(rows, seed=5), estimate_means(rows, seed=5)

        assert first == second
        assert min(values) - 1e-9 <= first.low <= first.high <= max(values) + 1e-9


class TestDifference:
    def test_no_difference_is_none(self) -> None:
        found = estimate_difference([0.1, 0.5, 0.9], [0.1, 0.5, 0.9], seed=0)

        assert (found.mean, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)
        assert not found.significant

    def test_a_gain_of_nearly_every_question_is_significant(self) -> None:
        before = normal(60, 4)
        found = estimate_difference(before, [value + 0.05 for value in before[:50]] + before[50:], seed=0)

        assert found.significant
        assert found.low > 0
        assert found.mean == pytest.approx(0.05 * 50 / 60)

    def test_a_gain_of_one_question_may_be_chance(self) -> None:
        found = estimate_difference([0.0] * 50, [1.0] + [0.0] * 49, seed=0)

        assert not found.significant
        assert found.p == 1.0  # swapped or not, it is as far from nothing

    def test_noise_is_called_significant_about_once_in_twenty_times(self) -> None:
        called = sum(
            estimate_difference(normal(50, seed), normal(50, 1000 + seed), seed=0).significant for seed in range(200)
        )

        assert called / 200 <= 0.10

    @given(samples)
    def test_both_directions_are_the_same_difference(self, values: list[float]) -> None:
        other = values[::-1]
        there, back = estimate_difference(values, other, seed=1), estimate_difference(other, values, seed=1)

        assert there.mean == pytest.approx(-back.mean)
        assert there.p == pytest.approx(back.p)
        assert 0 < there.p <= 1

    def test_more_questions_than_fit_at_once_are_drawn_in_batches(self) -> None:
        before = normal(3000, 7)

        assert estimate_difference(before, [value + 0.01 for value in before], seed=0).mean == pytest.approx(0.01)
