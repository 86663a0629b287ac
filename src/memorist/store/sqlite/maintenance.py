"""Maintenance: checking and repairing derived data, statistics, and erasing memories from every page and copy."""

import glob
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import apsw
import numpy as np

from memorist.atomic_file import sweep_parts, sync_to_disk
from memorist.errors import StoreError
from memorist.records import SUPERSEDES, CheckReport, Stats
from memorist.store.export import NORM_TOLERANCE
from memorist.store.migrations import load_migrations
from memorist.store.sqlite.connections import ConnectionPool, fetch, fetch_value
from memorist.store.sqlite.documents import CHUNK_SUFFIX
from memorist.store.sqlite.keyword import INDEXES
from memorist.store.sqlite.recalls import erase_traces
from memorist.store.sqlite.relations import bypass_erased, index_facts
from memorist.store.sqlite.vectors import read_block_parts, read_block_vectors
from memorist.store.vector_scan import encode, unpack


def check_database(pool: ConnectionPool, namespace: str, *, repair: bool) -> CheckReport:
    """Check the whole file, all namespaces. With `repair`, rebuild what can be rebuilt."""
    problems: list[str] = []
    repaired: list[str] = []
    skipped: list[str] = []
    with pool.snapshot() as connection:
        problems += find_file_problems(connection)
    for find, fix in _CHECKS:
        if find is _find_full_text_problems and pool.read_only:
            skipped.append("full text: checking it needs the right to write")
            continue
        found = _run_check(pool, find)
        problems += found
        if found and repair:
            with pool.writing() as connection:
                fix(connection)
            left = _run_check(pool, find)
            repaired += [problem for problem in found if problem not in left]
    with pool.snapshot() as connection:
        memories, vectors = fetch_value(
            connection,
            f"""
            select ({_COUNTS["memories"]}), (select count(*) from vectors v join memories m on m.rid = v.rid {_LIVE})
            """,
            {"namespace": namespace},
        )
    return CheckReport(
        len(problems) == len(repaired), tuple(problems), tuple(repaired), tuple(skipped), memories, vectors
    )


def _run_check(pool: ConnectionPool, find: "_FindProblems") -> list[str]:
    """Return the problems that a check finds as of one moment. To SQLite, the check of FTS5 is a write."""
    with pool.writing() if find is _find_full_text_problems else pool.snapshot() as connection:
        return list(find(connection))


def collect_stats(pool: ConnectionPool, namespace: str, model: str | None) -> Stats:
    """Return the numbers of a namespace, and the size of the file."""
    with pool.snapshot() as connection:
        columns = ", ".join(f"({sql})" for sql in _COUNTS.values())
        found = fetch_value(connection, f"select {columns}", {"namespace": namespace, "model": model})
        counts: dict[str, int] = dict(zip(_COUNTS, found, strict=True))
        models: dict[str, int] = dict(
            fetch(
                connection,
                """
                select o.name, count(*)
                from vectors v join models o on o.model = v.model join memories m on m.rid = v.rid
                where m.namespace = ? and m.deleted_at is null
                group by o.name
                """,
                (namespace,),
            )
        )
        pages, page_size = connection.pragma("page_count"), connection.pragma("page_size")
        schema = fetch_value(connection, "select max(name) from _migrations")
    vectors = models.get(model, 0) if model else 0
    return Stats(
        path=pool.path,
        namespace=namespace,
        vectors=vectors,
        pending=counts["memories"] - vectors if model else 0,
        model=model,
        models=models,
        size_bytes=_file_size(pool.path) if not pool.in_memory else pages * page_size,
        schema=schema,
        sqlite=apsw.sqlite_lib_version(),
        **counts,
    )


def _file_size(path: str) -> int:
    return sum(file.stat().st_size for suffix in ("", "-wal") if (file := Path(path + suffix)).exists())


