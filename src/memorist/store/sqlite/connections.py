"""Connections to one SQLite file: a pool that lends each to one thread, and the schema that migrations change."""

import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import apsw

from memorist.errors import Hint, StoreBusy, StoreCorrupt, StoreError
from memorist.store.sqlite.bm25 import register_functions
from memorist.text.tokenizer import fold

APPLICATION_ID = 0x52434C54  # "RCLT", in the header of every Memorist database
COMPANIONS = ("-wal", "-shm", "-journal")  # files that SQLite keeps beside a database
_PAGE_CACHE_KIB = 32_768
_MIN_WAIT, _MAX_WAIT = 0.001, 0.05  # seconds between two attempts at a locked database

# SQLite's locks belong to a process, but a fork copies its bookkeeping of them: a child that inherits an open
# connection believes it holds locks that it does not. So no connection is open while a process forks.
_pools: "weakref.WeakSet[ConnectionPool]" = weakref.WeakSet()


class ConnectionPool:
    """
    A stack of idle connections to one file, closed together.

    A thread borrows a connection for one operation, so threads that end leave none behind and there are never more
    connections than operations at work.
    """

    def __init__(self, path: str, *, read_only: bool, busy_timeout: float, synchronous: str) -> None:
        self.path = path
        self.in_memory = path == ":memory:"
        self.file = path if self.in_memory else os.path.realpath(path)  # the same from any folder, by any name
        self.read_only = read_only
        self.busy_timeout = busy_timeout
        self._synchronous = synchronous
        self._lock = threading.Condition()
        self._in_use = 0
        self._forking = False
        self._idle: list[apsw.Connection] = []
        self._closed = False
        self._name, self._flags = self._resolve_target()
        # A database in memory lives as long as a connection to it.
        self._anchor = self._open() if self.in_memory else None
        if not self.in_memory:
            _pools.add(self)

    def _resolve_target(self) -> tuple[str, int]:
        """Return the URI of the database and the flags to open it with; make its folder where it may be created."""
        flags = apsw.SQLITE_OPEN_URI
        if self.in_memory:
            # The memdb VFS shares a named database between connections without shared-cache's table locks.
            flags |= apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
            return f"file:/memorist-{uuid4()}?vfs=memdb", flags
        file = Path(self.path)
        if file.is_dir():
            raise StoreError(f"{self.path} is a directory; name a file in it, such as {file / 'memory.db'}")
        name = "file:" + quote(str(file.absolute()))
        if not self.read_only:
            try:
                # Memories are private, and so is a folder made for them.
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as exc:
                raise StoreError(f"cannot create the folder {file.parent} for the database: {exc.strerror}") from exc
            return name, flags | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if not file.exists():
            raise StoreError(f"{self.path} does not exist, and read-only it cannot be created")
        if not os.access(file.parent, os.W_OK) and not Path(f"{self.path}-wal").exists():
            name += "?immutable=1"  # otherwise SQLite needs a -shm file, which cannot be made here
        return name, flags | apsw.SQLITE_OPEN_READONLY

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Lend a connection to this thread, with SQLite's errors translated."""
        connection = self._borrow()
        try:
            with self.translate_errors():
                yield connection
        finally:
            self._give_back(connection)

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """Lend a connection that sees one moment of the database throughout."""
        with self.reading() as connection, self.transaction(connection, "begin"):
            yield connection

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """Lend a connection that holds the write lock: all of the block is committed, or nothing."""
        if self.read_only:
            raise StoreError(f"{self.path} was opened read-only; nothing can be written to it")
        with self.reading() as connection, self.transaction(connection, "begin immediate"):
            yield connection

    @contextmanager
    def transaction(self, connection: apsw.Connection, begin: str) -> Iterator[None]:
        self.retry_while_locked(lambda: connection.execute(begin))
        try:
            yield
            self.retry_while_locked(lambda: connection.execute("commit"))
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise

    def retry_while_locked(self, operation: Callable[[], object]) -> None:
        """Repeat an operation while the database is locked, also where SQLite does not ask the busy handler."""
        deadline, wait = time.monotonic() + self.busy_timeout, _MIN_WAIT
        while True:
            try:
                operation()
                return
            except (apsw.BusyError, apsw.LockedError):
                if time.monotonic() + wait > deadline:
                    raise
            time.sleep(wait * random.uniform(0.5, 1))
            wait = min(wait * 2, _MAX_WAIT)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise SQLite's errors as StoreErrors."""
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as exc:
            raise StoreBusy(
                f"{self.path} stayed locked by another process for {self.busy_timeout:g} s; "
                "try again, or allow a longer wait with busy_timeout"
            ) from exc
        except (apsw.CorruptError, apsw.NotADBError) as exc:
            raise StoreCorrupt(
                f"{self.path} is damaged or not a database ({exc}); nothing was changed. "
                "A repair rebuilds indexes; if that does not help, restore a backup",
                hint=Hint("repair"),
            ) from exc
        except apsw.FullError as exc:
            raise StoreError(f"the disk of {self.path} is full and nothing was written; free some space") from exc
        except apsw.IOError as exc:
            raise StoreError(
                f"{self.path} could not be read or written ({exc}) and nothing was changed: its disk may be full or "
                "failing, or a limit on the size of files was reached"
            ) from exc
        except (apsw.ReadOnlyError, apsw.PermissionsError) as exc:
            raise StoreError(
                f"{self.path} cannot be written: check the permissions of the file and its folder"
            ) from exc
        except apsw.CantOpenError as exc:
            raise StoreError(f"{self.path} cannot be opened: check the path and its permissions") from exc
        except apsw.Error as exc:
            raise StoreError(f"the database refused an operation: {exc}") from exc

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._anchor:
            self._anchor.close()

    def _borrow(self) -> apsw.Connection:
        with self._lock:
            self._lock.wait_for(lambda: not self._forking)
            if self._closed:
                raise StoreError("this memory has been closed; open it again")
            self._in_use += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._open()
        except BaseException:
            self._count_return()
            raise

    def _give_back(self, connection: apsw.Connection) -> None:
        with self._lock:
            keep = not self._closed
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()
        self._count_return()

    def _count_return(self) -> None:
        with self._lock:
            self._in_use -= 1
            self._lock.notify_all()

    def before_fork(self) -> None:
        """Keep new connections from being opened until the fork is done, wait for those in use, and close the rest."""
        self._lock.acquire()
        self._forking = True
        self._lock.wait_for(lambda: not self._in_use, timeout=self.busy_timeout)
        while self._idle:
            self._idle.pop().close()

    def after_fork(self) -> None:
        self._forking = False
        self._lock.notify_all()
        self._lock.release()

    def _open(self) -> apsw.Connection:
        with self.translate_errors():
            connection = apsw.Connection(self._name, flags=self._flags)
            try:
                self._configure(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _configure(self, connection: apsw.Connection) -> None:
        connection.set_busy_handler(self._make_busy_handler())
        # In this order: tables and application id are made in one transaction, so whoever sees a table sees the id.
        has_tables = connection.execute("select 1 from sqlite_master").get
        if has_tables and connection.pragma("application_id") != APPLICATION_ID:
            raise StoreCorrupt(f"{self.path} is a database of another program; choose another file for Memorist")
        if not self.read_only and not self.in_memory:
            # Not every step of the change to WAL asks the busy handler.
            self.retry_while_locked(lambda: connection.pragma("journal_mode", "wal"))
        connection.pragma("synchronous", self._synchronous)
        connection.pragma("foreign_keys", True)
        connection.pragma("cache_size", -_PAGE_CACHE_KIB)
        connection.pragma("temp_store", "memory")
        connection.create_scalar_function("folded", _fold_text, 1, deterministic=True)
        register_functions(connection)

    def _make_busy_handler(self) -> Callable[[int], bool]:
        deadline = 0.0

        def wait(attempt: int) -> bool:
            nonlocal deadline
            now = time.monotonic()
            if attempt == 0:
                deadline = now + self.busy_timeout
            if now >= deadline:
                return False
            time.sleep(min(_MIN_WAIT * 2 ** min(attempt, 10), _MAX_WAIT) * random.uniform(0.5, 1))
            return True

        return wait


class SqliteSchema:
    """The schema of a SQLite database, as `migrations.Database` needs it."""

    def __init__(self, pool: ConnectionPool, connection: apsw.Connection) -> None:
        self._pool, self._connection = pool, connection

    def load_applied(self) -> dict[str, str]:
        # Asked of the file: `table_exists` answers from the schema this connection read some time before.
        if not fetch_value(self._connection, "select 1 from sqlite_master where name = '_migrations'"):
            return {}
        return dict(fetch(self._connection, "select name, sha256 from _migrations"))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._pool.read_only:
            raise StoreError(f"{self._pool.path} has an older schema; open it once for writing to bring it up to date")
        with self._pool.transaction(self._connection, "begin immediate"):
            yield

    def apply(self, name: str, sql: str, digest: str) -> None:
        self._connection.execute("create table if not exists _migrations(name text primary key, sha256 text not null)")
        self._connection.execute(sql)
        self._connection.execute("insert into _migrations(name, sha256) values (?, ?)", (name, digest))
        self._connection.pragma("application_id", APPLICATION_ID)

    def save_copy(self, before: str) -> None:
        """Copy the whole database, as it was before a migration, to a file beside it. The write lock is held."""
        if self._pool.in_memory or self._pool.read_only:
            return
        target = Path(f"{self._pool.file}.before-{before}")
        part = target.with_name(target.name + ".part")
        part.unlink(missing_ok=True)
        copy = apsw.Connection(str(part))
        try:
            # Another connection: one that writes cannot be copied from.
            with self._pool.reading() as source, copy.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(1000)
        finally:
            copy.close()
        part.replace(target)


def fetch(connection: apsw.Connection, sql: str, values: Any = None) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return list(connection.execute(sql, values))


def fetch_value(connection: apsw.Connection, sql: str, values: Any = None) -> Any:
    """Return the first row of a query: one column as a value, several as a tuple, None if there is no row."""
    return connection.execute(sql, values).get


def _fold_text(*texts: Any) -> Any:
    """Implement `folded(text)` for SQL, whose own lower() knows ASCII only."""
    return fold(texts[0])


_forking: list[ConnectionPool] = []


def _before_fork() -> None:
    _forking[:] = list(_pools)
    for pool in _forking:
        pool.before_fork()


def _after_fork() -> None:
    while _forking:
        _forking.pop().after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
