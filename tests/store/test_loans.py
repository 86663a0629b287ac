"""Connections are lent for `with` blocks, and come back however a block is left."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from memorist.store.database import Connection, Database
from memorist.store.postgres.connections import PostgresDatabase
from memorist.store.sqlite.connections import ConnectionPool
from memorist.store.sqlite.generations import APPLICATION_ID
from timeouts import MAX_WAIT_SECONDS

NAMES = "select name from lenses order by name"


def open_pool(path: Path) -> ConnectionPool:
    return ConnectionPool(str(path), read_only=False, busy_timeout=0.5, synchronous="off")


@pytest.fixture
def pool(path: Path) -> Iterator[ConnectionPool]:
    with closing(open_pool(path)) as pool:
        with pool.writing() as connection:
            connection.execute("create table lenses(namespace text, name text, definition text)")
            connection.pragma("application_id", APPLICATION_ID)
        yield pool


@pytest.fixture
def server(postgres_url: str) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(postgres_url, namespace="default", busy_timeout=1, max_connections=2)) as database:
        yield database


@pytest.fixture(params=["pool", "server"])
def lender(request: pytest.FixtureRequest) -> Database:
    lender: Database = request.getfixturevalue(request.param)
    return lender


def add(connection: Connection, name: str) -> None:
    sql = "insert into lenses(namespace, name, definition) values ('default', :name, '{}')"
    connection.execute(sql, {"name": name})


def interrupt_at_call(number: int, function: Callable[[], None]) -> KeyboardInterrupt | None:
    """Run a function, and raise what Ctrl-C does as a certain call of a Python function in it begins."""
    calls = count()

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        if next(calls) == number:
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt as exc:
        return exc
    finally:
        sys.settrace(before)
    return None


def test_an_interrupt_at_any_call_leaves_no_transaction_behind(pool: ConnectionPool, path: Path) -> None:
    kept = []  # with all that the frames hold

    def write() -> None:
        with pool.writing() as connection:
            add(connection, "interrupted")

    with closing(open_pool(path)) as other:
        for number in count():
            interrupted = interrupt_at_call(number, write)
            if interrupted is None:
                break
            kept.append(interrupted)
            for lender in (pool, other):
                with lender.writing() as connection:
                    add(connection, f"after {number}")
    assert len(kept) > 20
    with pool.reading() as connection:
        names = [name for (name,) in connection.fetch(NAMES)]
    assert {name for name in names if name != "interrupted"} == {f"after {number}" for number in range(len(kept))}
    assert len(names) >= 2 * len(kept)


def test_blocks_within_each_other_have_connections_of_their_own(lender: Database) -> None:
    with lender.reading() as first, lender.reading() as second:
        assert first is not second
        assert first.fetch(NAMES) == second.fetch(NAMES) == []


def test_a_suspended_generator_keeps_its_connection_until_it_is_dropped(lender: Database) -> None:
    def read() -> Iterator[Connection]:
        with lender.snapshot() as connection:
            connection.fetch(NAMES)  # which is the moment that is seen
            yield connection

    reading = read()
    theirs = next(reading)
    for name in ("one", "two"):
        with lender.writing() as connection:
            assert connection is not theirs
            add(connection, name)
    assert theirs.fetch(NAMES) == []
    del reading, theirs

    with lender.reading() as first, lender.reading() as second:
        assert first.fetch(NAMES) == second.fetch(NAMES) == [("one",), ("two",)]


def test_what_a_thread_that_goes_on_has_left_is_taken_back_by_another(lender: Database) -> None:
    left, done = threading.Event(), threading.Event()

    def leave() -> None:
        loan: Any = lender.writing()
        loan.__enter__()  # and never `__exit__`
        left.set()
        done.wait(MAX_WAIT_SECONDS)

    thread = threading.Thread(target=leave)
    thread.start()
    left.wait(MAX_WAIT_SECONDS)
    with lender.writing() as connection:
        add(connection, "one")
    done.set()
    thread.join()


def test_what_would_not_hold_a_block_is_refused(lender: Database) -> None:
    with pytest.raises(TypeError), ExitStack() as stack:
        stack.enter_context(lender.reading())
