"""Review: a memory for a person who looks at it. What to look at is found a window at a time, so that it is quick."""

import builtins
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from memorist import validation
from memorist.arguments import (
    MAX_COMPARED,
    MAX_NEIGHBOURS,
    MAX_PAGE,
    ComparedOptions,
    Cursor,
    Filters,
    Limit,
    ProfileName,
    QueryText,
    Time,
)
from memorist.contract import local_only, operation
from memorist.engine.room import Room, parse_position
from memorist.errors import InvalidInput, NotFound
from memorist.ingest.vectorizer import Progress
from memorist.records import SUPERSEDES, Memory, Related
from memorist.redact import redact
from memorist.schemas import Meta
from memorist.search.contradictions import find_differences
from memorist.search.duplicates import DUPLICATE_THRESHOLD, find_near_duplicates, jaccard, word_set
from memorist.search.signals import with_effective_confidence
from memorist.text.tokenizer import list_stems
from memorist.views import (
    REVIEW_KINDS,
    Comparison,
    DayCount,
    Graph,
    GraphEdge,
    Growth,
    ReviewItem,
    ReviewPage,
)

if TYPE_CHECKING:
    from memorist.contract import Transport
    from memorist.engine.memory import Memorist
    from memorist.engine.resources import Resources

SIMILAR = "similar"  # the kind of an edge that was found, not stated
DISTINCT = "distinct"  # the relation of two memories that a person has said to be both right
NEAR_IN_MEANING = 0.75  # cosine similarity from which two texts are about the same
STALE_CONFIDENCE = 0.5  # below it, a fact is more likely outdated than not
UNUSED_DAYS = 30
_WINDOW = 100  # memories whose neighbours are looked up for one page, if there is time for so many
_WINDOW_SECONDS = 3.0  # after which a page ends where it is
_SCANNED = 500  # memories or facts that are read for one page
_NEIGHBOURS = 5
_MAX_TEXT = 5000  # characters of a text that is compared
_MAX_GROWTH = timedelta(days=3660)
_PROGRESS_STEP = 1000  # memories


