"""What tests of a memory's life need: moments without waiting for them, and the file without Memorist between."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw


def now() -> datetime:
    """The present moment, which is over when this returns: whatever is done next is done later."""
    moment = datetime.now(UTC)
    while datetime.now(UTC) <= moment:
        pass
    return moment


def days_ago(days: float) -> datetime:
    return now() - timedelta(days=days)


def days_ahead(days: float) -> datetime:
    return now() + timedelta(days=days)


def ids(found: Iterable[Any]) -> list[str]:
    """The ids of memories, hits, or related ones, in order."""
    return [getattr(one, "memory", one).id for one in found]


def texts(found: Iterable[Any]) -> list[str]:
    """The contents of memories, hits, or related ones, in order."""
    return [getattr(one, "memory", one).content for one in found]


def rows(path: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """What the database itself says, or does."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    try:
        return list(connection.execute(sql, values))
    finally:
        connection.close()


def micros(moment: datetime) -> int:
    """A time as the database keeps it."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
