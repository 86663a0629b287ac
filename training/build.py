"""
Train the embedding model, from the original weights of all-MiniLM-L6-v2 and a folder of pairs.

    python training/build.py --data groups.jsonl.gz --sets DATA --teacher model.onnx --out OUT

DATA holds the evaluation sets: nothing that they contain is trained on, and their development halves are measured.
With --judge the other halves are measured as well. With --without the first training is done again and again, each
time without one of the recipe's parts, and measured. OUT gets a file of weights for each training of the recipe, and
`mean.safetensors`, the mean of them all.
"""

import argparse
import random
from pathlib import Path

import torch
from figures import EvaluationSet, hold_out, measure, read_evaluation_set
from models import Encoder, Teacher, encode_texts, fetch_original
from negatives import choose_negatives, find_candidates, score_candidates
from pairs import Pairs, read_pairs
from train import QUESTION_TOKENS, TEXT_TOKENS, Recipe, TrainingData, average, train

SETS = ("locomo", "longmemeval_oracle_turn", "scifact", "cranfield", "xquad_en")
KINDS = {
    "held-out talk": ("friendsqa", "molweni", "qmsum", "spc_", "irc_", "topical", "sgd", "canard"),
    "held-out docs": ("docs_", "ms_faq"),
    "held-out commands": ("tldr",),
    "held-out passages": ("selqa", "squad", "fairytale", "qamr", "covid", "medquad", "clapnq"),
}
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
    for name in ("data", "sets", "teacher", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="the original model.safetensors; downloaded if not given")
    parser.add_argument("--limit", type=int, help="train on so many questions only")
    parser.add_argument("--judge", action="store_true", help="measure the judging halves, too")
    parser.add_argument("--without", action="store_true", help="measure what each part of the recipe brings")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    folders = [arguments.sets / name for name in SETS]
    weights = arguments.model or fetch_original(arguments.out)
    pairs, held_out = read_pairs(arguments.data, folders)
    original = Encoder(weights).to(device)
    data, unfiltered = prepare(pairs, original, Teacher(arguments.teacher).to(device), arguments.limit)
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


def prepare(pairs: Pairs, original: Encoder, teacher: Teacher, limit: int | None) -> tuple[TrainingData, TrainingData]:
    """Turn pairs into examples: tokens, original vectors, hard negatives, scores; filtered by the teacher, and not."""
    if limit:
        pairs.pairs = random.Random(0).sample(pairs.pairs, min(limit, len(pairs.pairs)))
    texts = encode_texts(pairs.texts, TEXT_TOKENS)
    questions = encode_texts([pair.question for pair in pairs.pairs], QUESTION_TOKENS)
    vectors = original.embed(texts)
    candidates = find_candidates(pairs, vectors, original.embed(questions))
    scores = score_candidates(teacher, pairs.pairs, candidates, questions, texts)
    originals = vectors.cpu().numpy()
    filtered, unfiltered = (
        TrainingData(pairs, choose_negatives(pairs.pairs, candidates, scores, each), questions, texts, originals)
        for each in (True, False)
    )
    print(f"{len(filtered.examples):,} examples of {len(pairs.pairs):,} questions", flush=True)
    return filtered, unfiltered


def print_figures(name: str, encoder: Encoder, sets: list[EvaluationSet]) -> None:
    """Print the nDCG@10 of an encoder's vectors on each set."""
    print(f"{name}: " + ", ".join(f"{one.name} {measure(encoder, one):.3f}" for one in sets), flush=True)


if __name__ == "__main__":
    main()
