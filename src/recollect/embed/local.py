"""The model that ships with Recollect: all-MiniLM-L6-v2 in int8, run on the CPU, offline."""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from recollect.embed.base import Vectors
from recollect.embed.tokens import vocabulary
from recollect.embed.weights import load
from recollect.embed.wordpiece import MAX_TOKENS, WordPiece
from recollect.errors import EmbedderError, EmbedderUnavailable
from recollect.forks import renew_after_fork

# scripts/build_model.py writes these files and prints their sums.
_FOLDER: Traversable = files("recollect.embed") / "minilm"
_MODEL_SHA256 = "0110cfdc6ada03384c464f0d476423b7bc250fd21887224634a3170b35ef3699"
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

_CURE = "reinstall it with: pip install --force-reinstall recollect"
_MAX_THREADS = 8  # by default; a memory should not take every core of a large shared machine
_CACHED_QUERIES = 256
_CACHED_LENGTH = 4_096  # characters; a longer text is hardly a question, and would only fill memory


class LocalEmbedder:
    """
    Turns text into unit vectors with the bundled model. Safe to share between threads.

    Nothing is loaded before the first use. Each text is run by itself: in int8 a text's vector would otherwise
    depend on the texts beside it. Only the first 256 tokens of a text count.
    """

    model_id = "local:all-MiniLM-L6-v2-int8"
    dimensions = 384
    max_tokens = MAX_TOKENS

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = max(1, threads if threads is not None else min(os.cpu_count() or 1, _MAX_THREADS))
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._loaded: tuple[Any, WordPiece] | None = None
        self._queries: OrderedDict[str, Vectors] = OrderedDict()

    def after_fork(self) -> None:
        """In a child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def load(self) -> None:
        """Load the model now, so that the first text need not wait for it."""
        self._model()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector a text, in the order of the texts."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        self._model()
        if len(texts) == 1 or self._threads == 1:
            return np.stack([self._embed_one(text) for text in texts])
        # A pool for each call costs little beside the model, and leaves no threads behind for a fork to lose.
        with ThreadPoolExecutor(min(self._threads, len(texts)), "recollect-embed") as pool:
            return np.stack(list(pool.map(self._embed_one, texts)))

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of one text; those of recent questions are kept."""
        with self._lock:
            vector = self._queries.get(text)
            if vector is not None:
                self._queries.move_to_end(text)
                return vector
        # All that is unknown has one and the same vector, and would be at home with every other unknown thing.
        if not self._model()[1].knows(text):
            raise EmbedderError(f"{self.model_id} knows none of these words")
        vector = self._embed_one(text)
        vector.setflags(write=False)  # every caller with this question shares it
        if len(text) > _CACHED_LENGTH:
            return vector
        with self._lock:
            self._queries[text] = vector
            if len(self._queries) > _CACHED_QUERIES:
                self._queries.popitem(last=False)
        return vector

    def has_kept(self, text: str) -> bool:
        """Whether the vector of this question is one of those that are kept."""
        with self._lock:
            return text in self._queries

    def count_tokens(self, text: str) -> int:
        """How many tokens a text has for this model, without a limit."""
        return self._model()[1].count_tokens(text)

    def close(self) -> None:
        """Release the model; a later use loads it again."""
        with self._lock:
            self._loaded = None
            self._queries.clear()

    def _embed_one(self, text: str) -> Vectors:
        session, tokenizer = self._model()
        ids = np.array([tokenizer.encode(text)], np.int64)
        try:
            vector: Vectors = session.run(["embedding"], {"input_ids": ids})[0][0]
        except Exception as exc:  # onnxruntime's errors share no base of their own
            raise EmbedderError(f"the bundled model failed on a text of {len(text)} characters: {exc}") from exc
        return vector

    def _model(self) -> tuple[Any, WordPiece]:
        loaded = self._loaded
        if loaded is None:
            with self._lock:
                loaded = self._loaded
                if loaded is None:
                    loaded = self._loaded = _load()
        return loaded


def _load() -> tuple[Any, WordPiece]:
    """The session and the tokenizer, from files known to be whole."""
    session = load(_FOLDER, {"model.onnx": _MODEL_SHA256, "vocab.txt": _VOCABULARY_SHA256}, "the bundled model", _CURE)
    dimensions = session.get_outputs()[0].shape[-1]
    if dimensions != LocalEmbedder.dimensions:
        raise EmbedderUnavailable(
            f"the bundled model gives {dimensions} dimensions, not {LocalEmbedder.dimensions}; {_CURE}"
        )
    return session, vocabulary()
