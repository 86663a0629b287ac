"""Fusion: two ranked legs in, one ranked list out. Pure functions; every score keeps the trace that adds up to it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from memorist.profiles import Profile
from memorist.records import ASSISTANT, Match, Memory, Row
from memorist.search.signals import confidence_factor, decay, recency_factor

Boosts = Mapping[str, Mapping[str, float]]


def _lens_factor(boosts: Boosts, row: Row) -> float:
    """
    Return the factor of a lens: for each boosted field the strongest boost among the values a memory has there.

    It is divided by the largest possible, so that a score stays within 0..1 and two boosted memories keep their order.
    """
    values = {"sector": (row.sector,), "kind": (row.kind,), "source": (row.source,), "tag": row.tags}
    product = 1.0
    for field, by_value in boosts.items():
        most = max(1.0, *by_value.values()) if by_value else 1.0
        mine = [by_value[value] for value in values.get(field, ()) if value and value in by_value]
        product *= (max(mine) if mine else 1.0) / most
    return product


# The lead of a memory with all words of the query over those with some, where words alone are searched.
_ALL_WORDS_SHARE = 0.5
_CLARITY_RANK = 10  # the places behind the best at which a leg's score tells how far the best stands out
# How much a missing word costs. With 1, a question that shares no word with its answer is answered by chance matches.
# A long text that answers lacks more of the words, because it says them in its own way.
_STRICTNESS, _STRICTNESS_LONG = 1.5, 1.0
_LENGTH_SAMPLE = 20  # candidates of each leg that decide how long the texts of a store are
_SHORT_TEXT, _LONG_TEXT = 200, 800  # characters; options for short and long texts are mixed between them
_ABS10 = 10.0  # BM25 of about 10 is a very good match in a store of some thousand memories (ccmemory, AgentStack)


class Candidate(NamedTuple):
    """A memory that a leg found, with all that ranking looks at. The rank of a leg that did not find it is None."""

    row: Row
    match: Match | None = None  # of the keyword leg
    keyword_rank: int | None = None
    vector_rank: int | None = None
    confidence: float = 1.0
    feedback_gain: float = 0.0  # of similarity, once the best hits are added to the query: `search.rerank`

    @property
    def key(self) -> int:
        return self.row.key

    @property
    def coverage(self) -> float:
        """The share of the query's words that it has, rare ones counting for more."""
        return self.match.coverage if self.match else 0.0


class Ranked(NamedTuple):
    """A candidate's score, 0..1. The values of `trace` add up to it; a fusion adds numbers of its own to `raw`."""

    candidate: Candidate
    score: float
    trace: Mapping[str, float]
    fused: Mapping[str, float] | None = None

    @property
    def raw(self) -> dict[str, float]:
        """The numbers before scaling."""
        match, similarity = self.candidate.match, self.candidate.row.similarity
        raw = {"bm25": match.score} if match else {}
        if similarity is not None:
            raw["cosine"] = similarity
        return {**raw, **(self.fused or {})}


LoadMemories = Callable[[Sequence[Ranked]], Mapping[int, Memory]]  # by key, without those that have changed since


class _Fused(NamedTuple):
    """A candidate with the beginning of its trace. Groups follow one another, of equal scores."""

    candidate: Candidate
    trace: dict[str, float]
    fused: Mapping[str, float] | None = None
    group: int = 0


def rank_candidates(
    candidates: Sequence[Candidate], profile: Profile, now: float, boosts: Boosts | None = None
) -> list[Ranked]:
    """Rank the candidates, best first. The order is total: score, then less unlike, newer, lower key."""
    order: list[tuple[float, int, float, float, int, Ranked]] = []
    factors = list(_list_factors(candidates, profile, now, boosts))
    for candidate, trace, fused, group in _FUSIONS[profile.fusion](candidates, profile, now):
        for step, factor in factors:
            if (value := factor(candidate)) != 1.0:
                trace[step] = math.fsum(trace.values()) * (value - 1.0)
        total = math.fsum(trace.values())
        score = min(1.0, max(0.0, total))
        if score != total:
            trace["clamp"] = score - total
        row = candidate.row
        unlike = max(0.0, -(row.similarity or 0.0))  # a cosine below 0 adds nothing to a score, but it has an order
        ranked = Ranked(candidate, score, trace, fused)
        order.append((-score, group, unlike, -row.created_at, row.key, ranked))  # no two keys are equal
    return [ranked for *_, ranked in sorted(order)]


