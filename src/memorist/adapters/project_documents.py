"""
Documents of frameworks as memories of a project, and full pages of those that a framework's own filter lets pass.

An id that a caller chose is unique in a namespace, but frameworks choose ids within a store. So with a project, the id
of a memory is that of the document after the name of the project, in which slashes are quoted.

Frameworks differ in what their filters mean for lists, nulls and missing fields. So a memory's filter narrows the rows
down to those that may pass, and the framework's own rule decides. Pages are read until enough have passed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

from memorist import validation
from memorist.engine import Memorist
from memorist.errors import InvalidInput, NotFound
from memorist.ids import new_id
from memorist.records import Hit, Memory
from memorist.validation import MAX_LIMIT

T = TypeVar("T")

# Frameworks ask for the nearest, however far away they are.
NEAREST: Mapping[str, Any] = {"noise_floor": False}
_ROWS_AT_ONCE = 1000
_SPARE_HITS = 10  # asked for beyond the page, in case some do not pass


def quote_project(project: str) -> str:
    """Return the name of a project as the beginning of an id. No longer than it must be: ids have a limit."""
    return project.replace("%", "%25").replace("/", "%2F")


def check_project(project: str | None) -> str | None:
    """
    Return a project that a program chose, often after a user, or raise InvalidInput if it would be stored otherwise.

    Names are cleaned when they are stored, so that a user called "ada " would get the memories of "ada".
    """
    if (stored := validation.name(project, "project")) != project:
        raise InvalidInput(f"project {project!r} would be stored as {stored!r}: quote it, as two may become the same")
    return project


class ProjectDocuments:
    """The documents of a project, or of all projects, by the ids that a framework gave them."""

    def __init__(self, memory: Memorist, project: str | None) -> None:
        self.memory, self.project = memory, check_project(project)
        self._prefix = "" if project is None else f"{quote_project(project)}/"

    def write(self, documents: Iterable[tuple[str | None, Mapping[str, Any]]], if_exists: str = "update") -> list[str]:
        """Add documents, each an id and the fields of a memory; return their ids. Without an id, one is made."""
        written = self.memory.add_many(
            {
                **fields,
                "id": new_id() if id is None else self.memory_id(id),
                "if_exists": if_exists,
                "project": self.project,
            }
            for id, fields in documents
        )
        return [id.removeprefix(self._prefix) for id in written]

    def find(self, ids: Sequence[str]) -> list[Memory]:
        """Return the documents that are there, in the order of the ids. `get` would take parts of ids, too."""
        wanted = dict.fromkeys(name for id in ids for name in (self.memory_id(id), id))
        found = self.memory.get(list(wanted)) if wanted else ()
        return [memory for memory in found if memory.id in wanted and self.project in (None, memory.project)]

    def forget(self, ids: Sequence[str]) -> None:
        """Forget the documents that are there."""
        for memory in self.find(ids):
            with suppress(NotFound):  # another process may have been first
                self.memory.forget(memory.id)

    def memory_id(self, id: str) -> str:
        """Return the id of the memory that a document is, or would be."""
        return self._prefix + id

    def id_of(self, memory: Memory) -> str:
        return memory.id.removeprefix(self._prefix)


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
