"""Is the database sound? What is derived is compared with what it is derived from, and made anew on request.

Erasing for good: from every table, every index, every page of the file, and every copy of it.
"""

import glob
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import apsw
import numpy as np

from memorist.records import SUPERSEDES, CheckReport, Stats
from memorist.store.export_schema import NORM_TOLERANCE
from memorist.store.migrations import bundled
from memorist.store.sqlite.connections import ConnectionPool, fetch, value
from memorist.store.sqlite.documents import BESIDE
from memorist.store.sqlite.keyword import INDEXES
from memorist.store.sqlite.links import splice
from memorist.store.sqlite.recalls import erase_traces
from memorist.store.sqlite.strength import index_facts
from memorist.store.sqlite.vectors import block_rows, part_rows
from memorist.store.vector_scan import encode, unpack


def check(pool: ConnectionPool, namespace: str, *, repair: bool) -> CheckReport:
    """Look at the whole file, all namespaces. With `repair`, rebuild what can be rebuilt."""
    problems: list[str] = []
    repaired: list[str] = []
    skipped: list[str] = []
    with pool.snapshot() as connection:
        problems += file_problems(connection)
    for look, mend in _DERIVED:
        if look is _full_text and pool.read_only:
            skipped.append("full text: looking at it takes the right to write")
            continue
        found = _looked(pool, look)
        problems += found
        if found and repair:
            with pool.writing() as connection:
                mend(connection)
            left = _looked(pool, look)
            repaired += [problem for problem in found if problem not in left]
    with pool.snapshot() as connection:
        memories, vectors = value(
            connection,
            """
            select (select count(*) from memories where namespace = :namespace and deleted_at is null),
                   (select count(*) from vectors v join memories m on m.rid = v.rid
                    where m.namespace = :namespace and m.deleted_at is null)
            """,
            {"namespace": namespace},
        )
    return CheckReport(
        len(problems) == len(repaired), tuple(problems), tuple(repaired), tuple(skipped), memories, vectors
    )


def _looked(pool: ConnectionPool, look: "_Look") -> list[str]:
    """What is wrong at one moment, whoever else writes. FTS5's own check is a write to SQLite."""
    with pool.writing() if look is _full_text else pool.snapshot() as connection:
        return list(look(connection))


def stats(pool: ConnectionPool, namespace: str, model: str | None) -> Stats:
    with pool.snapshot() as connection:
        memories, deleted, projects = value(
            connection,
            """
            select count(*) filter (where deleted_at is null), count(*) filter (where deleted_at is not null),
                   count(distinct project) filter (where deleted_at is null)
            from memories where namespace = ?
            """,
            (namespace,),
        )
        counted = fetch(
            connection,
            """
            select o.name, count(*)
            from vectors v join models o on o.model = v.model join memories m on m.rid = v.rid
            where m.namespace = ? and m.deleted_at is null
            group by o.name
            """,
            (namespace,),
        )
        life = dict(zip(_COUNTS, value(connection, _LIFE, {"namespace": namespace, "model": model}), strict=True))
        pages, page_size = connection.pragma("page_count"), connection.pragma("page_size")
        schema = value(connection, "select max(name) from _migrations")
    models: dict[str, int] = dict(counted)
    vectors = models.get(model, 0) if model else 0
    return Stats(
        path=pool.path,
        namespace=namespace,
        memories=memories,
        deleted=deleted,
        projects=projects,
        vectors=vectors,
        pending=memories - vectors if model else 0,
        model=model,
        models=models,
        size_bytes=_size(pool.path) if not pool.in_memory else pages * page_size,
        schema=schema,
        sqlite=apsw.sqlite_lib_version(),
        **life,
    )


def _size(path: str) -> int:
    return sum(file.stat().st_size for suffix in ("", "-wal") if (file := Path(path + suffix)).exists())


def file_problems(connection: apsw.Connection) -> Iterator[str]:
    """What is wrong with the tables themselves."""
    for (line,) in fetch(connection, "pragma integrity_check(20)"):
        # An index that has lost step with its view is found and mended below.
        if line != "ok" and not any(index in line for index in INDEXES):
            yield f"database: {line}"
    for table, rowid, parent, _ in fetch(connection, "pragma foreign_key_check"):
        yield f"database: row {rowid} of {table} points to a missing row of {parent}"


