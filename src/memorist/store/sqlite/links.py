"""What memories have to do with each other: which replaced which, and every other relation."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw

from memorist.errors import InvalidInput, NotFound
from memorist.records import SUPERSEDES, Memory, Related, Relation
from memorist.store.sqlite.connections import ConnectionPool, fetch, value
from memorist.store.sqlite.filters import from_micros, to_micros
from memorist.store.sqlite.ids import MemoryIds
from memorist.store.sqlite.rows import columns, held, memory_of, source


class SqliteLinks:
    """Relations between the memories of one namespace."""

    def __init__(self, pool: ConnectionPool, ids: MemoryIds) -> None:
        self._pool, self._ids = pool, ids

    def supersede(self, old: str, new: str, at: datetime | None, said_by: str | None, now: datetime) -> Memory:
        """
        Let one memory replace another from a time on.

        The time is now; where the new memory tells of something past, it is the time of that.
        """
        with self._pool.writing() as connection:
            before = self._ids.require(connection, old)
            replace_by(connection, before, self._ids.require(connection, new), at, said_by, now)
            return self._ids.require(connection, before[1].id)[1]

    def unsupersede(self, old: str, now: datetime) -> Memory:
        with self._pool.writing() as connection:
            rid, memory = self._ids.require(connection, old)
            if not revive(connection, rid, to_micros(now)):
                raise InvalidInput(f"memory {memory.short_id} is not superseded: there is nothing to undo")
            return self._ids.require(connection, memory.id)[1]

    def relate(
        self, source: str, target: str, kind: str, confidence: float, said_by: str | None, now: datetime
    ) -> Relation:
        """Say something of two memories; said again, the new confidence holds from now on."""
        with self._pool.writing() as connection:
            one, first = self._ids.require(connection, source)
            other, second = self._ids.require(connection, target)
            if one == other:
                raise InvalidInput(f"memory {first.short_id} cannot be related to itself")
            connection.execute(_END, (to_micros(now), one, other, kind))
            connection.execute(_RELATE, (one, other, kind, confidence, said_by, to_micros(now)))
            return Relation(first.id, second.id, kind, confidence, said_by, now)

    def unrelate(self, source: str, target: str, kind: str, now: datetime) -> None:
        with self._pool.writing() as connection:
            one, first = self._ids.require(connection, source)
            other, second = self._ids.require(connection, target)
            connection.execute(_END, (to_micros(now), one, other, kind))
            if not connection.changes():
                raise NotFound(f"nobody said {first.short_id} {kind} {second.short_id}; there is nothing to take back")

    def linked(self, id: str, limit: int, as_of: datetime | None) -> list[Related]:
        """Live memories that relations lead to or come from, the surest first; superseded ones are left out."""
        then = as_of is not None
        with self._pool.reading() as connection:
            rid, memory = self._ids.require(connection, id)
            rows = fetch(
                connection,
                f"""
                select r.source = :rid, r.kind, r.confidence, r.said_by, r.valid_from, r.valid_until,
                    {columns(then=then)}
                from (
                    select * from relations where source = :rid
                    union all
                    select * from relations where target = :rid) r
                cross join {source(then=then)} on m.rid = iif(r.source = :rid, r.target, r.source)
                where r.kind <> '{SUPERSEDES}' and {held("r", then)} and m.deleted_at is null and m.valid_until is null
                order by r.confidence desc, r.relation desc
                limit :limit
                """,
                {"rid": rid, "limit": limit, "as_of": to_micros(as_of) if as_of else None},
            )
        return [_related(memory.id, row) for row in rows]

    def replaced(self, id: str) -> list[Memory]:
        """The live memories that this one has replaced, and nothing in between."""
        with self._pool.reading() as connection:
            rid, _ = self._ids.require(connection, id)
            rows = fetch(
                connection,
                f"""
                select {columns()}
                from relations r
                cross join memories m on m.rid = r.target
                where r.source = ? and r.kind = '{SUPERSEDES}' and r.valid_until is null and m.deleted_at is null
                order by r.relation
                """,
                (rid,),
            )
        return [memory_of(row) for row in rows]


Keyed = tuple[int, Memory]


def replace_by(
    connection: apsw.Connection, old: Keyed, new: Keyed, at: datetime | None, said_by: str | None, now: datetime
) -> None:
    """Let one memory replace another; nothing happens where it does so already."""
    (old_key, before), (new_key, after) = old, new
    if old_key == new_key:
        raise InvalidInput(f"memory {before.short_id} cannot replace itself")
    successor = value(connection, f"select id, rid from memories where rid = ({_SUCCESSOR})", (old_key,))
    if successor is not None and successor[1] == new_key:
        return
    if successor is not None:
        raise InvalidInput(
            f"memory {before.short_id} is superseded already, by {successor[0][-8:]}; supersede that one, "
            f"or undo it first: `memorist supersede --undo {before.short_id}`"
        )
    if leads_to(connection, new_key, old_key):
        raise InvalidInput(
            f"memory {before.short_id} has itself replaced {after.short_id}: it cannot be replaced by it"
        )
    undone = value(connection, _LAST_UNDONE, {"old": old_key, "new": new_key})
    earliest = None if undone is None else from_micros(undone)
    since = to_micros(_since(before, after, at, now, earliest))
    connection.execute(_RELATE, (new_key, old_key, SUPERSEDES, 1.0, said_by, since))


def leads_to(connection: apsw.Connection, key: int, other: int) -> bool:
    """Whether a memory was, by way of whatever replaced it, replaced by another one, or is that one."""
    return bool(value(connection, _LEADS_TO, {"from": key, "to": other}))


def revive(connection: apsw.Connection, rid: int, now: int) -> bool:
    """Let a memory hold again from now on; False where it holds."""
    connection.execute(
        f"update relations set valid_until = ? where target = ? and kind = '{SUPERSEDES}' and valid_until is null",
        (now, rid),
    )
    return bool(connection.changes())


def splice(connection: apsw.Connection, rid: int) -> None:
    """Before a memory is erased: what it had replaced is replaced by what replaced it, from that time on."""
    connection.execute(
        f"""
        update relations
        set source = up.source, valid_from = max(relations.valid_from, up.valid_from)
        from (
            select source, valid_from from relations
            where target = :rid and kind = '{SUPERSEDES}' and valid_until is null) up
        where relations.source = :rid and relations.kind = '{SUPERSEDES}' and relations.valid_until is null
        """,
        {"rid": rid},
    )


_RELATE = """
    insert into relations(source, target, kind, confidence, said_by, valid_from)
    values (?, ?, ?, ?, ?, ?)
