"""
SQLite databases of other programs, which may be writing to them: read from a private copy, neither locked nor changed.

Their schema is not trusted: only plain tables are read, and a row has a limit of length.
"""

import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from memorist.errors import InvalidInput
from memorist.store.sqlite.dialect import SqliteConnection

MAGIC = b"SQLite format 3\0"
_MAX_ROW_BYTES = 300_000_000
_SPARE_DISK_BYTES = 100_000_000
_MAX_COPIES, _PAUSE_SECONDS = 6, 0.05  # while the other program writes; each pause is longer than the one before
_LOG, _LOG_HEADER_BYTES = "-wal", 32  # holds changes that are not in the database yet; its header, when it starts anew
_JOURNAL, _JOURNAL_MAGIC = "-journal", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # holds what a transaction replaces


class ForeignDatabase:
    """The tables of another program's database."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._columns: dict[str, list[str]] = {}  # by table

    def has(self, tables: Mapping[str, Collection[str]]) -> bool:
        """Return True if there are these tables, each with these columns."""
        return all(set(columns) <= set(self._list_columns(table)) for table, columns in tables.items())

    def read(
        self,
        table: str,
        columns: Sequence[str],
        *,
        where: Mapping[str, Any] | None = None,
        prefix: tuple[str, str] | None = None,
        order: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """
        Yield rows as a mapping of columns; one that the table does not have is None.

        `where` are values that columns must have, `prefix` a column and how its text begins.
        """
        present = self._list_columns(table)
        chosen = [name for name in columns if name in present]
        conditions = [f"{_quote(name)} = ?" for name in where or {}]
        values = list((where or {}).values())
        if prefix is not None:
            name, beginning = prefix
            conditions.append(f"{_quote(name)} >= ? and {_quote(name)} < ?")
            values += [beginning, beginning[:-1] + chr(ord(beginning[-1]) + 1)]
        sql = f"select {', '.join(map(_quote, chosen))} from {_quote(table)}"
        sql += f" where {' and '.join(conditions)}" if conditions else ""
        sorting = [_quote(name) for name in order if name in present]
        sql += f" order by {', '.join(sorting)}" if sorting else ""
        empty = dict.fromkeys(columns)
        for row in self._connection.stream(sql, values):
            yield empty | dict(zip(chosen, row, strict=True))

    def _list_columns(self, table: str) -> list[str]:
        """Return the columns of a plain table; none where it runs code: a view, a virtual table, a computed column."""
        if table not in self._columns:
            self._columns[table] = self._find_columns(table)
        return self._columns[table]

    def _find_columns(self, table: str) -> list[str]:
        sql = self._connection.fetch_value("select sql from sqlite_master where type = 'table' and name = ?", (table,))
        if not isinstance(sql, str) or not sql.lower().startswith("create table"):
            return []
        columns = self._connection.fetch("select name, hidden from pragma_table_xinfo(?)", (table,))
        if any(hidden for _, hidden in columns):
            return []
        self._refuse_shared_pages(table)
        return [str(name) for name, _ in columns]

    def _refuse_shared_pages(self, table: str) -> None:
        """Raise if pages of a table are damaged: where many lead to the same one, a small file has rows without end."""
        cursor = self._connection.execute(f"pragma quick_check({_quote(table)})")
        (found,) = next(cursor)  # damaged pages come first, and their rows are not looked at
        cursor.close()
        if str(found).startswith("***"):
            _, problem, *_ = str(found).splitlines()
            raise apsw.CorruptError(f"it is damaged ({problem})")


def is_sqlite(file: Path) -> bool:
    """Return True if a file is a SQLite database."""
    with file.open("rb") as raw:
        return raw.read(len(MAGIC)) == MAGIC


@contextmanager
def open_foreign(file: Path) -> Iterator[ForeignDatabase]:
    """Open a copy of a database, as of one moment; what cannot be read raises InvalidInput."""
    with tempfile.TemporaryDirectory(prefix="memorist-", ignore_cleanup_errors=True) as folder:
        copy = _copy(file, Path(folder))
        with _translate_errors(file), _connect(str(copy)) as database:
            yield database


def has_tables(file: Path, tables: Mapping[str, Collection[str]]) -> bool:
    """Return True if a database has these tables. It is read where it is, unless a log holds a part of it."""
    if _side_file(file, _LOG).exists() or _side_file(file, _JOURNAL).exists():
        with open_foreign(file) as database:
            return database.has(tables)
    with _translate_errors(file), _connect(f"{file.absolute().as_uri()}?immutable=1") as database:
        return database.has(tables)


@contextmanager
def _connect(name: str) -> Iterator[ForeignDatabase]:
    flags = apsw.SQLITE_OPEN_READONLY if name.startswith("file:") else apsw.SQLITE_OPEN_READWRITE
    connection = SqliteConnection(name, flags=flags | apsw.SQLITE_OPEN_URI)
    try:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MAX_ROW_BYTES)
        for setting in (
            "trusted_schema = off",
            "cell_size_check = on",
            "ignore_check_constraints = on",
            "query_only = on",
        ):
            connection.execute(f"pragma {setting}")
        yield ForeignDatabase(connection)
    finally:
        connection.end_streams()
        connection.close(True)


@contextmanager
def _translate_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except apsw.Error as exc:
        raise InvalidInput(f"{file} is a SQLite database that cannot be read: {exc}") from exc


def _copy(file: Path, folder: Path) -> Path:
    """
    Copy a database with its log, once more if it was written to meanwhile.

    A journal is never copied: it can name another file, which SQLite would delete. It is gone after the transaction.
    """
    copy, log = folder / "copy.db", _side_file(file, _LOG)
    size = file.stat().st_size + (log.stat().st_size if log.exists() else 0)
    if shutil.disk_usage(folder).free < size + _SPARE_DISK_BYTES:
        raise InvalidInput(
            f"{file} has {size / 1e9:.1f} GB, and is copied to be read, but {folder.parent} has less room; "
            "set TMPDIR to a folder with more"
        )
    for attempt in range(_MAX_COPIES):
        time.sleep(attempt * _PAUSE_SECONDS)
        if (before := _fingerprint(file)) is None:
            continue
        shutil.copyfile(file, copy)
        _side_file(copy, _LOG).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            shutil.copyfile(log, _side_file(copy, _LOG))
        if _fingerprint(file) == before:  # what was added to the log meanwhile counts as later
            return copy
    raise InvalidInput(
        f"{file} is being written to, or a program was stopped while it wrote; "
        "close the program that uses it, or open it once and close it, and try again"
    )


def _fingerprint(file: Path) -> tuple[int, int, bytes] | None:
    """Return what changes with the pages of a database, or when its log starts anew; None during a transaction."""
    if _read_head(_side_file(file, _JOURNAL), len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC:
        return None
    status = file.stat()
    return status.st_mtime_ns, status.st_size, _read_head(_side_file(file, _LOG), _LOG_HEADER_BYTES)


def _read_head(file: Path, size: int) -> bytes:
    try:
        with file.open("rb") as raw:
            return raw.read(size)
    except FileNotFoundError:
        return b""


def _side_file(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
