"""Connections to one PostgreSQL database for one namespace: a pool that lends each to one operation."""

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar, cast
from urllib.parse import quote

import psycopg
from psycopg import RawCursor, RawServerCursor, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format, TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from memorist.errors import SearchTimeout, StoreBusy, StoreError
from memorist.forks import renew_after_fork
from memorist.store.database import Conflict, Refused, Row, Values
from memorist.store.postgres.dialect import register_types, translate
from memorist.time_limit import is_time_up

MAX_CONNECTIONS = 16
APP_ROLE = "memorist_app"
_CHECK_INTERVAL = 0.02  # seconds between two looks at the time limit of a call
_CONNECT_SECONDS = 10
_PREPARED_STATEMENTS = 500
_ROWS_AT_ONCE = 1000  # of a stream
_SNAPSHOT = "begin isolation level repeatable read read only"
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_MAY_HAVE_HAPPENED = (
    "what was being written may not have been; writing it again is safe, as what is there already stays as it is"
)

T = TypeVar("T")
RawConnection = psycopg.Connection[Row]
_inherited: list[object] = []  # pools of the parent process: closing them here would end its sessions


class LimitedConnection(psycopg.Connection[Row]):
    """A connection whose statements are cancelled when the time of a call is up."""

    limited = True

    def wait(self, gen: Any, interval: float = _CHECK_INTERVAL, *arguments: Any, **options: Any) -> Any:
        return super().wait(self._watch(gen) if self.limited else gen, interval, *arguments, **options)

    def _watch(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        cancelled = False
        try:
            state = next(gen)
            while True:
                ready = yield state
                if not ready and not cancelled and is_time_up():
                    cancelled = True
                    self._try_cancel()
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


class PostgresDatabase:
    """
    Connections to one database, each of which sees one namespace.

    `before_commit` is called at the end of every `writing()` block, in its transaction.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str,
        read_only: bool = False,
        busy_timeout: float = 30.0,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._address = Address(url, writes=not read_only)
        self.namespace = namespace
        self.read_only = read_only
        self.busy_timeout = busy_timeout
        self.before_commit: Callable[[PostgresConnection], object] | None = None
        self._max_connections = max_connections
        self._lock_number = _hash_tenant(namespace)
        self._settings: dict[str, str] = {}
        self._halfvec = 0
        self._closed = False
        self._pool: ConnectionPool[LimitedConnection] | None = None
        self._lock = threading.Lock()
        self._loans: set[_PostgresLoan] = set()
        self._prepare()
        renew_after_fork(self)

    def __repr__(self) -> str:
        return f"<PostgresDatabase {self.path} {self.namespace!r}>"

    @property
    def path(self) -> str:
        return self._address.path

    def reading(self, *, stream: bool = False) -> "_PostgresLoan":
        return _PostgresLoan(self, stream=stream)

    def snapshot(self, *, stream: bool = False) -> "_PostgresLoan":
        return _PostgresLoan(self, _SNAPSHOT, stream=stream)

    def writing(self) -> "_PostgresLoan":
        if self.read_only:
            raise StoreError(f"{self.path} was opened read-only; nothing can be written to it")
        return _PostgresLoan(self, f"begin; select pg_advisory_xact_lock({self._lock_number})", writes=True)

    @contextmanager
    def administering(self) -> Iterator[RawConnection]:
        """Lend a new connection in the user's own role, outside of transactions, for changes to the schema."""
        with self.translate_errors(), self._connect() as raw:
            yield raw

    def close(self) -> None:
        with self._lock:
            self._closed, pool, self._pool = True, self._pool, None
        if pool:
            pool.close()

    def after_fork(self) -> None:
        """Give up the parent's connections, which the child must not touch."""
        _inherited.append((self._pool, self._loans))
        self._loans = set()
        self._lock = threading.Lock()
        self._pool = None

    # What loans need.

    def borrow(self, loan: "_PostgresLoan") -> LimitedConnection:
        self._reclaim({threading.get_ident(): sys._getframe()})
        try:
            raw = self._open_pool().getconn()
        except PoolClosed:
            raise StoreError("this memory has been closed; open it again") from None
        except PoolTimeout as exc:
            raise self._explain_timeout() from exc
        self._loans.add(loan)
        return raw

    def give_back(self, loan: "_PostgresLoan", raw: LimitedConnection) -> None:
        self._loans.discard(loan)
        pool: ConnectionPool[LimitedConnection] | None = getattr(raw, "_pool", None)
        if pool is None or pool is not self._pool:  # closed meanwhile
            raw.close()
        else:
            pool.putconn(raw)

    def replace(self, loan: "_PostgresLoan", raw: LimitedConnection) -> LimitedConnection:
        """Return a fresh connection for one that was lost; others that were lost with it are dropped."""
        self.give_back(loan, raw)
        loan.raw = None
        with suppress(PoolClosed):
            self._open_pool().check()
        return self.borrow(loan)

    def _reclaim(self, stacks: Mapping[int, FrameType]) -> None:
        """
        Take back what was lent to blocks that these threads have left.

        An exception that a signal raises can skip the end of a `with` block, and whoever keeps that exception, as
        notebooks do, keeps the connection with its transaction, and the lock of the namespace with it.
        """
        for loan in list(self._loans):
            if loan.frame and loan.thread in stacks and not _is_on_stack(loan.frame, stacks[loan.thread]):
                loan.end()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise PostgreSQL's errors as StoreErrors."""
        try:
            yield
        except psycopg.Error as exc:
            raise self.translate(exc) from exc

    def translate(self, error: psycopg.Error, *, written: bool = False) -> StoreError:
        """Return the StoreError that says what an error of PostgreSQL's means; `written`: something was sent before."""
        reason = self._address.conceal(_first_line(error))
        match error:
            case errors.QueryCanceled():
                return SearchTimeout(
                    "the search took too long and was stopped: ask for fewer or rarer words, narrow it with filters, "
                    "or allow more time with search_timeout"
                )
            case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
                return StoreBusy(
                    f"another process held the write lock of {self.namespace!r} in {self.path} for "
                    f"{self.busy_timeout:g} s; try again, or allow a longer wait with busy_timeout"
                )
            case errors.TooManyConnections():
                return StoreBusy(f"{self.path} has no connection left ({reason}); try again, or allow the server more")
            case errors.DiskFull():
                return StoreError(f"the disk of {self.path} is full and nothing was written; free some space")
            case errors.ReadOnlySqlTransaction():
                return StoreError(f"{self.path} cannot be written: it is a standby, or read-only ({reason})")
            case errors.InsufficientPrivilege():
                return StoreError(
                    f"{self.path} does not let this user in ({reason}); "
                    f"the owner of the tables can: grant {APP_ROLE} to that user"
                )
            case errors.CharacterNotInRepertoire():
                return Refused("PostgreSQL stores no text with the character NUL; nothing was written")
            case errors.ProgramLimitExceeded():
                return Refused(f"a name, tag or path is too long for an index ({reason}); nothing was written")
        if is_lost(error):
            then = _MAY_HAVE_HAPPENED if written else "check that the server runs, and try again"
            return StoreError(f"the connection to {self.path} was lost ({reason}): {then}")
        return StoreError(f"the database refused an operation: {reason}")

    def _prepare(self) -> None:
        """Bring the schema up to date, and learn what every connection needs."""
        from memorist.store.postgres.schema import prepare_schema  # which needs this module

        with self.administering() as raw:
            role, self._halfvec = prepare_schema(raw, self.path, read_only=self.read_only)
            self._settings = {
                "memorist.tenant": self.namespace,
                "lock_timeout": f"{max(1, round(self.busy_timeout * 1000))}ms",
                "timezone": _find_time_zone(raw),
            }
            if self.read_only:
                self._settings["default_transaction_read_only"] = "on"
            if role:
                self._settings["role"] = role

    def _connect(self) -> RawConnection:
        try:
            raw = LimitedConnection.connect(self._address.conninfo, autocommit=True)
        except psycopg.Error as exc:
            reason = self._address.conceal(_first_line(exc))
            raise StoreError(
                f"cannot connect to {self.path}: {reason}; check the address, the user and the password, "
                "and that the server runs"
            ) from None
        return raw

    def _open_pool(self) -> ConnectionPool[LimitedConnection]:
        pool = self._pool
        if pool is not None:
            return pool
        with self._lock:
            if self._closed:
                raise StoreError("this memory has been closed; open it again")
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._address.conninfo,
                    connection_class=LimitedConnection,
                    kwargs={"autocommit": True},
                    min_size=0,
                    max_size=self._max_connections,
                    timeout=self.busy_timeout,
                    configure=self._configure,
                    open=True,
                )
            return self._pool

    def _configure(self, raw: LimitedConnection) -> None:
        """Bind a new connection to the namespace, in a role that row security holds for."""
        raw.prepared_max = _PREPARED_STATEMENTS
        # Set for the session by value: a name may contain any character.
        calls = ", ".join(f"set_config(${2 * n + 1}, ${2 * n + 2}, false)" for n in range(len(self._settings)))
        cursor = RawCursor(raw)
        cursor.execute(f"select {calls}".encode(), [text for pair in self._settings.items() for text in pair])
        if cursor.execute("select row_security_active('memories')").fetchone() != (True,):
            raise psycopg.OperationalError("row security is not active for this user")
        register_types(raw, self._halfvec)

    def _explain_timeout(self) -> StoreError:
        """Return the error of a pool that had no connection to lend in time."""
        pool = self._pool
        if pool and pool.get_stats().get("pool_size", 0) >= self._max_connections:
            return StoreBusy(
                f"all {self._max_connections} connections to {self.path} were in use for {self.busy_timeout:g} s; "
                "try again, or allow a longer wait with busy_timeout"
            )
        try:
            with self._connect() as raw:
                self._configure(raw)  # type: ignore[arg-type]
        except psycopg.Error as exc:
            return self.translate(exc)
        except StoreError as exc:
            return exc
        return StoreBusy(f"{self.path} gave no connection within {self.busy_timeout:g} s; try again")


