"""Maintenance: problems of the file itself, and erasing memories from every page and copy."""

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path

import apsw

from memorist.atomic_file import sweep_parts, sync_to_disk
from memorist.errors import StoreError
from memorist.reports import FILE_PROBLEM
from memorist.store.database import Connection
from memorist.store.sqlite.connections import ConnectionPool
from memorist.store.sqlite.dialect import SqliteConnection
from memorist.store.sqlite.generations import advance_generation
from memorist.store.sqlite.keyword import INDEXES

LOG_KEPT = 20_000  # changes that whoever follows may lag behind before it reads everything again


def find_file_problems(connection: SqliteConnection) -> Iterator[str]:
    """Yield the problems of the tables themselves."""
    for (lines,) in connection.fetch("pragma integrity_check(20)"):
        for line in lines.splitlines():
            # An index that does not agree with its view is found and repaired by another check.
            if line not in ("ok", "*** in database main ***") and not any(index in line for index in INDEXES):
                yield f"{FILE_PROBLEM} {line}"
    for table, rowid, parent, _ in connection.fetch("pragma foreign_key_check"):
        yield f"{FILE_PROBLEM} row {rowid} of {table} points to a missing row of {parent}"


def shorten_log(connection: Connection) -> None:
    """
    Drop changes that nobody follows any more, many at once: whoever lags behind further reads everything again.

    A write that drops one would write to one more page of the file.
    """
    connection.execute(
        f"""
        delete from changes
        where seq <= (select max(seq) from changes) - {LOG_KEPT}
          and (select min(seq) from changes) <= (select max(seq) from changes) - {LOG_KEPT} * 21 / 20
        """
    )


def purge_indexes(connection: Connection) -> None:
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
    with pool.writing() as connection:
        advance_generation(connection)  # VACUUM lays the pages out anew, and does not
    with pool.reading() as connection:
        pool.retry_while_locked(lambda: connection.execute("vacuum"))
        if pool.in_memory:
            return

        def checkpoint() -> None:
            busy, _, _ = connection.fetch_value("pragma wal_checkpoint(truncate)")
            if busy:
                raise apsw.BusyError("a reader holds the write-ahead log")

        pool.retry_while_locked(checkpoint)
    try:
        sync_to_disk(Path(f"{pool.file}-wal"))  # SQLite does not, and a power cut would bring back what it held
    except OSError as exc:
        raise StoreError(str(exc)) from exc


def _remove_copies(file: Path, reasons: Iterable[str]) -> None:
    try:
        for reason in reasons:
            for copy in file.parent.glob(f"{glob.escape(file.name)}.before-{reason}*"):  # unfinished ones, too
                copy.unlink(missing_ok=True)
        sweep_parts(file.parent)
        sync_to_disk(file.parent)
    except OSError as exc:
        raise StoreError(
            f"the forgotten memories are erased and nothing of them is left in {file}, but "
            f"{exc.filename or 'a copy beside it'} could not be removed and may hold them: {exc.strerror}; purge again"
        ) from exc
