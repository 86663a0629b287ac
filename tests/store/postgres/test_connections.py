"""The port's contract on PostgreSQL, its errors, and connections that are lost."""

import math
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import numpy as np
import psycopg
import pytest

import memorist
from conftest import HashingEmbedder
from memorist.errors import SearchTimeout, StoreBusy, StoreError
from memorist.store.database import Conflict, Database
from memorist.store.postgres import connections
from memorist.store.postgres.connections import PostgresConnection, PostgresDatabase
from memorist.store.postgres.dialect import translate
from memorist.store.postgres.pool import Address
from memorist.time_limit import call_within, cancel_with
from postgres_fixtures import connect
from postgres_server import Server, url_of

INSERT = "insert into lenses(namespace, name, definition) values (:namespace, :name, '{}')"
NAMES = "select name from lenses order by name"


def add(connection: PostgresConnection, *names: str) -> None:
    connection.executemany(INSERT, [{"namespace": "default", "name": name} for name in names])


def read_names(database: PostgresDatabase) -> list[str]:
    with database.reading() as connection:
        return [name for (name,) in connection.fetch(NAMES)]


def end_sessions(url: str) -> None:
    """Have the server end every other connection to a database."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )


class TestTranslation:
    def test_names_become_numbers_and_are_sent_once(self) -> None:
        statement = translate("select :b, :a, :b")
        assert statement.sql == "select $1, $2, $1"
        assert statement.order({"a": 1, "b": 2, "c": 3}) == [2, 1]

    def test_places_become_numbers(self) -> None:
        assert translate("select ?, ?").sql == "select $1, $2"
        assert translate("select ?2, ?1").sql == "select $2, $1"

    @pytest.mark.parametrize(
        "sql",
        [
            "select '12:30', ':a', '?', 'it''s :b'",
            'select 1 as ":a"',
            "select 1::text",
            "select 1 -- :a ?\n",
            "select /* :a ? */ 1",
            "select $$ :a ? $$",
            "select 5 % 2",
        ],
    )
    def test_leaves_alone_what_is_no_value(self, sql: str) -> None:
        assert translate(sql) == (sql, ())

    def test_a_cast_of_a_value(self) -> None:
        assert translate("select :a::text").sql == "select $1::text"

    def test_long_texts_are_unique_by_their_hash(self) -> None:
        assert translate("on conflict @unique(rid, query)").sql.startswith("on conflict (tenant, rid, sha256(")
        assert translate("on conflict @unique(namespace, path)").sql == "on conflict (tenant, namespace, path)"


class TestFragments:
    @pytest.mark.parametrize(
        ("sql", "expected"),
        [
            ("select 2 in @keys(:keys), 4 in @keys(:keys)", [(True, False)]),
            ("select value from @texts(:texts) t order by value", [("a",), ("b",)]),
            ("select value, place from @numbered(:keys) t order by place", [(3, 0), (1, 1), (2, 2)]),
            ("select @array(1, 'a', null)", [('[1, "a", null]',)]),
            ("select @list(value) from @keys(:keys) k", [("[3, 1, 2]",)]),
            ("select @list(value) from @keys('[]') k", [("[]",)]),
            ("select @list(@array(value, @json('[true]'))) from @keys('[7]') k", [("[[7, [true]]]",)]),
            ("""select @json('{"a": "b"}') ->> 'a'""", [("b",)]),
            ("select @valid('[]'), @valid('[')", [(True, False)]),
            ("select @later(:one, 2), @earlier(:one, 2)", [(2, 1)]),
            ("select id from memories m where @ending(m.id) = '456789'", []),
            ("select t.value from @each('[\"b\"]') t", [("b",)]),
            ("select k.value from @keys(:keys) k @then @keys('[2]') l on l.value = @plain(k.value)", [(2,)]),
            ("select id from memories @hint(memories_scope)", []),
            ("select @month(0 * 1000000), @month(31 * 86400 * 1000000::bigint)", [("1970-01", "1970-02")]),
        ],
    )
    def test_mean_what_the_port_says(
        self, postgres_url: str, monkeypatch: pytest.MonkeyPatch, sql: str, expected: list[object]
    ) -> None:
        monkeypatch.setenv("TZ", "UTC")
        database = PostgresDatabase(postgres_url, namespace="default")
        values = {"keys": "[3, 1, 2]", "texts": '["b", "a"]', "one": 1}
        with database.reading() as connection:
            assert connection.fetch(sql, values) == expected
        database.close()


class TestValues:
    @pytest.mark.parametrize(
        "value", [0, -1, 2**62, 1.5, math.inf, "", "naïve ☃ 𝄞 '%s' :a ?", b"", bytes(range(256)), None, True]
    )
    def test_come_back_as_they_were_sent(self, database: PostgresDatabase, value: object) -> None:
        with database.reading() as connection:
            found = connection.fetch_value("select :value, 1", {"value": value})
            assert found == (value, 1)
            assert type(found[0]) is type(value)

    def test_sums_are_numbers_of_python(self, database: PostgresDatabase) -> None:
        with database.reading() as connection:
            sql = "select sum(value), avg(value), count(*) from @keys(:keys) k"
            found = connection.fetch_value(sql, {"keys": "[1, 2]"})
        assert found == (3, 1.5, 2)
        assert [type(value) for value in found] == [int, float, int]

    def test_vectors_are_halves_in_little_endian(self, database: PostgresDatabase) -> None:
        vector = np.array([0.5, -1.25, 65504, 6e-8], "<f2").tobytes()
        with database.writing() as connection:
            connection.execute(
                "insert into memories(id, namespace, content, content_hash, sector, tier, salience, created_at, "
                "updated_at, reinforced_at) values ('a', 'default', 'a', :hash, 's', 't', 1, 1, 1, 1)",
                {"hash": b"\0"},
            )
            connection.execute("insert into models(name, dimensions) values ('m', 4)")
            connection.execute(
                "insert into vectors(rid, model, vector) "
                "select rid, model, :vector from memories cross join models where name = 'm'",
                {"vector": vector},
            )
        with database.reading() as connection:
            assert connection.fetch_value("select vector from vectors") == vector
            assert connection.fetch_value("select vector::text from vectors") == "[0.5,-1.25,65504,5.9604645e-08]"


class TestContract:
    def test_is_the_port(self, database: PostgresDatabase) -> None:
        port: Database = database
        assert port.path == database.path

    def test_fetch_value(self, database: PostgresDatabase) -> None:
        with database.reading() as connection:
            assert connection.fetch_value("select 1") == 1
            assert connection.fetch_value("select 1, 2") == (1, 2)
            assert connection.fetch_value("select 1 where false") is None
            assert connection.fetch("select 1 where false") == []

    def test_changes(self, database: PostgresDatabase) -> None:
        with database.writing() as connection:
            add(connection, "a", "b", "c")
            assert connection.changes() == 3
            connection.execute("delete from lenses where name >= ?", ("b",))
            assert connection.changes() == 2
            connection.execute("delete from lenses where name = ?", ("z",))
            assert connection.changes() == 0
            connection.executemany(INSERT, [])
            assert connection.changes() == 0

    def test_texts_are_in_the_order_of_their_bytes(self, database: PostgresDatabase) -> None:
        with database.writing() as connection:
            add(connection, "b", "a", "B", "é", "_", "Z")
        assert read_names(database) == ["B", "Z", "_", "a", "b", "é"]

    def test_a_block_that_fails_writes_nothing(self, database: PostgresDatabase) -> None:
        with pytest.raises(ZeroDivisionError), database.writing() as connection:  # noqa: PT012
            add(connection, "a")
            raise ZeroDivisionError
        assert read_names(database) == []

    def test_a_conflict(self, database: PostgresDatabase) -> None:
        with pytest.raises(Conflict, match="lenses_pkey"), database.writing() as connection:
            add(connection, "a", "a")
        assert read_names(database) == []

    def test_nothing_is_written_after_a_conflict(self, database: PostgresDatabase) -> None:
        with pytest.raises(StoreError, match="nothing was written"), database.writing() as connection:  # noqa: PT012
            add(connection, "a")
            with pytest.raises(Conflict):
                add(connection, "a")
        assert read_names(database) == []

    def test_a_check_is_a_conflict(self, database: PostgresDatabase) -> None:
        with pytest.raises(Conflict), database.writing() as connection:
            connection.execute("insert into lenses(namespace, name, definition) values ('a', 'b', 'no JSON')")

    def test_a_conflict_with_a_long_text(self, database: PostgresDatabase) -> None:
        """No index has room for it."""
        with database.writing() as connection:
            rid = connection.fetch_value(
                "insert into memories(id, namespace, content, content_hash, sector, tier, salience, created_at, "
                "updated_at, reinforced_at) values ('a', 'default', 'a', :hash, 's', 't', 1, 1, 1, 1) returning rid",
                {"hash": b"\0"},
            )
            values = {"rid": rid, "query": "".join(chr(0x4E00 + number) for number in range(10_000))}
            for good in (0, 1):
                connection.execute(
                    "insert into feedback(rid, query, good, at) values (:rid, :query, :good, 1) "
                    "on conflict @unique(rid, query) do update set good = excluded.good",
                    values | {"good": good},
                )
            assert connection.fetch("select good from feedback") == [(1,)]

    def test_nothing_is_seen_before_it_is_committed(self, database: PostgresDatabase) -> None:
        with database.writing() as connection:
            add(connection, "a")
            assert read_names(database) == []
        assert read_names(database) == ["a"]

    def test_a_snapshot_sees_one_moment(self, database: PostgresDatabase) -> None:
        with database.snapshot() as connection:
            assert connection.fetch(NAMES) == []
            with database.writing() as other:
                add(other, "a")
            assert connection.fetch(NAMES) == []
            with pytest.raises(StoreError, match="read-only"):
                add(connection, "b")
        assert read_names(database) == ["a"]

    def test_readers_do_not_wait_for_a_writer(self, database: PostgresDatabase) -> None:
        with database.writing() as connection:
            add(connection, "a")
            with ThreadPoolExecutor() as threads:
                assert threads.submit(read_names, database).result(5) == []

    @pytest.mark.parametrize("isolation", ["read committed", "serializable"])
    def test_writers_of_a_namespace_queue(self, postgres_url: str, isolation: str) -> None:
        """Also where a server's default would show them what was there before they waited."""
        options = quote(f"-c default_transaction_isolation={isolation.replace(' ', chr(92) + ' ')}")
        database = PostgresDatabase(f"{postgres_url}&options={options}", namespace="default")

        def count_up() -> None:
            with database.writing() as connection:
                number = connection.fetch_value("select count(*) from lenses")
                add(connection, f"{number:03}")

        with ThreadPoolExecutor(8) as threads:
            for done in [threads.submit(count_up) for _ in range(40)]:
                done.result()
        assert read_names(database) == [f"{number:03}" for number in range(40)]
        database.close()

    def test_writers_of_other_namespaces_do_not_wait(self, database: PostgresDatabase, postgres_url: str) -> None:
        other = PostgresDatabase(postgres_url, namespace="other", busy_timeout=1)
        with database.writing() as first, other.writing() as second:
            add(first, "a")
            add(second, "b")
        assert (read_names(database), read_names(other)) == (["a"], ["b"])
        other.close()

    @pytest.mark.parametrize("where", ["reading", "snapshot", "writing"])
    def test_a_stream(self, database: PostgresDatabase, where: str) -> None:
        with database.writing() as connection:
            add(connection, *(f"{number:04}" for number in range(2500)))
        with getattr(database, where)() as connection:
            rows = connection.stream(NAMES + " limit :limit", {"limit": 2200})
            assert next(rows) == ("0000",)
            if where != "writing":
                with database.writing() as other:
                    other.execute("delete from lenses where name > '1000'")
            assert connection.fetch_value("select 1") == 1  # between two rows
            assert len(list(rows)) == 2199
            assert next(connection.stream(NAMES)) == ("0000",)  # left where it is
        with database.reading() as connection:
            assert connection.fetch_value("select 1") == 1

    def test_a_stream_that_outlives_its_block(self, database: PostgresDatabase) -> None:
        with database.writing() as connection:
            add(connection, "a", "b")
            rows = connection.stream(NAMES)
            assert next(rows) == ("a",)
        rows.close()  # type: ignore[attr-defined]
        assert read_names(database) == ["a", "b"]

    def test_before_commit(self, database: PostgresDatabase) -> None:
        database.before_commit = lambda connection: add(connection, "last")
        with database.writing() as connection:
            add(connection, "first")
        assert read_names(database) == ["first", "last"]
        with pytest.raises(ZeroDivisionError), database.writing():
            raise ZeroDivisionError  # and it is not called
        database.before_commit = lambda connection: 1 // 0
        with pytest.raises(ZeroDivisionError), database.writing() as connection:
            add(connection, "never")
        assert read_names(database) == ["first", "last"]

    def test_read_only(self, database: PostgresDatabase, postgres_url: str) -> None:
        reader = PostgresDatabase(postgres_url, namespace="default", read_only=True)
        with pytest.raises(StoreError, match="opened read-only"):
            reader.writing()
        with pytest.raises(StoreError, match="read-only"), reader.reading() as connection:
            add(connection, "a")
        assert read_names(reader) == []
        reader.close()

    def test_a_closed_database(self, database: PostgresDatabase) -> None:
        database.close()
        database.close()
        with pytest.raises(StoreError, match="has been closed"), database.reading():
            pass

    def test_a_connection_after_its_block(self, database: PostgresDatabase) -> None:
        with database.reading() as connection:
            pass
        with pytest.raises(StoreError, match="given back"):
            connection.fetch("select 1")


