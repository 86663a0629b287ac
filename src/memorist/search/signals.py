"""Signals beside the legs: recency, decay, confidence, and relevance on an absolute scale."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from memorist.profiles import BUNDLED, Profile, Recency
from memorist.records import Fact

DAY = 86_400.0


def _days_since(moment: float, now: float) -> float:
    """Return the days between two epoch times; a time ahead counts as now."""
    return max(0.0, now - moment) / DAY


def decay(value: float, rate: float, since: float, now: float) -> float:
    """Return a value after exponential decay of `rate` a day."""
    return value * math.exp(-rate * _days_since(since, now))


def with_effective_confidence(facts: Sequence[Fact], rates: Mapping[str, float], now: datetime) -> tuple[Fact, ...]:
    """Return the facts with their confidence after decay, and the decay rate that applies."""
    return tuple(replace(fact, effective=fact.confidence_at(now, rates), decay_rate=fact.rate(rates)) for fact in facts)


def mean_confidence(facts: Sequence[Fact]) -> float:
    """Return the mean confidence of a memory's facts; 1 where it has none."""
    return sum(fact.effective for fact in facts) / len(facts) if facts else 1.0


def confidence_factor(profile: Profile, confidence: float) -> float:
    if profile.confidence_mode == "multiply":
        return confidence
    if profile.confidence_mode == "blend":
        return 1.0 - profile.confidence_weight * (1.0 - confidence)
    return 1.0


def recency_factor(recency: Recency, moment: float, now: float) -> float:
    """Return the factor for a score, divided by the largest possible, so that the score stays within 0..1."""
    days = _days_since(moment, now)
    if recency.form == "multiply":
        return (1.0 + recency.weight / (1.0 + days)) / (1.0 + recency.weight)
    if recency.form == "tiers":
        return next((factor for limit, factor in _RECENCY_TIERS if days <= limit), 1.0) / _RECENCY_TIERS[0][1]
    return 1.0


_RECENCY_TIERS = ((1.0, 1.10), (7.0, 1.05), (30.0, 1.02))  # days, factor


def estimate_relevance(model: str | None, similarity: float | None, coverage: float) -> float:
    """
    Return the probability that a memory is about the question, comparable between questions and stores.

    `coverage` is the share of the question's words that the memory has, rare ones counting for more. BM25 itself is of
    no use here: the same perfect match scores near 0 in a store of two memories and 10 in one of a thousand. The
    similarity of a model that was not calibrated is taken as it is.
    """
    if similarity is None:
        return _logistic(_KEYWORD_RELEVANCE[0] + _KEYWORD_RELEVANCE[1] * coverage) if coverage else 0.0
    if model not in RELEVANCE_MODELS:
        return min(1.0, max(0.0, similarity, _FULL_COVERAGE_RELEVANCE * coverage**4))
    bias, by_similarity, by_coverage = RELEVANCE_MODELS[model]
    estimate = _logistic(bias + by_similarity * similarity + by_coverage * coverage)
    return max(estimate, _FULL_COVERAGE_RELEVANCE * coverage**4)


# Logistic regressions (bias, similarity, coverage), fitted on every second conversation of LoCoMo: evidence for a
# question against what the same question finds in another conversation. The words were hidden from 3 of 10 pairs, so
# that a paraphrase can be relevant too. On the other conversations: AUC .98 for telling a question's own conversation
# from another by its best hit. MiniLM's bias was lowered by .5 since every few sentences have a vector of their own,
# which brings something a little nearer everywhere.
RELEVANCE_MODELS = {BUNDLED: (-8.2, 16.6, 3.7)}
_KEYWORD_RELEVANCE = (-3.6, 9.4)
# A memory with every word of the question, such as a commit hash, is relevant whatever a language model makes of that
# word; with half of the words this adds next to nothing.
_FULL_COVERAGE_RELEVANCE = 0.8


def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))
