"""What the models that turn text into vectors on this machine share: texts one by one, side by side."""

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memorist.embed.base import Vectors
from memorist.embed.runner import Runner
from memorist.embed.tokens import vocabulary
from memorist.embed.wordpiece import MAX_TOKENS
from memorist.errors import EmbedderError

Ids = NDArray[np.int64]

_CACHED_QUERIES = 256
_CACHED_LENGTH = 4_096  # characters; a longer text is hardly a question, and would only fill memory


class Encoder(Runner):
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

    def has_kept(self, text: str) -> bool:
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