class Review(Room):
    """
    Shows a memory to a person: its duplicates, contradictions, faded facts, memories that nobody recalled, and secrets;
    the surroundings of one memory, the growth of all, and the answers of several profiles to one question.
    """

    _name = "review"

    def __init__(self, memory: "Memorist", backend: "Resources | Transport") -> None:
        super().__init__(backend)
        self._memory = memory
        self.seconds = _WINDOW_SECONDS

    @operation("GET /review")
    def list(
        self,
        kind: Annotated[str, Meta(enum=REVIEW_KINDS)],
        *,
        limit: Limit = 50,
        cursor: Cursor | None = None,
        project: str | None = None,
    ) -> ReviewPage:
        """Return what a person should look at, of one kind, from the newest memories on, page by page."""
        validation.choice(kind, REVIEW_KINDS, "kind")
        validation.whole_number(limit, "limit", 1, MAX_PAGE)
        if kind == "stale_facts":
            return self._find_stale_facts(cursor, project)
        if kind == "never_recalled":
            until = datetime.now(UTC) - timedelta(days=UNUSED_DAYS)
            page = self._memory.list(
                limit=limit, cursor=cursor, recalled=False, pinned=False, until=until, include_superseded=False,
                project=project,
            )  # fmt: skip
            return ReviewPage(tuple(ReviewItem(kind, (memory,)) for memory in page), len(page), page.cursor)
        if kind == "secrets":
            return ReviewPage(*self._look_at_each(self._find_secrets, _SCANNED, cursor, project))
        return self._list_pairs(kind, cursor, project)

    @operation("GET /duplicates", slow=True)
    def duplicates(
        self,
        *,
        threshold: Annotated[
            float, Meta("The share of words that two have in common", minimum=0.1, maximum=1)
        ] = DUPLICATE_THRESHOLD,
        progress: Progress | None = None,
        **filters: Unpack[Filters],
    ) -> builtins.list[tuple[Memory, ...]]:
        """Return groups of memories of one project that say almost the same, oldest first; filters as in `list`."""
        validation.number(threshold, "threshold", 0.1, 1)
        ids: builtins.list[str] = []
        by_project: dict[str | None, builtins.list[tuple[int, frozenset[str]]]] = {}
        filter = self._resources.resolve_filter(filters, include_superseded=False)
        for id, project, text in self._store.iter_texts(filter):
            by_project.setdefault(project, []).append((len(ids), word_set(text)))
            ids.append(id)
            if progress and len(ids) % _PROGRESS_STEP == 0:
                progress(len(ids))
        groups = sorted(group for texts in by_project.values() for group in find_near_duplicates(texts, threshold))
        found = (self._store.find([ids[number] for number in group]) for group in groups)
        return [tuple(self._resources.present(memory) for memory in group if memory) for group in found]

    @operation("POST /memories/{keep}/merge")
    def merge(self, keep: str, others: Annotated[Sequence[str], Meta(min_items=1, max_items=MAX_PAGE)]) -> Memory:
        """Let one memory supersede others that say the same, taking over tags, facts and pins; can be undone."""
        if not isinstance(others, builtins.list | tuple) or not others:
            raise InvalidInput("merge takes the id that stays, and a list of ids that go")
        merged = [validation.id_or_part(id) for id in others]
        return self._resources.present(self._store.merge(validation.id_or_part(keep), merged, datetime.now(UTC)))

    @operation("POST /compare", reads=True, nested="options")
    def compare(
        self,
        query: QueryText,
        *,
        profiles: Annotated[Sequence[ProfileName], Meta(max_items=MAX_COMPARED)] = (),
        lenses: Annotated[Sequence[str], Meta(max_items=MAX_COMPARED)] = (),
        **options: Unpack[ComparedOptions],
    ) -> Comparison:
        """Answer a question once for each of several profiles and lenses; takes the arguments of `search`."""
        if single := {"profile", "lens"}.intersection(options):
            raise InvalidInput(f"{min(single)} is no option of a comparison: name several in `profiles` or `lenses`")
        ways: builtins.list[dict[str, Any]] = [{"profile": name} for name in profiles]
        ways += [{"lens": name} for name in lenses]
        if not 2 <= len(ways) <= MAX_COMPARED:
            raise InvalidInput(f"name 2 to {MAX_COMPARED} profiles and lenses to compare, not {len(ways)}")
        return Comparison(tuple(self._memory.search(query, **way, **options) for way in ways))

    @operation("GET /graph")
    def graph(
        self,
        memory: str,
        *,
        hops: Annotated[int, Meta(minimum=1, maximum=2)] = 2,
        limit: Annotated[int, Meta(minimum=1, maximum=MAX_NEIGHBOURS)] = 8,
    ) -> Graph:
        """Return the surroundings of a memory: what it is linked with or similar to, and what those are."""
        validation.whole_number(hops, "hops", 1, 2)
        validation.whole_number(limit, "limit", 1, MAX_NEIGHBOURS)
        center = self._memory.get(memory)
        memories, edges = {center.id: center}, dict[tuple[str, str, str], GraphEdge]()
        frontier = [center]
        for _ in range(hops):
            found = [one for memory in frontier for one in self._list_neighbours(memory, limit, edges)]
            frontier = [memory for memory in found if memory.id not in memories]
            memories |= {memory.id: memory for memory in frontier}
        return Graph(center.id, tuple(memories.values()), tuple(edges.values()))

    @operation("GET /growth")
    def growth(self, *, since: Time | None = None) -> Growth:
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

    @local_only("reads all of the database: count `facets` by project instead")
    def projects(self, kind: str | None = None, under: str | None = None) -> builtins.list[str]:
        """Return the projects of all memories, or of one kind, sorted; those `under` a path, where they are paths."""
        return self._store.inspection.list_projects(self._resources.resolve_filter({"kind": kind}), under)

    def _list_neighbours(
        self, memory: Memory, limit: int, edges: dict[tuple[str, str, str], GraphEdge]
    ) -> builtins.list[Memory]:
        found = []
        for other in self._memory.related(memory.id, limit):
            for edge in _edges_of(memory, other):
                if (edge.target, edge.source, SIMILAR) not in edges:  # it is similar from both sides
                    edges.setdefault((edge.source, edge.target, edge.kind), edge)
            found.append(other.memory)
        for old in self._memory.links.replaced(memory.id)[:limit]:
            edges[memory.id, old.id, SUPERSEDES] = GraphEdge(memory.id, old.id, SUPERSEDES, 1.0)
            found.append(old)
        if memory.superseded_by:
            for new in self._memory.get([memory.superseded_by.id]):
                edges[new.id, memory.id, SUPERSEDES] = GraphEdge(new.id, memory.id, SUPERSEDES, 1.0)
                found.append(new)
        return found

    def _look_at_each(
        self, find: Callable[[Memory], Iterable[ReviewItem]], most: int, cursor: str | None, project: str | None
    ) -> tuple[tuple[ReviewItem, ...], int, str | None]:
        """Return the items of one memory after another, as long as there is time; of the first in any case."""
        end, looked_at, items = time.monotonic() + self.seconds, 0, builtins.list[ReviewItem]()
        while True:
            # One at a time, so that the cursor after it is exact; to find its items costs far more.
            page = self._memory.list(limit=1, cursor=cursor, include_superseded=False, project=project)
            for memory in page:
                items += find(memory)
            looked_at, cursor = looked_at + len(page), page.cursor
            if cursor is None or looked_at == most or time.monotonic() >= end:
                return tuple(items), looked_at, cursor

    def _list_pairs(self, kind: str, cursor: str | None, project: str | None) -> ReviewPage:
        find = partial(self._find_pairs, kind)
        items, looked_at, cursor = self._look_at_each(find, _WINDOW, cursor, project)
        settled = self._store.inspection.list_linked_pairs(DISTINCT, [item.memories[0].id for item in items])
        open_items = (item for item in items if not settled & set(permutations(one.id for one in item.memories)))
        return ReviewPage(tuple(open_items), looked_at, cursor)

    def _find_pairs(self, kind: str, memory: Memory) -> Iterator[ReviewItem]:
        """Yield pairs of a memory and an older one that say almost the same, or the same differently."""
        try:
            related = self._memory.related(memory.id, _NEIGHBOURS)
        except NotFound:  # somebody has forgotten it meanwhile
            return
        for other in related:
            older, similarity = other.memory, other.similarity
            is_older = (older.created_at, older.id) < (memory.created_at, memory.id)
            if is_older and older.project == memory.project and (item := _compare(kind, memory, older, similarity)):
                yield item

    def _find_secrets(self, memory: Memory) -> Iterator[ReviewItem]:
        _, found = redact(memory.content, self._resources.redaction.allow)
        if found:
            reasons = tuple(f"{secret.kind}, line {secret.line}" for secret in found)
            yield ReviewItem("secrets", (memory,), reasons)

    def _find_stale_facts(self, cursor: str | None, project: str | None) -> ReviewPage:
        offset = parse_position(cursor, 0)
        facts = self._store.inspection.list_facts(validation.name(project, "project"), offset, _SCANNED)
        effective = with_effective_confidence(facts, self._resources.profile.fact_decay, datetime.now(UTC))
        faded = sorted((fact for fact in effective if fact.effective < STALE_CONFIDENCE), key=lambda it: it.effective)
        memories = {memory.id: memory for memory in self._memory.get([fact.memory_id for fact in faded])}
        items = (
            ReviewItem("stale_facts", (memories[fact.memory_id],), fact=fact)
            for fact in faded
            if fact.memory_id in memories
        )
        return ReviewPage(tuple(items), len(facts), str(offset + _SCANNED) if len(facts) == _SCANNED else None)


def _edges_of(memory: Memory, other: Related) -> list[GraphEdge]:
    if other.relation is None:
        return [GraphEdge(memory.id, other.memory.id, SIMILAR, max(0.0, min(1.0, other.similarity or 0.0)))]
    return [
        GraphEdge(relation.source, relation.target, relation.kind, relation.confidence)
        for relation in (other.relation, *other.further_relations)
    ]


def _compare(kind: str, memory: Memory, older: Memory, similarity: float | None) -> ReviewItem | None:
    """Return a pair as an item if it is of a kind: almost the same words, or near in meaning and different."""
    first, second = memory.content[:_MAX_TEXT], older.content[:_MAX_TEXT]
    shared = jaccard(frozenset(list_stems(first)), frozenset(list_stems(second)))
    differences = find_differences(first, second)
    if kind == "duplicates":
        if shared < DUPLICATE_THRESHOLD or differences:
            return None
        return ReviewItem(kind, (memory, older), (f"{shared:.0%} of the words in common",), shared)
    nearness = max(similarity or 0.0, shared)
    if not differences or nearness < NEAR_IN_MEANING:
        return None
    return ReviewItem(kind, (memory, older), differences, nearness)
