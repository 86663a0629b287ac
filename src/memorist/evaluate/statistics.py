"""What could be chance: intervals and differences, by drawing the same questions again. Seeded, so always the same."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
CONFIDENCE = 0.95
_AT_ONCE = 2_000_000  # numbers in memory
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and between which values it lies in all but one case of twenty."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of what each question gained, its interval, and how likely chance alone makes as much (`p`)."""

    mean: float
    low: float
    high: float
    p: float

    @property
    def significant(self) -> bool:
        return self.p < 1 - CONFIDENCE


def estimates(figures: Sequence[Sequence[float]], seed: int) -> list[Estimate]:
    """The bootstrap: means of as many rows, drawn with replacement. An estimate for each column."""
    values = np.asarray(figures, np.float64)
    return [
        Estimate(float(mean), float(low), float(high))
        for mean, low, high in zip(values.mean(axis=0), *_intervals(values, seed), strict=True)
    ]


def difference(before: Sequence[float], after: Sequence[float], seed: int) -> Difference:
    """
    The same questions, two answers each. The interval is the paired bootstrap's; `p` is that of the permutation test,
    which swaps the two answers of some questions at random: if nothing had changed, that would make no difference.
    """
    gained = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    (low,), (high,) = _intervals(gained[:, None], seed)
    observed, draw = abs(gained.sum()), np.random.default_rng(seed)
    as_extreme = 0
    for rows in _portions(len(gained)):
        signs = draw.integers(0, 2, (rows, len(gained)), dtype=np.int8) * 2.0 - 1.0
        as_extreme += int((np.abs(signs @ gained) >= observed - _ROUNDING).sum())
    return Difference(float(gained.mean()), float(low), float(high), (as_extreme + 1) / (DRAWS + 1))


def _intervals(values: NDArray[np.float64], seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    draw, count = np.random.default_rng(seed), len(values)
    means = []
    for rows in _portions(count):
        drawn = draw.integers(0, count, (rows, count)) + np.arange(rows)[:, None] * count
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        means.append(times @ values / count)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail], axis=0)
    return low, high


def _portions(width: int) -> list[int]:
    """All draws, in portions that fit into memory."""
    most = max(1, _AT_ONCE // width)
    return [min(most, DRAWS - first) for first in range(0, DRAWS, most)]
