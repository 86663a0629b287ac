"""The model that ships with Memorist: all-MiniLM-L6-v2 in int8, run on the CPU, offline."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from memorist.embed.base import Vectors
from memorist.embed.encoder import Encoder, Ids
from memorist.embed.weights import load
from memorist.errors import EmbedderUnavailable

# scripts/build_model.py writes these files and prints their sums.
_FOLDER: Traversable = files("memorist.embed") / "minilm"
_MODEL_SHA256 = "d6bdd341de3454a887ab276eb19f17658946f94e6840a9df54b65ca5ba0193ac"
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

_CURE = "reinstall it with: pip install --force-reinstall memorist"


class LocalEmbedder(Encoder):
    """The bundled model: pooling and length are part of its network."""

    model_id = "local:all-MiniLM-L6-v2-int8"
    dimensions = 384
    what = "the bundled model"

    def _load(self) -> Any:
        session = load(_FOLDER, {"model.onnx": _MODEL_SHA256, "vocab.txt": _VOCABULARY_SHA256}, self.what, _CURE)
        dimensions = session.get_outputs()[0].shape[-1]
        if dimensions != self.dimensions:
            raise EmbedderUnavailable(f"{self.what} gives {dimensions} dimensions, not {self.dimensions}; {_CURE}")
        return session

    def _run(self, session: Any, ids: Ids) -> Vectors:
        vector: Vectors = session.run(["embedding"], {"input_ids": ids})[0][0]
        return vector
