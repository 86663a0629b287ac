"""Places in documents, ranked as documents: what was found of one speaks for its best place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recollect.rank.fuse import Ranked

# What each further place counts, of the one before it. Chosen on 24 questions about the Kubernetes documentation: the
# right page is first for half of them instead of 29 %; .5 to .7 do as well.
FURTHER = 0.6


def best_places(ranked: Sequence[Ranked], documents: Mapping[int, str], further: float = FURTHER) -> list[Ranked]:
    """
    The best place of each document, and whatever is in none, best first; `documents` tells the document of a key.

    A page that deals with a matter speaks of it in more than one place; one that mentions it does not. So the further
    places that were found lend the best one a share of their scores.
    """
    best: dict[object, Ranked] = {}
    share: dict[object, float] = {}
    lent: dict[object, float] = {}
    for entry in ranked:
        key = entry.candidate.key
        document = documents.get(key, key)
        if document not in best:
            best[document], share[document], lent[document] = entry, further, 0.0
        else:
            lent[document] += share[document] * entry.score
            share[document] *= further
    own = 1 - further  # of the most that a score can be with all that is lent: it stays from 0 to 1
    whole = [_with(entry, own, lent[document]) for document, entry in best.items()] if further else [*best.values()]
    return sorted(whole, key=lambda entry: -entry.score)


def _with(entry: Ranked, own: float, lent: float) -> Ranked:
    trace = {name: own * value for name, value in entry.trace.items()}
    if lent:
        trace["further places"] = own * lent
    return replace(entry, score=own * (entry.score + lent), trace=trace)
