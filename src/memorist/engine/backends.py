"""Backends: the database that a target names, opened."""

import os

from memorist.config import is_server
from memorist.errors import InvalidInput, MissingExtra
from memorist.store.backend import Backend


def open_backend(
    target: str, namespace: str, *, read_only: bool, busy_timeout: float, synchronous: str = "full"
) -> Backend:
    """Open a file or a database on a server; files and tables are made where there are none, unless it is only read."""
    if is_server(target):
        try:
            from memorist.store.postgres.backend import PostgresBackend
        except ImportError as exc:
            raise MissingExtra("PostgreSQL needs an extra: pip install 'memorist[postgres]'") from exc
        return PostgresBackend(target, namespace=namespace, read_only=read_only, busy_timeout=busy_timeout)
    from memorist.store.sqlite.backend import SqliteBackend

    return SqliteBackend(target, read_only=read_only, busy_timeout=busy_timeout, synchronous=synchronous)


def check_target(target: object) -> str:
    """Return the path or the address of a database as text."""
    if not isinstance(target, str | os.PathLike):
        raise InvalidInput(f"the database must be a path, not {type(target).__name__}")
    path = os.fspath(target)
    if not isinstance(path, str) or not path.strip():
        raise InvalidInput('the path of the database is empty; name a file, or ":memory:"')
    if "://" in path and not is_server(path):
        raise InvalidInput(
            f"{path.partition('://')[0]}:// databases are not supported; name a file, or postgresql://HOST/DATABASE"
        )
    return path
