"""Pools of connections to PostgreSQL, and the addresses they connect to."""

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from memorist.errors import SearchTimeout, StoreBusy, StoreError
from memorist.store.database import Row
from memorist.time_limit import is_time_up

_CHECK_INTERVAL = 0.02  # seconds between two looks at the time limit of a call
_CONNECT_SECONDS = 10
_PATIENCE = 1.0  # seconds that a pool has for a connection before it is found out why there is none
_SECRETS = ("password", "sslpassword", "oauth_client_secret")

TOO_LONG = (
    "the search took too long and was stopped: ask for fewer or rarer words, narrow it with filters, "
    "or allow more time with search_timeout"
)

# Whoever wants the pool's log sets one up; without, Python would print its warnings, and our errors say the same.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

RawConnection = psycopg.Connection[Row]
_inherited: list[object] = []  # from the parent process: to close its connections here would end its sessions


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


class Address:
    """The address of a database, with its password apart."""

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


def split_options(url: str, names: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return a URL without some options of ours, which libpq does not know, and their values."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, {}
    options = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in options if name in names}
    if not own:
        return url, {}
    rest = urlencode([(name, value) for name, value in options if name not in names], quote_via=quote)
    return parts._replace(query=rest).geturl(), own


class Pool:
    """Connections to one address, opened as they are needed and prepared by `configure`."""

    def __init__(
        self,
        address: Address,
        configure: Callable[[LimitedConnection], None],
        *,
        busy_timeout: float,
        max_connections: int,
    ) -> None:
        self.address = address
        self._configure = configure
        self._busy_timeout = busy_timeout
        self._max_connections = max_connections
        self._pool: ConnectionPool[LimitedConnection] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def take(self, reclaim: Callable[[], object]) -> LimitedConnection:
        """Return a connection; `reclaim` is called if none is free, and may give some back."""
        deadline = time.monotonic() + self._busy_timeout
        while True:
            pool = self._open()
            try:
                return pool.getconn(timeout=max(0.0, min(_PATIENCE, deadline - time.monotonic())))
            except PoolClosed:
                raise StoreError("this memory has been closed; open it again") from None
            except PoolTimeout:
                reclaim()
                if is_time_up():
                    raise SearchTimeout(TOO_LONG) from None
                if self._replace(pool):
                    deadline = max(deadline, time.monotonic() + _PATIENCE)
                elif time.monotonic() >= deadline:
                    raise StoreBusy(
                        f"no connection to {self.address.path} was free for {self._busy_timeout:g} s (there may be "
                        f"{self._max_connections}); try again, or allow a longer wait with busy_timeout"
                    ) from None

    def put(self, raw: LimitedConnection) -> None:
        """Take a connection back, out of any transaction."""
        pool: ConnectionPool[LimitedConnection] | None = getattr(raw, "_pool", None)
        if pool is None or pool is not self._pool:  # closed meanwhile
            raw.close()
        else:
            pool.putconn(raw)

    def drop_lost(self) -> None:
        """Drop the idle connections that were lost."""
        with suppress(PoolClosed):
            self._open().check()

    def connect(self) -> LimitedConnection:
        """Return a new connection that is not one of the pool."""
        try:
            return LimitedConnection.connect(self.address.conninfo, autocommit=True)
        except psycopg.Error as exc:
            raise StoreError(
                f"cannot connect to {self.address.path}: {self.address.conceal(first_line(exc))}; "
                "check the address, the user and the password, and that the server runs"
            ) from None

    def close(self) -> None:
        with self._lock:
            self._closed, pool, self._pool = True, self._pool, None
        if pool:
            pool.close()

    def after_fork(self) -> None:
        """Give up the parent's connections, which the child must not touch."""
        _inherited.append(self._pool)
        self._lock = threading.Lock()
        self._pool = None

    def _open(self) -> ConnectionPool[LimitedConnection]:
        pool = self._pool
        if pool is not None:
            return pool
        with self._lock:
            if self._closed:
                raise StoreError("this memory has been closed; open it again")
            if self._pool is None:
                self._pool = ConnectionPool(
                    self.address.conninfo,
                    connection_class=LimitedConnection,
                    kwargs={"autocommit": True},
                    min_size=0,
                    max_size=self._max_connections,
                    configure=self._configure,
                    num_workers=2,  # threads, of every namespace that is open
                    open=True,
                )
            return self._pool

    def _replace(self, pool: ConnectionPool[LimitedConnection]) -> bool:
        """
        Replace a pool that failed to connect where that succeeds now; return whether it was replaced, or raise.

        A pool says nothing of why it cannot connect, and waits longer after each attempt: it would not notice for a
        while that a server is back.
        """
        if not pool.get_stats().get("connections_errors"):
            return False  # all are in use, or a connection takes its time
        with self.connect() as raw:
            self._configure(raw)
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.close()
        return True


def run_control(raw: LimitedConnection, sql: str, *, limited: bool = False) -> psycopg.Cursor[Row]:
    """Run statements without values in one round trip; those that end a transaction have no time limit."""
    raw.limited = limited
    try:
        return psycopg.Cursor(raw).execute(sql.encode())
    finally:
        raw.limited = True


def is_lost(error: psycopg.Error) -> bool:
    """Return whether an error says that the connection is gone, or the server going."""
    return isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )


def first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).strip().partition("\n")[0]
