"""
Build the models of Memorist, the embedding model that ships with it and the reranker, from the weights that
training/build.py and training/build_reranker.py made.

Run it from the root of the repository, in an environment of its own:

    python -m venv .venv-model
    .venv-model/bin/pip install onnx onnxruntime numpy safetensors
    .venv-model/bin/python scripts/build_model.py embedder mean.safetensors
    .venv-model/bin/python scripts/build_model.py reranker reranker.safetensors

It writes a network as an ONNX graph, quantises it to int8, checks the result against a plain numpy forward pass, and
puts it into src/memorist/embed/bundled or models/reranker. Copy the checksum that it prints to local.py or
onnx_models.py in src/memorist/embed. With the same versions of onnx and numpy the file is the same to the byte.

Choices made by measuring:

- A graph takes the ids of one text, or of one pair with its token types, and nothing else. Without padding it needs no
  mask, and a text gets the same vector alone and among others: dynamic quantisation makes them differ in a batch.
- Fused operators are written directly, so that no optimiser has to find them when the model is built or loaded.
- Weights are int8 with one scale a column (a word's embedding: one scale a row). One scale a tensor loses far more
  (cosine .934 to fp32 against .994), and unsigned weights are as exact but nearly twice as slow.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load as load_safetensors

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import: it would report to its maker
import onnxruntime

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {
    "embedder": ROOT / "src" / "memorist" / "embed" / "bundled" / "model.onnx",
    "reranker": ROOT / "models" / "reranker" / "src" / "memorist_reranker" / "model.onnx",
}

HEADS, HIDDEN, MAX_TOKENS = 12, 384, 256
EPSILON = 1e-12
FUSED = "com.microsoft"  # the domain of onnxruntime's own operators
MIN_COSINE = 0.97  # int8 to fp32, of random words, which are harder than prose (.994 on average)
MAX_ERROR = 1.5  # int8 to fp32, of the logits of random words, which range from -10 to 10
TESTED_LENGTHS = [4, 5, 8, 12, 30, 60, 120, 192] * 5

Array = NDArray[np.float32]
Weights = dict[str, Array]


def main() -> None:
    """Build a model, check it, and write its file."""
    if len(sys.argv) != 3 or sys.argv[1] not in TARGETS:
        raise SystemExit(f"usage: build_model.py {'|'.join(TARGETS)} WEIGHTS.safetensors")
    kind, path = sys.argv[1:]
    stored = load_safetensors(Path(path).read_bytes())
    weights = {name.removeprefix("bert."): value.astype(np.float32) for name, value in stored.items()}
    build, check = {"embedder": (build_embedder, check_embedder), "reranker": (build_reranker, check_reranker)}[kind]
    model = build(weights)
    check(model, weights)
    TARGETS[kind].write_bytes(model)
    print(f"{hashlib.sha256(model).hexdigest()}  {TARGETS[kind].name}  {len(model):,} bytes")


class Graph:
    """An ONNX graph under construction: operators in order, and the constants they use."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """Add a constant and return its name."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> list[str]:
        """Add an operator and return the names of its results."""
        number = len(self.nodes)
        names = [f"{operator}_{number}_{index}" for index in range(outputs)]
        node = helper.make_node(operator, inputs, names, f"{operator}_{number}", domain=domain, **attributes)
        self.nodes.append(node)
        return names

    def multiply(self, x: str, name: str, weight: Array) -> str:
        """Add x @ weight, with an int8 weight and x quantised when it runs."""
        quantised, scale = quantise(weight, axis=0)
        inputs = (self.constant(f"{name}.int8", quantised), self.constant(f"{name}.scale", scale))
        return self.add("DynamicQuantizeMatMul", x, *inputs, domain=FUSED)[0]

    def add_and_normalise(self, x: str, residual: str, bias: Array, name: str, weights: Weights) -> str:
        """Add LayerNorm(x + bias + residual)."""
        scale = self.constant(f"{name}.scale", weights[f"{name}.weight"])
        shift = self.constant(f"{name}.shift", weights[f"{name}.bias"])
        inputs = (x, residual, scale, shift, self.constant(f"{name}.before", bias))
        return self.add("SkipLayerNormalization", *inputs, domain=FUSED, epsilon=EPSILON)[0]


def quantise(weight: Array, axis: int) -> tuple[NDArray[np.int8], Array]:
    """Return a weight as signed, symmetric int8, and one scale for each line along `axis`."""
    scale = (np.abs(weight).max(axis) / 127).astype(np.float32)
    return np.round(weight / np.expand_dims(scale, axis)).astype(np.int8), scale


def build_embedder(weights: Weights) -> bytes:
    """Return the quantised embedding model as an ONNX file."""
    graph = Graph()
    # The token type, which is always 0, is part of the positions.
    x = add_layers(graph, weights, add_embeddings(graph, weights, positions(weights) + token_types(weights)[0]))
    (mean,) = graph.add("ReduceMean", x, graph.constant("tokens_axis", np.array([1])), keepdims=0)
    graph.nodes.append(helper.make_node("LpNormalization", [mean], ["embedding"], "normalise", axis=-1, p=2))
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, HIDDEN])
    return serialise(graph, "memorist-embed-v1-int8", ["input_ids"], output)


