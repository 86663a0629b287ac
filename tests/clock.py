"""Moments for tests, without waiting for them, and as the database keeps them."""

from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """Return the present moment once it is over: whatever is done next is done later."""
    moment = datetime.now(UTC)
    while datetime.now(UTC) <= moment:
        pass
    return moment


def days_ago(days: float) -> datetime:
    return now() - timedelta(days=days)


def days_ahead(days: float) -> datetime:
    return now() + timedelta(days=days)


def to_microseconds(moment: datetime) -> int:
    """Return a time as the database keeps it."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
