"""Review: what a person should look at, found a window of memories at a time so that every answer is quick."""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import permutations

from memorist import validation
from memorist.engine.facade import Memorist
from memorist.engine.relations import DUPLICATE_THRESHOLD
from memorist.errors import InvalidInput, NotFound
from memorist.records import Memory
from memorist.redact import redact
from memorist.search.contradictions import find_differences
from memorist.search.duplicates import jaccard
from memorist.search.signals import with_effective_confidence
from memorist.text.tokenizer import list_stems
from memorist.views import REVIEW_KINDS, ReviewItem, ReviewPage

DISTINCT = "distinct"  # the relation of two memories that a person has said to be both right
NEAR_IN_MEANING = 0.75  # cosine similarity from which two texts are about the same
STALE_CONFIDENCE = 0.5  # below it, a fact is more likely outdated than not
UNUSED_DAYS = 30
_WINDOW = 100  # memories whose neighbours are looked up for one page, if there is time for so many
_WINDOW_SECONDS = 3.0  # after which a page ends where it is
_SCANNED = 500  # memories or facts that are read for one page
_NEIGHBOURS = 5
_MAX_TEXT = 5000  # characters of a text that is compared
_MAX_PAGE = 1000


class Review:
    """Finds near duplicates, contradictions, faded facts, memories that nobody recalled, and secrets."""

    def __init__(self, memory: Memorist, seconds: float = _WINDOW_SECONDS) -> None:
        self._memory = memory
        self._seconds = seconds
        self._resources = memory._resources
        self._store = self._resources.store

    def list_items(self, kind: str, limit: int, cursor: str | None, project: str | None) -> ReviewPage:
        """Return items of one kind from the newest memories on; with a cursor, from where the last page ended."""
        validation.choice(kind, REVIEW_KINDS, "kind")
        validation.whole_number(limit, "limit", 1, _MAX_PAGE)
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

    def _look_at_each(
        self, find: Callable[[Memory], Iterable[ReviewItem]], most: int, cursor: str | None, project: str | None
    ) -> tuple[tuple[ReviewItem, ...], int, str | None]:
        """Return the items of one memory after another, as long as there is time; of the first in any case."""
        end, looked_at, items = time.monotonic() + self._seconds, 0, list[ReviewItem]()
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
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 12):
            raise InvalidInput(f"{cursor[:60]!r} is not a cursor; use the one that the previous page gave")
        offset = int(cursor or 0)
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
