"""Connections to one SQLite file: a pool that lends each to one thread, and the schema that migrations change."""

import glob
import logging
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import apsw

from memorist.atomic_file import is_special, make_folder
from memorist.errors import Hint, SearchTimeout, StoreBusy, StoreCorrupt, StoreError
from memorist.store.loans import Loan, take_back
from memorist.store.sqlite.bm25 import register_functions
from memorist.store.sqlite.copies import (
    choose_kept_name,
    copy_pages,
    create_private_file,
    rename_durably,
    temporary_file,
)
from memorist.store.sqlite.dialect import SqliteConnection, decode_text
from memorist.store.sqlite.generations import (
    APPLICATION_ID,
    FileIdentity,
    advance_generation,
    begin_generations,
    belongs_to,
    is_application_id,
    read_generation,
    read_logged_generations,
    see_generation,
    set_foreign_log_aside,
)
from memorist.text.tokenizer import fold
from memorist.time_limit import is_time_up

BEFORE_REPLACEMENT = "replacement"  # memory.db.before-replacement was open when another file took its name
_log = logging.getLogger(__name__)
_PAGE_CACHE_KIB = 4_096  # of each connection; the system has one for all, and eight times as much saves 3 to 6 %
_BEGIN_WRITING = "begin immediate"
_IMMUTABLE = "?immutable=1"
_STEPS_BETWEEN_CHECKS = 10_000  # of SQLite's virtual machine, some milliseconds
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
        self._address = str(Path(path).absolute())  # which may be a link
        self.read_only = read_only
        self.busy_timeout = busy_timeout
        self._synchronous = synchronous
        self._lock = threading.RLock()  # a `with` on it cannot be cut in two by Ctrl-C, as one on a Condition can
        self._returned = threading.Condition(self._lock)
        self._forking = False
        self._idle: list[SqliteConnection] = []
        self._loans: set[_SqliteLoan] = set()
        self._open_connections: weakref.WeakSet[SqliteConnection] = weakref.WeakSet()
        self._closed = False
        self._identity: FileIdentity | None = None
        self._is_left = False  # the file was deleted or replaced, and its last connections are closed
        self._kept: Path | None = None  # what was open then
        self.before_commit: Callable[[SqliteConnection], object] | None = None  # where a block has changed a row
        self._observer: SqliteConnection | None = None  # never lent: what it has seen of others' commits is its own
        self._observers = 0  # opened so far: each counts commits from anew
        self._name, self._flags = self._resolve_target()
        if not self.in_memory:
            self._set_foreign_log_aside()
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
        if is_special(file):
            raise StoreError(f"{self.path} is not a regular file; name another one for the database")
        name = "file:" + quote(self._address)
        if not self.read_only:
            try:
                # Memories are private, and so is a folder made for them.
                make_folder(file.parent, private=True)
            except OSError as exc:
                raise StoreError(f"cannot create the folder {file.parent} for the database: {exc.strerror}") from exc
            create_private_file(Path(self.file))
            return name, flags | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if not file.exists():
            raise StoreError(f"{self.path} does not exist, and read-only it cannot be created")
        if not os.access(file.parent, os.W_OK) and not Path(f"{self.path}-wal").exists():
            name += _IMMUTABLE  # otherwise SQLite needs a -shm file, which cannot be made here
        return name, flags | apsw.SQLITE_OPEN_READONLY

    def _set_foreign_log_aside(self) -> None:
        """Keep SQLite from writing the log of a file that was replaced over the one that has replaced it."""
        log = Path(f"{self.file}-wal")
        try:
            is_own = belongs_to(log, self.file)
        except OSError as exc:
            raise StoreError(f"{log} cannot be read ({exc.strerror}): check the permissions of it") from exc
        if is_own:
            return
        replaced = f"the log beside {self.path} belongs to another file that was there before"
        if self.read_only:
            raise StoreError(f"{replaced}; open it once for writing, and the log is renamed")
        try:
            kept = set_foreign_log_aside(self.file, BEFORE_REPLACEMENT)
        except OSError as exc:
            raise StoreError(
                f"{replaced}, and cannot be renamed ({exc.strerror}): close the programs that use it"
            ) from exc
        if kept:
            _log.warning("the log beside %s belonged to another file, and is kept as %s", self.path, kept)

    def make_read_only(self, path: str) -> None:
        """Refuse to write from now on, in the name of a file that this database in memory stands for."""
        self.path, self.read_only = path, True

    def reading(self) -> "_SqliteLoan":
        """Lend a connection for a `with` block."""
        return _SqliteLoan(self)

    def snapshot(self) -> "_SqliteLoan":
        """Lend a connection that sees one moment of the database throughout."""
        return _SqliteLoan(self, "begin")

    def writing(self) -> "_SqliteLoan":
        """Lend a connection that holds the write lock: all of the block is committed, or nothing."""
        if self.read_only:
            raise StoreError(f"{self.path} was opened read-only; nothing can be written to it")
        return _SqliteLoan(self, _BEGIN_WRITING)

    def read_mark(self) -> str:
        """Return a mark that changes with every commit of any connection, of this process or another."""
        self.require_same_file()
        with self._lock, self.translate_errors():
            self._returned.wait_for(lambda: not self._forking)
            if self._closed:
                raise StoreError("this memory has been closed; open it again")
            if self._observer is None:
                self._observer = self._open()
                self._observers += 1
            return f"{self._observers}.{self._observer.pragma('data_version')}"

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
            take_back(self._loans)
            time.sleep(wait * random.uniform(0.5, 1))
            wait = min(wait * 2, _MAX_WAIT)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise SQLite's errors as StoreErrors."""
        try:
            yield
        except apsw.Error as exc:
            raise self.translate(exc) from exc

    def translate(self, error: apsw.Error) -> StoreError:
        """Return the StoreError that says what an error of SQLite's means for this file."""
        match error:
            case apsw.BusyError() | apsw.LockedError():
                return StoreBusy(
                    f"{self.path} stayed locked by another process for {self.busy_timeout:g} s; "
                    "try again, or allow a longer wait with busy_timeout"
                )
            case apsw.CorruptError() | apsw.NotADBError():
                return StoreCorrupt(
                    f"{self.path} is damaged or not a database ({error}); nothing was changed. "
                    "A repair rebuilds indexes; if that does not help, restore a backup, "
                    "or salvage what can be read into a new file",
                    hint=Hint("repair_or_salvage", self.path),
                )
            case apsw.InterruptError():
                return SearchTimeout(
                    "the search took too long and was stopped: ask for fewer or rarer words, narrow it with filters, "
                    "or allow more time with search_timeout"
                )
            case apsw.FullError():
                return StoreError(f"the disk of {self.path} is full and nothing was written; free some space")
            case apsw.IOError():
                return StoreError(
                    f"{self.path} could not be read or written ({error}) and nothing was changed: its disk may be full "
                    "or failing, or a limit on the size of files was reached"
                )
            case apsw.ReadOnlyError() | apsw.PermissionsError():
                return StoreError(f"{self.path} cannot be written: check the permissions of the file and its folder")
            case apsw.CantOpenError():
                return StoreError(f"{self.path} cannot be opened: check the path and its permissions")
        return StoreError(f"the database refused an operation: {error}")

    def close(self) -> None:
        self._leave_replaced_file()
        with self._lock:
            self._closed = True
            idle, self._idle = [*self._idle, *self._take_observer()], []
        for connection in idle:
            self._close_connection(connection)
        if self._anchor:
            self._anchor.close()

    def borrow(self, loan: "_SqliteLoan") -> SqliteConnection:
        """Return an idle connection, or a new one, that is registered as lent."""
        take_back(self._loans)
        self.require_same_file()
        with self._lock:
            self._returned.wait_for(lambda: not self._forking)
            if self._closed:
                raise StoreError("this memory has been closed; open it again")
            self._loans.add(loan)
            if self._idle:
                return self._idle.pop()
        return self._open()

    def reopen(self, loan: "_SqliteLoan") -> SqliteConnection:
        """Lend a new connection in the place of one that is of no more use."""
        connection, loan.connection = loan.connection, None
        if connection:
            self._close_connection(connection)
        loan.connection = self._open()
        return loan.connection

    def give_back(self, loan: "_SqliteLoan") -> None:
        """Take a lent connection back, out of any transaction; in this order, so that Ctrl-C leaves it reclaimable."""
        with self._lock:  # two threads may reclaim it at once
            connection, usable = loan.connection, True
            if connection:
                try:
                    connection.end_streams()
                    if connection.in_transaction:
                        connection.execute("rollback")
                    # A cursor that Ctrl-C stopped, and whose frames are kept, holds on to what it saw of the database.
                    usable = connection.txn_state("main") == apsw.SQLITE_TXN_NONE
                    if self._identity and self._open_connections and not self._identity.has_log:
                        self._identity.remember_log()  # of a new file, SQLite makes it with the first transaction
                    if self._is_left:  # it may be the only one
                        self._keep(connection)
                except apsw.Error:
                    usable = False
            loan.connection = None
            if connection and usable and not self._closed and not self._is_left:
                self._idle.append(connection)
                connection = None
            self._loans.discard(loan)
            self._returned.notify_all()
        if connection:
            self._close_connection(connection)

    def require_same_file(self) -> None:
        """Refuse to go on with a file that was deleted or replaced: what is written to it would be lost."""
        if self._leave_replaced_file():
            kept = f"what was open is kept as {self._kept}; " if self._kept else ""
            raise StoreError(
                f"{self.path} was deleted or replaced while it was open, and nothing more is written to it; {kept}"
                "open it again to use the file that is there now, or to begin a new one"
            )

    def _leave_replaced_file(self) -> bool:
        """Close all connections if the file was deleted or replaced, and keep what only they still reach."""
        if self._identity is None or self._identity.is_untouched():
            return self._is_left
        with self._lock:  # which keeps the process from forking while SQLite reads the file
            if self._identity.is_same() and not self._is_view_outdated() and self._has_log():
                return self._is_left
            if not self._is_left:
                self._is_left = True
                idle, self._idle = [*self._idle, *self._take_observer()], []
                if idle:
                    self._keep(idle[0])
                for connection in idle:
                    self._close_connection(connection)
        return True

    def _is_view_outdated(self) -> bool:
        """
        Tell if an idle connection sees less than the file has: what it has cached is of another file.

        A file gets only what is in the log, which every connection sees before, unless it is opened as immutable.
        """
        if self._identity and self._idle and not self._name.endswith(_IMMUTABLE):
            with suppress(apsw.Error):
                return not self._identity.may_become(see_generation(self._idle[-1]))
        return False

    def _has_log(self) -> bool:
        """
        Tell if what is written next goes to the log beside the file, if need be by other connections.

        Another process may have opened a file that was written over this one, and set the log aside. Or it took this
        process for ended, as anybody here has read and closed the file, which ends its locks, and removed the log.
        """
        assert self._identity is not None
        if not self._open_connections or not self._identity.is_log_gone():
            return True
        if self._loans or not self._idle or not self._identity.is_generation(see_generation(self._idle[-1])):
            return False
        connections, self._idle = [*self._idle, *self._take_observer()], []
        for connection in connections:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._close_connection(connection)
        return True

    def _keep(self, connection: SqliteConnection) -> None:
        if self._kept is None and not self.read_only:
            with suppress(OSError, apsw.Error):  # the file that is there now is what counts
                self._kept = self._keep_open_database(connection)

    def _keep_open_database(self, connection: SqliteConnection) -> Path | None:
        """Keep what a connection to a file reaches that is no longer there; return the new file, if there is one."""
        assert self._identity is not None
        generation = see_generation(connection)
        if self._identity.may_become(generation):  # otherwise it reads what others write to the new file
            if not os.path.lexists(self.file):
                return None
            if not self._identity.is_inode_of(self.file):
                return self._copy_aside(connection, generation)
            if self._identity.is_log_gone():
                return self._find_kept_log(generation) or self._copy_aside(connection, generation)
        return set_foreign_log_aside(self.file, BEFORE_REPLACEMENT) or self._find_kept_log(generation)

    def _find_kept_log(self, generation: int) -> Path | None:
        """Return the log with a commit of this process that another one has set aside."""
        database = Path(self.file)
        logs = database.parent.glob(f"{glob.escape(database.name)}.before-{BEFORE_REPLACEMENT}*-wal")
        return next((log for log in logs if generation in read_logged_generations(log)), None)

    def _copy_aside(self, connection: SqliteConnection, generation: int) -> Path:
        """Copy the database that is still open, unless another process has done so, and remove its log."""
        database = Path(self.file)
        for kept in database.parent.glob(f"{glob.escape(database.name)}.before-{BEFORE_REPLACEMENT}*"):
            if read_generation(str(kept)) == generation:
                return kept
        kept = choose_kept_name(database, BEFORE_REPLACEMENT)
        with temporary_file(kept) as part:
            copy_pages(connection, part)
            rename_durably(part, kept)
        log = set_foreign_log_aside(self.file, BEFORE_REPLACEMENT)
        if log and generation in read_logged_generations(log):  # otherwise it is that of a third file
            log.unlink()
        return kept

    def _close_connection(self, connection: SqliteConnection) -> None:
        if self._is_left:  # the last one would write the log over the file that is there now
            if self._identity and self._identity.is_renamed():
                self._take_log_in(connection)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        with self._lock:  # before it is closed: whoever opens one afterwards may find another log
            self._open_connections.discard(connection)
        connection.close(True)

    def _take_log_in(self, connection: SqliteConnection) -> None:
        """Write the log to a file that was renamed, unless anybody else has the file open, by whatever name."""
        connection.set_busy_handler(None)
        with suppress(apsw.Error):  # also after it is done, as SQLite notices the new name, too
            connection.pragma("journal_mode", "delete")

    def before_fork(self) -> None:
        """Keep new connections from being opened until the fork is done, wait for those in use, and close the rest."""
        take_back(self._loans)
        self._leave_replaced_file()
        self._lock.acquire()
        self._forking = True
        self._returned.wait_for(lambda: not self._loans, timeout=self.busy_timeout)
        self._idle += self._take_observer()
        while self._idle:
            self._close_connection(self._idle.pop())

    def _take_observer(self) -> "list[SqliteConnection]":
        """Return the connection that observes commits, if there is one, to be closed with the idle ones."""
        observer, self._observer = self._observer, None
        return [observer] if observer else []

    def after_fork(self) -> None:
        self._forking = False
        self._returned.notify_all()
        self._lock.release()

    def _open(self) -> SqliteConnection:
        with self.translate_errors():
            connection = SqliteConnection(self._name, flags=self._flags)
            try:
                self._configure(connection)
                if not self.in_memory:
                    self._identity = self._identity or FileIdentity(self._address)
                    self._register(connection)
                    self.require_same_file()
            except FileNotFoundError as exc:
                connection.close()
                raise StoreError(f"{self.path} was deleted while it was opened; open it again") from exc
            except BaseException:
                self._open_connections.discard(connection)
                connection.close()
                raise
        return connection

    def _register(self, connection: SqliteConnection) -> None:
        """Note that a connection has opened the log, as all but those to an immutable file do."""
        if not self._name.endswith(_IMMUTABLE):
            with self._lock:
                if self._identity and not self._open_connections:
                    self._identity.remember_log()
                self._open_connections.add(connection)

    def _configure(self, connection: SqliteConnection) -> None:
        connection.set_busy_handler(self._make_busy_handler())
        # In this order: tables and application id are made in one transaction, so whoever sees a table sees the id.
        has_tables = connection.execute("select 1 from sqlite_master").get
        if has_tables and not is_application_id(connection.pragma("application_id")):
            raise StoreCorrupt(f"{self.path} is a database of another program; choose another file for Memorist")
        if not self.read_only and not self.in_memory:
            if not has_tables:
                self._begin_generations(connection)
            # Not every step of the change to WAL asks the busy handler.
            self.retry_while_locked(lambda: connection.pragma("journal_mode", "wal"))
        connection.pragma("synchronous", self._synchronous)
        connection.pragma("foreign_keys", True)
        connection.pragma("cache_size", -_PAGE_CACHE_KIB)
        connection.pragma("temp_store", "memory")
        connection.set_progress_handler(is_time_up, _STEPS_BETWEEN_CHECKS)
        connection.create_scalar_function("folded", _fold_text, 1, deterministic=True)
        register_functions(connection)

    def _begin_generations(self, connection: SqliteConnection) -> None:
        """Give an empty file its generation, in the file itself: before there is a log."""
        self.retry_while_locked(lambda: connection.execute(_BEGIN_WRITING))
        begin_generations(connection)
        self.retry_while_locked(lambda: connection.execute("commit"))

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


