"""Signals beside the legs: recency, decay, confidence, and relevance on an absolute scale."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from operator import mul
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memorist.profiles import BUNDLED
from memorist.profiles.profile import Profile, Recency
from memorist.records import Fact, Query
from memorist.store.ranking_columns import Floats, Integers, RankingColumns
from memorist.text.tokenizer import is_mostly_latin

DAY = 86_400.0
Boosts = Mapping[str, Mapping[str, float]]  # of a lens


def list_factors(
    columns: RankingColumns, confidence: Floats, profile: Profile, now: float, boosts: Boosts | None
) -> Iterator[tuple[str, Floats]]:
    """Yield the steps that multiply scores, in order; those that change none cost no time."""
    if profile.sector_boosts:
        yield "sector", np.array(look_up(profile.sector_boosts, columns.sectors, 1.0))
    if columns.superseded.any():
        yield "superseded", np.where(columns.superseded, profile.superseded_factor, 1.0)
    if profile.assistant_factor != 1.0 and columns.by_assistant.any():
        yield "assistant", np.where(columns.by_assistant, profile.assistant_factor, 1.0)
    if profile.recency.form in ("multiply", "tiers"):
        yield "recency", _recency_factor(profile.recency, reference_times(columns, profile), now)
    if profile.confidence_mode != "off":
        yield "confidence", _confidence_factor(profile, confidence)
    if boosts:
        yield "lens", _lens_factors(boosts, columns)


def look_up(table: Mapping[str, float], values: Sequence[str | None], default: float) -> list[float]:
    return [default if value is None else table.get(value, default) for value in values]


def _lens_factors(boosts: Boosts, columns: RankingColumns) -> Floats:
    """
    Return the factors of a lens: for each boosted field the strongest boost among the values a memory has there.

    They are divided by the largest possible, so that a score stays within 0..1 and two boosted memories keep their
    order.
    """
    singles = {"sector": columns.sectors, "kind": columns.kinds, "source": columns.sources}
    factors = np.ones(len(columns))
    for field, by_value in boosts.items():
        if field == "tag":
            own = [max((by_value[tag] for tag in tags if tag in by_value), default=1.0) for tags in columns.tags]
        else:
            own = look_up(by_value, singles[field], 1.0)
        factors *= np.array(own) / max(1.0, 1.0, *by_value.values())
    return factors


def reference_times(columns: RankingColumns, profile: Profile) -> Floats:
    """Return the times that the age of memories counts from."""
    if profile.recency.on == "accessed":
        return np.where(np.isnan(columns.accessed_at), columns.created_at, columns.accessed_at)
    times = {"updated": columns.updated_at, "imported": columns.recorded_at}
    return times.get(profile.recency.on, columns.created_at)


def _days_since(moments: Floats, now: float) -> Floats:
    """Return the days between epoch times and now; a time ahead counts as now."""
    return np.maximum(0.0, now - moments) / DAY


def decay(values: Floats, rates: Floats | float, since: Floats, now: float) -> Floats:
    """Return values after exponential decay of a rate a day."""
    decayed: Floats = values * np.exp(-rates * _days_since(since, now))
    return decayed


def with_effective_confidence(facts: Sequence[Fact], rates: Mapping[str, float], now: datetime) -> tuple[Fact, ...]:
    """Return the facts with their confidence after decay, and the decay rate that applies."""
    return tuple(replace(fact, effective=fact.confidence_at(now, rates), decay_rate=fact.rate(rates)) for fact in facts)


def mean_confidence(facts: Sequence[Fact]) -> float:
    """Return the mean confidence of a memory's facts; 1 where it has none."""
    return sum(fact.effective for fact in facts) / len(facts) if facts else 1.0


def _confidence_factor(profile: Profile, confidence: Floats) -> Floats:
    """Return the factors that the confidence of facts gives to scores."""
    if profile.confidence_mode == "multiply":
        return confidence
    return 1.0 - profile.confidence_weight * (1.0 - confidence)


def _recency_factor(recency: Recency, moments: Floats, now: float) -> Floats:
    """Return the factors for scores, divided by the largest possible, so that a score stays within 0..1."""
    days = _days_since(moments, now)
    if recency.form == "multiply":
        return (1.0 + recency.weight / (1.0 + days)) / (1.0 + recency.weight)
    limits, factors = zip(*_RECENCY_TIERS, strict=True)
    return np.array([*factors, 1.0])[np.searchsorted(limits, days)] / factors[0]


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


class Evidence(Struct, frozen=True):
    """
    The evidence that a query, and all that was found for it, gives for every hit.

    `terms` counts the words that the query is about. A `lookup` is a query of nothing else, or of an identifier: who
    types only a word wants what has it. `background` is the similarity of what else was found, `word_background` its
    coverage, which counts in other scripts. Words of a query that is not `latin` are inflected, or not told apart from
    those of grammar.
    """

    terms: int
    lookup: bool
    latin: bool
    background: float
    word_background: float

    @classmethod
    def of(
        cls, query: Query, similarities: Floats, coverage: Floats, owners: Sequence[str | int] | None = None
    ) -> "Evidence":
        """The numbers are those of all candidates; `owners` their documents, each of which counts once."""
        latin = is_mostly_latin(query.text)
        return cls(
            len(query.terms),
            not query.stopwords or any(term.exact for term in query.terms),
            latin,
            _mean_of_others(similarities, owners, _USUAL_SIMILARITY, _PRIOR_WEIGHT),
            0.0 if latin else _mean_of_others(coverage, owners, _USUAL_COVERAGE, _COVERAGE_PRIOR_WEIGHT),
        )

    def of_words(self, coverage: Floats) -> Floats:
        """Return what the query's words in texts are worth, 0..1; next to nothing where half of them are missing."""
        return coverage**4 if self.lookup or self.terms > 1 else np.zeros_like(coverage)


