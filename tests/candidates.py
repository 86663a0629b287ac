"""Candidates and rankings for tests, from the few numbers that a test is about."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorist.records import ASSISTANT
from memorist.search.candidates import Candidates, Ranking
from memorist.store.ranking_columns import NO_POSITION, RankingColumns


@dataclass(frozen=True, slots=True)
class Found:
    """A candidate; a field that is not given is that of a plain memory which no leg found."""

    key: int
    bm25: float | None = None
    keyword_rank: int = 0
    vector_rank: int = 0
    has_all_words: bool = False
    coverage: float = 1.0
    confidence: float = 1.0
    similarity: float | None = None
    vector: NDArray[np.float16] | None = field(default=None, compare=False)
    created_at: float = 0.0
    recorded_at: float = 0.0
    salience: float = 0.5
    sector: str = "semantic"
    superseded: bool = False
    session: str | None = None
    position: int = NO_POSITION
    role: str | None = None
    length: int = 0


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate at its place in a ranking."""

    candidate: Found
    score: float
    trace: Mapping[str, float] = field(default_factory=dict)
    raw: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> int:
        return self.candidate.key


def to_candidates(found: Sequence[Found]) -> Candidates:
    """Return the candidates as ranking gets them."""

    def column(name: str) -> list[Any]:
        return [getattr(each, name) for each in found]

    def floats(name: str) -> NDArray[np.float64]:
        return np.array([math.nan if value is None else value for value in column(name)], np.float64)

    sessions = [*dict.fromkeys(session for session in column("session") if session is not None)]
    width = next((len(each.vector) for each in found if each.vector is not None), None)
    columns = RankingColumns(
        keys=np.array(column("key"), np.int64),
        similarity=floats("similarity"),
        codes=None if width is None else np.array(
            [np.zeros(width, np.float16) if vector is None else vector for vector in column("vector")]
        ),
        created_at=floats("created_at"),
        updated_at=np.zeros(len(found)),
        recorded_at=floats("recorded_at"),
        accessed_at=np.full(len(found), math.nan),
        reinforced_at=np.zeros(len(found)),
        salience=floats("salience"),
        sectors=column("sector"),
        kinds=[None] * len(found),
        sources=[None] * len(found),
        tags=[()] * len(found),
        superseded=np.array(column("superseded"), np.bool_),
        sessions=np.array([-1 if each is None else sessions.index(each) for each in column("session")], np.int64),
        positions=np.array(column("position"), np.int64),
        by_assistant=np.array([role == ASSISTANT for role in column("role")], np.bool_),
        lengths=np.array(column("length"), np.int64),
        facts=[()] * len(found),
        parts={},
    )  # fmt: skip
    return Candidates(
        columns=columns,
        bm25=floats("bm25"),
        has_all_words=np.array(column("has_all_words"), np.bool_),
        coverage=np.array([each.coverage if each.bm25 is not None else 0.0 for each in found], np.float64),
        keyword_rank=np.array(column("keyword_rank"), np.int64),
        vector_rank=np.array(column("vector_rank"), np.int64),
        confidence=floats("confidence"),
    )


def to_ranking(ranked: Sequence[Ranked]) -> Ranking:
    """Return the ranking that has these entries in this order."""
    steps = dict.fromkeys(step for entry in ranked for step in entry.trace)
    return Ranking(
        to_candidates([entry.candidate for entry in ranked]),
        np.arange(len(ranked)),
        np.array([entry.score for entry in ranked], np.float64),
        {step: np.array([entry.trace.get(step, math.nan) for entry in ranked]) for step in steps},
    )


def list_ranked(ranking: Ranking, found: Sequence[Found]) -> list[Ranked]:
    """Return the entries of a ranking of these candidates, best first."""
    return [
        Ranked(found[place], float(ranking.scores[place]), ranking.trace_of(place), ranking.raw_of(place))
        for place in ranking.places.tolist()
    ]


def apply(step: Callable[..., Ranking], ranked: Sequence[Ranked], *arguments: Any) -> list[Ranked]:
    """Return what a step makes of a ranking."""
    return list_ranked(step(to_ranking(ranked), *arguments), [entry.candidate for entry in ranked])


def keys(ranked: Sequence[Ranked]) -> list[int]:
    return [entry.key for entry in ranked]
