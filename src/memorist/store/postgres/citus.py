"""
Citus: the tables of a database distributed over several servers by `tenant`, so that each namespace is on one of them.

Citus sends a statement to one server if it knows the tenant while it plans. It knows the one that row security adds, if
that is a constant by then: so the policies of distributed tables call a function that is declared immutable, though it
reads a setting. A connection has one tenant as long as it lives.

A server that Citus connects to has none of the settings of this session, but those of `set local` in a transaction: so
every block is a transaction there (store/postgres/connections.py).
"""

import re
from functools import lru_cache

from psycopg.sql import SQL, Identifier

from memorist.errors import StoreError
from memorist.reports import DistributionReport
from memorist.store.postgres.dialect import quote_text
from memorist.store.postgres.pool import RawConnection
from memorist.store.postgres.schema import APP_ROLE, fetch_value, list_tables

# The role connects from server to server. A trigger, and a function that finds texts, run where the rows are, and there
# their statements are distributed ones again.
_ROLE = (
    f"alter role {APP_ROLE} login",
    f"alter role {APP_ROLE} set citus.allow_nested_distributed_execution to on",
    """
    create or replace function fixed_tenant() returns text language sql immutable parallel safe
    return current_setting('memorist.tenant', true)
    """,
)
_POLICY = "alter policy tenant_only on {} using (tenant = fixed_tenant()) with check (tenant = fixed_tenant())"
_REFERENCES = """
    select k.conrelid::regclass::text, k.confrelid::regclass::text from pg_constraint k
    where k.contype = 'f' and k.connamespace = current_schema()::regnamespace and k.conrelid <> k.confrelid
"""
_FIRST = "memories"  # the others are placed as it is
SIZE = "select coalesce(sum(citus_total_relation_size(logicalrelid)), 0) from pg_dist_partition"
_INSERTED_ROWS = re.compile(r"\s*insert into\b(?!.*\b(?:on conflict|returning)\b).*\bselect\b", re.DOTALL)


def is_distributed(connection: RawConnection) -> bool:
    """Return whether Citus has distributed the tables."""
    has_citus = fetch_value(connection, "select to_regclass('pg_dist_partition')") is not None
    return has_citus and _FIRST in _list_distributed(connection)


def settings_of(namespace: str) -> str:
    """Return the statement that takes the tenant to the servers, within a transaction."""
    return f"set local memorist.tenant = {quote_text(namespace)}"


@lru_cache(1000)
def adapt_statement(sql: str) -> str:
    """
    Return a statement as distributed tables take it.

    Citus copies rows that are selected to where they are inserted, and row security does not let it, unless rows are to
    be returned.
    """
    return f"{sql} returning tenant" if _INSERTED_ROWS.match(sql) else sql


def distribute(connection: RawConnection, path: str) -> DistributionReport:
    """Distribute all tables that have tenants, and are not distributed yet."""
    version = _read_version(connection, path)
    tables, present = [table for table, _ in list_tables(connection)], _list_distributed(connection)
    missing = [table for table in _order_tables(connection, tables) if table not in present]
    if missing:
        _require_empty(connection, path, missing)
        with connection.transaction():
            _distribute(connection, missing)
    return DistributionReport(version, tuple(missing), tuple(sorted(present)))


def _distribute(connection: RawConnection, tables: list[str]) -> None:
    connection.execute("set local citus.enable_unsafe_triggers to on")
    for statement in _ROLE:
        connection.execute(statement.encode())
    for table in tables:
        connection.execute(SQL(_POLICY).format(Identifier(table)))
    for table in tables:
        colocated = "none" if table == _FIRST else _FIRST
        connection.execute("select create_distributed_table(%s, 'tenant', colocate_with => %s)", (table, colocated))


def _read_version(connection: RawConnection, path: str) -> str:
    if fetch_value(connection, "select to_regproc('citus_version')") is None:
        raise StoreError(
            f"{path} has no Citus, so nothing was distributed: a single server holds any number of namespaces; to use "
            "several, install Citus on each of them, and run `create extension citus` in this database"
        )
    if fetch_value(connection, "select row_security_active('memories')"):
        raise StoreError(f"this user of {path} is no superuser, and cannot distribute its tables; connect as one")
    return str(fetch_value(connection, "select citus_version()")).partition(" on ")[0]


def _require_empty(connection: RawConnection, path: str, tables: list[str]) -> None:
    """Raise if a table has rows: Citus runs triggers for those it moves, before all tables are where they belong."""
    for table in tables:
        if connection.execute(SQL("select 1 from {} limit 1").format(Identifier(table))).fetchone():
            raise StoreError(
                f"{path} has memories already, and only empty tables can be distributed: nothing was changed; "
                "distribute a new database, and migrate each namespace to it"
            )


def _list_distributed(connection: RawConnection) -> set[str]:
    rows = connection.execute("select logicalrelid::regclass::text from pg_dist_partition").fetchall()
    return {name for (name,) in rows}


def _order_tables(connection: RawConnection, tables: list[str]) -> list[str]:
    """Return tables so that the first leads, and each comes after those that its foreign keys refer to."""
    references = connection.execute(_REFERENCES).fetchall()
    ordered = [_FIRST]
    while len(ordered) < len(tables):
        waiting = {table for table, other in references if other not in ordered}
        ordered += [table for table in tables if table not in ordered and table not in waiting]
    return ordered
