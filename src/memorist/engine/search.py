"""Searches as callers ask for them: arguments checked and settled, the pipeline run, and the search recorded."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from inspect import signature
from typing import Annotated, Any, Unpack

from msgspec.structs import replace

from memorist import validation
from memorist.arguments import (
    Detail,
    FacetNames,
    Filters,
    Limit,
    Mode,
    ProfileName,
    QueryText,
    RecordMode,
    SearchOptions,
    Time,
    TimeLike,
)
from memorist.contract import operation
from memorist.engine.resources import Resources
from memorist.engine.room import Room
from memorist.errors import InvalidInput
from memorist.file_records import DocumentHit
from memorist.ids import new_id
from memorist.profiles.compat import split_use_vector
from memorist.profiles.profile import ProfileOptions
from memorist.records import FACETS, Lens, Recall, RecalledMemory, Reinforcement, Results
from memorist.schemas import Meta
from memorist.search.options import apply_options, find_profile, parse_mode
from memorist.search.pipeline import SearchRequest
from memorist.search.query import parse_query
from memorist.search.suggest import suggest_query
from memorist.text.dates import find_periods
from memorist.time_limit import call_within

_LOGGED_CHARACTERS = 50  # of a query

_log = logging.getLogger("memorist.search")
_NO_LENS = Lens("")


class Searcher:
    """Runs searches over memories and indexed files."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store

    def search(self, request: SearchRequest, facets: Sequence[str] = (), explain: bool = False) -> Results:
        fields = validation.facets(facets)
        logged = self._resources.redaction.redact_text(request.text)
        _log.debug("search %r begins, mode %s", logged[:_LOGGED_CHARACTERS], request.mode)
        if request.mode != "keyword":
            self._resources.begin_loading()
        results = call_within(self._resources.search_timeout, self._resources.pipeline.answer, request, fields, explain)
        _log.info("search %r: %d hits in %.1f ms", logged[:_LOGGED_CHARACTERS], len(results), results.took_ms)
        if request.record != "off":
            share = request.profile.reinforcement if request.record == "reinforce" else 0.0
            recall = _build_recall(replace(request, text=logged), results, self._resources.surface)
            self._resources.recorder.put(recall, Reinforcement(share, self._resources.decay))
        return results

    def search_documents(self, request: SearchRequest, grouped: bool, neighbours: int, explain: bool) -> Results:
        validation.whole_number(neighbours, "neighbours", 0, 100)
        grouped = validation.flag(grouped, "grouped")
        request = replace(request, memories=False, documents=True, grouped=grouped, include_facts=False)
        results = call_within(self._resources.search_timeout, self._resources.pipeline.answer, request, (), explain)
        if not neighbours:
            return results
        return replace(results, hits=self._resources.pipeline.extend_with_neighbours(results.hits, neighbours))

    def build_request(
        self,
        text: object,
        filters: dict[str, Any],
        options: dict[str, Any],
        *,
        mode: object = "hybrid",
        profile: str | None = None,
        include_superseded: bool = False,
        lens: str | None = None,
        record_session: str | None = None,
        now: TimeLike | None = None,
        detail: str = "full",
        include_facts: bool = True,
        include_documents: bool = False,
        offset: int = 0,
    ) -> SearchRequest:
        """Check every argument, and settle profile, lens and options, of which the caller's own come first."""
        started = time.perf_counter()
        view = _NO_LENS if lens is None else self._resources.find_lens(lens)
        filters = {**view.filters, **{name: value for name, value in filters.items() if value is not None}}
        name = view.profile if profile is None else profile
        base = self._resources.profile if name is None else find_profile(name)
        use_vector, options = split_use_vector(options)
        if options.get("recency") is None:
            options = {**options, "recency": view.recency}
        settled = apply_options(base, {**options, "min_salience": filters.get("min_salience")})
        if settled.min_salience is not None:
            filters["min_salience"] = settled.min_salience
        filter = self._resources.resolve_filter(filters, include_superseded=include_superseded)
        session, record = None, settled.record
        if record_session is not None:
            session = self._store.sessions.resolve_id(validation.session_id(record_session), open=True)
            if record == "off" and options.get("record") is None:
                record = "log"
        query = validation.query_text(text)
        moment = validation.moment_or_none(now, "now") or filter.as_of or datetime.now(UTC)
        return SearchRequest(
            text=query,
            query=replace(parse_query(query, settled.grammar), stemmed=settled.stemmed),
            filter=filter,
            mode=parse_mode(mode, settled, use_vector),
            profile=settled,
            model=self._resources.model,
            lens=view,
            record=record,
            session=session,
            now=moment,
            started=started,
            periods=find_periods(query, moment) if settled.time_boost else (),
            documents=validation.flag(include_documents, "include_documents"),
            detail=validation.detail(detail),
            include_facts=validation.flag(include_facts, "include_facts"),
            offset=validation.whole_number(offset, "offset", 0, validation.MAX_LIMIT - settled.limit),
        )


