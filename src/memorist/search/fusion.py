"""What a lens makes count for more.

Fusion: two ranked legs in, one ranked list out. Pure functions; every score keeps the trace of how it came about.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from memorist.profiles import Profile
from memorist.search.signals import confidence_factor, decayed, recency_bonus, recency_factor

Boosts = Mapping[str, Mapping[str, float]]


def factor(boosts: Boosts, values: Mapping[str, Iterable[str]]) -> float:
    """
    What a score is multiplied by: for each boosted field the strongest boost of the values a memory has there.

    Divided by the most it can be, so that a score stays within 0..1 and two boosted memories keep their order.
    """
    product = 1.0
    for field, by_value in boosts.items():
        most = max(1.0, *by_value.values()) if by_value else 1.0
        mine = [by_value[value] for value in values.get(field, ()) if value in by_value]
        product *= (max(mine) if mine else 1.0) / most
    return product


# What a memory with all words of the query has ahead of those with some; half puts them first. Measured with alpha.
WHOLE_SHARE = 0.5
# How much a missing word costs. With 1, a question that shares no word with its answer is answered by chance matches.
# A long text that answers lacks more of the words, because it says them in its own way.
STRICTNESS, STRICTNESS_LONG = 1.5, 1.0
FIRST = 20  # of each leg, that tell how long the texts of a store are
SHORT_TEXT, LONG_TEXT = 200, 800  # characters; between them, what holds for the one turns into what holds for the other
ABS10 = 10.0  # BM25 of about 10 is a very good match in a store of some thousand memories (ccmemory, AgentStack)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory some leg found, with what ranking may look at. A leg that did not find it has no rank."""

    key: int
    bm25: float | None = None
    keyword_rank: int | None = None
    has_all_words: bool = False  # it has all words of the query
    coverage: float = 1.0  # which share of them it has, rare ones counting for more
    similarity: float | None = None
    origin: float = 0.0  # the similarity that its model gives to what has nothing to do with the query
    vector_rank: int | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    accessed_at: float | None = None
    reinforced_at: float | None = None
    salience: float = 0.5
    sector: str = "semantic"
    kind: str | None = None
    source: str | None = None
    tags: tuple[str, ...] = ()
    superseded: bool = False
    confidence: float = 1.0
    session: str | None = None  # the one it was created in
    position: int | None = None  # its place among those created there
    length: int = 0  # of its content, in characters
    likeness: float = 0.0  # how much nearer it is to the question with the best answers added: `rank.expand`


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate's score, 0..1. The values of `trace` add up to it; `raw` has the numbers before scaling."""

    candidate: Candidate
    score: float
    trace: Mapping[str, float]
    raw: Mapping[str, float]


@dataclass(slots=True)
class _ScoreBuilder:
    """A score under construction."""

    candidate: Candidate
    trace: dict[str, float]
    raw: dict[str, float]
    group: int = 0

    def multiply(self, step: str, factor: float) -> None:
        if factor != 1.0:
            self.trace[step] = math.fsum(self.trace.values()) * (factor - 1.0)

    def ranked(self) -> Ranked:
        """The finished score: the sum of the trace, held within 0..1."""
        total = math.fsum(self.trace.values())
        score = min(1.0, max(0.0, total))
        if score != total:
            self.trace["clamp"] = score - total
        return Ranked(self.candidate, score, self.trace, self.raw)


NO_BOOSTS: Boosts = {}


def rank(candidates: Sequence[Candidate], profile: Profile, now: float, boosts: Boosts = NO_BOOSTS) -> list[Ranked]:
    """All candidates worth anything, best first. The order is total: score, then newer, then lower key."""
    order: list[tuple[tuple[float, ...], Ranked]] = []
    for tally in _FUSIONS[profile.fusion](candidates, profile, now):
        candidate = tally.candidate
        tally.multiply("sector", profile.sector_boosts.get(candidate.sector, 1.0))
        tally.multiply("superseded", profile.superseded_factor if candidate.superseded else 1.0)
        tally.multiply("recency", recency_factor(profile.recency, _dated(candidate, profile), now))
        tally.multiply("confidence", confidence_factor(profile, candidate.confidence))
        tally.multiply("lens", factor(boosts, _boostable(candidate)) if boosts else 1.0)
        ranked = tally.ranked()
        order.append(((-ranked.score, tally.group, -candidate.created_at, candidate.key), ranked))
    order.sort(key=lambda entry: entry[0])
    return [ranked for _, ranked in order]