def _made_by(table: str) -> str:
    """The statement that makes a table of the present schema."""
    statements = re.findall(rf"create virtual table {table} .*?\);", "\n".join(bundled("sqlite").values()), re.DOTALL)
    return str(statements[-1])


_COUNTS = (
    "superseded", "pinned", "facts", "relations", "sessions", "recalls", "documents", "chunks", "chunks_pending"
)  # fmt: skip
_LIFE = """
    select
        (select count(*) from memories
         where namespace = :namespace and valid_until is not null and deleted_at is null),
        (select count(*) from memories where namespace = :namespace and pinned <> 0 and deleted_at is null),
        (select count(*) from facts f join memories m on m.rid = f.rid
         where m.namespace = :namespace and m.deleted_at is null),
        (select count(*) from relations r join memories m on m.rid = r.source
         where m.namespace = :namespace and m.deleted_at is null and r.valid_until is null and r.kind <> 'supersedes'),
        (select count(*) from sessions where namespace = :namespace),
        (select count(*) from recalls where namespace = :namespace),
        (select count(*) from documents where namespace = :namespace),
        (select count(*) from chunks c join documents d on d.did = c.did where d.namespace = :namespace),
        (select count(*) from chunks c join documents d on d.did = c.did
         where d.namespace = :namespace and :model is not null and not exists (
            select 1 from vectors v
            where v.rid = c.rid and v.model = (select model from models where name = :model)))
"""


def _full_text(connection: apsw.Connection) -> Iterator[str]:
    for index in INDEXES:
        try:
            connection.execute(f"insert into {index}({index}, rank) values ('integrity-check', 1)")
        except (apsw.CorruptError, apsw.ConstraintError, apsw.SQLError) as exc:
            yield f"full text: {index} does not agree with the memories ({exc})"


def _rebuild_full_text(connection: apsw.Connection) -> None:
    there = {name for (name,) in fetch(connection, "select name from sqlite_master where type = 'table'")}
    for index in INDEXES:
        if index not in there:
            connection.execute(_made_by(index))
        connection.execute(f"insert into {index}({index}) values ('rebuild')")


def _vector_rows(connection: apsw.Connection) -> Iterator[str]:
    for rid, model in _bad_vectors(connection):
        yield f"vectors: the vector of row {rid} for model {model} is damaged"


def _bad_vectors(connection: apsw.Connection) -> Iterator[tuple[int, int]]:
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


def _drop_bad_vectors(connection: apsw.Connection) -> None:
    bad = list(_bad_vectors(connection))
    connection.executemany("delete from vectors where rid = ? and model = ?", bad)
    connection.executemany("insert or ignore into unembedded(rid) values (?)", [(rid,) for rid, _ in bad])


def _waiting(connection: apsw.Connection) -> Iterator[str]:
    """Texts without any vector that nobody would ever embed."""
    lost = value(connection, _LOST)
    if lost:
        yield f"vectors: {lost} memories have no vector and do not wait for one"


_LOST = """
    select count(*) from memories m
    where not exists (select 1 from vectors v where v.rid = m.rid)
      and not exists (select 1 from unembedded u where u.rid = m.rid)
"""


def _queue_lost(connection: apsw.Connection) -> None:
    connection.execute(_LOST.replace("select count(*)", "insert into unembedded(rid) select m.rid"))


def _blocks(connection: apsw.Connection) -> Iterator[str]:
    for model, block, _ in _bad_blocks(connection):
        yield f"vectors: packed block {block} of model {model} is not what its rows say"


def _bad_blocks(connection: apsw.Connection) -> Iterator[tuple[int, int, str]]:
    blocks = connection.execute(
        """
        select b.model, b.block, b.namespace, b.data, b.parts, o.dimensions
        from vector_blocks b join models o on o.model = b.model
        where b.data is not null
        """
    )
    for model, block, namespace, data, parts, dimensions in blocks:
        wholes = block_rows(connection, namespace, model, [block])
        theirs = part_rows(connection, namespace, model, [block])
        if not (_packed(data, wholes, dimensions) and _packed(parts or b"", theirs, dimensions)):
            yield model, block, namespace


