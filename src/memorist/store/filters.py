"""Filters as SQL conditions, the scopes of searches, and times as databases store them: microseconds since 1970."""

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from memorist.arguments import NO_FILTER, Filter
from memorist.forks import renew_after_fork
from memorist.records import GLOBAL, SUPERSEDES
from memorist.store.database import Connection
from memorist.store.key_set import KeySet, decode_keys
from memorist.store.metadata_conditions import metadata_condition
from memorist.store.metadata_index import MetadataIndex
from memorist.store.records import Scope
from memorist.text.dates import parse_period

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_TIME, _LAST_TIME = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
END_OF_TIME = 1 << 62  # microseconds; later than any time that can be given

MAX_SCOPE_KEYS = 2000  # up to so many, comparing all memories that pass a filter is the cheapest way
MAX_LISTED_KEYS = 30_000  # up to so many, looking up keys that are known is cheaper than checking memories
_MAX_BROAD_FILTERS, _BROAD_SECONDS = 1000, 60.0  # how many filters are remembered to let more through, and how long

# The values that a memory `m` had at `:as_of`.
STRENGTH_AS_OF = """coalesce((
    select s.{0} from strength_history s
    where s.rid = m.rid and s.replaced_at > :as_of order by s.replaced_at, s.change limit 1), m.{0})"""
VALID_UNTIL_AS_OF = f"""(
    select r.valid_from from relations r
    where r.target = m.rid and r.kind = '{SUPERSEDES}' and r.valid_from <= :as_of
      and (r.valid_until is null or r.valid_until > :as_of) order by r.relation desc limit 1)"""
_FACT_WAS = "from fact_history h where h.fact = f.fact and h.replaced_at > :as_of"
FACT_KIND_AS_OF = f"""case
    when exists (select 1 {_FACT_WAS}) then (select h.kind {_FACT_WAS} order by h.replaced_at, h.change limit 1)
    else f.kind end"""
# A prompt also has memories that no question found, such as pinned ones: these were not recalled.
ASKED_FOR = "(h.score > 0 or h.relevance > 0)"
ACCESS_AS_OF = f"""
    select {{0}} from recalled h @then recalls r on r.recall = h.recall
    where h.rid = m.rid and r.at <= :as_of and {ASKED_FOR}"""
# A memory whose text, tags or facts have changed since `:as_of`: the indexes do not know what it was.
CHANGED = """(
    exists (select 1 from memory_history h where h.rid = m.rid and h.replaced_at > :as_of)
    or exists (select 1 from facts f where f.rid = m.rid and f.created_at > :as_of))"""
EXISTED = "@earlier(m.created_at, m.recorded_at) <= :as_of"

SUPERSEDED_KEYS = """
    select rid from memories @hint(memories_superseded)
    where namespace = :namespace and valid_until is not null and deleted_at is null
"""
_ANY_SUPERSEDED = f"exists ({SUPERSEDED_KEYS})"


def is_unexpired(memory: str, *, past: bool = False) -> str:
    """Return the condition that a memory has not expired, or had not at `:as_of`."""
    return f"({memory}.expires_at is null or {memory}.expires_at > {':as_of' if past else '@now'})"


def select_expired(time: str) -> str:
    """Return the query for the keys of expired memories: few, as writes erase them. An index of its own has them."""
    return f"select x.rid from memories x where x.namespace = :namespace and x.expires_at <= {time}"


_ANY_EXPIRED = f"exists ({select_expired('@now')})"


def to_micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def is_time(micros: object) -> bool:
    """Tell if a number of microseconds is one of a date from the year 1 to 9999."""
    return isinstance(micros, int) and to_micros(_FIRST_TIME) <= micros <= to_micros(_LAST_TIME)