def _convex(candidates: Sequence[Candidate], profile: Profile, now: float) -> list[_ScoreBuilder]:
    """
    (1 - alpha) * scaled BM25 * coverage ** strictness + alpha * (nearness + likeness).

    Scaled by the best alone, a chance match of one word would count as much as a perfect match when there is no other;
    coverage tells the two apart, whatever the size of the store.
    """
    alpha = 0.5 if profile.alpha is None else profile.alpha
    long = longness(candidates)
    alpha += long * ((alpha if profile.alpha_long is None else profile.alpha_long) - alpha)
    strictness = STRICTNESS + long * (STRICTNESS_LONG - STRICTNESS)
    near = _cosine if alpha == 1.0 else _nearness  # alone, a cosine is on nobody's scale but its own
    scaled = _scaled_bm25(candidates, profile.bm25_norm)
    tallies = []
    for candidate in candidates:
        if (candidate.keyword_rank and alpha < 1.0) or (candidate.vector_rank and alpha > 0.0):
            keyword = (1.0 - alpha) * scaled.get(candidate.key, 0.0) * candidate.coverage**strictness
            trace = {"keyword": keyword, "vector": alpha * near(candidate)}
            if candidate.likeness:
                trace["likeness"] = alpha * candidate.likeness
            tallies.append(_ScoreBuilder(candidate, trace, _raw(candidate)))
    return tallies


def longness(candidates: Sequence[Candidate]) -> float:
    """
    How long what was found is for the most part: 0 where it is notes and turns, 1 where it is pages.

    Only the first of each leg are looked at: what an answer is like must not depend on how many are wanted.
    """
    first = [
        candidate.length
        for candidate in candidates
        if (candidate.keyword_rank or FIRST + 1) <= FIRST or (candidate.vector_rank or FIRST + 1) <= FIRST
    ]
    typical = median(first) if first else 0.0
    return min(1.0, max(0.0, (typical - SHORT_TEXT) / (LONG_TEXT - SHORT_TEXT)))


def _rrf(candidates: Sequence[Candidate], profile: Profile, now: float) -> list[_ScoreBuilder]:
    """
    Reciprocal rank fusion: the sum of weight / (k + rank), divided by the most it can be.

    k = 60: Cormack, Clarke & Buettcher, SIGIR 2009. With `missing = "penalty"` a leg that ran but did not find a
    candidate counts it one place behind its last.
    """
    weights = (1.0, 1.0) if profile.alpha is None else (1.0 - profile.alpha, profile.alpha)
    behind = (
        _last(candidate.keyword_rank for candidate in candidates) + 1,
        _last(candidate.vector_rank for candidate in candidates) + 1,
    )
    most = sum(weight for weight, last in zip(weights, behind, strict=True) if last > 1) / (profile.k + 1)
    tallies = []
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
        tallies.append(_ScoreBuilder(candidate, trace, _raw(candidate) | {"rrf": math.fsum(parts)}))
    return tallies


def _linear(candidates: Sequence[Candidate], profile: Profile, now: float) -> list[_ScoreBuilder]:
    """A weighted sum of what the legs say, salience and recency."""
    weights = profile.weights
    scaled = _scaled_bm25(candidates, profile.bm25_norm)
    tallies = []
    for candidate in candidates:
        trace = {
            "vector": weights.semantic * _nearness(candidate),
            "keyword": weights.keyword * scaled.get(candidate.key, 0.0),
            "salience": weights.salience * _salience(candidate, profile, now),
        }
        if profile.recency.form == "add":
            trace["recency"] = weights.recency * recency_bonus(profile.recency, _dated(candidate, profile), now)
        tallies.append(_ScoreBuilder(candidate, trace, _raw(candidate) | {"sum": math.fsum(trace.values())}))
    return tallies


