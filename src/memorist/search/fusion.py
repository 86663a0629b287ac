"""Fusion: two ranked legs in, one ranking out. Pure functions over arrays; every score keeps the trace that adds up."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from memorist.profiles.profile import Profile
from memorist.search.candidates import Candidates, Ranking
from memorist.search.signals import Boosts, decay, list_factors, look_up, reference_times
from memorist.store.ranking_columns import Flags, Floats, Integers

# The lead of a memory with all words of the query over those with some, where words alone are searched.
_ALL_WORDS_SHARE = 0.5
_CLARITY_RANK = 10  # the places behind the best at which a leg's score tells how far the best stands out
# How much a missing word costs. With 1, a question that shares no word with its answer is answered by chance matches.
# A long text that answers lacks more of the words, because it says them in its own way.
_STRICTNESS, _STRICTNESS_LONG = 1.5, 1.0
_LENGTH_SAMPLE = 20  # candidates of each leg that decide how long the texts of a store are
_SHORT_TEXT, _LONG_TEXT = 200, 800  # characters; options for short and long texts are mixed between them
_ABS10 = 10.0  # BM25 of about 10 is a very good match in a store of some thousand memories (ccmemory, AgentStack)


class _Fused(NamedTuple):
    """
    The beginning of a trace, which is no number where a leg has no part in a score.

    Candidates that are not `found` are left out; those of one of the `groups` are together where scores are equal.
    """

    trace: dict[str, Floats]
    found: Flags
    raw: Mapping[str, Floats] = MappingProxyType({})
    groups: Integers | None = None


def rank_candidates(
    candidates: Candidates, profile: Profile, now: float, boosts: Boosts | None = None, gains: Floats | None = None
) -> Ranking:
    """
    Rank the candidates, best first. The order is total: score, then less unlike, newer, lower key.

    `gains` are what similarities gain once the best hits are added to the query: `search.rerank`.
    """
    trace, found, raw, groups = _FUSIONS[profile.fusion](candidates, profile, now, gains)
    total = np.zeros(len(candidates))
    for part in trace.values():
        total = total + np.nan_to_num(part)
    for step, factor in list_factors(candidates.columns, candidates.confidence, profile, now, boosts):
        change = total * (factor - 1.0)
        trace[step] = np.where(factor != 1.0, change, np.nan)
        total = total + change
    scores = np.clip(total, 0.0, 1.0)
    trace["clamp"] = np.where(scores != total, scores - total, np.nan)
    columns, places = candidates.columns, np.flatnonzero(found)
    unlike = np.maximum(0.0, -np.nan_to_num(columns.similarity))  # below 0 it adds nothing, but it has an order
    ties = [columns.keys, -columns.created_at, unlike, *([] if groups is None else [groups]), -scores]
    order = np.lexsort([values[places] for values in ties])
    return Ranking(candidates, places[order], scores, trace, raw)


def _fuse_convex(candidates: Candidates, profile: Profile, now: float, gains: Floats | None) -> _Fused:
    """
    Score by (1 - a) * scaled BM25 * coverage ** strictness + a * (cosine + feedback gain), where a is the vector leg's
    share.

    BM25 is scaled by its best score alone, so a chance match of one word would count as much as a perfect match where
    there is no other; coverage tells the two apart, whatever the size of the store.
    """
    alpha = 0.5 if profile.alpha is None else profile.alpha
    share = _vector_share(candidates, alpha) if profile.weigh_by_clarity else alpha
    strictness = _STRICTNESS + long_text_share(candidates) * (_STRICTNESS_LONG - _STRICTNESS)
    scaled = _scale_bm25(candidates, candidates.is_matched, profile.bm25_norm, whole_first=share == 0.0)
    trace = {
        "keyword": (1.0 - share) * scaled * candidates.coverage**strictness,
        "vector": share * candidates.cosine,
    }
    if gains is not None:
        trace["expansion"] = np.where(gains != 0.0, share * gains, np.nan)
    # A leg that counts for nothing, because all its matches are alike, has found them all the same.
    found = (candidates.keyword_rank > 0) & (alpha < 1.0) | (candidates.vector_rank > 0) & (alpha > 0.0)
    return _Fused(trace, found)


def _vector_share(candidates: Candidates, alpha: float) -> float:
    """Return the weight of the vector leg: more than `alpha` where its best stands out further than the words' best."""
    keyword = (1.0 - alpha) * _clarity(candidates.bm25[candidates.is_matched])
    vector = alpha * _clarity(np.nan_to_num(candidates.columns.similarity))
    return vector / (keyword + vector) if keyword + vector > 0.0 else alpha


def _clarity(scores: Floats) -> float:
    """Return how far the best score stands out from the eleventh, as a share of it; 1 where there are not as many."""
    best = np.sort(scores)[::-1][: _CLARITY_RANK + 1].tolist()
    if not best or best[0] <= 0.0:
        return 0.0
    other = max(0.0, best[_CLARITY_RANK]) if len(best) > _CLARITY_RANK else 0.0
    return float(1.0 - other / best[0])