class _SqliteLoan(Loan[SqliteConnection]):
    def __init__(self, pool: ConnectionPool, transaction: str = "") -> None:
        self._pool, self._transaction = pool, transaction
        self.connection: SqliteConnection | None = None
        self._changes = 0  # of the connection, when the block began

    def _begin(self) -> SqliteConnection:
        with self._pool.translate_errors():
            self.connection = self._pool.borrow(self)
            if self._transaction:
                try:
                    self._begin_transaction(self.connection)
                except apsw.ReadOnlyError:
                    # On a full disk, SQLite opens to read only what it would have to create, and keeps it so.
                    self._begin_transaction(self._pool.reopen(self))
            return self.connection

    def _begin_transaction(self, connection: SqliteConnection) -> None:
        if self._transaction == _BEGIN_WRITING and connection.readonly("main"):
            # SQLite says so at the first write only.
            raise apsw.ReadOnlyError("attempt to write a readonly database")
        self._pool.retry_while_locked(lambda: connection.execute(self._transaction))
        self._changes = connection.total_changes()

    def _commit(self) -> None:
        if self._transaction and (connection := self.connection):
            self._pool.require_same_file()
            if connection.total_changes() > self._changes:
                if self._pool.before_commit:
                    self._pool.before_commit(connection)
                advance_generation(connection)
            self._pool.retry_while_locked(lambda: connection.execute("commit"))

    def end(self) -> None:
        self._pool.give_back(self)

    def _translate(self, error: BaseException) -> StoreError | None:
        return self._pool.translate(error) if isinstance(error, apsw.Error) else None


