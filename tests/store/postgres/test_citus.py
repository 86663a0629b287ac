"""Citus: the rules that it sets for tables, how they are handed over to it, and the statements that it gets."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import RawCursor
from psycopg.pq import TransactionStatus

import memorist
from conftest import HashingEmbedder
from memorist.cli.app import main
from memorist.engine import distribute
from memorist.errors import InvalidInput, StoreError
from memorist.store.postgres.citus import adapt_statement
from memorist.store.postgres.connections import PostgresConnection
from postgres_server import Server, url_of

NOT_DISTRIBUTED = {"_migrations"}  # one row a migration, read as the program starts
BOUND = re.compile(r"\btenant = 'team'::text")
_TRANSITION_QUERY = r"(?s)\$query\$.*?\$query\$|'select [^']* from (?:new|old)_texts \w'"


def connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)


def list_tables(connection: psycopg.Connection[Any]) -> list[str]:
    found = connection.execute(
        "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace "
        "and relname <> all(%s)",
        [[*NOT_DISTRIBUTED, "pg_dist_partition"]],
    ).fetchall()
    return [name for (name,) in found]


class TestRules:
    """
    The schema keeps to what Citus asks of tables that `create_distributed_table(..., 'tenant')` distributes.

    * A primary key, a unique constraint or index, and an exclusion constraint contain the distribution column: they are
      checked on one node. Here it leads them.
    * A foreign key is between tables distributed by the same column, in the same group, and contains it at the same
      place on both sides; none leads to a table that is not distributed.
    * A foreign key with the distribution column has no `set null` or `set default`, not even for other columns
      (https://github.com/citusdata/citus/issues/7132), and no action `on update`.
    * A column of numbers from a sequence is a bigint: each node has its own range of them.
    * The distribution column is never updated, has the same type and collation everywhere, and is not generated.
    * Triggers are created on each shard (`citus.enable_unsafe_triggers`), so they may read and write rows of the same
      tenant only, and name the tenant; they are written in plpgsql or SQL, and none is deferred. Citus plans no
      statement that names both a transition table and a table of its own.
    * There is no inheritance, no rule, no view to be written to, and no unlogged table.
    * A function that runs with its owner's rights names the tenant as a value.
    * A policy does not read tables.
    """

    @pytest.fixture
    def catalog(self, postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
        with connect(postgres_url) as connection:
            yield connection

    def test_every_table_has_a_tenant(self, catalog: psycopg.Connection[Any]) -> None:
        without = catalog.execute(
            """
            select relname from pg_class c
            where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace and not exists (
              select 1 from pg_attribute a join pg_collation l on l.oid = a.attcollation
              where attrelid = c.oid and attname = 'tenant' and atttypid = 'text'::regtype and attnotnull
                and attgenerated = '' and collname = 'C')
            """
        ).fetchall()
        assert {name for (name,) in without} == NOT_DISTRIBUTED

    def test_the_tenant_leads_every_key_and_index(self, catalog: psycopg.Connection[Any]) -> None:
        others = catalog.execute(
            """
            select c.relname
            from pg_index i
            join pg_class c on c.oid = i.indexrelid
            join pg_class t on t.oid = i.indrelid
            join pg_am m on m.oid = c.relam
            left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
            where t.relnamespace = 'public'::regnamespace and t.relname <> all(%s)
              and a.attname is distinct from 'tenant'
              and (i.indisunique or i.indisexclusion or m.amname = 'btree')  -- others cannot, or need not
            """,
            [list(NOT_DISTRIBUTED)],
        ).fetchall()
        assert others == []

    def test_foreign_keys_stay_with_the_tenant(self, catalog: psycopg.Connection[Any]) -> None:
        keys = catalog.execute(
            """
            select k.conname, k.confdeltype::text, k.confupdtype::text, k.condeferrable,
              (select array_agg(attname::text order by place) from unnest(k.conkey) with ordinality u(number, place)
                join pg_attribute on attrelid = k.conrelid and attnum = number),
              (select array_agg(attname::text order by place) from unnest(k.confkey) with ordinality u(number, place)
                join pg_attribute on attrelid = k.confrelid and attnum = number)
            from pg_constraint k
            where k.contype = 'f' and k.connamespace = 'public'::regnamespace
            """
        ).fetchall()
        assert len(keys) > 20
        for name, on_delete, on_update, deferrable, own, others in keys:
            assert (own[0], others[0]) == ("tenant", "tenant"), name
            assert on_delete in ("a", "c"), name  # nothing, or cascade
            assert on_update == "a", name
            assert not deferrable, name

    def test_numbers_from_sequences_are_big(self, catalog: psycopg.Connection[Any]) -> None:
        others = catalog.execute(
            """
            select c.relname, a.attname
            from pg_attribute a
            join pg_class c on c.oid = a.attrelid
            where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.atttypid <> 'bigint'::regtype
              and (a.attidentity <> '' or exists (
                select 1 from pg_attrdef d
                where d.adrelid = c.oid and d.adnum = a.attnum and pg_get_expr(d.adbin, d.adrelid) like '%nextval%'))
            """
        ).fetchall()
        assert others == []

    def test_triggers_stay_with_the_tenant(self, catalog: psycopg.Connection[Any]) -> None:
        triggers = catalog.execute(
            """
            select t.tgname, t.tgconstraint <> 0 or t.tgdeferrable, l.lanname, p.prosrc
            from pg_trigger t
            join pg_class c on c.oid = t.tgrelid
            join pg_proc p on p.oid = t.tgfoid
            join pg_language l on l.oid = p.prolang
            where not t.tgisinternal and c.relnamespace = 'public'::regnamespace
            """
        ).fetchall()
        assert len(triggers) >= 9
        tables = "|".join(list_tables(catalog))
        for name, constraint, language, body in triggers:
            assert not constraint, name
            assert language in ("plpgsql", "sql"), name
            of_transitions, rest = re.findall(_TRANSITION_QUERY, body), re.sub(_TRANSITION_QUERY, "", body)
            assert not any(re.search(rf"(from|join) ({tables})\b", query) for query in of_transitions), name
            for statement in re.findall(r"(?s)(?:insert into|delete from|update|from|join)\s.*?;", rest):
                assert "tenant" in statement, f"{name}: {statement}"

    def test_functions_with_the_rights_of_their_owner_name_the_tenant(self, catalog: psycopg.Connection[Any]) -> None:
        functions = catalog.execute(
            """
            select p.proname, p.prosrc, p.proconfig
            from pg_proc p
            where p.prosecdef and p.pronamespace = 'public'::regnamespace
            """
        ).fetchall()
        for name, body, settings in functions:
            assert "own text := current_setting('memorist.tenant', true);" in body, name
            for select in re.findall(r"(?s)\bfrom\s.*?;", body):
                assert "t.tenant = own" in select, name
            # Otherwise a caller could put a table of his own in the place of ours.
            assert any(setting.startswith("search_path=") for setting in settings or ()), name

    def test_nothing_else_stands_in_the_way(self, catalog: psycopg.Connection[Any]) -> None:
        found = catalog.execute(
            """
            select relname from pg_class c
            where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f') and (
              relkind in ('v', 'm', 'f') or relpersistence <> 'p'
              or exists (select 1 from pg_inherits where inhrelid = c.oid)
              or exists (select 1 from pg_rewrite where ev_class = c.oid))
              and not exists (select 1 from pg_depend where objid = c.oid and deptype = 'e')
            """
        ).fetchall()
        assert found == []


# Functions in the place of those of Citus: they note what they are asked, and refuse what Citus refuses.
_STAND_IN = """
    create table pg_dist_partition (logicalrelid regclass primary key, colocated text not null, number serial);
    create function citus_version() returns text language sql as $$ select 'Citus 14.0 on a stand-in' $$;
    create function create_distributed_table(
      table_name regclass, distribution_column text, distribution_type text default 'hash',
      colocate_with text default 'default') returns void language plpgsql as $$
    begin
      if current_setting('citus.enable_unsafe_triggers', true) is distinct from 'on'
        and exists (select 1 from pg_trigger where tgrelid = table_name and not tgisinternal) then
        raise 'cannot distribute relation "%" because it has triggers', table_name;
      end if;
      if exists (
        select 1 from pg_constraint k where k.contype = 'f' and k.conrelid = table_name
          and not exists (select 1 from pg_dist_partition p where p.logicalrelid = k.confrelid)) then
        raise 'referenced table of % must be a distributed table', table_name;
      end if;
      if colocate_with not in ('none', 'default')
        and not exists (select 1 from pg_dist_partition where logicalrelid = colocate_with::regclass) then
        raise 'relation % is not distributed', colocate_with;
      end if;
      if distribution_column <> 'tenant' then
        raise 'not the tenant';
      end if;
      insert into pg_dist_partition(logicalrelid, colocated) values (table_name, colocate_with);
    end $$;
    create function citus_total_relation_size(relation regclass) returns bigint language sql
    return pg_total_relation_size(relation);
    grant select on pg_dist_partition to public;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of its own: roles, which are changed, belong to all databases of a server."""
    server = Server()
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> str:
    """An empty database with a stand-in for Citus."""
    name = f"d{abs(hash(request.node.nodeid))}"
    with connect(url_of(server.address)) as connection:
        connection.execute(f"create database {name}".encode())
    with connect(url_of(server.address, name)) as connection:
        connection.execute(_STAND_IN)
    return url_of(server.address, name)


class TestDistribute:
    def test_without_citus_it_says_so(self, postgres_url: str) -> None:
        with pytest.raises(StoreError, match=r"has no Citus, so nothing was distributed.*create extension citus"):
            distribute(postgres_url)

    def test_the_command_says_it_as_well(self, postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="1"):
            main(["--db", postgres_url, "admin", "distribute"])
        assert "has no Citus" in capsys.readouterr().err

    def test_a_file_is_not_distributed(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="not on a server"):
            distribute(tmp_path / "memory.db")

    def test_every_table_comes_after_those_that_it_refers_to(
        self, url: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit, match="0"):
            main(["--db", url, "admin", "distribute", "--json"])

        report = json.loads(capsys.readouterr().out)
        assert report["version"] == "Citus 14.0"
        with connect(url) as connection:
            tables = set(list_tables(connection))
            calls = connection.execute(
                "select logicalrelid::text, colocated from pg_dist_partition order by number"
            ).fetchall()
        assert calls[0] == ("memories", "none")
        assert {colocated for _, colocated in calls[1:]} == {"memories"}
        assert report["distributed"] == [table for table, _ in calls]
        assert set(report["distributed"]) == tables

    def test_again_there_is_nothing_to_do(self, url: str) -> None:
        first = distribute(url)
        again = distribute(url)

        assert (again.distributed, set(again.present)) == ((), set(first.distributed))

    def test_what_is_new_joins_the_rest(self, url: str) -> None:
        distribute(url)
        with connect(url) as connection:
            connection.execute("delete from pg_dist_partition where logicalrelid = 'recalled'::regclass")

        assert distribute(url).distributed == ("recalled",)

    def test_memories_that_are_there_already_stay_where_they_are(self, url: str) -> None:
        with memorist.open(url, embedder="none") as memory:
            memory.add("We deploy with make ship")

        with pytest.raises(StoreError, match=r"has memories already.*migrate"):
            distribute(url)
        with connect(url) as connection:
            assert connection.execute("select count(*) from pg_dist_partition").fetchone() == (0,)

    def test_only_a_superuser_can(self, url: str, server: Server) -> None:
        memorist.open(url, embedder="none").close()
        with connect(url) as connection:
            connection.execute("drop role if exists member")
            connection.execute("create role member login in role memorist_app")

        with pytest.raises(StoreError, match="no superuser"):
            distribute(url.replace("postgres@", "member@"))

    def test_a_namespace_is_still_a_wall(self, url: str) -> None:
        distribute(url)
        for name in ("one", "two"):
            with memorist.open(url, namespace=name, embedder="none") as memory:
                memory.add(f"a note of {name}")
                assert [hit.memory.content for hit in memory.search("note").hits] == [f"a note of {name}"]
        with connect(url) as connection:
            connection.execute("set role memorist_app")
            assert connection.execute("select count(*) from memories").fetchone() == (0,)
            connection.execute("set memorist.tenant = 'two'")
            assert connection.execute("select count(*) from memories").fetchone() == (1,)


@pytest.mark.parametrize(
    ("statement", "returns"),
    [
        ("insert into a(x) select x from b", True),
        ("\n insert into a(x)\n select x from b where y = 1", True),
        ("insert into a(x) select x from b on conflict do nothing", False),
        ("insert into a(x) select x from b returning x", False),
        ("insert into a(x) values (1)", False),
        ("select 1", False),
    ],
)
def test_rows_that_are_selected_to_be_inserted_are_returned(statement: str, returns: bool) -> None:
    assert (adapt_statement(statement) != statement) == returns


class TestStatements:
    """Each block is a transaction, and every table of each statement is planned with the tenant as a constant."""

    def test_the_tenant_of_every_statement_is_known(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        distribute(url)
        with connect(url) as connection:
            tables = set(list_tables(connection))
        with watch_plans(monkeypatch) as plans:
            live(url)
        assert {"memories", "memory_fields", "indexed_fields"} <= tables
        unbound = [
            (scan["Relation Name"], sql)
            for sql, plan in plans
            for scan in list_scans(plan)
            if scan["Relation Name"] in tables and not BOUND.search(json.dumps(scan))
        ]
        assert unbound == []
        assert not [sql for sql, _ in plans if re.search(r"(?s)insert into.*values\s*\(.*\(\s*select", sql)]
        assert len(plans) > 100


@contextmanager
def watch_plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """Collect all statements with their plans, and hold that each is sent within a transaction."""
    plans: list[tuple[str, Any]] = []
    original = PostgresConnection._attempt

    def attempt(self: PostgresConnection, send: Any) -> Any:
        names = dict(zip(send.__code__.co_freevars, (cell.cell_contents for cell in send.__closure__), strict=True))
        statement, ordered = names["statement"], names["ordered"]
        raw = self._loan.require_raw()
        assert raw.info.transaction_status == TransactionStatus.INTRANS
        values = ordered[0] if ordered and isinstance(ordered[0], list) else ordered
        if not statement.sql.lstrip().startswith(("discard", "show")):
            cursor = RawCursor(raw)
            cursor.execute(f"explain (format json) {self._loan.adapt(statement.sql)}".encode(), values)
            plans.append((statement.sql, cursor.fetchall()[0][0][0]["Plan"]))
        return original(self, send)

    monkeypatch.setattr(PostgresConnection, "_attempt", attempt)
    yield plans


def list_scans(plan: Any) -> Iterator[Any]:
    """Yield the parts of a plan that read a table."""
    if "Relation Name" in plan and plan["Node Type"] != "ModifyTable":
        yield plan
    for part in plan.get("Plans", ()):
        yield from list_scans(part)


def live(url: str) -> None:
    """Do with a memory most of what one does."""
    with memorist.open(url, namespace="team", embedder=HashingEmbedder()) as memory:
        session = memory.sessions.start()
        first = memory.add("We deploy with make ship", tags=["ops"], project="web", session=session.id)
        second = memory.add("We deploy by hand", title="Deploying", facts=[{"text": "by hand", "kind": "habit"}])
        ids = memory.add_many([{"content": f"note {number} on topic {number % 7}"} for number in range(30)])
        for query in ("deploy", '"make ship"', "topi*", "wher is topic 3", "ship OR hand"):
            memory.search(query, facets=["project", "kind"], record="log")
            memory.search(query, project="web", tags=["ops"], mode="keyword")
        memory.search("deploy", as_of="yesterday", min_salience=0.1)
        memory.update(first.id, content="We deploy with make release", tags=["ops", "new"])
        memory.history(first.id)
        memory.links.add(first.id, second.id, "explains")
        memory.supersede(second.id, first.id)
        memory.pin(ids[0])
        memory.reinforce(ids[1])
        memory.forget(ids[2])
        memory.restore(ids[2])
        memory.forget(ids[3], hard=True)
        memory.sessions.end(session.id, summary="done")
        memory.list(project="web")
        memory.related(first.id)
        memory.context("deploy")
        memory.stats()
        assert memory.check().ok
    with memorist.open(url, namespace="team", embedder=HashingEmbedder(), metadata_index=["user", "n"]) as memory:
        memory.add_many({"content": f"indexed {n}", "metadata": {"user": f"u{n % 3}", "n": n}} for n in range(20))
        for filter in ({"user": "u1"}, {"user": {"$ne": "u1"}}, {"n": {"$gt": 3, "$lt": 9}}, {"user": "u1", "x": 1}):
            memory.search("indexed", metadata=filter, facets=["project"])
            memory.list(metadata=filter)
            memory.count(metadata=filter)
            memory.facets(None, ["project"], metadata=filter)
        memory.forget_many(metadata={"n": 5})
        assert memory.check().ok
