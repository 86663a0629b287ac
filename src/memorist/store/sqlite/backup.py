"""Backups: copies of a database made while others write, checked before they count, and restored in its place."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from memorist.atomic_file import is_special, make_folder
from memorist.errors import Hint, InvalidInput, StoreCorrupt, StoreError
from memorist.store.migrations import list_pending, load_migrations, migrate
from memorist.store.sqlite.connections import ConnectionPool, SqliteSchema
from memorist.store.sqlite.copies import COMPANIONS, choose_kept_name, copy_pages, rename_durably, temporary_file
from memorist.store.sqlite.dialect import SqliteConnection
from memorist.store.sqlite.generations import (
    draw_generation,
    is_application_id,
    next_generation,
    see_generation,
    set_generation,
)
from memorist.store.sqlite.maintenance import find_file_problems

BEFORE_RESTORE = "restore"  # memory.db.before-restore is the database that a backup replaced
BEFORE_REPAIR = "repair"  # and memory.db.before-repair the damaged one, where the file was made again
_LOG_JUMP = 1_000_000  # changes; more than anybody writes during a restore
_END_OF_LOG = 1 << 40
_COUNTED_TABLES = "memories memory_history facts relations sessions recalls feedback documents vectors".split()


def back_up_database(pool: ConnectionPool, path: str, *, overwrite: bool) -> None:
    """
    Copy the whole database, all namespaces, as of one moment, while others read and write.

    The copy gets its name once it is checked, and has as many rows as the database had at that moment.
    """
    _check_target(pool, Path(path), overwrite)
    target = Path(os.path.realpath(path))  # a link stays one
    with _translate_system_errors(target), temporary_file(target) as part:
        with pool.snapshot() as source:
            counts = _count_rows(source)  # the first read sets the moment that is copied
            copy_pages(source, part)
        with pool.translate_errors():
            set_generation(part, draw_generation())  # a file of its own, to which no log of the database belongs
            _check_copy(part, counts, target)
        _check_target(pool, target, overwrite)  # somebody may have made it meanwhile
        rename_durably(part, target)


def restore_database(path: str, target: str, *, overwrite: bool, busy_timeout: float) -> Path | None:
    """
    Replace a database with a backup; return the file that keeps the replaced one, if there was any.

    The backup is checked first. A replaced database is kept beside it, each time in a file of its own. Processes that
    have the database open see one or the other, never a mixture: SQLite writes the pages in one transaction.
    """
    source, database = Path(path), Path(os.path.realpath(target))
    if not source.is_file():
        raise InvalidInput(
            f"cannot restore {path}: {'it is not a file' if source.exists() else 'there is no such file'}"
        )
    if database.exists() and source.samefile(database):
        raise InvalidInput(f"{path} is the database itself; name a backup of it")
    if database.is_dir():
        raise InvalidInput(f"{target} is a directory; name the file to restore to")
    if is_special(Path(target)):
        raise InvalidInput(f"{target} is not a regular file; a database needs one of its own")
    exists = database.exists() and database.stat().st_size > 0
    if exists and not overwrite:
        raise InvalidInput(f"{target} exists; overwriting it keeps a copy of it beside it", hint=Hint("overwrite"))
    backup = ConnectionPool(str(source), read_only=True, busy_timeout=busy_timeout, synchronous="full")
    sound = False
    try:
        with _translate_system_errors(database), backup.snapshot() as connection:
            is_old = _check_backup(connection, SqliteSchema(backup, connection).load_applied(), path)
            sound = True
            return _restore(
                backup, connection, database, choose_kept_name(database, BEFORE_RESTORE) if exists else None, is_old
            )
    except StoreCorrupt as exc:
        if sound:
            raise
        reason = exc.__cause__ or exc  # SQLite's own words: the translated message is about a database in use
        raise StoreCorrupt(
            f"{path} is damaged, or no backup, and was not restored ({reason}). Nothing was changed; "
            "take another backup"
        ) from reason
    finally:
        backup.close()


def _restore(
    backup: ConnectionPool, source: SqliteConnection, database: Path, kept: Path | None, is_old: bool
) -> Path | None:
    counts = _count_rows(source)
    make_folder(database.parent, private=True)
    with temporary_file(database) as part:
        copy_pages(source, part)
        with backup.translate_errors():
            _check_copy(part, counts, database)
        if is_old:
            _migrate(part, backup.busy_timeout)  # processes that have the database open expect the present schema
        if kept is None or not _replace(database, part, kept, backup.busy_timeout):
            rename_durably(part, database)
    return kept


def _replace(database: Path, part: Path, kept: Path, busy_timeout: float) -> bool:
    """Copy the database to `kept` and the backup over it; move it and return False if it is too damaged for that."""
    pool = None
    try:
        pool = ConnectionPool(str(database), read_only=False, busy_timeout=busy_timeout, synchronous="full")
        return overwrite(pool, part, kept)
    except StoreCorrupt:
        if _is_of_another_program(database) or _is_sound(database, busy_timeout):
            raise
        if pool is not None:
            pool.close()
        for companion in ("", *COMPANIONS):
            with suppress(FileNotFoundError):
                shutil.move(f"{database}{companion}", f"{kept}{companion}")
        return False
    finally:
        if pool is not None:
            pool.close()


def _is_sound(database: Path, busy_timeout: float) -> bool:
    """Tell if nothing is wrong with a database: a failed read of its copy, too, looks like damage to SQLite."""
    pool = ConnectionPool(str(database), read_only=False, busy_timeout=busy_timeout, synchronous="full")
    try:
        with pool.snapshot() as connection:
            return not list(find_file_problems(connection))
    except StoreCorrupt:
        return False
    finally:
        pool.close()


def _is_of_another_program(database: Path) -> bool:
    """Tell by the header of a file if it is a SQLite database of another program."""
    with database.open("rb") as file:
        header = file.read(72)
    return header.startswith(b"SQLite format 3\0") and not is_application_id(int.from_bytes(header[68:]))


def overwrite(pool: ConnectionPool, part: Path, kept: Path, is_wanted: Callable[[], bool] = lambda: True) -> bool:
    """
    Copy a database to `kept` and write another one over it, in one transaction, unless that is not wanted any more.

    The write lock is held from before the copy: what others write later would be in neither file.
    """
    with pool.reading() as old, pool.reading() as target:
        _skip_log(part, old)
        with closing(_open_read_only(part)) as source, target.backup("main", source, "main") as backup:
            pool.retry_while_locked(lambda: backup.step(0))  # takes the lock, and copies nothing yet
            if not is_wanted():
                return False
            with temporary_file(kept) as copy:
                copy_pages(old, copy)
                rename_durably(copy, kept)
            set_generation(part, next_generation(see_generation(old)))  # the log goes on
            pool.retry_while_locked(lambda: backup.step(-1))
    return True


def _skip_log(part: Path, old: SqliteConnection) -> None:
    """Leave a gap in the log of changes, so that whoever follows it reads everything again."""
    with closing(SqliteConnection(str(part))) as copy:
        number = max(_read_log_end(connection) for connection in (copy, old)) + _LOG_JUMP
        with copy:
            copy.execute("delete from changes")
            copy.execute("insert into changes(seq, rid, what) values (?, 0, 7)", (number,))


def _read_log_end(connection: SqliteConnection) -> int:
    """Return the number of the last change in the log; more than there ever were if it cannot be read."""
    if not connection.fetch_value("select 1 from sqlite_master where name = 'sqlite_sequence'"):
        return 0
    try:
        return int(connection.fetch_value("select coalesce(max(seq), 0) from sqlite_sequence where name = 'changes'"))
    except apsw.CorruptError:
        return _END_OF_LOG


def _check_target(pool: ConnectionPool, target: Path, overwrite: bool) -> None:
    if not pool.in_memory and target.exists() and target.samefile(pool.file):
        raise InvalidInput(f"{target} is the database itself; name another file for the backup")
    if target.is_dir():
        raise InvalidInput(f"{target} is a directory; name a file in it")
    if target.exists() and not overwrite:
        raise InvalidInput(f"{target} exists; choose another name, or overwrite it", hint=Hint("overwrite"))
    if is_special(target):
        raise InvalidInput(f"{target} is not a regular file; a backup needs one of its own")
    target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist")
    if Path(f"{target}-wal").exists():
        raise InvalidInput(f"{target} is a database that is open, or was not closed; choose another name")


@contextmanager
def _translate_system_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StoreError(f"cannot write beside {target}: {exc.strerror}") from exc


def _check_copy(part: Path, counts: dict[str, int], target: Path) -> None:
    with closing(_open_read_only(part)) as copy:
        problems = list(find_file_problems(copy))
        if not is_application_id(copy.pragma("application_id")) or _count_rows(copy) != counts:
            problems.append("it has not all rows of the original")
    if problems:
        raise StoreCorrupt(
            f"the copy {target} is not sound and was removed ({problems[0]}); check the database and the disk",
            hint=Hint("check"),
        )


def _count_rows(connection: SqliteConnection) -> dict[str, int]:
    tables = {name for (name,) in connection.fetch("select name from sqlite_master where type = 'table'")}
    return {name: connection.fetch_value(f"select count(*) from {name}") for name in _COUNTED_TABLES if name in tables}


def _open_read_only(part: Path) -> SqliteConnection:
    return SqliteConnection(str(part), flags=apsw.SQLITE_OPEN_READONLY)


def _migrate(part: Path, busy_timeout: float) -> None:
    pool = ConnectionPool(str(part), read_only=False, busy_timeout=busy_timeout, synchronous="full")
    with closing(pool), pool.reading() as connection:
        migrate(SqliteSchema(pool, connection), load_migrations("sqlite"))


def _check_backup(connection: SqliteConnection, applied: dict[str, str], path: str) -> bool:
    """Raise unless it is a sound database of Memorist, and of no later version; tell if it is of an earlier one."""
    if not applied:
        raise InvalidInput(f"{path} is not a Memorist backup: it is empty")
    pending = list_pending(applied, load_migrations("sqlite"))
    for problem in find_file_problems(connection):
        raise StoreCorrupt(problem)
    return bool(pending)
