"""
Build the model that ships with Memorist, from the weights that training/build.py made.

Run it from the root of the repository, in an environment of its own:

    python -m venv .venv-model
    .venv-model/bin/pip install onnx onnxruntime numpy safetensors
    .venv-model/bin/python scripts/build_model.py mean.safetensors

It writes the network as an ONNX graph, quantises it to int8, checks the result against a plain numpy forward pass, and
puts it into src/memorist/embed/bundled. Copy the checksum it prints to src/memorist/embed/local.py. With the same
versions of onnx and numpy the file is the same to the byte.

Choices made by measuring:

- The graph takes the ids of one text and nothing else. Without padding it needs no mask and no token types, and a
  text gets the same vector alone and among others: dynamic quantisation makes them differ in a batch.
- Fused operators are written directly, so that no optimiser has to find them when the model is built or loaded.
- Weights are int8 with one scale a column (a word's embedding: one scale a row). One scale a tensor loses far more
  (cosine .934 to fp32 against .994), and unsigned weights are as exact but nearly twice as slow.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load as load_safetensors

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import: it would report to its maker
import onnxruntime

TARGET = Path(__file__).resolve().parents[1] / "src" / "memorist" / "embed" / "bundled" / "model.onnx"

LAYERS, HEADS, HIDDEN, MAX_TOKENS = 6, 12, 384, 256
EPSILON = 1e-12
FUSED = "com.microsoft"  # the domain of onnxruntime's own operators
MIN_COSINE = 0.97  # int8 to fp32, of random words, which are harder than prose (.994 on average)

Array = NDArray[np.float32]
Weights = dict[str, Array]


def main() -> None:
    """Build the model, check it, and write its file."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: build_model.py WEIGHTS.safetensors")
    stored = load_safetensors(Path(sys.argv[1]).read_bytes())
    weights = {name: value.astype(np.float32) for name, value in stored.items()}
    model = build_model(weights)
    check_model(model, weights)
    TARGET.write_bytes(model)
    print(f"{hashlib.sha256(model).hexdigest()}  {TARGET.name}  {len(model):,} bytes")


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


def build_model(weights: Weights) -> bytes:
    """Return the quantised network as an ONNX file."""
    graph = Graph()
    x = add_embeddings(graph, weights)
    for number in range(LAYERS):
        x = add_layer(graph, weights, f"encoder.layer.{number}", x)
    (mean,) = graph.add("ReduceMean", x, graph.constant("tokens_axis", np.array([1])), keepdims=0)
    graph.nodes.append(helper.make_node("LpNormalization", [mean], ["embedding"], "normalise", axis=-1, p=2))
    proto = helper.make_graph(
        graph.nodes,
        "memorist-embed-v1-int8",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, HIDDEN])],
        graph.constants,
    )
    # The oldest versions that have these operators, so that older runtimes can read the file.
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(FUSED, 1)]
    model = helper.make_model(proto, opset_imports=opsets, ir_version=8, producer_name="memorist")
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def add_embeddings(graph: Graph, weights: Weights) -> str:
    """Add word and position embeddings, normalised; the token type, which is always 0, is part of the positions."""
    words, scale = quantise(weights["embeddings.word_embeddings.weight"], axis=1)
    (embedded,) = graph.add("Gather", graph.constant("words.int8", words), "input_ids")
    (embedded,) = graph.add("Cast", embedded, to=TensorProto.FLOAT)
    (scales,) = graph.add("Gather", graph.constant("words.scale", scale[:, None]), "input_ids")
    (embedded,) = graph.add("Mul", embedded, scales)
    (length,) = graph.add("Shape", "input_ids", start=1, end=2)
    table = graph.constant("positions", positions(weights))
    (position,) = graph.add("Slice", table, graph.constant("first", np.array([0])), length)
    (total,) = graph.add("Add", embedded, position)
    norm = "embeddings.LayerNorm"
    scale_name = graph.constant(f"{norm}.scale", weights[f"{norm}.weight"])
    shift_name = graph.constant(f"{norm}.shift", weights[f"{norm}.bias"])
    return graph.add("LayerNormalization", total, scale_name, shift_name, epsilon=EPSILON)[0]


def positions(weights: Weights) -> Array:
    """Return the embeddings of positions, with that of token type 0 added."""
    table = weights["embeddings.position_embeddings.weight"][:MAX_TOKENS]
    return np.asarray(table + weights["embeddings.token_type_embeddings.weight"][0], np.float32)


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


def embed_reference(weights: Weights, ids: NDArray[np.int64]) -> Array:
    """Return the vector that the original network gives, in plain numpy and fp32."""

    def normalise(x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"])

    def dense(x: Array, name: str) -> Array:
        return np.asarray(x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])

    words = weights["embeddings.word_embeddings.weight"][ids]
    x = normalise(words + positions(weights)[: len(ids)], "embeddings.LayerNorm")
    for number in range(LAYERS):
        name = f"encoder.layer.{number}"
        weight, bias = query_key_value(weights, name)
        heads = (x @ weight + bias).reshape(len(ids), 3, HEADS, HIDDEN // HEADS).transpose(1, 2, 0, 3)
        scores = heads[0] @ heads[1].transpose(0, 2, 1) / np.sqrt(np.float32(HIDDEN // HEADS))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        context = (scores / scores.sum(-1, keepdims=True)) @ heads[2]
        attended = dense(context.transpose(1, 0, 2).reshape(len(ids), HIDDEN), f"{name}.attention.output.dense")
        x = normalise(attended + x, f"{name}.attention.output.LayerNorm")
        wide = dense(x, f"{name}.intermediate.dense")
        x = normalise(dense(gelu(wide), f"{name}.output.dense") + x, f"{name}.output.LayerNorm")
    mean = x.mean(0)
    return np.asarray(mean / np.linalg.norm(mean))


def gelu(x: Array) -> Array:
    """Return x * Phi(x), with erf by Abramowitz & Stegun 7.1.26: numpy has none, and 1.5e-7 is exact enough here."""
    z = np.abs(x) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.asarray(x * (1 + np.sign(x) * (1 - series * np.exp(-z * z))) / 2, np.float32)


def check_model(model: bytes, weights: Weights) -> None:
    """Stop unless the int8 vectors are near the fp32 ones and the same on every run."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    cosines = []
    for length in [2, 3, 8, 12, 30, 60, 120, MAX_TOKENS] * 5:
        ids = np.array([101, *random.integers(1996, 20000, length - 2), 102])
        vector, again = (session.run(None, {"input_ids": ids[None]})[0][0] for _ in range(2))
        if not np.array_equal(vector, again):
            raise SystemExit("the model gave two vectors for one text; nothing was written")
        cosines.append(float(vector @ embed_reference(weights, ids)))
    print(f"cosine to fp32: {np.mean(cosines):.4f} on average, {min(cosines):.4f} at least")
    if min(cosines) < MIN_COSINE:
        raise SystemExit(f"that is below {MIN_COSINE}; nothing was written")


if __name__ == "__main__":
    main()
