"""
A measurement of how well `relevance` separates questions that have an answer from questions that have none.

In a dataset with scopes, each question is asked again in another scope, where nothing answers it. Without scopes, the
dataset's own questions without an answer are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from memorist.evaluate.dataset import Dataset, Question
from memorist.evaluate.runner import QuestionResult
from memorist.records import RELEVANT


@dataclass(frozen=True, slots=True)
class RelevanceCalibration:
    """
    The errors of `relevance` over questions with and without an answer.

    `auc` is the probability that a question with an answer has a higher relevance than one without. `false_answers` is
    the share of questions without an answer at or above `floor`, `missed` the share of those with one below it.
    """

    auc: float
    false_answers: float
    missed: float
    floor: float
    without_answer: int


def make_unanswerable_questions(dataset: Dataset) -> tuple[Question, ...]:
    """Return the questions in a scope that has no answer to them, or those of the dataset that have none."""
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
    """Compare the relevance of the best hit for questions with and without an answer."""
    positives = np.array([result.relevance or 0.0 for result in answerable])
    negatives = np.sort([result.relevance or 0.0 for result in unanswerable])
    twice_below = np.searchsorted(negatives, positives, "left") + np.searchsorted(negatives, positives, "right")
    return RelevanceCalibration(
        float(twice_below.mean() / 2 / len(negatives)),
        float((negatives >= RELEVANT).mean()),
        float((positives < RELEVANT).mean()),
        RELEVANT,
        len(negatives),
    )