def from_micros(micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:  # a damaged number, which a check reports
        return _LAST_TIME if micros > 0 else _FIRST_TIME


def filter_conditions(filter: Filter, *, past: bool = False) -> tuple[str, dict[str, Any]]:
    """
    Return a filter as ` and ...` over the memories `m`, and its values.

    With `as_of`, only memories pass that have not changed since; with `past`, `m` are the memories as they were then.
    """
    named, values = filter_clauses(filter, past=past)
    if filter.as_of is not None:
        values["as_of"] = to_micros(filter.as_of)
        if not past:
            named |= {"existed": EXISTED, "unchanged": f"not {CHANGED}"}
    return "".join(f" and {clause}" for clause in named.values()), values


class IndexedConditions(NamedTuple):
    """The condition for memories `m` of a namespace, its values, and if the index of fields lists those to look at."""

    where: str
    values: dict[str, Any]
    is_narrow: bool


def indexed_conditions(
    connection: Connection, fields: MetadataIndex, filter: Filter, *, past: bool = False, most: int | None = None
) -> IndexedConditions:
    """
    Return the condition for the memories of a namespace that pass a filter, by the index of fields.

    Memories are listed by the index if they are fewer than `most`. The connection sees one moment.
    """
    where, values = filter_conditions(replace(filter, metadata=None), past=past)
    narrowed, test = fields.write_conditions(connection, filter, values, most=most)
    # SQLite would look up the namespace rather than the keys.
    own = "@plain(m.namespace)" if narrowed else "m.namespace"
    values["namespace"] = fields.namespace
    return IndexedConditions(f"{own} = :namespace {narrowed} {where} {test}", values, bool(narrowed))


def filter_clauses(filter: Filter, *, past: bool = False) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the condition of each field of a filter on a memory `m`, by the field's name, and the values."""
    from_history = filter.as_of is not None and not past  # `m` is the present: older values are in other tables
    named: dict[str, str] = {}
    values: dict[str, Any] = {}
    for column in ("project", "sector", "tier", "kind", "source"):
        if accepted := getattr(filter, column):
            named[column] = _one_of(f"m.{column}", column, accepted, values)
    if filter.project and filter.include_global:
        named["project"] = f"({named['project']} or m.project is null or m.tier = '{GLOBAL}')"
    if filter.tags:
        in_table, in_row = "exists (select 1 from memory_tags where tag = {0} and rid = m.rid)", "{0} in @texts(m.tags)"
        tests = [(in_row if past else in_table).format(f":tag{number}") for number in range(len(filter.tags))]
        named["tags"] = " and ".join(tests)
        values |= {f"tag{number}": tag for number, tag in enumerate(filter.tags)}
    for bound, test in (("since", ">="), ("until", "<")):
        if (moment := getattr(filter, bound)) is not None:
            # Given a project and a time, SQLite would choose the index by time, which may well cover all memories.
            named[bound] = f"{'@plain(m.created_at)' if filter.project else 'm.created_at'} {test} :{bound}"
            values[bound] = to_micros(moment)
    if filter.min_salience is not None:
        named["min_salience"] = (
            f"{STRENGTH_AS_OF.format('salience') if from_history else 'm.salience'} >= :min_salience"
        )
        values["min_salience"] = filter.min_salience
    if filter.session is not None:
        named["session"] = _IN_SESSION.format("" if filter.as_of is None else "and u.at <= :as_of")
        values["session"] = filter.session
    if filter.fact_kind:
        kind = _one_of("f.kind" if filter.as_of is None else FACT_KIND_AS_OF, "fact_kind", filter.fact_kind, values)
        known = "" if filter.as_of is None else "and f.created_at <= :as_of"
        # The index by kind holds the answer; the one by memory would have to read each fact.
        index = "@hint(facts_by_kind)" if filter.as_of is None else ""
        named["fact_kind"] = f"exists (select 1 from facts f {index} where f.rid = m.rid and {kind} {known})"
    if filter.month:
        named["month"] = _within_months(filter.month, values)
    if filter.pinned is not None:
        named["pinned"] = f"{STRENGTH_AS_OF.format('pinned') if from_history else 'm.pinned'} = {int(filter.pinned)}"
    if filter.recalled is not None:
        count = f"({ACCESS_AS_OF.format('count(*)')})" if from_history else "m.access_count"
        named["recalled"] = f"{count} {'>' if filter.recalled else '='} 0"
    if filter.metadata is not None:
        named["metadata"] = metadata_condition(filter.metadata, "m.metadata", values)
    if filter.hide_expired:
        named["expired"] = (
            is_unexpired("m", past=True)
            if past and filter.as_of is not None
            else (f"m.rid not in ({select_expired('@now' if filter.as_of is None else ':as_of')})")
        )
    if not filter.superseded:
        named["superseded"] = f"{VALID_UNTIL_AS_OF if from_history else 'm.valid_until'} is null"
    return named, values


MONTH = "@month(m.created_at)"
# A list, so that a database can begin with it: a session has few memories, and a namespace many.
_IN_SESSION = """
    m.rid in (
        select u.rid from session_memories u
        where u.sid = (select sid from sessions where namespace = :namespace and id = :session) {})
"""


def _within_months(months: tuple[str, ...], values: dict[str, Any]) -> str:
    """Return the condition for local months as ranges of time, so that no month is computed row by row."""
    ranges = month_ranges(months, time.tzname)
    for number, (start, end) in enumerate(ranges):
        values |= {f"month{number}": start, f"month{number}_end": end}
    tests = (
        f"(@plain(m.created_at) >= :month{n} and @plain(m.created_at) < :month{n}_end)" for n in range(len(ranges))
    )
    return f"({' or '.join(tests)})"


@lru_cache(100)
def month_ranges(months: tuple[str, ...], zone: tuple[str, str]) -> list[list[int]]:
    """Return months of the local `zone` as microseconds from and to, adjacent ones joined."""
    ranges: list[list[int]] = []
    for month in sorted(set(months)):
        span = parse_period(month)
        assert span is not None, "validation has checked the months"
        start, end = to_micros(span.start), to_micros(span.end)
        if ranges and ranges[-1][1] == start:
            ranges[-1][1] = end
        else:
            ranges.append([start, end])
    return ranges


def _one_of(column: str, name: str, accepted: tuple[str, ...], values: dict[str, Any]) -> str:
    if len(accepted) == 1:
        values[name] = accepted[0]
        return f"{column} = :{name}"
    values[name] = json.dumps(accepted)
    return f"{column} in @texts(:{name})"


class Scopes:
    """
    Resolves the filters of one namespace.

    It remembers filters that let too much through to be listed.
    """

    def __init__(self, fields: MetadataIndex, *, searched_in_memory: bool) -> None:
        """With indexes that are `searched_in_memory`, the keys of a scope may be many, and of forgotten memories."""
        self._namespace, self._fields, self._many = fields.namespace, fields, searched_in_memory
        self._broad: dict[Filter, float] = {}
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def resolve(self, connection: Connection, filter: Filter) -> Scope:
        """
        Read the keys of all memories that pass a filter, if they are few, and drop a condition without effect.

        For a filter by metadata, the connection sees one moment.
        """
        filter = replace(filter, hide_expired=True)
        is_listed = restricts(filter) and not self._is_broad(filter)
        by_index = self._find_by_index(connection, filter) if is_listed else None
        where, values, select_keys = "", dict[str, Any](), "null"
        if is_listed and by_index is None:
            where, values, is_narrow = indexed_conditions(connection, self._fields, filter)
            # For a project and global memories, SQLite would choose an index that covers neither.
            hint = "@hint(memories_scope)" if filter.project and filter.include_global and not is_narrow else ""
            # All keys in one row: between two rows, other threads may take the interpreter's lock.
            select_keys = f"""(
                select case when count(*) <= {MAX_SCOPE_KEYS} then @list(rid) end from (
                    select m.rid from memories m {hint}
                    where {where} and m.deleted_at is null limit {MAX_SCOPE_KEYS + 1}) p)"""
        ((any_superseded, any_expired, listed),) = connection.fetch(
            f"select {_ANY_SUPERSEDED}, {_ANY_EXPIRED}, {select_keys}",
            values | {"namespace": self._namespace},
        )
        if where and listed is None:
            self._remember_broad(filter)
        keys = None if listed is None else KeySet(decode_keys(listed))
        if by_index is not None:
            hidden = self._read_hidden(connection, filter, any_superseded, any_expired)
            keys = by_index if hidden is None else by_index & ~hidden
        # Usually nothing is superseded or has expired, and a search without these conditions is far cheaper.
        filter = replace(filter, hide_expired=filter.as_of is not None or bool(any_expired))
        if not filter.superseded and not any_superseded and filter.as_of is None:
            filter = replace(filter, superseded=True)
        if keys is None:
            return Scope(filter)
        return Scope(filter, excluded=keys.keys) if keys.inverted else Scope(filter, keys.keys)

    def with_test(self, connection: Connection, scope: Scope) -> Scope:
        """Have what is not listed tested by the index of fields, as of the moment that the connection sees."""
        if scope.is_listed or scope.filter.metadata is None:
            return scope
        values: dict[str, Any] = {}
        _, test = self._fields.write_conditions(connection, scope.filter, values, most=0)
        return replace(scope, metadata_test=(test, values))

    def _find_by_index(self, connection: Connection, filter: Filter) -> KeySet | None:
        """Return what passes a filter by nothing but metadata, if the index of fields can tell."""
        if not self._many or replace(filter, metadata=None, superseded=True, hide_expired=False) != NO_FILTER:
            return None
        assert filter.metadata is not None, "the filter restricts"
        return self._fields.find_keys(connection, filter.metadata, MAX_LISTED_KEYS)

    def _read_hidden(self, connection: Connection, filter: Filter, superseded: bool, expired: bool) -> KeySet | None:
        """Return the memories that were superseded, unless the filter lets them pass, or have expired, if any."""
        queries = [SUPERSEDED_KEYS] if superseded and not filter.superseded else []
        queries += [select_expired("@now")] if expired else []
        if not queries:
            return None
        listed = connection.fetch_value(
            f"select @list(h.rid) from ({' union all '.join(queries)}) h", {"namespace": self._namespace}
        )
        return KeySet(decode_keys(listed))

    def _is_broad(self, filter: Filter) -> bool:
        with self._lock:
            return self._broad.get(filter, 0.0) > time.monotonic()

    def _remember_broad(self, filter: Filter) -> None:
        with self._lock:
            if len(self._broad) >= _MAX_BROAD_FILTERS:
                self._broad.clear()
            self._broad[filter] = time.monotonic() + _BROAD_SECONDS


def restricts(filter: Filter) -> bool:
    """Tell if a filter asks for more than that memories are neither superseded nor expired."""
    return replace(filter, superseded=True, as_of=None, hide_expired=False) != NO_FILTER
