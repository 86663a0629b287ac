"""
Measures of a ranking, as trec_eval defines them.

The gain of a document is its grade, discounted by log2(rank + 1). A document that was not judged, or was graded 0 or
less, is not relevant.
"""

from collections.abc import Mapping, Sequence
from math import log2

MAX_RANK = 10  # the deepest cut-off of any measure
MEASURES = ("ndcg@10", "recall@5", "recall@10", "mrr@10", "hit@5")
MAIN_MEASURE = MEASURES[0]

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
