"""Supersession and other relations between memories."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw

from memorist.errors import Hint, InvalidInput, NotFound
from memorist.records import SUPERSEDES, Memory, Related, Relation
from memorist.store.sqlite.connections import ConnectionPool, fetch, fetch_value
from memorist.store.sqlite.filters import from_micros, to_micros
from memorist.store.sqlite.rows import KeyedMemory, MemoryIds, memories_table, memory_columns, relation_holds, to_memory


class SqliteLinks:
    """Relations between the memories of one namespace."""

    def __init__(self, pool: ConnectionPool, ids: MemoryIds) -> None:
        self._pool, self._ids = pool, ids

    def supersede(self, old: str, new: str, at: datetime | None, said_by: str | None, now: datetime) -> Memory:
        """
        Let one memory supersede another from a time on.

        Without `at` that is now or, if the new memory tells of something past, the time of that.
        """
        with self._pool.writing() as connection:
            before = self._ids.require(connection, old)
            supersede(connection, before, self._ids.require(connection, new), at, said_by, now)
            return self._ids.require(connection, before[1].id)[1]

    def unsupersede(self, old: str, now: datetime) -> Memory:
        with self._pool.writing() as connection:
            rid, memory = self._ids.require(connection, old)
            if not unsupersede(connection, rid, to_micros(now)):
                raise InvalidInput(f"memory {memory.short_id} is not superseded; there is nothing to undo")
            return self._ids.require(connection, memory.id)[1]

    def relate(
        self, source: str, target: str, kind: str, confidence: float, said_by: str | None, now: datetime
    ) -> Relation:
        """Relate two memories; if they are related so already, the new confidence holds from now on."""
        with self._pool.writing() as connection:
            one, first = self._ids.require(connection, source)
            other, second = self._ids.require(connection, target)
            if one == other:
                raise InvalidInput(f"memory {first.short_id} cannot be related to itself")
            connection.execute(_END_RELATION, (to_micros(now), one, other, kind))
            connection.execute(_INSERT_RELATION, (one, other, kind, confidence, said_by, to_micros(now)))
            return Relation(first.id, second.id, kind, confidence, said_by, now)

    def unrelate(self, source: str, target: str, kind: str, now: datetime) -> None:
        with self._pool.writing() as connection:
            one, first = self._ids.require(connection, source)
            other, second = self._ids.require(connection, target)
            connection.execute(_END_RELATION, (to_micros(now), one, other, kind))
            if not connection.changes():
                raise NotFound(
                    f"there is no relation {first.short_id} {kind} {second.short_id}; there is nothing to take back"
                )

    def list_related(self, id: str, limit: int, as_of: datetime | None) -> list[Related]:
        """Return live memories related to one, the most certain first; superseded ones are left out."""
        past = as_of is not None
        with self._pool.reading() as connection:
            rid, memory = self._ids.require(connection, id)
            rows = fetch(
                connection,
                f"""
                select r.source = :rid, r.kind, r.confidence, r.said_by, r.valid_from, r.valid_until,
                    {memory_columns(past=past)}
                from (
                    select * from relations where source = :rid
                    union all
                    select * from relations where target = :rid) r
                cross join {memories_table(past=past)} on m.rid = iif(r.source = :rid, r.target, r.source)
                where r.kind <> '{SUPERSEDES}' and {relation_holds("r", past)}
                  and m.deleted_at is null and m.valid_until is null
                order by r.confidence desc, r.relation desc
                limit :limit
                """,
                {"rid": rid, "limit": limit, "as_of": to_micros(as_of) if as_of else None},
            )
        return [_to_related(memory.id, row) for row in rows]

    def list_superseded(self, id: str) -> list[Memory]:
        """Return the live memories that this one supersedes directly."""
        with self._pool.reading() as connection:
            rid, _ = self._ids.require(connection, id)
            rows = fetch(
                connection,
                f"""
                select {memory_columns()}
                from relations r
                cross join memories m on m.rid = r.target
                where r.source = ? and r.kind = '{SUPERSEDES}' and r.valid_until is null and m.deleted_at is null
                order by r.relation
                """,
                (rid,),
            )
        return [to_memory(row) for row in rows]


def supersede(
    connection: apsw.Connection,
    old: KeyedMemory,
    new: KeyedMemory,
    at: datetime | None,
    said_by: str | None,
    now: datetime,
) -> None:
    """Let one memory supersede another; nothing happens if it does so already."""
    (old_key, before), (new_key, after) = old, new
    if old_key == new_key:
        raise InvalidInput(f"memory {before.short_id} cannot supersede itself")
    successor = fetch_value(connection, f"select id, rid from memories where rid = ({_SUCCESSOR})", (old_key,))
    if successor is not None and successor[1] == new_key:
        return
    if successor is not None:
        raise InvalidInput(
            f"memory {before.short_id} is superseded already, by {successor[0][-8:]}; "
            "supersede that one, or undo it first",
            hint=Hint("unsupersede", before.short_id),
        )
    if is_superseded_by(connection, new_key, old_key):
        raise InvalidInput(
            f"memory {before.short_id} itself supersedes {after.short_id}: it cannot be superseded by it"
        )
    undone = fetch_value(connection, _LAST_UNDONE, {"old": old_key, "new": new_key})
    earliest = None if undone is None else from_micros(undone)
    since = to_micros(_valid_from(before, after, at, now, earliest))
    connection.execute(_INSERT_RELATION, (new_key, old_key, SUPERSEDES, 1.0, said_by, since))


def is_superseded_by(connection: apsw.Connection, key: int, other: int) -> bool:
    """Tell if a memory is superseded by another one, directly or through others, or is that one."""
    return bool(fetch_value(connection, _IS_SUPERSEDED_BY, {"from": key, "to": other}))


def unsupersede(connection: apsw.Connection, rid: int, now: int) -> bool:
    """Let a memory hold again from now on; return False if it was not superseded."""
    connection.execute(
        f"update relations set valid_until = ? where target = ? and kind = '{SUPERSEDES}' and valid_until is null",
        (now, rid),
    )
    return bool(connection.changes())


def bypass_erased(connection: apsw.Connection, rid: int) -> None:
    """Let the successor of a memory to be erased supersede, from that time on, the memories it superseded."""
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


_INSERT_RELATION = """
    insert into relations(source, target, kind, confidence, said_by, valid_from)
    values (?, ?, ?, ?, ?, ?)
