"""Memories out: searched, listed, seen along time."""

import builtins
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, overload

from memorist import validation
from memorist.documents import DocumentHit
from memorist.engine.core import Core, Moment, given_id
from memorist.errors import InvalidInput
from memorist.present.hits import HitPage, page, placed
from memorist.profiles import Profile
from memorist.records import (
    EVERYTHING,
    FACETS,
    Filter,
    Lens,
    Memories,
    Memory,
    Page,
    Query,
    Recall,
    RecalledMemory,
    Reinforcement,
    Results,
    Timeline,
    new_id,
)
from memorist.search import options
from memorist.search.candidates import Candidates, gather
from memorist.search.documents import best_places
from memorist.search.expansion import expanded
from memorist.search.fusion import Ranked, rank
from memorist.search.legs import LegResults, candidates_wanted, merged
from memorist.search.rerank import reread
from memorist.search.session_context import lent
from memorist.search.suggest import suggestion
from memorist.search.temporal import timely
from memorist.store.base import Store
from memorist.text.dates import Period, mentioned
from memorist.text.query import parse

MOST_CANDIDATES = 10_000  # ranked for one page, however much its thresholds take away
FOUND_LITTLE = 3  # hits by words; with fewer, a word may have been meant otherwise
MOST_OF_IT = 0.6  # of a question; where no memory holds so much and a word is strange, likewise
LOGGED = 50  # characters of a query

