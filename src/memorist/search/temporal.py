"""When a question names a time, what happened then comes before what else is as good an answer."""

import math
from collections.abc import Sequence
from dataclasses import replace

from memorist.search.fusion import Ranked
from memorist.search.signals import DAY
from memorist.text.dates import Period

LEAST_BLUR = 2 * DAY  # what happened is often told a day later, and planned some days before
BLUR = 0.25  # of a longer time: who says "in May" is not sure of its first and last days


def timely(ranked: Sequence[Ranked], times: Sequence[Period], weight: float) -> list[Ranked]:
    """
    In the order of their score and how near to one of the `times` they happened.

    A score only rises, and the less the higher it is: so what answers clearly better stays before what is from the
    right time, and no threshold takes away what it let through.
    """
    if weight == 0.0 or not times:
        return list(ranked)
    risen = [
        _risen(entry, weight * max(nearness(entry.candidate.created_at, time) for time in times)) for entry in ranked
    ]
    return sorted(risen, key=lambda entry: -entry.score)  # stable: of equals the first stays first


def nearness(moment: float, time: Period) -> float:
    """1 within a time, and falling to 0 with the distance from it."""
    start, end = time.start.timestamp(), time.end.timestamp()
    away = max(start - moment, moment - end, 0.0)
    return math.exp(-away / max(LEAST_BLUR, BLUR * (end - start)))


def _risen(entry: Ranked, share: float) -> Ranked:
    rise = share * entry.score * (1.0 - entry.score)
    if rise < 1e-9:
        return entry
    trace = {**entry.trace, "when": entry.trace.get("when", 0.0) + rise}  # it may have risen before it was read again
    return replace(entry, score=entry.score + rise, trace=trace)