def build_reranker(weights: Weights) -> bytes:
    """Return the quantised cross-encoder as an ONNX file."""
    graph = Graph()
    (types,) = graph.add("Gather", graph.constant("types", token_types(weights)), "token_type_ids")
    x = add_layers(graph, weights, add_embeddings(graph, weights, positions(weights), types))
    (first,) = graph.add("Gather", x, graph.constant("first_token", np.array([0])), axis=1)
    (pooled,) = graph.add("Flatten", first)
    for name in ("pooler.dense", "classifier"):
        weight = graph.constant(f"{name}.weight", weights[f"{name}.weight"])
        bias = graph.constant(f"{name}.bias", weights[f"{name}.bias"])
        (pooled,) = graph.add("Gemm", pooled, weight, bias, transB=1)
        if name == "pooler.dense":
            (pooled,) = graph.add("Tanh", pooled)
    graph.nodes.append(helper.make_node("Identity", [pooled], ["logits"], "logits"))
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1])
    return serialise(graph, "memorist-rerank-v1-int8", ["input_ids", "token_type_ids"], output)


def serialise(graph: Graph, name: str, inputs: list[str], output: onnx.ValueInfoProto) -> bytes:
    """Return a graph as the content of a file."""
    tokens = [helper.make_tensor_value_info(each, TensorProto.INT64, [1, "tokens"]) for each in inputs]
    proto = helper.make_graph(graph.nodes, name, tokens, [output], graph.constants)
    # The oldest versions that have these operators, so that older runtimes can read the file.
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(FUSED, 1)]
    model = helper.make_model(proto, opset_imports=opsets, ir_version=8, producer_name="memorist")
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def add_embeddings(graph: Graph, weights: Weights, position_table: Array, types: str | None = None) -> str:
    """Add the embeddings of words and positions, and of token types where they differ, normalised."""
    words, scale = quantise(weights["embeddings.word_embeddings.weight"], axis=1)
    (embedded,) = graph.add("Gather", graph.constant("words.int8", words), "input_ids")
    (embedded,) = graph.add("Cast", embedded, to=TensorProto.FLOAT)
    (scales,) = graph.add("Gather", graph.constant("words.scale", scale[:, None]), "input_ids")
    (embedded,) = graph.add("Mul", embedded, scales)
    (length,) = graph.add("Shape", "input_ids", start=1, end=2)
    table = graph.constant("positions", position_table)
    (position,) = graph.add("Slice", table, graph.constant("first", np.array([0])), length)
    (total,) = graph.add("Add", embedded, position)
    if types is not None:
        (total,) = graph.add("Add", total, types)
    norm = "embeddings.LayerNorm"
    scale_name = graph.constant(f"{norm}.scale", weights[f"{norm}.weight"])
    shift_name = graph.constant(f"{norm}.shift", weights[f"{norm}.bias"])
    return graph.add("LayerNormalization", total, scale_name, shift_name, epsilon=EPSILON)[0]


def positions(weights: Weights) -> Array:
    return weights["embeddings.position_embeddings.weight"][:MAX_TOKENS]


def token_types(weights: Weights) -> Array:
    return weights["embeddings.token_type_embeddings.weight"]


def count_layers(weights: Weights) -> int:
    return len({name.split(".")[2] for name in weights if name.startswith("encoder.layer.")})


def add_layers(graph: Graph, weights: Weights, x: str) -> str:
    for number in range(count_layers(weights)):
        x = add_layer(graph, weights, f"encoder.layer.{number}", x)
    return x


def add_layer(graph: Graph, weights: Weights, name: str, x: str) -> str:
    """Add a transformer layer: attention, then the feed-forward part, each with its residual."""
    weight, bias = query_key_value(weights, name)
    quantised, scale = quantise(weight, axis=0)
    x_int8, x_scale, x_zero = graph.add("DynamicQuantizeLinear", x, outputs=3)
    (context,) = graph.add(
        "QAttention",
        x_int8,
        graph.constant(f"{name}.attention.int8", quantised),
        graph.constant(f"{name}.attention.bias", bias),
        x_scale,
        graph.constant(f"{name}.attention.scale", scale),
        "",  # no mask
        x_zero,
        domain=FUSED,
        num_heads=HEADS,
    )
    attended = graph.multiply(context, f"{name}.attended", weights[f"{name}.attention.output.dense.weight"].T)
    bias = weights[f"{name}.attention.output.dense.bias"]
    x = graph.add_and_normalise(attended, x, bias, f"{name}.attention.output.LayerNorm", weights)
    wide = graph.multiply(x, f"{name}.wide", weights[f"{name}.intermediate.dense.weight"].T)
    bias_name = graph.constant(f"{name}.wide.bias", weights[f"{name}.intermediate.dense.bias"])
    (active,) = graph.add("BiasGelu", wide, bias_name, domain=FUSED)
    narrow = graph.multiply(active, f"{name}.narrow", weights[f"{name}.output.dense.weight"].T)
    return graph.add_and_normalise(narrow, x, weights[f"{name}.output.dense.bias"], f"{name}.output.LayerNorm", weights)


