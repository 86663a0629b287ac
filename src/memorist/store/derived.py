"""Checks of what follows from other rows, the same in both databases, and how each is made right again."""

from collections.abc import Callable, Iterator

from memorist.records import SUPERSEDES
from memorist.store.database import Connection
from memorist.store.documents import CHUNK_SUFFIX
from memorist.store.metadata_index import find_wrong_fields, rebuild_fields
from memorist.store.relations import index_facts

FindProblems = Callable[[Connection], Iterator[str]]
Fix = Callable[[Connection], None]


def find_rows(sql: str, problem: str) -> FindProblems:
    """Return a check that reports each row of a query."""
    return lambda connection: (problem.format(*row) for row in connection.fetch(sql))


_WRONG_POSITIONS = """
    select w.sid from (
        select sid, position, lag(position) over (partition by sid order by rid) as before
        from session_memories where usage = 'created') w
    where w.position is null or w.position <= w.before
"""


def _number_positions(connection: Connection) -> None:
    connection.execute(
        f"""
        update session_memories
        set position = numbered.position
        from (
          select rid, sid, row_number() over (partition by sid order by rid) as position
          from session_memories
          where usage = 'created' and sid in ({_WRONG_POSITIONS})) numbered
        where session_memories.rid = numbered.rid and session_memories.sid = numbered.sid and usage = 'created'
        """
    )


_ORPHAN_CHUNKS = f"""
    select m.rid from memories m
    where m.namespace >= '' and m.namespace like '%{CHUNK_SUFFIX}'
      and not exists (select 1 from chunks c where c.rid = m.rid)
"""


def drop_orphan_chunks(connection: Connection) -> None:
    connection.execute(f"delete from memories where rid in ({_ORPHAN_CHUNKS})")


_FACTS_NOT_INDEXED = """
    select m.rid
    from memories m
    where m.facts is distinct from (select string_agg(f.text, '\n' order by f.fact) from facts f where f.rid = m.rid)
"""


def _index_facts(connection: Connection) -> None:
    for (rid,) in connection.fetch(_FACTS_NOT_INDEXED):
        index_facts(connection, rid)


_SUPERSEDED_SINCE = f"""
    select r.valid_from from relations r
    where r.target = memories.rid and r.kind = '{SUPERSEDES}' and r.valid_until is null
"""
_WRONG_VALIDITY = f"select rid from memories where valid_until is distinct from ({_SUPERSEDED_SINCE})"


def _set_validity(connection: Connection) -> None:
    connection.execute(f"update memories set valid_until = ({_SUPERSEDED_SINCE}) where rid in ({_WRONG_VALIDITY})")


_NOT_QUEUED = """
    from memories m
    where not exists (select 1 from vectors v where v.rid = m.rid)
      and not exists (select 1 from unembedded u where u.rid = m.rid)
"""


def _queue_missing(connection: Connection) -> None:
    connection.execute(f"insert into unembedded(rid) select m.rid {_NOT_QUEUED}")


CHECKS: tuple[tuple[FindProblems, Fix], ...] = (
    (
        find_rows(
            f"select id from sessions where sid in ({_WRONG_POSITIONS})",
            "sessions: the positions in {} are not in order",
        ),
        _number_positions,
    ),
    (find_wrong_fields, rebuild_fields),
    (find_rows(_ORPHAN_CHUNKS, "documents: row {} is a chunk of no file"), drop_orphan_chunks),
    (find_rows(_FACTS_NOT_INDEXED, "facts: the facts of row {} are not in the indexes"), _index_facts),
    (find_rows(_WRONG_VALIDITY, "relations: row {} is not superseded from the time of its relation"), _set_validity),
    (
        find_rows(
            f"select count(*) {_NOT_QUEUED} having count(*) > 0",
            "vectors: {} memories have no vector and are not queued for one",
        ),
        _queue_missing,
    ),
)
