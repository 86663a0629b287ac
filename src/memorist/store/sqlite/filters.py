"""Filters as SQL, and times as SQLite keeps them: microseconds since 1970.

What a filter lets through, read once for both legs of a search where it is little.
"""

import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import apsw

from memorist.forks import renew_after_fork
from memorist.records import GLOBAL, NO_FILTER, SUPERSEDES, Filter
from memorist.store.base import Scope
from memorist.store.sqlite.connections import fetch
from memorist.text.dates import parse_period

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
END_OF_TIME = 1 << 62  # microseconds; no time we know is later

# What was so at `:as_of`, of a memory `m`.
STRENGTH_THEN = """coalesce((
    select s.{0} from strength_history s
    where s.rid = m.rid and s.replaced_at > :as_of order by s.replaced_at, s.change limit 1), m.{0})"""
VALID_UNTIL_THEN = f"""(
    select r.valid_from from relations r
    where r.target = m.rid and r.kind = '{SUPERSEDES}' and r.valid_from <= :as_of
      and (r.valid_until is null or r.valid_until > :as_of) order by r.relation desc limit 1)"""
_FACT_WAS = "from fact_history h where h.fact = f.fact and h.replaced_at > :as_of"
FACT_KIND_THEN = f"""iif(
    exists (select 1 {_FACT_WAS}), (select h.kind {_FACT_WAS} order by h.replaced_at, h.change limit 1), f.kind)"""
ACCESS_THEN = """
    select {0} from recalled h cross join recalls r on r.recall = h.recall
    where h.rid = m.rid and r.at <= :as_of"""
# Its text, tags and so on were others then, or its facts were: no index of the present knows it.
CHANGED = """(
    exists (select 1 from memory_history h where h.rid = m.rid and h.replaced_at > :as_of)
    or exists (select 1 from facts f where f.rid = m.rid and f.created_at > :as_of))"""
EXISTED = "min(m.created_at, m.recorded_at) <= :as_of"


def to_micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def conditions(filter: Filter, *, then: bool = False) -> tuple[str, dict[str, Any]]:
    """
    A filter as ` and ...` over the memories `m`, with its values.

    With `as_of`, only memories pass that are now as they were; for the others `m` has to be what they were `then`.
    """
    named, values = clauses(filter, then=then)
    if filter.as_of is not None:
        values["as_of"] = to_micros(filter.as_of)
        if not then:
            named |= {"existed": EXISTED, "unchanged": f"not {CHANGED}"}
    return "".join(f" and {clause}" for clause in named.values()), values


def clauses(filter: Filter, *, then: bool = False) -> tuple[dict[str, str], dict[str, Any]]:
    """What each field of a filter asks of a memory `m`, by the field's name, and the values for it."""
    past = filter.as_of is not None and not then
    named: dict[str, str] = {}
    values: dict[str, Any] = {}
    for column in ("project", "sector", "tier", "kind", "source"):
        if wanted := getattr(filter, column):
            named[column] = _among(f"m.{column}", column, wanted, values)
    if filter.project and filter.include_global:
        named["project"] = f"({named['project']} or m.project is null or m.tier = '{GLOBAL}')"
    if filter.tags:
        in_table, in_row = "memory_tags where tag = :{0} and rid = m.rid", "json_each(m.tags) where value = :{0}"
        each = [(in_row if then else in_table).format(f"tag{number}") for number in range(len(filter.tags))]
        named["tags"] = " and ".join(f"exists (select 1 from {tag})" for tag in each)
        values |= {f"tag{number}": tag for number, tag in enumerate(filter.tags)}
    for bound, test in (("since", ">="), ("until", "<")):
        if (moment := getattr(filter, bound)) is not None:
            # Of a project and a time SQLite would choose the time to go by, which may well be all there is.
            named[bound] = f"{'+' if filter.project else ''}m.created_at {test} :{bound}"
            values[bound] = to_micros(moment)
    if filter.min_salience is not None:
        named["min_salience"] = f"{STRENGTH_THEN.format('salience') if past else 'm.salience'} >= :min_salience"
        values["min_salience"] = filter.min_salience
    if filter.session is not None:
        named["session"] = _IN_SESSION.format("" if filter.as_of is None else "and u.at <= :as_of")
        values["session"] = filter.session
    if filter.fact_kind:
        kind = _among("f.kind" if filter.as_of is None else FACT_KIND_THEN, "fact_kind", filter.fact_kind, values)
        known = "" if filter.as_of is None else "and f.created_at <= :as_of"
        # The index of kinds knows the answer; the one of memories would have to look at each fact.
        index = "indexed by facts_by_kind" if filter.as_of is None else ""
        named["fact_kind"] = f"exists (select 1 from facts f {index} where f.rid = m.rid and {kind} {known})"
    if filter.month:
        named["month"] = _within(filter.month, values)
    if filter.pinned is not None:
        named["pinned"] = f"{STRENGTH_THEN.format('pinned') if past else 'm.pinned'} = {int(filter.pinned)}"
    if filter.recalled is not None:
        count = f"({ACCESS_THEN.format('count(*)')})" if past else "m.access_count"
        named["recalled"] = f"{count} {'>' if filter.recalled else '='} 0"
    if not filter.superseded:
        named["superseded"] = f"{VALID_UNTIL_THEN if past else 'm.valid_until'} is null"
    return named, values


MONTH = "strftime('%Y-%m', m.created_at / 1000000, 'unixepoch', 'localtime')"
_IN_SESSION = """
    exists (
        select 1 from session_memories u
        where u.rid = m.rid and u.sid = (select sid from sessions where namespace = :namespace and id = :session) {})
"""


def _within(months: tuple[str, ...], values: dict[str, Any]) -> str:
    """Local months as stretches of time: no month has to be worked out row by row."""
    stretches = _stretches(months, time.tzname)
    for number, (start, end) in enumerate(stretches):
        values |= {f"month{number}": start, f"month{number}_end": end}
    tests = (f"(+m.created_at >= :month{n} and +m.created_at < :month{n}_end)" for n in range(len(stretches)))
    return f"({' or '.join(tests)})"


@lru_cache(100)
def _stretches(months: tuple[str, ...], zone: tuple[str, str]) -> list[list[int]]:
    """Months as microseconds from and to, neighbours joined; they are those of the local `zone`."""
    stretches: list[list[int]] = []
    for month in sorted(set(months)):
        stretch = parse_period(month)
        assert stretch is not None, "months are checked where they come in"
        start, end = to_micros(stretch.start), to_micros(stretch.end)
        if stretches and stretches[-1][1] == start:
            stretches[-1][1] = end
        else:
            stretches.append([start, end])
    return stretches


def _among(column: str, name: str, wanted: tuple[str, ...], values: dict[str, Any]) -> str:
    if len(wanted) == 1:
        values[name] = wanted[0]
        return f"{column} = :{name}"
    values[name] = json.dumps(wanted)
    return f"{column} in (select value from json_each(:{name}))"


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
        if replace(filter, superseded=True, as_of=None) != NO_FILTER and not self._known_broad(filter):
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
