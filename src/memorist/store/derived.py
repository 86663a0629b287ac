"""Checks of what follows from other rows, the same in both databases, and the repair of each."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from memorist.records import SUPERSEDES
from memorist.store.database import Connection
from memorist.store.documents import CHUNK_SUFFIX, chunk_namespace
from memorist.store.metadata_index import find_wrong_fields, rebuild_fields
from memorist.store.relations import index_facts


class Checked(Struct, frozen=True):
    """The rows that are checked: those of a namespace and of its files or, without one, all."""

    namespace: str | None = None

    @property
    def values(self) -> dict[str, str]:
        """The values of the conditions."""
        if self.namespace is None:
            return {}
        return {"own": self.namespace, "files": chunk_namespace(self.namespace)}

    def in_namespace(self, column: str = "namespace") -> str:
        """Return the condition that a column names the namespace."""
        return "1 = 1" if self.namespace is None else f"{column} in (:own, :files)"

    def of_memories(self, column: str = "rid") -> str:
        """Return the condition that a column is the key of a memory or chunk."""
        if self.namespace is None:
            return "1 = 1"
        return f"{column} in (select rid from memories where {self.in_namespace()})"


FindProblems = Callable[[Connection, Checked], Iterator[str]]
Fix = Callable[[Connection, Checked], None]
Select = Callable[[Checked], str]


def find_rows(select: Select, problem: str) -> FindProblems:
    """Return a check that reports each row of a query."""
    return lambda connection, checked: (
        problem.format(*row) for row in connection.fetch(select(checked), checked.values)
    )


def _wrong_positions(checked: Checked) -> str:
    return f"""
        select w.sid from (
            select sid, position, lag(position) over (partition by sid order by rid) as before
            from session_memories where usage = 'created' and {checked.of_memories()}) w
        where w.position is null or w.position <= w.before
    """


def _number_positions(connection: Connection, checked: Checked) -> None:
    connection.execute(
        f"""
        update session_memories
        set position = numbered.position
        from (
          select rid, sid, row_number() over (partition by sid order by rid) as position
          from session_memories
          where usage = 'created' and sid in ({_wrong_positions(checked)})) numbered
        where session_memories.rid = numbered.rid and session_memories.sid = numbered.sid and usage = 'created'
        """,
        checked.values,
    )


def _orphan_chunks(checked: Checked) -> str:
    return f"""
        select m.id, m.rid from memories m
        where m.namespace >= '' and m.namespace like '%{CHUNK_SUFFIX}' and {checked.in_namespace("m.namespace")}
          and not exists (select 1 from chunks c where c.rid = m.rid)
    """


def drop_orphan_chunks(connection: Connection, checked: Checked) -> None:
    sql = f"delete from memories where rid in (select rid from ({_orphan_chunks(checked)}) o)"
    connection.execute(sql, checked.values)


def _facts_not_indexed(checked: Checked) -> str:
    return f"""
        select m.id, m.rid
        from memories m
        where {checked.in_namespace("m.namespace")} and m.facts is distinct from (
            select string_agg(f.text, '\n' order by f.fact) from facts f where f.rid = m.rid)
    """


def _index_facts(connection: Connection, checked: Checked) -> None:
    for _, rid in connection.fetch(_facts_not_indexed(checked), checked.values):
        index_facts(connection, rid)


_SUPERSEDED_SINCE = f"""
    select r.valid_from from relations r
    where r.target = memories.rid and r.kind = '{SUPERSEDES}' and r.valid_until is null
"""


def _wrong_validity(checked: Checked) -> str:
    return f"""
        select id, rid from memories
        where {checked.in_namespace()} and valid_until is distinct from ({_SUPERSEDED_SINCE})
    """


def _set_validity(connection: Connection, checked: Checked) -> None:
    connection.execute(
        f"""
        update memories set valid_until = ({_SUPERSEDED_SINCE})
        where rid in (select rid from ({_wrong_validity(checked)}) w)
        """,
        checked.values,
    )


def _not_queued(checked: Checked) -> str:
    return f"""
        from memories m
        where {checked.in_namespace("m.namespace")} and not exists (select 1 from vectors v where v.rid = m.rid)
          and not exists (select 1 from unembedded u where u.rid = m.rid)
    """


def _queue_missing(connection: Connection, checked: Checked) -> None:
    connection.execute(f"insert into unembedded(rid) select m.rid {_not_queued(checked)}", checked.values)


CHECKS: tuple[tuple[FindProblems, Fix], ...] = (
    (
        find_rows(
            lambda checked: f"select id from sessions where sid in ({_wrong_positions(checked)})",
            "sessions: the positions in {} are not in order",
        ),
        _number_positions,
    ),
    (
        lambda connection, checked: find_wrong_fields(connection, checked.of_memories(), checked.values),
        lambda connection, checked: rebuild_fields(connection, checked.of_memories(), checked.values),
    ),
    (find_rows(_orphan_chunks, "documents: {} is a chunk of no file"), drop_orphan_chunks),
    (find_rows(_facts_not_indexed, "facts: the facts of {} are not in the indexes"), _index_facts),
    (find_rows(_wrong_validity, "relations: {} is not superseded from the time of its relation"), _set_validity),
    (
        find_rows(
            lambda checked: f"select count(*) {_not_queued(checked)} having count(*) > 0",
            "vectors: {} memories have no vector and are not queued for one",
        ),
        _queue_missing,
    ),
)
