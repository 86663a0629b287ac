"""Finding: memories by word and by meaning, counted by their fields, and words spelt as memories have them."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Annotated, Any, Unpack

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
)
from memorist.contract import operation
from memorist.engine.room import Room
from memorist.engine.search import Searcher
from memorist.errors import InvalidInput
from memorist.profiles.profile import ProfileOptions
from memorist.records import FACETS, Results
from memorist.schemas import Meta

_FILTERS = frozenset(Filters.__annotations__)


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
        filters, others = split_options(options)
        refuse_unknown(others, Finding.search)
        request = searcher.build_request(
            query, filters, {**others, "limit": limit, "record": record}, mode=mode, profile=profile, lens=lens,
            record_session=record_session, include_superseded=include_superseded, now=now, detail=detail,
            include_facts=include_facts, include_documents=include_documents, offset=offset,
        )  # fmt: skip
        return searcher.search(request, facets, explain)

    @operation("GET /suggest", answer="suggestion")
    def suggest(self, query: QueryText) -> str | None:
        """Return the query with misspelt words corrected by those of the memories; None where all are known."""
        return Searcher(self._resources).suggest(query)

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
        searcher = Searcher(self._resources)
        return searcher.facets(query, fields, include_superseded=include_superseded, filters=filters)


def refuse_unknown(options: Mapping[str, Any], search: Callable[..., Any]) -> None:
    """Refuse an option that a search does not have; its signature tells which it has."""
    for name in options:
        if name not in ProfileOptions.__annotations__:
            named = signature(search).parameters.values()
            arguments = [one.name for one in named if one.kind is one.KEYWORD_ONLY]
            raise InvalidInput(f"a search has no option {name!r}; it has: {', '.join(arguments)}")


def split_options(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the filters among the options of a search, and the options of its profile."""
    filters = {name: value for name, value in given.items() if name in _FILTERS}
    return filters, {name: value for name, value in given.items() if name not in _FILTERS}
