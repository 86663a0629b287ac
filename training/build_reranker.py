"""
Train the reranker, from the cross-encoder ms-marco-MiniLM-L-12-v2 and a folder of pairs.

    python training/build_reranker.py --data groups.jsonl.gz --sets DATA --out OUT

The cross-encoder first learns from the answers that people marked. Then every second of its layers learns to rank as
all of them do. The arguments are those of build.py. OUT gets `teacher.safetensors` and `reranker.safetensors`.
"""

import argparse

import torch
from build import add_arguments, prepare
from figures import EvaluationSet, find_nearest, hold_out, measure_teacher, read_evaluation_set
from models import CrossEncoder, Encoder, fetch_original, fetch_teacher
from pairs import KINDS, SETS, read_pairs
from reranker import RerankerRecipe, train_reranker

TEACHER = RerankerRecipe()
LAYERS = range(0, 12, 2)
STUDENT = (
    RerankerRecipe(marked=0.25, rate=1e-4, batch=128, least=-9.0, seed=7),
    RerankerRecipe(marked=0.15, rate=7e-5, batch=128, least=-9.0, seed=8),
)
NEAREST = 30  # texts that are ranked for each question of an evaluation set, beside those that answer it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    folders = [arguments.sets / name for name in SETS]
    pairs, held_out = read_pairs(arguments.data, folders)
    encoder = Encoder(arguments.model or fetch_original(arguments.out)).to(device)
    material = prepare(pairs, encoder, arguments.limit)
    sets = [read_evaluation_set(folder, "development", False) for folder in folders] + hold_out(held_out, KINDS)
    ranked = [(one, find_nearest(encoder, one, NEAREST)) for one in sets]

    teacher = CrossEncoder(arguments.teacher or fetch_teacher(arguments.out)).to(device)
    print_figures("original", teacher, ranked)
    scores = material.score(teacher)
    train_reranker(teacher, material, scores, TEACHER)
    teacher.save(arguments.out / "teacher.safetensors")
    print_figures("teacher", teacher, ranked)
    scores = material.score(teacher)
    teacher.keep_layers(LAYERS)
    for recipe in STUDENT:
        train_reranker(teacher, material, scores, recipe)
        print_figures("reranker", teacher, ranked)
    teacher.save(arguments.out / "reranker.safetensors")


def print_figures(name: str, teacher: CrossEncoder, sets: list[tuple[EvaluationSet, list[list[int]]]]) -> None:
    """Print the nDCG@10 of a cross-encoder's ranking on each set."""
    measured = (f"{one.name} {measure_teacher(teacher, one, nearest):.3f}" for one, nearest in sets)
    print(f"{name}: " + ", ".join(measured), flush=True)


if __name__ == "__main__":
    main()