_log = logging.getLogger("memorist.search")
_NO_LENS = Lens("")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A search, with every option settled."""

    query: str
    question: Query
    filter: Filter
    mode: str
    profile: Profile
    lens: Lens
    record: str
    session: str | None
    now: datetime
    times: Sequence[Period] = ()  # that the question names
    memories: bool = True  # whether they are looked at
    documents: bool = False
    grouped: bool = True  # one place of a document at most

    @property
    def words(self) -> Query:
        """The question as far as its words count."""
        return Query(self.query) if self.mode == "semantic" else self.question


class Reading(Core):
    """Everything that only looks."""

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        mode: str = "hybrid",
        profile: str | None = None,
        project: str | Sequence[str] | None = None,
        session: str | None = None,
        sector: str | Sequence[str] | None = None,
        tier: str | Sequence[str] | None = None,
        kind: str | Sequence[str] | None = None,
        tags: str | Sequence[str] | None = None,
        source: str | Sequence[str] | None = None,
        fact_kind: str | Sequence[str] | None = None,
        month: str | Sequence[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        as_of: Moment | None = None,
        now: Moment | None = None,
        pinned: bool | None = None,
        recalled: bool | None = None,
        min_salience: float | None = None,
        include_global: bool | None = None,
        include_superseded: bool = False,
        include_facts: bool = True,
        include_documents: bool = False,
        lens: str | None = None,
        detail: str = "full",
        record: str | None = None,
        record_session: str | None = None,
        facets: Sequence[str] = (),
        explain: bool = False,
        **replaced: Any,
    ) -> Results:
        """
        Find memories by word and by meaning, best first.

        Filters hold within both legs, so a page is full whenever enough memories pass. "Last week" counts from `now`.
        Options of the profile (`memorist.profiles.Profile`) can be replaced. `include_documents` ranks files beside.
        """
        started = time.perf_counter()
        filters = dict(
            project=project, session=session, sector=sector, tier=tier, kind=kind, tags=tags, source=source,
            fact_kind=fact_kind, month=month, since=since, until=until, as_of=as_of, pinned=pinned, recalled=recalled,
            min_salience=min_salience, include_global=include_global,
        )  # fmt: skip
        asked = self._asked(
            query, filters, {**replaced, "limit": limit, "record": record}, mode=mode, profile=profile, lens=lens,
            record_session=record_session, include_superseded=include_superseded, now=now,
        )  # fmt: skip
        detail, counted = validation.detail(detail), validation.facets(facets)
        asked = replace(asked, documents=validation.flag(include_documents, "include_documents"))
        written = self._redaction.shown(asked.query)
        _log.debug("search %r begins, mode %s", written[:LOGGED], asked.mode)
        results = self._answer(
            asked, started, detail, validation.flag(include_facts, "include_facts"), counted, explain
        )
        _log.info("search %r: %d hits in %.1f ms", written[:LOGGED], len(results), results.took_ms)
        if asked.record != "off":
            self._recorder.put(_recall(replace(asked, query=written), results), self._reinforcement(asked))
        return results

    def _asked(
        self,
        query: object,
        filters: dict[str, Any],
        replaced: dict[str, Any],
        *,
        mode: object,
        profile: str | None,
        lens: str | None,
        record_session: str | None,
        include_superseded: bool,
        now: Moment | None = None,
    ) -> _Asked:
        seen_through = _NO_LENS if lens is None else self._lens(lens)
        filters = {**seen_through.filters, **{name: value for name, value in filters.items() if value is not None}}
        name = profile or seen_through.profile
        base = self._profile if name is None else options.profile(name)
        if replaced.get("recency") is None:
            replaced = {**replaced, "recency": seen_through.recency}
        settled = options.settle(base, {**replaced, "min_salience": filters.get("min_salience")})
        if settled.min_salience is not None:
            filters["min_salience"] = settled.min_salience
        filter = self._filter(filters, include_superseded=include_superseded)
        session = None
        if record_session is not None:
            session = self._store.sessions.resolve_id(validation.session_id(record_session), open=True)
        record = "log" if session and replaced.get("record") is None and settled.record == "off" else settled.record
        text = validation.query_text(query)
        at = validation.moment_or_none(now, "now") or filter.as_of or datetime.now(UTC)
        return _Asked(
            query=text,
            question=replace(parse(text, settled.grammar), stemmed=settled.stemmed),
            filter=filter,
            mode=options.mode(mode, settled),
            profile=settled,
            lens=seen_through,
            record=record,
            session=session,
            now=at,
            times=mentioned(text, at) if settled.when else (),
        )

    def _answer(
        self, asked: _Asked, started: float, detail: str, include_facts: bool, facets: Sequence[str], explain: bool
    ) -> Results:
        found, gathered, answer, legs_done = self._ranked(asked, asked.profile, detail, include_facts)
        ranked = time.perf_counter()
        counts = self._facets(asked, found, gathered, facets) if facets else {}
        hidden = self._hidden(asked, found, gathered, len(answer.hits)) | dict(answer.hidden)
        suggested = self._suggestion(asked, found)
        plan = _plan(asked.question, found, legs_done - started, ranked - legs_done) if explain else None
        return Results(
            hits=answer.hits,
            query=asked.query,
            mode=asked.mode,
            profile=asked.profile.name,
            took_ms=(time.perf_counter() - started) * 1000,
            degraded=found.degraded,
            suggestion=suggested,
            hidden=hidden,
            facets=counts,
            plan=plan,
            detail=detail,
            lens=asked.lens.name or None,
        )

    def _ranked(
        self, asked: _Asked, profile: Profile, detail: str, include_facts: bool, *, again: bool = False
    ) -> tuple[LegResults, Candidates, HitPage, float]:
        """
        What the legs find, ranked and cut, and when they had found it; where thresholds took too much of it away, once
        more with more of it.
        """
        found, stores = self._found(asked, profile)
        legs_done = time.perf_counter()
        settled = options.for_legs(profile, asked.mode, degraded=found.model is None)
        gathered = gather(stores, found, settled, asked.now, asked.filter.as_of)
        if asked.documents and gathered.gone and not again:  # a file was replaced in the meantime: it is there anew
            return self._ranked(asked, profile, detail, include_facts, again=True)
        ranked = lent(self._fused(asked, settled, found, gathered), profile.neighbours)
        ranked = timely(ranked, asked.times, profile.when)
        if profile.reread and ranked:
            ranked, missing = reread(self._reranker, asked.question, asked.times, ranked, gathered, profile)
            found = replace(found, degraded="; ".join(filter(None, [found.degraded, missing])) or None)
        places = self._store.documents.locate_chunks(_keys(gathered)) if asked.documents and ranked else {}
        shown = ranked
        if places and asked.grouped:
            # Among memories, which have no further places, only the best one counts.
            documents = {key: place.document for key, place in places.items()}
            shown = best_places(ranked, documents, 0.0) if asked.memories else best_places(ranked, documents)
        model = found.model.name if found.model else None
        answer = page(
            shown, gathered, asked.question, settled, model, asked.now, detail=detail, include_facts=include_facts
        )
        wanted = candidates_wanted(profile)
        more = max(len(found.keyword), len(found.vector)) >= wanted
        held = bool(answer.hidden) or len(shown) < len(ranked)
        if len(answer.hits) < profile.limit and held and more and wanted < MOST_CANDIDATES:
            return self._ranked(asked, replace(profile, least_candidates=wanted * 4), detail, include_facts)
        hits = placed(answer.hits, answer.keys, places, self._store.namespace)
        return found, gathered, replace(answer, hits=hits), legs_done

    def _fused(self, asked: _Asked, settled: Profile, found: LegResults, gathered: Candidates) -> builtins.list[Ranked]:
        """What the legs found as one list; where its best may be added to the question, asked again with them."""
        now, boosts = asked.now.timestamp(), asked.lens.boosts
        ranked = rank(gathered.candidates, settled, now, boosts)
        if not settled.expansion or found.question is None:
            return ranked
        vectors = {key: row.vector for key, row in gathered.rows.items() if row.vector is not None}
        again = expanded(ranked, vectors, found.question, settled.expansion)
        return rank(again, settled, now, boosts) if any(candidate.likeness for candidate in again) else ranked

    def _found(self, asked: _Asked, profile: Profile) -> tuple[LegResults, builtins.list[Store]]:
        """What the legs find where is to be looked, and the stores it is in."""
        looked = []
        if asked.memories:
            looked.append((self._store, self._legs, self._vectorizer))
        if asked.documents:
            looked.append((self._store.documents.chunks, self._file_legs, self._file_vectorizer))
        stores = [store for store, _, _ in looked]
        if not asked.question:
            return LegResults(), stores
        every = [
            legs.run(asked.question, asked.filter, asked.mode, profile, vectorizer) for _, legs, vectorizer in looked
        ]
        return (every[0] if len(every) == 1 else merged(*every)), stores

    def _facets(
        self, asked: _Asked, found: LegResults, gathered: Candidates, fields: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        words, keys = asked.words, _keys(gathered)
        if found.with_words is not None:  # what the words match is known: the index need not be asked again
            words, keys = Query(asked.query), [*{*keys, *found.with_words}]
        return self._store.count_facets(words, asked.filter, keys, fields)

    def _hidden(self, asked: _Asked, found: LegResults, gathered: Candidates, hits: int) -> dict[str, int]:
        """What was held back. Filters are asked only where the page has room for more: it has to be explainable."""
        hidden = {}
        if gathered.too_far and asked.profile.min_similarity is not None:
            hidden["min_similarity"] = gathered.too_far
        enough = hits == asked.profile.limit or not asked.memories
        if enough or not asked.question or asked.filter == EVERYTHING:
            return hidden
        return hidden | self._store.count_filtered_out(asked.words, asked.filter, found.around)

    def _suggestion(self, asked: _Asked, found: LegResults) -> str | None:
        """What the question perhaps meant; looked for only where its words find little."""
        held = max((match.coverage for match in found.keyword), default=0.0)
        little = len(found.keyword) < FOUND_LITTLE or (found.strange and held < MOST_OF_IT)
        if asked.mode == "semantic" or not little:
            return None
        return self._suggest(asked.question, self._store if asked.memories else self._store.documents.chunks)

    def _suggest(self, question: Query, store: Store) -> str | None:
        return suggestion(question, store.find_known_terms, store.find_similar_words)

    def _reinforcement(self, asked: _Asked) -> Reinforcement:
        return Reinforcement(asked.profile.reinforcement if asked.record == "reinforce" else 0.0, self._decay)

    def suggest(self, query: str) -> str | None:
        """The query as it was perhaps meant, from the words that are there; None where all its words are fine."""
        return self._suggest(parse(validation.query_text(query), self._profile.grammar), self._store)

    def facets(
        self,
        query: str | None = None,
        fields: Sequence[str] = FACETS,
        *,
        include_superseded: bool = False,
        **filters: Any,
    ) -> Mapping[str, Mapping[str, int]]:
        """How many memories have each value of a field: of all, or of those that hold words of a query."""
        question = None if query is None else parse(validation.query_text(query), self._profile.grammar)
        filter = self._filter(filters, include_superseded=include_superseded)
        return self._store.count_facets(question, filter, (), validation.facets(fields))

    @overload
    def get(self, ids: str, *, as_of: Moment | None = None) -> Memory: ...
    @overload
    def get(self, ids: builtins.list[str] | tuple[str, ...], *, as_of: Moment | None = None) -> Memories: ...
    def get(self, ids: str | builtins.list[str] | tuple[str, ...], *, as_of: Moment | None = None) -> Memory | Memories:
        """One memory by its id, or several in the order asked, naming those not found; `as_of` a time, as they were."""
        moment = validation.as_of(as_of)
        self._recorder.settle()
        if isinstance(ids, str):
            return self._one(given_id(ids), moment)
        if not isinstance(ids, list | tuple):
            raise InvalidInput(f"get takes an id or a list of ids, not {type(ids).__name__}")
        found = self._store.find([given_id(id) for id in ids], as_of=moment)
        return Memories(
            tuple(self._shown(memory, as_of=moment) for memory in found if memory),
            tuple(id for id, memory in zip(ids, found, strict=True) if not memory),
        )

    def list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        deleted: bool = False,
        detail: str = "full",
        include_superseded: bool = True,
        **filters: Any,
    ) -> Page:
        """
        Memories newest first, page by page; takes the filters of `search`. `deleted` lists the forgotten ones.

        A listing is history: superseded memories are in it, marked by `valid_until` and `superseded_by`.
        """
        validation.whole_number(limit, "limit", 1, 1_000_000_000)
        wanted, filter = validation.detail(detail), self._filter(filters, include_superseded=include_superseded)
        self._recorder.settle()
        found = self._store.list_page(filter, limit=limit, cursor=cursor, deleted=deleted)
        return Page(tuple(self._shown(memory, wanted, filter.as_of) for memory in found), found.cursor)

    def timeline(
        self,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        anchor: str | None = None,
        before: int = 5,
        after: int = 5,
        query: str | None = None,
        project: str | Sequence[str] | None = None,
        as_of: Moment | None = None,
        limit: int = 1000,
        detail: str = "index",
    ) -> Timeline:
        """
        What happened, in order: between two times, around a memory (`anchor`), or around the best match of a query.

        `end` is included, to its last moment: `end="2026-03"` takes in all of March. Around a memory, the nearest on
        both sides come from its own project, unless another is asked for.
        """
        validation.whole_number(limit, "limit", 1, 1_000_000)
        for count, what in ((before, "before"), (after, "after")):
            validation.whole_number(count, what, 0, 10_000)
        wanted = validation.detail(detail)
        filter = self._filter({"project": project, "as_of": as_of})
        if start is not None:
            filter = replace(filter, since=validation.moment(start, "start"))
        if end is not None:
            filter = replace(filter, until=validation.end(end, "end"))
        self._recorder.settle()
        if anchor is not None and query is not None:
            raise InvalidInput("a timeline has one middle: give anchor or query, not both")
        if query is not None:
            best = self.search(
                query, limit=1, project=project, since=filter.since, until=filter.until, as_of=as_of, record="off"
            )
            if not best:
                return Timeline((), None, ())
            anchor = best[0].memory.id
        if anchor is None:
            memories, middle = self._store.list_between(filter, limit), None
        else:
            memory = self._one(given_id(anchor), filter.as_of)
            if project is None and memory.project is not None:
                filter = replace(filter, project=(memory.project,))
            memories, middle = self._store.list_around(memory.id, filter, before=before, after=after), memory.id
        touched = dict.fromkeys(memory.session.id for memory in memories if memory.session)
        sessions = self._store.sessions.list_by_ids(list(touched)) if touched else ()
        shown = tuple(self._shown(memory, wanted, filter.as_of) for memory in memories)
        return Timeline(shown, middle, tuple(sessions))


def _keys(gathered: Candidates) -> builtins.list[int]:
    return [candidate.key for candidate in gathered.candidates]


def _recall(asked: _Asked, results: Results) -> Recall:
    memories = (
        RecalledMemory(hit.memory.id, place, hit.score, hit.relevance, tuple(fact.id for fact in hit.facts))
        for place, hit in enumerate(results, 1)
        if not isinstance(hit, DocumentHit)
    )
    return Recall(
        new_id(),
        asked.query,
        datetime.now(UTC),
        asked.mode,
        results.profile,
        results.lens,
        asked.session,
        tuple(memories),
    )


def _plan(query: Query, found: LegResults, legs_seconds: float, rank_seconds: float) -> dict[str, Any]:
    return {
        "terms": [term.text + "*" * term.prefix for term in query.terms],
        "left_out": [term.text for term in query.spare],
        "keyword_candidates": len(found.keyword),
        "vector_candidates": len(found.vector),
        "legs_ms": round(legs_seconds * 1000, 3),
        "ranking_ms": round(rank_seconds * 1000, 3),
    }
