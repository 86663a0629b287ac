"""Connections to one PostgreSQL database for one namespace: a pool that lends each to one operation."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg
from psycopg import RawCursor, RawServerCursor, errors
from psycopg.pq import Format, TransactionStatus

from memorist.errors import SearchTimeout, StoreBusy, StoreError
from memorist.forks import renew_after_fork
from memorist.store.database import Conflict, Refused, Row, Values
from memorist.store.loans import Loan, take_back
from memorist.store.postgres import citus
from memorist.store.postgres.dialect import register_types, translate
from memorist.store.postgres.pool import (
    TOO_LONG,
    Address,
    LimitedConnection,
    Pool,
    first_line,
    is_lost,
    run_control,
    split_options,
)
from memorist.store.postgres.pool import (
    RawConnection as RawConnection,
)
from memorist.store.postgres.replica import MAX_STALENESS, Replica
from memorist.store.postgres.schema import APP_ROLE, prepare_schema

MAX_CONNECTIONS = 16
_PREPARED_STATEMENTS = 500
_ROWS_AT_ONCE = 1000  # of a stream
ANALYZE_AFTER, _MAX_ANALYZE_AFTER = 1000, 64_000  # rows written by this process; twice as many each time
_ANALYZE = (
    "analyze memories, memory_tags, memory_fields, memory_texts, vocabulary, session_memories, vectors, part_vectors, "
    "unembedded"
)
_SNAPSHOT = "begin isolation level repeatable read read only"
# A search reads a few rows by indexes, in memory or on a disk without a head; to compile it would take longer.
_PLANNING = {"random_page_cost": "1.1", "jit": "off"}
_MAY_HAVE_HAPPENED = (
    "what was being written may not have been; writing it again is safe, as what is there already stays as it is"
)

T = TypeVar("T")
_inherited: list[object] = []  # loans of the parent process


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
        replica: str | None = None,
        max_staleness: float = MAX_STALENESS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        url, options = split_options(url, ("replica", "max_staleness"))
        self.namespace = namespace
        self.read_only = read_only
        self.busy_timeout = busy_timeout
        self.before_commit: Callable[[PostgresConnection], object] | None = None
        self._lock_number = _hash_tenant(namespace)
        self._settings: dict[str, str] = {}
        self._halfvec = 0
        self.is_distributed = False
        self._written, self._analyze_after = 0, ANALYZE_AFTER  # rows
        self._loans: set[_PostgresLoan] = set()
        limits: Any = {"busy_timeout": busy_timeout, "max_connections": max_connections}
        self._primary = Pool(Address(url, writes=not read_only), self._configure, **limits)
        self._replica: Replica | None = None
        if replica := replica or options.get("replica"):
            standby = Pool(Address(replica, writes=False), self._configure, **limits)
            self._replica = Replica(standby, self._primary, _read_seconds(options.get("max_staleness"), max_staleness))
        self._prepare()
        renew_after_fork(self)

    def __repr__(self) -> str:
        return f"<PostgresDatabase {self.path} {self.namespace!r}>"

    @property
    def path(self) -> str:
        return self._primary.address.path

    @property
    def staleness(self) -> float | None:
        """The age of the state that readers see, at most, in seconds; None where they read from the primary."""
        return self._replica.staleness if self._replica else None

    def reading(self) -> "_PostgresLoan":
        return self.snapshot() if self.is_distributed else _PostgresLoan(self)

    def snapshot(self) -> "_PostgresLoan":
        return _PostgresLoan(self, self._begin(_SNAPSHOT))

    def writing(self) -> "_PostgresLoan":
        if self.read_only:
            raise StoreError(f"{self.path} was opened read-only; nothing can be written to it")
        # Whatever the server's default is: a statement has to see what was written while it waited for the lock.
        begin = self._begin("begin isolation level read committed read write")
        return _PostgresLoan(self, f"{begin}; select pg_advisory_xact_lock({self._lock_number})", writes=True)

    def _begin(self, statement: str) -> str:
        return f"{statement}; {citus.settings_of(self.namespace)}" if self.is_distributed else statement

    def read_mark(self) -> None:
        """Return nothing: a server has a mark of all its databases alone, and asking for it is a round trip."""

    @contextmanager
    def administering(self) -> Iterator[RawConnection]:
        """Lend a new connection in the user's own role, outside of transactions, for changes to the schema."""
        with self.translate_errors(), self._primary.connect() as raw:
            yield raw

    def note_rows(self, count: int) -> None:
        """Take note of rows that were written, many of which make plans outdated."""
        self._written += count

    def analyze(self) -> None:
        """
        Have the server look at the tables again after many rows: it would do so by itself, but in a minute.

        A user who does not own the tables may not, and goes on without.
        """
        if self._written < self._analyze_after:
            return
        self._written, self._analyze_after = 0, min(2 * self._analyze_after, _MAX_ANALYZE_AFTER)
        with suppress(StoreError), self.administering() as raw:
            raw.execute(_ANALYZE)

    def close(self) -> None:
        for pool in self._list_pools():
            pool.close()

    def after_fork(self) -> None:
        """Give up the parent's connections, which the child must not touch."""
        _inherited.append(self._loans)
        self._loans = set()
        for pool in self._list_pools():
            pool.after_fork()

    def _list_pools(self) -> list[Pool]:
        return [self._primary, *([self._replica.pool] if self._replica else [])]

    # What loans need.

    def borrow(self, loan: "_PostgresLoan") -> LimitedConnection:
        take_back(self._loans)
        raw = self._replica.take() if self._replica and loan.may_read_replica else None
        if raw is not None and self._replica:
            loan.pool = self._replica.pool
        else:
            loan.pool = self._primary
            raw = self._primary.take(lambda: take_back(self._loans))
        self._loans.add(loan)
        return raw

    def give_back(self, loan: "_PostgresLoan", raw: LimitedConnection) -> None:
        self._loans.discard(loan)
        (loan.pool or self._primary).put(raw)

    def replace(self, loan: "_PostgresLoan", raw: LimitedConnection) -> LimitedConnection:
        """Return a fresh connection, to the primary, for one that was lost; those lost with it are dropped."""
        self.give_back(loan, raw)
        loan.raw, loan.may_read_replica = None, False
        if self._replica and loan.pool is self._replica.pool:
            self._replica.avoid()
        else:
            self._primary.drop_lost()
        return self.borrow(loan)

    def commit(self, raw: LimitedConnection) -> None:
        if self._replica:
            self._replica.commit(raw)
        else:
            run_control(raw, "commit")

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise PostgreSQL's errors as StoreErrors."""
        try:
            yield
        except psycopg.Error as exc:
            raise self.translate(exc) from exc

    def translate(self, error: psycopg.Error, *, written: bool = False) -> StoreError:
        """Return the StoreError that says what an error of PostgreSQL's means; `written`: something was sent before."""
        reason = first_line(error)
        for pool in self._list_pools():
            reason = pool.address.conceal(reason)
        match error:
            case errors.QueryCanceled():
                return SearchTimeout(TOO_LONG)
            case errors.DeadlockDetected() | errors.SerializationFailure():
                return StoreBusy(f"another program changed {self.path} at the same time ({reason}); try again")
            case errors.LockNotAvailable():
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
        with self.administering() as raw:
            role, self._halfvec = prepare_schema(raw, self.path, read_only=self.read_only)
            self._settings = {
                "memorist.tenant": self.namespace,
                "lock_timeout": f"{max(1, round(self.busy_timeout * 1000))}ms",
                "timezone": _find_time_zone(raw),
                **_PLANNING,
            }
            self.is_distributed = citus.is_distributed(raw)
            if self.is_distributed:
                self._settings["citus.propagate_set_commands"] = "local"
            if self.read_only:
                self._settings["default_transaction_read_only"] = "on"
            if role:
                self._settings["role"] = role

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

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row], ending: str = "", /) -> list[Row]:
        places = ", ".join(f":{name}" for name in columns)
        sql = f"insert into {table}({', '.join(columns)}) values ({places}) {ending}"
        named = [dict(zip(columns, row, strict=True)) for row in rows]
        if "returning" not in ending:
            self.executemany(sql, named)
            return []
        return [row for row in self.fetch_each(sql, named) if row is not None]

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
        cursor.execute(self._loan.adapt(sql).encode(), values, binary=True)
        self._changes = max(cursor.rowcount, 0)
        return [] if cursor.description is None else cursor.fetchall()

    def _execute_many(self, raw: LimitedConnection, sql: str, rows: list[list[Any]]) -> None:
        cursor = RawCursor(raw)
        cursor.executemany(self._loan.adapt(sql).encode(), rows)
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
            if loan.begin or loan.cursors or not (is_lost(exc) or isinstance(exc, errors.SerializationFailure)):
                raise loan.translate(exc) from exc  # a standby may give up a reader for what it has to replay
        except psycopg.Error as exc:
            raise loan.translate(exc) from exc
        return self._translating(lambda: send(loan.renew()))

    def _translating(self, operation: Callable[[], T]) -> T:
        try:
            return operation()
        except psycopg.Error as exc:
            raise self._loan.translate(exc) from exc