class TestErrors:
    def test_a_wrong_statement(self, database: PostgresDatabase) -> None:
        with pytest.raises(StoreError, match='relation "nowhere" does not exist'), database.reading() as connection:
            connection.fetch("select * from nowhere")
        assert read_names(database) == []

    def test_a_busy_namespace(self, postgres_url: str) -> None:
        database = PostgresDatabase(postgres_url, namespace="default", busy_timeout=0.1)
        with database.writing(), pytest.raises(StoreBusy, match=r"'default' in .* for 0\.1 s"), database.writing():
            pass
        database.close()

    def test_a_full_pool(self, postgres_url: str) -> None:
        database = PostgresDatabase(postgres_url, namespace="default", busy_timeout=0.2, max_connections=1)
        with (
            database.reading(),
            pytest.raises(StoreBusy, match=r"no connection to .* was free for 0\.2 s"),
            database.reading(),
        ):
            pass
        assert read_names(database) == []
        database.close()

    def test_a_block_that_was_left_by_a_signal_gives_its_connection_back(self, postgres_url: str) -> None:
        database = PostgresDatabase(postgres_url, namespace="default", busy_timeout=1, max_connections=1)
        kept = []

        def leave() -> None:
            kept.append(database.writing())
            kept[0].__enter__()  # and never `__exit__`

        leave()
        with database.writing() as connection:
            add(connection, "a")
        database.close()

    def test_a_name_too_long_for_an_index(self, database: PostgresDatabase) -> None:
        name = "".join(chr(0x4E00 + number) for number in range(5000))
        with pytest.raises(StoreError, match="too long for an index"), database.writing() as connection:
            add(connection, name)

    def test_text_that_postgres_cannot_store(self, database: PostgresDatabase) -> None:
        with pytest.raises(StoreError, match="NUL"), database.writing() as connection:
            add(connection, "a\0b")


