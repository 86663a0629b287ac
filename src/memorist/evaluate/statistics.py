"""
Confidence intervals by bootstrap, and paired differences with a permutation test.

All draws are seeded: the same values give the same estimates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 2000
_CONFIDENCE = 0.95
_MAX_BATCH_NUMBERS = 2_000_000  # numbers held in memory at once
_ROUNDING_ERROR = 1e-9


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """
    The mean gain per question with its 95 % confidence interval.

    `p` is the probability that chance alone makes a difference at least as large.
    """

    mean: float
    low: float
    high: float
    p: float

    @property
    def significant(self) -> bool:
        return self.p < 1 - _CONFIDENCE


def estimate_means(rows: Sequence[Sequence[float]], seed: int) -> list[Estimate]:
    """Return the mean of each column, with the interval of means over rows drawn with replacement."""
    values = np.asarray(rows, np.float64)
    return [
        Estimate(float(mean), float(low), float(high))
        for mean, low, high in zip(values.mean(axis=0), *_bootstrap_intervals(values, seed), strict=True)
    ]


def estimate_difference(before: Sequence[float], after: Sequence[float], seed: int) -> Difference:
    """
    Compare two results for the same questions.

    The interval is from a paired bootstrap. `p` is from a permutation test that swaps the two results of some questions
    at random: if nothing had changed, swapping would make no difference.
    """
    gains = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    (low,), (high,) = _bootstrap_intervals(gains[:, None], seed)
    observed, generator = abs(gains.sum()), np.random.default_rng(seed)
    as_extreme = 0
    for rows in _batch_sizes(len(gains)):
        signs = generator.integers(0, 2, (rows, len(gains)), dtype=np.int8) * 2.0 - 1.0
        as_extreme += int((np.abs(signs @ gains) >= observed - _ROUNDING_ERROR).sum())
    return Difference(float(gains.mean()), float(low), float(high), (as_extreme + 1) / (_RESAMPLES + 1))


def _bootstrap_intervals(values: NDArray[np.float64], seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower and upper ends of the interval of each column's mean."""
    generator, count = np.random.default_rng(seed), len(values)
    means = []
    for rows in _batch_sizes(count):
        drawn = generator.integers(0, count, (rows, count)) + np.arange(rows)[:, None] * count
        times_drawn = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        means.append(times_drawn @ values / count)
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail], axis=0)
    return low, high


def _batch_sizes(width: int) -> list[int]:
    """Divide all resamples into batches of rows that fit into memory."""
    largest = max(1, _MAX_BATCH_NUMBERS // width)
    return [min(largest, _RESAMPLES - first) for first in range(0, _RESAMPLES, largest)]
