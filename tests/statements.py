"""Which statements the database is asked, for tests that count or explain them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

Statement = tuple[str, Any]


@contextmanager
def watched() -> Iterator[list[Statement]]:
    """
    Every statement with its values that connections opened from now on run.

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
def counted_steps() -> Iterator[list[int]]:
    """The steps of SQLite's virtual machine that each statement takes on connections opened from now on."""
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