class TestTimeLimits:
    def test_a_search_is_stopped(self, database: PostgresDatabase) -> None:
        def search() -> None:
            with database.reading() as connection:
                connection.fetch("select pg_sleep(300)")

        started = time.monotonic()
        with pytest.raises(SearchTimeout, match="took too long"):
            call_within(0.2, search)
        assert time.monotonic() - started < 150
        assert read_names(database) == []

    def test_a_search_is_cancelled(self, database: PostgresDatabase) -> None:
        cancelled = threading.Event()
        threading.Timer(0.1, cancelled.set).start()
        with pytest.raises(SearchTimeout), cancel_with(cancelled), database.snapshot() as connection:
            connection.fetch("select pg_sleep(300)")
        assert read_names(database) == []

    def test_what_was_written_before_the_limit_is_given_up(self, database: PostgresDatabase) -> None:
        def write() -> None:
            with database.writing() as connection:
                add(connection, "a")
                connection.fetch("select pg_sleep(300)")

        with pytest.raises(SearchTimeout):
            call_within(0.2, write)
        assert read_names(database) == []

    def test_a_search_does_not_wait_for_a_connection_any_longer(self, postgres_url: str) -> None:
        database = PostgresDatabase(postgres_url, namespace="default", max_connections=1)
        with database.reading(), pytest.raises(SearchTimeout):
            call_within(0.1, database.reading().__enter__)
        database.close()

    @pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer for signals here")
    def test_control_c(self, database: PostgresDatabase) -> None:
        def write() -> None:
            with database.writing() as connection:
                add(connection, "a")
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                connection.fetch("select pg_sleep(300)")

        signal.signal(signal.SIGALRM, signal.default_int_handler)
        started = time.monotonic()
        try:
            with pytest.raises(KeyboardInterrupt):
                write()
        finally:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        assert time.monotonic() - started < 150
        assert read_names(database) == []
        with database.writing() as connection:
            add(connection, "b")


