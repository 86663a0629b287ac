"""Reranking: a cross-encoder reads the best candidates, and its scores are blended with those of fusion."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from memorist.embed.reranker import Reranker
from memorist.errors import EmbedderError
from memorist.profiles import Profile
from memorist.records import Query, Row
from memorist.search.candidates import Candidates
from memorist.search.fusion import Ranked
from memorist.search.session_context import smooth_scores
from memorist.search.temporal import boost_by_time
from memorist.text.dates import Period
from memorist.text.snippet import HighlightTerms, best_passage, strip_marks

_PASSAGE_WORDS = 60  # of a memory that are read; most notes and turns are shorter
_PARTIAL_READ_EXPONENT = 1.5  # how fast a score loses weight with the share of a memory that was read
_SECOND_SMOOTHING = 0.5  # of the first; a score from reading needs less context


@dataclass(frozen=True, slots=True)
class RerankScore:
    """The score of a passage, 0..1, and the share of its memory that the passage is."""

    score: float
    share_read: float


def rerank(
    reranker: Reranker,
    query: Query,
    periods: Sequence[Period],
    ranked: Sequence[Ranked],
    candidates: Candidates,
    profile: Profile,
) -> tuple[list[Ranked], str | None]:
    """
    Read query and passage together and rank again; return also why not, where the reranker failed.

    `periods` are those the query names: the reranker does not see when a text is from, so they are applied again.
    """
    best, terms = ranked[: profile.rerank_depth], HighlightTerms.of(query)
    passages = [_passage_to_read(candidates.rows[entry.candidate.key], terms) for entry in best]
    try:
        scores = reranker.score_passages(query.text, [text for text, _ in passages], _time_limit(profile))
    except EmbedderError as exc:
        return list(ranked), f"not reranked: {exc}"
    read = {
        entry.candidate.key: RerankScore(score, share)
        for entry, score, (_, share) in zip(best, scores, passages, strict=True)
        if score is not None
    }
    blended = blend_scores(ranked, read, profile.rerank_weight)
    boosted = boost_by_time(blended[: len(read)], periods, profile.time_boost)
    return smooth_scores([*boosted, *blended[len(read) :]], profile.session_smoothing * _SECOND_SMOOTHING), None


def blend_scores(ranked: Sequence[Ranked], scores: Mapping[int, RerankScore], weight: float) -> list[Ranked]:
    """
    Sort what was read by both scores, followed by the rest as it was; `scores` are by key.

    A passage speaks for its memory only as far as it goes: whole memories get the full `weight`, long texts of which a
    part was read get less. (The full weight everywhere gains a little on conversations and loses .03 of nDCG@10 on
    Cranfield's abstracts; with the plain share it still loses .008.) What was not read stays behind, with lower scores.
    """
    read = [entry for entry in ranked if entry.candidate.key in scores]
    rest = [entry for entry in ranked if entry.candidate.key not in scores]
    if not read:
        return rest
    weight *= fmean(scores[entry.candidate.key].share_read ** _PARTIAL_READ_EXPONENT for entry in read)
    top = max(entry.score for entry in read) or 1.0
    blended = [
        _with_score(entry, (1.0 - weight) * (entry.score / top) + weight * scores[entry.candidate.key].score)
        for entry in read
    ]
    blended.sort(key=lambda entry: -entry.score)  # stable: ties keep their order
    lowest = blended[-1].score
    top_of_rest = max((entry.score for entry in rest), default=0.0) or 1.0
    return [*blended, *(_with_score(entry, min(1.0, entry.score / top_of_rest) * lowest) for entry in rest)]


def _with_score(entry: Ranked, score: float) -> Ranked:
    return replace(entry, score=score, trace={**entry.trace, "rerank": score - entry.score})


def _passage_to_read(row: Row, terms: HighlightTerms) -> tuple[str, float]:
    """Return the passage that fits the query best, under its title, and the share of the memory it is."""
    memory = row.memory()
    text = strip_marks(best_passage(memory.content, terms, _PASSAGE_WORDS, row.passage).text)
    share = min(1.0, len(text) / len(memory.content))
    return f"{memory.title}\n{text}" if memory.title else text, share


def _time_limit(profile: Profile) -> float:
    """Return the seconds that reading may take; only `auto` has a limit."""
    return profile.rerank_ms / 1000 if profile.rerank == "auto" else math.inf