def _packed(data: bytes, rows: Sequence[tuple[int, bytes]], dimensions: int) -> bool:
    """Whether a block has what its rows say; a row of another length is damaged itself, and told of elsewhere."""
    whole = [(key, vector) for key, vector in rows if len(vector) == 2 * dimensions]
    try:
        keys, codes = unpack(data, dimensions)
    except ValueError:
        return False
    halves = np.frombuffer(b"".join(vector for _, vector in whole), np.float16).reshape(-1, dimensions)
    return keys.tolist() == [key for key, _ in whole] and np.array_equal(codes, encode(halves))


def _open_bad_blocks(connection: apsw.Connection) -> None:
    connection.executemany(
        "update vector_blocks set data = null where model = ? and block = ? and namespace = ?",
        list(_bad_blocks(connection)),
    )


def _facts(connection: apsw.Connection) -> Iterator[str]:
    """The words of facts, as the indexes know them."""
    for (rid,) in fetch(connection, _FACTS_NOT_INDEXED):
        yield f"facts: the indexes do not know the facts of row {rid}"


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


def _validity(connection: apsw.Connection) -> Iterator[str]:
    """What is superseded is what a relation says so of, from the time it says."""
    for (rid,) in fetch(connection, _WRONG_VALIDITY):
        yield f"relations: row {rid} is not superseded from the time its relations say"


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


def _lost_chunks(connection: apsw.Connection) -> Iterator[str]:
    """Chunks that belong to no file: nothing would ever take them out."""
    for (rid,) in fetch(connection, _WITHOUT_FILE):
        yield f"documents: row {rid} is a chunk of no file"


def _drop_lost_chunks(connection: apsw.Connection) -> None:
    connection.execute(f"delete from memories where rid in ({_WITHOUT_FILE})")


_WITHOUT_FILE = f"""
    select m.rid from memories m
    where m.namespace >= '' and m.namespace like '%{BESIDE}' and not exists (select 1 from chunks c where c.rid = m.rid)
"""


_Look = Callable[[apsw.Connection], Iterator[str]]
_Mend = Callable[[apsw.Connection], None]
_DERIVED: tuple[tuple[_Look, _Mend], ...] = (
    (_lost_chunks, _drop_lost_chunks),
    (_facts, _index_facts),
    (_validity, _set_validity),
    (_full_text, _rebuild_full_text),
    (_vector_rows, _drop_bad_vectors),
    (_waiting, _queue_lost),
    (_blocks, _open_bad_blocks),
)


def erase(connection: apsw.Connection, keys: Sequence[int]) -> None:
    """Delete memories with all that hangs on them."""
    erase_traces(connection, keys)
    for key in keys:
        splice(connection, key)
    connection.execute("delete from memories where rid in (select value from json_each(?))", (json.dumps(keys),))


def drop_deleted_words(connection: apsw.Connection) -> None:
    """Merge all segments of the indexes: a delete only marks its words."""
    for index in INDEXES:
        connection.execute(f"insert into {index}({index}) values ('optimize')")


def wipe(pool: ConnectionPool, copies: Iterable[str]) -> None:
    """
    Rewrite the file without free pages, and empty the write-ahead log: no text of a deleted row is left.

    Copies of the time before a migration, or a restore, may hold it too, and are removed.
    """
    with pool.reading() as connection:
        pool.patiently(lambda: connection.execute("vacuum"))
        if pool.in_memory:
            return

        def checkpoint() -> None:
            busy, _, _ = value(connection, "pragma wal_checkpoint(truncate)")
            if busy:
                raise apsw.BusyError("a reader holds the write-ahead log")

        pool.patiently(checkpoint)
    file = Path(pool.file)
    for name in copies:
        for copy in file.parent.glob(f"{glob.escape(f'{file.name}.before-{name}')}*"):  # parts and logs of it, too
            copy.unlink(missing_ok=True)
