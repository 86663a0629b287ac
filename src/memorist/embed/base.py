"""The seam to language models: what an embedder is, and the only two ways the engine calls one."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorist.errors import EmbedderError

Vectors = NDArray[np.float32]


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
    """One unit vector a text, checked; anything else a model may return is an EmbedderError."""
    if not texts:
        return np.empty((0, embedder.dimensions), np.float32)
    return _checked(embedder, embedder.embed(texts), len(texts))


def embed_question(embedder: Embedder, text: str) -> Vectors:
    """The unit vector of a question."""
    own: Any = getattr(embedder, "embed_query", None)
    raw = [own(text)] if own is not None else embedder.embed([text])
    vector: Vectors = _checked(embedder, raw, 1)[0]
    return vector


def _checked(embedder: Embedder, raw: ArrayLike, count: int) -> Vectors:
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
