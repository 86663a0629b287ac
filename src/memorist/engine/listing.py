"""Reading without ranking: memories by id, page by page, and along time."""

import builtins
from typing import Annotated, Unpack, overload

from msgspec.structs import replace

from memorist import validation
from memorist.arguments import MAX_PAGE, AsOf, Cursor, Detail, Filters, Limit, MemoryId, Names, QueryText, Time
from memorist.contract import names_unknown, operation
from memorist.engine.room import Room
from memorist.engine.search import Searcher
from memorist.errors import InvalidInput, NotFound
from memorist.records import Memories, Memory, Page, Timeline, Version
from memorist.schemas import Meta

_Ids = builtins.list[str] | tuple[str, ...]


class Listing(Room):
    """Lists memories as they are, or as they were at a time."""

    @overload
    def get(self, ids: str, *, as_of: AsOf | None = None) -> Memory: ...
    @overload
    def get(self, ids: _Ids, *, as_of: AsOf | None = None) -> Memories: ...
    @names_unknown
    def get(self, ids: str | _Ids, *, as_of: AsOf | None = None) -> Memory | Memories:
        """
        Return one memory by its id, or several in the order asked, naming those not found; `as_of` as they were.
        The id of a chunk of an indexed file gets that chunk.
        """
        if isinstance(ids, str):
            return self._get_one(ids, as_of=as_of)
        if not isinstance(ids, builtins.list | tuple):
            raise InvalidInput(f"get takes an id or a list of ids, not {type(ids).__name__}")
        found: builtins.list[Memory] = []
        missing: builtins.list[str] = []
        for start in range(0, len(ids), MAX_PAGE):
            some = self._get_several(ids[start : start + MAX_PAGE], as_of=as_of)
            found, missing = [*found, *some.memories], [*missing, *some.missing]
        return Memories(tuple(found), tuple(missing))

    @operation("GET /memories/{id}", one_project=True, called="get")
    def _get_one(self, id: MemoryId, *, as_of: AsOf | None = None) -> Memory:
        """Return a memory, or a chunk of an indexed file."""
        moment = validation.as_of(as_of)
        self._resources.recorder.settle(prompts=False)
        try:
            return self._resources.find_memory(id, moment)
        except NotFound:
            if chunk := self._resources.find_chunk(id, moment):
                return chunk
            raise

    @operation("POST /memories:get", reads=True, one_project=True, called="get_many")
    def _get_several(
        self,
        ids: Annotated[_Ids, Meta("Ids, or their last 6+ characters", max_items=MAX_PAGE)],
        *,
        as_of: AsOf | None = None,
    ) -> Memories:
        """Return memories by their ids, and the ids that were not found."""
        moment = validation.as_of(as_of)
        self._resources.recorder.settle(prompts=False)
        memories = self._store.find([validation.id_or_part(id) for id in ids], as_of=moment)
        found = [
            self._resources.present(memory, as_of=moment) if memory else self._resources.find_chunk(id, moment)
            for id, memory in zip(ids, memories, strict=True)
        ]
        return Memories(
            tuple(memory for memory in found if memory),
            tuple(id for id, memory in zip(ids, found, strict=True) if not memory),
        )

    @operation("GET /memories", one_project=True)
    def list(
        self,
        *,
        limit: Limit = 50,
        cursor: Cursor | None = None,
        deleted: Annotated[bool, Meta("List the forgotten ones")] = False,
        detail: Detail = "full",
        include_superseded: bool = True,
        **filters: Unpack[Filters],
    ) -> Page:
        """
        List memories, newest first, page by page; takes the filters of `search`. `deleted` lists the forgotten ones.
        Superseded memories are listed, too, marked by `valid_until` and `superseded_by`.
        """
        filter = self._resources.resolve_filter(filters, include_superseded=include_superseded)
        validation.whole_number(limit, "limit", 1, 1_000_000_000)
        detail = validation.detail(detail)
        self._resources.recorder.settle(prompts=False)
        page = self._store.list_page(filter, limit=limit, cursor=cursor, deleted=deleted)
        memories = tuple(self._resources.present(memory, detail, filter.as_of) for memory in page)
        return Page(memories, page.cursor)

    @operation("POST /memories:count", reads=True, one_project=True)
    def count(
        self,
        *,
        deleted: Annotated[bool, Meta("Count the forgotten ones")] = False,
        include_superseded: bool = True,
        **filters: Unpack[Filters],
    ) -> int:
        """Count memories; takes the filters of `search`. `deleted` counts the forgotten ones."""
        filter = self._resources.resolve_filter(filters, include_superseded=include_superseded)
        self._resources.recorder.settle(prompts=False)
        return self._store.count(filter, deleted=validation.flag(deleted, "deleted"))

    @operation("GET /timeline", one_project=True)
    def timeline(
        self,
        *,
        start: Annotated[Time | None, Meta("From this time on")] = None,
        end: Annotated[Time | None, Meta("Up to this time, including all of a day or month")] = None,
        anchor: Annotated[MemoryId | None, Meta("Around this memory")] = None,
        before: Annotated[int, Meta("How many before the one in the middle", minimum=0, maximum=10_000)] = 5,
        after: Annotated[int, Meta("How many after it", minimum=0, maximum=10_000)] = 5,
        query: Annotated[QueryText | None, Meta("Around the memory that matches this best")] = None,
        project: Annotated[Names | None, Meta("Only of this project")] = None,
        as_of: AsOf | None = None,
        limit: Annotated[int, Meta("How many between two times", minimum=1, maximum=10_000)] = 1000,
        detail: Detail = "index",
    ) -> Timeline:
        """
        List memories in the order they happened: between two times, around an `anchor`, or a query's best match.

        `end` is included to its last moment: `end="2026-03"` takes in all of March. Around a memory, the nearest on
        both sides come from its own project, unless another is asked for.
        """
        validation.whole_number(limit, "limit", 1, 1_000_000)
        for count, name in ((before, "before"), (after, "after")):
            validation.whole_number(count, name, 0, 10_000)
        detail = validation.detail(detail)
        filter = self._resources.resolve_filter({"project": project, "as_of": as_of})
        if start is not None:
            filter = replace(filter, since=validation.moment(start, "start"))
        if end is not None:
            filter = replace(filter, until=validation.end(end, "end"))
        self._resources.recorder.settle(prompts=False)
        if anchor is not None and query is not None:
            raise InvalidInput("a timeline has one middle: give anchor or query, not both")
        if query is not None:
            filters = dict(project=project, since=filter.since, until=filter.until, as_of=as_of)
            searcher = Searcher(self._resources)
            best = searcher.search(searcher.build_request(query, filters, {"limit": 1, "record": "off"}))
            if not best:
                return Timeline((), None, ())
            anchor = best[0].memory.id
        if anchor is None:
            memories, middle = self._store.list_between(filter, limit), None
        else:
            memory = self._resources.find_memory(anchor, filter.as_of)
            if project is None and memory.project is not None:
                filter = replace(filter, project=(memory.project,))
            memories, middle = self._store.list_around(memory.id, filter, before=before, after=after), memory.id
        session_ids = dict.fromkeys(memory.session.id for memory in memories if memory.session)
        sessions = self._store.sessions.list_by_ids(list(session_ids)) if session_ids else ()
        shown = tuple(self._resources.present(memory, detail, filter.as_of) for memory in memories)
        return Timeline(shown, middle, tuple(sessions))

    @operation("GET /memories/{id}/history")
    def history(self, id: MemoryId) -> builtins.list[Version]:
        """Return the versions of a memory before its updates, latest first."""
        return self._store.list_versions(validation.id_or_part(id))