class _PostgresLoan(Loan[PostgresConnection]):
    def __init__(self, database: PostgresDatabase, begin: str = "", *, writes: bool = False) -> None:
        self._database, self.begin, self._writes = database, begin, writes
        self.may_read_replica = not writes
        self.pool: Pool | None = None
        self.raw: LimitedConnection | None = None
        self.cursors: list[RawServerCursor[Row]] = []

    def _begin(self) -> PostgresConnection:
        with self._database.translate_errors():
            self.raw = self._database.borrow(self)
            if self.begin:
                try:
                    run_control(self.raw, self.begin, limited=True)
                except psycopg.OperationalError as exc:
                    if not is_lost(exc):
                        raise
                    run_control(self.renew(), self.begin, limited=True)
        return PostgresConnection(self)

    def _commit(self) -> None:
        if not self._writes:
            return
        self._require_sound()
        if self._database.before_commit:
            self._database.before_commit(PostgresConnection(self))
            self._require_sound()
        self._database.commit(self.require_raw())
        self._database.analyze()

    def _require_sound(self) -> None:
        """Raise if a statement has failed: PostgreSQL would roll the transaction back without a word."""
        if self.require_raw().info.transaction_status == TransactionStatus.INERROR:
            raise StoreError("a statement failed before, so nothing was written; write it again")

    def require_raw(self) -> LimitedConnection:
        if self.raw is None:
            raise StoreError("a connection was used after it had been given back")
        return self.raw

    def renew(self) -> LimitedConnection:
        """Take a fresh connection in the place of one that was lost."""
        self.raw = self._database.replace(self, self.require_raw())
        return self.raw

    def adapt(self, sql: str) -> str:
        return citus.adapt_statement(sql) if self._database.is_distributed else sql

    def _translate(self, error: BaseException) -> StoreError | None:
        return self.translate(error) if isinstance(error, psycopg.Error) else None

    def translate(self, error: psycopg.Error) -> StoreError:
        if isinstance(error, psycopg.IntegrityError):
            return Conflict(first_line(error))
        if isinstance(error, errors.ReadOnlySqlTransaction) and self._writes and self.raw is not None:
            self.raw.close()  # a primary that has become a standby: the next connection may find the new one
        return self._database.translate(error, written=self._writes)

    def end(self) -> None:
        raw, self.raw = self.raw, None
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


def _hash_tenant(namespace: str) -> int:
    """Return the number of the lock that writers of one namespace take."""
    return int.from_bytes(hashlib.sha256(f"memorist\0{namespace}".encode()).digest()[:8], "big", signed=True)


def _read_seconds(text: str | None, default: float) -> float:
    try:
        return default if text is None else float(text)
    except ValueError:
        raise StoreError(f"max_staleness is a number of seconds, such as 5, and not {text!r}") from None


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
