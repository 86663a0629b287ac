"""
Full pages of what passes a framework's own filter exactly.

Frameworks differ in what their filters mean for lists, nulls and missing fields. So a memory's filter narrows the rows
down to those that may pass, and the framework's own rule decides. Pages are read until enough have passed.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from memorist.engine import Memorist
from memorist.records import Hit, Memory
from memorist.validation import MAX_LIMIT

T = TypeVar("T")

# Frameworks ask for the nearest, however far away they are.
NEAREST: Mapping[str, Any] = {"noise_floor": False}
_ROWS_AT_ONCE = 1000
_SPARE_HITS = 10  # asked for beyond the page, in case some do not pass


def list_exact(
    memory: Memorist, passes: Callable[[Memory], bool], count: int | None = None, **filters: Any
) -> list[Memory]:
    """Return the newest memories that pass: `count` of them, or all."""
    found: list[Memory] = []
    cursor: str | None = None
    while count is None or len(found) < count:
        limit = _ROWS_AT_ONCE if count is None else min(count, _ROWS_AT_ONCE)
        page = memory.list(limit=limit, cursor=cursor, **filters)
        found += filter(passes, page)
        cursor = page.cursor
        if cursor is None:
            break
    return found[:count]


def search_exact(
    memory: Memorist, query: str, select: Callable[[Sequence[Hit]], dict[str, T]], count: int, **options: Any
) -> dict[str, T]:
    """Return the first `count` of what is selected of the hits; a search looks at no more than 1000 of them."""
    selected: dict[str, T] = {}
    for limit in (min(count + _SPARE_HITS, MAX_LIMIT), MAX_LIMIT):
        hits = memory.search(query, limit=limit, **NEAREST, **options)
        selected = select(hits)
        if len(selected) >= count or len(hits) < limit:
            break
    return dict(islice(selected.items(), count))