class TestPasswords:
    """The password is in no message, no `repr` and no `path`, whatever fails."""

    def test_address(self) -> None:
        address = Address("postgresql://me:s3cret-word@db.example:5433/memories?sslmode=require", writes=True)
        assert address.path == "postgresql://me@db.example:5433/memories"
        assert "s3cret" not in repr(address)
        assert address.conceal("it was s3cret-word!") == "it was ***!"
        assert "sslmode=require" in address.conninfo

    def test_several_servers(self) -> None:
        url = "postgresql://one,two/memories"
        assert "target_session_attrs=read-write" in Address(url, writes=True).conninfo
        assert "target_session_attrs" not in Address(url, writes=False).conninfo
        assert Address(url, writes=True).path == "postgresql://one,two/memories"

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://me:s3cret-word@127.0.0.1:1/nowhere",
            "postgresql://me:s3cret-word@nowhere.invalid/nowhere",
            "postgresql://me:s3cret-word@[bad",
            "postgresql://me:s3cret-word@localhost/x?nosuchoption=1",
            "password=s3cret-word host",
        ],
    )
    def test_an_address_that_does_not_work(self, url: str) -> None:
        with pytest.raises(StoreError) as caught:
            PostgresDatabase(url, namespace="default")
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))

    def test_a_wrong_password(self, postgres_server: str) -> None:
        with psycopg.connect(url_of(postgres_server), autocommit=True) as admin:
            admin.execute("create role locked login password 'another'")
        try:
            url = url_of(postgres_server, user="locked", password="s3cret-word")
            with pytest.raises(StoreError, match="password authentication failed") as caught:
                PostgresDatabase(url, namespace="default")
        finally:
            with psycopg.connect(url_of(postgres_server), autocommit=True) as admin:
                admin.execute("drop role locked")
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))

    def test_an_open_database(self, postgres_url: str) -> None:
        database = PostgresDatabase(postgres_url.replace("postgres@", "postgres:s3cret-word@"), namespace="default")
        assert "s3cret" not in repr(database) + database.path
        with pytest.raises(StoreError) as caught, database.reading() as connection:
            connection.fetch("select * from nowhere")
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))
        database.close()


