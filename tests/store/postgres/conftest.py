"""
A PostgreSQL server for the run, and a fresh database for each test.

* `postgres_url`: the schema is up to date, the user is a superuser.
* `postgres_user_url`: the same for an ordinary user, who owns the database.
* `empty_postgres_url`: nothing is in it, the user is a superuser.
"""

from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="session")
def create_database(postgres_server: str, worker_id: str) -> Iterator[Callable[[str, str], str]]:
    """Gives the URL of a new database, made from a template, for its owner."""
    numbers = count()
    made: list[str] = []
    with connect(url_of(postgres_server)) as connection:

        def create(template: str, owner: str) -> str:
            name = f"test_{worker_id}_{next(numbers)}"
            connection.execute(
                SQL("create database {} template {} owner {} strategy file_copy").format(
                    Identifier(name), Identifier(template), Identifier(owner)
                )
            )
            made.append(name)
            return url_of(postgres_server, name, owner)

        yield create


@pytest.fixture
def postgres_url(create_database: Callable[[str, str], str]) -> str:
    return create_database(_TEMPLATE, "postgres")


@pytest.fixture
def postgres_user_url(create_database: Callable[[str, str], str]) -> str:
    return create_database(_USER_TEMPLATE, ORDINARY_USER)


@pytest.fixture
def empty_postgres_url(create_database: Callable[[str, str], str]) -> str:
    return create_database("template0", "postgres")


@pytest.fixture
def database(postgres_url: str) -> Iterator[PostgresDatabase]:
    """The namespace "default" of a fresh database."""
    opened = PostgresDatabase(postgres_url, namespace="default")
    yield opened
    opened.close()
