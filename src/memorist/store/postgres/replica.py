"""
A standby that is read from while it is fresh enough.

The primary is asked now and then for its place in the log, and so is the standby: one that has replayed what was the
primary's place some seconds ago is at most that many seconds old. What this process has written itself is always seen:
until the standby has it, the primary is read from. So it is if the standby is away, or has been promoted.
"""

import math
import time

import psycopg

from memorist.errors import StoreError
from memorist.store.postgres.pool import LimitedConnection, Pool, run_control

MAX_STALENESS = 5.0  # seconds
_AVOIDED = 5.0  # seconds that a standby is left alone after it has failed
_CHECK_INTERVAL = 0.1  # seconds between two questions to a standby that is behind
_MARKS_KEPT = 100
_PAGE, _PAGE_HEADER = 8192, 40  # bytes of the log

_PLACE = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_REPLAYED = "select pg_is_in_recovery(), pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint"


class Replica:
    """A standby, and how far it is known to be behind."""

    def __init__(self, pool: Pool, primary: Pool, max_staleness: float) -> None:
        self.pool = pool
        self._primary = primary
        self._max_staleness = max_staleness
        # Times and places of the primary; replaced as a whole, as several threads read them.
        self._marks: tuple[tuple[float, int], ...] = ((-math.inf, 0),)
        self._written = 0  # the place of what this process has written last
        self._replayed = 0
        self._checked_at = -math.inf
        self._avoided_until = -math.inf

    @property
    def staleness(self) -> float | None:
        """The seconds that the standby is behind at most; None if it is not read from."""
        age = self._find_age()
        return age if age <= self._max_staleness and self._is_usable() else None

    def take(self) -> LimitedConnection | None:
        """Return a connection to the standby; None if the primary has to be read from."""
        if time.monotonic() < self._avoided_until:
            return None
        try:
            if not self._is_usable() or self._find_age() > self._max_staleness / 2:
                self._check()
            if not self._is_usable() or self._find_age() > self._max_staleness:
                return None
            return self.pool.take(lambda: None)
        except (psycopg.Error, StoreError):
            self.avoid()
            return None

    def commit(self, raw: LimitedConnection) -> None:
        """Commit a transaction, and remember the place where it stands in the log."""
        asked_at = time.monotonic()
        cursor = run_control(raw, f"commit; {_PLACE}")
        cursor.nextset()
        if row := cursor.fetchone():
            self._written = _settle_place(row[0])
            self._add_mark(asked_at, self._written)

    def avoid(self) -> None:
        """Leave the standby alone for a while."""
        self._avoided_until = time.monotonic() + _AVOIDED
        self._replayed = 0

    def _add_mark(self, asked_at: float, place: int) -> None:
        self._marks = (*self._marks[-_MARKS_KEPT:], (asked_at, place))

    def _is_usable(self) -> bool:
        return self._replayed >= max(self._written, 1)

    def _find_age(self) -> float:
        latest = max(asked_at for asked_at, place in [(-math.inf, 0), *self._marks] if place <= self._replayed)
        return time.monotonic() - latest

    def _check(self) -> None:
        """Ask both servers for their places, unless that was done just now."""
        now = time.monotonic()
        if now < self._checked_at + _CHECK_INTERVAL:
            return
        self._checked_at = now
        if self._marks[-1][0] < now - self._max_staleness / 4:
            self._add_mark(now, _settle_place(_ask(self._primary, _PLACE)[0]))
        in_recovery, replayed = _ask(self.pool, _REPLAYED)
        if not in_recovery:
            raise StoreError("the standby has been promoted")
        self._replayed = replayed or 0


def _ask(pool: Pool, sql: str) -> tuple[int, ...]:
    raw = pool.take(lambda: None)
    try:
        return run_control(raw, sql).fetchone() or (0,)
    finally:
        pool.put(raw)


def _settle_place(place: int) -> int:
    """Return a place that a standby reaches: behind the last record, and not behind the header of the page after it."""
    return place - place % _PAGE if place % _PAGE <= _PAGE_HEADER else place