def find_file_problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield the problems of the tables themselves."""
    for (line,) in fetch(connection, "pragma integrity_check(20)"):
        # An index that does not agree with its view is found and repaired by another check.
        if line != "ok" and not any(index in line for index in INDEXES):
            yield f"database: {line}"
    for table, rowid, parent, _ in fetch(connection, "pragma foreign_key_check"):
        yield f"database: row {rowid} of {table} points to a missing row of {parent}"


def _create_statement(table: str) -> str:
    """Return the statement that creates a virtual table of the present schema."""
    statements = re.findall(
        rf"create virtual table {table} .*?\);", "\n".join(load_migrations("sqlite").values()), re.DOTALL
    )
    return str(statements[-1])


_OWN_MEMORIES = "from memories where namespace = :namespace"
_LIVE = "where m.namespace = :namespace and m.deleted_at is null"
_OWN_CHUNKS = "from chunks c join documents d on d.did = c.did where d.namespace = :namespace"
_COUNTS = {
    "memories": f"select count(*) {_OWN_MEMORIES} and deleted_at is null",
    "deleted": f"select count(*) {_OWN_MEMORIES} and deleted_at is not null",
    "projects": f"select count(distinct project) {_OWN_MEMORIES} and deleted_at is null",
    "superseded": f"select count(*) {_OWN_MEMORIES} and deleted_at is null and valid_until is not null",
    "pinned": f"select count(*) {_OWN_MEMORIES} and deleted_at is null and pinned <> 0",
    "facts": f"select count(*) from facts f join memories m on m.rid = f.rid {_LIVE}",
    "relations": f"""
        select count(*) from relations r join memories m on m.rid = r.source
        {_LIVE} and r.valid_until is null and r.kind <> '{SUPERSEDES}'
    """,
    "sessions": "select count(*) from sessions where namespace = :namespace",
    "recalls": "select count(*) from recalls where namespace = :namespace",
    "documents": "select count(*) from documents where namespace = :namespace",
    "chunks": f"select count(*) {_OWN_CHUNKS}",
    "chunks_pending": f"""
        select count(*) {_OWN_CHUNKS} and :model is not null and not exists (
            select 1 from vectors v where v.rid = c.rid and v.model = (select model from models where name = :model))
    """,
}


def _find_full_text_problems(connection: apsw.Connection) -> Iterator[str]:
    for index in INDEXES:
        try:
            connection.execute(f"insert into {index}({index}, rank) values ('integrity-check', 1)")
        except (apsw.CorruptError, apsw.ConstraintError, apsw.SQLError) as exc:
            yield f"full text: {index} does not agree with the memories ({exc})"


def _rebuild_full_text(connection: apsw.Connection) -> None:
    tables = {name for (name,) in fetch(connection, "select name from sqlite_master where type = 'table'")}
    for index in INDEXES:
        if index not in tables:
            connection.execute(_create_statement(index))
        connection.execute(f"insert into {index}({index}) values ('rebuild')")


def _find_vector_problems(connection: apsw.Connection) -> Iterator[str]:
    for rid, model in _find_damaged_vectors(connection):
        yield f"vectors: the vector of row {rid} for model {model} is damaged"


def _find_damaged_vectors(connection: apsw.Connection) -> Iterator[tuple[int, int]]:
    rows = connection.execute(
        """
        select v.rid, v.model, v.vector, o.dimensions
        from (select rid, model, vector from vectors union all select rid, model, vector from part_vectors) v
        join models o on o.model = v.model
        """
    )
    for rid, model, blob, dimensions in rows:
        vector = np.frombuffer(blob, np.float16) if len(blob) == 2 * dimensions else None
        if vector is None or not abs(float(np.linalg.norm(vector.astype(np.float32))) - 1.0) < NORM_TOLERANCE:
            yield rid, model


def _drop_damaged_vectors(connection: apsw.Connection) -> None:
    damaged = list(_find_damaged_vectors(connection))
    connection.executemany("delete from vectors where rid = ? and model = ?", damaged)
    connection.executemany("insert or ignore into unembedded(rid) values (?)", [(rid,) for rid, _ in damaged])


def _find_queue_problems(connection: apsw.Connection) -> Iterator[str]:
    missing = fetch_value(connection, _NOT_QUEUED)
    if missing:
        yield f"vectors: {missing} memories have no vector and are not queued for one"


_NOT_QUEUED = """
    select count(*) from memories m
    where not exists (select 1 from vectors v where v.rid = m.rid)
      and not exists (select 1 from unembedded u where u.rid = m.rid)
"""


def _queue_missing(connection: apsw.Connection) -> None:
    connection.execute(_NOT_QUEUED.replace("select count(*)", "insert into unembedded(rid) select m.rid"))


def _find_block_problems(connection: apsw.Connection) -> Iterator[str]:
    for model, block, _ in _find_damaged_blocks(connection):
        yield f"vectors: packed block {block} of model {model} does not agree with its rows"


def _find_damaged_blocks(connection: apsw.Connection) -> Iterator[tuple[int, int, str]]:
    blocks = connection.execute(
        """
        select b.model, b.block, b.namespace, b.data, b.parts, o.dimensions
        from vector_blocks b join models o on o.model = b.model
        where b.data is not null
        """
    )
    for model, block, namespace, data, parts, dimensions in blocks:
        vector_rows = read_block_vectors(connection, namespace, model, [block])
        part_rows = read_block_parts(connection, namespace, model, [block])
        if not (_is_packed(data, vector_rows, dimensions) and _is_packed(parts or b"", part_rows, dimensions)):
            yield model, block, namespace


def _is_packed(data: bytes, rows: Sequence[tuple[int, bytes]], dimensions: int) -> bool:
    """Tell if a block agrees with its rows; a row of a wrong length is damaged itself, and found by another check."""
    sound = [(key, vector) for key, vector in rows if len(vector) == 2 * dimensions]
    try:
        keys, codes = unpack(data, dimensions)
    except ValueError:
        return False
    halves = np.frombuffer(b"".join(vector for _, vector in sound), np.float16).reshape(-1, dimensions)
    return keys.tolist() == [key for key, _ in sound] and np.array_equal(codes, encode(halves))


def _open_damaged_blocks(connection: apsw.Connection) -> None:
    connection.executemany(
        "update vector_blocks set data = null where model = ? and block = ? and namespace = ?",
        list(_find_damaged_blocks(connection)),
    )


def _index_facts(connection: apsw.Connection) -> None:
    for (rid,) in fetch(connection, _FACTS_NOT_INDEXED):
        index_facts(connection, rid)


_FACTS_NOT_INDEXED = """
    select m.rid
    from memories m
    where m.facts is not (
        select group_concat(f.text, char(10)) from (select text from facts where rid = m.rid order by fact) f)
      and (m.facts is not null or m.rid in (select rid from facts))
