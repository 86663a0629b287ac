"""What the models that turn text into vectors on this machine share: texts one by one, side by side.

The model that ships with Memorist: all-MiniLM-L6-v2 in int8, run on the CPU, offline.
bge-small-en-v1.5 in int8: finds more than the model that comes along, and takes longer. It has to be added.
"""

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memorist.embed.base import Vectors
from memorist.embed.onnx_session import OnnxModel, load
from memorist.embed.optional_models import OPTIONAL_MODELS
from memorist.embed.wordpiece import MAX_TOKENS, vocabulary
from memorist.errors import EmbedderError, EmbedderUnavailable

Ids = NDArray[np.int64]

_CACHED_QUERIES = 256
_CACHED_LENGTH = 4_096  # characters; a longer text is hardly a question, and would only fill memory


class Encoder(OnnxModel):
    """
    Turns text into unit vectors. Safe to share between threads.

    Nothing is loaded before the first use. Each text is run by itself: in int8 a text's vector would otherwise
    depend on the texts beside it. Only the first 256 tokens of a text count.
    """

    model_id: ClassVar[str]
    dimensions: ClassVar[int]
    max_tokens: ClassVar[int] = MAX_TOKENS
    by_sentence: ClassVar[bool] = True  # texts of several sentences have a vector for every few of them, too
    what: ClassVar[str]  # as an error calls it
    instruction: ClassVar[str] = ""  # before a question, where the model was trained with one

    def __init__(self, *, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._queries: OrderedDict[str, Vectors] = OrderedDict()

    @abstractmethod
    def _run(self, session: Any, ids: Ids) -> Vectors:
        """The unit vector of one text's ids."""

    def load(self) -> None:
        """Load the model now, so that the first text need not wait for it."""
        self._session()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector a text, in the order of the texts."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        self._session()
        if len(texts) == 1 or self._threads == 1:
            return np.stack([self._embed_one(text) for text in texts])
        # A pool for each call costs little beside the model, and leaves no threads behind for a fork to lose.
        with ThreadPoolExecutor(min(self._threads, len(texts)), "memorist-embed") as pool:
            return np.stack(list(pool.map(self._embed_one, texts)))

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of one question; those of recent ones are kept."""
        with self._lock:
            vector = self._queries.get(text)
            if vector is not None:
                self._queries.move_to_end(text)
                return vector
        self._session()  # a model that is missing is worth more words than a text that is strange
        # All that is unknown has one and the same vector, and would be at home with every other unknown thing.
        if not vocabulary().knows(text):
            raise EmbedderError(f"{self.model_id} knows none of these words")
        vector = self._embed_one(self.instruction + text)
        vector.setflags(write=False)  # every caller with this question shares it
        if len(text) > _CACHED_LENGTH:
            return vector
        with self._lock:
            self._queries[text] = vector
            if len(self._queries) > _CACHED_QUERIES:
                self._queries.popitem(last=False)
        return vector

    def has_cached(self, text: str) -> bool:
        """Whether the vector of this question is one of those that are kept."""
        with self._lock:
            return text in self._queries

    def count_tokens(self, text: str) -> int:
        """How many tokens a text has for this model, without a limit."""
        return vocabulary().count_tokens(text)

    def close(self) -> None:
        super().close()
        with self._lock:
            self._queries.clear()

    def _embed_one(self, text: str) -> Vectors:
        session, ids = self._session(), np.array([vocabulary().encode(text, self.max_tokens)], np.int64)
        try:
            return self._run(session, ids)
        except Exception as exc:  # onnxruntime's errors share no base of their own
            raise EmbedderError(f"{self.what} failed on a text of {len(text)} characters: {exc}") from exc


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


class BgeSmall(Encoder):
    """EmbedderUnavailable, with how to get it, where there is no such model on this machine."""

    model_id = "local:bge-small-en-v1.5-int8"
    dimensions = 384
    what = "bge-small"
    by_sentence = False  # not measured, and twice the time for a model that takes long
    instruction = "Represent this sentence for searching relevant passages: "

    def __init__(self, *, folder: Path | None = None, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._folder = folder

    def _load(self) -> Any:
        return OPTIONAL_MODELS["bge-small"].load(self._folder)

    def _run(self, session: Any, ids: Ids) -> Vectors:
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        vector: Vectors = session.run(["last_hidden_state"], given)[0][0, 0]  # the first token stands for the text
        return vector / np.linalg.norm(vector)