"""
_END_RELATION = """
    update relations
    set valid_until = ?
    where source = ? and target = ? and kind = ? and valid_until is null
"""
_SUCCESSOR = f"select source from relations where target = ? and kind = '{SUPERSEDES}' and valid_until is null"
# The last time at which a supersession was undone among all memories that ever superseded one another, with these two
# among them. A new one from before that time could make a circle.
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
_IS_SUPERSEDED_BY = f"""
    with recursive later(rid) as (
        select :from
        union
        select r.source
        from later l cross join relations r indexed by relations_by_target on r.target = l.rid
        where r.kind = '{SUPERSEDES}' and r.valid_until is null)
    select 1 from later where rid = :to
"""


def _valid_from(before: Memory, after: Memory, at: datetime | None, now: datetime, undone: datetime | None) -> datetime:
    """Return the time from which a memory supersedes another."""
    began = min(before.created_at, before.recorded_at)
    if at is not None:
        if at > now:
            raise InvalidInput(f"{at:%Y-%m-%d %H:%M} UTC is in the future; give a time up to now")
        if at < began:
            raise InvalidInput(
                f"memory {before.short_id} began on {began:%Y-%m-%d %H:%M} UTC; it cannot have ended before that"
            )
        if undone is not None and at < undone:
            raise InvalidInput(
                f"until {undone:%Y-%m-%d %H:%M:%S} UTC another supersession held among these memories; "
                "give a time after that"
            )
        return at
    past = after.created_at < after.recorded_at and after.created_at >= max(began, undone or began)
    return after.created_at if past else now


def _to_related(id: str, row: Sequence[Any]) -> Related:
    outward, kind, confidence, said_by, valid_from, valid_until = row[:6]
    memory = to_memory(row[6:])
    source, target = (id, memory.id) if outward else (memory.id, id)
    ends = None if valid_until is None else from_micros(valid_until)
    return Related(memory, Relation(source, target, kind, confidence, said_by, from_micros(valid_from), ends))
