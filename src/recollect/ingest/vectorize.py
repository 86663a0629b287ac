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
HOPELESS = 12  # failures in a row, with no success, after which the model is to blame and not a text

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

    @property
    def model_name(self) -> str | None:
        """What the active model is called; unlike its dimensions, known without asking a provider."""
        return self._embedder.model_id if self._embedder else None

    def model(self) -> Model:
        """The active model; asking a provider for its dimensions may fail like any other call to it."""
        return self._call(lambda embedder: Model(embedder.model_id, embedder.dimensions))

    def question(self, text: str) -> NDArray[np.float32]:
        """The vector of a question; raises EmbedderError where there is none to be had."""
        return self._call(lambda embedder: embed_question(embedder, text))

    def give(self, texts: Sequence[Unembedded]) -> None:
        """Make and store the vectors of these texts, and of some left waiting before; a failure leaves them waiting."""
        try:
            refused = self._give(texts)
            if self._backlog:
                waiting = self._store.pending(BATCH)
                refused += self._give(waiting)
                self._backlog = len(waiting) == BATCH
            self._backlog = self._backlog or bool(refused)
        except (EmbedderError, StoreError):  # the text is kept; an error would ask for it once more
            self._backlog = True

    def expect_backlog(self) -> None:
        """Have the next write look for texts that wait, as a restored one may."""
        self._backlog = True

    def give_all(self, progress: Progress | None = None) -> int:
        """
        A vector of this model for every live text that has none. What is done stays done if this is stopped.

        Texts the model refuses are left out and counted in an EmbedderError at the end.
        """
        done = after = refused = 0
        model = self.model()
        while texts := self._store.without_vector(model, after, BATCH):
            failed = self._give(texts)
            after, done, refused = texts[-1].key, done + len(texts) - failed, refused + failed
            if progress:
                progress(done + refused)
        self._backlog = bool(refused)
        if refused:
            raise EmbedderError(f"{refused} texts could not be embedded ({self._failure}); the other {done} are done")
        return done

    def _give(self, texts: Sequence[Unembedded]) -> int:
        """Embed and store; where a batch fails, its halves are tried, down to the text that is to blame."""
        model = self.model() if texts else None
        todo, refused, in_a_row = [texts] if texts else [], 0, 0
        while model and todo:
            batch = todo.pop()
            try:
                vectors = self._call(lambda embedder, batch=batch: embed_documents(embedder, [t.text for t in batch]))  # type: ignore[misc]
            except EmbedderUnavailable:
                raise
            except EmbedderError:
                in_a_row += 1
                if in_a_row >= HOPELESS and in_a_row > refused + len(texts).bit_length():
                    raise
                if len(batch) == 1:
                    refused += 1
                else:
                    middle = len(batch) // 2
                    todo += [batch[middle:], batch[:middle]]
                continue
            in_a_row = 0
            self._store.put_vectors(model, batch, vectors)
        return refused

    def _call(self, ask: Callable[[Embedder], T]) -> T:
        """Ask the model; whatever it raises comes out as an EmbedderError, and a slow failure earns it a pause."""
        if self._embedder is None:
            raise EmbedderUnavailable("no embedding model is configured")
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
