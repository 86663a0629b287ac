"""Copies of a database: made while others write, looked at before they count, and put back in its place."""

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

import apsw

from memorist.errors import InvalidInput, StoreCorrupt, StoreError
from memorist.store.migrations import bundled, migrate, pending
from memorist.store.sqlite.connections import APPLICATION_ID, ConnectionPool, SqliteSchema, fetch, value
from memorist.store.sqlite.maintenance import file_problems

PAGES_AT_ONCE = 2000  # copied between two looks at whether the process is to stop
ASIDE = "restore"  # memory.db.before-restore is what a backup took the place of
LOG_JUMP = 1_000_000  # changes; more than anybody writes while a database is put back
_COMPANIONS = ("-wal", "-shm", "-journal")
_COUNTED = (
    "memories",
    "memory_history",
    "facts",
    "relations",
    "sessions",
    "recalls",
    "feedback",
    "documents",
    "vectors",
)


def back_up(pool: ConnectionPool, path: str, *, overwrite: bool) -> None:
    """
    Copy the whole database, all namespaces, as it is at one moment; others go on reading and writing.

    The copy is checked, and counted against that moment, before it gets its name: a file of that name is whole.
    """
    target = Path(path)
    _may_be_made(pool, target, overwrite)
    with _part_of(target) as part:
        with pool.snapshot() as source:
            counts = _counts(source)  # the first read: what is copied is this moment, however long it takes
            _copy(source, part)
        with pool.translated():
            _compare(part, counts, target)
        _may_be_made(pool, target, overwrite)  # somebody may have made it meanwhile
        _rename(part, target)


def put_back(path: str, target: str, *, overwrite: bool, busy_timeout: float) -> Path | None:
    """
    Make a database what a backup of one holds; gives the file in which what was there is kept, if anything was.

    The backup is looked at first. What was there is kept beside it, each time in a file of its own. Processes that
    have it open see one or the other, never a mixture: SQLite writes the pages in one transaction.
    """
    source, place = Path(path), Path(os.path.realpath(target))
    if not source.is_file():
        raise InvalidInput(f"cannot restore {path}: {'it is no file' if source.exists() else 'there is no such file'}")
    if place.exists() and source.samefile(place):
        raise InvalidInput(f"{path} is the database itself; name a backup of it")
    if place.is_dir():
        raise InvalidInput(f"{target} is a directory; name the file to restore to")
    there = place.exists() and place.stat().st_size > 0
    if there and not overwrite:
        raise InvalidInput(f"{target} exists; --force puts the backup in its place, and keeps what is there beside it")
    backup = ConnectionPool(str(source), read_only=True, busy_timeout=busy_timeout, synchronous="full")
    sound = False
    try:
        with backup.snapshot() as connection:
            _is_ours(connection, path)
            sound = True
            return _restore(backup, connection, place, _aside(place) if there else None)
    except StoreCorrupt as exc:
        if sound:
            raise
        reason = exc.__cause__ or exc  # what SQLite says; ours speaks of a database in use
        what = f"{path} is damaged, or no backup, and was not restored ({reason})"
        raise StoreCorrupt(f"{what}. Nothing was changed; take another backup") from exc
    finally:
        backup.close()


def _aside(place: Path) -> Path:
    """Where what is there is to be kept: memory.db.before-restore, or with a number behind it."""
    first = f"{place}.before-{ASIDE}"
    names = chain([first], (f"{first}-{number}" for number in count(2)))
    return next(Path(name) for name in names if not os.path.lexists(name))


def _restore(backup: ConnectionPool, source: apsw.Connection, place: Path, aside: Path | None) -> Path | None:
    counts = _counts(source)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _part_of(place) as part:
        _copy(source, part)
        with backup.translated():
            _compare(part, counts, place)
        if pending(_applied(source), bundled("sqlite")):
            _bring_up_to_date(part, backup.busy_timeout)  # whoever has the database open expects the present schema
        if aside is None or not _replaced(place, part, aside, backup.busy_timeout):
            _rename(part, place)
    return aside


def _replaced(place: Path, part: Path, aside: Path, busy_timeout: float) -> bool:
    """Copy what is there aside, and the backup over it; False where it is so damaged that it had to be moved aside."""
    pool = None
    try:
        pool = ConnectionPool(str(place), read_only=False, busy_timeout=busy_timeout, synchronous="full")
        with pool.snapshot() as old, _part_of(aside) as copy:
            _forget_positions(part, old)
            _copy(old, copy)
            _rename(copy, aside)
        with pool.reading() as target:
            _over(pool, part, target)
        return True
    except StoreCorrupt:
        if _of_another_program(place):
            raise
        if pool is not None:
            pool.close()
        for companion in ("", *_COMPANIONS):
            with suppress(FileNotFoundError):
                shutil.move(f"{place}{companion}", f"{aside}{companion}")
        return False
    finally:
        if pool is not None:
            pool.close()


