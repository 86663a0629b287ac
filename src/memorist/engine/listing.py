"""Reading without ranking: memories by id, page by page, and along time."""

from collections.abc import Sequence
from dataclasses import replace

from memorist import validation
from memorist.engine.resources import Resources
from memorist.engine.search import Searcher
from memorist.errors import InvalidInput, NotFound
from memorist.records import Filter, Memories, Memory, Page, Timeline, Version
from memorist.validation import TimeLike


class Listing:
    """Lists memories as they are, or as they were at a time."""

    def __init__(self, resources: Resources, searcher: Searcher) -> None:
        self._resources = resources
        self._store = resources.store
        self._searcher = searcher

    def get(self, ids: object, as_of: TimeLike | None) -> Memory | Memories:
        moment = validation.as_of(as_of)
        self._resources.recorder.settle(prompts=False)
        if isinstance(ids, str):
            try:
                return self._resources.find_memory(ids, moment)
            except NotFound:
                if chunk := self._resources.find_chunk(ids, moment):
                    return chunk
                raise
        if not isinstance(ids, list | tuple):
            raise InvalidInput(f"get takes an id or a list of ids, not {type(ids).__name__}")
        memories = self._store.find([validation.id_or_part(id) for id in ids], as_of=moment)
        found = [
            self._resources.present(memory, as_of=moment) if memory else self._resources.find_chunk(id, moment)
            for id, memory in zip(ids, memories, strict=True)
        ]
        return Memories(
            tuple(memory for memory in found if memory),
            tuple(id for id, memory in zip(ids, found, strict=True) if not memory),
        )

    def list_memories(self, limit: int, cursor: str | None, deleted: bool, detail: str, filter: Filter) -> Page:
        validation.whole_number(limit, "limit", 1, 1_000_000_000)
        detail = validation.detail(detail)
        self._resources.recorder.settle(prompts=False)
        page = self._store.list_page(filter, limit=limit, cursor=cursor, deleted=deleted)
        memories = tuple(self._resources.present(memory, detail, filter.as_of) for memory in page)
        return Page(memories, page.cursor)

    def count(self, filter: Filter, deleted: bool) -> int:
        self._resources.recorder.settle(prompts=False)
        return self._store.count(filter, deleted=validation.flag(deleted, "deleted"))

    def timeline(
        self,
        *,
        start: TimeLike | None,
        end: TimeLike | None,
        anchor: str | None,
        before: int,
        after: int,
        query: str | None,
        project: str | Sequence[str] | None,
        as_of: TimeLike | None,
        limit: int,
        detail: str,
    ) -> Timeline:
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
            best = self._searcher.search(self._searcher.build_request(query, filters, {"limit": 1, "record": "off"}))
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

    def history(self, id: str) -> list[Version]:
        return self._store.list_versions(validation.id_or_part(id))
