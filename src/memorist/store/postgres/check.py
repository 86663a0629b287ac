"""Check one namespace of a PostgreSQL database against itself, and make again what can be made again."""

from collections.abc import Iterator

from memorist.errors import StoreError
from memorist.reports import CheckReport
from memorist.store.database import Connection
from memorist.store.derived import CHECKS, Checked, FindProblems, Fix
from memorist.store.postgres.connections import PostgresDatabase
from memorist.store.postgres.text_index import index_queued
from memorist.store.statistics import count_memories
from memorist.store.writes import content_hash, identity_hash, is_unhashed

_ALL = Checked()  # that a connection sees: row security shows it one namespace


def check_database(database: PostgresDatabase, namespace: str, *, repair: bool) -> CheckReport:
    """Check everything that the namespace of a connection sees. The server itself looks after its files."""
    problems = left = _find_problems(database)
    if repair and problems:
        if database.read_only:
            raise StoreError(f"{database.path} was opened read-only, and cannot be repaired")
        with database.writing() as connection:
            for find, fix in _CHECKS:
                if fix and any(find(connection, _ALL)):
                    fix(connection, _ALL)
        left = _find_problems(database)
    repaired = [problem for problem in problems if problem not in left]
    memories, vectors = count_memories(database, namespace)
    return CheckReport(not left, tuple(problems), tuple(repaired), (), memories, vectors)


def _find_problems(database: PostgresDatabase) -> list[str]:
    with database.snapshot() as connection:
        return [problem for find, _ in _CHECKS for problem in find(connection, _ALL)]


def _find_text_problems(connection: Connection, checked: Checked) -> Iterator[str]:
    rows = connection.stream("select id, content, content_hash from memories order by rid")
    for id, content, hash in rows:
        if not is_unhashed(hash) and hash not in (content_hash(content), identity_hash(id, content)):
            yield f"text: that of memory {id} is not the one that was stored"


def _find_tag_problems(connection: Connection, checked: Checked) -> Iterator[str]:
    for (id,) in connection.fetch(f"select m.id from memories m where {_OTHER_TAGS} order by m.rid"):
        yield f"tags: those of memory {id} are not in their table"


def _rebuild_tags(connection: Connection, checked: Checked) -> None:
    connection.execute(f"delete from memory_tags where rid in (select m.rid from memories m where {_OTHER_TAGS})")
    connection.execute(
        """
        insert into memory_tags(tag, rid)
        select distinct t.value, m.rid from memories m, @each(m.tags) t
        on conflict do nothing
        """
    )


def _find_full_text_problems(connection: Connection, checked: Checked) -> Iterator[str]:
    count = connection.fetch_value(f"select count(*) from memories m where m.deleted_at is null and {_NOT_INDEXED}")
    if count:
        yield f"full text: {count} memories are not in the index"
    count = connection.fetch_value(f"select count(*) from memory_texts t where {_INDEXED_IN_VAIN}")
    if count:
        yield f"full text: {count} entries of the index have no memory"
    wrong = connection.fetch_value(f"select count(*) from ({_COUNTED}) c where {_OTHER_COUNT}")
    if wrong:
        yield f"full text: {wrong} words are not counted right"


def _rebuild_full_text(connection: Connection, checked: Checked) -> None:
    """Make the tokens of every memory again; the statistics follow by trigger."""
    for table in ("memory_texts", "vocabulary", "text_statistics"):
        connection.execute(f"delete from {table}")
    connection.execute(
        "insert into unindexed(rid) select rid from memories where deleted_at is null on conflict do nothing"
    )
    index_queued(connection)


_OTHER_TAGS = """
    (select coalesce(array_agg(tag order by tag), '{}') from memory_tags where rid = m.rid)
    <> (select coalesce(array_agg(distinct t.value collate "C" order by t.value collate "C"), '{}')
        from @each(m.tags) t)
"""
_NOT_INDEXED = """
    (exists (select 1 from unindexed u where u.rid = m.rid)
     or not exists (select 1 from memory_texts t where t.rid = m.rid and t.namespace = m.namespace))
"""
_INDEXED_IN_VAIN = "not exists (select 1 from memories m where m.rid = t.rid and m.deleted_at is null)"
_COUNTED = """
    select t.namespace, k.stemmed, term collate "C" as term, count(*) as count
    from memory_texts t
    cross join lateral (values (true, t.stems), (false, t.words)) k(stemmed, tokens)
    cross join lateral unnest(tsvector_to_array(k.tokens)) term
    group by 1, 2, 3
"""
_OTHER_COUNT = """
    not exists (
        select 1 from vocabulary v
        where v.namespace = c.namespace and v.stemmed = c.stemmed and v.term = c.term and v.count = c.count)
"""
_CHECKS: tuple[tuple[FindProblems, Fix | None], ...] = (
    (_find_text_problems, None),
    (_find_tag_problems, _rebuild_tags),
    *CHECKS,
    (_find_full_text_problems, _rebuild_full_text),
)
