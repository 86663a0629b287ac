"""The two legs of a search, side by side: what holds the words, and what is near in meaning."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memorist.errors import EmbedderError, EmbedderUnavailable, StoreError
from memorist.forks import renew_after_fork
from memorist.ingest.vectorizer import Vectorizer
from memorist.profiles import LATIN_ONLY, NOISE_FLOOR, Profile
from memorist.records import Filter, Match, Query
from memorist.store.base import KeywordMatches, Model, Scope, Store

T = TypeVar("T")

KEYWORD_THREADS = 4
LATIN_ENDS = "\u0250"  # the first character beyond Latin, its accents and extensions
LOOKED_AT = 1000  # characters of a question that tell its script
ESTIMATE_ERROR = 0.02  # how far the scan's similarity may be off


@dataclass(frozen=True, slots=True)
class LegResults:
    """
    What the legs found, best first, and what was missing while they looked.

    `strange` are words that stand in no memory; `with_words` are the keys of all that holds one of the words, where
    they are known. What is below `floor` counts as not found by meaning; the scan
    estimates, so `vector` holds a little more than that, and `too_far` are the keys of the rest. `around` are the keys
    of what is near with or without the filter.
    """

    keyword: Sequence[Match] = ()
    strange: Sequence[str] = ()
    with_words: Sequence[int] | None = None
    vector: Sequence[Match] = ()
    around: Sequence[int] = ()
    model: Model | None = None
    question: NDArray[np.float32] | None = field(default=None, compare=False)
    floor: float | None = None
    too_far: Sequence[int] = ()
    degraded: str | None = None


def merged(one: LegResults, other: LegResults) -> LegResults:
    """What was found in two places, as if it were one."""
    by_meaning = one if one.model else other  # where one had no vectors to go by
    return LegResults(
        keyword=sorted(
            [*one.keyword, *other.keyword], key=lambda match: (not match.has_all_words, -match.score, match.key)
        ),
        strange=[word for word in one.strange if word in other.strange],
        vector=sorted([*one.vector, *other.vector], key=lambda match: (-match.score, match.key)),
        around=[*one.around, *other.around],
        model=by_meaning.model,
        question=by_meaning.question,
        floor=by_meaning.floor,
        too_far=[*one.too_far, *other.too_far],
        degraded=one.degraded or other.degraded,
    )


class Legs:
    """Runs the keyword leg in a thread beside the vector leg; both spend their time outside the interpreter's lock."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._closed = False
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """In a child: threads do not come along through a fork."""
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, None
        if threads:
            threads.shutdown()

    def run(self, query: Query, filter: Filter, mode: str, profile: Profile, vectorizer: Vectorizer) -> LegResults:
        limit, scope = candidates_wanted(profile), self._store.resolve_scope(filter)

        def keyword(asked: Query = query) -> KeywordMatches:
            match = partial(
                self._store.match_keywords, asked, scope, limit=limit, page=profile.limit, weights=profile.columns
            )
            return _named("keyword", match)

        words_do = _words_say_it_all(query, profile) or (profile.intent == "cached" and not vectorizer.has(query.text))
        if mode == "keyword" or (mode == "hybrid" and words_do):
            return _by_words(keyword())
        if mode == "hybrid" and vectorizer.model_name in LATIN_ONLY and not _mostly_latin(query.text):
            return _by_words(keyword(), f"keyword search only: {vectorizer.model_name} reads Latin script")
        beside = None
        try:
            if vectorizer.embedder is None:
                raise EmbedderUnavailable("no embedding model is configured")
            # With meaning to go by, words that say nothing are not needed to fill a page.
            if mode == "hybrid":
                beside = self._beside(partial(keyword, replace(query, spare=())))
            found = _named("semantic", lambda: self._vector(query.text, scope, limit, profile, vectorizer))
        except EmbedderError as exc:
            if mode == "semantic" and profile.on_no_vector != "keyword":
                raise EmbedderUnavailable(
                    f"semantic search has nothing to go by: {exc}. Use hybrid or keyword"
                ) from exc
            enough = beside is not None and (not query.spare or len(beside.result().matches) >= profile.limit)
            return _by_words(beside.result() if beside and enough else keyword(), f"keyword search only: {exc}")
        if beside is None:
            return found
        return _with_words(found, beside.result())

    def _vector(self, text: str, scope: Scope, limit: int, profile: Profile, vectorizer: Vectorizer) -> LegResults:
        model = vectorizer.model()
        question = vectorizer.question(text)
        nearest = self._store.find_nearest(model, question, scope, limit=limit)
        floor = profile.min_similarity
        if floor is None and profile.noise_floor:
            floor = NOISE_FLOOR.get(model.name)
        near = [match for match in nearest.matches if floor is None or match.score >= floor - ESTIMATE_ERROR]
        degraded = None
        if nearest.unembedded > 0:
            degraded = (
                f"{nearest.unembedded} of {nearest.total} memories have no vector of {model.name} yet and are found by "
                "keyword only; `memorist reembed` makes them"
            )
        around = [match.key for match in nearest.unfiltered if floor is None or match.score >= floor - ESTIMATE_ERROR]
        far = [match.key for match in nearest.matches if floor is not None and match.score < floor - ESTIMATE_ERROR]
        return LegResults(
            vector=near, around=around, model=model, question=question, floor=floor, too_far=far, degraded=degraded
        )

    def _beside(self, work: Callable[[], KeywordMatches]) -> "Future[KeywordMatches]":
        with self._lock:
            if self._closed:
                raise StoreError("this memory has been closed; open it again")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(KEYWORD_THREADS, "memorist-keyword")
            return self._threads.submit(work)


def candidates_wanted(profile: Profile) -> int:
    """How many each leg is asked for."""
    return max(profile.limit * profile.overfetch, profile.least_candidates, profile.reread)


def _by_words(words: KeywordMatches, degraded: str | None = None) -> LegResults:
    return _with_words(LegResults(degraded=degraded), words)


def _with_words(found: LegResults, words: KeywordMatches) -> LegResults:
    return replace(found, keyword=words.matches, strange=words.unknown_words, with_words=words.all_keys)


def _words_say_it_all(query: Query, profile: Profile) -> bool:
    return profile.intent == "auto" and bool(query.terms) and all(term.exact for term in query.terms)


def _mostly_latin(text: str) -> bool:
    letters = [character for character in text[:LOOKED_AT] if character.isalpha()]
    return 2 * sum(character < LATIN_ENDS for character in letters) >= len(letters)


def _named(leg: str, work: Callable[[], T]) -> T:
    """A store's error with the name of the leg that met it."""
    try:
        return work()
    except StoreError as exc:
        raise type(exc)(f"{leg} search: {exc}") from exc
