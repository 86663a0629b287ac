"""What counts besides the legs: age, and how relevant a hit is on an absolute scale."""

import math

from recollect.profiles import Recency

DAY = 86_400.0


def days_since(moment: float, now: float) -> float:
    """Days between two epoch times; what lies ahead counts as now."""
    return max(0.0, now - moment) / DAY


def recency_bonus(recency: Recency, created_at: float, now: float) -> float:
    return math.exp(-recency.rate * days_since(created_at, now))


def recency_factor(recency: Recency, created_at: float, now: float) -> float:
    return 1.0 + recency.weight / (1.0 + days_since(created_at, now))


def relevance(similarity: float | None, coverage: float) -> float:
    """
    How likely a memory is about the question at all, 0..1, comparable between questions and stores.

    `coverage` is the share of the question's telling words that the memory holds. BM25 itself is of no use here: the
    same perfect match has a score near 0 in a store of two memories and of 10 in one of a thousand.
    """
    return max(_calibrated(similarity), coverage)


def _calibrated(similarity: float | None) -> float:
    return 0.0 if similarity is None else min(1.0, max(0.0, similarity))
