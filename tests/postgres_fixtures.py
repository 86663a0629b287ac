"""
A PostgreSQL server for the run, and a fresh database for each test.

* `postgres_url`: the schema is up to date, the user is a superuser.
* `postgres_user_url`: the same for an ordinary user, who owns the database.
* `empty_postgres_url`: nothing is in it, the user is a superuser.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from memorist.store.postgres.connections import PostgresDatabase
from postgres_server import url_of, use_server

ORDINARY_USER = "ordinary"
_TEMPLATE, _USER_TEMPLATE = "migrated", "migrated_by_user"
_LOCK = 1


def connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """The address of the server, for `url_of`; one for all workers of a run."""
    folder = tmp_path_factory.getbasetemp()
    with use_server(folder if worker_id == "master" else folder.parent) as address:
        with connect(url_of(address)) as connection:
            connection.execute("select pg_advisory_lock(%s)", (_LOCK,))  # one worker makes the templates
            if not connection.execute("select 1 from pg_database where datname = %s", (_USER_TEMPLATE,)).fetchone():
                _make_templates(connection, address)
        yield address


def _make_templates(connection: psycopg.Connection[Any], address: str) -> None:
    connection.execute(SQL("create role {} login").format(Identifier(ORDINARY_USER)))
    for template, user in ((_TEMPLATE, "postgres"), (_USER_TEMPLATE, ORDINARY_USER)):
        connection.execute(SQL("create database {} owner {}").format(Identifier(template), Identifier(user)))
        with connect(url_of(address, template)) as admin:
            admin.execute("create extension vector")  # an ordinary user may not
        PostgresDatabase(url_of(address, template, user), namespace="default").close()


class Databases:
    """Databases made from templates. What a test has filled is emptied for the next: to copy one takes much longer."""

    def __init__(self, address: str, worker: str) -> None:
        self._address, self._worker = address, worker
        self._numbers = count()
        self._idle: dict[str, list[str]] = {_TEMPLATE: [], _USER_TEMPLATE: []}
        self._objects: dict[str, object] = {}

    @contextmanager
    def lend(self, template: str, owner: str) -> Iterator[str]:
        """Give the URL of a database for its owner."""
        idle = self._idle.get(template, [])
        name = idle.pop() if idle else self._create(template, owner)
        yield url_of(self._address, name, owner)
        if template in self._idle and self._empty(name):
            idle.append(name)

    def _create(self, template: str, owner: str) -> str:
        name = f"test_{self._worker}_{next(self._numbers)}"
        statement = SQL("create database {} template {} owner {} strategy file_copy")
        with connect(url_of(self._address)) as connection:
            connection.execute(statement.format(Identifier(name), Identifier(template), Identifier(owner)))
        if template not in self._idle:
            return name
        with connect(url_of(self._address, name)) as connection:
            self._objects[name] = connection.execute(_OBJECTS).fetchone()
        return name

    def _empty(self, name: str) -> bool:
        """Remove all rows; return whether the database is as it was made."""
        with connect(url_of(self._address, name)) as connection:
            connection.execute(_END_SESSIONS)
            filled = connection.execute(_FILLED_TABLES).fetchall()
            large = [Identifier(table) for table, is_large in filled if is_large]
            if large:
                connection.execute(SQL("truncate {} cascade").format(SQL(", ").join(large)))
            deletions = [SQL("delete from {};").format(Identifier(table)) for table, is_large in filled if not is_large]
            connection.execute(SQL(_WITHOUT_TRIGGERS) + SQL("").join(deletions) + SQL(_RESTART_NUMBERS))
            return connection.execute(_OBJECTS).fetchone() == self._objects[name]


_END_SESSIONS = """
    select pg_terminate_backend(pid, 300000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
# To truncate a table makes new files for it, its indexes, and all that refer to it; a few rows are deleted instead.
_FILLED_TABLES = """
    select relname, pg_relation_size(oid) > 65536 from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> '_migrations'
      and pg_relation_size(oid) > 0
"""
_WITHOUT_TRIGGERS = "set session_replication_role = replica;"
_RESTART_NUMBERS = (
    "select setval(oid, 1, false) from pg_class where relnamespace = 'public'::regnamespace and relkind = 'S'"
)
_OBJECTS = """
    select
      (select jsonb_agg(array[c.relname, c.relkind::text, c.relacl::text] order by c.relname)
        from pg_class c where relnamespace = 'public'::regnamespace and relname not like 'pg_toast%'),
      (select jsonb_agg(name || sha256 order by name) from _migrations)
"""


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: str, worker_id: str) -> Databases:
    return Databases(postgres_server, worker_id)


@pytest.fixture
def postgres_url(postgres_databases: Databases) -> Iterator[str]:
    with postgres_databases.lend(_TEMPLATE, "postgres") as url:
        yield url


@pytest.fixture
def postgres_user_url(postgres_databases: Databases) -> Iterator[str]:
    with postgres_databases.lend(_USER_TEMPLATE, ORDINARY_USER) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_databases: Databases) -> Iterator[str]:
    with postgres_databases.lend("template0", "postgres") as url:
        yield url


@pytest.fixture
def database(postgres_url: str) -> Iterator[PostgresDatabase]:
    """The namespace "default" of a fresh database."""
    opened = PostgresDatabase(postgres_url, namespace="default")
    yield opened
    opened.close()
