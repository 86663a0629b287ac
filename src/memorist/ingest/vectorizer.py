"""Gives texts their vectors: after the text is safe, and later where the model was missing or failed.

Texts that one vector does not do justice to, cut where their structure and their sentences allow it.
"""

import re
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memorist.embed.base import Embedder, embed_documents, embed_question
from memorist.errors import EmbedderError, EmbedderUnavailable, StoreError
from memorist.ingest.chunk import SENTENCE_END, Count
from memorist.store.base import PART_BITS, EmbeddingJob, Model, Part, Store

BATCH = 256
SLOW_FAILURE = 1.0  # seconds; a model that takes longer to fail is left alone for a while
LONGEST_PAUSE = 60.0
PROBE = "probe"  # a text no model refuses: who refuses it is broken

T = TypeVar("T")
Progress = Callable[[int], None]


class Vectorizer:
    """One model at work on one store. A model that fails never costs a memory: its text waits for another time."""

    def __init__(self, store: Store, embedder: Embedder | None, *, parts: bool = True) -> None:
        self._store = store
        self._embedder = embedder
        self._cut = parts  # chunks of files are parts already
        self._paused_until = 0.0
        self._failure: str | None = None
        self._backlog, self._after = True, 0  # texts may be waiting since before this process, from this key on

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

    def has(self, text: str) -> bool:
        """Whether the vector of a question costs nothing, because its model has kept it."""
        kept: Callable[[str], bool] | None = getattr(self.embedder, "has_kept", None)
        return kept is not None and kept(text)

    def question(self, text: str) -> NDArray[np.float32]:
        """The vector of a question; raises EmbedderError where there is none to be had."""
        return self._call(lambda embedder: embed_question(embedder, text))

    def give(self, texts: Sequence[EmbeddingJob]) -> None:
        """Make and store the vectors of these texts, and of some left waiting before; a failure leaves them waiting."""
        try:
            self._give(texts)
            if self._backlog:
                waiting = self._store.list_unembedded(self._after, BATCH)
                self._give(waiting)
                self._backlog = len(waiting) == BATCH
                self._after = waiting[-1].key if waiting else self._after
        except (EmbedderError, StoreError):  # the text is kept; an error would ask for it once more
            self.expect_backlog()

    def vectors(self, texts: Sequence[str]) -> tuple[NDArray[np.float32] | None, Model | None]:
        """The vectors of texts that are not stored yet, and the model; None where it cannot be had, or refuses one."""
        if self._embedder is None or not texts:
            return None, None
        try:
            parts = [self._embedded(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
            return np.concatenate(parts), self.model()
        except EmbedderError:
            self.expect_backlog()
            return None, None

    def expect_backlog(self) -> None:
        """Have the next write look for texts that wait, as a restored one may."""
        self._backlog, self._after = True, 0

    def catch_up(self, progress: Progress | None = None) -> int:
        """A vector for every text that waits for one; where the model fails, the rest goes on waiting."""
        done = after = 0
        try:
            while texts := self._store.list_unembedded(after, BATCH):
                self._give(texts)
                after, done = texts[-1].key, done + len(texts)
                if progress:
                    progress(done)
        except (EmbedderError, StoreError):
            self.expect_backlog()
        return done

    def give_all(self, progress: Progress | None = None) -> int:
        """
        A vector of this model for every live text that has none. What is done stays done if this is stopped.

        Texts the model refuses are left out and counted in an EmbedderError at the end.
        """
        done = after = refused = 0
        model = self.model()
        while texts := self._store.list_without_vector(model, after, BATCH):
            failed = self._give(texts)
            after, done, refused = texts[-1].key, done + len(texts) - failed, refused + failed
            if progress:
                progress(done + refused)
        self._backlog = False
        if refused:
            raise EmbedderError(f"{refused} texts could not be embedded ({self._failure}); the other {done} are done")
        return done

    def _give(self, texts: Sequence[EmbeddingJob]) -> int:
        """
        Embed and store; gives how many texts the model refused.

        Where a batch fails but the model still embeds a probe, its halves are tried, down to the text that is to blame.
        """
        todo, refused, probed = [texts] if texts else [], 0, False
        while todo:
            batch = todo.pop()
            try:
                parts = [part for text in batch for part in self._parts_of(text)]
                vectors = self._embedded([*(text.text for text in batch), *(part.embedding_text for part in parts)])
            except EmbedderUnavailable:
                raise
            except EmbedderError as exc:
                if not probed:
                    self._embedded([PROBE])
                    probed, self._failure = True, str(exc)
                if len(batch) == 1:
                    refused += 1
                else:
                    middle = len(batch) // 2
                    todo += [batch[middle:], batch[:middle]]
            else:
                self._store.put_vectors(self.model(), batch, vectors, parts)
        return refused

    def _parts_of(self, text: EmbeddingJob) -> list[Part]:
        return parts_of(text, self._embedder) if self._embedder and self._cut else []

    def _embedded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._call(lambda embedder: embed_documents(embedder, texts))

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
            error = _as_ours(exc)
            self._failure = str(error)
            took = time.monotonic() - started
            if isinstance(error, EmbedderUnavailable) and took > SLOW_FAILURE:
                self._paused_until = time.monotonic() + min(LONGEST_PAUSE, 10 * took)
            raise error from exc


def _as_ours(exc: Exception) -> EmbedderError:
    if isinstance(exc, EmbedderError):
        return exc
    kind = EmbedderUnavailable if isinstance(exc, OSError) else EmbedderError  # connections and time-outs are OSErrors
    return kind(f"the model failed: {_describe(exc)}")


def _describe(exc: Exception) -> str:
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__


UNTOLD_TOKENS = 512  # what a model reads at least, if it does not say
CHARACTERS_A_TOKEN = 4  # where the model does not count tokens itself
ROOM = 56  # tokens left for a title or heading above a part

# A vector of several sentences is mostly about the longest, and what was said by the way is lost in it. Every few
# sentences are a part: of so many characters at least, and no more than about so many parts while the model can read
# each of them. Measured: docs/quality.md.
LEAST_PART, MOST_PARTS = 100, 6

_LINE_END = re.compile(r"\r\n|\r|\n")
_END = re.compile(rf"(?:{SENTENCE_END.pattern})|[\r\n]\s*+")


def counter(embedder: Embedder | None) -> Count:
    """How a model counts tokens, or an estimate."""
    count: Count | None = getattr(embedder, "count_tokens", None)
    return count or (lambda text: -(-len(text) // CHARACTERS_A_TOKEN))


def longest(embedder: Embedder | None) -> int:
    """How many tokens of a text a model reads."""
    return int(getattr(embedder, "max_tokens", UNTOLD_TOKENS))


def fitted(text: str, tokens: int, count: Count) -> str:
    """The beginning of a text, of so many tokens at most."""
    while (many := count(text)) > tokens:
        text = text[: min(len(text) - 1, len(text) * tokens // many)]
    return text


def parts_of(text: EmbeddingJob, embedder: Embedder) -> list[Part]:
    """The parts of a text that one vector cannot stand for; none where it can."""
    most, count = longest(embedder), counter(embedder)
    room = min(ROOM, most * 3 // 4)
    fits = len(text.text) <= most or count(text.text) <= most  # a token has a character at least
    spans = [(0, len(text.content))] if fits else _by_structure(text.content, most - room, count)
    if getattr(embedder, "by_sentence", False):
        least = max(LEAST_PART, len(text.content) // MOST_PARTS)
        spans = [piece for first, last in spans for piece in _by_sentence(text.content, first, last, least)]
    if len(spans) < 2:
        return []
    title = text.title and fitted(text.title, room, count)
    return [Part(text, *span, title) for span in spans[: 1 << PART_BITS]]


def _by_structure(content: str, tokens: int, count: Count) -> list[tuple[int, int]]:
    """Stretches of a long text, of so many tokens at most."""
    from memorist.ingest.markdown import read_markdown  # not before there is anything to cut: most processes only read

    starts = [0, *(ending.end() for ending in _LINE_END.finditer(content)), len(content) + 1]
    spans: list[tuple[int, int]] = []
    for chunk in read_markdown(content, tokens, count).chunks:
        first, last = starts[chunk.start_line - 1], min(starts[chunk.end_line], len(content))
        # Of a line that is over the budget by itself, a chunk is a stretch.
        after = max(first, spans[-1][0] + 1) if spans else first  # which may repeat a sentence of the one before
        place = content.find(chunk.text, after, last)
        spans.append((first, last) if place < 0 else (place, place + len(chunk.text)))
    return spans


def _by_sentence(content: str, first: int, last: int, least: int) -> list[tuple[int, int]]:
    """A stretch cut after sentences and lines, into pieces of `least` characters or more."""
    ends: list[int] = []
    for end in _END.finditer(content, first, last):
        if end.end() - (ends[-1] if ends else first) >= least and last - end.end() >= least // 2:
            ends.append(end.end())
    return list(zip([first, *ends], [*ends, last], strict=True))