"""
_END = """
    update relations
    set valid_until = ?
    where source = ? and target = ? and kind = ? and valid_until is null
"""
_SUCCESSOR = f"select source from relations where target = ? and kind = '{SUPERSEDES}' and valid_until is null"
# Until then one of all that ever replaced one another, with these two among them, was replaced otherwise. What is said
# of the same time now could make a circle of it.
_LAST_UNDONE = f"""
    with recursive family(rid) as (
        values (:old), (:new)
        union
        select r.source
        from family f cross join relations r indexed by relations_by_target on r.target = f.rid
        where r.kind = '{SUPERSEDES}'
        union
        select r.target
        from family f cross join relations r indexed by relations_by_source on r.source = f.rid
        where r.kind = '{SUPERSEDES}')
    select max(r.valid_until)
    from family f cross join relations r indexed by relations_by_target on r.target = f.rid
    where r.kind = '{SUPERSEDES}'
"""
_LEADS_TO = f"""
    with recursive later(rid) as (
        select :from
        union
        select r.source
        from later l cross join relations r indexed by relations_by_target on r.target = l.rid
        where r.kind = '{SUPERSEDES}' and r.valid_until is null)
    select 1 from later where rid = :to
"""


def _since(before: Memory, after: Memory, at: datetime | None, now: datetime, undone: datetime | None) -> datetime:
    began = min(before.created_at, before.recorded_at)
    if at is not None:
        if at > now:
            raise InvalidInput(f"{at:%Y-%m-%d %H:%M} UTC lies ahead; a memory is replaced from now, or from before")
        if at < began:
            raise InvalidInput(
                f"memory {before.short_id} began on {began:%Y-%m-%d %H:%M} UTC; it cannot have ended before"
            )
        if undone is not None and at < undone:
            raise InvalidInput(
                f"until {undone:%Y-%m-%d %H:%M:%S} UTC it was said otherwise which of them is superseded; "
                "take a time after that"
            )
        return at
    past = after.created_at < after.recorded_at and after.created_at >= max(began, undone or began)
    return after.created_at if past else now


def _related(id: str, row: Sequence[Any]) -> Related:
    outward, kind, confidence, said_by, valid_from, valid_until = row[:6]
    memory = memory_of(row[6:])
    source, target = (id, memory.id) if outward else (memory.id, id)
    ends = None if valid_until is None else from_micros(valid_until)
    return Related(memory, Relation(source, target, kind, confidence, said_by, from_micros(valid_from), ends))
