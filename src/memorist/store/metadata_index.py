"""The index of fields of metadata: which fields it has, and the memories to which it narrows a filter down."""

import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from memorist.metadata_filter import Condition, FieldTest
from memorist.records import Filter
from memorist.store.database import Connection

Path = tuple[str, ...]
Lookup = tuple[FieldTest, ...]  # tests of one field that one of its values passes, or that a list is there

_MAX_TEXT_CHARACTERS = 200  # of a text in the index
# Cut texts and rounded numbers may be equal where whole ones are not.
_ENDS = {"<": "<=", "<=": "<=", ">": ">=", ">=": ">="}
_MAX_COUNTED = 2000  # memories of each condition, where one of several is to be chosen

_FIELD = "(select i.field from indexed_fields i where i.namespace = :namespace and i.path = {})"
# Should another process drop a field right now, all memories come into question.
_IF_DROPPED = """
    select a.rid
    from (select 1 as dropped where exists (select 1 from @texts(:indexed_paths) p where not exists (
        select 1 from indexed_fields i where i.namespace = :namespace and i.path = p.value))) d
    @then memories a on a.namespace = :namespace
"""
_COLUMNS = "field, kind, text, number, rid"
_WRONG_ROWS = f"""
    select count(*) from (
        select * from (select {_COLUMNS} from @fields v except select {_COLUMNS} from memory_fields) missing
        union all
        select * from (select {_COLUMNS} from memory_fields except select {_COLUMNS} from @fields v) extra) wrong
"""


class MetadataIndex:
    """The indexed fields of one namespace. Triggers keep their values in step with the metadata."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def list_paths(self, connection: Connection) -> set[Path]:
        rows = connection.fetch("select path from indexed_fields where namespace = ?", (self._namespace,))
        return {tuple(json.loads(path)) for (path,) in rows}

    def set_paths(self, connection: Connection, paths: Iterable[Path]) -> None:
        """Index these fields and no others. The write lock is held."""
        wanted, indexed = set(paths), self.list_paths(connection)
        for path in sorted(indexed - wanted):
            sql = "delete from indexed_fields where namespace = ? and path = ?"
            connection.execute(sql, (self._namespace, json.dumps(path)))
        for path in sorted(wanted - indexed):
            sql = "insert into indexed_fields(namespace, path) values (?, ?) returning field"
            field = connection.fetch_value(sql, (self._namespace, json.dumps(path)))
            connection.execute(f"{_INSERT} where field = ? on conflict do nothing", (field,))

    def narrow(self, connection: Connection, filter: Filter, values: dict[str, Any]) -> str:
        """
        Return ` and ...` for the memories `m` among which are all that pass a filter, and add its values.

        It is empty if the index cannot tell. The rest of the filter decides, so none passes that should not.
        """
        if filter.metadata is None or filter.as_of is not None:
            return ""
        indexed = self.list_paths(connection)
        lookups = self._choose_lookups(connection, filter.metadata, indexed) if indexed else []
        if not lookups:
            return ""
        values["indexed_paths"] = json.dumps([json.dumps(lookup[0].path) for lookup in lookups])
        return f" and m.rid in ({_select_keys(lookups, values)} union all {_IF_DROPPED})"

    def _choose_lookups(self, connection: Connection, condition: Condition, indexed: set[Path]) -> list[Lookup]:
        """Return lookups in the index of which one finds each memory that passes the condition; none if none do."""
        if isinstance(condition, FieldTest):
            return [(condition,)] if condition.path in indexed else []
        if condition.operator == "not":
            return []
        found = [self._choose_lookups(connection, part, indexed) for part in condition.parts]
        if condition.operator == "or":
            return [lookup for lookups in found for lookup in lookups] if all(found) else []
        usable = [*([lookup] for lookup in _join_ranges(condition.parts, indexed)), *filter(None, found)]
        return min(usable, key=partial(self._count, connection)) if len(usable) > 1 else next(iter(usable), [])

    def _count(self, connection: Connection, lookups: list[Lookup]) -> int:
        """Count what some lookups find, up to a limit."""
        values: dict[str, Any] = {"namespace": self._namespace}
        sql = f"select count(*) from ({_select_keys(lookups, values)} limit {_MAX_COUNTED}) k"
        return int(connection.fetch_value(sql, values))


def find_wrong_fields(connection: Connection) -> Iterator[str]:
    if count := connection.fetch_value(_WRONG_ROWS):
        yield f"metadata: {count} entries of the index of fields are missing or wrong"


def rebuild_fields(connection: Connection) -> None:
    connection.execute("delete from memory_fields")
    connection.execute(f"{_INSERT} where true on conflict do nothing")


_INSERT = f"insert into memory_fields({_COLUMNS}) select {_COLUMNS} from @fields v"


def _join_ranges(conditions: Iterable[Condition], indexed: set[Path]) -> list[Lookup]:
    """
    Return the two ends of each range as one lookup.

    Two values may pass one end each, but then they are in a list, which the index notes for fields at the top.
    """
    ends: dict[tuple[Path, str], list[FieldTest]] = {}
    for test in conditions:
        if isinstance(test, FieldTest) and test.path in indexed and len(test.path) == 1 and test.operator in _ENDS:
            ends.setdefault((test.path, test.kind), []).append(test)
    return [tuple(tests) for tests in ends.values() if len(tests) > 1]


def _select_keys(lookups: list[Lookup], values: dict[str, Any]) -> str:
    """Return a query for the keys that some lookups find, and add its values."""
    queries = []
    for number, lookup in enumerate(lookups):
        name = f"indexed{number}"
        values[f"{name}_path"] = json.dumps(lookup[0].path)
        sql = f"select f.rid from memory_fields f where f.field = {_FIELD.format(f':{name}_path')}"
        tests = "".join(_compare(test, f"{name}_{place}", values) for place, test in enumerate(lookup))
        queries.append(f"{sql} {tests}")
        if len(lookup) > 1:
            queries.append(f"{sql} and f.kind = 'array'")
    return " union all ".join(queries)


def _compare(test: FieldTest, name: str, values: dict[str, Any]) -> str:
    """Return the condition of a test on an entry `f` of the index as ` and ...`, and add its values."""
    if test.operator == "exists":
        return ""
    kind = f" and f.kind = '{test.kind}'"
    if not test.values:
        return kind
    operands = [value[:_MAX_TEXT_CHARACTERS] if isinstance(value, str) else float(value) for value in test.values]
    several = len(operands) > 1
    values[name] = json.dumps(operands) if several else operands[0]
    operator = "in" if several else _ENDS.get(test.operator, "=")
    if test.kind == "text":
        return f"{kind} and f.text {operator} {f'@texts(:{name})' if several else f':{name}'}"
    number = f"cast(:{name} as double precision)"
    numbers = f"(select cast(t.value as double precision) from @texts(:{name}) t)"
    return f"{kind} and f.text = '' and f.number {operator} {numbers if several else number}"
