"""Gives texts their vectors: after the text is safe, and later where the model was missing or failed."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recollect.embed.base import Embedder, embed_documents, embed_question
from recollect.errors import EmbedderError, EmbedderUnavailable, StoreError
from recollect.store.base import Model, Store, Unembedded

BATCH = 256
SLOW_FAILURE = 1.0  # seconds; a model that takes longer to fail is left alone for a while
LONGEST_PAUSE = 60.0

T = TypeVar("T")
Progress = Callable[[int], None]


class Vectorizer:
    """One model at work on one store. A model that fails never costs a memory: its text waits for another time."""

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        self._store = store
        self._embedder = embedder
        self._paused_until = 0.0
        self._failure: str | None = None
        self._backlog = True  # texts may be waiting since before this process

    @property
    def embedder(self) -> Embedder | None:
        return self._embedder

    def model(self) -> Model | None:
        """The active model; asking a provider for its dimensions may fail like any other call to it."""
        if self._embedder is None:
            return None
        return self._call(lambda embedder: Model(embedder.model_id, embedder.dimensions))

    def question(self, text: str) -> NDArray[np.float32]:
        """The vector of a question; raises EmbedderError where there is none to be had."""
        return self._call(lambda embedder: embed_question(embedder, text))

    def give(self, texts: Sequence[Unembedded]) -> None:
        """Make and store the vectors of these texts, and of some left waiting before; a failure leaves them waiting."""
        try:
            if texts:
                self._give(texts)
            if self._backlog:
                waiting = self._store.pending(BATCH)
                self._give(waiting)
                self._backlog = len(waiting) == BATCH
        except (EmbedderError, StoreError):  # the text is kept; an error would ask for it once more
            self._backlog = True

    def give_all(self, progress: Progress | None = None) -> int:
        """A vector of this model for every live text that has none. What is done stays done if this is stopped."""
        done = after = 0
        model = self._call(lambda embedder: Model(embedder.model_id, embedder.dimensions))
        while texts := self._store.without_vector(model, after, BATCH):
            self._give(texts)
            after, done = texts[-1].key, done + len(texts)
            if progress:
                progress(done)
        self._backlog = False
        return done

    def _give(self, texts: Sequence[Unembedded]) -> None:
        if not texts:
            return
        vectors = self._call(lambda embedder: embed_documents(embedder, [text.text for text in texts]))
        model = self._call(lambda embedder: Model(embedder.model_id, embedder.dimensions))
        self._store.put_vectors(model, texts, vectors)

    def _call(self, ask: Callable[[Embedder], T]) -> T:
        """Ask the model; whatever it raises comes out as an EmbedderError, and a slow failure earns it a pause."""
        if self._embedder is None:
            raise EmbedderUnavailable("no embedding model is configured: this is keyword search only")
        started = time.monotonic()
        if started < self._paused_until:
            raise EmbedderUnavailable(f"{self._failure} (trying again in {self._paused_until - started:.0f} s)")
        try:
            return ask(self._embedder)
        except Exception as exc:
            took = time.monotonic() - started
            if took > SLOW_FAILURE:
                self._paused_until = time.monotonic() + min(LONGEST_PAUSE, 10 * took)
            error = exc if isinstance(exc, EmbedderError) else EmbedderError(f"the model failed: {_describe(exc)}")
            self._failure = str(error)
            raise error from exc


def _describe(exc: Exception) -> str:
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
