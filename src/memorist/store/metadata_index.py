"""The index of fields of metadata: which fields it has, and filters by it, as sets of keys and as SQL."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import and_, or_
from typing import Any

import numpy as np
from msgspec import Struct

from memorist.arguments import Filter
from memorist.metadata_filter import Combination, Condition, FieldTest
from memorist.store.database import Connection
from memorist.store.key_set import KeySet, decode_keys
from memorist.store.metadata_conditions import FieldTests, metadata_condition

Path = tuple[str, ...]

MAX_COUNTED = 2000  # memories of each condition, where one of several is to be chosen
_READ_FACTOR = 4  # how many times what is wanted is read for a part of a condition, as others may leave little of it
_MAX_TEXT_CHARACTERS = 200  # of a text in the index
_FIRST_ROUNDED = 2**53  # from which on not every whole number is one in the index
# Cut texts and rounded numbers may be equal where whole ones are not.
_ENDS = {"<": "<=", "<=": "<=", ">": ">=", ">=": ">="}

_COLUMNS = "field, kind, text, number, rid"


class MetadataIndex:
    """The indexed fields of one namespace. Triggers keep their values in step with the metadata."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def list_fields(self, connection: Connection) -> dict[Path, int]:
        """Return the numbers of the indexed fields by their paths. A number never comes again."""
        rows = connection.fetch("select path, field from indexed_fields where namespace = ?", (self.namespace,))
        return {tuple(json.loads(path)): field for path, field in rows}

    def set_paths(self, connection: Connection, paths: Iterable[Path]) -> None:
        """Index these fields and no others. The write lock is held."""
        wanted, indexed = set(paths), set(self.list_fields(connection))
        for path in sorted(indexed - wanted):
            sql = "delete from indexed_fields where namespace = ? and path = ?"
            connection.execute(sql, (self.namespace, json.dumps(path)))
        for path in sorted(wanted - indexed):
            sql = "insert into indexed_fields(namespace, path) values (?, ?) returning field"
            field = connection.fetch_value(sql, (self.namespace, json.dumps(path)))
            connection.execute(f"{_INSERT} where field = ? on conflict do nothing", (field,))

    def find_keys(self, connection: Connection, condition: Condition, most: int) -> KeySet | None:
        """
        Return the keys of all memories whose metadata pass a condition, forgotten ones among them.

        None if the index alone cannot tell, or if they are more than `most`. The connection sees one moment: another
        process may drop a field.
        """
        plan = _make_plan(condition, self.list_fields(connection))
        if plan is None:
            return None
        values: dict[str, Any] = {}
        queries = [_select_keys(lookup, f"indexed{place}", values) for place, lookup in enumerate(_list_lookups(plan))]
        if not queries:
            return _combine(plan, iter(()))
        limit = most if isinstance(plan, _Lookup) else _READ_FACTOR * most
        columns = (f"(select @list(k.rid) from ({query} limit {limit + 1}) k)" for query in queries)
        (lists,) = connection.fetch(f"select {', '.join(columns)}", values)
        parts = [KeySet(decode_keys(listed)) for listed in lists]
        found = None if any(len(part.keys) > limit for part in parts) else _combine(plan, iter(parts))
        return None if found is None or len(found.keys) > most else found

    def write_conditions(
        self, connection: Connection, filter: Filter, values: dict[str, Any], *, most: int | None = None
    ) -> tuple[str, str]:
        """
        Return what a filter asks of the metadata of a memory `m`, twice ` and ...`, and add its values.

        The first narrows memories down to those that the index lists, and is empty if it cannot, or if it lists `most`
        or more. The second is the rest, for which a memory is looked up. The connection sees one moment.
        """
        if filter.metadata is None:
            return "", ""
        fields = self.list_fields(connection) if filter.as_of is None else {}
        narrowed, exact = "", False
        lookups = self._choose_lookups(connection, filter.metadata, fields) if fields and most != 0 else []
        if lookups and (most is None or self._count(connection, lookups) < most):
            queries = [_select_keys(lookup, f"indexed{place}", values) for place, lookup in enumerate(lookups)]
            narrowed = f" and m.rid in ({' union all '.join(queries)})"
            exact = _is_met(filter.metadata, lookups)
        tests = _Tests(fields, one_by_one=bool(narrowed) or most is not None)
        test = "" if exact else f" and {metadata_condition(filter.metadata, 'm.metadata', values, tests)}"
        return narrowed, test

    def _choose_lookups(
        self, connection: Connection, condition: Condition, fields: Mapping[Path, int]
    ) -> list["_Lookup"]:
        """Return lookups in the index of which one finds each memory that passes the condition; none if none do."""
        if isinstance(condition, FieldTest):
            return [_Lookup(fields[condition.path], (condition,))] if condition.path in fields else []
        if condition.operator == "not":
            return []
        parts = _join_ranges(condition, fields) if condition.operator == "and" else condition.parts
        found = [
            [part] if isinstance(part, _Lookup) else self._choose_lookups(connection, part, fields) for part in parts
        ]
        if condition.operator == "or":
            return [lookup for lookups in found for lookup in lookups] if all(found) else []
        usable = [lookups for lookups in found if lookups]
        return min(usable, key=partial(self._count, connection)) if len(usable) > 1 else next(iter(usable), [])

    def _count(self, connection: Connection, lookups: Sequence["_Lookup"]) -> int:
        """Count what some lookups find, up to a limit."""
        values: dict[str, Any] = {}
        queries = [_select_keys(lookup, f"indexed{place}", values) for place, lookup in enumerate(lookups)]
        sql = f"select count(*) from ({' union all '.join(queries)} limit {MAX_COUNTED}) k"
        return int(connection.fetch_value(sql, values))