def _list_factors(
    candidates: Sequence[Candidate], profile: Profile, now: float, boosts: Boosts | None
) -> Iterator[tuple[str, Callable[[Candidate], float]]]:
    """Yield the steps that multiply a score, in order; those that change none cost no time."""
    if profile.sector_boosts:
        yield "sector", lambda found: profile.sector_boosts.get(found.row.sector, 1.0)
    if any(found.row.superseded for found in candidates):
        yield "superseded", lambda found: profile.superseded_factor if found.row.superseded else 1.0
    if profile.assistant_factor != 1.0 and any(found.row.role == ASSISTANT for found in candidates):
        yield "assistant", lambda found: profile.assistant_factor if found.row.role == ASSISTANT else 1.0
    if profile.recency.form in ("multiply", "tiers"):
        yield "recency", lambda found: recency_factor(profile.recency, _reference_time(found.row, profile), now)
    if profile.confidence_mode != "off":
        yield "confidence", lambda found: confidence_factor(profile, found.confidence)
    if boosts:
        yield "lens", lambda found: _lens_factor(boosts, found.row)


def _fuse_convex(candidates: Sequence[Candidate], profile: Profile, now: float) -> list[_Fused]:
    """
    Score by (1 - a) * scaled BM25 * coverage ** strictness + a * (cosine + feedback gain), where a is the vector leg's
    share.

    BM25 is scaled by its best score alone, so a chance match of one word would count as much as a perfect match where
    there is no other; coverage tells the two apart, whatever the size of the store.
    """
    alpha = 0.5 if profile.alpha is None else profile.alpha
    share = _vector_share(candidates, alpha) if profile.weigh_by_clarity else alpha
    strictness = _STRICTNESS + long_text_share(candidates) * (_STRICTNESS_LONG - _STRICTNESS)
    scaled = _scale_bm25(candidates, profile.bm25_norm, whole_first=share == 0.0)
    fused = []
    for candidate in candidates:
        # A leg that counts for nothing, because all its matches are alike, has found them all the same.
        if (candidate.keyword_rank and alpha < 1.0) or (candidate.vector_rank and alpha > 0.0):
            match, keyword = candidate.match, 0.0
            if match:
                keyword = (1.0 - share) * scaled.get(match.key, 0.0) * match.coverage**strictness
            trace = {"keyword": keyword, "vector": share * _cosine(candidate)}
            if candidate.feedback_gain:
                trace["expansion"] = share * candidate.feedback_gain
            fused.append(_Fused(candidate, trace))
    return fused


def _vector_share(candidates: Sequence[Candidate], alpha: float) -> float:
    """Return the weight of the vector leg: more than `alpha` where its best stands out further than the words' best."""
    keyword = (1.0 - alpha) * _clarity([candidate.match.score for candidate in candidates if candidate.match])
    vector = alpha * _clarity([candidate.row.similarity or 0.0 for candidate in candidates])
    return vector / (keyword + vector) if keyword + vector > 0.0 else alpha


def _clarity(scores: Sequence[float]) -> float:
    """Return how far the best score stands out from the eleventh, as a share of it; 1 where there are not as many."""
    best = sorted(scores, reverse=True)[: _CLARITY_RANK + 1]
    if not best or best[0] <= 0.0:
        return 0.0
    other = max(0.0, best[_CLARITY_RANK]) if len(best) > _CLARITY_RANK else 0.0
    return 1.0 - other / best[0]


def long_text_share(candidates: Sequence[Candidate]) -> float:
    """
    Return how long the texts found are: 0 for notes and turns, 1 for pages.

    Only the first of each leg are looked at, so that the ranking does not depend on how many hits are asked for.
    """
    first = [
        candidate.row.length
        for candidate in candidates
        if (candidate.keyword_rank or _LENGTH_SAMPLE + 1) <= _LENGTH_SAMPLE
        or (candidate.vector_rank or _LENGTH_SAMPLE + 1) <= _LENGTH_SAMPLE
    ]
    typical = median(first) if first else 0.0
    return min(1.0, max(0.0, (typical - _SHORT_TEXT) / (_LONG_TEXT - _SHORT_TEXT)))


def _fuse_by_rank(candidates: Sequence[Candidate], profile: Profile, now: float) -> list[_Fused]:
    """
    Score by reciprocal rank: the sum of weight / (k + rank), divided by the largest possible.

    k = 60: Cormack, Clarke & Buettcher, SIGIR 2009. With `missing = "penalty"` a leg that ran but did not find a
    candidate ranks it one place behind its last.
    """
    weights = (1.0, 1.0) if profile.alpha is None else (1.0 - profile.alpha, profile.alpha)
    behind = (
        _last_rank(candidate.keyword_rank for candidate in candidates) + 1,
        _last_rank(candidate.vector_rank for candidate in candidates) + 1,
    )
    most = sum(weight for weight, last in zip(weights, behind, strict=True) if last > 1) / (profile.k + 1)
    fused = []
    for candidate in candidates:
        ranks = (candidate.keyword_rank, candidate.vector_rank)
        parts = [weight / (profile.k + place) if place else 0.0 for weight, place in zip(weights, ranks, strict=True)]
        if not any(parts):
            continue
        if profile.missing == "penalty":
            parts = [
                part or (weight / (profile.k + last) if last > 1 else 0.0)
                for part, weight, last in zip(parts, weights, behind, strict=True)
            ]
        trace = {"keyword": parts[0] / most, "vector": parts[1] / most}
        fused.append(_Fused(candidate, trace, {"rrf": math.fsum(parts)}))
    return fused