def _vector_first(candidates: Sequence[Candidate], profile: Profile, now: float) -> list[_ScoreBuilder]:
    """
    What the vector leg found by similarity, then what only the keyword leg found.

    The tail's scores are scaled below the lowest of the head, so that the order is also the order of the scores.
    With `strict_fallback` there is a tail only where there is no head.
    """
    head = [candidate for candidate in candidates if candidate.vector_rank]
    tail = [candidate for candidate in candidates if not candidate.vector_rank and candidate.keyword_rank]
    if head and profile.strict_fallback:
        tail = []
    ceiling = min((_cosine(candidate) for candidate in head), default=1.0)
    scaled = _scaled_bm25(tail, profile.bm25_norm)
    return [
        *(_ScoreBuilder(candidate, {"vector": _cosine(candidate)}, _raw(candidate)) for candidate in head),
        *(
            _ScoreBuilder(candidate, {"keyword": ceiling * scaled[candidate.key]}, _raw(candidate), 1)
            for candidate in tail
        ),
    ]


_FUSIONS: dict[str, Callable[[Sequence[Candidate], Profile, float], list[_ScoreBuilder]]] = {
    "convex": _convex,
    "rrf": _rrf,
    "linear": _linear,
    "vector_first": _vector_first,
}


def _scaled_bm25(candidates: Sequence[Candidate], norm: str) -> dict[int, float]:
    """BM25 on a scale of 0..1, never falling where BM25 rises."""
    found = {candidate.key: candidate.bm25 for candidate in candidates if candidate.bm25 is not None}
    most = max(found.values(), default=0.0)
    if norm == "abs10":
        return {key: min(1.0, score / ABS10) for key, score in found.items()}
    if norm == "tanh10":
        return {key: math.tanh(score / ABS10) for key, score in found.items()}
    if norm == "minmax":
        least = min(found.values(), default=0.0)
        return {key: (score - least) / (most - least) if most > least else 1.0 for key, score in found.items()}
    if norm == "rank":
        places = {c.key: c.keyword_rank for c in candidates if c.keyword_rank}
        return {key: 1.0 / place for key, place in places.items()}
    scaled = {key: score / most if most > 0 else 0.0 for key, score in found.items()}
    whole = {candidate.key for candidate in candidates if candidate.has_all_words}
    if not whole:
        return scaled
    return {key: WHOLE_SHARE * (key in whole) + (1 - WHOLE_SHARE) * score for key, score in scaled.items()}


def _dated(candidate: Candidate, profile: Profile) -> float:
    if profile.recency.on == "accessed" and candidate.accessed_at is not None:
        return candidate.accessed_at
    return candidate.updated_at if profile.recency.on == "updated" else candidate.created_at


def _salience(candidate: Candidate, profile: Profile, now: float) -> float:
    """What is left of its salience: computed when read, never written back."""
    if candidate.reinforced_at is None:
        return candidate.salience
    return decayed(candidate.salience, profile.sector_decay.get(candidate.sector, 0.0), candidate.reinforced_at, now)


def _boostable(candidate: Candidate) -> dict[str, tuple[str, ...]]:
    return {
        "sector": (candidate.sector,),
        "kind": (candidate.kind,) if candidate.kind else (),
        "source": (candidate.source,) if candidate.source else (),
        "tag": candidate.tags,
    }


def _cosine(candidate: Candidate) -> float:
    return min(1.0, max(0.0, candidate.similarity or 0.0))


def _nearness(candidate: Candidate) -> float:
    """The cosine on a scale of 0..1 that begins where the model's noise ends."""
    return max(0.0, (_cosine(candidate) - candidate.origin) / (1.0 - candidate.origin))


def _raw(candidate: Candidate) -> dict[str, float]:
    raw = {"bm25": candidate.bm25, "cosine": candidate.similarity}
    return {name: value for name, value in raw.items() if value is not None}


def _last(ranks: Iterable[int | None]) -> int:
    return max((rank for rank in ranks if rank), default=0)
