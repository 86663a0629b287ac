"""
One search, from top to bottom: parse, both legs, candidates, ranking, page.

| step | module |
|---|---|
| parse the text, and the times it names | `query`, `text.dates` |
| run both legs side by side | `legs` |
| read of all matches what ranking looks at | `candidates` |
| fuse, add the best to the query, smooth over a session, prefer a named time, read the best | `fusion`, `rerank` |
| keep the best passage of each file | `rerank.group_by_document` |
| apply thresholds, read the memories of the page, cut snippets, estimate relevance | `page` |
"""

import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memorist.arguments import Filter
from memorist.embed.base import ActiveModel, Reranker
from memorist.file_records import DocumentHit
from memorist.profiles.profile import Profile
from memorist.records import Hit, Lens, Model, Query, Results
from memorist.search.candidates import Candidates, Places, Ranking, gather_candidates
from memorist.search.fusion import rank_candidates
from memorist.search.legs import LegResults, Legs, candidate_count, join_notes, loosen_phrases, merge_results
from memorist.search.options import with_leg_weights
from memorist.search.page import HitPage, attach_locations, build_page, extend_with_chunks
from memorist.search.rerank import (
    FURTHER_PASSAGE_DECAY,
    ReadMemory,
    boost_by_time,
    group_by_document,
    pseudo_relevance_feedback,
    rerank,
    smooth_scores,
)
from memorist.search.signals import Evidence, asks_assistant
from memorist.search.suggest import suggest_query
from memorist.store.filters import from_micros
from memorist.store.records import Scope
from memorist.store.store import Store
from memorist.text.dates import Period
from memorist.validation import MAX_LIMIT

_MAX_CANDIDATES = 10_000  # ranked for one page, however many its thresholds remove
_FEW_KEYWORD_HITS = 3  # with fewer, a word may be misspelt
_MOST_OF_QUERY = 0.6  # coverage; a word may also be misspelt where no memory covers so much and a word is unknown


class SearchRequest(Struct, frozen=True):
    """A search with every option settled."""

    text: str
    query: Query
    filter: Filter
    mode: str
    profile: Profile
    model: ActiveModel
    lens: Lens
    record: str
    session: str | None
    now: datetime
    started: float  # by the performance counter
    periods: Sequence[Period] = ()  # that the query names
    memories: bool = True  # whether memories are searched
    documents: bool = False  # whether indexed files are searched
    grouped: bool = True  # whether a document is answered by its best passage alone
    detail: str = "full"
    include_facts: bool = True
    offset: int = 0  # hits left out before the page

    @property
    def keyword_query(self) -> Query:
        """The query as far as its words count."""
        return Query(self.text) if self.mode == "semantic" else self.query


class _RankedPage(Struct, frozen=True):
    """A page of hits, with what it was made from."""

    page: HitPage
    results: LegResults
    candidates: Candidates
    legs_done: float  # by the performance counter


