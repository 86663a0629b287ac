"""A second opinion on the best: scores of a cross-encoder, blended with those of fusion."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recollect.rank.fuse import Ranked


def reranked(ranked: Sequence[Ranked], scores: Mapping[int, float], weight: float) -> list[Ranked]:
    """
    The best in the order of both scores, then the rest as they were; `scores` are those of the best, 0..1, by key.

    What was not read a second time stays behind what was, and its score below: the order is the order of the scores.
    """
    read = [entry for entry in ranked if entry.candidate.key in scores]
    rest = [entry for entry in ranked if entry.candidate.key not in scores]
    blended = [_scored(entry, (1.0 - weight) * entry.score + weight * scores[entry.candidate.key]) for entry in read]
    blended.sort(key=lambda entry: -entry.score)  # stable: where both say the same, the order stays
    ceiling = blended[-1].score if blended else 1.0
    most = max((entry.score for entry in rest), default=0.0)
    factor = min(1.0 - weight, ceiling / most if most > 0 else 1.0)
    return [*blended, *(_scored(entry, entry.score * factor) for entry in rest)]


def _scored(entry: Ranked, score: float) -> Ranked:
    return replace(entry, score=score, trace={**entry.trace, "rerank": score - entry.score})
