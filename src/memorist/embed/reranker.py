"""A cross-encoder: a question and a passage read together, and how well the one answers the other."""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from memorist.embed.onnx_session import OnnxModel
from memorist.embed.optional_models import MODEL, OPTIONAL_MODELS
from memorist.embed.wordpiece import vocabulary
from memorist.errors import EmbedderError

SOFTER = 2.0  # what the model is unsure of is told apart better than by the scale it was trained on
QUESTION_TOKENS, MAX_TOKENS = 64, 192  # what is read of the question, and of both


class Reranker(Protocol):
    """What the engine asks of a reranker."""

    def scores(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]: ...


class CrossEncoder(OnnxModel):
    """
    Reads the best that two legs found, and tells how well each answers. Safe to share between threads.

    Nothing is loaded before the first use. Each pair is run by itself: in int8 its score would otherwise depend on the
    pairs beside it. The model was trained on English.
    """

    # With another of these it is another score.
    model_id: ClassVar[str] = (
        f"local:reranker-{OPTIONAL_MODELS['reranker'].sums[MODEL][:16]}-{SOFTER}-{QUESTION_TOKENS}-{MAX_TOKENS}"
    )

    def __init__(self, *, folder: Path | None = None, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._folder = folder

    def scores(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]:
        """
        How well each passage answers, 0..1, in their order; None for those that the time did not suffice for.

        EmbedderUnavailable where there is no such model on this machine.
        """
        session, asked = self._session(), vocabulary().encode(question)[:QUESTION_TOKENS]
        end = time.monotonic() + seconds
        given = enumerate(passages)
        turn = threading.Lock()
        scores: list[float | None] = [None] * len(passages)

        def work() -> None:
            for place, passage in _shared(given, turn):
                if time.monotonic() >= end:
                    return
                scores[place] = self._score(session, asked, passage)

        threads = min(self._threads, len(passages))
        if threads <= 1:
            work()
            return scores
        # A pool for each call costs little beside the model, and leaves no threads behind for a fork to lose.
        with ThreadPoolExecutor(threads, "memorist-rerank") as pool:
            for done in [pool.submit(work) for _ in range(threads)]:
                done.result()
        return scores

    def _score(self, session: Any, asked: list[int], passage: str) -> float:
        ids = [*asked, *vocabulary().encode(passage)[1:]][:MAX_TOKENS]
        given = {
            "input_ids": np.array([ids], np.int64),
            "attention_mask": np.ones((1, len(ids)), np.int64),
            "token_type_ids": np.array([[0] * len(asked) + [1] * (len(ids) - len(asked))], np.int64),
        }
        try:
            logit = float(session.run(["logits"], given)[0][0, 0])
        except Exception as exc:  # onnxruntime's errors share no base of their own
            raise EmbedderError(f"the reranker failed on a passage of {len(passage)} characters: {exc}") from exc
        return 1.0 / (1.0 + math.exp(-logit / SOFTER))

    def _load(self) -> Any:
        return OPTIONAL_MODELS["reranker"].load(self._folder)


def _shared(items: Iterator[tuple[int, str]], turn: threading.Lock) -> Iterator[tuple[int, str]]:
    """One iterator for several threads."""
    while True:
        with turn:
            item = next(items, None)
        if item is None:
            return
        yield item