class Pipeline:
    """Runs searches over memories and indexed files."""

    def __init__(self, store: Store, reranker: Reranker) -> None:
        self._store = store
        self._reranker = reranker
        self._legs = Legs(store)
        self._file_legs = Legs(store.documents.chunks)

    def close(self) -> None:
        """End the threads. Closing twice is fine."""
        self._legs.close()
        self._file_legs.close()

    def answer(self, request: SearchRequest, facets: Sequence[str] = (), explain: bool = False) -> Results:
        """Return the hits of a page, and what is told beside them."""
        request, note = self._loosen_phrases(request)
        ranked = self._rank_page(request)
        ranked_at = time.perf_counter()
        return Results(
            facets=self._count_facets(request, ranked, facets) if facets else {},
            hits=ranked.page.hits,
            query=request.text,
            mode=request.mode,
            profile=request.profile.name,
            degraded=join_notes(ranked.results.degraded, note),
            suggestion=self._suggest_if_few(request, ranked.results),
            hidden=self._count_hidden(request, ranked),
            plan=_explain(request, ranked, ranked_at) if explain else None,
            detail=request.detail,
            lens=request.lens.name or None,
            took_ms=(time.perf_counter() - request.started) * 1000,
        )

    def _rank_page(self, request: SearchRequest) -> _RankedPage:
        """
        Rank, and leave out the hits before the page.

        The first page is as short a ranking as one can be, and all others are cut from the longest one, without the
        hits of the first: so pages of one limit never overlap, and none depends on how far a caller has come.
        """
        first = self._rank(request, request.profile)
        if not request.offset:
            return first
        whole = self._rank(request, replace(request.profile, limit=MAX_LIMIT))
        shown = set(first.page.keys)
        rest = [(hit, key) for hit, key in zip(whole.page.hits, whole.page.keys, strict=True) if key not in shown]
        hits = [*zip(first.page.hits, first.page.keys, strict=True), *rest]
        page = hits[request.offset : request.offset + request.profile.limit]
        keys = tuple(key for _, key in page)
        return replace(whole, page=replace(whole.page, hits=tuple(hit for hit, _ in page), keys=keys))

    def _rank(self, request: SearchRequest, profile: Profile, *, again: bool = False) -> _RankedPage:
        """Run the legs and every ranking step; with more candidates where thresholds left the page with room."""
        results, stores = self._run_legs(request, profile)
        legs_done = time.perf_counter()
        weighted = with_leg_weights(profile, request.mode, degraded=results.model is None)
        if asks_assistant(request.text):
            weighted = replace(weighted, assistant_factor=1.0)
        candidates = gather_candidates(stores, results, weighted, request.now)
        if request.documents and candidates.gone and not again:  # a file was indexed anew in the meantime
            return self._rank(request, profile, again=True)
        load_memories = partial(_load_memories, stores, request.filter, candidates, results.model)
        ranking = smooth_scores(self._fuse(request, weighted, results, candidates), profile.session_smoothing)
        ranking = boost_by_time(ranking, request.periods, profile.time_boost)
        if profile.rerank_depth and len(ranking):
            ranking, failure = rerank(self._reranker, request.query, request.periods, ranking, profile, load_memories)
            results = replace(results, degraded=join_notes(results.degraded, failure))
        keys: list[int] = candidates.keys.tolist()
        locations = self._store.documents.locate_chunks(keys) if request.documents and keys else {}
        documents = {key: location.document for key, location in locations.items()}
        grouped = ranking
        if locations and request.grouped:
            # Memories have no further passages, so among them a document's best one counts alone.
            decay = 0.0 if request.memories else FURTHER_PASSAGE_DECAY
            grouped = group_by_document(ranking, documents, decay)
        model = results.model.name if results.model else None
        owners = [documents.get(key, key) for key in keys] if documents else None
        evidence = Evidence.of(request.query, candidates.columns.similarity, candidates.coverage, owners)
        page = build_page(
            grouped, load_memories, request.query, weighted, model, evidence, request.now,
            detail=request.detail, include_facts=request.include_facts,
        )  # fmt: skip
        if page.outdated and not again:
            return self._rank(request, profile, again=True)
        asked_for = candidate_count(profile)
        there_is_more = max(len(results.keyword), len(results.vector)) >= asked_for
        removed = (bool(page.hidden) or len(grouped) < len(ranking)) and page.may_go_on
        if len(page.hits) < profile.limit and removed and there_is_more and asked_for < _MAX_CANDIDATES:
            return self._rank(request, replace(profile, min_candidates=asked_for * 4))
        hits = attach_locations(page.hits, page.keys, locations, self._store.namespace)
        return _RankedPage(replace(page, hits=hits), results, candidates, legs_done)

    def _run_legs(self, request: SearchRequest, profile: Profile) -> tuple[LegResults, list[Store]]:
        """Run both legs over memories, files or both, and join what they find."""
        sources = self._list_sources(request)
        stores = [store for store, _ in sources]
        if not request.query:
            return LegResults(
                scopes=tuple(Scope(request.filter) for _ in stores), compares=tuple(None for _ in stores)
            ), stores
        first, *others = [
            legs.run(request.query, request.filter, request.mode, profile, request.model) for _, legs in sources
        ]
        return (merge_results(first, *others) if others else first), stores

    def _list_sources(self, request: SearchRequest) -> list[tuple[Store, Legs]]:
        """Return the stores of memories, files or both, with their legs."""
        sources = [(self._store, self._legs)] if request.memories else []
        # Words of memories and files are in one index: where there is no file, it would be searched for nothing.
        if request.documents and not (sources and self._store.documents.is_empty()):
            sources.append((self._store.documents.chunks, self._file_legs))
        return sources

    def _loosen_phrases(self, request: SearchRequest) -> tuple[SearchRequest, str | None]:
        """Replace phrases that neither memories nor files have by their words, and say so."""
        if request.mode == "semantic" or not any(term.is_phrase for term in request.query.terms):
            return request, None
        sources = self._list_sources(request)
        missing = (legs.find_missing_phrases(request.query, request.filter) for _, legs in sources)
        query, note = loosen_phrases(request.query, frozenset.intersection(*missing))
        return replace(request, query=query), note

    def _fuse(self, request: SearchRequest, profile: Profile, results: LegResults, candidates: Candidates) -> Ranking:
        """Rank the candidates; again with the best of them added to the query, where the profile says so."""
        now, boosts = request.now.timestamp(), request.lens.boosts
        ranking = rank_candidates(candidates, profile, now, boosts)
        if not profile.expansion or results.query_vector is None:
            return ranking
        gains = pseudo_relevance_feedback(ranking, results.query_vector, profile.expansion)
        return ranking if gains is None else rank_candidates(candidates, profile, now, boosts, gains)

    def _count_facets(
        self, request: SearchRequest, ranked: _RankedPage, fields: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        query, keys = request.keyword_query, ranked.candidates.keys.tolist()
        if ranked.results.keyword_keys is not None:  # all that the words match is known: no need to ask again
            query, keys = Query(request.text), [*{*keys, *ranked.results.keyword_keys}]
        return self._store.count_facets(query, request.filter, keys, fields)

    def _count_hidden(self, request: SearchRequest, ranked: _RankedPage) -> dict[str, int]:
        """Count what filters and thresholds held back; filters only where the page has room for more."""
        hidden = {}
        if ranked.candidates.below_floor and request.profile.min_similarity is not None:
            hidden["min_similarity"] = ranked.candidates.below_floor
        full = len(ranked.page.hits) == request.profile.limit or not request.memories
        if not full and request.query and request.filter != request.filter.restriction:
            hidden |= self._store.count_filtered_out(request.keyword_query, request.filter, ranked.results.unfiltered)
        return hidden | dict(ranked.page.hidden)

    def _suggest_if_few(self, request: SearchRequest, results: LegResults) -> str | None:
        """Suggest another spelling, but only where the words of the query find little."""
        coverage = float(results.keyword.coverage.max(initial=0.0))
        few = len(results.keyword) < _FEW_KEYWORD_HITS or (results.unknown_words and coverage < _MOST_OF_QUERY)
        if request.mode == "semantic" or not few or request.filter.restricted:  # the words are those of all projects
            return None
        store = self._store if request.memories else self._store.documents.chunks
        # With files, the words that are unknown are those of both. Other counts of words may be a minute old.
        suspects = results.unknown_words if results.words_counted and not request.documents else None
        return suggest_query(request.query, store.find_known_terms, store.find_similar_words, suspects)

    def extend_with_neighbours(self, hits: Sequence[Hit], count: int) -> tuple[Hit, ...]:
        """Extend each hit by the chunks around it; hits whose chunks then meet become one."""
        stretches: dict[str, list[tuple[int, int]]] = {}
        chunks = [hit for hit in hits if isinstance(hit, DocumentHit)]
        for hit in sorted(chunks, key=lambda hit: hit.ordinal):
            known = stretches.setdefault(hit.document, [])
            first, last = hit.ordinal - count, hit.ordinal + count
            if known and first <= known[-1][1] + 1:
                known[-1] = (known[-1][0], last)
            else:
                known.append((first, last))
        extended, wanted = [], []
        for hit in chunks:
            stretch = next((each for each in stretches[hit.document] if each[0] <= hit.ordinal <= each[1]), None)
            if stretch is not None:
                stretches[hit.document].remove(stretch)
                extended.append(hit)
                wanted.append((hit.document, *stretch))
        return tuple(map(extend_with_chunks, extended, self._store.documents.load_chunk_ranges(wanted)))


def _load_memories(
    stores: Sequence[Store], filter: Filter, candidates: Candidates, model: Model | None, places: Places
) -> dict[int, ReadMemory]:
    """Read memories that were ranked, by key, without those that were changed or removed since."""
    keys, times = candidates.keys[places].tolist(), candidates.columns.updated_at[places].tolist()
    ranked_as = {key: from_micros(round(moment * 1e6)) for key, moment in zip(keys, times, strict=True)}
    parts = {key: part for key in keys if (part := candidates.columns.parts.get(key)) is not None}
    found = (each for store in stores for each in store.load_page(keys, filter, model, parts).items())
    return {key: ReadMemory(*read) for key, read in found if read[0].updated_at == ranked_as[key]}


def _explain(request: SearchRequest, ranked: _RankedPage, ranked_at: float) -> dict[str, Any]:
    return {
        "terms": [term.text + "*" * term.prefix for term in request.query.terms],
        "left_out": [term.text for term in request.query.stopwords],
        "keyword_candidates": len(ranked.results.keyword),
        "vector_candidates": len(ranked.results.vector),
        "legs_ms": round((ranked.legs_done - request.started) * 1000, 3),
        "ranking_ms": round((ranked_at - ranked.legs_done) * 1000, 3),
    }