"""


def _set_validity(connection: apsw.Connection) -> None:
    connection.execute(
        f"""
        update memories
        set valid_until = (
            select r.valid_from from relations r
            where r.target = memories.rid and r.kind = '{SUPERSEDES}' and r.valid_until is null)
        where rid in ({_WRONG_VALIDITY})
        """
    )


_WRONG_VALIDITY = f"""
    select m.rid
    from memories m
    left join relations r on r.target = m.rid and r.kind = '{SUPERSEDES}' and r.valid_until is null
    where m.valid_until is not r.valid_from
"""


def _drop_orphan_chunks(connection: apsw.Connection) -> None:
    connection.execute(f"delete from memories where rid in ({_ORPHAN_CHUNKS})")


_ORPHAN_CHUNKS = f"""
    select m.rid from memories m
    where m.namespace >= '' and m.namespace like '%{CHUNK_SUFFIX}'
      and not exists (select 1 from chunks c where c.rid = m.rid)
"""


_FindProblems = Callable[[apsw.Connection], Iterator[str]]
_Fix = Callable[[apsw.Connection], None]


def _find_rows(sql: str, problem: str) -> _FindProblems:
    """Return a check that reports each row of a query."""
    return lambda connection: (problem.format(rid) for (rid,) in fetch(connection, sql))


_CHECKS: tuple[tuple[_FindProblems, _Fix], ...] = (  # of derived data, and how each is repaired
    (_find_rows(_ORPHAN_CHUNKS, "documents: row {} is a chunk of no file"), _drop_orphan_chunks),
    (_find_rows(_FACTS_NOT_INDEXED, "facts: the facts of row {} are not in the indexes"), _index_facts),
    (
        _find_rows(_WRONG_VALIDITY, "relations: row {} is not superseded from the time of its relation"),
        _set_validity,
    ),
    (_find_full_text_problems, _rebuild_full_text),
    (_find_vector_problems, _drop_damaged_vectors),
    (_find_queue_problems, _queue_missing),
    (_find_block_problems, _open_damaged_blocks),
)


def erase_memories(connection: apsw.Connection, keys: Sequence[int]) -> None:
    """Delete memories with everything that belongs to them."""
    erase_traces(connection, keys)
    for key in keys:
        bypass_erased(connection, key)
    connection.execute("delete from memories where rid in (select value from json_each(?))", (json.dumps(keys),))


def purge_indexes(connection: apsw.Connection) -> None:
    """Merge all segments of the full-text indexes: a delete only marks its words."""
    for index in INDEXES:
        connection.execute(f"insert into {index}({index}) values ('optimize')")


def wipe_file(pool: ConnectionPool, copies: Iterable[str]) -> None:
    """
    Rewrite the file without free pages, and empty the write-ahead log, so that no text of a deleted row is left.

    Copies from before a migration or a restore may hold such text, too, and so may what killed processes left half
    written: they are removed.
    """
    try:
        _rewrite(pool)
    except StoreError as exc:
        raise type(exc)(
            f"the forgotten memories are erased and cannot be restored, but {pool.path} could not be rewritten: "
            f"their words may still stand in it, its log and copies beside it ({exc.__cause__ or exc}); purge again",
            hint=exc.hint,
        ) from exc
    if not pool.in_memory:
        _remove_copies(Path(pool.file), copies)


def _rewrite(pool: ConnectionPool) -> None:
    """Rewrite the file without free pages, and empty its log."""
    with pool.reading() as connection:
        pool.retry_while_locked(lambda: connection.execute("vacuum"))
        if pool.in_memory:
            return

        def checkpoint() -> None:
            busy, _, _ = fetch_value(connection, "pragma wal_checkpoint(truncate)")
            if busy:
                raise apsw.BusyError("a reader holds the write-ahead log")

        pool.retry_while_locked(checkpoint)
    try:
        sync_to_disk(Path(f"{pool.file}-wal"))  # SQLite does not, and a power cut would bring back what it held
    except OSError as exc:
        raise StoreError(str(exc)) from exc


def _remove_copies(file: Path, names: Iterable[str]) -> None:
    try:
        for name in names:
            for copy in file.parent.glob(f"{glob.escape(f'{file.name}.before-{name}')}*"):  # unfinished ones, too
                copy.unlink(missing_ok=True)
        sweep_parts(file.parent)
        sync_to_disk(file.parent)
    except OSError as exc:
        raise StoreError(
            f"the forgotten memories are erased and nothing of them is left in {file}, but "
            f"{exc.filename or 'a copy beside it'} could not be removed and may hold them: {exc.strerror}; purge again"
        ) from exc
