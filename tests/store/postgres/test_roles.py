"""The role of the application, used directly: what row security hides from its connections, and what it does not."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

import memorist
from conftest import HashingEmbedder
from memorist.store.postgres.schema import APP_ROLE, list_tables
from postgres_fixtures import ORDINARY_USER, connect

SECRET = "quillfeather"


@pytest.fixture
def role(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the application's role for the namespace "mine", beside one with every kind of row."""
    for namespace, word in (("mine", "plain"), ("theirs", SECRET)):
        with memorist.open(postgres_url, namespace=namespace, embedder=HashingEmbedder()) as memory:
            session = memory.sessions.start(id="a session", summary=word)
            first = memory.add(f"the {word}", id="same-id", tags=[word], facts=[word], session=session.id)
            second = memory.add(f"the other {word}", metadata={"key": word})
            memory.update(first.id, content=f"the new {word}")
            memory.links.add(first.id, second.id, word)
            memory.lenses.set(word, tags=word)
            memory.search(word, record="reinforce")
            memory.searches.add_feedback(first.id, True, query=word)
    with connect(postgres_url) as connection:
        connection.execute(f"set role {APP_ROLE}")
        connection.execute("select set_config('memorist.tenant', 'mine', false)")
        yield connection


def rows(connection: psycopg.Connection[Any], sql: str) -> list[Any]:
    return connection.execute(sql.encode()).fetchall()


def tables(connection: psycopg.Connection[Any]) -> list[str]:
    return [name for name, _ in list_tables(connection)]


def test_no_table_shows_a_row_of_another_tenant(role: psycopg.Connection[Any]) -> None:
    filled = 0
    for table in tables(role):
        found = rows(role, f"select t.tenant, t::text from {table} t")
        assert {tenant for tenant, _ in found} <= {"mine"}, table
        assert SECRET not in repr(found), table
        filled += bool(found)
    assert filled > 12


@pytest.mark.parametrize("tenant", ["", "'nobody'"])
def test_without_a_tenant_there_is_nothing(role: psycopg.Connection[Any], tenant: str) -> None:
    role.execute(f"set memorist.tenant = {tenant or 'default'}")

    assert [table for table in tables(role) if rows(role, f"select 1 from {table}")] == []


def test_what_is_anothers_can_be_neither_written_nor_told_by_an_error(role: psycopg.Connection[Any]) -> None:
    """Every key begins with the tenant: a row of another one conflicts with nothing, and is referred to by nothing."""
    taken = rows(role, "select max(rid) from memories")[0][0]
    columns = "content, content_hash, sector, tier, salience, created_at, updated_at, reinforced_at, namespace"
    values = f"'{SECRET}', '\\x00', 'semantic', 'project', .5, 1, 1, 1, 'theirs'"
    messages = []
    for sql in (
        f"insert into memories(tenant, id, {columns}) values ('theirs', 'same-id', {values})",
        "update memories set tenant = 'theirs'",
        *(f"insert into memory_tags(tag, rid) values ('x', {rid})" for rid in range(taken - 4, taken + 8)),
    ):
        try:
            role.execute(sql.encode())
        except psycopg.Error as exc:
            messages.append(str(exc))
    role.execute(f"insert into memories(id, {columns}) values ('new', {values})".encode())  # the hash of nobody here

    assert rows(role, "delete from memories where tenant = 'theirs' returning 1") == []
    assert SECRET not in "".join(messages).replace(f"{SECRET}, ", "")
    assert len({message.partition("DETAIL")[0] for message in messages if "foreign key" in message}) == 1


_SCAN = "select rid from scan_texts('{}', true, '{}'::tsquery, null, null)"
_FIND = "select rid from find_texts('{}', true, '{}'::tsquery, null)"


@pytest.mark.parametrize("search", [_SCAN, _FIND])
def test_what_runs_with_the_rights_of_its_owner_ends_at_the_wall_and_is_for_the_role_alone(
    role: psycopg.Connection[Any], postgres_url: str, search: str
) -> None:
    assert rows(role, search.format("mine", "plain"))
    assert rows(role, search.format("theirs", SECRET)) == []
    with psycopg.connect(make_conninfo(postgres_url, user=ORDINARY_USER), autocommit=True) as stranger:
        stranger.execute("set memorist.tenant = 'theirs'")
        with pytest.raises(errors.InsufficientPrivilege):
            stranger.execute(search.format("theirs", SECRET).encode())


def test_nothing_else_runs_with_the_rights_of_its_owner(role: psycopg.Connection[Any]) -> None:
    defining = rows(
        role,
        """
        select p.proname, p.proconfig::text like '%search_path=%pg_temp%' from pg_proc p
        where p.pronamespace = current_schema()::regnamespace and p.prosecdef
          and not exists (select 1 from pg_depend d where d.objid = p.oid and d.deptype = 'e')
        order by 1
        """,
    )
    views = rows(
        role,
        """
        select relname from pg_class
        where relkind in ('v', 'm') and relnamespace = current_schema()::regnamespace
          and not coalesce(reloptions @> array['security_invoker=true'], false)
        """,
    )

    assert (defining, views) == ([("find_texts", True), ("scan_texts", True)], [])


def test_numbers_of_whole_tables_are_kept_from_the_role_where_the_server_lets_us(
    role: psycopg.Connection[Any], postgres_url: str
) -> None:
    with connect(postgres_url) as owner:
        owner.execute("analyze memories")

    assert rows(role, "select most_common_vals from pg_stats where tablename = 'memories'") == []
    for sequence in rows(role, "select relname from pg_class where relkind = 'S'"):
        with pytest.raises(errors.InsufficientPrivilege):
            role.execute(SQL("select last_value from {}").format(Identifier(sequence[0])))
    for statement in (
        "truncate lenses",
        "alter table memories disable row level security",
        "drop policy tenant_only on memories",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            role.execute(statement.encode())


def test_what_the_holder_of_a_connection_can_learn_is_what_the_documentation_says(
    role: psycopg.Connection[Any],
) -> None:
    """Row security keeps the program's own mistakes from crossing the wall, not whoever runs SQL of his own."""
    assert rows(role, "select reltuples, pg_relation_size(oid) from pg_class where relname = 'memories'")
    role.execute("set memorist.tenant = 'theirs'")
    assert SECRET in repr(rows(role, "select content from memories"))
    role.execute("reset role")
    assert rows(role, "select current_user") == [("postgres",)]
