"""What counts besides the legs: age, decay, confidence, and how relevant a hit is on an absolute scale."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from memorist.profiles import BGE_SMALL, MINILM, Profile, Recency
from memorist.records import Fact

DAY = 86_400.0


def days_since(moment: float, now: float) -> float:
    """Days between two epoch times; what lies ahead counts as now."""
    return max(0.0, now - moment) / DAY


def decayed(value: float, rate: float, since: float, now: float) -> float:
    """What is left of a value after losing a share of itself every day."""
    return value * math.exp(-rate * days_since(since, now))


def certain(facts: Sequence[Fact], rates: Mapping[str, float], now: datetime) -> tuple[Fact, ...]:
    """Facts with what is left of their confidence, and the rate at which it goes."""
    return tuple(replace(fact, effective=fact.confidence_at(now, rates), decay_rate=fact.rate(rates)) for fact in facts)


def confidence(facts: Sequence[Fact]) -> float:
    """How sure a memory is: the mean over its facts; one without facts is not doubted."""
    return sum(fact.effective for fact in facts) / len(facts) if facts else 1.0


def confidence_factor(profile: Profile, confidence: float) -> float:
    if profile.confidence_mode == "multiply":
        return confidence
    if profile.confidence_mode == "blend":
        return 1.0 - profile.confidence_weight * (1.0 - confidence)
    return 1.0


def recency_bonus(recency: Recency, created_at: float, now: float) -> float:
    return math.exp(-recency.rate * days_since(created_at, now))


def recency_factor(recency: Recency, moment: float, now: float) -> float:
    """What a score is multiplied by, divided by the most it can be, so that the score stays within 0..1."""
    days = days_since(moment, now)
    if recency.form == "multiply":
        return (1.0 + recency.weight / (1.0 + days)) / (1.0 + recency.weight)
    if recency.form == "tiers":
        return next((factor for limit, factor in TIERS if days <= limit), 1.0) / TIERS[0][1]
    return 1.0


TIERS = ((1.0, 1.10), (7.0, 1.05), (30.0, 1.02))  # days, factor


def relevance(model: str | None, similarity: float | None, coverage: float) -> float:
    """
    How likely a memory is about the question at all, 0..1, comparable between questions and stores.

    `coverage` is the share of the question's words that the memory holds, rare ones counting for more. BM25 itself is
    of no use here: the same perfect match has a score near 0 in a store of two memories and of 10 in one of a thousand.
    For a model that was not calibrated, the similarity stands for itself.
    """
    if similarity is None:
        return _logistic(WORDS_ALONE[0] + WORDS_ALONE[1] * coverage) if coverage else 0.0
    if model not in CALIBRATED:
        return min(1.0, max(0.0, similarity, ALL_WORDS * coverage**4))
    bias, by_similarity, by_coverage = CALIBRATED[model]
    told = _logistic(bias + by_similarity * similarity + by_coverage * coverage)
    return max(told, ALL_WORDS * coverage**4)


# Logistic regressions on every second conversation of LoCoMo: evidence for a question against what the same question
# finds in another conversation. So that a paraphrase can be relevant too, the words were hidden from 3 of 10 pairs. On
# the other conversations: AUC .98 for telling a question's own conversation from another by its best hit. Since every
# few sentences have a vector, something is a little nearer everywhere: MiniLM's first number was lowered by .5.
CALIBRATED = {MINILM: (-8.2, 16.6, 3.7), BGE_SMALL: (-18.4, 29.7, 2.9)}
WORDS_ALONE = (-3.6, 9.4)
# A memory with every word of the question, such as the one commit hash that was asked for, is about it whatever a
# language model makes of that word; with half of the words this says next to nothing.
ALL_WORDS = 0.8


def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))