def long_text_share(candidates: Candidates) -> float:
    """
    Return how long the texts found are: 0 for notes and turns, 1 for pages.

    Only the first of each leg are looked at, so that the ranking does not depend on how many hits are asked for.
    """
    ranks = np.stack([candidates.keyword_rank, candidates.vector_rank])
    first = candidates.columns.lengths[((ranks > 0) & (ranks <= _LENGTH_SAMPLE)).any(axis=0)]
    typical = float(np.median(first)) if len(first) else 0.0
    return min(1.0, max(0.0, (typical - _SHORT_TEXT) / (_LONG_TEXT - _SHORT_TEXT)))


def _fuse_by_rank(candidates: Candidates, profile: Profile, now: float, gains: Floats | None) -> _Fused:
    """
    Score by reciprocal rank: the sum of weight / (k + rank), divided by the largest possible.

    k = 60: Cormack, Clarke & Buettcher, SIGIR 2009. With `missing = "penalty"` a leg that ran but did not find a
    candidate ranks it one place behind its last.
    """
    weights = (1.0, 1.0) if profile.alpha is None else (1.0 - profile.alpha, profile.alpha)
    ranks = (candidates.keyword_rank, candidates.vector_rank)
    last = [int(each.max(initial=0)) for each in ranks]
    most = sum(weight for weight, end in zip(weights, last, strict=True) if end) / (profile.k + 1) or 1.0
    parts = [np.where(each > 0, weight / (profile.k + each), 0.0) for weight, each in zip(weights, ranks, strict=True)]
    found = (parts[0] + parts[1]) > 0.0
    if profile.missing == "penalty":
        behind = [weight / (profile.k + end + 1) if end else 0.0 for weight, end in zip(weights, last, strict=True)]
        parts = [np.where(part > 0.0, part, each) for part, each in zip(parts, behind, strict=True)]
    return _Fused({"keyword": parts[0] / most, "vector": parts[1] / most}, found, {"rrf": parts[0] + parts[1]})


def _fuse_linear(candidates: Candidates, profile: Profile, now: float, gains: Floats | None) -> _Fused:
    """Score by a weighted sum of both legs, salience and recency."""
    columns, weights = candidates.columns, profile.weights
    rates = np.array(look_up(profile.sector_decay, columns.sectors, 0.0))
    trace = {
        "vector": weights.semantic * np.minimum(1.0, np.nan_to_num(columns.similarity)),  # below 0 it has an order, too
        "keyword": weights.keyword * _scale_bm25(candidates, candidates.is_matched, profile.bm25_norm),
        "salience": weights.salience * decay(columns.salience, rates, columns.reinforced_at, now),
    }
    if profile.recency.form == "add":
        since = reference_times(columns, profile)
        trace["recency"] = weights.recency * decay(np.ones(len(columns)), profile.recency.rate, since, now)
    total = np.sum([*trace.values()], axis=0)
    return _Fused(trace, np.ones(len(columns), np.bool_), {"sum": total})


def _fuse_vector_first(candidates: Candidates, profile: Profile, now: float, gains: Floats | None) -> _Fused:
    """
    Put what the vector leg found first, by similarity, then what only the keyword leg found.

    The tail's scores are scaled below the lowest of the head, so that the order is also the order of the scores.
    With `strict_fallback` there is a tail only where there is no head.
    """
    head = candidates.vector_rank > 0
    tail = ~head & (candidates.keyword_rank > 0)
    if profile.strict_fallback and head.any():
        tail = np.zeros(len(candidates), np.bool_)
    ceiling = candidates.cosine[head].min(initial=1.0)
    scaled = ceiling * _scale_bm25(candidates, tail, profile.bm25_norm)
    trace = {"vector": np.where(head, candidates.cosine, np.nan), "keyword": np.where(tail, scaled, np.nan)}
    return _Fused(trace, head | tail, groups=tail.astype(np.int64))


_FUSIONS: dict[str, Callable[[Candidates, Profile, float, Floats | None], _Fused]] = {
    "convex": _fuse_convex,
    "rrf": _fuse_by_rank,
    "linear": _fuse_linear,
    "vector_first": _fuse_vector_first,
}


def _scale_bm25(candidates: Candidates, among: Flags, norm: str, *, whole_first: bool = True) -> Floats:
    """
    Scale BM25 to 0..1, monotonically; it is 0 for what no word found, and for all that is not `among` these.

    With `whole_first`, memories with all words have a lead.
    """
    among = among & candidates.is_matched
    scores = np.where(among, candidates.bm25, 0.0)
    if norm == "abs10":
        return np.minimum(1.0, scores / _ABS10)
    if norm == "tanh10":
        return np.tanh(scores / _ABS10)
    if norm == "rank":
        return np.where(among, 1.0 / np.maximum(candidates.keyword_rank, 1), 0.0)
    most = scores.max(initial=0.0)
    if norm == "minmax":
        least = scores[among].min(initial=most)
        return np.where(among, (scores - least) / (most - least) if most > least else 1.0, 0.0)
    scaled = scores / most if most > 0.0 else scores
    whole = candidates.has_all_words & among
    if not whole_first or not whole.any():
        return scaled
    return np.where(among, _ALL_WORDS_SHARE * whole + (1 - _ALL_WORDS_SHARE) * scaled, 0.0)