class TestLostConnections:
    def test_a_reader_goes_on(self, database: PostgresDatabase, postgres_url: str) -> None:
        with database.reading() as one, database.reading() as two:
            assert (one.fetch(NAMES), two.fetch(NAMES)) == ([], [])
            end_sessions(postgres_url)
            assert one.fetch(NAMES) == []
            assert two.fetch_value("select 1") == 1

    def test_idle_connections_are_replaced(self, database: PostgresDatabase, postgres_url: str) -> None:
        with database.reading(), database.reading(), database.reading():
            pass
        end_sessions(postgres_url)
        with database.writing() as connection:
            add(connection, "a")
        with database.snapshot() as connection:
            assert connection.fetch(NAMES) == [("a",)]

    def test_a_writer_is_told(self, database: PostgresDatabase, postgres_url: str) -> None:
        def write() -> None:
            with database.writing() as connection:
                add(connection, "a")
                end_sessions(postgres_url)
                add(connection, "b")

        with pytest.raises(StoreError, match="may not have been; writing it again is safe"):
            write()
        assert read_names(database) == []

    def test_a_writer_that_is_lost_at_the_end(self, database: PostgresDatabase, postgres_url: str) -> None:
        def write() -> None:
            with database.writing() as connection:
                add(connection, "a")
                end_sessions(postgres_url)

        with pytest.raises(StoreError, match="may not have been; writing it again is safe"):
            write()
        assert read_names(database) == []

    def test_a_snapshot_is_not_patched_together(self, database: PostgresDatabase, postgres_url: str) -> None:
        with database.snapshot() as connection:
            connection.fetch(NAMES)
            end_sessions(postgres_url)
            with pytest.raises(StoreError, match="was lost"):
                connection.fetch(NAMES)

    def test_a_server_that_comes_back(self, own_server: Server) -> None:
        database = PostgresDatabase(url_of(own_server.address), namespace="default", busy_timeout=1)
        with database.writing() as connection:
            add(connection, "a")
        own_server.stop(signal.SIGQUIT)
        for block in (database.reading, database.snapshot, database.writing):
            with (
                pytest.raises(StoreError, match=r"cannot connect to postgresql://.*check .* that the server runs"),
                block() as connection,
            ):
                connection.fetch(NAMES)
        own_server.start()
        assert read_names(database) == ["a"]
        with database.writing() as connection:
            add(connection, "b")
        database.close()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that may be killed."""
    server = Server({"synchronous_commit": "on"})
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.remove()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
class TestForks:
    def test_parent_and_child_go_on(self, database: PostgresDatabase) -> None:
        with database.writing() as connection:
            add(connection, "before")
        if run_in_child(lambda: write_one(database, "child")):
            pytest.fail("the child failed")
        write_one(database, "parent")
        assert read_names(database) == ["before", "child", "parent"]

    def test_a_connection_in_use_stays_with_the_parent(self, database: PostgresDatabase) -> None:
        def use_it() -> None:
            with pytest.raises(StoreError, match="another process"):
                connection.fetch(NAMES)
            write_one(database, "child")

        with database.reading() as connection:
            assert run_in_child(use_it) == 0
            assert connection.fetch(NAMES) == [("child",)]


def write_one(database: PostgresDatabase, name: str) -> None:
    with database.writing() as connection:
        add(connection, name)


def run_in_child(function: object) -> int:
    """Run a function in a forked process; return its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function()  # type: ignore[operator]
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class TestStatistics:
    """After many rows, the server looks at the tables at once, so that the next search is planned for them."""

    def count_known(self, url: str, table: str) -> float:
        with connect(url) as connection:
            found = connection.execute("select reltuples from pg_class where relname = %s", (table,)).fetchone()
            return float(found[0]) if found else 0.0

    def test_they_are_right_after_a_bulk_load(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "ANALYZE_AFTER", 50)
        with memorist.open(postgres_url, embedder="none") as memory:
            memory.add_many([f"note {number}" for number in range(60)])

            assert self.count_known(postgres_url, "memories") == 60
            assert self.count_known(postgres_url, "memory_texts") == 60

    def test_vectors_count_as_well(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "ANALYZE_AFTER", 50)
        with memorist.open(postgres_url, embedder=HashingEmbedder()) as memory:
            memory.add_many([f"note {number}" for number in range(40)])

            assert self.count_known(postgres_url, "vectors") == 40

    def test_whoever_may_not_goes_on_without(
        self, postgres_url: str, postgres_server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "ANALYZE_AFTER", 5)
        memorist.open(postgres_url, embedder="none").close()
        with connect(postgres_url) as connection:
            connection.execute("create role no_owner login in role memorist_app")
        try:
            with memorist.open(postgres_url.replace("postgres@", "no_owner@"), embedder="none") as memory:
                memory.add_many([f"note {number}" for number in range(10)])
        finally:
            with connect(postgres_url) as connection:
                connection.execute("drop role no_owner")
