"""The two legs of a search, side by side: what holds the words, and what is near in meaning."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recollect.errors import EmbedderError, EmbedderUnavailable, StoreError
from recollect.ingest.vectorize import Vectorizer
from recollect.profiles import NOISE_FLOOR, Profile
from recollect.records import Filter, Match, Query
from recollect.store.base import Model, Store

T = TypeVar("T")

KEYWORD_THREADS = 4
ESTIMATE_ERROR = 0.02  # how far the scan's similarity may be off


@dataclass(frozen=True, slots=True)
class Found:
    """What the legs found, best first, and what was missing while they looked. Below `floor` it counts as not found."""

    keyword: Sequence[Match] = ()
    vector: Sequence[Match] = ()
    model: Model | None = None
    question: NDArray[np.float32] | None = field(default=None, compare=False)
    floor: float | None = None
    degraded: str | None = None


class Legs:
    """Runs the keyword leg in a thread beside the vector leg; both spend their time outside the interpreter's lock."""

    def __init__(self, store: Store, vectorizer: Vectorizer) -> None:
        self._store = store
        self._vectorizer = vectorizer
        self._pid = 0
        self._threads: ThreadPoolExecutor | None = None

    def run(self, query: Query, filter: Filter, mode: str, profile: Profile) -> Found:
        limit = max(profile.limit * profile.overfetch, profile.least_candidates)

        def keyword(asked: Query = query) -> list[Match]:
            match = partial(self._store.match, asked, filter, limit=limit, weights=profile.columns)
            return _named("keyword", match)

        if mode == "keyword":
            return Found(keyword=keyword())
        # With meaning to go by, words that say nothing are not needed to fill a page.
        beside = self._beside(partial(keyword, replace(query, spare=()))) if mode == "hybrid" else None
        try:
            found = _named("semantic", lambda: self._vector(query.text, filter, limit, profile))
        except EmbedderError as exc:
            if mode == "semantic" and profile.on_no_vector != "keyword":
                raise EmbedderUnavailable(
                    f"semantic search has no vectors to go by: {exc}. Use mode hybrid or keyword"
                ) from exc
            if beside:
                beside.result()
            return Found(keyword=keyword(), degraded=f"keyword search only: {exc}")
        if beside is None:
            return found
        return replace(found, keyword=beside.result())

    def close(self) -> None:
        if self._threads and self._pid == os.getpid():
            self._threads.shutdown()

    def _vector(self, text: str, filter: Filter, limit: int, profile: Profile) -> Found:
        model = self._vectorizer.model()
        question = self._vectorizer.question(text)
        if model is None:
            raise EmbedderUnavailable("no embedding model is configured")
        nearest = self._store.nearest(model, question, filter, limit=limit)
        floor = profile.min_similarity
        if floor is None and profile.noise_floor:
            floor = NOISE_FLOOR.get(model.name)
        near = [match for match in nearest.matches if floor is None or match.score >= floor - ESTIMATE_ERROR]
        degraded = None if nearest.complete else self._incomplete(model)
        return Found((), near, model, question, floor, degraded)

    def _incomplete(self, model: Model) -> str | None:
        have, total = self._store.coverage(model)
        if have >= total:
            return None
        return (
            f"{total - have} of {total} memories have no vector of {model.name} yet and are found by keyword only; "
            "`recollect reembed` makes them"
        )

    def _beside(self, work: Callable[[], list[Match]]) -> "Future[list[Match]]":
        if self._threads is None or self._pid != os.getpid():  # threads do not come along through a fork
            self._threads, self._pid = ThreadPoolExecutor(KEYWORD_THREADS, "recollect-keyword"), os.getpid()
        return self._threads.submit(work)


def _named(leg: str, work: Callable[[], T]) -> T:
    """A store's error with the name of the leg that met it."""
    try:
        return work()
    except StoreError as exc:
        raise type(exc)(f"{leg} search: {exc}") from exc
