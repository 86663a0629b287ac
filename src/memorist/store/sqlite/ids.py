"""Finding a memory by its id, or by a beginning or ending that no other id in the namespace has."""

from collections.abc import Sequence
from typing import Any

import apsw

from memorist.errors import Ambiguous, Hint, NotFound
from memorist.records import Memory
from memorist.store.sqlite.connections import fetch
from memorist.store.sqlite.rows import memories_table, memory_columns, to_memory

MIN_ID_LENGTH = 6  # characters that name anything by a part of its id

# True of an id that begins or ends with `:id`. Of memories there are many: they are found by indexes instead.
HAS_ID_PART = "(substr({0}, 1, length(:id)) = :id or substr({0}, -length(:id)) = :id)"


def ambiguous_id(part: str, ids: Sequence[str]) -> Ambiguous:
    return Ambiguous(f"{part!r} could be {', '.join(ids[:5])}; give more characters of the id")


class MemoryIds:
    """Finds memories of one namespace. `deleted=None` finds live and forgotten ones; `as_of` is in microseconds."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def require(self, connection: apsw.Connection, id: str, *, deleted: bool | None = False) -> tuple[int, Memory]:
        """Return a memory and its key; a NotFound says if it was forgotten."""
        found = self.find(connection, id, deleted=deleted)
        if found:
            return found
        if deleted is not None and self.find(connection, id, deleted=not deleted):
            if deleted:
                raise NotFound(f"memory {id} is not forgotten")
            raise NotFound(f"memory {id} was forgotten; restore it first", hint=Hint("restore_memory", id))
        if len(id) < MIN_ID_LENGTH:
            raise NotFound(f"{id!r} is too short: give at least {MIN_ID_LENGTH} characters of an id")
        raise NotFound(f"no memory has the id {id!r}", hint=Hint("list_memories"))

    def require_key(self, connection: apsw.Connection, id: str) -> int:
        """Return the key of a live memory."""
        return self.require(connection, id)[0]

    def find(
        self,
        connection: apsw.Connection,
        id: str,
        *,
        deleted: bool | None = False,
        as_of: int | None = None,
        project: str | None = None,
    ) -> tuple[int, Memory] | None:
        """Return a memory and its key; with a `project`, ids of others are as good as none."""
        state = {None: "", False: "and m.deleted_at is null", True: "and m.deleted_at is not null"}[deleted]
        if project is not None:
            state += " and m.project = :project"
        select = f"""
            select m.rid, {memory_columns(past=as_of is not None)}
            from {memories_table(past=as_of is not None)}
            where m.namespace = :namespace {state}
        """
        values: dict[str, Any] = {"namespace": self.namespace, "id": id, "end": id + "\U0010ffff", "as_of": as_of}
        values["project"] = project
        rows = fetch(connection, f"{select} and m.id = :id", values)
        # A whole id stands for no other memory, even if the one that has it is forgotten or did not exist yet.
        if not rows and len(id) >= MIN_ID_LENGTH and not self._is_whole(connection, values):
            rows = fetch(
                connection,
                f"""
                {select} and m.id >= :id and m.id < :end
                union
                {select} and substr(m.id, -6) = substr(:id, -6) and substr(m.id, -length(:id)) = :id
                limit 5
                """,
                values,
            )
        if len(rows) > 1:
            raise ambiguous_id(id, [row[1] for row in rows])
        return (rows[0][0], to_memory(rows[0][1:])) if rows else None

    def _is_whole(self, connection: apsw.Connection, values: dict[str, Any]) -> bool:
        sql = """
            select 1 from memories
            where namespace = :namespace and id = :id and (:project is null or project = :project)
        """
        return bool(fetch(connection, sql, values))
