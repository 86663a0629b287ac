"""Maintenance: statistics, and erasing memories from every page and copy."""

import glob
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import apsw

from memorist.atomic_file import sweep_parts, sync_to_disk
from memorist.errors import StoreCorrupt, StoreError
from memorist.records import SUPERSEDES, Stats
from memorist.store.sqlite.connections import ConnectionPool, fetch, fetch_value
from memorist.store.sqlite.keyword import INDEXES
from memorist.store.sqlite.recalls import erase_traces
from memorist.store.sqlite.relations import bypass_erased


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


def count_memories(pool: ConnectionPool, namespace: str) -> tuple[int, int]:
    """Return the number of live memories of a namespace, and of their vectors; none where they cannot be counted."""
    try:
        with pool.snapshot() as connection:
            memories, vectors = fetch_value(
                connection,
                f"""
                select ({_COUNTS["memories"]}), (
                    select count(*) from vectors v join memories m on m.rid = v.rid {_LIVE})
                """,
                {"namespace": namespace},
            )
        return memories, vectors
    except StoreCorrupt:
        return 0, 0


def _file_size(path: str) -> int:
    return sum(file.stat().st_size for suffix in ("", "-wal") if (file := Path(path + suffix)).exists())


def find_file_problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield the problems of the tables themselves."""
    for (lines,) in fetch(connection, "pragma integrity_check(20)"):
        for line in lines.splitlines():
            # An index that does not agree with its view is found and repaired by another check.
            if line not in ("ok", "*** in database main ***") and not any(index in line for index in INDEXES):
                yield f"database: {line}"
    for table, rowid, parent, _ in fetch(connection, "pragma foreign_key_check"):
        yield f"database: row {rowid} of {table} points to a missing row of {parent}"


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
