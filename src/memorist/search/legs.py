"""The two legs of a search, keyword and vector, run side by side."""

import contextvars
import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist.arguments import Filter
from memorist.embed.base import ActiveModel
from memorist.errors import EmbedderError, EmbedderUnavailable, StoreError
from memorist.forks import renew_after_fork
from memorist.profiles import LATIN_ONLY, NOISE_FLOOR
from memorist.profiles.profile import ALL_COLUMNS, Profile
from memorist.records import Model, Query, Term
from memorist.search.query import parse_query
from memorist.store.records import NO_MATCHES, Compare, KeywordMatches, Matches, Scope
from memorist.store.store import Store
from memorist.text.tokenizer import is_mostly_latin

_KEYWORD_THREADS = 4
_ESTIMATE_ERROR = 0.02  # how far the scan's similarity may be off


class LegResults(Struct, frozen=True):
    """
    The matches of both legs, best first.

    `unknown_words` are in no memory, and all of them are known if `words_counted`; otherwise counts may be a minute
    old. `keyword_keys` are the keys of all that holds one of the words, where they are known. Vector matches below
    `similarity_floor` do not count as found: the scan estimates, so `vector` holds a few below it, and `below_floor`
    are the keys of the rest. `unfiltered` are the keys the vector leg finds without the filter. `degraded` says in
    words what could not be used. `scopes` are those that were searched, of one store or of two, and `compares` what
    compares other memories of each with the question.
    """

    keyword: Matches = NO_MATCHES
    unknown_words: Sequence[str] = ()
    words_counted: bool = False
    keyword_keys: Sequence[int] | None = None
    vector: Matches = NO_MATCHES
    unfiltered: Sequence[int] = ()
    model: Model | None = None
    query_vector: NDArray[np.float32] | None = None
    similarity_floor: float | None = None
    below_floor: Sequence[int] = ()
    degraded: str | None = None
    scopes: tuple[Scope, ...] = ()
    compares: tuple[Compare | None, ...] = (None,)


def merge_results(one: LegResults, other: LegResults) -> LegResults:
    """Join the matches of two stores as if they were one."""
    return replace(
        one if one.model else other,  # one of them may have no vectors
        keyword=Matches.join(one.keyword, other.keyword),
        unknown_words=[word for word in one.unknown_words if word in other.unknown_words],
        keyword_keys=None,
        vector=Matches.join(one.vector, other.vector),
        unfiltered=[*one.unfiltered, *other.unfiltered],
        below_floor=[*one.below_floor, *other.below_floor],
        degraded=one.degraded or other.degraded,
        scopes=one.scopes + other.scopes,
        compares=one.compares + other.compares,
    )