def _mean_of_others(values: Floats, owners: Sequence[str | int] | None, usual: float, prior_weight: int) -> float:
    """Return the mean of what is found behind the best; of a small store little else is found, and the usual counts."""
    # As many as are found for the shortest page: relevance must not depend on how many hits are asked for.
    places = np.argsort(-values, kind="stable")[: min(_COMPARED, np.count_nonzero(~np.isnan(values)))]
    best = values[places].tolist()
    if owners is not None:
        first: dict[str | int, float] = {}
        for place, value in zip(places.tolist(), best, strict=True):
            first.setdefault(owners[place], value)
        best = [*first.values()]
    others = best[_BEST : _BEST + _OTHERS]
    return float((sum(others) + prior_weight * usual) / (len(others) + prior_weight))


_COMPARED, _BEST, _OTHERS = 64, 5, 25  # candidates; of them, those that may be answers, and those behind them
_USUAL_SIMILARITY, _PRIOR_WEIGHT = 0.12, 10
_USUAL_COVERAGE, _COVERAGE_PRIOR_WEIGHT = 0.1, 5


class Features(NamedTuple):
    """The numbers that the relevance of hits is estimated from."""

    similarity: Floats
    standout: Floats  # the similarity above that of what else was found
    all_words: Floats
    lookup: Floats
    length: Floats  # a long text has something that resembles almost anything

    @classmethod
    def of(cls, similarity: Floats, coverage: Floats, lengths: Integers, evidence: Evidence) -> "Features":
        words = evidence.of_words(coverage)
        return cls(
            similarity,
            similarity - evidence.background,
            words * ((evidence.terms > 1) * evidence.terms / (evidence.terms + 1)),
            words * evidence.lookup,
            np.log(np.clip(lengths, _SHORTEST, _LONGEST) / _USUAL_LENGTH),
        )


def estimate_relevance(
    model: str | None, similarity: Floats, coverage: Floats, lengths: Integers, evidence: Evidence
) -> Floats:
    """
    Return the probability that memories are about the question, comparable between questions and stores.

    `coverage` is the share of the question's words that a memory has, rare ones counting for more. BM25 itself is of
    no use here: the same perfect match scores near 0 in a store of two memories and 10 in one of a thousand. A question
    that shrinks to one word ("how do I back up?") is not answered by every text with that word. The similarity of a
    model that was not calibrated is taken as it is; it is no number where a memory has no vector.
    """
    words = evidence.of_words(coverage)
    if model in RELEVANCE_MODELS:
        by_vector = RELEVANCE_MODELS[model].estimate(Features.of(similarity, coverage, lengths, evidence))
    else:
        by_vector = np.clip(np.maximum(similarity, _ALL_WORDS_RELEVANCE * words), 0.0, 1.0)
    return np.where(np.isnan(similarity), _estimate_by_words(coverage, words, evidence), by_vector)


def _estimate_by_words(coverage: Floats, words: Floats, evidence: Evidence) -> Floats:
    """Return the relevance of what words alone found."""
    if evidence.latin:
        known = np.where(words > 0, coverage, _ONE_WORD_SHARE * coverage)
        estimate = _logistic(_KEYWORD_RELEVANCE[0] + _KEYWORD_RELEVANCE[1] * known)
    else:
        standout = _logistic(_OTHER_SCRIPTS[0] + _OTHER_SCRIPTS[1] * (coverage - evidence.word_background))
        estimate = np.maximum(standout, _ALL_WORDS_RELEVANCE * (words > _ALL_WORDS))
    return np.where(coverage > 0, estimate, 0.0)


class RelevanceModel(Struct, frozen=True):
    """A logistic regression: its bias, and a weight for each of the features."""

    bias: float
    weights: tuple[float, ...]

    def estimate(self, features: Features) -> Floats:
        estimate = _logistic(sum(map(mul, self.weights, features), np.asarray(self.bias)))
        return np.maximum(estimate, _ALL_WORDS_RELEVANCE * features.lookup)


# Fitted by training/fit_relevance.py, judged on other data: docs/quality.md.
RELEVANCE_MODELS = {BUNDLED: RelevanceModel(-6.75, (11.89, 7.0, 5.9, 2.34, -0.98))}
_KEYWORD_RELEVANCE = (-3.6, 9.4)
_ONE_WORD_SHARE = 0.35
# The same where a word is rarely written as in the text, or its characters alone are found: what counts is how far a
# text stands out. Fitted on XQuAD in Russian, Chinese, Thai and English, judged on others: docs/quality.md.
_OTHER_SCRIPTS = (-3.9, 23.0)
_ALL_WORDS = 0.99
# A memory with every word that was looked up, such as a commit hash, is relevant whatever a language model makes of it.
_ALL_WORDS_RELEVANCE = 0.8
_USUAL_LENGTH, _SHORTEST, _LONGEST = 200, 30, 250  # characters


def _logistic(values: Floats) -> Floats:
    logistic: Floats = 1.0 / (1.0 + np.exp(-values))
    return logistic
