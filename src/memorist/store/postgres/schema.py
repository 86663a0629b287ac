"""The schema of a PostgreSQL database: migrations under a lock, the role of the application, and row security."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Identifier

from memorist.errors import StoreError
from memorist.store.migrations import list_pending, load_migrations, migrate
from memorist.store.postgres.pool import RawConnection

APP_ROLE = "memorist_app"
_OLDEST_SERVER = 160_000  # `is json`
_LOCK = 0x6D656D6F72697374  # "memorist"


class PostgresSchema:
    """The schema of a PostgreSQL database, as `migrations.Schema` needs it."""

    def __init__(self, connection: RawConnection, path: str, *, read_only: bool) -> None:
        self._connection, self._path, self._read_only = connection, path, read_only

    def load_applied(self) -> dict[str, str]:
        if fetch_value(self._connection, "select to_regclass('_migrations')") is None:
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
        grant_rights(self._connection)
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
    return _choose_role(connection, path), fetch_value(connection, "select 'halfvec'::regtype::oid::bigint")


def protect_tables(connection: RawConnection) -> None:
    """Wall off the tenants of every table that has them and no wall yet."""
    for table, protected in list_tables(connection):
        if not protected:
            for statement in _WALL:
                connection.execute(SQL(statement).format(Identifier(table)))


_WALL: tuple[LiteralString, ...] = (
    "alter table {} enable row level security",
    "alter table {} force row level security",
    """
    create policy tenant_only on {}
      using (tenant = current_setting('memorist.tenant', true))
      with check (tenant = current_setting('memorist.tenant', true))
    """,
)


def grant_rights(connection: RawConnection) -> None:
    """Let the application's role use the tables, if there is that role, and nobody else the functions on them."""
    functions = _list_defining_functions(connection)
    for function in functions:  # they run as their owner, and everybody may call a new one
        connection.execute(SQL("revoke execute on function {} from public").format(SQL(function)))
    if not _role_exists(connection):
        return
    role = Identifier(APP_ROLE)
    for function in functions:
        connection.execute(SQL("grant execute on function {} to {}").format(SQL(function), role))
    for table, _ in list_tables(connection):
        connection.execute(SQL("grant select, insert, update, delete on {} to {}").format(Identifier(table), role))
    connection.execute(SQL("grant select on _migrations to {}").format(role))
    schema = Identifier(fetch_value(connection, "select current_schema()"))
    connection.execute(SQL("grant usage on schema {} to {}").format(schema, role))


def list_tables(connection: RawConnection) -> list[tuple[str, bool]]:
    """Return the tables that have tenants, and whether row security is on."""
    return connection.execute(
        """
        select c.relname, c.relrowsecurity
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant' and not a.attisdropped
        where c.relkind in ('r', 'p') and c.relnamespace = current_schema()::regnamespace
        order by 1
        """
    ).fetchall()


def _list_defining_functions(connection: RawConnection) -> list[LiteralString]:
    """Return the functions of ours that run with the rights of their owner, as the server writes their names."""
    found = connection.execute(
        """
        select p.oid::regprocedure::text from pg_proc p
        where p.prosecdef and p.pronamespace = current_schema()::regnamespace and p.proowner = current_user::regrole
          and not exists (select 1 from pg_depend d where d.objid = p.oid and d.deptype = 'e')
        order by 1
        """
    ).fetchall()
    return [name for (name,) in found]


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
    """Make the role that sees one tenant, if this user may, and let this user take it."""
    role = Identifier(APP_ROLE)
    with suppress(errors.InsufficientPrivilege, errors.DuplicateObject, errors.UniqueViolation):
        if not _role_exists(connection):
            connection.execute(SQL("create role {} nologin nobypassrls").format(role))
    if not _role_exists(connection):
        return
    with suppress(errors.InsufficientPrivilege):
        if not _may_take_role(connection):
            connection.execute(SQL("grant {} to current_user").format(role))


def _choose_role(connection: RawConnection, path: str) -> str | None:
    """Return the role that connections take: the application's, or their own if row security holds for that."""
    if _may_take_role(connection):
        with suppress(errors.InsufficientPrivilege):
            if not _may_read(connection):  # the role was made after the tables
                grant_rights(connection)
        if _may_read(connection):
            return APP_ROLE
    if fetch_value(connection, "select row_security_active('memories')"):
        return None
    raise StoreError(
        f"this user of {path} sees the memories of every namespace, and cannot take the role {APP_ROLE}, which sees "
        f"one: connect as another user, or have an administrator create {APP_ROLE} without login and grant it to "
        "this user"
    )


def _role_exists(connection: RawConnection) -> bool:
    return bool(fetch_value(connection, f"select 1 from pg_roles where rolname = '{APP_ROLE}'"))


def _may_take_role(connection: RawConnection) -> bool:
    return bool(fetch_value(connection, f"select pg_has_role(oid, 'set') from pg_roles where rolname = '{APP_ROLE}'"))


def _may_read(connection: RawConnection) -> bool:
    return bool(fetch_value(connection, f"select has_table_privilege('{APP_ROLE}', 'memories', 'insert')"))


def fetch_value(connection: psycopg.Connection[Any], sql: str) -> Any:
    row = connection.execute(sql.encode()).fetchone()
    return row[0] if row else None
