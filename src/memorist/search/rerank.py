"""A second opinion on the best: scores of a cross-encoder, blended with those of fusion.

The best of a search, read a second time.
"""

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
from memorist.search.session_context import lent
from memorist.search.temporal import timely
from memorist.text.dates import Period
from memorist.text.snippet import HighlightTerms, passage, without_marks

PARTIAL = 1.5  # how fast an opinion loses weight with the share of a memory that was read


@dataclass(frozen=True, slots=True)
class RerankScore:
    """How well a passage answers, 0..1, and what share of its memory the passage is."""

    score: float
    share: float


def reranked(ranked: Sequence[Ranked], opinions: Mapping[int, RerankScore], weight: float) -> list[Ranked]:
    """
    What was read a second time in the order of both scores, then the rest as it was; `opinions` are by key.

    A passage speaks for its memory only as far as it goes: of whole memories the opinion has its full `weight`, of long
    texts of which it saw a part, the less. (The full weight everywhere gains a little on conversations and loses
    .03 of nDCG@10 on Cranfield's abstracts; with the plain share it still loses .008.) What was not read stays behind,
    and its score below.
    """
    read = [entry for entry in ranked if entry.candidate.key in opinions]
    rest = [entry for entry in ranked if entry.candidate.key not in opinions]
    if not read:
        return rest
    weight *= fmean(opinions[entry.candidate.key].share ** PARTIAL for entry in read)
    most = max(entry.score for entry in read) or 1.0
    blended = []
    for entry in read:
        first = entry.score / most
        blended.append(_scored(entry, (1.0 - weight) * first + weight * opinions[entry.candidate.key].score))
    blended.sort(key=lambda entry: -entry.score)  # stable: where both say the same, the order stays
    lowest = blended[-1].score
    behind = max((entry.score for entry in rest), default=0.0) or 1.0
    return [*blended, *(_scored(entry, min(1.0, entry.score / behind) * lowest) for entry in rest)]


def _scored(entry: Ranked, score: float) -> Ranked:
    return replace(entry, score=score, trace={**entry.trace, "rerank": score - entry.score})


PASSAGE_WORDS = 60  # of a memory that are read; most notes and turns are shorter
SECOND_LOAN = 0.5  # of what neighbours lend before; what was read needs less of it


def reread(
    reranker: Reranker,
    question: Query,
    times: Sequence[Period],
    ranked: Sequence[Ranked],
    gathered: Candidates,
    profile: Profile,
) -> tuple[list[Ranked], str | None]:
    """
    Ranked again by reading question and passage together, and in words why not, where that could not be done.

    `times` are those that the question names: who reads a text does not see when it is from.
    """
    best, needles = ranked[: profile.reread], HighlightTerms.of(question)
    passages = [_passage(gathered.rows[entry.candidate.key], needles) for entry in best]
    try:
        scores = reranker.scores(question.text, [text for text, _ in passages], _seconds(profile))
    except EmbedderError as exc:
        return list(ranked), f"not reranked: {exc}"
    opinions = {
        entry.candidate.key: RerankScore(score, share)
        for entry, score, (_, share) in zip(best, scores, passages, strict=True)
        if score is not None
    }
    again = reranked(ranked, opinions, profile.rerank_weight)
    read = timely(again[: len(opinions)], times, profile.when)
    return lent([*read, *again[len(opinions) :]], profile.neighbours * SECOND_LOAN), None


def _passage(row: Row, needles: HighlightTerms) -> tuple[str, float]:
    """The stretch of a memory that has most to do with the question, under its title; and which share of it that is."""
    memory = row.memory()
    text = without_marks(passage(memory.content, needles, PASSAGE_WORDS, row.passage).text)
    share = min(1.0, len(text) / len(memory.content))
    return f"{memory.title}\n{text}" if memory.title else text, share


def _seconds(profile: Profile) -> float:
    """A number of memories is read however long it takes; only `auto` watches the time."""
    return profile.rerank_ms / 1000 if profile.rerank == "auto" else math.inf
