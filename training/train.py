"""Train an encoder: to rank as the teacher does, to tell answers apart, and to stay near the original model."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from models import Encoder, Ids, encode_texts
from negatives import Example
from numpy.typing import NDArray
from pairs import Pairs, as_keywords, as_of_the_user
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax

QUESTION_TOKENS, TEXT_TOKENS = 64, 192
_PRINTED_STEPS = 200


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of one training. The defaults are those measured best; see README.md."""

    anchor: float = 5.0  # weight of texts staying near their original vectors
    teacher: float = 1.0  # weight of ranking as the teacher does
    contrast: float = 0.5  # weight of telling answers in a batch apart
    rate: float = 2e-4
    epochs: float = 1.0
    batch: int = 256
    temperature: float = 0.05
    user: float = 0.3  # share of speakers turned into the user, who says "I"
    keywords: float = 0.15  # share of questions cut to keywords
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Examples, with the tokens of questions and texts and the original vectors of the texts."""

    pairs: Pairs
    examples: list[Example]
    questions: list[Ids]
    texts: list[Ids]
    vectors: NDArray[np.float16]


def train(encoder: Encoder, data: TrainingData, recipe: Recipe) -> None:
    """Change the weights of an encoder."""
    chosen = random.Random(recipe.seed)
    questions, answers = vary(data.pairs, data.examples, recipe.user, recipe.keywords, chosen)
    weights = torch.tensor([recipe.teacher, recipe.contrast, recipe.anchor])

    def compute(batch: list[int]) -> Tensor:
        losses = _compute_losses(encoder, data, recipe, batch, questions, answers)
        return losses * weights.to(losses.device)

    minimise(encoder, compute, len(data.examples), recipe, chosen)


class Course(Protocol):
    """How far and how fast weights are changed."""

    @property
    def batch(self) -> int: ...

    @property
    def epochs(self) -> float: ...

    @property
    def rate(self) -> float: ...

    @property
    def seed(self) -> int: ...


def minimise(
    network: torch.nn.Module,
    compute: Callable[[list[int]], Tensor],
    examples: int,
    course: Course,
    chosen: random.Random,
) -> None:
    """Change the weights of a network, batch by batch of the numbers of examples, by the sum of the losses computed."""
    torch.manual_seed(course.seed)
    size = min(course.batch, examples)
    steps = max(1, int(examples * course.epochs) // size)
    optimizer = torch.optim.AdamW(network.parameters(), lr=course.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    order: list[int] = []
    printed: list[Tensor] = []
    network.train()
    for step in range(1, steps + 1):
        while len(order) < size:
            order += chosen.sample(range(examples), examples)
        batch, order = order[:size], order[size:]
        losses = compute(batch)
        optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        printed.append(losses.detach())
        if step % _PRINTED_STEPS == 0:
            means = torch.stack(printed).mean(0).reshape(-1).tolist()
            print(f"step {step} of {steps}: losses {' '.join(f'{mean:.3f}' for mean in means)}", flush=True)
            printed.clear()
    network.eval()


class Asked(Protocol):
    """An example of training: a question and a text that answers it, by number."""

    @property
    def question(self) -> int: ...

    @property
    def answer(self) -> int: ...


def vary(
    pairs: Pairs, examples: Sequence[Asked], user: float, keywords: float, chosen: random.Random
) -> tuple[dict[int, Ids], dict[int, Ids]]:
    """
    Return some examples' questions and answers in other words, by the number of the example.

    `user` is the share of speakers turned into the user, `keywords` that of questions cut to keywords.
    """
    questions: dict[int, str] = {}
    answers: dict[int, str] = {}
    for number, example in enumerate(examples):
        question = pairs.pairs[example.question].question
        turned = as_of_the_user(question, pairs.texts[example.answer])
        if turned and chosen.random() < user:
            question, answers[number] = turned
            questions[number] = question
        if chosen.random() < keywords:
            questions[number] = as_keywords(question)
    ids = encode_texts([*questions.values(), *answers.values()], TEXT_TOKENS)
    return (
        dict(zip(questions, ids[: len(questions)], strict=True)),
        dict(zip(answers, ids[len(questions) :], strict=True)),
    )


def _compute_losses(
    encoder: Encoder,
    data: TrainingData,
    recipe: Recipe,
    batch: list[int],
    questions: dict[int, Ids],
    answers: dict[int, Ids],
) -> Tensor:
    """Return three losses: against the teacher's ranking, within the batch, and against the original vectors."""
    examples = [data.examples[number] for number in batch]
    asked = encoder([questions.get(n, data.questions[one.question]) for n, one in zip(batch, examples, strict=True)])
    device = asked.device
    numbers = np.array([[one.answer, *one.negatives] for one in examples])
    width = numbers.shape[1]
    ids = [data.texts[number] for number in numbers.ravel()]
    varied = {row * width: answers[number] for row, number in enumerate(batch) if number in answers}
    for place, varied_ids in varied.items():
        ids[place] = varied_ids
    found = encoder(ids)

    similarity = torch.einsum("qd,qnd->qn", asked, found.view(len(batch), width, -1)) / recipe.temperature
    scores = torch.tensor(np.array([one.scores for one in examples]), dtype=torch.float32, device=device)
    taught = kl_div(log_softmax(similarity, 1), softmax(scores, 1), reduction="batchmean")

    # Of the texts of the whole batch, those of the question itself are the teacher's matter; the same text is no other.
    rows = torch.arange(len(batch), device=device)
    columns = torch.arange(numbers.size, device=device)
    texts = torch.tensor(numbers.ravel(), device=device)
    own = columns // width == rows[:, None]
    same = texts == texts[rows * width][:, None]
    answer = columns == (rows * width)[:, None]
    everything = (asked @ found.T / recipe.temperature).masked_fill((own | same) & ~answer, -math.inf)
    contrast = cross_entropy(everything, rows * width)

    original = torch.from_numpy(data.vectors[numbers.ravel()]).to(device).float()
    unvaried = torch.ones(numbers.size, dtype=torch.bool, device=device)
    unvaried[list(varied)] = False
    anchor = (1 - (found * original).sum(1))[unvaried].mean()
    return torch.stack([taught, contrast, anchor])


def average(encoders: list[Encoder]) -> dict[str, Tensor]:
    """Return the mean of the weights of several encoders."""
    states = [encoder.bert.state_dict() for encoder in encoders]
    assert all(a.keys() == b.keys() for a, b in pairwise(states))
    return {name: torch.stack([state[name].float() for state in states]).mean(0) for name in states[0]}


def _rate(step: int, steps: int) -> float:
    """Return the share of the rate at a step: up for a twentieth of all steps, then down along a cosine."""
    warm_up = max(1, steps // 20)
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))
