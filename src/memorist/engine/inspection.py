"""A memory for a person who looks at it: pages, surroundings, growth, what other processes write, what to review."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memorist import validation
from memorist.documents import Document
from memorist.embed.onnx_models import OPTIONAL_MODELS
from memorist.engine.facade import Memorist
from memorist.errors import InvalidInput
from memorist.records import SUPERSEDES, Memory, Page, Related
from memorist.store.feed import KINDS
from memorist.store.records import Check
from memorist.validation import TimeLike
from memorist.views import (
    Change,
    ChunkPage,
    Comparison,
    DayCount,
    DocumentChunk,
    DocumentPage,
    Graph,
    GraphEdge,
    Growth,
    ModelInfo,
    RecallPage,
    SessionPage,
)

SIMILAR = "similar"  # the kind of an edge that was found, not stated
_MAX_PAGE = 1000
_MAX_COMPARED = 6  # profiles and lenses for one question
_MAX_NEIGHBOURS = 25  # of one memory in a graph
_MAX_GROWTH = timedelta(days=3660)


class Inspection:
    """Answers the questions of a page that shows a memory to people."""

    def __init__(self, memory: Memorist) -> None:
        self._memory = memory
        self._resources = memory._resources
        self._store = self._resources.store

    # Pages

    def list_sessions(
        self, project: str | None, active: bool | None, deleted: bool, limit: int, cursor: str | None
    ) -> SessionPage:
        count, cursor = validation.whole_number(limit, "limit", 1, _MAX_PAGE), _check_cursor(cursor)
        found = self._memory._sessions.list_sessions(project, active, count + 1, cursor, deleted=deleted)
        return SessionPage(tuple(found[:count]), _next_cursor(found, count, lambda session: session.id))

    def list_turns(self, session: str, limit: int, cursor: str | None) -> Page:
        """Return what was said in a session, in its order."""
        count = validation.whole_number(limit, "limit", 1, _MAX_PAGE)
        id = self._store.sessions.resolve_id(validation.session_id(session))
        found = self._store.inspection.list_turns(id, _parse_position(cursor, 0), count + 1)
        memories = tuple(self._resources.present(memory) for _, memory in found[:count])
        return Page(memories, _next_cursor(found, count, lambda turn: str(turn[0])))

    def list_projects(self, kind: str | None = None, under: str | None = None) -> list[str]:
        """Return the projects of all memories, or of one kind, sorted; those `under` a path, where they are paths."""
        return self._store.inspection.list_projects(self._resources.resolve_filter({"kind": kind}), under)

    def list_documents(self, project: str | None, limit: int, cursor: str | None) -> DocumentPage:
        count = validation.whole_number(limit, "limit", 1, _MAX_PAGE)
        found = self._memory._documents.list_documents(project, count + 1, _check_cursor(cursor))
        return DocumentPage(tuple(found[:count]), _next_cursor(found, count, lambda document: document.path))

    def document(self, id: str) -> Document:
        return self.find_document(self._store.inspection.find_document_path(validation.clean(id)))

    def find_document(self, path: str) -> Document:
        """Return an indexed file by its path, which is taken as it is written: it may come from another machine."""
        return self._memory._documents.get_stored(validation.clean(path))

    def unindex(self, path: str) -> int:
        """Remove a file, or all files of a folder, by its path as it is written."""
        return self._memory._documents.remove_stored({Path(path)})

    def list_chunks(self, document: str, limit: int, cursor: str | None) -> ChunkPage:
        """Return the chunks of an indexed file, in its order."""
        count = validation.whole_number(limit, "limit", 1, _MAX_PAGE)
        id = validation.clean(document)
        self._store.inspection.find_document_path(id)
        found = self._store.inspection.list_chunks(id, _parse_position(cursor, -1), count + 1)
        chunks = tuple(
            DocumentChunk(id, text, tuple(json.loads(breadcrumb)), first, last, ordinal)
            for id, text, breadcrumb, first, last, ordinal in found[:count]
        )
        return ChunkPage(chunks, _next_cursor(found, count, lambda row: str(row[-1])))

    def list_recalls(
        self, memory: str | None, session: str | None, since: TimeLike | None, limit: int, cursor: str | None
    ) -> RecallPage:
        count = validation.whole_number(limit, "limit", 1, _MAX_PAGE)
        before = _check_cursor(cursor)
        found = self._memory._recalls.list_recalls(memory, session, since, count + 1, before)
        return RecallPage(tuple(found[:count]), _next_cursor(found, count, lambda recall: recall.id))

    # Answers about more than one thing

    def compare(
        self, /, query: str, profiles: Sequence[str] = (), lenses: Sequence[str] = (), **options: Any
    ) -> Comparison:
        """Answer a question once for each profile and each lens."""
        if single := {"profile", "lens"}.intersection(options):
            raise InvalidInput(f"{min(single)} is no option of a comparison: name several in `profiles` or `lenses`")
        ways: list[dict[str, Any]] = [{"profile": name} for name in profiles] + [{"lens": name} for name in lenses]
        if not 2 <= len(ways) <= _MAX_COMPARED:
            raise InvalidInput(f"name 2 to {_MAX_COMPARED} profiles and lenses to compare, not {len(ways)}")
        return Comparison(tuple(self._memory.search(query, **way, **options) for way in ways))

    def graph(self, id: str, hops: int, limit: int) -> Graph:
        """Return the surroundings of a memory: what it is linked with or similar to, and what those are."""
        validation.whole_number(hops, "hops", 1, 2)
        validation.whole_number(limit, "limit", 1, _MAX_NEIGHBOURS)
        center = self._memory.get(id)
        memories, edges = {center.id: center}, dict[tuple[str, str, str], GraphEdge]()
        frontier = [center]
        for _ in range(hops):
            found = [one for memory in frontier for one in self._list_neighbours(memory, limit, edges)]
            frontier = [memory for memory in found if memory.id not in memories]
            memories |= {memory.id: memory for memory in frontier}
        return Graph(center.id, tuple(memories.values()), tuple(edges.values()))

    def _list_neighbours(
        self, memory: Memory, limit: int, edges: dict[tuple[str, str, str], GraphEdge]
    ) -> list[Memory]:
        found = []
        for other in self._memory.related(memory.id, limit):
            for edge in _edges_of(memory, other):
                if (edge.target, edge.source, SIMILAR) not in edges:  # it is similar from both sides
                    edges.setdefault((edge.source, edge.target, edge.kind), edge)
            found.append(other.memory)
        for old in self._memory.replaced(memory.id)[:limit]:
            edges[memory.id, old.id, SUPERSEDES] = GraphEdge(memory.id, old.id, SUPERSEDES, 1.0)
            found.append(old)
        if memory.superseded_by:
            for new in self._memory.get([memory.superseded_by.id]):
                edges[new.id, memory.id, SUPERSEDES] = GraphEdge(new.id, memory.id, SUPERSEDES, 1.0)
                found.append(new)
        return found

    def growth(self, since: TimeLike | None) -> Growth:
        """Count what happened on each day."""
        now = datetime.now(UTC)
        start = validation.moment_or_none(since, "since") or now - timedelta(days=365)
        start = max(start, now - _MAX_GROWTH)
        self._resources.recorder.settle()
        days = defaultdict[int, dict[str, int]](dict)
        for name, counts in self._store.inspection.count_by_day(start).items():
            for day, count in counts.items():
                days[day][name] = count
        return Growth(start, tuple(DayCount.of(day, days[day]) for day in sorted(days)))

    def list_models(self) -> list[ModelInfo]:
        """List the bundled model and the optional ones, and tell which one is in use."""
        active = self._resources.model.name or ""
        bundled = ModelInfo("bundled", "turns text into vectors", "Apache-2.0", True, active.startswith("local:"))
        optional = [
            ModelInfo(model.name, model.description, model.licence, model.find() is not None, model.name in active)
            for model in OPTIONAL_MODELS.values()
        ]
        return [bundled, *optional]

    # Changing what may have changed meanwhile

    def update(self, id: str, changes: Mapping[str, Any], check: Check | None) -> Memory:
        """Change a memory, unless `check` raises for what it is by then; nobody else writes in between."""
        session = changes.get("session")
        fields = {name: value for name, value in changes.items() if name != "session"}
        return self._memory._writer.update(id, session, fields, check)

    def forget(self, id: str, hard: bool, check: Check | None) -> None:
        """Forget a memory, unless `check` raises for what it is by then; nobody else writes in between."""
        self._memory._writer.forget(id, hard=hard, check=check)

    def purge(self, before: TimeLike | None, *, copies: bool) -> int:
        """Erase forgotten memories for good; `copies` of the whole file may have to stay, as others may need them."""
        return self._memory._writer.purge(before, copies=copies)

    # What any process has written

    def read_mark(self) -> str:
        """Return a mark that changes with everything that is written, and costs next to nothing."""
        return self._store.feed.read_mark()

    def read_position(self) -> str:
        """Return the position of the feed: what is written from now on comes after it."""
        return _format_position(self._store.feed.read_positions())

    def changes_since(self, position: str) -> Change:
        """Return what is new since a position of the feed, and the position after it."""
        after = _parse_positions(position)
        until = self._store.feed.read_positions(after)
        new = self._store.feed.list_new(after, until)
        return Change(_format_position(until), {kind: tuple(ids) for kind, ids in new.items()})


def _edges_of(memory: Memory, other: Related) -> list[GraphEdge]:
    if other.relation is None:
        return [GraphEdge(memory.id, other.memory.id, SIMILAR, max(0.0, min(1.0, other.similarity or 0.0)))]
    return [
        GraphEdge(relation.source, relation.target, relation.kind, relation.confidence)
        for relation in (other.relation, *other.further_relations)
    ]


def _next_cursor(found: Sequence[Any], count: int, key: Callable[[Any], str]) -> str | None:
    return key(found[count - 1]) if len(found) > count else None


def _check_cursor(cursor: str | None) -> str | None:
    return None if cursor is None else validation.required_name(cursor, "cursor")


def _parse_position(cursor: str | None, first: int) -> int:
    if cursor is None:
        return first
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 15:
        raise InvalidInput(f"{cursor[:60]!r} is not a cursor; use the one that the previous page gave")
    return int(cursor)


def _format_position(positions: Mapping[str, int]) -> str:
    return "-".join(str(positions[kind]) for kind in KINDS)


def _parse_positions(position: str) -> dict[str, int]:
    parts = position.split("-")
    if len(parts) != len(KINDS) or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise InvalidInput(f"{position[:60]!r} is not a position of the feed")
    return {kind: int(part) for kind, part in zip(KINDS, parts, strict=True)}
