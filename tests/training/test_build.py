"""The whole training on a handful of pairs, on the CPU: `scripts/test --slow`, with the training's requirements."""

import gzip
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("MEMORIST_TRAINING_PYTHON", sys.executable)
SETS = ("locomo", "longmemeval_oracle_turn", "scifact", "cranfield", "xquad_en")
PETS = ("dog", "cat", "horse", "snake")
UNTRAINED = """
import sys
from safetensors.torch import save_file
from transformers import BertConfig, BertModel
config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
save_file(BertModel(config, add_pooling_layer=False).state_dict(), sys.argv[1])
"""
UNTRAINED_TEACHER = """
import sys
import numpy as np
import onnx
path, score = sys.argv[1:]
weights = {
    "classifier.weight": np.random.default_rng(0).normal(size=(1, 384), scale=100),  # so that scores differ
    "classifier.bias": np.array([float(score)]),
}
tensors = [onnx.numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "teacher", [], [], tensors)), path)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.executable == PYTHON and find_spec("torch") is None,
        reason="MEMORIST_TRAINING_PYTHON names no Python with training/requirements.txt",
    ),
]


def write_lines(path: Path, records: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def write_set(folder: Path) -> None:
    folder.mkdir(parents=True)
    write_lines(folder / "corpus.jsonl", [{"_id": f"d{n}", "text": f"Fact {n} of {folder.name}."} for n in range(4)])
    write_lines(folder / "queries.jsonl", [{"_id": f"q{n}", "text": f"What is fact {n}?"} for n in range(4)])
    judged = "".join(f"q{n}\td{n}\t1\n" for n in range(4))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)


@pytest.fixture
def arguments(tmp_path: Path) -> list[str | Path]:
    """Arguments of a training on a handful of pairs, of models that know nothing."""
    for name in SETS:
        write_set(tmp_path / "sets" / name)
    with gzip.open(tmp_path / "groups.jsonl.gz", "wt") as file:
        for number in range(15):
            texts = [f"Ann{number}: My {pet} is called Rex{number}." for pet in PETS]
            asked = [[f"What is the name of Ann{number}'s {pet}?", [n]] for n, pet in enumerate(PETS[:3])]
            file.write(json.dumps({"set": "friendsqa", "texts": texts, "qa": asked}) + "\n")
    model = tmp_path / "model.safetensors"
    subprocess.run([PYTHON, "-c", UNTRAINED, model], check=True)
    models = ["--model", model, "--teacher", write_teacher(tmp_path / "teacher.onnx", 10_000)]
    return ["--data", tmp_path / "groups.jsonl.gz", *models, "--sets", tmp_path / "sets", "--out", tmp_path / "out"]


def write_teacher(path: Path, score: int) -> Path:
    """Write an untrained cross-encoder, all of whose scores are near this one."""
    subprocess.run([PYTHON, "-c", UNTRAINED_TEACHER, path, str(score)], check=True)
    return path


def start(script: str, arguments: list[str | Path]) -> subprocess.CompletedProcess[str]:
    command = [PYTHON, ROOT / "training" / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def train(script: str, arguments: list[str | Path]) -> str:
    built = start(script, arguments)
    assert built.returncode == 0, built.stderr
    return built.stdout


def list_weights(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.safetensors")}


def test_a_handful_of_pairs_becomes_an_embedding_model_and_figures(arguments: list[str | Path], tmp_path: Path) -> None:
    printed = train("build.py", [*arguments, "--judge"])

    assert "mean, judging: locomo" in printed
    assert list_weights(tmp_path / "out") == {"first", "second", "third", "mean"}


def test_a_handful_of_pairs_becomes_a_reranker_and_figures(arguments: list[str | Path], tmp_path: Path) -> None:
    printed = train("build_reranker.py", arguments)

    assert "reranker: locomo" in printed
    assert list_weights(tmp_path / "out") == {"teacher", "reranker"}


def test_a_teacher_to_whom_all_answers_are_noise_is_said_to_leave_nothing_to_learn(
    arguments: list[str | Path], tmp_path: Path
) -> None:
    built = start("build_reranker.py", [*arguments, "--teacher", write_teacher(tmp_path / "harsh.onnx", -10_000)])

    assert built.returncode == 1
    assert built.stderr.endswith("no question has an answer that the teacher scores -8 or more, and two candidates\n")
