"""
Documents of frameworks as memories of a project.

An id that a caller chose is unique in a namespace, but frameworks choose ids within a store. So with a project, the id
of a memory is that of the document after the name of the project, in which slashes are quoted.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from memorist import validation
from memorist.engine import Memorist
from memorist.errors import InvalidInput, NotFound
from memorist.ids import new_id
from memorist.records import Memory


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
