"""
Whether `relevance` tells an answer from none: the same questions where their answer is, and where it is not.

Where a set has scopes, that is another scope; where it has none, questions of the set that have no answer at all.
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
    `auc`: how often a question with an answer is given a higher relevance than one without. `false_answers` and
    `missed`: the shares of questions without, and with an answer, that the floor gets wrong.
    """

    auc: float
    false_answers: float
    missed: float
    floor: float
    without_answer: int


def unanswerable(dataset: Dataset) -> tuple[Question, ...]:
    """Questions that nothing answers where they are asked."""
    scopes = sorted({document.scope for document in dataset.documents if document.scope is not None})
    if len(scopes) < 2 or any(question.scope is None for question in dataset.questions):
        return dataset.unanswered
    after = dict(zip(scopes, [*scopes[1:], scopes[0]], strict=True))
    return tuple(replace(one, scope=after[one.scope], judged={}) for one in dataset.questions if one.scope in after)


def certainty(with_answer: Sequence[QuestionResult], without: Sequence[QuestionResult]) -> RelevanceCalibration:
    """What the relevance of the best hit was, on both sides."""
    there = np.array([answer.relevance or 0.0 for answer in with_answer])
    not_there = np.sort([answer.relevance or 0.0 for answer in without])
    below = np.searchsorted(not_there, there, "left") + np.searchsorted(not_there, there, "right")
    return RelevanceCalibration(
        float(below.mean() / 2 / len(not_there)),
        float((not_there >= RELEVANT).mean()),
        float((there < RELEVANT).mean()),
        RELEVANT,
        len(not_there),
    )