class Address:
    """Where a database is, with its password apart."""

    def __init__(self, url: str, *, writes: bool) -> None:
        try:
            self._parts = conninfo_to_dict(url)
        except psycopg.Error:
            # Without the reason: it may quote the password.
            raise StoreError(
                "the address of the database cannot be read; write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            ) from None
        self._parts.setdefault("connect_timeout", str(_CONNECT_SECONDS))
        self._parts.setdefault("application_name", "memorist")
        if writes and "," in str(self._parts.get("host", "")):  # of several servers, the one that is the primary now
            self._parts.setdefault("target_session_attrs", "read-write")

    def __repr__(self) -> str:
        return f"<Address {self.path}>"

    @property
    def conninfo(self) -> str:
        return make_conninfo(**cast(dict[str, Any], self._parts))

    @property
    def path(self) -> str:
        part = {name: quote(str(value), safe=",") for name, value in self._parts.items() if value}
        user = f"{part['user']}@" if "user" in part else ""
        port = f":{part['port']}" if part.get("port", "").strip(",") else ""
        return f"postgresql://{user}{part.get('host', part.get('hostaddr', ''))}{port}/{part.get('dbname', '')}"

    def conceal(self, text: str) -> str:
        """Return a text without the password."""
        for name in _SECRETS:
            if secret := self._parts.get(name):
                text = text.replace(str(secret), "***")
        return text


class PostgresConnection:
    """A connection, lent for one operation, that writes the fragments of a statement in PostgreSQL's dialect."""

    def __init__(self, loan: "_PostgresLoan") -> None:
        self._loan = loan
        self._changes = 0
        self._process = os.getpid()
        self._cursors = count()

    def execute(self, sql: str, values: Values = None, /) -> None:
        self._run(sql, values)

    def executemany(self, sql: str, rows: Iterable[Mapping[str, Any]], /) -> None:
        statement = translate(sql)
        ordered = [statement.order(row) for row in rows]
        self._changes = 0
        if ordered:
            self._attempt(lambda raw: self._execute_many(raw, statement.sql, ordered))

    def changes(self) -> int:
        return self._changes

    def fetch(self, sql: str, values: Values = None) -> list[Row]:
        return self._run(sql, values)

    def fetch_value(self, sql: str, values: Values = None) -> Any:
        rows = self._run(sql, values)
        return _first_value(rows[0]) if rows else None

    def fetch_each(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        statement = translate(sql)
        ordered = [statement.order(row) for row in rows]
        return self._attempt(lambda raw: self._fetch_each(raw, statement.sql, ordered)) if ordered else []

    def stream(self, sql: str, values: Values = None) -> Iterator[Row]:
        statement = translate(sql)
        ordered = statement.order(values)
        begun = self._begin_stream()
        cursor = self._attempt(lambda raw: self._declare(raw, statement.sql, ordered))
        self._loan.cursors.append(cursor)
        try:
            yield from self._read_rows(cursor)
        finally:
            if not cursor.closed:
                self._loan.cursors.remove(cursor)
                with suppress(psycopg.Error):
                    cursor.close()
                if begun and not self._loan.cursors:
                    end_transaction(cursor.connection)

    def _run(self, sql: str, values: Values) -> list[Row]:
        statement = translate(sql)
        ordered = statement.order(values)
        return self._attempt(lambda raw: self._execute(raw, statement.sql, ordered))

    def _execute(self, raw: LimitedConnection, sql: str, values: list[Any]) -> list[Row]:
        cursor = RawCursor(raw)
        cursor.execute(sql.encode(), values, binary=True)
        self._changes = max(cursor.rowcount, 0)
        return [] if cursor.description is None else cursor.fetchall()

    def _execute_many(self, raw: LimitedConnection, sql: str, rows: list[list[Any]]) -> None:
        cursor = RawCursor(raw)
        cursor.executemany(sql.encode(), rows)
        self._changes = max(cursor.rowcount, 0)

    def _fetch_each(self, raw: LimitedConnection, sql: str, rows: list[list[Any]]) -> list[Any]:
        cursor = RawCursor(raw)
        cursor.format = Format.BINARY
        cursor.executemany(sql.encode(), rows, returning=True)
        found = []
        for _ in rows:
            row = cursor.fetchone()
            found.append(None if row is None else _first_value(row))
            cursor.nextset()
        return found

    def _declare(self, raw: LimitedConnection, sql: str, values: list[Any]) -> RawServerCursor[Row]:
        cursor = RawServerCursor(raw, f"memorist_{next(self._cursors)}")
        cursor.itersize = _ROWS_AT_ONCE
        cursor.execute(sql.encode(), values, binary=True)
        return cursor

    def _begin_stream(self) -> bool:
        """Begin a transaction for a stream where blocks have none; return whether it is to end with the stream."""
        if self._loan.begin:
            return False
        if not self._loan.cursors:
            self._attempt(lambda raw: run_control(raw, _SNAPSHOT))
        return True

    def _read_rows(self, cursor: RawServerCursor[Row]) -> Iterator[Row]:
        while rows := self._translating(lambda: cursor.fetchmany(_ROWS_AT_ONCE)):
            yield from rows

    def _attempt(self, send: Callable[[LimitedConnection], T]) -> T:
        """Send a statement; once more on a fresh connection if the connection was lost and nothing depended on it."""
        if self._process != os.getpid():
            raise StoreError("a connection was taken into another process; open the memory in each process by itself")
        loan = self._loan
        try:
            return send(loan.require_raw())
        except psycopg.OperationalError as exc:
            if loan.begin or loan.cursors or not is_lost(exc):
                raise loan.translate(exc) from exc
        except psycopg.Error as exc:
            raise loan.translate(exc) from exc
        return self._translating(lambda: send(loan.renew()))

    def _translating(self, operation: Callable[[], T]) -> T:
        try:
            return operation()
        except psycopg.Error as exc:
            raise self._loan.translate(exc) from exc


class _PostgresLoan:
    """One connection, lent for a `with` block and in a transaction if one is to begin."""

    def __init__(
        self, database: PostgresDatabase, begin: str = "", *, writes: bool = False, stream: bool = False
    ) -> None:
        self._database, self.begin, self._writes, self._stream = database, begin, writes, stream
        self.raw: LimitedConnection | None = None
        self.cursors: list[RawServerCursor[Row]] = []
        self.frame: FrameType | None = None
        self.thread = threading.get_ident()

    def __enter__(self) -> PostgresConnection:
        # All of it within `try`: an exception that a signal raises between two lines must not leave a transaction open.
        try:
            self.frame = None if self._stream else sys._getframe(1)
            self.raw = self._database.borrow(self)
            if self.begin:
                self._start()
            return PostgresConnection(self)
        except BaseException as exc:
            self.end()
            if isinstance(exc, psycopg.Error):
                raise self._database.translate(exc) from exc
            raise

    def _start(self) -> None:
        try:
            run_control(self.require_raw(), self.begin, limited=True)
        except psycopg.OperationalError as exc:
            if not is_lost(exc):
                raise
            run_control(self.renew(), self.begin, limited=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._writes and error is None:
                self._commit()
        except psycopg.Error as exc:
            raise self.translate(exc) from exc
        finally:
            self.end()

    def _commit(self) -> None:
        if self._database.before_commit:
            self._database.before_commit(PostgresConnection(self))
        raw = self.require_raw()
        if raw.info.transaction_status == TransactionStatus.INERROR:  # PostgreSQL would roll it back without a word
            raise StoreError("a statement failed before, so nothing was written; write it again")
        run_control(raw, "commit")

    def require_raw(self) -> LimitedConnection:
        if self.raw is None:
            raise StoreError("a connection was used after it had been given back")
        return self.raw

    def renew(self) -> LimitedConnection:
        """Take a fresh connection in the place of one that was lost."""
        self.raw = self._database.replace(self, self.require_raw())
        return self.raw

    def translate(self, error: psycopg.Error) -> Exception:
        if isinstance(error, psycopg.IntegrityError):
            return Conflict(_first_line(error))
        if isinstance(error, errors.ReadOnlySqlTransaction) and self._writes and self.raw is not None:
            self.raw.close()  # a primary that has become a standby: the next connection may find the new one
        return self._database.translate(error, written=self._writes)

    def end(self) -> None:
        """Give the connection back, out of any transaction."""
        raw, self.raw, self.frame = self.raw, None, None
        if raw is not None:
            end_transaction(raw)
            for cursor in self.cursors:  # which ended with the transaction
                cursor.close()
            self._database.give_back(self, raw)


def end_transaction(raw: RawConnection) -> None:
    if not raw.closed and raw.info.transaction_status != TransactionStatus.IDLE:
        with suppress(psycopg.Error):
            run_control(cast(LimitedConnection, raw), "rollback")


def _first_value(row: Row) -> Any:
    """Return the value of a row with one column; a row with several is a value itself."""
    return row if len(row) > 1 else row[0]


def _is_on_stack(frame: FrameType, top: FrameType | None) -> bool:
    while top and top is not frame:
        top = top.f_back
    return top is not None


def run_control(raw: LimitedConnection, sql: str, *, limited: bool = False) -> None:
    """Run statements without values in one round trip; those that end a transaction have no time limit."""
    raw.limited = limited
    try:
        psycopg.Cursor(raw).execute(sql.encode())
    finally:
        raw.limited = True


def is_lost(error: psycopg.Error) -> bool:
    """Return whether an error says that the connection is gone, or the server going."""
    return isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )


def _hash_tenant(namespace: str) -> int:
    """Return the number of the lock that writers of one namespace take."""
    return int.from_bytes(hashlib.sha256(f"memorist\0{namespace}".encode()).digest()[:8], "big", signed=True)


def _first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).strip().partition("\n")[0]


def _find_time_zone(raw: RawConnection) -> str:
    """Return this machine's time zone by a name that the server knows, or its present offset."""
    named = os.environ.get("TZ", "").lstrip(":")
    with suppress(OSError):
        named = named or str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2]
    if named:
        with suppress(psycopg.Error):
            raw.execute("select set_config('timezone', %s, false)", (named,))
            return named
    offset = time.localtime().tm_gmtoff
    sign = "-" if offset >= 0 else "+"  # POSIX counts to the west
    return f"<local>{sign}{abs(offset) // 3600:02}:{abs(offset) % 3600 // 60:02}"
