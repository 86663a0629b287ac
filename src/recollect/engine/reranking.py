"""The best of a search, read a second time."""

import math
from collections.abc import Sequence

from recollect.embed.reranker import Reranker
from recollect.errors import EmbedderError
from recollect.present.snippet import Needles, passage, without_marks
from recollect.profiles import Profile
from recollect.rank.fuse import Ranked
from recollect.rank.rerank import reranked
from recollect.records import Query, Row
from recollect.retrieve.candidates import Candidates

PASSAGE_WORDS = 80  # of a memory that are read; most are shorter


def reread(
    reranker: Reranker, question: Query, ranked: Sequence[Ranked], gathered: Candidates, profile: Profile
) -> tuple[list[Ranked], str | None]:
    """Ranked again by reading question and passage together, and in words why not, where that could not be done."""
    best = ranked[: profile.reread]
    needles = Needles.of(question)
    passages = [_passage(gathered.rows[entry.candidate.key], needles) for entry in best]
    try:
        scores = reranker.scores(question.text, passages, _seconds(profile))
    except EmbedderError as exc:
        return list(ranked), f"not reranked: {exc}"
    known = {entry.candidate.key: score for entry, score in zip(best, scores, strict=True) if score is not None}
    return reranked(ranked, known, profile.rerank_weight), None


def _passage(row: Row, needles: Needles) -> str:
    """What is read of a memory: its title, and the stretch of it that has most to do with the question."""
    memory = row.memory()
    text = without_marks(passage(memory.content, needles, PASSAGE_WORDS, row.passage).text)
    return f"{memory.title}\n{text}" if memory.title else text


def _seconds(profile: Profile) -> float:
    """A number of memories is read however long it takes; only `auto` watches the time."""
    return profile.rerank_ms / 1000 if profile.rerank == "auto" else math.inf
