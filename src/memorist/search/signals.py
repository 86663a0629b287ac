"""Signals beside the legs: recency, decay, confidence, and relevance on an absolute scale."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter, mul
from typing import NamedTuple

from memorist.profiles import BUNDLED, Profile, Recency
from memorist.records import Fact, Query

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


# "What did you recommend?", "remind me of our previous conversation"
_ASKS_ASSISTANT = re.compile(
    r"""\b(?:you|your|the\ assistant|the\ ai|the\ chatbot)\b [^.?!]{0,300}
        \b(?:sa(?:y|id)|t(?:ell|old)|recommend\w*|suggest\w*|mention\w*|advise\w*|advice|gave|given?|provid\w*|list\w*|
            explain\w*|answer\w*|propos\w*|describ\w*|wr(?:ite|ote)|remind)\b
    | \bremind\ me\b
    | \b(?:previous|earlier|last|our)\ (?:conversation|chat|discussion)\b""",
    re.IGNORECASE | re.VERBOSE,
)


def asks_assistant(question: str) -> bool:
    """Return whether a question asks what the assistant said."""
    return _ASKS_ASSISTANT.search(question) is not None


_RECENCY_TIERS = ((1.0, 1.10), (7.0, 1.05), (30.0, 1.02))  # days, factor


@dataclass(frozen=True, slots=True)
class Evidence:
    """
    The evidence that a query, and all that was found for it, gives for every hit.

    `terms` counts the words that the query is about. A `lookup` is a query of nothing else, or of an identifier: who
    types only a word wants what has it. `background` is the similarity of what else was found.
    """

    terms: int
    lookup: bool
    background: float

    @classmethod
    def of(cls, query: Query, similarities: Iterable[tuple[str | int, float | None]]) -> "Evidence":
        """`similarities` are those of all candidates, each beside its document, which counts once, or its own key."""
        known = [(value, owner) for owner, value in similarities if value is not None]
        # As many as are found for the shortest page: relevance must not depend on how many hits are asked for.
        best: dict[str | int, float] = {}
        for value, owner in sorted(known, key=itemgetter(0), reverse=True)[:_COMPARED]:
            best.setdefault(owner, value)
        others = list(best.values())[_BEST : _BEST + _OTHERS]
        # Of a small store little else is found, and what is usual counts.
        background = (sum(others) + _PRIOR_WEIGHT * _USUAL_SIMILARITY) / (len(others) + _PRIOR_WEIGHT)
        lookup = not query.stopwords or any(term.exact for term in query.terms)
        return cls(len(query.terms), lookup, background)

    def of_words(self, coverage: float) -> float:
        """Return what the query's words in a text are worth, 0..1; next to nothing where half of them are missing."""
        return coverage**4 if self.lookup or self.terms > 1 else 0.0


_COMPARED, _BEST, _OTHERS = 64, 5, 25  # similarities; of them, those that may be of answers, and those behind them
_USUAL_SIMILARITY, _PRIOR_WEIGHT = 0.12, 10


class Features(NamedTuple):
    """The numbers that the relevance of a hit is estimated from."""

    similarity: float
    standout: float  # the similarity above that of what else was found
    all_words: float
    lookup: float
    length: float  # a long text has something that resembles almost anything

    @classmethod
    def of(cls, similarity: float, coverage: float, length: int, evidence: Evidence) -> "Features":
        words = evidence.of_words(coverage)
        return cls(
            similarity,
            similarity - evidence.background,
            words * (evidence.terms > 1) * evidence.terms / (evidence.terms + 1),
            words * evidence.lookup,
            math.log(min(max(length, _SHORTEST), _LONGEST) / _USUAL_LENGTH),
        )


def estimate_relevance(
    model: str | None, similarity: float | None, coverage: float, length: int, evidence: Evidence
) -> float:
    """
    Return the probability that a memory is about the question, comparable between questions and stores.

    `coverage` is the share of the question's words that the memory has, rare ones counting for more. BM25 itself is of
    no use here: the same perfect match scores near 0 in a store of two memories and 10 in one of a thousand. A question
    that shrinks to one word ("how do I back up?") is not answered by every text with that word. The similarity of a
    model that was not calibrated is taken as it is.
    """
    words = evidence.of_words(coverage)
    if similarity is None:
        known = coverage if words else _ONE_WORD_SHARE * coverage
        return _logistic(_KEYWORD_RELEVANCE[0] + _KEYWORD_RELEVANCE[1] * known) if coverage else 0.0
    if model not in RELEVANCE_MODELS:
        return min(1.0, max(0.0, similarity, _ALL_WORDS_RELEVANCE * words))
    return RELEVANCE_MODELS[model].estimate(Features.of(similarity, coverage, length, evidence))


@dataclass(frozen=True, slots=True)
class RelevanceModel:
    """A logistic regression: its bias, and a weight for each of the features."""

    bias: float
    weights: Features

    def estimate(self, features: Features) -> float:
        estimate = _logistic(sum(map(mul, self.weights, features), self.bias))
        return max(estimate, _ALL_WORDS_RELEVANCE * features.lookup)


# Fitted by training/fit_relevance.py, judged on other data: docs/quality.md.
RELEVANCE_MODELS = {BUNDLED: RelevanceModel(-6.75, Features(11.89, 7.0, 5.9, 2.34, -0.98))}
_KEYWORD_RELEVANCE = (-3.6, 9.4)
_ONE_WORD_SHARE = 0.35
# A memory with every word that was looked up, such as a commit hash, is relevant whatever a language model makes of it.
_ALL_WORDS_RELEVANCE = 0.8
_USUAL_LENGTH, _SHORTEST, _LONGEST = 200, 30, 250  # characters


def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))
