"""SQL in SQLite's dialect: the connection that writes it, and text that is damaged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import apsw

from memorist.errors import Hint, StoreCorrupt
from memorist.store.database import Conflict, Row, Values, expand

_FEW_ROWS = 8  # which are not worth a statement for all of them
# Rows wait here, in memory, to be inserted by one statement. A statement whose triggers write is a savepoint, and at
# each savepoint FTS5 writes what it has gathered to the file: row by row, that takes most of the time. The names of
# columns are no matter, so that one table serves all.
_STAGE_COLUMNS = tuple(f"c{number}" for number in range(40))
_CREATE_STAGE = f"create temp table if not exists staged({', '.join(_STAGE_COLUMNS)})"


class SqliteConnection(apsw.Connection):
    """A connection that writes the fragments of a statement in SQLite's dialect."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._streams: list[apsw.Cursor] = []

    def execute(self, statements: str, bindings: Values = None, **options: Any) -> apsw.Cursor:
        try:
            return super().execute(_write_fragments(statements), bindings, **options)
        except apsw.ConstraintError as exc:
            raise Conflict(str(exc)) from exc

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any], **options: Any) -> apsw.Cursor:
        try:
            return super().executemany(_write_fragments(statements), sequenceofbindings, **options)
        except apsw.ConstraintError as exc:
            raise Conflict(str(exc)) from exc

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row], ending: str = "") -> list[Row]:
        into, places = f"insert into {table}({', '.join(columns)})", ", ".join("?" * len(columns))
        try:
            if len(rows) < _FEW_ROWS:
                return list(self.executemany(f"{into} values ({places}) {ending}", rows))
            self.execute(_CREATE_STAGE)
            names = ", ".join(_STAGE_COLUMNS[: len(columns)])
            self.executemany(f"insert into temp.staged({names}) values ({places})", rows)
            returned = list(self.execute(f"{into} select {names} from temp.staged where true order by rowid {ending}"))
            self.execute("delete from temp.staged")
            return returned
        except apsw.ConstraintError as exc:  # of a later row, which is inserted while the rows returned are read
            raise Conflict(str(exc)) from exc

    def fetch(self, sql: str, values: Values = None) -> list[Row]:
        try:
            return list(self.execute(sql, values))
        except UnicodeDecodeError:
            return list(self._read_damaged_text(sql, values))

    def fetch_value(self, sql: str, values: Values = None) -> Any:
        try:
            return self.execute(sql, values).get
        except UnicodeDecodeError:
            row = next(self._read_damaged_text(sql, values))
            return row if len(row) > 1 else row[0]

    def fetch_each(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [self.fetch_value(sql, row) for row in rows]

    def stream(self, sql: str, values: Values = None) -> Iterator[Row]:
        done = 0
        cursor = self.execute(sql, values)
        self._streams.append(cursor)
        try:
            for row in cursor:
                yield row
                done += 1
        except UnicodeDecodeError:
            yield from islice(self._read_damaged_text(sql, values), done, None)
        finally:
            if cursor in self._streams:
                self._streams.remove(cursor)

    def end_streams(self) -> None:
        """
        End the queries whose rows nobody will read any more.

        Whoever keeps an exception keeps the generators in its frames, and with each a query that holds the connection
        to the moment it began.
        """
        while self._streams:
            self._streams.pop().close(True)

    def _read_damaged_text(self, sql: str, values: Values) -> Iterator[Row]:
        """
        Return the rows of a query that met text which is not UTF-8, with U+FFFD for the bytes that are damaged.

        SQLite stores such text, and apsw refuses to read it: one damaged byte would hide every other memory of an
        answer.
        """
        cursor = self.execute(sql, values)
        if not cursor.is_readonly:
            raise StoreCorrupt("what is to be changed has damaged text", hint=Hint("check"))
        names = [f"c{number}" for number in range(len(cursor.description))]
        cursor.close()
        sql = f"with found({', '.join(names)}) as ({sql}) select {typed_columns(names)} from found"
        return map(decode_row, self.execute(sql, values))


class _Field(str):
    """A test of the values at a path of a JSON object, where a list stands for its items, to one level."""

    def format(self, *arguments: object, **_: object) -> str:
        column, _path, _against, operator, kind, value, *keys = map(str, arguments)
        condition = _leaf_condition(f"f{len(keys) - 1}", operator, kind, value)
        for number in range(len(keys) - 1, 0, -1):
            parent = f"f{number - 1}"
            condition = f"""exists (
                select 1
                from json_each(case {parent}.type
                    when 'array' then {parent}.value
                    when 'object' then json_array(json({parent}.value)) else '[]' end) i,
                  json_each(case i.type when 'object' then i.value else '{{}}' end) f{number}
                where f{number}.key = {keys[number]} and {condition})"""
        readable = f"iif(json_valid({column}), {column}, '{{}}')"  # one damaged text would fail them all
        return f"exists (select 1 from json_each({readable}) f0 where f0.key = {keys[0]} and {condition})"


def _leaf_condition(field: str, operator: str, kind: str, value: str) -> str:
    if operator == "exists":
        return "1 = 1"
    against = f"(select value from json_each({value}))" if operator == "in" else value

    def test(row: str) -> str:
        if kind == "number":
            return f"{row}.type in ('integer', 'real') and {row}.atom {operator} {against}"
        return f"{row}.type = '{kind}'" + (f" and {row}.atom {operator} {against}" if kind == "text" else "")

    items = f"json_each(case {field}.type when 'array' then {field}.value else '[]' end)"
    return f"({test(field)} or exists (select 1 from {items} v where {test('v')}))"


FRAGMENTS = {
    "field": _Field(),
    "fields": "field_values",
    "keys": "(select value from json_each({0}))",
    "texts": "(select value from json_each({0}))",
    "numbered": "(select value, key as place from json_each({0}))",
    "among": "+{0} in ({1})",
    "array": "json_array({all})",
    "list": "json_group_array({0})",
    "each": "json_each({0})",
    "json": "({0})",
    "valid": "json_valid({0})",
    "then": "cross join",
    "hint": "indexed by {0}",
    "plain": "+{0}",
    "later": "max({all})",
    "earlier": "min({all})",
    "ending": "substr({0}, -6)",
    "unique": "({all})",
    "now": "cast(unixepoch('subsec') * 1000000 as integer)",
    "month": "strftime('%Y-%m', {0} / 1000000, 'unixepoch', 'localtime')",
}


@lru_cache(2000)
def _write_fragments(sql: str) -> str:
    return expand(sql, FRAGMENTS)


def typed_columns(names: Iterable[str]) -> str:
    """Return columns for `decode_row`: the type of each, and its value, which is bytes if it is text."""
    return ", ".join(f"typeof({name}), iif(typeof({name}) = 'text', cast({name} as blob), {name})" for name in names)


def decode_row(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of a row with `typed_columns`."""
    return tuple(
        decode_text(value) if kind == "text" else value for kind, value in zip(row[::2], row[1::2], strict=True)
    )


def decode_text(stored: bytes) -> str:
    """Return text as SQLite stores it, with U+FFFD for bytes that are damaged."""
    return stored.decode(errors="replace")
