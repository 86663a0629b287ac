"""Session context: a turn's score is smoothed over the turns next to it in its session."""

from collections.abc import Sequence
from dataclasses import replace

from memorist.search.fusion import Ranked

_DISTANCE_WEIGHTS = ((1, 1.0), (2, 0.5))  # how many turns away, and how much a turn there counts
_UNSMOOTHED_CHARACTERS = 240  # longer texts need less context, and are smoothed less


def smooth_scores(ranked: Sequence[Ranked], share: float) -> list[Ranked]:
    """
    Reorder what was said in sessions by its own score plus a `share` of its neighbours'; leave the rest in place.

    A short turn ("It is make ship.") is understood by the turns beside it. Turns exchange places and scores only among
    themselves, so notes are neither raised nor lowered. Neighbours are known by their positions in the session: others
    may have written in between.
    """
    turns = {entry.candidate.key: entry for entry in ranked if entry.candidate.session is not None}
    if share == 0.0 or len(turns) < 2:
        return list(ranked)
    scores = {
        (entry.candidate.session, entry.candidate.position): entry.score
        for entry in turns.values()
        if entry.candidate.position is not None
    }

    def smoothed(entry: Ranked) -> float:
        own, total = entry.candidate, entry.score
        if own.position is None:
            return total
        need = min(1.0, _UNSMOOTHED_CHARACTERS / max(own.length, 1))
        for distance, weight in _DISTANCE_WEIGHTS:
            neighbours = ((own.session, own.position + step) for step in (-distance, distance))
            total += share * need * weight * max(scores.get(neighbour, 0.0) for neighbour in neighbours)
        return total

    reordered = iter(sorted(turns.values(), key=smoothed, reverse=True))  # stable: ties keep their order
    return [_with_score(next(reordered), entry.score) if entry.candidate.key in turns else entry for entry in ranked]


def _with_score(entry: Ranked, score: float) -> Ranked:
    if score == entry.score:
        return entry
    change = entry.trace.get("session", 0.0) + score - entry.score  # it may have been smoothed before reranking, too
    return replace(entry, score=score, trace={**entry.trace, "session": change})
