"""
Reranking: steps after fusion that change scores and order, each adding its change to the trace.

They are feedback of the best hits, the context of a session, a time that the query names, a cross-encoder that reads
the best candidates, and grouping by document.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist.embed.base import Reranker
from memorist.errors import EmbedderError
from memorist.profiles.profile import Profile
from memorist.records import Memory, Query
from memorist.search.candidates import Places, Ranking
from memorist.search.fusion import long_text_share
from memorist.search.signals import DAY
from memorist.store.ranking_columns import Flags, Floats, Integers
from memorist.store.vector_scan import decode
from memorist.text.dates import Period
from memorist.text.snippet import HighlightTerms, best_passage, strip_marks


class ReadMemory(NamedTuple):
    """A memory that was ranked, and the span of its part that is nearest to the query, if that is nearer than all."""

    memory: Memory
    nearest: tuple[int, int] | None


LoadMemories = Callable[[Places], Mapping[int, ReadMemory]]  # by key, without those that have changed since


# Pseudo-relevance feedback: the query vector moved towards the best hits of a first ranking (Rocchio)

_FEEDBACK_HITS = 3  # added to the query, each weighted by its score


def pseudo_relevance_feedback(ranking: Ranking, query_vector: NDArray[np.float32], weight: float) -> Floats | None:
    """
    Return the similarity that each candidate gains once the best hits are added to the query, if any gains some.

    Only long texts are expanded. What resembles a page on some subject is another page on it; what resembles a turn of
    a conversation is another turn with the same small talk.
    """
    columns, best = ranking.candidates.columns, ranking.places[:_FEEDBACK_HITS]
    weight *= long_text_share(ranking.candidates)
    best = best[(ranking.scores[best] > 0.0) & ~np.isnan(columns.similarity[best])]
    if not weight or not len(best) or columns.codes is None:
        return None
    matrix, shares = decode(columns.codes), ranking.scores[best]
    expanded = query_vector + weight * ((shares / shares.sum()) @ matrix[best])
    # Row by row in double: the gain of one candidate must not depend on which others are beside it.
    gains: Floats = np.einsum("ij,j->i", matrix, expanded / np.linalg.norm(expanded) - query_vector)
    return gains


# Session context: a turn's score is smoothed over the turns next to it in its session

_DISTANCE_WEIGHTS = ((1, 1.0), (2, 0.5))  # how many turns away, and how much a turn there counts
_UNSMOOTHED_CHARACTERS = 240  # longer texts need less context, and are smoothed less


def smooth_scores(ranking: Ranking, share: float) -> Ranking:
    """
    Reorder what was said in sessions by its own score plus a `share` of its neighbours'; leave the rest in place.

    A short turn ("It is make ship.") is understood by the turns beside it. Turns exchange places and scores only among
    themselves, so notes are neither raised nor lowered, also those made in a session: they stand for themselves.
    Neighbours are known by their positions in the session: others may have written in between.
    """
    columns, scores = ranking.candidates.columns, ranking.scores
    is_turn = columns.sessions[ranking.places] >= 0
    turns = ranking.places[is_turn]
    if share == 0.0 or len(turns) < 2:
        return ranking
    seats, has_seat = _number_seats(columns.sessions[turns], columns.positions[turns])
    order = np.argsort(seats)
    taken, by_seat = seats[order], scores[turns][order] * has_seat[order]
    need = has_seat * np.minimum(1.0, _UNSMOOTHED_CHARACTERS / np.maximum(columns.lengths[turns], 1))
    smoothed = scores[turns]
    for distance, weight in _DISTANCE_WEIGHTS:
        beside = [_look_up_seats(taken, by_seat, seats + step) for step in (-distance, distance)]
        smoothed = smoothed + share * need * weight * np.maximum(*beside)
    reordered = turns[np.argsort(-smoothed, kind="stable")]
    places, exchanged = ranking.places.copy(), scores.copy()
    places[is_turn], exchanged[reordered] = reordered, scores[turns]
    return replace(ranking.rescore("session", exchanged), places=places)


def _number_seats(sessions: Integers, positions: Integers) -> tuple[Integers, Flags]:
    """Return a number for each place in a session, next to those of its neighbours alone, and who has a place."""
    apart = int(positions.max(initial=0)) + 1 + max(distance for distance, _ in _DISTANCE_WEIGHTS)
    return sessions * apart + positions, positions >= 0


def _look_up_seats(taken: Integers, scores: Floats, wanted: Integers) -> Floats:
    found = np.minimum(np.searchsorted(taken, wanted), len(taken) - 1)
    return np.where(taken[found] == wanted, scores[found], 0.0)


# Time: a question that names a time prefers memories from that time

_MIN_BLUR = 2 * DAY  # an event is often told a day later, and planned some days before
_BLUR = 0.25  # of a longer period: people are vague about a month's first and last days
_LEAST_GAIN = 1e-9  # of a score


def boost_by_time(ranking: Ranking, periods: Sequence[Period], weight: float, first: int | None = None) -> Ranking:
    """
    Raise the scores of memories from one of the periods, and sort by score again; of the first places, or all.

    A score only rises, and the less the higher it is. So a clearly better answer stays before one from the right time,
    and no threshold removes what it let through before.
    """
    if weight == 0.0 or not periods:
        return ranking
    places, scores = ranking.places[:first], ranking.scores.copy()
    moments, own = ranking.candidates.columns.created_at[places], scores[places]
    nearest = np.max([period_weights(moments, period) for period in periods], axis=0)
    gains = weight * nearest * own * (1.0 - own)
    scores[places] += np.where(gains >= _LEAST_GAIN, gains, 0.0)
    return ranking.rescore("time", scores).sort(first)


def period_weights(moments: Floats, period: Period) -> Floats:
    """Return 1 for times within a period, falling to 0 with their distance from it."""
    start, end = period.start.timestamp(), period.end.timestamp()
    distances = np.maximum(0.0, np.maximum(start - moments, moments - end))
    weights: Floats = np.exp(-distances / max(_MIN_BLUR, _BLUR * (end - start)))
    return weights


# A cross-encoder reads the best candidates, and its scores are blended with those of fusion

_PASSAGE_WORDS = 60  # of a memory that are read; most notes and turns are shorter
_PARTIAL_READ_EXPONENT = 2.5  # how fast a score loses weight with the share of a memory that was read
_SECOND_SMOOTHING = 0.5  # of the first; a score from reading needs less context


class RerankScore(Struct, frozen=True):
    """The score of a passage, 0..1, and the share of its memory that the passage is."""

    score: float
    share_read: float


def rerank(
    reranker: Reranker,
    query: Query,
    periods: Sequence[Period],
    ranking: Ranking,
    profile: Profile,
    load_memories: LoadMemories,
) -> tuple[Ranking, str | None]:
    """
    Read query and passage together and rank again; return also why not, where the reranker failed.

    `periods` are those the query names: the reranker does not see when a text is from, so they are applied again.
    """
    memories = load_memories(ranking.places[: profile.rerank_depth])
    keys = [key for key in ranking.keys if key in memories]
    terms = HighlightTerms.of(query)
    passages = [_passage_to_read(*memories[key], terms) for key in keys]
    seconds = profile.rerank_ms / 1000 if profile.rerank == "auto" else math.inf
    try:
        scores = reranker.score_passages(query.text, [text for text, _ in passages], seconds)
    except EmbedderError as exc:
        return ranking, f"not reranked: {exc}"
    read = {
        key: RerankScore(score, share)
        for key, score, (_, share) in zip(keys, scores, passages, strict=True)
        if score is not None
    }
    blended = blend_scores(ranking, read, profile.rerank_weight)
    boosted = boost_by_time(blended, periods, profile.time_boost, first=len(read))
    return smooth_scores(boosted, profile.session_smoothing * _SECOND_SMOOTHING), None


def blend_scores(ranking: Ranking, read: Mapping[int, RerankScore], weight: float) -> Ranking:
    """
    Sort what was read by both scores, followed by the rest as it was; `read` is by key.

    A passage speaks for its memory only as far as it goes: whole memories get the full `weight`, long texts of which a
    part was read get less: the full weight everywhere loses nDCG@10 on abstracts. What was not read stays behind, with
    lower scores.
    """
    is_read = np.array([key in read for key in ranking.keys], np.bool_)
    if not is_read.any():
        return ranking
    best, rest, scores = ranking.places[is_read], ranking.places[~is_read], ranking.scores.copy()
    of_best = [read[key] for key in ranking.candidates.keys[best].tolist()]
    weight *= sum(each.share_read**_PARTIAL_READ_EXPONENT for each in of_best) / len(of_best)
    by_reading = np.array([each.score for each in of_best])
    scores[best] = (1.0 - weight) * (scores[best] / (scores[best].max() or 1.0)) + weight * by_reading
    scaled = np.minimum(1.0, scores[rest] / (scores[rest].max(initial=0.0) or 1.0))
    scores[rest] = scaled * scores[best].min()
    places = np.concatenate([best, rest])
    return replace(ranking, places=places).rescore("rerank", scores).sort(len(best))


def _passage_to_read(memory: Memory, nearest: tuple[int, int] | None, terms: HighlightTerms) -> tuple[str, float]:
    """Return the passage that fits the query best, under its title, and the share of the memory it is."""
    text = strip_marks(best_passage(memory.content, terms, _PASSAGE_WORDS, nearest).text)
    share = min(1.0, len(text) / len(memory.content))
    return f"{memory.title}\n{text}" if memory.title else text, share


# Documents: one hit for each, its best passage

# How much each further passage of a document counts, relative to the one before it. Chosen on 24 questions about the
# Kubernetes documentation: the right page is first for half of them instead of 29 %.
FURTHER_PASSAGE_DECAY = 0.7


def group_by_document(ranking: Ranking, documents: Mapping[int, str], decay: float = FURTHER_PASSAGE_DECAY) -> Ranking:
    """
    Keep the best passage of each document, and whatever is in none, best first; `documents` maps keys to documents.

    A page about a subject mentions it in more than one passage. So further passages raise the score of the best one, as
    independent evidence raises a probability: never beyond 1.
    """
    best: dict[str | int, int] = {}
    missing: dict[str | int, float] = {}  # to a score of 1
    share: dict[str | int, float] = {}
    for key, place, score in zip(ranking.keys, ranking.places.tolist(), ranking.ordered_scores.tolist(), strict=True):
        document: str | int = documents.get(key, key)
        best.setdefault(document, place)
        missing[document] = missing.get(document, 1.0) * (1 - share.setdefault(document, 1.0) * score)
        share[document] *= decay
    places, scores = np.array([*best.values()], np.intp), ranking.scores.copy()
    together = 1 - np.array([missing[document] for document in best])
    is_raised = together - scores[places] > 1e-12  # less is but rounding
    scores[places] = np.where(is_raised, together, scores[places])
    return replace(ranking, places=places).rescore("further passages", scores).sort()
