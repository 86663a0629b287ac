"""Models that run on the CPU of this machine, offline: the bundled embedding model, and an optional reranker."""

import math
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memorist.embed.base import Vectors
from memorist.embed.onnx_models import MODEL, OPTIONAL_MODELS, OnnxModel, load_session
from memorist.embed.wordpiece import BUNDLED_FOLDER, MAX_TOKENS, WordPiece, load_tokenizer
from memorist.errors import EmbedderError
from memorist.profiles import BUNDLED
from memorist.text.tokenizer import is_mostly_latin

_CACHED_QUERIES = 256
_MAX_CACHED_CHARACTERS = 4_096  # a longer text is hardly a question, and would only fill memory

# training/build.py made the weights; scripts/build_model.py wrote the file and printed its checksum.
_MODEL_SHA256 = "a1adefebaa3451354969161a3a8a7b58da072e161c9c8a8791a884d9282e6eaf"
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_INSTALL_HINT = "reinstall it with: pip install --force-reinstall memorist"

_TEMPERATURE = 2.0  # spreads the reranker's scores of passages that it is unsure of
_MAX_QUESTION_TOKENS, _MAX_PAIR_TOKENS = 64, 192


class OnnxEmbedder(OnnxModel):
    """
    An embedding model that makes unit vectors on this machine. Safe to share between threads.

    Nothing is loaded before the first use. Each text is run by itself: in int8 a text's vector would otherwise
    depend on the texts beside it. Only the first `max_tokens` tokens of a text count.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._queries: OrderedDict[str, Vectors] = OrderedDict()

    @property
    @abstractmethod
    def model_id(self) -> str: ...

    @property
    @abstractmethod
    def dimensions(self) -> int: ...

    @property
    @abstractmethod
    def max_tokens(self) -> int: ...

    @property
    @abstractmethod
    def _label(self) -> str:
        """The name of the model in errors."""

    @abstractmethod
    def _tokenizer(self) -> WordPiece:
        """Return the tokenizer of the model."""

    @abstractmethod
    def _run(self, session: Any, ids: NDArray[np.int64]) -> Vectors:
        """Return the unit vector of one text, given as a row of tokens."""

    def load(self) -> None:
        """Load the model now, so that the first text does not wait for it."""
        self._session()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector a text, in order."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        self._session()
        if len(texts) == 1 or self._threads == 1:
            return np.stack([self._embed_one(text) for text in texts])
        # A pool for each call costs little beside the model, and leaves no threads behind for a fork to lose.
        with ThreadPoolExecutor(min(self._threads, len(texts)), "memorist-embed") as pool:
            return np.stack(list(pool.map(self._embed_one, texts)))

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question; those of recent ones are cached."""
        with self._lock:
            vector = self._queries.get(text)
            if vector is not None:
                self._queries.move_to_end(text)
                return vector
        self._session()  # first: a missing model matters more than unknown words
        ids = self._tokenizer().encode(text, self.max_tokens)
        # Texts of unknown words alone all have the same vector, and would be found as similar to each other.
        if not self._tokenizer().knows_any(ids):
            raise EmbedderError(f"{self.model_id} knows none of these words")
        vector = self._embed_ids(ids, text)
        vector.setflags(write=False)  # all callers with this question share it
        if len(text) > _MAX_CACHED_CHARACTERS:
            return vector
        with self._lock:
            self._queries[text] = vector
            if len(self._queries) > _CACHED_QUERIES:
                self._queries.popitem(last=False)
        return vector

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a whole text."""
        return self._tokenizer().count_tokens(text)

    def close(self) -> None:
        super().close()
        with self._lock:
            self._queries.clear()

    def _embed_one(self, text: str) -> Vectors:
        return self._embed_ids(self._tokenizer().encode(text, self.max_tokens), text)

    def _embed_ids(self, ids: Sequence[int], text: str) -> Vectors:
        try:
            return self._run(self._session(), np.array([ids], np.int64))
        except Exception as exc:  # onnxruntime's errors share no base of their own
            raise EmbedderError(f"{self._label} failed on a text of {len(text)} characters: {exc}") from exc


class LocalEmbedder(OnnxEmbedder):
    """The bundled embedding model."""

    model_id = BUNDLED
    dimensions = 384
    max_tokens = MAX_TOKENS
    by_sentence = True  # long texts also have a vector for every few sentences
    _label = "the bundled model"

    def _load(self) -> Any:
        checksums = {MODEL: _MODEL_SHA256, "vocab.txt": _VOCABULARY_SHA256}
        return load_session(BUNDLED_FOLDER, checksums, self._label, _INSTALL_HINT)

    def _tokenizer(self) -> WordPiece:
        return load_tokenizer()

    def _run(self, session: Any, ids: NDArray[np.int64]) -> Vectors:
        vector: Vectors = session.run(["embedding"], {"input_ids": ids})[0][0]
        return vector


class CrossEncoder(OnnxModel):
    """
    The optional reranker. Safe to share between threads.

    Nothing is loaded before the first use. Each pair is run by itself: in int8 its score would otherwise depend on the
    pairs beside it. The model was trained on English.
    """

    # Names everything that a score depends on.
    model_id: ClassVar[str] = (
        f"local:reranker-{OPTIONAL_MODELS['reranker'].checksums[MODEL][:16]}"
        f"-{_TEMPERATURE}-{_MAX_QUESTION_TOKENS}-{_MAX_PAIR_TOKENS}"
    )

    def __init__(self, *, folder: Path | None = None, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._folder = folder

    def score_passages(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]:
        """
        Return how well each passage answers, 0..1, in order; None for those not read within so many seconds.

        Raises EmbedderUnavailable where the model is missing, and EmbedderError for a question in another script: it
        would be read as noise.
        """
        if not is_mostly_latin(question):
            raise EmbedderError(f"{OPTIONAL_MODELS['reranker'].distribution} reads Latin script")
        session, question_ids = self._session(), load_tokenizer().encode(question)[:_MAX_QUESTION_TOKENS]
        deadline = time.monotonic() + seconds

        def score(passage: str) -> float | None:
            return self._score(session, question_ids, passage) if time.monotonic() < deadline else None

        threads = min(self._threads, len(passages))
        if threads <= 1:
            return [score(passage) for passage in passages]
        # A pool for each call costs little beside the model, and leaves no threads behind for a fork to lose.
        with ThreadPoolExecutor(threads, "memorist-rerank") as pool:
            return list(pool.map(score, passages))

    def _score(self, session: Any, question_ids: list[int], passage: str) -> float:
        ids = [*question_ids, *load_tokenizer().encode(passage)[1:]][:_MAX_PAIR_TOKENS]
        types = [0] * len(question_ids) + [1] * (len(ids) - len(question_ids))
        inputs = {"input_ids": np.array([ids], np.int64), "token_type_ids": np.array([types], np.int64)}
        try:
            logit = float(session.run(["logits"], inputs)[0][0, 0])
        except Exception as exc:  # onnxruntime's errors share no base of their own
            raise EmbedderError(f"the reranker failed on a passage of {len(passage)} characters: {exc}") from exc
        return 1.0 / (1.0 + math.exp(-logit / _TEMPERATURE))

    def _load(self) -> Any:
        return OPTIONAL_MODELS["reranker"].load(self._folder)
