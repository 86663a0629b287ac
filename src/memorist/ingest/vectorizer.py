"""Vectors for texts: made after the text is safe, and later where the model was missing or failed."""

import _thread
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from memorist.embed.base import ActiveModel, Embedder, TokenCounter, max_tokens, token_counter, truncate_to_tokens
from memorist.errors import EmbedderError, EmbedderUnavailable, StoreError
from memorist.ingest.chunk import SENTENCE_END
from memorist.profiles import LATIN_ONLY
from memorist.records import MemoryDraft, Model
from memorist.store.records import EmbeddingJob, Part, ReadyVectors
from memorist.store.store import Store
from memorist.text.tokenizer import is_mostly_latin

BATCH = 256  # texts embedded and stored together
_BLOCK = 1024  # texts of which the vectors are converted together
_EARLY_SECONDS = 0.1  # that a text may wait for its vector before it is stored
TITLE_TOKENS = 56  # of a part, left for the title or heading above it

# A vector of several sentences is mostly about the longest of them, and a passing remark is lost. So every sentence or
# two are a part: of at least so many characters. Measured: docs/quality.md.
MIN_PART_CHARACTERS = 100
MAX_VECTORS = 2000  # of one text

_PROBE = "probe"  # a text that no working model refuses
_LINE_END = re.compile(r"\r\n|\r|\n")
_END = re.compile(rf"(?:{SENTENCE_END.pattern})|[\r\n]\s*+")


Progress = Callable[[int], None]


def offset_progress(done: int, progress: Progress | None) -> Progress | None:
    """Report the progress of a part as that of the whole."""
    return None if progress is None else lambda more: progress(done + more)


class Vectorizer:
    """
    Embeds the texts of one store with the active model.

    A model that fails never costs a memory: its text waits for the next attempt.
    """

    def __init__(self, store: Store, model: ActiveModel, *, parts: bool = True, project: str | None = None) -> None:
        self._store = store
        self.model = model
        self._cut_parts = parts  # chunks of files are parts already
        self._project = project  # whose waiting texts are embedded; None for all
        self._backlog, self._after = True, 0  # texts may be waiting since before this process, from this key on

    def embed(self, jobs: Sequence[EmbeddingJob], *, promptly: bool = False) -> str | None:
        """
        Embed and store these texts, and some that were waiting before; on failure they all wait.

        Return why these texts have no vector, if they have none. `promptly` does not wait for a provider that refuses.
        """
        if self.model.embedder is None:
            return None
        done, reason = False, ""
        try:
            for start in range(0, len(jobs), BATCH):
                _, refusal = self._embed_and_store(jobs[start : start + BATCH], promptly=promptly)
                reason = reason or refusal
            done = True
            if self._backlog:
                waiting = self._store.vectors.list_unembedded(self._after, BATCH, self._project)
                self._embed_and_store(waiting, promptly=promptly)
                self._backlog = len(waiting) == BATCH
                self._after = waiting[-1].key if waiting else self._after
        except (EmbedderError, StoreError) as exc:  # raising would make the caller add the stored text once more
            self.expect_backlog()
            reason = reason if done else str(exc)
        return reason or None

    def embed_early(self, drafts: Sequence[MemoryDraft]) -> ReadyVectors | None:
        """
        Return the vectors of texts that are not stored yet, so that they can be stored with them.

        None unless the model was quick lately, and is now: a text waits for a model only a moment. One that asks a
        server is never asked first. The model is called in a thread, as one that hangs cannot be stopped.
        """
        per_text, embedder = self.model.seconds_per_text, self.model.embedder
        if per_text is None or embedder is None or hasattr(embedder, "embed_promptly"):
            return None
        if per_text * len(drafts) > _EARLY_SECONDS:
            return None
        jobs = [EmbeddingJob(place, draft.title, draft.content) for place, draft in enumerate(drafts)]
        parts = [part for job in jobs for part in self._cut(job)]
        texts = [*(job.text for job in jobs), *(part.embedding_text for part in parts)]
        if per_text * len(texts) > _EARLY_SECONDS:
            return None
        made: list[ReadyVectors] = []
        done = threading.Lock()

        def embed() -> None:
            with suppress(EmbedderError):
                made.append(ReadyVectors(self.model.identify(), jobs, parts, self._embed_in_blocks(texts)))
            done.release()

        # Not a Thread: Ctrl-C in the midst of its `start` raises a RuntimeError.
        done.acquire()
        _thread.start_new_thread(embed, ())
        done.acquire(timeout=_EARLY_SECONDS)
        return made[0] if made else None

    def _embed_in_blocks(self, texts: Sequence[str]) -> NDArray[np.float16]:
        """Return vectors as they are stored; a block at a time, as numpy asks the system for large arrays each time."""
        blocks = (texts[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK))
        return np.concatenate([self.model.embed_documents(block).astype(np.float16) for block in blocks])

    def embed_unstored(self, texts: Sequence[str]) -> tuple[NDArray[np.float32] | None, Model | None]:
        """Return vectors of texts that are not stored yet, and the model; None where it fails or refuses a text."""
        if self.model.embedder is None or not texts:
            return None, None
        try:
            return self.model.embed_documents(texts), self.model.identify()
        except EmbedderError:
            self.expect_backlog()
            return None, None

    def expect_backlog(self) -> None:
        """Have the next write look for waiting texts, such as a restored one."""
        self._backlog, self._after = True, 0

    def embed_backlog(self, progress: Progress | None = None) -> int:
        """Embed every waiting text; where the model fails, the rest goes on waiting."""
        done = after = 0
        if self.model.embedder is None:
            return done
        try:
            while jobs := self._store.vectors.list_unembedded(after, BATCH):
                self._embed_and_store(jobs)
                after, done = jobs[-1].key, done + len(jobs)
                if progress:
                    progress(done)
        except (EmbedderError, StoreError):
            self.expect_backlog()
        return done

    def embed_all(self, progress: Progress | None = None) -> int:
        """
        Embed every live text that has no vector of this model. What is done stays done if this is stopped.

        Texts that the model refuses are left out, and counted in an EmbedderError at the end.
        """
        done = after = refused = 0
        reason = ""
        self.model.resume()
        model = self.model.identify()
        while jobs := self._store.vectors.list_without_vector(model, after, BATCH):
            failed, reason_now = self._embed_and_store(jobs)
            after, done, refused = jobs[-1].key, done + len(jobs) - failed, refused + failed
            reason = reason_now or reason
            if progress:
                progress(done + refused)
        self._backlog = False
        if refused:
            raise EmbedderError(f"{refused} texts could not be embedded ({reason}); the other {done} are done")
        return done

    def _embed_and_store(self, jobs: Sequence[EmbeddingJob], *, promptly: bool = False) -> tuple[int, str]:
        """
        Embed and store; return how many texts the model refused, and why.

        Where a batch fails but the model still embeds a probe, its halves are tried, down to the text that is refused.
        """
        todo, refused, reason = [jobs] if jobs else [], 0, ""
        while todo:
            batch = todo.pop()
            try:
                parts = [part for job in batch for part in self._cut(job)]
                texts = [*(job.text for job in batch), *(part.embedding_text for part in parts)]
                vectors = self.model.embed_documents(texts, promptly=promptly)
            except EmbedderUnavailable:
                raise
            except EmbedderError as exc:
                if not reason:
                    self.model.embed_documents([_PROBE], promptly=promptly)
                    reason = str(exc) or type(exc).__name__
                if len(batch) == 1:
                    refused += 1
                else:
                    middle = len(batch) // 2
                    todo += [batch[middle:], batch[:middle]]
            else:
                self._store.vectors.put(self.model.identify(), batch, vectors, parts)
        return refused, reason

    def _cut(self, job: EmbeddingJob) -> list[Part]:
        return cut_into_parts(job, self.model.embedder) if self.model.embedder and self._cut_parts else []


