"""Train a cross-encoder: on the answers that people marked, and to rank as a teacher does."""

import random
from dataclasses import dataclass

import numpy as np
import torch
from build import Material
from models import CrossEncoder
from negatives import MAX_ANSWERS
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, softmax
from train import minimise, vary


@dataclass(frozen=True, slots=True)
class RerankerRecipe:
    """The settings of one training; see README.md."""

    marked: float = 0.5  # share of the marked answer in the target; the rest is the teacher's ranking
    candidates: int = 8  # of each question, beside its answer
    least: float = -8.0  # the teacher's score of an answer: below, the pair is noise
    batch: int = 64
    rate: float = 3e-5
    epochs: float = 1.0
    user: float = 0.15
    keywords: float = 0.1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Lesson:
    """A question, its answer and then candidates by number, and the teacher's scores of them."""

    question: int
    texts: NDArray[np.int64]
    scores: NDArray[np.float32]

    @property
    def answer(self) -> int:
        return int(self.texts[0])


def train_reranker(
    encoder: CrossEncoder, material: Material, scores: NDArray[np.float32], recipe: RerankerRecipe
) -> None:
    """Change the weights of a cross-encoder; `scores` are the teacher's of answers and candidates, a row a question."""
    chosen = random.Random(recipe.seed)
    lessons = _choose_lessons(material, scores, recipe, chosen)
    if not lessons:
        raise SystemExit(
            f"no question has an answer that the teacher scores {recipe.least:g} or more, and two candidates"
        )
    print(f"{len(lessons):,} lessons", flush=True)
    questions, answers = vary(material.pairs, lessons, recipe.user, recipe.keywords, chosen)

    def compute(batch: list[int]) -> Tensor:
        read = []
        for number in batch:
            lesson = lessons[number]
            question = questions.get(number, material.questions[lesson.question])
            answer = answers.get(number, material.texts[lesson.answer])
            read += [(question, text) for text in (answer, *(material.texts[one] for one in lesson.texts[1:]))]
        taught = np.array([lessons[number].scores for number in batch])
        return _compute_loss(encoder(read), taught, recipe.marked)

    minimise(encoder, compute, len(lessons), recipe, chosen)


def _choose_lessons(
    material: Material, scores: NDArray[np.float32], recipe: RerankerRecipe, chosen: random.Random
) -> list[_Lesson]:
    """Return a lesson for each marked answer that is no noise, with some of its question's candidates."""
    lessons = []
    for row, pair in enumerate(material.pairs.pairs):
        others = scores[row, MAX_ANSWERS:]
        known = np.flatnonzero(others > -np.inf)
        for answer, score in zip(pair.answers, scores[row, :MAX_ANSWERS], strict=False):
            if score < recipe.least or len(known) < 2:
                continue
            drawn = chosen.sample(known.tolist(), min(recipe.candidates, len(known)))
            drawn = (drawn * recipe.candidates)[: recipe.candidates]
            numbers = np.array([answer, *material.candidates[row, drawn]])
            lessons.append(_Lesson(row, numbers, np.array([score, *others[drawn]], np.float32)))
    return lessons


def _compute_loss(logits: Tensor, taught: NDArray[np.float32], marked: float) -> Tensor:
    """Return the divergence from a ranking that is partly the marked answer, partly that of the teacher."""
    target = (1 - marked) * softmax(torch.from_numpy(taught).to(logits.device), 1)
    target[:, 0] += marked
    return kl_div(log_softmax(logits.view(target.shape), 1), target, reduction="batchmean")
