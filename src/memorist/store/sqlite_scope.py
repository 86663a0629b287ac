"""What a filter lets through, read once for both legs of a search where it is little."""

import threading
import time
from dataclasses import replace
from typing import Any

import apsw

from memorist.forks import renew_after_fork
from memorist.records import EVERYTHING, Filter
from memorist.store.base import Scope
from memorist.store.sqlite_filter import conditions
from memorist.store.sqlite_pool import fetch

FEW = 2000  # memories; up to so many, comparing all that pass a filter is cheaper than any other way
BROAD_KEPT, BROAD_AGE = 1000, 60.0  # filters, and seconds, for which it is remembered that they let more through

# Whether anything in the namespace is superseded at all.
_SUPERSEDED = """exists (
    select 1 from memories where namespace = :namespace and valid_until is not null and deleted_at is null)"""


class Scopes:
    """The filters of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._broad: dict[Filter, float] = {}
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def of(self, connection: apsw.Connection, filter: Filter) -> Scope:
        where, values, asked = "", dict[str, Any](), "null"
        if replace(filter, superseded=True, as_of=None) != EVERYTHING and not self._known_broad(filter):
            where, values = conditions(filter)
            # A project and what belongs to all: left to itself, SQLite walks some index that knows nothing of either.
            hint = "indexed by memories_scope" if filter.project and filter.include_global else ""
            # One row of all keys: there are other threads, and at every row the interpreter's lock changes hands.
            asked = f"""(
                select iif(count(*) <= {FEW}, json_group_array(rid)) from (
                    select m.rid from memories m {hint}
                    where m.namespace = :namespace and m.deleted_at is null {where} limit {FEW + 1}))"""
        ((superseded, keys),) = fetch(
            connection, f"select {_SUPERSEDED}, {asked}", values | {"namespace": self._namespace}
        )
        if where and keys is None:
            self._remember(filter)
        # Most often there is nothing superseded to leave out, and not leaving it out is far cheaper.
        nothing = not filter.superseded and not superseded and filter.as_of is None
        return Scope(replace(filter, superseded=True) if nothing else filter, keys)

    def _known_broad(self, filter: Filter) -> bool:
        with self._lock:
            return self._broad.get(filter, 0.0) > time.monotonic()

    def _remember(self, filter: Filter) -> None:
        with self._lock:
            if len(self._broad) >= BROAD_KEPT:
                self._broad.clear()
            self._broad[filter] = time.monotonic() + BROAD_AGE
