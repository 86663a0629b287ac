"""Connections to one SQLite file: opened as needed, used by one thread at a time, all closed together.

This database, as migrations see it.
"""

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

from memorist.errors import StoreBusy, StoreCorrupt, StoreError
from memorist.text.tokenizer import fold

APPLICATION_ID = 0x52434C54  # "RCLT", in the header of every Memorist database
PAGE_CACHE_KIB = 32_768
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.05

# SQLite's locks belong to a process but its bookkeeping of them is copied by a fork: a child that inherits an open
# connection, used or not, takes a lock for held that it does not hold. So nothing is open while a process forks.
_pools: "weakref.WeakSet[ConnectionPool]" = weakref.WeakSet()


class ConnectionPool:
    """
    A stack of idle connections.

    A thread borrows one for a single verb and gives it back, so threads that end leave nothing behind and there are
    never more connections than verbs at work.
    """

    def __init__(self, path: str, *, read_only: bool, busy_timeout: float, synchronous: str) -> None:
        self.path = path
        self.in_memory = path == ":memory:"
        self.file = path if self.in_memory else os.path.realpath(path)  # the same from any folder, by any name
        self.read_only = read_only
        self.busy_timeout = busy_timeout
        self._synchronous = synchronous
        self._lock = threading.Condition()
        self._lent = 0
        self._forking = False
        self._idle: list[apsw.Connection] = []
        self._closed = False
        self._name, self._flags = self._target()
        # A database in memory lives as long as a connection to it.
        self._anchor = self._open() if self.in_memory else None
        if not self.in_memory:
            _pools.add(self)

    def _target(self) -> tuple[str, int]:
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
                # A folder made for memories is nobody else's business.
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as exc:
                raise StoreError(f"cannot create the folder {file.parent} for the database: {exc.strerror}") from exc
            return name, flags | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if not file.exists():
            raise StoreError(f"{self.path} does not exist, and read-only it cannot be created")
        if not os.access(file.parent, os.W_OK) and not Path(f"{self.path}-wal").exists():
            name += "?immutable=1"  # the usual way needs a -shm file, which cannot be made here
        return name, flags | apsw.SQLITE_OPEN_READONLY

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """A connection for this thread; SQLite's errors come out as ours."""
        connection = self._borrow()
        try:
            with self.translated():
                yield connection
        finally:
            self._give_back(connection)

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """A connection that sees one moment of the database for several statements."""
        with self.reading() as connection, self.transaction(connection, "begin"):
            yield connection

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """A connection that holds the write lock: all of the block is kept, or nothing."""
        if self.read_only:
            raise StoreError(f"{self.path} was opened read-only; nothing can be written to it")
        with self.reading() as connection, self.transaction(connection, "begin immediate"):
            yield connection

    @contextmanager
    def transaction(self, connection: apsw.Connection, begin: str) -> Iterator[None]:
        self.patiently(lambda: connection.execute(begin))
        try:
            yield
            self.patiently(lambda: connection.execute("commit"))
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise

    def patiently(self, work: Callable[[], object]) -> None:
        """Run it again while the database is locked, also where SQLite gives up without asking the busy handler."""
        deadline, wait = time.monotonic() + self.busy_timeout, _FIRST_WAIT
        while True:
            try:
                work()
                return
            except (apsw.BusyError, apsw.LockedError):
                if time.monotonic() + wait > deadline:
                    raise
            time.sleep(wait * random.uniform(0.5, 1))
            wait = min(wait * 2, _LONGEST_WAIT)

    @contextmanager
    def translated(self) -> Iterator[None]:
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
                "`memorist check --repair` mends indexes; for the rest restore a backup"
            ) from exc
        except apsw.FullError as exc:
            raise StoreError(
                f"the disk of {self.path} is full; nothing of this write was kept: free some space"
            ) from exc
        except apsw.IOError as exc:
            raise StoreError(
                f"{self.path} could not be read or written ({exc}): its disk may be full or failing, or a limit on the "
                "size of files reached; nothing of this write was kept"
            ) from exc
        except (apsw.ReadOnlyError, apsw.PermissionsError) as exc:
            raise StoreError(
                f"{self.path} cannot be written: check the permissions of the file and its folder"
            ) from exc
        except apsw.CantOpenError as exc:
            raise StoreError(f"{self.path} cannot be opened: check the path and its permissions") from exc
        except apsw.Error as exc:
            raise StoreError(f"the database refused: {exc}") from exc

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
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._open()
        except BaseException:
            self._returned()
            raise

    def _give_back(self, connection: apsw.Connection) -> None:
        with self._lock:
            keep = not self._closed
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()
        self._returned()

    def _returned(self) -> None:
        with self._lock:
            self._lent -= 1
            self._lock.notify_all()

    def before_fork(self) -> None:
        """Let nobody open a connection until the fork is done, wait for those at work, and close the rest."""
        self._lock.acquire()
        self._forking = True
        self._lock.wait_for(lambda: not self._lent, timeout=self.busy_timeout)
        while self._idle:
            self._idle.pop().close()

    def after_fork(self) -> None:
        self._forking = False
        self._lock.notify_all()
        self._lock.release()

    def _open(self) -> apsw.Connection:
        with self.translated():
            connection = apsw.Connection(self._name, flags=self._flags)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.set_busy_handler(self._busy_handler())
        # In this order: tables and mark are made in one transaction, so whoever sees a table then sees the mark too.
        made = connection.execute("select 1 from sqlite_master").get
        if made and connection.pragma("application_id") != APPLICATION_ID:
            raise StoreCorrupt(f"{self.path} is a database of another program; choose another file for Memorist")
        if not self.read_only and not self.in_memory:
            # Not every step of the change to WAL asks the busy handler.
            self.patiently(lambda: connection.pragma("journal_mode", "wal"))
        connection.pragma("synchronous", self._synchronous)
        connection.pragma("foreign_keys", True)
        connection.pragma("cache_size", -PAGE_CACHE_KIB)
        connection.pragma("temp_store", "memory")
        connection.create_scalar_function("folded", _folded, 1, deterministic=True)

    def _busy_handler(self) -> Callable[[int], bool]:
        deadline = 0.0

        def wait(attempt: int) -> bool:
            nonlocal deadline
            now = time.monotonic()
            if attempt == 0:
                deadline = now + self.busy_timeout
            if now >= deadline:
                return False
            time.sleep(min(_FIRST_WAIT * 2 ** min(attempt, 10), _LONGEST_WAIT) * random.uniform(0.5, 1))
            return True

        return wait


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


def _folded(*texts: Any) -> Any:
    """`folded(text)` for SQL, whose own lower() knows ASCII only."""
    return fold(texts[0])


def fetch(connection: apsw.Connection, sql: str, values: Any = None) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return list(connection.execute(sql, values))


def value(connection: apsw.Connection, sql: str, values: Any = None) -> Any:
    """The one value of a query, a tuple where it has several columns, None where it has no row."""
    return connection.execute(sql, values).get


class SqliteSchema:
    """What `migrations.Database` asks for, on SQLite."""

    def __init__(self, pool: ConnectionPool, connection: apsw.Connection) -> None:
        self._pool, self._connection = pool, connection

    def applied(self) -> dict[str, str]:
        # Asked of the file: `table_exists` answers from the schema this connection read some time before.
        if not value(self._connection, "select 1 from sqlite_master where name = '_migrations'"):
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

    def keep_copy(self, before: str) -> None:
        """The whole database as it was before a migration, in a file beside it. Called with the write lock held."""
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