def _of_another_program(place: Path) -> bool:
    """Whether the header of a file says so."""
    with place.open("rb") as file:
        header = file.read(72)
    return header.startswith(b"SQLite format 3\0") and header[68:] != APPLICATION_ID.to_bytes(4, "big")


def _over(pool: ConnectionPool, part: Path, target: apsw.Connection) -> None:
    """Write a database over another one, in one transaction of that one."""
    source = apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        with target.backup("main", source, "main") as backup:
            pool.patiently(lambda: backup.step(-1))
    finally:
        source.close()


def _forget_positions(part: Path, old: apsw.Connection) -> None:
    """Let whoever follows the log of vectors find a gap in it, and read all of them anew."""
    last = "select coalesce(max(seq), 0) from sqlite_sequence where name = 'vector_log'"
    made = "select 1 from sqlite_master where name = 'sqlite_sequence'"
    copy = apsw.Connection(str(part))
    try:
        number = max(value(one, last) for one in (copy, old) if value(one, made)) + LOG_JUMP
        with copy:
            copy.execute("delete from vector_log")
            copy.execute("insert into vector_log(seq, rid) values (?, 0)", (number,))
    finally:
        copy.close()


def _may_be_made(pool: ConnectionPool, target: Path, overwrite: bool) -> None:
    if not pool.in_memory and target.exists() and target.samefile(pool.file):
        raise InvalidInput(f"{target} is the database itself; name another file for the backup")
    if target.is_dir():
        raise InvalidInput(f"{target} is a directory; name a file in it")
    if target.exists() and not overwrite:
        raise InvalidInput(f"{target} exists; choose another name, or overwrite it (--force)")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist")
    if Path(f"{target}-wal").exists():
        raise InvalidInput(f"{target} is a database that is open, or was not closed; choose another name")


@contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """A file beside a target, which is gone at the end unless it has taken the target's name."""
    try:
        handle, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".part", dir=target.parent)
    except OSError as exc:
        raise StoreError(f"cannot write beside {target}: {exc.strerror}") from exc
    os.close(handle)
    try:
        yield Path(name)
    finally:
        for companion in ("", *_COMPANIONS):
            Path(f"{name}{companion}").unlink(missing_ok=True)
        for copy in target.parent.glob(f"{glob.escape(Path(name).name)}.before-*"):  # of before a migration
            copy.unlink(missing_ok=True)


def _rename(part: Path, target: Path) -> None:
    """Give a whole file its name; after a power cut, too, there is all of it or what was there before."""
    _sync(part)
    for companion in _COMPANIONS:  # of a database that is gone: they would be taken for those of this one
        Path(f"{target}{companion}").unlink(missing_ok=True)
    part.replace(target)
    _sync(target.parent)


def _copy(source: apsw.Connection, part: Path) -> None:
    """All pages, as the source's transaction sees them: what others write meanwhile does not begin it anew."""
    copy = apsw.Connection(str(part))
    try:
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(PAGES_AT_ONCE)
        copy.pragma("journal_mode", "delete")  # one file, which can be read where nothing can be written
    finally:
        copy.close()


def _compare(part: Path, counts: dict[str, int], target: Path) -> None:
    copy = apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        problems = list(file_problems(copy))
        if copy.pragma("application_id") != APPLICATION_ID or _counts(copy) != counts:
            problems.append("it does not hold what was copied")
    finally:
        copy.close()
    if problems:
        raise StoreCorrupt(f"the copy {target} is not sound, and was not kept ({problems[0]}): `memorist check` tells")


def _counts(connection: apsw.Connection) -> dict[str, int]:
    there = {name for (name,) in fetch(connection, "select name from sqlite_master where type = 'table'")}
    return {name: value(connection, f"select count(*) from {name}") for name in _COUNTED if name in there}


def _applied(connection: apsw.Connection) -> dict[str, str]:
    return dict(fetch(connection, "select name, sha256 from _migrations"))


def _bring_up_to_date(part: Path, busy_timeout: float) -> None:
    pool = ConnectionPool(str(part), read_only=False, busy_timeout=busy_timeout, synchronous="full")
    try:
        with pool.reading() as connection:
            migrate(SqliteSchema(pool, connection), bundled("sqlite"))
    finally:
        pool.close()


def _is_ours(connection: apsw.Connection, path: str) -> None:
    """Whether it is a database of Memorist, sound, and not of a later version."""
    if not value(connection, "select 1 from sqlite_master where name = '_migrations'"):
        raise InvalidInput(f"{path} is no backup of Memorist: it is empty")
    pending(_applied(connection), bundled("sqlite"))
    problems = list(file_problems(connection))
    if problems:
        raise StoreCorrupt(problems[0])


def _sync(path: Path) -> None:
    """Have the disk itself hold it; folders cannot be asked to on every system."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