def _build_recall(request: SearchRequest, results: Results, surface: str) -> Recall:
    memories = (
        RecalledMemory(hit.memory.id, place, hit.score, hit.relevance, tuple(fact.id for fact in hit.facts))
        for place, hit in enumerate(results, 1)
        if not isinstance(hit, DocumentHit)
    )
    return Recall(
        new_id(),
        request.text,
        datetime.now(UTC),
        request.mode,
        results.profile,
        results.lens,
        request.session,
        tuple(memories),
        surface,
    )


class Finding(Room):
    """Searches memories."""

    @operation("POST /search", reads=True, one_project=True, nested="options")
    def search(
        self,
        query: QueryText,
        *,
        limit: Annotated[Limit | None, Meta("How many; without it, as many as the profile says, mostly 10")] = None,
        offset: Annotated[int, Meta("Hits to leave out: pages with the same limit do not overlap", minimum=0)] = 0,
        mode: Mode = "hybrid",
        profile: ProfileName | None = None,
        lens: Annotated[str | None, Meta("The name of a saved lens to search with")] = None,
        now: Annotated[Time | None, Meta('The time that "last week" counts from')] = None,
        include_superseded: Annotated[bool, Meta("Also show superseded memories, ranked lower")] = False,
        include_facts: bool = True,
        include_documents: Annotated[bool, Meta("Also search indexed files, in one ranking")] = False,
        detail: Detail = "full",
        record: RecordMode | None = None,
        record_session: Annotated[str | None, Meta("The session to record it for")] = None,
        facets: FacetNames = (),
        explain: Annotated[bool, Meta("Also tell how the query was parsed")] = False,
        **options: Unpack[SearchOptions],
    ) -> Results:
        """
        Find memories by word and by meaning, best first.

        Filters hold within both legs, so a page is full whenever enough memories pass. "Last week" in a query counts
        from `now`. Other options replace those of the profile (`memorist.profiles.Profile`). `include_documents`
        searches indexed files as well. `offset` leaves out the first hits: pages with the same `limit` do not overlap.
        """
        searcher = Searcher(self._resources)
        filters, others = split_options(options, Finding.search)
        request = searcher.build_request(
            query, filters, {**others, "limit": limit, "record": record}, mode=mode, profile=profile, lens=lens,
            record_session=record_session, include_superseded=include_superseded, now=now, detail=detail,
            include_facts=include_facts, include_documents=include_documents, offset=offset,
        )  # fmt: skip
        return searcher.search(request, facets, explain)

    @operation("GET /suggest", answer="suggestion")
    def suggest(self, query: QueryText) -> str | None:
        """Return the query with misspelt words corrected by those of the memories; None where all are known."""
        parsed = parse_query(validation.query_text(query), self._resources.profile.grammar)
        known, similar = self._store.find_known_terms, self._store.find_similar_words
        return call_within(self._resources.search_timeout, suggest_query, parsed, known, similar)

    @operation("POST /facets", reads=True, one_project=True)
    def facets(
        self,
        query: QueryText | None = None,
        fields: FacetNames = FACETS,
        *,
        include_superseded: bool = False,
        **filters: Unpack[Filters],
    ) -> Mapping[str, Mapping[str, int]]:
        """Count memories by the values of fields: all of them, or those that match words of a query."""
        grammar = self._resources.profile.grammar
        parsed = None if query is None else parse_query(validation.query_text(query), grammar)
        filter = self._resources.resolve_filter(filters, include_superseded=include_superseded)
        count = self._store.count_facets
        return call_within(self._resources.search_timeout, count, parsed, filter, (), validation.facets(fields))


def split_options(given: Mapping[str, Any], search: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the filters among the options of a search, and those of its profile; refuse what it does not have."""
    filters = {name: value for name, value in given.items() if name in Filters.__annotations__}
    others = {name: value for name, value in given.items() if name not in filters}
    for name in others:
        if name not in ProfileOptions.__annotations__:
            named = signature(search).parameters.values()
            arguments = [one.name for one in named if one.kind is one.KEYWORD_ONLY]
            raise InvalidInput(f"a search has no option {name!r}; it has: {', '.join(arguments)}")
    return filters, others
