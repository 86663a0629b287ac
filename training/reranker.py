"""Train a cross-encoder: on the answers that people marked, and to rank as a teacher does."""

import random
from dataclasses import dataclass

import numpy as np
import torch
from models import CrossEncoder, Ids
from negatives import MAX_ANSWERS
from numpy.typing import NDArray
from pairs import Pairs
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, softmax
from train import schedule_rate, vary

_PRINTED_STEPS = 400


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
    """A question, its answer and candidates by number, and the teacher's scores of them, the answer first."""

    question: int
    answer: int
    texts: NDArray[np.int64]
    scores: NDArray[np.float32]


def train_reranker(
    encoder: CrossEncoder,
    pairs: Pairs,
    candidates: NDArray[np.int64],
    scores: NDArray[np.float32],
    questions: list[Ids],
    texts: list[Ids],
    recipe: RerankerRecipe,
) -> None:
    """Change the weights of a cross-encoder; `scores` are the teacher's of answers and candidates, a row a question."""
    torch.manual_seed(recipe.seed)
    chosen = random.Random(recipe.seed)
    lessons = _choose_lessons(pairs, candidates, scores, recipe, chosen)
    if not lessons:
        raise SystemExit(
            f"no question has an answer that the teacher scores {recipe.least:g} or more, and two candidates"
        )
    varied_questions, varied_answers = vary(pairs, lessons, recipe.user, recipe.keywords, chosen)
    size = min(recipe.batch, len(lessons))
    steps = max(1, int(len(lessons) * recipe.epochs) // size)
    print(f"{len(lessons):,} lessons, {steps:,} steps", flush=True)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=recipe.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: schedule_rate(step, steps))
    order: list[int] = []
    total = 0.0
    encoder.train()
    for step in range(1, steps + 1):
        while len(order) < size:
            order += chosen.sample(range(len(lessons)), len(lessons))
        batch, order = order[:size], order[size:]
        asked, read, taught = [], [], []
        for number in batch:
            lesson = lessons[number]
            question = varied_questions.get(number, questions[lesson.question])
            answer = varied_answers.get(number, texts[lesson.answer])
            asked += [question] * len(lesson.texts)
            read += [answer, *(texts[text] for text in lesson.texts[1:])]
            taught.append(lesson.scores)
        loss = _compute_loss(encoder(list(zip(asked, read, strict=True))), np.array(taught), recipe.marked)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        total += float(loss.detach())
        if step % _PRINTED_STEPS == 0:
            print(f"step {step} of {steps}: {total / _PRINTED_STEPS:.3f}", flush=True)
            total = 0.0
    encoder.eval()


def _choose_lessons(
    pairs: Pairs,
    candidates: NDArray[np.int64],
    scores: NDArray[np.float32],
    recipe: RerankerRecipe,
    chosen: random.Random,
) -> list[_Lesson]:
    """Return a lesson for each marked answer that is no noise, with some of its question's candidates."""
    lessons = []
    for row, pair in enumerate(pairs.pairs):
        others = scores[row, MAX_ANSWERS:]
        known = np.flatnonzero(others > -np.inf)
        for answer, score in zip(pair.answers, scores[row, :MAX_ANSWERS], strict=False):
            if score < recipe.least or len(known) < 2:
                continue
            drawn = chosen.sample(known.tolist(), min(recipe.candidates, len(known)))
            drawn = (drawn * recipe.candidates)[: recipe.candidates]
            numbers = np.array([answer, *candidates[row, drawn]])
            lessons.append(_Lesson(row, answer, numbers, np.array([score, *others[drawn]], np.float32)))
    return lessons


def _compute_loss(logits: Tensor, taught: NDArray[np.float32], marked: float) -> Tensor:
    """Return the divergence from a ranking that is partly the marked answer, partly that of the teacher."""
    target = (1 - marked) * softmax(torch.from_numpy(taught).to(logits.device), 1)
    target[:, 0] += marked
    return kl_div(log_softmax(logits.view(target.shape), 1), target, reduction="batchmean")
