"""Questions asked, answers measured."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memorist.evaluate.dataset import Question
from memorist.evaluate.metrics import measure_ranking
from memorist.evaluate.systems import System

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """A question, what was found for it, how good that is, and how long it took, where all of it was done."""

    question: Question
    found: tuple[str, ...]
    figures: Mapping[str, float]
    ms: float | None
    relevance: float | None = None


@dataclass(frozen=True, slots=True)
class SystemResult:
    """All answers of one way, and what was missing while they were given."""

    name: str
    answers: tuple[QuestionResult, ...]
    degraded: tuple[str, ...] = ()


def run(way: System, questions: Sequence[Question], progress: Progress | None = None) -> SystemResult:
    """Ask every question, one after the other. The first is asked before, too: what that loads is not timed."""
    answers: list[QuestionResult] = []
    degraded: dict[str, None] = {}
    for question in questions[:1]:
        way.answer(question)
    for done, question in enumerate(questions, 1):
        started = time.perf_counter()
        found = way.answer(question)
        took = (time.perf_counter() - started) * 1000
        figures, ms = measure_ranking(found.ids, question.judged), took if found.timed else None
        answers.append(QuestionResult(question, tuple(found.ids), figures, ms, found.relevance))
        if found.degraded:
            degraded[found.degraded] = None
        if progress:
            progress(done)
    return SystemResult(way.name, tuple(answers), tuple(degraded))
