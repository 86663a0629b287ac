"""Reading from a standby: what is seen there, how old it may be, and what happens when one of the servers is lost."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import NamedTuple
from urllib.parse import quote

import psycopg
import pytest

import memorist
from memorist.arguments import NO_FILTER
from memorist.errors import StoreError
from memorist.profiles.profile import ALL_COLUMNS
from memorist.search.query import parse_query
from memorist.store.postgres.backend import PostgresBackend
from memorist.store.postgres.connections import PostgresDatabase
from memorist.store.postgres.pool import split_options
from memorist.store.store import Store
from postgres_server import REPLICATED, Server, url_of
from timeouts import MAX_WAIT_SECONDS

INSERT = "insert into lenses(namespace, name, definition) values ('default', ?, '{}')"


class Pair(NamedTuple):
    """A primary and its standby."""

    primary: Server
    standby: Server

    def open(self, **options: float) -> PostgresDatabase:
        url = f"{url_of(self.primary.address)}&replica={quote(url_of(self.standby.address), safe='')}"
        return PostgresDatabase(url, namespace="default", **options)  # type: ignore[arg-type]


@pytest.fixture
def pair() -> Iterator[Pair]:
    primary, standby = Server(REPLICATED), Server(REPLICATED)
    try:
        primary.create()
        primary.start()
        PostgresDatabase(url_of(primary.address), namespace="default").close()
        standby.follow(primary)
        standby.start()
        yield Pair(primary, standby)
    finally:
        standby.remove()
        primary.remove()


def write(database: PostgresDatabase, name: str) -> None:
    with database.writing() as connection:
        connection.execute(INSERT, (name,))


def read(database: PostgresDatabase) -> tuple[bool, list[str]]:
    """Return whether it was read from a standby, and the names."""
    with database.reading() as connection:
        in_recovery = connection.fetch_value("select pg_is_in_recovery()")
        return in_recovery, [name for (name,) in connection.fetch("select name from lenses order by name")]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def pause(pair: Pair, *, paused: bool) -> None:
    """Have the standby replay nothing, or go on."""
    with psycopg.connect(url_of(pair.standby.address), autocommit=True) as admin:
        admin.execute(b"select pg_wal_replay_pause()" if paused else b"select pg_wal_replay_resume()")
        wait_until(
            lambda: (admin.execute("select pg_get_wal_replay_pause_state() = 'paused'").fetchone() == (True,)) == paused
        )


def test_options_of_the_address() -> None:
    url = "postgresql://me:a%40b@db/x?sslmode=require&replica=postgresql%3A%2F%2Fother%2Fx&options=-c%20geqo%3Doff"
    rest, options = split_options(url, ("replica",))
    assert rest == "postgresql://me:a%40b@db/x?sslmode=require&options=-c%20geqo%3Doff"
    assert options == {"replica": "postgresql://other/x"}
    assert split_options("host=db dbname=x", ("replica",)) == ("host=db dbname=x", {})


def test_an_age_that_is_no_number() -> None:
    with pytest.raises(StoreError, match="max_staleness is a number of seconds"):
        PostgresDatabase("postgresql://db/x?replica=postgresql://other/x&max_staleness=old", namespace="default")


def test_reads_go_to_the_standby_and_see_what_was_written(pair: Pair) -> None:
    database = pair.open()
    for number in range(20):
        write(database, f"{number:02}")
        assert read(database)[1] == [f"{n:02}" for n in range(number + 1)]  # wherever it was read
    wait_until(lambda: read(database)[0])
    assert database.staleness is not None
    assert database.staleness <= 5
    with database.snapshot() as connection:
        assert connection.fetch_value("select pg_is_in_recovery()")
        assert len(list(connection.stream("select name from lenses"))) == 20
    with database.writing() as connection:
        assert not connection.fetch_value("select pg_is_in_recovery()")

    # One that is behind is not asked for what this process has written.
    pause(pair, paused=True)
    write(database, "mine")
    assert (read(database)[0], len(read(database)[1])) == (False, 21)
    assert database.staleness is None
    pause(pair, paused=False)
    wait_until(lambda: read(database)[0])
    assert len(read(database)[1]) == 21
    database.close()


def test_a_standby_that_lacks_what_the_image_has_answers_by_itself(pair: Pair) -> None:
    url = f"{url_of(pair.primary.address)}&replica={quote(url_of(pair.standby.address), safe='')}&max_staleness=600"
    with (
        closing(Store(PostgresBackend(url, namespace="default"))) as reader,
        memorist.open(url_of(pair.primary.address), embedder="none") as writer,
    ):
        writer.add("a heron at the lake")
        replica = reader._pool._replica  # type: ignore[attr-defined]
        wait_until(lambda: count_herons(reader) == 1 and replica.staleness is not None)
        reader._images.build()
        pause(pair, paused=True)
        writer.add("another heron")
        assert reader._images.refresh() is not None
        assert count_herons(reader) == 1  # as old as it may be

        replica.avoid()
        assert count_herons(reader) == 2  # on the primary
        replica._avoided_until = 0.0
        wait_until(lambda: reader._images.refresh() is None)  # the standby is asked again
        assert count_herons(reader) == 1

        pause(pair, paused=False)
        wait_until(lambda: count_herons(reader) == 2)
        assert reader._images.refresh() is not None


def count_herons(store: Store) -> int:
    scope = store.resolve_scope(NO_FILTER)
    return len(store.match_keywords(parse_query("heron", "auto"), scope, limit=5, page=5, weights=ALL_COLUMNS).matches)


def test_what_others_write_is_seen_in_time(pair: Pair) -> None:
    database = pair.open(max_staleness=1)
    other = PostgresDatabase(url_of(pair.primary.address), namespace="default")
    wait_until(lambda: read(database)[0])
    pause(pair, paused=True)
    write(other, "theirs")
    wait_until(lambda: read(database)[1] == ["theirs"])
    pause(pair, paused=False)
    database.close()
    other.close()


def test_a_standby_is_lost(pair: Pair) -> None:
    database = pair.open(busy_timeout=2)
    write(database, "a")
    wait_until(lambda: read(database)[0])
    with database.reading() as connection:
        assert connection.fetch_value("select pg_is_in_recovery()")
        pair.standby.stop()
        assert not connection.fetch_value("select pg_is_in_recovery()")
    assert read(database) == (False, ["a"])
    database.close()


def test_the_primary_is_lost_and_the_standby_promoted(pair: Pair) -> None:
    """What was acknowledged is there afterwards: the primary waits for its standby before it says so."""
    with psycopg.connect(url_of(pair.primary.address), autocommit=True) as admin:
        admin.execute("alter system set synchronous_standby_names = '*'")
        admin.execute("select pg_reload_conf()")
        wait_until(
            lambda: admin.execute("select sync_state from pg_stat_replication").fetchone() in [("sync",), ("quorum",)]
        )
    hosts = quote(f"{pair.primary.address},{pair.standby.address}", safe="")
    database = PostgresDatabase(
        f"postgresql://postgres@/postgres?host={hosts}", namespace="default", busy_timeout=2,
        replica=url_of(pair.standby.address),
    )  # fmt: skip
    for number in range(50):
        write(database, f"{number:02}")
    pair.primary.stop(signal.SIGQUIT)
    with pytest.raises(StoreError, match="cannot connect to"):
        write(database, "nowhere")
    pair.standby.promote()

    def go_on() -> bool:
        with suppress(StoreError):
            write(database, "new")
            return True
        return False

    wait_until(go_on)
    in_recovery, names = read(database)
    assert not in_recovery
    assert set(names) >= {f"{number:02}" for number in range(50)} | {"new"}
    database.close()