class Legs:
    """
    Runs both legs.

    Where the database has to find the words, the keyword leg runs in a thread beside the vector leg: both spend their
    time outside the interpreter's lock. An image answers sooner than a thread begins.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._closed = False
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start anew in a child: threads do not survive a fork."""
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """End the threads. Closing twice is fine."""
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, None
        if threads:
            threads.shutdown()

    def run(self, query: Query, filter: Filter, mode: str, profile: Profile, model: ActiveModel) -> LegResults:
        """Return the matches of the legs that the mode asks for; words alone where the model fails."""
        scope = self._store.resolve_scope(filter)
        return replace(self._run(query, scope, mode, profile, model), scopes=(scope,))

    def _run(self, query: Query, scope: Scope, mode: str, profile: Profile, model: ActiveModel) -> LegResults:
        limit = candidate_count(profile)

        def match_keywords(asked: Query = query) -> KeywordMatches:
            page, weights = profile.limit, profile.columns
            with _leg_named_in_errors("keyword"):
                return self._store.match_keywords(asked, scope, limit=limit, page=page, weights=weights)

        def begin_keywords(asked: Query) -> Callable[[], KeywordMatches]:
            """Match words at once where an image can, and else in a thread; return what waits for the result."""
            page, weights = profile.limit, profile.columns
            known = self._store.match_in_memory(asked, scope, limit=limit, page=page, weights=weights)
            return self._start(partial(match_keywords, asked)).result if known is None else lambda: known

        # Of nothing but identifiers and phrases, for which keyword search suffices.
        is_exact = profile.intent == "auto" and bool(query.terms) and all(term.exact for term in query.terms)
        if mode == "keyword" or (mode == "hybrid" and (is_exact or profile.intent == "never")):
            return _keyword_results(match_keywords())
        if mode == "hybrid" and model.name in LATIN_ONLY and not is_mostly_latin(query.text):
            return _keyword_results(match_keywords(), f"keyword search only: {model.name} reads Latin script")
        keyword_leg: Callable[[], KeywordMatches] | None = None
        try:
            if model.embedder is None:
                raise EmbedderUnavailable("no embedding model is configured")
            # Beside the vector leg, stop words are not needed to fill a page.
            if mode == "hybrid":
                keyword_leg = begin_keywords(replace(query, stopwords=()))
            with _leg_named_in_errors("semantic"):
                results = self._match_vectors(query.text, scope, profile, model)
        except EmbedderError as exc:
            if mode == "semantic" and profile.on_no_vector != "keyword":
                raise EmbedderUnavailable(f"semantic search is not possible: {exc}. Use hybrid or keyword") from exc
            reason = f"keyword search only: {exc}"
            if keyword_leg and (not query.stopwords or len(keyword_leg().matches) >= profile.limit):
                return _keyword_results(keyword_leg(), reason)
            return _keyword_results(match_keywords(), reason)
        return _add_keyword_results(results, keyword_leg()) if keyword_leg else results

    def find_missing_phrases(self, query: Query, filter: Filter) -> frozenset[Term]:
        """Return the quoted phrases of a query that no memory has; a stricter grammar is taken at its word."""
        phrases = [term for term in query.terms if term.is_phrase]
        if not phrases or query.raw is not None or not (query.every and query.any_of):
            return frozenset()
        scope = self._store.resolve_scope(filter)

        def is_found(term: Term) -> bool:
            phrase = replace(query, terms=(term,), stopwords=())
            return len(self._store.match_keywords(phrase, scope, limit=1, page=1, weights=ALL_COLUMNS).matches) > 0

        with _leg_named_in_errors("keyword"):
            return frozenset(term for term in phrases if not is_found(term))

    def _match_vectors(self, text: str, scope: Scope, profile: Profile, active: ActiveModel) -> LegResults:
        model = active.identify()
        query_vector = active.embed_query(text)
        nearest = self._store.vectors.find_nearest(model, query_vector, scope, candidate_count(profile))
        floor = profile.min_similarity
        if floor is None and profile.noise_floor:
            floor = NOISE_FLOOR.get(model.name)
        least = -math.inf if floor is None else floor - _ESTIMATE_ERROR
        degraded = None
        if nearest.unembedded > 0:
            degraded = (
                f"{nearest.unembedded} of {nearest.total} memories have no vector of {model.name} yet and are found by "
                "keyword only; `memorist reembed` makes them"
            )
        far = nearest.matches.scores < least
        return LegResults(
            vector=nearest.matches.take(~far) if far.any() else nearest.matches,
            unfiltered=nearest.unfiltered.keys[nearest.unfiltered.scores >= least].tolist(),
            model=model,
            query_vector=query_vector,
            similarity_floor=floor,
            below_floor=nearest.matches.keys[far].tolist(),
            degraded=degraded,
            compares=(nearest.compare,),
        )

    def _start(self, work: Callable[[], KeywordMatches]) -> "Future[KeywordMatches]":
        with self._lock:
            if self._closed:
                raise StoreError("this memory has been closed; open it again")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_KEYWORD_THREADS, "memorist-keyword")
            try:
                return self._threads.submit(contextvars.copy_context().run, work)  # with the time limit of this call
            except BaseException:  # Ctrl-C within it may leave a lock of the pool held for good
                self._threads = None
                raise


def loosen_phrases(query: Query, missing: Collection[Term]) -> tuple[Query, str | None]:
    """Replace the phrases of a query that nothing has by their words, and say so."""
    if not missing:
        return query, None
    terms = chain.from_iterable(
        parse_query(term.text, "auto").terms if term in missing else [term] for term in query.terms
    )
    phrases = ", ".join(f'"{term.text}"' for term in query.terms if term in missing)
    return replace(query, terms=tuple(dict.fromkeys(terms))), f"no memory has {phrases}: searched for its words"


def join_notes(*notes: str | None) -> str | None:
    """Return what `degraded` says of several things that could not be used."""
    return "; ".join(filter(None, notes)) or None


def candidate_count(profile: Profile) -> int:
    """Return how many candidates each leg is asked for."""
    return max(profile.limit * profile.overfetch, profile.min_candidates, profile.rerank_depth)


def _keyword_results(matches: KeywordMatches, degraded: str | None = None) -> LegResults:
    return _add_keyword_results(LegResults(degraded=degraded), matches)


def _add_keyword_results(results: LegResults, matches: KeywordMatches) -> LegResults:
    return replace(
        results,
        keyword=matches.matches,
        unknown_words=matches.unknown_words,
        words_counted=matches.in_memory,
        keyword_keys=matches.all_keys,
    )


@contextmanager
def _leg_named_in_errors(leg: str) -> Iterator[None]:
    """Put the name of the leg before the message of a store's error."""
    try:
        yield
    except StoreError as exc:
        raise type(exc)(f"{leg} search: {exc}") from exc