class _Lookup(Struct, frozen=True):
    """Tests of one field of the index, all of which a memory passes, by one of its values or by several of a list."""

    field: int
    tests: tuple[FieldTest, ...]

    @property
    def is_exact(self) -> bool:
        """Tell if the index, which has long texts cut and large numbers rounded, decides like the metadata."""
        return all(
            len(value) < _MAX_TEXT_CHARACTERS if isinstance(value, str) else abs(value) < _FIRST_ROUNDED
            for test in self.tests
            for value in test.values
        )


class _CombinedLookups(Struct, frozen=True):
    """Lookups that are combined as conditions are."""

    operator: str
    parts: tuple["_Plan", ...]


_Plan = _Lookup | _CombinedLookups


def _make_plan(condition: Condition, fields: Mapping[Path, int]) -> _Plan | None:
    """Return the lookups whose results decide a condition; None if there are none."""
    if isinstance(condition, FieldTest):
        lookup = _Lookup(fields[condition.path], (condition,)) if condition.path in fields else None
        return lookup if lookup and lookup.is_exact else None
    parts = _join_ranges(condition, fields) if condition.operator == "and" else condition.parts
    planned = tuple(part if isinstance(part, _Lookup) else _make_plan(part, fields) for part in parts)
    known = tuple(part for part in planned if isinstance(part, _CombinedLookups) or (part and part.is_exact))
    return _CombinedLookups(condition.operator, known) if len(known) == len(planned) else None


def _list_lookups(plan: _Plan) -> Iterator[_Lookup]:
    if isinstance(plan, _Lookup):
        yield plan
    else:
        for part in plan.parts:
            yield from _list_lookups(part)


def _combine(plan: _Plan, found: Iterator[KeySet]) -> KeySet:
    """Return the keys that a plan selects, of the results of its lookups in their order."""
    if isinstance(plan, _Lookup):
        return next(found)
    parts = [_combine(part, found) for part in plan.parts]
    if plan.operator == "not":
        return ~parts[0]
    if plan.operator == "and":
        return reduce(and_, parts, ~_NO_KEYS)
    return reduce(or_, parts, _NO_KEYS)


_NO_KEYS = KeySet(np.empty(0, np.int64))


def _is_met(condition: Condition, lookups: Sequence[_Lookup]) -> bool:
    """Tell if lookups find exactly what passes a condition, of which they are chosen."""
    if isinstance(condition, FieldTest):
        return [lookup.tests for lookup in lookups] == [(condition,)] and lookups[0].is_exact
    if condition.operator == "or":
        return all(isinstance(part, FieldTest) for part in condition.parts) and all(each.is_exact for each in lookups)
    return len(lookups) == 1 and lookups[0].tests == condition.parts and lookups[0].is_exact


