"""The schema of a PostgreSQL database: migrations under a lock, the role of the application, and row security."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Identifier

from memorist.errors import StoreError
from memorist.store.migrations import list_pending, load_migrations, migrate
from memorist.store.postgres.connections import APP_ROLE, RawConnection

_OLDEST_SERVER = 160_000  # `is json`
_LOCK = 0x6D656D6F72697374  # "memorist"


class PostgresSchema:
    """The schema of a PostgreSQL database, as `migrations.Database` needs it."""

    def __init__(self, connection: RawConnection, path: str, *, read_only: bool) -> None:
        self._connection, self._path, self._read_only = connection, path, read_only

    def load_applied(self) -> dict[str, str]:
        if _fetch_value(self._connection, "select to_regclass('_migrations')") is None:
            return {}
        return dict(self._connection.execute("select name, sha256 from _migrations order by name").fetchall())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._read_only:
            raise StoreError(f"{self._path} has an older schema; open it once for writing to bring it up to date")
        with self._connection.transaction():
            yield

    def apply(self, name: str, sql: str, digest: str) -> None:
        self._connection.execute("create table if not exists _migrations(name text primary key, sha256 text not null)")
        self._connection.execute(sql.encode())
        protect_tables(self._connection)
        self._connection.execute("insert into _migrations(name, sha256) values (%s, %s)", (name, digest))

    def save_copy(self, before: str) -> None:
        """Keep no copy: a server has backups of its own."""


def prepare_schema(connection: RawConnection, path: str, *, read_only: bool) -> tuple[str | None, int]:
    """Bring the schema up to date; return the role that connections have to take, and the oid of `halfvec`."""
    if connection.info.server_version < _OLDEST_SERVER:
        raise StoreError(f"{path} is PostgreSQL {connection.info.server_version // 10_000}; Memorist needs 16 or newer")
    schema = PostgresSchema(connection, path, read_only=read_only)
    migrations = load_migrations("postgres")
    if list_pending(schema.load_applied(), migrations):
        with _lock(connection):
            if not read_only:
                _create_extension(connection, path)
                _create_role(connection)
            migrate(schema, migrations)
    role = APP_ROLE if _bypasses_row_security(connection) else None
    return role, _fetch_value(connection, "select 'halfvec'::regtype::oid::bigint")


def protect_tables(connection: RawConnection) -> None:
    """Wall off the tenants of every table that has them, and let the application's role use it."""
    tables = connection.execute(
        """
        select c.relname
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant' and not a.attisdropped
        where c.relkind in ('r', 'p') and c.relnamespace = current_schema()::regnamespace and not c.relrowsecurity
        """
    ).fetchall()
    for (table,) in tables:
        for statement in (
            "alter table {} enable row level security",
            "alter table {} force row level security",
            """
            create policy tenant_only on {}
              using (tenant = current_setting('memorist.tenant', true))
              with check (tenant = current_setting('memorist.tenant', true))
            """,
        ):
            connection.execute(SQL(statement).format(Identifier(table)))
        if _role_exists(connection):
            connection.execute(
                SQL("grant select, insert, update, delete on {} to {}").format(Identifier(table), Identifier(APP_ROLE))
            )


@contextmanager
def _lock(connection: RawConnection) -> Iterator[None]:
    """Hold the lock of migrations, so that of all that start at once one migrates and the others wait for it."""
    connection.execute("select pg_advisory_lock(%s)", (_LOCK,))
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("select pg_advisory_unlock(%s)", (_LOCK,))


def _create_extension(connection: RawConnection, path: str) -> None:
    try:
        connection.execute("create extension if not exists vector")
    except (errors.UndefinedFile, errors.FeatureNotSupported):
        raise StoreError(
            f"the server of {path} has no pgvector; install it there (a package such as postgresql-18-pgvector)"
        ) from None
    except errors.InsufficientPrivilege:
        raise StoreError(
            f"{path} has no pgvector yet, and this user may not add it: "
            "have an administrator run `create extension vector` in that database"
        ) from None


def _create_role(connection: RawConnection) -> None:
    """Make the role that sees one tenant, if this user may; whoever needs it and may not learns so later."""
    if not _role_exists(connection):
        try:
            connection.execute(SQL("create role {} nologin nobypassrls").format(Identifier(APP_ROLE)))
        except (errors.DuplicateObject, errors.UniqueViolation):  # made for another database at the same moment
            pass
        except errors.InsufficientPrivilege:
            return
    connection.execute(
        SQL("grant usage on schema {} to {}").format(
            Identifier(_fetch_value(connection, "select current_schema()")), Identifier(APP_ROLE)
        )
    )


def _role_exists(connection: RawConnection) -> bool:
    return bool(_fetch_value(connection, f"select 1 from pg_roles where rolname = '{APP_ROLE}'"))


def _bypasses_row_security(connection: RawConnection) -> bool:
    return not _fetch_value(connection, "select row_security_active('memories')")


def _fetch_value(connection: psycopg.Connection[Any], sql: str) -> Any:
    row = connection.execute(sql.encode()).fetchone()
    return row[0] if row else None
