"""Find hard negatives: texts near a question that do not answer it, by the word of the teacher."""

import random
from dataclasses import dataclass

import numpy as np
from models import CrossEncoder, Ids
from numpy.typing import NDArray
from pairs import Pair, Pairs
from torch import Tensor

NEAR_EVERYWHERE, NEAR_IN_GROUP = 10, 6  # candidates for negatives of each question
NEGATIVES = 7
MAX_ANSWERS = 2  # of each question, that are trained on
MIN_TEACHER_SCORE = -4.0  # of an answer: below, the pair is noise
MARGIN = 1.0  # a text that the teacher scores nearer to the answer than this may be an answer, too
_SCORED_AT_ONCE = 1 << 17


@dataclass(frozen=True, slots=True)
class Example:
    """A question, a text that answers it, texts that do not, and the teacher's scores of the answer and of those."""

    question: int
    answer: int
    negatives: NDArray[np.int64]
    scores: NDArray[np.float32]


def find_candidates(training: Pairs, texts: Tensor, questions: Tensor) -> NDArray[np.int64]:
    """Return for each question the texts nearest to it, everywhere and in its group, that do not answer it."""
    members: dict[int, list[int]] = {}
    for number, group in enumerate(training.groups):
        members.setdefault(group, []).append(number)
    found = np.full((len(training.pairs), NEAR_EVERYWHERE + NEAR_IN_GROUP), -1, np.int64)
    chosen = random.Random(0)
    for start in range(0, len(questions), 1024):
        block = questions[start : start + 1024]
        near = (block @ texts.T).topk(NEAR_EVERYWHERE * 3, dim=1).indices.cpu().tolist()
        for row, everywhere in enumerate(near):
            pair = training.pairs[start + row]
            group = [number for number in members[pair.group] if number not in pair.answers]
            if len(group) > NEAR_IN_GROUP:
                similarity = (texts[group] @ block[row]).topk(NEAR_IN_GROUP).indices.cpu().tolist()
                group = [group[place] for place in similarity]
            others = [number for number in everywhere if number not in pair.answers and number not in group]
            # Not only the nearest: a few from further down are surely no answers.
            others = others[: NEAR_EVERYWHERE // 2] + chosen.sample(
                others[NEAR_EVERYWHERE // 2 :], min(NEAR_EVERYWHERE // 2, len(others[NEAR_EVERYWHERE // 2 :]))
            )
            both = group + others[:NEAR_EVERYWHERE]
            found[start + row, : len(both)] = both
    return found


def score_candidates(
    teacher: CrossEncoder, pairs: list[Pair], candidates: NDArray[np.int64], questions: list[Ids], texts: list[Ids]
) -> NDArray[np.float32]:
    """Return the teacher's score of each question's first answers and of its candidates, one row a question."""
    scores = np.full((len(pairs), MAX_ANSWERS + candidates.shape[1]), -np.inf, np.float32)
    places, rows = [], []
    for row, pair in enumerate(pairs):
        numbers = [*pair.answers[:MAX_ANSWERS], *[-1] * (MAX_ANSWERS - len(pair.answers)), *candidates[row].tolist()]
        for column, number in enumerate(numbers):
            if number >= 0:
                places.append((row, column))
                rows.append((questions[row], texts[number]))
    for start in range(0, len(rows), _SCORED_AT_ONCE):
        part = teacher.score(rows[start : start + _SCORED_AT_ONCE]).cpu().numpy()
        index = np.array(places[start : start + _SCORED_AT_ONCE])
        scores[index[:, 0], index[:, 1]] = part
    return scores


def choose_negatives(
    pairs: list[Pair], candidates: NDArray[np.int64], scores: NDArray[np.float32], filtered: bool = True
) -> list[Example]:
    """
    Return an example for every pair worth training on, with the negatives that the teacher likes best.

    Unless `filtered`, every pair is worth it, and texts that may be answers are negatives, too.
    """
    margin, least = (MARGIN, MIN_TEACHER_SCORE) if filtered else (-np.inf, -np.inf)
    examples = []
    for row, pair in enumerate(pairs):
        others = scores[row, MAX_ANSWERS:]
        for answer, score in zip(pair.answers, scores[row, :MAX_ANSWERS], strict=False):
            usable = [place for place, other in enumerate(others) if -np.inf < other < score - margin]
            if score < least or len(usable) < 2:
                continue
            usable.sort(key=lambda place: -others[place])
            usable = (usable * NEGATIVES)[:NEGATIVES]
            examples.append(Example(row, answer, candidates[row][usable], np.array([score, *others[usable]])))
    return examples
