"""Ask a system every question of a dataset, and measure and time its answers."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memorist.evaluate.dataset import Question
from memorist.evaluate.indexing import Progress
from memorist.evaluate.metrics import measure_ranking
from memorist.evaluate.systems import System


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """
    The documents that a system found for a question, and their measures.

    `ms` is None where the system did not do all the work itself (see `RetrievalResult`).
    """

    question: Question
    found: tuple[str, ...]
    measures: Mapping[str, float]
    ms: float | None
    relevance: float | None = None


@dataclass(frozen=True, slots=True)
class SystemResult:
    """All answers of one system, and the distinct reasons why some were degraded."""

    name: str
    answers: tuple[QuestionResult, ...]
    degraded: tuple[str, ...] = ()


def run_system(system: System, questions: Sequence[Question], progress: Progress | None = None) -> SystemResult:
    """Ask the questions in order. The first is asked once before, so that loading models is not timed."""
    answers: list[QuestionResult] = []
    degraded: dict[str, None] = {}
    for question in questions[:1]:
        system.retrieve(question)
    for done, question in enumerate(questions, 1):
        started = time.perf_counter()
        result = system.retrieve(question)
        ms = (time.perf_counter() - started) * 1000
        measures = measure_ranking(result.ids, question.judgements)
        answers.append(
            QuestionResult(question, tuple(result.ids), measures, ms if result.timed else None, result.relevance)
        )
        if result.degraded:
            degraded[result.degraded] = None
        if progress:
            progress(done)
    return SystemResult(system.name, tuple(answers), tuple(degraded))
