"""
Measures of a ranking, as trec_eval defines them, with confidence intervals and tests of differences.

The gain of a document is its grade, discounted by log2(rank + 1). A document that was not judged, or was graded 0 or
less, is not relevant. All draws are seeded: the same values give the same estimates.
"""

from collections.abc import Mapping, Sequence
from math import log2

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

MAX_RANK = 10  # the deepest cut-off of any measure
MEASURES = ("ndcg@10", "recall@5", "recall@10", "mrr@10", "hit@5")
MAIN_MEASURE = MEASURES[0]
_RESAMPLES = 2000
_CONFIDENCE = 0.95
_MAX_BATCH_NUMBERS = 2_000_000  # numbers held in memory at once
_ROUNDING_ERROR = 1e-9

Judgements = Mapping[str, int]  # document id -> grade


def measure_ranking(ranking: Sequence[str], judgements: Judgements) -> dict[str, float]:
    """Return all measures of one ranking."""
    values = (
        ndcg(ranking, judgements, 10),
        recall(ranking, judgements, 5),
        recall(ranking, judgements, 10),
        reciprocal_rank(ranking, judgements, 10),
        hit(ranking, judgements, 5),
    )
    return dict(zip(MEASURES, values, strict=True))


def ndcg(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """The discounted gain of the first `k`, divided by that of the best possible ranking."""
    best = sorted((grade for grade in judgements.values() if grade > 0), reverse=True)
    ideal = _dcg(best[:k])
    return _dcg([max(judgements.get(id, 0), 0) for id in ranking[:k]]) / ideal if ideal else 0.0


def recall(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """The share of the relevant documents that is among the first `k`."""
    relevant = relevant_ids(judgements)
    return len(relevant.intersection(ranking[:k])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """1 / rank of the first relevant document, or 0 if none is among the first `k`."""
    relevant = relevant_ids(judgements)
    return next((1 / rank for rank, id in enumerate(ranking[:k], 1) if id in relevant), 0.0)


def hit(ranking: Sequence[str], judgements: Judgements, k: int) -> float:
    """1 if a relevant document is among the first `k`, else 0."""
    return float(not relevant_ids(judgements).isdisjoint(ranking[:k]))


def relevant_ids(judgements: Judgements) -> set[str]:
    """The documents with a grade above 0."""
    return {id for id, grade in judgements.items() if grade > 0}


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


class _Estimate(Struct, frozen=True):
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float


class _Difference(_Estimate, frozen=True):
    """The mean gain per question; `p` is the probability that chance alone makes one at least as large."""

    p: float

    @property
    def significant(self) -> bool:
        return self.p < 1 - _CONFIDENCE


def estimate_means(rows: Sequence[Sequence[float]], seed: int) -> list[_Estimate]:
    """Return the mean of each column, with the interval of means over rows drawn with replacement."""
    values = np.asarray(rows, np.float64)
    return [
        _Estimate(float(mean), float(low), float(high))
        for mean, low, high in zip(values.mean(axis=0), *_bootstrap_intervals(values, seed), strict=True)
    ]


def estimate_difference(before: Sequence[float], after: Sequence[float], seed: int) -> _Difference:
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
    return _Difference(float(gains.mean()), float(low), float(high), (as_extreme + 1) / (_RESAMPLES + 1))


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
