"""What was said beside a good answer is likely part of it: neighbours in a session lend each other score."""

from collections.abc import Sequence
from dataclasses import replace

from memorist.search.fusion import Ranked

DISTANCES = ((1, 1.0), (2, 0.5))  # how far lending reaches, and what share of a loan is left there
SHORT = 240  # characters; a longer text speaks for itself, and borrows as much less


def lent(ranked: Sequence[Ranked], share: float) -> list[Ranked]:
    """
    What was made in sessions, in the order of its own score and a `share` of its neighbours'; the rest where it was.

    A short text says little by itself ("It is make ship."), and is understood by what was said beside it. Memories of
    sessions trade places among themselves, scores with them: nobody else moves. Neighbours are known by their
    positions in the session: others may have written between them.
    """
    told = {entry.candidate.key: entry for entry in ranked if entry.candidate.session is not None}
    if share == 0.0 or len(told) < 2:
        return list(ranked)
    scores = {
        (entry.candidate.session, entry.candidate.position): entry.score
        for entry in told.values()
        if entry.candidate.position is not None
    }

    def worth(entry: Ranked) -> float:
        own, total = entry.candidate, entry.score
        need = min(1.0, SHORT / max(own.length, 1))
        for distance, left in DISTANCES:
            if own.position is not None:
                before, after = ((own.session, own.position + step) for step in (-distance, distance))
                total += share * need * left * max(scores.get(before, 0.0), scores.get(after, 0.0))
        return total

    anew = iter(sorted(told.values(), key=worth, reverse=True))  # stable: what is worth the same stays in order
    return [_at(entry.score, next(anew)) if entry.candidate.key in told else entry for entry in ranked]


def _at(score: float, entry: Ranked) -> Ranked:
    if score == entry.score:
        return entry
    moved = entry.trace.get("neighbours", 0.0) + score - entry.score  # it may have moved before it was read again
    return replace(entry, score=score, trace={**entry.trace, "neighbours": moved})
