"""
Reranking: steps after fusion that change scores and order, each adding its change to the trace.

They are feedback of the best hits, the context of a session, a time that the query names, a cross-encoder that reads
the best candidates, and grouping by document.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from memorist.embed.base import Reranker
from memorist.errors import EmbedderError
from memorist.profiles import Profile
from memorist.records import Memory, Query
from memorist.search.fusion import Candidate, LoadMemories, Ranked, long_text_share
from memorist.search.signals import DAY
from memorist.text.dates import Period
from memorist.text.snippet import HighlightTerms, best_passage, strip_marks


def _rescore(entry: Ranked, step: str, score: float) -> Ranked:
    if score == entry.score:
        return entry
    change = entry.trace.get(step, 0.0) + score - entry.score  # a step may have run before the cross-encoder, too
    return entry._replace(score=score, trace={**entry.trace, step: change})


# Pseudo-relevance feedback: the query vector moved towards the best hits of a first ranking (Rocchio)

_FEEDBACK_HITS = 3  # added to the query, each weighted by its score


def pseudo_relevance_feedback(
    ranked: Sequence[Ranked], query_vector: NDArray[np.float32], weight: float
) -> list[Candidate]:
    """
    Return the candidates with the similarity each gains once the best hits are added to the query.

    Only long texts are expanded. What resembles a page on some subject is another page on it; what resembles a turn of
    a conversation is another turn with the same small talk.
    """
    candidates = [entry.candidate for entry in ranked]
    weight *= long_text_share(candidates)
    vectors = {candidate.key: vector for candidate in candidates if (vector := candidate.row.vector) is not None}
    best = [entry for entry in ranked[:_FEEDBACK_HITS] if entry.candidate.key in vectors and entry.score > 0.0]
    if not weight or not best:
        return candidates
    row_of = {key: row for row, key in enumerate(vectors)}
    matrix = np.concatenate([*vectors.values()]).reshape(len(vectors), -1).astype(np.float64)
    shares = np.array([entry.score for entry in best])
    feedback = (shares / shares.sum()) @ matrix[[row_of[entry.candidate.key] for entry in best]]
    expanded = query_vector + weight * feedback
    # Row by row in double: the gain of one candidate must not depend on which others are beside it.
    gains = np.einsum("ij,j->i", matrix, expanded / np.linalg.norm(expanded) - query_vector).tolist()
    return [
        candidate._replace(feedback_gain=gains[row_of[candidate.key]]) if candidate.key in row_of else candidate
        for candidate in candidates
    ]


# Session context: a turn's score is smoothed over the turns next to it in its session

_DISTANCE_WEIGHTS = ((1, 1.0), (2, 0.5))  # how many turns away, and how much a turn there counts
_UNSMOOTHED_CHARACTERS = 240  # longer texts need less context, and are smoothed less


def smooth_scores(ranked: Sequence[Ranked], share: float) -> list[Ranked]:
    """
    Reorder what was said in sessions by its own score plus a `share` of its neighbours'; leave the rest in place.

    A short turn ("It is make ship.") is understood by the turns beside it. Turns exchange places and scores only among
    themselves, so notes are neither raised nor lowered. Neighbours are known by their positions in the session: others
    may have written in between.
    """
    turns = {entry.candidate.key: entry for entry in ranked if entry.candidate.row.session is not None}
    if share == 0.0 or len(turns) < 2:
        return list(ranked)
    scores = {
        (row.session, row.position): entry.score
        for entry in turns.values()
        if (row := entry.candidate.row).position is not None
    }

    def smoothed(entry: Ranked) -> float:
        own, total = entry.candidate.row, entry.score
        if own.position is None:
            return total
        need = min(1.0, _UNSMOOTHED_CHARACTERS / max(own.length, 1))
        for distance, weight in _DISTANCE_WEIGHTS:
            neighbours = ((own.session, own.position + step) for step in (-distance, distance))
            total += share * need * weight * max(scores.get(neighbour, 0.0) for neighbour in neighbours)
        return total

    reordered = iter(sorted(turns.values(), key=smoothed, reverse=True))  # stable: ties keep their order
    return [
        _rescore(next(reordered), "session", entry.score) if entry.candidate.key in turns else entry for entry in ranked
    ]


# Time: a question that names a time prefers memories from that time

_MIN_BLUR = 2 * DAY  # an event is often told a day later, and planned some days before
_BLUR = 0.25  # of a longer period: people are vague about a month's first and last days


def boost_by_time(ranked: Sequence[Ranked], periods: Sequence[Period], weight: float) -> list[Ranked]:
    """
    Raise the scores of memories from one of the periods, and sort by score again.

    A score only rises, and the less the higher it is. So a clearly better answer stays before one from the right time,
    and no threshold removes what it let through before.
    """
    if weight == 0.0 or not periods:
        return list(ranked)
    boosted = []
    for entry in ranked:
        nearest = max(period_weight(entry.candidate.row.created_at, period) for period in periods)
        gain = weight * nearest * entry.score * (1.0 - entry.score)
        boosted.append(_rescore(entry, "time", entry.score + gain) if gain >= 1e-9 else entry)
    return sorted(boosted, key=lambda entry: -entry.score)  # stable: ties keep their order


def period_weight(moment: float, period: Period) -> float:
    """Return 1 for a time within a period, falling to 0 with its distance from it."""
    start, end = period.start.timestamp(), period.end.timestamp()
    distance = max(start - moment, moment - end, 0.0)
    return math.exp(-distance / max(_MIN_BLUR, _BLUR * (end - start)))


# A cross-encoder reads the best candidates, and its scores are blended with those of fusion

_PASSAGE_WORDS = 60  # of a memory that are read; most notes and turns are shorter
_PARTIAL_READ_EXPONENT = 2.5  # how fast a score loses weight with the share of a memory that was read
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
    profile: Profile,
    load_memories: LoadMemories,
) -> tuple[list[Ranked], str | None]:
    """
    Read query and passage together and rank again; return also why not, where the reranker failed.

    `periods` are those the query names: the reranker does not see when a text is from, so they are applied again.
    """
    memories = load_memories(ranked[: profile.rerank_depth])
    best, terms = [entry for entry in ranked if entry.candidate.key in memories], HighlightTerms.of(query)
    passages = [_passage_to_read(memories[entry.candidate.key], entry.candidate.row.passage, terms) for entry in best]
    seconds = profile.rerank_ms / 1000 if profile.rerank == "auto" else math.inf
    try:
        scores = reranker.score_passages(query.text, [text for text, _ in passages], seconds)
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
    part was read get less: the full weight everywhere loses nDCG@10 on abstracts. What was not read stays behind, with
    lower scores.
    """
    read = [entry for entry in ranked if entry.candidate.key in scores]
    rest = [entry for entry in ranked if entry.candidate.key not in scores]
    if not read:
        return rest
    weight *= fmean(scores[entry.candidate.key].share_read ** _PARTIAL_READ_EXPONENT for entry in read)
    top = max(entry.score for entry in read) or 1.0
    blended = [
        _rescore(entry, "rerank", (1.0 - weight) * (entry.score / top) + weight * scores[entry.candidate.key].score)
        for entry in read
    ]
    blended.sort(key=lambda entry: -entry.score)  # stable: ties keep their order
    lowest = blended[-1].score
    top_of_rest = max((entry.score for entry in rest), default=0.0) or 1.0
    return [*blended, *(_rescore(entry, "rerank", min(1.0, entry.score / top_of_rest) * lowest) for entry in rest)]


