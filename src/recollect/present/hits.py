"""From ranked rows to hits: thresholds, the passage that shows why, and how relevant it really is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recollect.present.snippet import Needles, passage
from recollect.profiles import MatchWords, Profile
from recollect.rank.fuse import Ranked
from recollect.rank.signals import relevance
from recollect.records import Hit, Memory, Query, Row


@dataclass(frozen=True, slots=True)
class PageOfHits:
    hits: tuple[Hit, ...]
    hidden: Mapping[str, int]


def page(ranked: Sequence[Ranked], rows: Mapping[int, Row], query: Query, profile: Profile) -> PageOfHits:
    """The best that pass every threshold, up to the limit; what a threshold held back before that is counted."""
    needles = Needles.of(query)
    hidden: Counter[str] = Counter()
    hits: list[Hit] = []
    for entry in ranked:
        if len(hits) == profile.limit:
            break
        failed = _below(entry, profile)
        if failed is None:
            hit = _hit(entry, rows[entry.candidate.key].memory(), needles, profile)
            if profile.min_relevance is None or hit.relevance >= profile.min_relevance:
                hits.append(hit)
                continue
            failed = "min_relevance"
        hidden[failed] += 1
    return PageOfHits(tuple(hits), dict(hidden))


def _below(entry: Ranked, profile: Profile) -> str | None:
    """The threshold this candidate does not reach, if any. (`min_similarity` and `min_salience` act in the legs.)"""
    if profile.min_score is not None and entry.score < profile.min_score:
        return "min_score"
    if profile.min_confidence is not None and entry.candidate.confidence < profile.min_confidence:
        return "min_confidence"
    return None


def _hit(entry: Ranked, memory: Memory, needles: Needles, profile: Profile) -> Hit:
    candidate = entry.candidate
    shown = passage(memory.content, needles, profile.snippet_words)
    by_keyword = candidate.keyword_rank is not None
    # A neighbour at a right angle or beyond is no find where words already found it.
    by_vector = candidate.vector_rank is not None and (not by_keyword or (candidate.similarity or 0.0) > 0.0)
    return Hit(
        memory=memory,
        score=entry.score,
        relevance=relevance(candidate.similarity, candidate.coverage if by_keyword else 0.0),
        match=_match(by_keyword, by_vector, profile.match_words),
        snippet=shown.text,
        highlights=shown.highlights if by_keyword else (),
        keyword_score=candidate.bm25,
        similarity=candidate.similarity,
        confidence=candidate.confidence,
        trace=entry.trace,
        raw=entry.raw,
    )


def _match(by_keyword: bool, by_vector: bool, words: MatchWords | None) -> tuple[str, ...]:
    if words is None:
        return tuple(leg for leg, found in (("keyword", by_keyword), ("vector", by_vector)) if found)
    return (words.both if by_keyword and by_vector else words.keyword if by_keyword else words.vector,)
