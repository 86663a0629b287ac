"""
The port to a database: what the store needs of SQLite and of PostgreSQL, and how one SQL serves both.

The SQL of the modules beside this one is written once, over the same tables and columns. `@name(...)` in it is a
fragment that each backend writes in its own dialect; `:name` is a value.

| fragment | meaning |
|---|---|
| `@keys(:list)`, `@texts(:list)` | a query for the numbers, or texts, of a JSON list, as `value` |
| `@numbered(:list)` | a table of the numbers of a JSON list as `value`, with their places from 0 as `place` |
| `@array(a, b)` | a JSON array of columns |
| `@among(a, query)` | whether a column is one of the keys `rid` of a query, which is read once |
| `@list(a)` | the JSON list of a column of all rows, as text |
| `@each(a)` | in `from`: the texts of a column that is a JSON list, as `value` |
| `@json(a)` | a text, to be read as JSON by `->` and `->>` |
| `@valid(a)` | whether a text is JSON |
| `@then` | a join that reads the table before it first |
| `@hint(a)` | the index to be used |
| `@plain(a)` | a column, and no index of it |
| `@later(a, b)`, `@earlier(a, b)` | the greater and the lesser of two numbers, neither null |
| `@ending(a)` | the last six characters of an id |
| `@unique(a, b)` | the target of `on conflict`: the columns of a primary or unique key |
| `@field(a, :path, :against, operator, kind, :value, :key, ...)` | whether a value in the JSON `a` passes a test |
| `@fields` | in `from`: the rows that follow from metadata for the index of fields |
| `@now` | the time, in microseconds since 1970 |
| `@month(a)` | the local month of a time, as 2026-11 |

`@field` has its test twice: as a path of SQL/JSON with its variables, and as operator, kind, value, and keys of a path.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from memorist.errors import StoreError

Values = Mapping[str, Any] | Sequence[Any] | None
Row = tuple[Any, ...]
Fragments = Mapping[str, str]  # `{0}` is the first argument, `{all}` all of them


class Conflict(StoreError):
    """A row contradicts a unique key, or another rule of the schema. The transaction can only be given up."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the database refused an operation: {reason}")
        self.reason = reason


class Refused(StoreError):
    """A value that this database cannot store, such as a text too long for an index."""


class Connection(Protocol):
    """A connection, lent for one operation."""

    def execute(self, sql: str, values: Values = None, /) -> object: ...
    def executemany(self, sql: str, rows: Iterable[Mapping[str, Any]], /) -> object: ...

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row], ending: str = "", /) -> list[Row]:
        """
        Insert many rows at once; return what the `ending` of the statement returns, in any order.

        The ending is `on conflict ...`, `returning ...`, or both.
        """
        ...

    def changes(self) -> int:
        """Return the number of rows that the last statement has changed."""
        ...

    def fetch(self, sql: str, values: Values = None) -> list[Row]:
        """Return all rows of a query."""
        ...

    def fetch_value(self, sql: str, values: Values = None) -> Any:
        """Return the first row of a query: one column as a value, several as a tuple, None if there is no row."""
        ...

    def fetch_each(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return what `fetch_value` does for each of many values, in one round trip to a server."""
        ...

    def stream(self, sql: str, values: Values = None) -> Iterator[Row]:
        """Yield the rows of a query one by one, on a connection that sees one moment throughout."""
        ...


class Database(Protocol):
    """Connections to one database, each lent for a `with` block."""

    @property
    def path(self) -> str:
        """The file, or the address without its password."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """Lend a connection."""
        ...

    def snapshot(self) -> AbstractContextManager[Connection]:
        """Lend a connection that sees one moment of the database throughout."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """Lend a connection that alone writes to its namespace: all of the block is committed, or nothing."""
        ...

    def read_mark(self) -> str | None:
        """
        Return a mark that changes whenever something is written, by whichever process.

        None where to ask for one costs as much as to ask for what was written.
        """
        ...

    def close(self) -> None: ...


_FRAGMENT = re.compile(r"@([a-z]+)(\()?")


def expand(sql: str, fragments: Fragments) -> str:
    """Write the fragments of a statement in a dialect."""
    if "@" not in sql:
        return sql
    written, start = [], 0
    while found := _FRAGMENT.search(sql, start):
        written.append(sql[start : found.start()])
        arguments, start = _read_arguments(sql, found.end()) if found[2] else ([], found.end())
        arguments = [expand(argument, fragments) for argument in arguments]
        written.append(fragments[found[1]].format(*arguments, all=", ".join(arguments)))
    return "".join(written) + sql[start:]


def _read_arguments(sql: str, start: int) -> tuple[list[str], int]:
    """Return the arguments that begin behind a parenthesis, and the place behind the one that closes it."""
    arguments, depth, first = [], 0, start
    for place in range(start, len(sql)):
        character = sql[place]
        if depth == 0 and character in ",)":
            arguments.append(sql[first:place].strip())
            first = place + 1
            if character == ")":
                return arguments, place + 1
        depth += (character == "(") - (character == ")")
    raise ValueError(f"a fragment has no end: {sql[start:]}")
