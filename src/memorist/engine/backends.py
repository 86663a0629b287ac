"""Backends: the database that a target names, opened."""

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from memorist.config import is_server
from memorist.errors import InvalidInput, MissingExtra
from memorist.reports import DistributionReport
from memorist.store.backend import Backend
from memorist.store.image_follower import IMAGE_BYTES

if TYPE_CHECKING:
    from memorist.store.postgres.backend import PostgresBackend


def open_backend(
    target: str,
    namespace: str,
    *,
    read_only: bool,
    busy_timeout: float,
    synchronous: str = "full",
    image_bytes: int = IMAGE_BYTES,
) -> Backend:
    """Open a file or a database on a server; files and tables are made where there are none, unless it is only read."""
    if is_server(target):
        return _open_server(target, namespace, read_only=read_only, busy_timeout=busy_timeout, image_bytes=image_bytes)
    from memorist.store.sqlite.backend import SqliteBackend

    return SqliteBackend(
        target,
        namespace=namespace,
        read_only=read_only,
        busy_timeout=busy_timeout,
        synchronous=synchronous,
        image_bytes=image_bytes,
    )


def open_empty(target: str) -> Backend:
    """Open an empty database in memory that stands for a missing file, and that cannot be written to."""
    from memorist.store.sqlite.backend import SqliteBackend

    backend = SqliteBackend(":memory:")
    backend.database.make_read_only(target)
    return backend


def _open_server(
    target: str, namespace: str, *, read_only: bool, busy_timeout: float, image_bytes: int = IMAGE_BYTES
) -> "PostgresBackend":
    try:
        from memorist.store.postgres.backend import PostgresBackend
    except ImportError as exc:
        raise MissingExtra("PostgreSQL needs an extra: pip install 'memorist[postgres]'") from exc
    return PostgresBackend(
        target, namespace=namespace, read_only=read_only, busy_timeout=busy_timeout, image_bytes=image_bytes
    )


def distribute(target: str | Path, *, busy_timeout: float = 30.0) -> DistributionReport:
    """Have Citus distribute the tables of an empty PostgreSQL database, so that each namespace is on one server."""
    path = check_target(target)
    if not is_server(path):
        raise InvalidInput(f"{path} is not on a server; only namespaces in PostgreSQL with Citus can be distributed")
    with closing(_open_server(path, "default", read_only=False, busy_timeout=busy_timeout)) as backend:
        return backend.distribute()


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
