"""Places in documents, ranked as documents: what was found of one speaks for its best place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memorist.rank.fuse import Ranked

# What each further place counts, of the one before it. Chosen on 24 questions about the Kubernetes documentation: the
# right page is first for half of them instead of 29 %.
FURTHER = 0.7


def best_places(ranked: Sequence[Ranked], documents: Mapping[int, str], further: float = FURTHER) -> list[Ranked]:
    """
    The best place of each document, and whatever is in none, best first; `documents` tells the document of a key.

    A page that deals with a matter speaks of it in more than one place; one that mentions it does not. So further
    places that were found raise the score of the best one, as one more reason raises a chance: never beyond 1.
    """
    best: dict[object, Ranked] = {}
    missing: dict[object, float] = {}  # to a score of 1
    share: dict[object, float] = {}
    for entry in ranked:
        key = entry.candidate.key
        document = documents.get(key, key)
        best.setdefault(document, entry)
        missing[document] = missing.get(document, 1.0) * (1 - share.setdefault(document, 1.0) * entry.score)
        share[document] *= further
    whole = [_raised(entry, 1 - missing[document]) for document, entry in best.items()]
    return sorted(whole, key=lambda entry: -entry.score)


def _raised(entry: Ranked, score: float) -> Ranked:
    if score - entry.score < 1e-12:  # of one place nothing changes but the last digits
        return entry
    return replace(entry, score=score, trace={**entry.trace, "further places": score - entry.score})
