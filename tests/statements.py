"""Which statements the database is asked, for tests that count or explain them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

Statement = tuple[str, Any]


@contextmanager
def watched() -> Iterator[list[Statement]]:
    """Every statement with its values that connections opened from now on run, but those that only set them up."""
    seen: list[Statement] = []

    def trace(cursor: apsw.Cursor, sql: str, values: Any) -> bool:
        if not sql.lstrip().lower().startswith("pragma") and "sqlite_master" not in sql:
            seen.append((sql, values))
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(hook)
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(hook)
