"""Run the chosen configurations, their legs and grep over a dataset, and measure their answers and their relevance."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from memorist.engine import Memorist
from memorist.evaluate.dataset import Dataset, Question
from memorist.evaluate.indexing import IndexedDataset, Progress
from memorist.evaluate.metrics import measure_ranking, relevant_ids
from memorist.evaluate.systems import GrepSystem, MemoristSystem, SearchConfig, System, add_legs
from memorist.records import RELEVANT


class QuestionResult(Struct, frozen=True):
    """The documents that a system found for a question, their measures, and the time if all of it was the system's."""

    question: Question
    found: tuple[str, ...]
    measures: Mapping[str, float]
    ms: float | None
    relevance: float | None = None


class SystemResult(Struct, frozen=True):
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


class RelevanceCalibration(Struct, frozen=True):
    """The errors of `relevance` over questions with and without an answer."""

    auc: float  # the probability that a question with an answer has a higher relevance than one without
    false_answers: float  # the share of questions without an answer at or above the floor
    missed: float  # the share of questions with an answer below it
    missed_first: float  # the share of those with an answer in the first place, and yet below it
    floor: float
    without_answer: int
    categories: Mapping[str, "RelevanceCalibration"] = field(default_factory=dict)  # of questions without an answer


def make_unanswerable_questions(dataset: Dataset) -> tuple[Question, ...]:
    """Return each question in another scope, where nothing answers it; without scopes, those that have no answer."""
    scopes = sorted({document.scope for document in dataset.documents if document.scope is not None})
    if len(scopes) < 2 or any(question.scope is None for question in dataset.questions):
        return dataset.unanswered
    next_scope = dict(zip(scopes, [*scopes[1:], scopes[0]], strict=True))
    return tuple(
        replace(question, scope=next_scope[question.scope], judgements={})
        for question in dataset.questions
        if question.scope in next_scope
    )


def measure_calibration(
    answerable: Sequence[QuestionResult], unanswerable: Sequence[QuestionResult]
) -> RelevanceCalibration:
    """Compare the relevance of what was found for questions with and without an answer."""
    categories = {category for result in unanswerable if (category := result.question.category)}
    positives = np.array([result.relevance or 0.0 for result in answerable])
    negatives = np.sort([result.relevance or 0.0 for result in unanswerable])
    first = [bool(relevant_ids(result.question.judgements).intersection(result.found[:1])) for result in answerable]
    twice_below = np.searchsorted(negatives, positives, "left") + np.searchsorted(negatives, positives, "right")
    return RelevanceCalibration(
        float(twice_below.mean() / 2 / len(negatives)),
        float((negatives >= RELEVANT).mean()),
        float((positives < RELEVANT).mean()),
        float(((positives < RELEVANT) & np.array(first)).mean()),
        RELEVANT,
        len(negatives),
        {
            name: measure_calibration(
                answerable,
                [
                    replace(each, question=replace(each.question, category=None))
                    for each in unanswerable
                    if each.question.category == name
                ],
            )
            for name in sorted(categories)
            if len(categories) > 1
        },
    )


_ProgressFactory = Callable[[str, int], AbstractContextManager[Progress]]  # (label, length)


class DatasetResult(Struct, frozen=True):
    """The results of all systems on a dataset."""

    dataset: Dataset
    systems: tuple[SystemResult, ...]
    chosen: tuple[str, ...]  # the systems that were asked for; the others are there for comparison
    calibration: Mapping[str, RelevanceCalibration] = field(default_factory=dict)  # by system


@contextmanager
def _ignore_progress(label: str, length: int) -> Iterator[Progress]:
    yield lambda done: None


def evaluate_dataset(
    dataset: Dataset,
    configs: Sequence[SearchConfig],
    memory: Memorist,
    indexed: IndexedDataset | None = None,
    *,
    relevance: bool = False,
    progress: _ProgressFactory = _ignore_progress,
) -> DatasetResult:
    """Ask grep, the configurations and their legs all questions; with `relevance`, also some without an answer."""
    searches = [MemoristSystem(config, memory, indexed) for config in add_legs(configs)]
    systems: list[System] = [GrepSystem(dataset.documents), *searches]
    results = {}
    for system in systems:
        with progress(f"{dataset.name}: {system.name}", len(dataset.questions)) as advance:
            results[system.name] = run_system(system, dataset.questions, advance)
    chosen = tuple(config.name for config in configs)
    calibration = {}
    if relevance and (questions := make_unanswerable_questions(dataset)):
        for search in searches:
            if search.name in chosen:
                with progress(f"{dataset.name}: {search.name}, without an answer", len(questions)) as advance:
                    unanswerable = run_system(search, questions, advance)
                calibration[search.name] = measure_calibration(results[search.name].answers, unanswerable.answers)
    return DatasetResult(dataset, tuple(results.values()), chosen, calibration)