def _fuse_linear(candidates: Sequence[Candidate], profile: Profile, now: float) -> list[_Fused]:
    """Score by a weighted sum of both legs, salience and recency."""
    weights = profile.weights
    scaled = _scale_bm25(candidates, profile.bm25_norm)
    fused = []
    for candidate in candidates:
        row, rate = candidate.row, profile.sector_decay.get(candidate.row.sector, 0.0)
        trace = {
            "vector": weights.semantic * min(1.0, candidate.row.similarity or 0.0),  # below 0 it has an order, too
            "keyword": weights.keyword * scaled.get(candidate.key, 0.0),
            "salience": weights.salience * decay(row.salience, rate, row.reinforced_at, now),
        }
        if profile.recency.form == "add":
            since = _reference_time(row, profile)
            trace["recency"] = weights.recency * decay(1.0, profile.recency.rate, since, now)
        fused.append(_Fused(candidate, trace, {"sum": math.fsum(trace.values())}))
    return fused


def _fuse_vector_first(candidates: Sequence[Candidate], profile: Profile, now: float) -> list[_Fused]:
    """
    Put what the vector leg found first, by similarity, then what only the keyword leg found.

    The tail's scores are scaled below the lowest of the head, so that the order is also the order of the scores.
    With `strict_fallback` there is a tail only where there is no head.
    """
    head = [candidate for candidate in candidates if candidate.vector_rank]
    tail = [candidate for candidate in candidates if not candidate.vector_rank and candidate.keyword_rank]
    if head and profile.strict_fallback:
        tail = []
    ceiling = min((_cosine(candidate) for candidate in head), default=1.0)
    scaled = _scale_bm25(tail, profile.bm25_norm)
    return [
        *(_Fused(candidate, {"vector": _cosine(candidate)}) for candidate in head),
        *(_Fused(candidate, {"keyword": ceiling * scaled[candidate.key]}, group=1) for candidate in tail),
    ]


_FUSIONS: dict[str, Callable[[Sequence[Candidate], Profile, float], list[_Fused]]] = {
    "convex": _fuse_convex,
    "rrf": _fuse_by_rank,
    "linear": _fuse_linear,
    "vector_first": _fuse_vector_first,
}


def _scale_bm25(candidates: Sequence[Candidate], norm: str, *, whole_first: bool = True) -> dict[int, float]:
    """Scale BM25 to 0..1, monotonically; with `whole_first`, memories with all words have a lead."""
    matches = {candidate.key: candidate.match for candidate in candidates if candidate.match}
    found = {key: match.score for key, match in matches.items()}
    most = max(found.values(), default=0.0)
    if norm == "abs10":
        return {key: min(1.0, score / _ABS10) for key, score in found.items()}
    if norm == "tanh10":
        return {key: math.tanh(score / _ABS10) for key, score in found.items()}
    if norm == "minmax":
        least = min(found.values(), default=0.0)
        return {key: (score - least) / (most - least) if most > least else 1.0 for key, score in found.items()}
    if norm == "rank":
        return {candidate.key: 1.0 / candidate.keyword_rank for candidate in candidates if candidate.keyword_rank}
    scaled = {key: score / most if most > 0 else 0.0 for key, score in found.items()}
    whole = {key for key, match in matches.items() if match.has_all_words} if whole_first else set()
    if not whole:
        return scaled
    return {key: _ALL_WORDS_SHARE * (key in whole) + (1 - _ALL_WORDS_SHARE) * score for key, score in scaled.items()}


def _reference_time(row: Row, profile: Profile) -> float:
    if profile.recency.on == "accessed" and row.accessed_at is not None:
        return row.accessed_at
    times = {"updated": row.updated_at, "imported": row.recorded_at}
    return times.get(profile.recency.on, row.created_at)


def _cosine(candidate: Candidate) -> float:
    return min(1.0, max(0.0, candidate.row.similarity or 0.0))


def _last_rank(ranks: Iterable[int | None]) -> int:
    return max((rank for rank in ranks if rank), default=0)
