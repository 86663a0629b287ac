"""Connections lent to threads: each thread has one of its own, whatever the others do meanwhile."""

import threading
from contextlib import closing
from pathlib import Path

import apsw

from memorist.store.sqlite.connections import ConnectionPool
from memorist.store.sqlite.generations import APPLICATION_ID
from timeouts import MAX_WAIT_SECONDS


def test_a_connection_that_another_thread_has_just_borrowed_stays_its_own(path: Path) -> None:
    locked, borrowed, done = (threading.Event() for _ in range(3))
    theirs: list[apsw.Connection] = []

    def borrow() -> None:
        locked.wait(MAX_WAIT_SECONDS)
        with pool.reading() as connection:
            theirs.append(connection)
            borrowed.set()
            done.wait(MAX_WAIT_SECONDS)

    def fail_once() -> None:  # what was left anywhere is taken back before the next attempt
        if not locked.is_set():
            locked.set()
            borrowed.wait(MAX_WAIT_SECONDS)
            raise apsw.BusyError("locked")

    with closing(ConnectionPool(str(path), read_only=False, busy_timeout=5, synchronous="normal")) as pool:
        other = threading.Thread(target=borrow)
        other.start()
        pool.retry_while_locked(fail_once)
        with pool.reading() as mine:
            assert mine is not theirs[0]
        done.set()
        other.join()


def test_a_query_that_nobody_reads_to_its_end_does_not_hold_its_connection_to_the_past(path: Path) -> None:
    with (
        closing(ConnectionPool(str(path), read_only=False, busy_timeout=5, synchronous="normal")) as pool,
        closing(ConnectionPool(str(path), read_only=False, busy_timeout=5, synchronous="normal")) as others,
    ):
        with pool.writing() as connection:
            connection.execute("create table numbers(number integer)")
            connection.execute("insert into numbers values (1), (2), (3)")
            connection.pragma("application_id", APPLICATION_ID)
        with pool.snapshot() as connection:
            kept = connection.stream("select number from numbers")  # as a kept exception keeps it
            assert next(kept) == (1,)
        with others.writing() as connection:
            connection.execute("insert into numbers values (4)")

        with pool.reading() as connection:
            assert connection.fetch_value("select max(number) from numbers") == 4
        assert kept is not None
