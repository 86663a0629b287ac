"""The best of a search, read a second time."""

import math
from collections.abc import Sequence

from memorist.embed.reranker import Rereads
from memorist.errors import EmbedderError
from memorist.present.snippet import Needles, passage, without_marks
from memorist.profiles import Profile
from memorist.rank.fuse import Ranked
from memorist.rank.neighbours import lent
from memorist.rank.rerank import Opinion, reranked
from memorist.rank.when import timely
from memorist.records import Query, Row
from memorist.retrieve.candidates import Candidates
from memorist.times import Period

PASSAGE_WORDS = 60  # of a memory that are read; most notes and turns are shorter
SECOND_LOAN = 0.5  # of what neighbours lend before; what was read needs less of it


def reread(
    reranker: Rereads,
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
    best, needles = ranked[: profile.reread], Needles.of(question)
    passages = [_passage(gathered.rows[entry.candidate.key], needles) for entry in best]
    try:
        scores = reranker.scores(question.text, [text for text, _ in passages], _seconds(profile))
    except EmbedderError as exc:
        return list(ranked), f"not reranked: {exc}"
    opinions = {
        entry.candidate.key: Opinion(score, share)
        for entry, score, (_, share) in zip(best, scores, passages, strict=True)
        if score is not None
    }
    again = reranked(ranked, opinions, profile.rerank_weight)
    read = timely(again[: len(opinions)], times, profile.when)
    return lent([*read, *again[len(opinions) :]], profile.neighbours * SECOND_LOAN), None


def _passage(row: Row, needles: Needles) -> tuple[str, float]:
    """The stretch of a memory that has most to do with the question, under its title; and which share of it that is."""
    memory = row.memory()
    text = without_marks(passage(memory.content, needles, PASSAGE_WORDS, row.passage).text)
    share = min(1.0, len(text) / len(memory.content))
    return f"{memory.title}\n{text}" if memory.title else text, share


def _seconds(profile: Profile) -> float:
    """A number of memories is read however long it takes; only `auto` watches the time."""
    return profile.rerank_ms / 1000 if profile.rerank == "auto" else math.inf
