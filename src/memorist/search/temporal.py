"""Temporal signal: a question that names a time prefers memories from that time."""

import math
from collections.abc import Sequence
from dataclasses import replace

from memorist.search.fusion import Ranked
from memorist.search.signals import DAY
from memorist.text.dates import Period

_MIN_BLUR = 2 * DAY  # an event is often told a day later, and planned some days before
_BLUR = 0.25  # of a longer period: people are vague about a month's first and last days


def boost_by_time(ranked: Sequence[Ranked], periods: Sequence[Period], weight: float) -> list[Ranked]:
    """
    Raise the scores of memories from one of the periods, and sort by score again.

    A score only rises, and the less the higher it is. So a clearly better answer stays before one from the right time,
    and no threshold removes what it let through before.
    """
    if weight == 0.0 or not periods:
        return list(ranked)
    boosted = [
        _boost(entry, weight * max(period_weight(entry.candidate.created_at, period) for period in periods))
        for entry in ranked
    ]
    return sorted(boosted, key=lambda entry: -entry.score)  # stable: ties keep their order


def period_weight(moment: float, period: Period) -> float:
    """Return 1 for a time within a period, falling to 0 with its distance from it."""
    start, end = period.start.timestamp(), period.end.timestamp()
    distance = max(start - moment, moment - end, 0.0)
    return math.exp(-distance / max(_MIN_BLUR, _BLUR * (end - start)))


def _boost(entry: Ranked, share: float) -> Ranked:
    gain = share * entry.score * (1.0 - entry.score)
    if gain < 1e-9:
        return entry
    trace = {**entry.trace, "time": entry.trace.get("time", 0.0) + gain}  # it may have been boosted before reranking
    return replace(entry, score=entry.score + gain, trace=trace)