def _passage_to_read(memory: Memory, nearest: tuple[int, int] | None, terms: HighlightTerms) -> tuple[str, float]:
    """Return the passage that fits the query best, under its title, and the share of the memory it is."""
    text = strip_marks(best_passage(memory.content, terms, _PASSAGE_WORDS, nearest).text)
    share = min(1.0, len(text) / len(memory.content))
    return f"{memory.title}\n{text}" if memory.title else text, share


# Documents: one hit for each, its best passage

# How much each further passage of a document counts, relative to the one before it. Chosen on 24 questions about the
# Kubernetes documentation: the right page is first for half of them instead of 29 %.
FURTHER_PASSAGE_DECAY = 0.7


def group_by_document(
    ranked: Sequence[Ranked], documents: Mapping[int, str], decay: float = FURTHER_PASSAGE_DECAY
) -> list[Ranked]:
    """
    Keep the best passage of each document, and whatever is in none, best first; `documents` maps keys to documents.

    A page about a subject mentions it in more than one passage. So further passages raise the score of the best one, as
    independent evidence raises a probability: never beyond 1.
    """
    best: dict[str | int, Ranked] = {}
    missing: dict[str | int, float] = {}  # to a score of 1
    share: dict[str | int, float] = {}
    for entry in ranked:
        key = entry.candidate.key
        document: str | int = documents.get(key, key)
        best.setdefault(document, entry)
        missing[document] = missing.get(document, 1.0) * (1 - share.setdefault(document, 1.0) * entry.score)
        share[document] *= decay
    grouped = []
    for document, entry in best.items():
        score = 1 - missing[document]
        is_raised = score - entry.score > 1e-12  # less is but rounding
        grouped.append(_rescore(entry, "further passages", score) if is_raised else entry)
    return sorted(grouped, key=lambda entry: -entry.score)
