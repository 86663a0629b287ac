"""The embedder protocol, the two checked ways to call an embedder, and counting tokens as it does."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorist.errors import EmbedderError

_DEFAULT_MAX_TOKENS = 512  # of a model that does not say how many it reads
CHARACTERS_PER_TOKEN = 4  # estimate, for a model that does not count tokens itself

Vectors = NDArray[np.float32]
TokenCounter = Callable[[str], int]


@runtime_checkable
class Embedder(Protocol):
    """
    Text in, one vector a text out.

    `model_id` is stored beside every vector, and only vectors of one model are ever compared. Where a model
    treats questions differently from documents it also has `embed_query(text) -> vector`.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> ArrayLike: ...


def embed_documents(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return one unit vector a text; raise EmbedderError for anything else a model may return."""
    if not texts:
        return np.empty((0, embedder.dimensions), np.float32)
    return _check_vectors(embedder, embedder.embed(texts), len(texts))


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
    if not np.isfinite(vectors).all():
        raise EmbedderError(f"{embedder.model_id} returned a vector with NaN or infinity in it")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not norms.all():
        raise EmbedderError(f"{embedder.model_id} returned a zero vector, which has no direction to compare")
    unit: Vectors = vectors / norms
    return unit


def close_model(model: object) -> None:
    """Release what an embedder or a reranker holds, if it holds anything."""
    close: Callable[[], None] | None = getattr(model, "close", None)
    if close:
        close()


def token_counter(embedder: Embedder | None) -> TokenCounter:
    """Return the model's own token counter, or an estimate by characters."""
    count: TokenCounter | None = getattr(embedder, "count_tokens", None)
    return count or (lambda text: -(-len(text) // CHARACTERS_PER_TOKEN))


def max_tokens(embedder: Embedder | None) -> int:
    """Return how many tokens of a text the model reads."""
    return int(getattr(embedder, "max_tokens", _DEFAULT_MAX_TOKENS))


def truncate_to_tokens(text: str, limit: int, count: TokenCounter) -> str:
    """Return the beginning of a text, of at most `limit` tokens."""
    while (tokens := count(text)) > limit:
        text = text[: min(len(text) - 1, len(text) * limit // tokens)]
    return text