class SqliteSchema:
    """The schema of a SQLite database, as `migrations.Schema` needs it."""

    def __init__(self, pool: ConnectionPool, connection: SqliteConnection) -> None:
        self._pool, self._connection = pool, connection

    def load_applied(self) -> dict[str, str]:
        # Asked of the file: `table_exists` answers from the schema this connection read some time before.
        if not self._connection.fetch_value("select 1 from sqlite_master where name = '_migrations'"):
            return {}
        return dict(self._connection.fetch("select name, sha256 from _migrations"))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._pool.read_only:
            raise StoreError(f"{self._pool.path} has an older schema; open it once for writing to bring it up to date")
        # In `try` from the first line: Ctrl-C may come between any two.
        try:
            self._pool.retry_while_locked(lambda: self._connection.execute("begin immediate"))
            yield
            advance_generation(self._connection)
            self._pool.retry_while_locked(lambda: self._connection.execute("commit"))
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise

    def apply(self, name: str, sql: str, digest: str) -> None:
        self._connection.execute("create table if not exists _migrations(name text primary key, sha256 text not null)")
        try:
            self._connection.execute(sql)
        except apsw.CorruptError as exc:  # a repair is of no use: it would have to migrate the database first
            raise StoreCorrupt(
                f"{self._pool.path} is damaged ({exc}), cannot be brought up to date, and was left as it is; "
                "restore a backup, or salvage what can be read into a new file",
                hint=Hint("salvage", self._pool.path),
            ) from exc
        self._connection.execute("insert into _migrations(name, sha256) values (?, ?)", (name, digest))
        if not is_application_id(self._connection.pragma("application_id")):
            self._connection.pragma("application_id", APPLICATION_ID)

    def save_copy(self, before: str) -> None:
        """Copy the whole database, as it was before a migration, to a file beside it. The write lock is held."""
        if self._pool.in_memory or self._pool.read_only:
            return
        target = Path(f"{self._pool.file}.before-{before}")
        try:
            # Another connection: one that writes cannot be copied from.
            with temporary_file(target) as part, self._pool.reading() as source:
                copy_pages(source, part)
                rename_durably(part, target)
        except OSError as exc:
            raise StoreError(f"cannot keep a copy of the database as {target}: {exc.strerror}") from exc


def _fold_text(*texts: Any) -> Any:
    """Implement `folded(blob)` for SQL, whose own lower() knows ASCII only; of a blob, as text might be damaged."""
    return fold(decode_text(texts[0]))


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
