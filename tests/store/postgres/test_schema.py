"""The schema on PostgreSQL: migrations by many at once, row security, and triggers."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from memorist.errors import StoreError
from memorist.store.migrations import load_migrations
from memorist.store.postgres import schema
from memorist.store.postgres.connections import PostgresConnection, PostgresDatabase
from postgres_server import url_of

NOT_DISTRIBUTED = {"_migrations"}  # one row a migration, read as the program starts


def connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)


_OPEN = """
import sys
from memorist.store.postgres.connections import PostgresDatabase

database = PostgresDatabase(sys.argv[1], namespace="default")
with database.writing() as connection:
    connection.execute("insert into lenses(namespace, name, definition) values ('default', ?, '{}')", (sys.argv[2],))
database.close()
"""


class TestMigrations:
    def test_twenty_processes_open_an_empty_database_at_once(self, empty_postgres_url: str) -> None:
        processes = [
            subprocess.Popen([sys.executable, "-c", _OPEN, empty_postgres_url, str(number)], stderr=subprocess.PIPE)
            for number in range(20)
        ]
        assert [process.communicate(timeout=300)[1] for process in processes] == [b""] * 20
        database = PostgresDatabase(empty_postgres_url, namespace="default")
        with database.reading() as connection:
            assert connection.fetch_value("select count(*) from lenses") == 20
        with connect(empty_postgres_url) as admin:
            applied = [name for (name,) in admin.execute("select name from _migrations order by name")]
        assert applied == list(load_migrations("postgres"))
        database.close()

    def test_a_migration_that_fails_leaves_nothing(
        self, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = load_migrations("postgres")["001-schema"]
        broken = {"001-schema": first, "002-broken": "create table half(a integer); select 1 / 0"}

        def fail() -> None:
            monkeypatch.setattr(schema, "load_migrations", lambda backend: broken)
            with pytest.raises(StoreError, match="division by zero"):
                PostgresDatabase(empty_postgres_url, namespace="default")

        with connect(empty_postgres_url) as admin:
            fail()
            assert admin.execute("select to_regclass('memories')").fetchone() == (None,)
            monkeypatch.setattr(schema, "load_migrations", lambda backend: {"001-schema": first})
            PostgresDatabase(empty_postgres_url, namespace="default").close()
            fail()
            assert admin.execute("select to_regclass('half')").fetchone() == (None,)
            assert admin.execute("select name from _migrations").fetchall() == [("001-schema",)]
        monkeypatch.undo()
        PostgresDatabase(empty_postgres_url, namespace="default").close()

    def test_a_newer_database(self, postgres_url: str) -> None:
        with connect(postgres_url) as admin:
            admin.execute("insert into _migrations(name, sha256) values ('999-later', '')")
        with pytest.raises(StoreError, match="newer version of Memorist"):
            PostgresDatabase(postgres_url, namespace="default")

    def test_read_only_an_empty_database_cannot_be_opened(self, empty_postgres_url: str) -> None:
        with pytest.raises(StoreError, match="older schema; open it once for writing"):
            PostgresDatabase(empty_postgres_url, namespace="default", read_only=True)

    def test_without_pgvector(self, empty_postgres_url: str, postgres_server: str) -> None:
        database = empty_postgres_url.partition("@/")[2].partition("?")[0]
        with connect(url_of(postgres_server)) as admin:
            admin.execute(SQL("alter database {} owner to ordinary").format(Identifier(database)))
        with pytest.raises(StoreError, match="have an administrator run `create extension vector`"):
            PostgresDatabase(url_of(postgres_server, database, "ordinary"), namespace="default")

    def test_an_old_server(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(schema, "_OLDEST_SERVER", 990_000)
        with pytest.raises(StoreError, match=r"is PostgreSQL \d+; Memorist needs"):
            PostgresDatabase(postgres_url, namespace="default")


class TestRowSecurity:
    @pytest.fixture
    def tenants(self, postgres_url: str) -> str:
        """A database in which two tenants have rows in every table that can be filled by hand."""
        for namespace in ("one", "two"):
            database = PostgresDatabase(postgres_url, namespace=namespace)
            with database.writing() as connection:
                fill(connection, namespace)
            database.close()
        return postgres_url

    def test_every_table_is_walled(self, tenants: str) -> None:
        with connect(tenants) as admin:
            tables = admin.execute(
                """
                select c.relname, c.relrowsecurity, c.relforcerowsecurity, p.polpermissive, p.polcmd::text,
                  pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid)
                from pg_class c left join pg_policy p on p.polrelid = c.oid
                where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace and c.relname <> all(%s)
                """,
                [list(NOT_DISTRIBUTED)],
            ).fetchall()
        wall = "(tenant = current_setting('memorist.tenant'::text, true))"
        for table, enabled, _, *policy in tables:
            assert enabled, table
            assert policy == [True, "*", wall, wall], table
        # The one table whose owner is let through: only an index that row security would hide makes its searches quick.
        assert {table for table, _, forced, *_ in tables if not forced} <= {"memory_texts"}

    def test_hand_written_sql_sees_one_tenant(self, tenants: str) -> None:
        with connect(tenants) as alice:
            alice.execute("set role memorist_app")
            alice.execute("select set_config('memorist.tenant', 'one', false)")
            for table in list_tables(alice):
                seen = alice.execute(SQL("select distinct tenant from {}").format(Identifier(table))).fetchall()
                assert seen in ([], [("one",)]), table
            assert alice.execute("select id from memories where tenant = 'two' or true").fetchall() == [("one",)]
            assert alice.execute("select count(*) from memory_tags").fetchone() == (1,)

    def test_without_a_tenant_nothing_is_seen(self, tenants: str) -> None:
        with connect(tenants) as alice:
            alice.execute("set role memorist_app")
            for statement in ("select 1", "set memorist.tenant = 'one'", "reset memorist.tenant"):
                alice.execute(statement.encode())
                if statement.startswith("set"):
                    continue
                for table in list_tables(alice):
                    assert not alice.execute(SQL("select 1 from {}").format(Identifier(table))).fetchall(), table

    def test_nothing_is_written_for_another_tenant(self, tenants: str) -> None:
        with connect(tenants) as alice:
            alice.execute("set role memorist_app")
            alice.execute("select set_config('memorist.tenant', 'one', false)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                alice.execute(
                    "insert into lenses(tenant, namespace, name, definition) values ('two', 'two', 'x', '{}')"
                )
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                alice.execute("update lenses set tenant = 'two'")
            assert alice.execute("update memories set content = 'gone' where tenant = 'two'").rowcount == 0
            assert alice.execute("delete from memories where tenant = 'two'").rowcount == 0

    def test_the_role_can_take_down_no_wall(self, tenants: str) -> None:
        with connect(tenants) as alice:
            alice.execute("set role memorist_app")
            for statement in (
                "alter table memories disable row level security",
                "drop policy tenant_only on memories",
                "create policy open on memories using (true)",
                "truncate memories cascade",
                "create table mine(a integer)",
                "insert into _migrations values ('a', 'b')",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    alice.execute(statement.encode())
            assert alice.execute(
                "select rolsuper, rolbypassrls, rolcanlogin from pg_roles where rolname = current_user"
            ).fetchone() == (False, False, False)

    def test_the_role_of_connections(self, postgres_url: str, postgres_user_url: str) -> None:
        for url, role in ((postgres_url, "memorist_app"), (postgres_user_url, "ordinary")):
            database = PostgresDatabase(url, namespace="default")
            with database.reading() as connection:
                assert connection.fetch_value("select current_user::text, row_security_active('memories')") == (
                    role,
                    True,
                )
            database.close()

    def test_an_ordinary_owner_sees_one_tenant_as_well(self, postgres_user_url: str) -> None:
        for namespace in ("one", "two"):
            database = PostgresDatabase(postgres_user_url, namespace=namespace)
            with database.writing() as connection:
                fill(connection, namespace)
                assert connection.fetch("select id, tenant from memories") == [(namespace, namespace)]
            database.close()

    def test_a_member_of_the_role(self, tenants: str, postgres_server: str) -> None:
        """Whoever did not make the tables needs no more than the role."""
        name = tenants.partition("@/")[2].partition("?")[0]
        with connect(tenants) as admin:
            admin.execute("create role bob login in role memorist_app")
        try:
            database = PostgresDatabase(url_of(postgres_server, name, "bob"), namespace="two")
            with database.writing() as connection:
                assert connection.fetch("select id from memories") == [("two",)]
                connection.execute("delete from memories")
            database.close()
        finally:
            with connect(tenants) as admin:
                admin.execute("drop role bob")

    def test_a_stranger(self, tenants: str, postgres_server: str) -> None:
        name = tenants.partition("@/")[2].partition("?")[0]
        with connect(tenants) as admin:
            admin.execute("create role eve login")
        try:
            with pytest.raises(StoreError, match="grant memorist_app to that user"):
                PostgresDatabase(url_of(postgres_server, name, "eve"), namespace="two")
        finally:
            with connect(tenants) as admin:
                admin.execute("drop role eve")

    @pytest.mark.parametrize("name", ["it's", 'a "b"', "%s :a ?", "back\\slash", "naïve ☃", " ", "a=b c", "$1", "-c x"])
    def test_any_name_is_a_tenant(self, postgres_url: str, name: str) -> None:
        database = PostgresDatabase(postgres_url, namespace=name)
        with database.writing() as connection:
            fill(connection, "a")
            assert connection.fetch_value("select tenant from memories") == name
        database.close()
        other = PostgresDatabase(postgres_url, namespace=name + "'")
        with other.reading() as connection:
            assert connection.fetch("select id from memories") == []
        other.close()


def list_tables(connection: psycopg.Connection[Any]) -> list[str]:
    found = connection.execute(
        "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace "
        "and relname <> all(%s)",
        [list(NOT_DISTRIBUTED)],
    ).fetchall()
    return [name for (name,) in found]


_numbers = count()


def insert(connection: PostgresConnection, table: str, **values: Any) -> Any:
    """Insert a row, and return the number that it was given."""
    key = {"memories": "rid", "sessions": "sid", "documents": "did", "relations": "relation", "models": "model"}
    names = ", ".join(values)
    places = ", ".join(f":{name}" for name in values)
    sql = f"insert into {table}({names}) values ({places}) returning {key.get(table, 'tenant')}"
    return connection.fetch_value(sql, values)


def add_memory(connection: PostgresConnection, id: str, **fields: Any) -> int:
    number: int = insert(
        connection,
        "memories",
        **{
            "id": id,
            "namespace": "default",
            "content": "text",
            "content_hash": str(next(_numbers)).encode(),
            "sector": "semantic",
            "tier": "long",
            "salience": 0.5,
            "created_at": 1,
            "updated_at": 7,
            "reinforced_at": 1,
        }
        | fields,
    )
    return number


def fill(connection: PostgresConnection, id: str) -> None:
    rid = add_memory(connection, id, tags='["blue"]')
    insert(connection, "sessions", id=id, namespace="default", started_at=1)
    insert(connection, "lenses", namespace="default", name=id, definition="{}")
    insert(connection, "facts", id=id, rid=rid, text="a fact", confidence=1, created_at=1, reinforced_at=1)
    insert(connection, "feedback", rid=rid, query="what?", good=1, at=1)


class TestPlans:
    """Row security lets an index serve leakproof conditions on plain columns only: these are what the store asks."""

    @pytest.mark.parametrize(
        ("sql", "index"),
        [
            ("select content from memories where rid in @keys(:keys)", "memories_pkey"),
            ("select m.content from @keys(:keys) k @then memories m on m.rid = k.value", "memories_pkey"),
            ("select m.content from @numbered(:keys) k @then memories m on m.rid = k.value", "memories_pkey"),
            ("update memories set salience = 1 where rid in @keys(:keys)", "memories_pkey"),
            (
                "select rid from memories where namespace = :n and id in @texts(:ids)",
                "memories_tenant_namespace_id_key",
            ),
            ("select rid from memories where namespace = :n and @ending(id) = 'abcdef'", "memories_by_ending"),
            (
                "select rid from memories where namespace = :n and coalesce(project, '') = coalesce(:p, '') "
                "and content_hash = :hash and deleted_at is null",
                "memories_once",
            ),
            ("select rid from memories where namespace = :n and project = :p and deleted_at is null", "memories_scope"),
            ("select rid from memory_tags where tag = 'x'", "memory_tags_pkey"),
        ],
    )
    def test_an_index_serves(self, filled: PostgresDatabase, sql: str, index: str) -> None:
        values = {"keys": "[1, 2]", "ids": '["a"]', "n": "default", "p": "p1", "hash": b"1"}
        with filled.writing() as connection:
            plan = "\n".join(line for (line,) in connection.fetch(f"explain {sql}", values))
        assert index in plan
        assert "Seq Scan on memories" not in plan

    @pytest.fixture
    def filled(self, database: PostgresDatabase, postgres_url: str) -> PostgresDatabase:
        with database.writing() as connection:
            connection.execute(
                """
                insert into memories(id, namespace, project, content, content_hash, sector, tier, salience, created_at,
                  updated_at, reinforced_at, tags)
                select number::text, 'default', 'p' || number % 50, repeat('text ', 50), sha256(number::text::bytea),
                  's', 't', 1, number, 1, 1, '["t' || number % 50 || '"]'
                from generate_series(1, 3000) number
                """
            )
        with connect(postgres_url) as admin:
            admin.execute("vacuum analyze memories, memory_tags")
        return database


class TestTriggers:
    """What follows a memory, its vectors, its relations and its sessions; see SQLite's triggers."""

    @pytest.fixture
    def connection(self, database: PostgresDatabase) -> Iterator[PostgresConnection]:
        with database.writing() as connection:
            yield connection

    def test_tags(self, connection: PostgresConnection) -> None:
        rid = add_memory(connection, "a", tags='["blue", "red", "blue"]')
        assert connection.fetch("select tag from memory_tags order by tag") == [("blue",), ("red",)]
        connection.execute("""update memories set tags = '["green"]' where rid = ?""", (rid,))
        assert connection.fetch("select tag, rid from memory_tags") == [("green", rid)]
        connection.execute("delete from memories")
        assert connection.fetch("select tag from memory_tags") == []

    def test_texts_wait_for_vectors(self, connection: PostgresConnection) -> None:
        rid, model = add_memory(connection, "a"), insert(connection, "models", name="m", dimensions=2)
        assert connection.fetch("select rid from unembedded") == [(rid,)]
        insert(connection, "uncut", rid=rid)
        insert(connection, "vectors", rid=rid, model=model, vector=b"\0<\0\0")
        assert connection.fetch("select rid from unembedded union all select rid from uncut") == []

    def test_a_changed_text_keeps_its_vector_as_an_old_one(self, connection: PostgresConnection) -> None:
        rid, model = add_memory(connection, "a"), insert(connection, "models", name="m", dimensions=2)
        insert(connection, "vectors", rid=rid, model=model, vector=b"\0<\0\0")
        for version in (1, 2):
            insert(connection, "memory_history", rid=rid, version=version, replaced_at=version, snapshot="{}")
        connection.execute("update memories set content = content, title = null, salience = 1")
        assert connection.fetch("select rid from vectors") == [(rid,)]
        connection.execute("update memories set title = 'new'")
        assert connection.fetch("select rid from vectors") == []
        assert connection.fetch("select rid from unembedded") == [(rid,)]
        assert connection.fetch("select rid, version, model, vector from old_vectors") == [(rid, 2, model, b"\0<\0\0")]

    def test_parts_go_with_their_vector(self, connection: PostgresConnection) -> None:
        rid, model = add_memory(connection, "a"), insert(connection, "models", name="m", dimensions=2)
        for change in (
            "update vectors set vector = vector",
            "delete from vectors",
            "update memories set content = 'b'",
        ):
            connection.execute(
                "insert into vectors(rid, model, vector) values (:rid, :model, :vector) on conflict do nothing",
                {"rid": rid, "model": model, "vector": b"\0<\0\0"},
            )
            insert(connection, "part_vectors", rid=rid, model=model, first=0, last=1, vector=b"\0<\0\0")
            connection.execute(change)
            assert connection.fetch("select part from part_vectors") == []

    def test_a_memory_is_valid_until_it_is_superseded(self, connection: PostgresConnection) -> None:
        old, new = add_memory(connection, "old"), add_memory(connection, "new")
        until = "select valid_until from memories where id = 'old'"
        insert(connection, "relations", source=new, target=old, kind="mentions", confidence=1, valid_from=3)
        assert connection.fetch_value(until) is None
        insert(connection, "relations", source=new, target=old, kind="supersedes", confidence=1, valid_from=5)
        assert connection.fetch_value(until) == 5
        connection.execute("update relations set valid_from = 6 where kind = 'supersedes'")
        assert connection.fetch_value(until) == 6
        connection.execute("update relations set valid_until = 9 where kind = 'supersedes'")
        assert connection.fetch_value(until) is None
        connection.execute("update relations set valid_until = null where kind = 'supersedes'")
        assert connection.fetch_value(until) == 6
        connection.execute("delete from memories where id = 'new'")
        assert connection.fetch_value(until) is None
        insert(connection, "relations", source=add_memory(connection, "c"), target=old, kind="supersedes",
               confidence=1, valid_from=5, valid_until=6)  # fmt: skip
        assert connection.fetch_value(until) is None

    def test_places_in_a_session(self, connection: PostgresConnection) -> None:
        sid = insert(connection, "sessions", id="s", namespace="default", started_at=1)
        for id in "abc":
            rid = add_memory(connection, id)
            for usage in ("created", "recalled"):
                insert(connection, "session_memories", rid=rid, sid=sid, usage=usage, at=1, latest=1)
        connection.execute("delete from memories where id = 'b'")
        insert(
            connection, "session_memories", rid=add_memory(connection, "d"), sid=sid, usage="created", at=1, latest=1
        )
        places = "select m.id, s.usage, s.position from session_memories s join memories m using (rid) order by 1, 2"
        assert connection.fetch(places) == [
            ("a", "created", 1),
            ("a", "recalled", None),
            ("c", "created", 3),
            ("c", "recalled", None),
            ("d", "created", 4),
        ]

    def test_when_it_was_recorded(self, connection: PostgresConnection) -> None:
        add_memory(connection, "a")
        add_memory(connection, "b", recorded_at=3)
        assert connection.fetch("select recorded_at from memories order by id") == [(7,), (3,)]

    def test_recalls_outlive_their_session(self, connection: PostgresConnection) -> None:
        sid = insert(connection, "sessions", id="s", namespace="default", started_at=1)
        insert(connection, "recalls", id="r", namespace="default", at=1, mode="m", profile="p", sid=sid)
        connection.execute("delete from sessions")
        assert connection.fetch("select id, sid, tenant from recalls") == [("r", None, "default")]

    def test_a_model_has_one_number_for_all_tenants(
        self, database: PostgresDatabase, postgres_url: str, connection: PostgresConnection
    ) -> None:
        number = insert(connection, "models", name=r"a\b:c", dimensions=2)
        other = PostgresDatabase(postgres_url, namespace="other")
        with other.writing() as second:
            assert insert(second, "models", name=r"a\b:c", dimensions=2) == number
            assert insert(second, "models", name="d", dimensions=2) != number
        other.close()

    def test_what_once_is_written_twice(self, connection: PostgresConnection) -> None:
        add_memory(connection, "a", content_hash=b"same", project=None)
        again = """
            insert into memories(id, namespace, project, content, content_hash, sector, tier, salience, created_at,
              updated_at, reinforced_at)
            values (:id, 'default', :project, 'text', :hash, 's', 't', 1, 1, 1, 1) on conflict do nothing returning rid
        """
        for id, project, hash, is_new in [("b", None, b"same", 0), ("b", "p", b"same", 1), ("b", None, b"other", 0)]:
            found = connection.fetch_value(again, {"id": id, "project": project, "hash": hash})
            assert (found is not None) == is_new