def query_key_value(weights: Weights, name: str) -> tuple[Array, Array]:
    """Return the weights and biases of the three projections of attention, side by side."""
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    weight = np.concatenate([weights[f"{part}.weight"] for part in parts]).T
    return weight, np.concatenate([weights[f"{part}.bias"] for part in parts])


def encode_reference(weights: Weights, ids: NDArray[np.int64], types: NDArray[np.int64]) -> Array:
    """Return the hidden states that the original network gives, a row a token, in plain numpy and fp32."""

    def normalise(x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"])

    words = weights["embeddings.word_embeddings.weight"][ids]
    x = normalise(words + positions(weights)[: len(ids)] + token_types(weights)[types], "embeddings.LayerNorm")
    for number in range(count_layers(weights)):
        name = f"encoder.layer.{number}"
        weight, bias = query_key_value(weights, name)
        heads = (x @ weight + bias).reshape(len(ids), 3, HEADS, HIDDEN // HEADS).transpose(1, 2, 0, 3)
        scores = heads[0] @ heads[1].transpose(0, 2, 1) / np.sqrt(np.float32(HIDDEN // HEADS))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        context = (scores / scores.sum(-1, keepdims=True)) @ heads[2]
        context = context.transpose(1, 0, 2).reshape(len(ids), HIDDEN)
        attended = apply_dense(weights, f"{name}.attention.output.dense", context)
        x = normalise(attended + x, f"{name}.attention.output.LayerNorm")
        wide = gelu(apply_dense(weights, f"{name}.intermediate.dense", x))
        x = normalise(apply_dense(weights, f"{name}.output.dense", wide) + x, f"{name}.output.LayerNorm")
    return x


def apply_dense(weights: Weights, name: str, x: Array) -> Array:
    return np.asarray(x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])


def gelu(x: Array) -> Array:
    """Return x * Phi(x), with erf by Abramowitz & Stegun 7.1.26: numpy has none, and 1.5e-7 is exact enough here."""
    z = np.abs(x) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.asarray(x * (1 + np.sign(x) * (1 - series * np.exp(-z * z))) / 2, np.float32)


def check_embedder(model: bytes, weights: Weights) -> None:
    """Stop unless the int8 vectors are near the fp32 ones."""

    def compare(run: Run, ids: NDArray[np.int64]) -> float:
        mean = encode_reference(weights, ids, np.zeros_like(ids)).mean(0)
        return float(run({"input_ids": ids[None]})[0] @ mean / np.linalg.norm(mean))

    cosines = compare_with_reference(model, compare)
    print(f"cosine to fp32: {np.mean(cosines):.4f} on average, {min(cosines):.4f} at least")
    if min(cosines) < MIN_COSINE:
        raise SystemExit(f"that is below {MIN_COSINE}; nothing was written")


def check_reranker(model: bytes, weights: Weights) -> None:
    """Stop unless the int8 logits are near the fp32 ones."""

    def compare(run: Run, ids: NDArray[np.int64]) -> float:
        types = (np.arange(len(ids)) >= len(ids) // 3).astype(np.int64)
        pooled = np.tanh(apply_dense(weights, "pooler.dense", encode_reference(weights, ids, types)[0]))
        logit = apply_dense(weights, "classifier", pooled)[0]
        return abs(float(run({"input_ids": ids[None], "token_type_ids": types[None]})[0, 0] - logit))

    errors = compare_with_reference(model, compare)
    print(f"error of logits: {np.mean(errors):.3f} on average, {max(errors):.3f} at most")
    if max(errors) > MAX_ERROR:
        raise SystemExit(f"that is above {MAX_ERROR}; nothing was written")


Run = Callable[[dict[str, NDArray[np.int64]]], Array]


def compare_with_reference(model: bytes, compare: Callable[[Run, NDArray[np.int64]], float]) -> list[float]:
    """Compare a model with its reference on random words; stop unless it answers the same on every run."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])

    def run(inputs: dict[str, NDArray[np.int64]]) -> Array:
        first, again = (np.asarray(session.run(None, inputs)[0]) for _ in range(2))
        if not np.array_equal(first, again):
            raise SystemExit("the model gave two answers for one text; nothing was written")
        return first

    random = np.random.default_rng(0)
    texts = (np.array([101, *random.integers(1996, 20000, length - 2), 102]) for length in TESTED_LENGTHS)
    return [compare(run, ids) for ids in texts]


if __name__ == "__main__":
    main()