class _Tests(FieldTests):
    """Tests of memories by their entries in the index: of some `one_by_one`, or of all at once."""

    def __init__(self, fields: Mapping[Path, int], *, one_by_one: bool) -> None:
        self._fields, self._one_by_one = fields, one_by_one

    def write(self, test: FieldTest, name: str, values: dict[str, Any]) -> str | None:
        if test.path not in self._fields or not (lookup := _Lookup(self._fields[test.path], (test,))).is_exact:
            return None
        found = _select_keys(lookup, name, values)
        return f"exists ({found} and f.rid = m.rid)" if self._one_by_one else f"@among(m.rid, {found})"


def find_wrong_fields(connection: Connection, where: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem of the index of fields, in rows that a condition on their `rid` chooses."""
    right = f"select {_COLUMNS} from @fields v where {where}"
    stored = f"select {_COLUMNS} from memory_fields where {where}"
    sql = f"""
        select count(*) from (
            select * from ({right} except {stored}) missing
            union all
            select * from ({stored} except {right}) extra) wrong
    """
    if count := connection.fetch_value(sql, values):
        yield f"metadata: {count} entries of the index of fields are missing or wrong"


def rebuild_fields(connection: Connection, where: str, values: Mapping[str, Any]) -> None:
    connection.execute(f"delete from memory_fields where {where}", values)
    connection.execute(f"{_INSERT} where {where} on conflict do nothing", values)


_INSERT = f"insert into memory_fields({_COLUMNS}) select {_COLUMNS} from @fields v"


def _join_ranges(condition: Combination, fields: Mapping[Path, int]) -> Sequence[Condition | _Lookup]:
    """
    Return conditions that all hold, with the two ends of each range as one lookup.

    Two values may pass one end each, but then they are in a list, which the index notes for fields at the top.
    """
    ends: dict[tuple[Path, str], list[FieldTest]] = {}
    for test in condition.parts:
        if isinstance(test, FieldTest) and test.path in fields and len(test.path) == 1 and test.operator in _ENDS:
            ends.setdefault((test.path, test.kind), []).append(test)
    ranges = [_Lookup(fields[path], tuple(tests)) for (path, _), tests in ends.items() if len(tests) > 1]
    joined = {test for each in ranges for test in each.tests}
    return [*ranges, *(part for part in condition.parts if part not in joined)]


def _select_keys(lookup: _Lookup, name: str, values: dict[str, Any]) -> str:
    """Return a query for the keys that a lookup finds, and add its values."""
    tests = [_compare(test, f"{name}_{place}", values) for place, test in enumerate(lookup.tests)]
    entries = f"select f.rid from memory_fields f where f.field = {lookup.field}"
    found = f"{entries} {' '.join(test.format('f') for test in tests)}"
    if len(tests) == 1:
        return found
    items = "".join(
        f" and exists (select 1 from memory_fields g where g.rid = f.rid and g.field = f.field {test.format('g')})"
        for test in tests
    )
    return f"{found} union all {entries} and f.kind = 'array' {items}"


def _compare(test: FieldTest, name: str, values: dict[str, Any]) -> str:
    """Return the condition of a test on an entry `{0}` of the index as ` and ...`, and add its values."""
    if test.operator == "exists":
        return ""
    kind = f" and {{0}}.kind = '{test.kind}'"
    if not test.values:
        return kind
    operands = [value[:_MAX_TEXT_CHARACTERS] if isinstance(value, str) else float(value) for value in test.values]
    several = len(operands) > 1
    values[name] = json.dumps(operands) if several else operands[0]
    exact = _Lookup(0, (test,)).is_exact
    operator = "in" if several else test.operator if exact else _ENDS.get(test.operator, "=")
    if test.kind == "text":
        return f"{kind} and {{0}}.text {operator} {f'@texts(:{name})' if several else f':{name}'}"
    number = f"cast(:{name} as double precision)"
    numbers = f"(select cast(t.value as double precision) from @texts(:{name}) t)"
    return f"{kind} and {{0}}.text = '' and {{0}}.number {operator} {numbers if several else number}"
