"""
Statements: those that Memorist runs on SQLite, recorded or counted, and its round trips to a PostgreSQL server.

Beside them, statements of SQLite that a test runs without Memorist.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from memorist.store.postgres.pool import LimitedConnection

Statement = tuple[str, Any]


@contextmanager
def record_statements() -> Iterator[list[Statement]]:
    """
    Yield a list of the statements, with their values, that connections opened from now on run.

    Those that only set connections up are left out, and those of the thread that indexes words once that pays.
    """
    seen: list[Statement] = []

    def trace(cursor: apsw.Cursor, sql: str, values: Any) -> bool:
        sets_up = sql.lstrip().lower().startswith("pragma") or "sqlite_master" in sql
        if not sets_up and threading.current_thread().name != "memorist-image":
            seen.append((sql, values))
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(hook)
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(hook)


@contextmanager
def count_steps() -> Iterator[list[int]]:
    """Yield a list of the steps of SQLite's virtual machine that each statement takes on connections opened later."""
    steps: list[int] = []

    def profile(event: dict[str, Any]) -> None:
        if "'main'." not in event["sql"]:  # those that FTS5 keeps for itself count from when they were first run
            steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    def hook(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)

    apsw.connection_hooks.append(hook)
    try:
        yield steps
    finally:
        apsw.connection_hooks.remove(hook)


@contextmanager
def count_round_trips() -> Iterator[list[str]]:
    """Yield a list of the names of the threads that wait for a PostgreSQL server, once for each round trip."""
    waits: list[str] = []
    wait = LimitedConnection.wait

    def count(self: LimitedConnection, *arguments: Any, **options: Any) -> Any:
        waits.append(threading.current_thread().name)
        return wait(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LimitedConnection, "wait", count)
        yield waits


def read_rows(path: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement on a database file, and return what it answers."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    try:
        return list(connection.execute(sql, values))
    finally:
        connection.close()


def read_column(path: Path, sql: str) -> list[Any]:
    """Run a statement on a database file, and return the first column of what it answers."""
    return [row[0] for row in read_rows(path, sql)]
