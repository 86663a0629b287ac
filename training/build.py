"""
Train the embedding model, from the original weights of all-MiniLM-L6-v2 and a folder of pairs.

    python training/build.py --data groups.jsonl.gz --sets DATA --out OUT

DATA holds the evaluation sets: nothing that they contain is trained on, and their development halves are measured.
With --judge the other halves are measured as well. With --without the first training is done again and again, each
time without one of the recipe's parts, and measured. OUT gets a file of weights for each training of the recipe, and
`mean.safetensors`, the mean of them all.
"""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from figures import EvaluationSet, hold_out, measure, read_evaluation_set
from models import CrossEncoder, Encoder, Ids, encode_texts, fetch_original, fetch_teacher
from negatives import choose_negatives, find_candidates, score_candidates
from numpy.typing import NDArray
from pairs import KINDS, SETS, Pairs, read_pairs
from train import QUESTION_TOKENS, TEXT_TOKENS, Recipe, TrainingData, average, train

RECIPES = {
    "first": Recipe(seed=3),
    "second": Recipe(anchor=8.0, epochs=2.0, seed=4),
    "third": Recipe(anchor=8.0, rate=3e-4, user=0.5, seed=5),
}
WITHOUT = {
    "the teacher": Recipe(teacher=0.0, seed=3),
    "contrast": Recipe(contrast=0.0, seed=3),
    "the anchor": Recipe(anchor=0.0, seed=3),
    "the user's words": Recipe(user=0.0, seed=3),
    "keywords": Recipe(keywords=0.0, seed=3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--judge", action="store_true", help="measure the judging halves, too")
    parser.add_argument("--without", action="store_true", help="measure what each part of the recipe brings")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    folders = [arguments.sets / name for name in SETS]
    weights = arguments.model or fetch_original(arguments.out)
    pairs, held_out = read_pairs(arguments.data, folders)
    original = Encoder(weights).to(device)
    material = prepare(pairs, original, arguments.limit)
    scores = material.score(CrossEncoder(arguments.teacher or fetch_teacher(arguments.out)).to(device))
    data, unfiltered = (material.choose(scores, filtered) for filtered in (True, False))
    print(f"{len(data.examples):,} examples of {len(pairs.pairs):,} questions", flush=True)
    sets = [read_evaluation_set(folder, "development", parts) for folder in folders for parts in (False, True)]
    sets += hold_out(held_out, KINDS)
    print_figures("original", original, sets)

    trained = []
    for name, recipe in RECIPES.items():
        print(f"{name}: {recipe}", flush=True)
        encoder = Encoder(weights).to(device)
        train(encoder, data, recipe)
        encoder.save(arguments.out / f"{name}.safetensors")
        print_figures(name, encoder, sets)
        trained.append(encoder)
    mean = Encoder(weights)
    mean.bert.load_state_dict(average(trained))
    mean.to(device).save(arguments.out / "mean.safetensors")
    print_figures("mean", mean, sets)
    if arguments.judge:
        judging = [read_evaluation_set(folder, "judging", parts) for folder in folders for parts in (False, True)]
        print_figures("original, judging", original, judging)
        print_figures("mean, judging", mean, judging)
    if arguments.without:
        trials = [(name, recipe, data) for name, recipe in WITHOUT.items()]
        for name, recipe, used in [*trials, ("the filter of negatives", RECIPES["first"], unfiltered)]:
            encoder = Encoder(weights).to(device)
            train(encoder, used, recipe)
            print_figures(f"first, without {name}", encoder, sets)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that every training has."""
    for name in ("data", "sets", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="the original model.safetensors; downloaded if not given")
    parser.add_argument("--teacher", type=Path, help="the cross-encoder's model.onnx; downloaded if not given")
    parser.add_argument("--limit", type=int, help="train on so many questions only")


@dataclass(frozen=True, slots=True)
class Material:
    """Pairs as tokens, with the original vectors of their texts, and candidates for negatives."""

    pairs: Pairs
    questions: list[Ids]
    texts: list[Ids]
    vectors: NDArray[np.float16]
    candidates: NDArray[np.int64]

    def score(self, teacher: CrossEncoder) -> NDArray[np.float32]:
        """Return a teacher's score of each question's answers and candidates."""
        return score_candidates(teacher, self.pairs.pairs, self.candidates, self.questions, self.texts)

    def choose(self, scores: NDArray[np.float32], filtered: bool) -> TrainingData:
        """Return examples with negatives that a teacher's scores choose: filtered, or not."""
        examples = choose_negatives(self.pairs.pairs, self.candidates, scores, filtered)
        return TrainingData(self.pairs, examples, self.questions, self.texts, self.vectors)


def prepare(pairs: Pairs, original: Encoder, limit: int | None) -> Material:
    """Turn pairs into tokens and vectors, and find candidates for negatives."""
    if limit:
        pairs.pairs = random.Random(0).sample(pairs.pairs, min(limit, len(pairs.pairs)))
    texts = encode_texts(pairs.texts, TEXT_TOKENS)
    questions = encode_texts([pair.question for pair in pairs.pairs], QUESTION_TOKENS)
    vectors = original.embed(texts)
    candidates = find_candidates(pairs, vectors, original.embed(questions))
    return Material(pairs, questions, texts, vectors.cpu().numpy(), candidates)


def print_figures(name: str, encoder: Encoder, sets: list[EvaluationSet]) -> None:
    """Print the nDCG@10 of an encoder's vectors on each set."""
    print(f"{name}: " + ", ".join(f"{one.name} {measure(encoder, one):.3f}" for one in sets), flush=True)


if __name__ == "__main__":
    main()
