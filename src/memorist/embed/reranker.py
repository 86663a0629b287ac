"""A cross-encoder: reads a question and a passage together, and scores how well the passage answers."""

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
from memorist.embed.wordpiece import load_tokenizer
from memorist.errors import EmbedderError

_TEMPERATURE = 2.0  # spreads the scores of passages that the model is unsure of
_MAX_QUESTION_TOKENS, _MAX_PAIR_TOKENS = 64, 192


class Reranker(Protocol):
    """A model that scores passages by how well they answer a question."""

    def score_passages(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]: ...


class CrossEncoder(OnnxModel):
    """
    The optional reranker. Safe to share between threads.

    Nothing is loaded before the first use. Each pair is run by itself: in int8 its score would otherwise depend on the
    pairs beside it. The model was trained on English.
    """

    # Names everything that a score depends on.
    model_id: ClassVar[str] = (
        f"local:reranker-{OPTIONAL_MODELS['reranker'].checksums[MODEL][:16]}"
        f"-{_TEMPERATURE}-{_MAX_QUESTION_TOKENS}-{_MAX_PAIR_TOKENS}"
    )

    def __init__(self, *, folder: Path | None = None, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._folder = folder

    def score_passages(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]:
        """
        Return how well each passage answers, 0..1, in order; None for those not read within so many seconds.

        Raises EmbedderUnavailable where the model is missing.
        """
        session, question_ids = self._session(), load_tokenizer().encode(question)[:_MAX_QUESTION_TOKENS]
        deadline = time.monotonic() + seconds
        remaining, lock = enumerate(passages), threading.Lock()
        scores: list[float | None] = [None] * len(passages)

        def work() -> None:
            for index, passage in _iterate_locked(remaining, lock):
                if time.monotonic() >= deadline:
                    return
                scores[index] = self._score(session, question_ids, passage)

        threads = min(self._threads, len(passages))
        if threads <= 1:
            work()
            return scores
        # A pool for each call costs little beside the model, and leaves no threads behind for a fork to lose.
        with ThreadPoolExecutor(threads, "memorist-rerank") as pool:
            for future in [pool.submit(work) for _ in range(threads)]:
                future.result()
        return scores

    def _score(self, session: Any, question_ids: list[int], passage: str) -> float:
        ids = [*question_ids, *load_tokenizer().encode(passage)[1:]][:_MAX_PAIR_TOKENS]
        passage_length = len(ids) - len(question_ids)
        inputs = {
            "input_ids": np.array([ids], np.int64),
            "attention_mask": np.ones((1, len(ids)), np.int64),
            "token_type_ids": np.array([[0] * len(question_ids) + [1] * passage_length], np.int64),
        }
        try:
            logit = float(session.run(["logits"], inputs)[0][0, 0])
        except Exception as exc:  # onnxruntime's errors share no base of their own
            raise EmbedderError(f"the reranker failed on a passage of {len(passage)} characters: {exc}") from exc
        return 1.0 / (1.0 + math.exp(-logit / _TEMPERATURE))

    def _load(self) -> Any:
        return OPTIONAL_MODELS["reranker"].load(self._folder)


def _iterate_locked(items: Iterator[tuple[int, str]], lock: threading.Lock) -> Iterator[tuple[int, str]]:
    """Share one iterator between threads."""
    while True:
        with lock:
            item = next(items, None)
        if item is None:
            return
        yield item
