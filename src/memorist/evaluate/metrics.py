"""
How good a ranking is, as trec_eval counts it: gains are the judgements themselves, discounted by log2(place + 1), and
whatever was not judged, or judged 0 or less, is not relevant.
"""

from collections.abc import Mapping, Sequence
from math import log2

PLACES = 10  # of a ranking that are looked at
MEASURES = ("ndcg@10", "recall@5", "recall@10", "mrr@10", "hit@5")
MAIN = MEASURES[0]

Judged = Mapping[str, int]


def ndcg(ranking: Sequence[str], judged: Judged, places: int) -> float:
    """Discounted gain against that of the best possible ranking."""
    best = sorted((grade for grade in judged.values() if grade > 0), reverse=True)
    ideal = _discounted(best[:places])
    return _discounted([max(judged.get(id, 0), 0) for id in ranking[:places]]) / ideal if ideal else 0.0


def recall(ranking: Sequence[str], judged: Judged, places: int) -> float:
    """The share of what is relevant that was found."""
    wanted = relevant(judged)
    return len(wanted.intersection(ranking[:places])) / len(wanted) if wanted else 0.0


def reciprocal_rank(ranking: Sequence[str], judged: Judged, places: int) -> float:
    """One through the place of the first relevant one."""
    wanted = relevant(judged)
    return next((1 / place for place, id in enumerate(ranking[:places], 1) if id in wanted), 0.0)


def hit(ranking: Sequence[str], judged: Judged, places: int) -> float:
    """Whether anything relevant was found."""
    return float(not relevant(judged).isdisjoint(ranking[:places]))


def relevant(judged: Judged) -> set[str]:
    return {id for id, grade in judged.items() if grade > 0}


def measure_ranking(ranking: Sequence[str], judged: Judged) -> dict[str, float]:
    """All measures of one ranking."""
    figures = (
        ndcg(ranking, judged, 10),
        recall(ranking, judged, 5),
        recall(ranking, judged, 10),
        reciprocal_rank(ranking, judged, 10),
        hit(ranking, judged, 5),
    )
    return dict(zip(MEASURES, figures, strict=True))


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 1) for place, gain in enumerate(gains, 1))
