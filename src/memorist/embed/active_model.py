"""The embedding model in use: its failures translated, and no call for a while after a slow one."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from memorist.embed.base import Embedder, Vectors, embed_documents, embed_query
from memorist.errors import EmbedderError, EmbedderUnavailable
from memorist.records import Model

_SLOW_FAILURE = 1.0  # seconds; a model that takes longer to fail is not called again for a while
_MAX_PAUSE = 60.0  # seconds

T = TypeVar("T")


class ActiveModel:
    """An embedder, or none, behind which every failure is an EmbedderError."""

    def __init__(self, embedder: Embedder | None) -> None:
        self.embedder = embedder
        self._paused_until = 0.0
        self._failure: str | None = None

    @property
    def name(self) -> str | None:
        """The model's id; unlike its dimensions, known without asking a provider."""
        return self.embedder.model_id if self.embedder else None

    def identify(self) -> Model:
        """Return the model's id and dimensions; asking a provider for those may fail like any other call."""
        return self._call(lambda embedder: Model(embedder.model_id, embedder.dimensions))

    def has_cached(self, query: str) -> bool:
        """Return whether the model has the vector of a query cached."""
        cached: Callable[[str], bool] | None = getattr(self.embedder, "has_cached", None)
        return cached is not None and cached(query)

    def embed_query(self, query: str) -> Vectors:
        """Return the unit vector of a query."""
        return self._call(lambda embedder: embed_query(embedder, query))

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector a text."""
        return self._call(lambda embedder: embed_documents(embedder, texts))

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