def cut_into_parts(text: EmbeddingJob, embedder: Embedder) -> list[Part]:
    """Cut a text that one vector cannot represent into parts; return none where one vector can."""
    most, by_sentence = max_tokens(embedder), getattr(embedder, "by_sentence", False)
    if not by_sentence and len(text.content) + len(text.title or "") < most:
        return []  # a token has a character at least
    count = token_counter(embedder)
    room = min(TITLE_TOKENS, most * 3 // 4)
    fits = len(text.text) <= most or count(text.text) <= most
    spans = [(0, len(text.content))] if fits else _split_by_structure(text.content, most - room, count)
    if by_sentence:
        least = part_length(len(text.content))
        spans = [piece for first, last in spans for piece in _split_by_sentence(text.content, first, last, least)]
    if len(spans) < 2:
        return []
    title = text.title and truncate_to_tokens(text.title, room, count)
    return [Part(text, *span, title) for span in spans if _can_read(embedder, text.content[slice(*span)])][:MAX_VECTORS]


def part_length(characters: int) -> int:
    """Return the least length of the parts of a text."""
    return max(MIN_PART_CHARACTERS, characters // (MAX_VECTORS // 2))  # some parts are longer, and none may be left out


def _can_read(embedder: Embedder, text: str) -> bool:
    """
    Return whether a model makes sense of a text.

    A question in another script than its own is not asked of it either, so what it makes of such a part is never found.
    """
    if embedder.model_id in LATIN_ONLY and not is_mostly_latin(text):
        return False
    knows: Callable[[str], bool] | None = getattr(embedder, "knows", None)
    return knows is None or knows(text)


def _split_by_structure(content: str, tokens: int, count: TokenCounter) -> list[tuple[int, int]]:
    """Split a long text into spans of at most `tokens` tokens, at its headings and paragraphs."""
    from memorist.ingest.markdown import read_markdown  # lazily: most processes only read

    starts = [0, *(ending.end() for ending in _LINE_END.finditer(content)), len(content) + 1]
    spans: list[tuple[int, int]] = []
    for chunk in read_markdown(content, tokens, count).chunks:
        first, last = starts[chunk.start_line - 1], min(starts[chunk.end_line], len(content))
        # A chunk of a line that is over the budget by itself is a piece of it,
        after = max(first, spans[-1][0] + 1) if spans else first  # and may repeat a sentence of the one before
        place = content.find(chunk.text, after, last)
        spans.append((first, last) if place < 0 else (place, place + len(chunk.text)))
    return spans


def _split_by_sentence(content: str, first: int, last: int, least: int) -> list[tuple[int, int]]:
    """Split a span after sentences and lines, into pieces of at least `least` characters."""
    ends: list[int] = []
    for end in _END.finditer(content, first, last):
        if end.end() - (ends[-1] if ends else first) >= least and last - end.end() >= least // 2:
            ends.append(end.end())
    return list(zip([first, *ends], [*ends, last], strict=True))
