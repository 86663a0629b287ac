"""The protocols of models, checked calls of an embedder, the one in use, and counting tokens as it does."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorist.errors import EmbedderError, EmbedderUnavailable
from memorist.records import Model

_DEFAULT_MAX_TOKENS = 512  # of a model that does not say how many it reads
_CHARACTERS_PER_TOKEN = 4  # estimate, for a model that does not count tokens itself
_SLOW_FAILURE = 0.2  # seconds; a model that takes longer to fail is not called again for a while
_MAX_PAUSE = 60.0  # seconds

T = TypeVar("T")
Vectors = NDArray[np.float32]
TokenCounter = Callable[[str], int]


@runtime_checkable
class Embedder(Protocol):
    """
    Text in, one vector a text out.

    `model_id` is stored beside every vector, and only vectors of one model are ever compared. Where a model
    treats questions differently from documents it also has `embed_query(text) -> vector`, and where it may wait for
    a server, `embed_promptly(texts)`, which does not.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> ArrayLike: ...


class Reranker(Protocol):
    """A model that scores passages by how well they answer a question."""

    def score_passages(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]: ...


def embed_documents(embedder: Embedder, texts: Sequence[str], *, promptly: bool = False) -> Vectors:
    """Return one unit vector a text; raise EmbedderError for anything else a model may return."""
    if not texts:
        return np.empty((0, embedder.dimensions), np.float32)
    embed = getattr(embedder, "embed_promptly", embedder.embed) if promptly else embedder.embed
    return _check_vectors(embedder, embed(texts), len(texts))


def embed_query(embedder: Embedder, text: str) -> Vectors:
    """Return the unit vector of a question."""
    own: Any = getattr(embedder, "embed_query", None)
    raw = [own(text)] if own is not None else embedder.embed([text])
    vector: Vectors = _check_vectors(embedder, raw, 1)[0]
    return vector


def _check_vectors(embedder: Embedder, raw: ArrayLike, count: int) -> Vectors:
    try:
        vectors = np.asarray(raw, dtype=np.float32)
    except (TypeError, ValueError) as exc:
        raise EmbedderError(f"{embedder.model_id} returned something that is not a list of vectors: {exc}") from exc
    if vectors.shape != (count, embedder.dimensions):
        raise EmbedderError(
            f"{embedder.model_id} returned vectors of shape {vectors.shape} for {count} texts; "
            f"expected ({count}, {embedder.dimensions})"
        )
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    if not np.isfinite(norms).all():  # nor is then a component, or their squares are beyond all numbers
        raise EmbedderError(f"{embedder.model_id} returned a vector with NaN or infinity in it")
    if not norms.all():
        raise EmbedderError(f"{embedder.model_id} returned a zero vector, which has no direction to compare")
    unit: Vectors = vectors / norms
    return unit


class ActiveModel:
    """An embedder, or none, behind which every failure is an EmbedderError."""

    def __init__(self, embedder: Embedder | None) -> None:
        self.embedder = embedder
        self._paused_until = 0.0
        self._failure: str | None = None
        self.seconds_per_text: float | None = None  # that embedding took at last; None if it failed, or never was tried

    @property
    def name(self) -> str | None:
        """The model's id; unlike its dimensions, known without asking a provider."""
        return self.embedder.model_id if self.embedder else None

    def identify(self) -> Model:
        """Return the model's id and dimensions; asking a provider for those may fail like any other call."""
        return self._call(lambda embedder: Model(embedder.model_id, embedder.dimensions))

    def resume(self) -> None:
        """Call the model again at once, though it has just failed."""
        self._paused_until = 0.0

    def embed_query(self, query: str) -> Vectors:
        """Return the unit vector of a query."""
        return self._call(lambda embedder: embed_query(embedder, query))

    def embed_documents(self, texts: Sequence[str], *, promptly: bool = False) -> Vectors:
        """Return one unit vector a text; `promptly` does not wait for a provider that refuses."""
        started, self.seconds_per_text = time.monotonic(), None
        vectors = self._call(lambda embedder: embed_documents(embedder, texts, promptly=promptly))
        self.seconds_per_text = (time.monotonic() - started) / max(1, len(texts))
        return vectors

    def _call(self, ask: Callable[[Embedder], T]) -> T:
        if self.embedder is None:
            raise EmbedderUnavailable("no embedding model is configured")
        started = time.monotonic()
        if started < self._paused_until:
            raise EmbedderUnavailable(f"{self._failure} (trying again in {self._paused_until - started:.0f} s)")
        try:
            return ask(self.embedder)
        except Exception as exc:
            error = _as_embedder_error(exc)
            self._failure = str(error)
            took = time.monotonic() - started
            if isinstance(error, EmbedderUnavailable) and took > _SLOW_FAILURE:
                self._paused_until = time.monotonic() + min(_MAX_PAUSE, 10 * took)
            if error is exc:
                raise
            raise error from exc


def _as_embedder_error(exc: Exception) -> EmbedderError:
    if isinstance(exc, EmbedderError):
        return exc
    kind = EmbedderUnavailable if isinstance(exc, OSError) else EmbedderError  # connections and time-outs are OSErrors
    return kind(f"the model failed: {type(exc).__name__}" + (f": {exc}" if str(exc) else ""))


def close_model(model: object) -> None:
    """Release what an embedder or a reranker holds, if it holds anything."""
    close: Callable[[], None] | None = getattr(model, "close", None)
    if close:
        close()


def token_counter(embedder: Embedder | None) -> TokenCounter:
    """Return the model's own token counter, or an estimate by characters."""
    count: TokenCounter | None = getattr(embedder, "count_tokens", None)
    return count or (lambda text: -(-len(text) // _CHARACTERS_PER_TOKEN))


def max_tokens(embedder: Embedder | None) -> int:
    """Return how many tokens of a text the model reads."""
    return int(getattr(embedder, "max_tokens", _DEFAULT_MAX_TOKENS))


def truncate_to_tokens(text: str, limit: int, count: TokenCounter) -> str:
    """Return the beginning of a text, of at most `limit` tokens."""
    while (tokens := count(text)) > limit:
        text = text[: min(len(text) - 1, len(text) * limit // tokens)]
    return text
