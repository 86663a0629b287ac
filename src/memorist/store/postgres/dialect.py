"""SQL in PostgreSQL's dialect: fragments, placeholders, and values in the forms that the store exchanges."""

import re
import struct
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import psycopg
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader
from psycopg.types.string import StrBinaryDumper, TextBinaryLoader

from memorist.store.database import Values, expand

# Long texts are unique by their hash; see the head of 001-schema.sql.
_HASHED = {"query", "text", "target"}
_HASH = r"sha256(replace({}, '\', '\\')::bytea)"  # unlike `convert_to`, immutable


class _Unique(str):
    """The target of `on conflict`: `tenant` leads every key, and long texts are in it by their hash."""

    def format(self, *columns: object, **_: object) -> str:
        keys = [_HASH.format(column) if column in _HASHED else str(column) for column in columns]
        return f"({', '.join(['tenant', *keys])})"


# PostgreSQL knows how many numbers an array has, and they are a plain column: where row security holds, no index serves
# a condition with a cast in it.
_NUMBERS = "unnest(translate({0}, '[]', '{{}}')::bigint[])"

# An earlier version stored a NUL in metadata, written as in JSON, which jsonb refuses.
_AS_JSONB = r"replace(replace({0}, '\\', '\u005c'), '\u0000', '\ufffd')::jsonb"

FRAGMENTS: Mapping[str, str] = {
    "keys": f"(select value from {_NUMBERS} as list(value))",
    "texts": "(select value from json_array_elements_text(({0})::json))",
    "numbered": f"(select value, number - 1 as place from {_NUMBERS} with ordinality as list(value, number))",
    "among": "exists (select 1 from ({1}) k where k.rid = {0})",  # unlike `not in`, a join where it is negated
    "array": "json_build_array({all})",
    "list": "coalesce(json_agg({0}), '[]')",
    "each": "json_array_elements_text(({0})::json)",
    "json": "({0})::json",
    "valid": "({0} is json)",
    "then": "join",
    "hint": "",
    "plain": "{0}",
    "later": "greatest({all})",
    "earlier": "least({all})",
    "ending": "{0}_ending",  # a column of its own, as no index on an expression serves under row security
    "unique": _Unique(),
    "field": f"coalesce(jsonb_path_exists({_AS_JSONB}, {{1}}::jsonpath, {{2}}::jsonb, true), false)",
    "fields": """(
        select i.field, v.kind, v.text, v.number, m.rid
        from indexed_fields i
        join memories m on m.namespace = i.namespace
        cross join lateral field_values(m.metadata, i.path) v)""",
    "now": "cast(extract(epoch from statement_timestamp()) * 1000000 as bigint)",
    "month": "to_char(to_timestamp({0} / 1000000), 'YYYY-MM')",  # in the time zone of the session
}


class Statement(NamedTuple):
    """A statement with PostgreSQL's placeholders, and the names of its values in their order, if they have names."""

    sql: str
    names: tuple[str, ...]

    def order(self, values: Values) -> list[Any]:
        """Return the values of a call in the order of the placeholders."""
        if isinstance(values, Mapping):
            return [_as_vector(values[name]) if name == "vector" else values[name] for name in self.names]
        return list(values or ())


# What may contain a colon or a question mark that stands for no value, then casts, then values.
_TOKENS = re.compile(
    r"""
    '(?:[^']|'')*' | "[^"]*" | --[^\n]* | /\*.*?\*/ | (\$\w*\$).*?\1
    | ::
    | :(?P<name>[A-Za-z_]\w*)
    | \?(?P<number>\d*)
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(4000)
def translate(sql: str) -> Statement:
    """Return a statement of the store as PostgreSQL reads it."""
    names: list[str] = []
    places = 0

    def replace(token: re.Match[str]) -> str:
        nonlocal places
        if name := token["name"]:
            if name not in names:
                names.append(name)
            return f"${names.index(name) + 1}"
        if (number := token["number"]) is not None:
            places += 1
            return f"${number or places}"
        return token[0]

    # "@@" is an operator here, and no fragment.
    return Statement(_TOKENS.sub(replace, expand(sql, FRAGMENTS)), tuple(names))


def quote_text(text: str) -> str:
    """Return a text as a constant of SQL, in which no character means anything: a partial index needs a constant."""
    return "E'" + "".join(c if c.isascii() and c.isalnum() else f"\\U{ord(c):08X}" for c in text) + "'"


class Halfvec(bytes):
    """A vector as the store has it: float16, little endian."""


def _as_vector(value: Any) -> Any:
    return Halfvec(value) if isinstance(value, bytes) else value


class _HalfvecDumper(Dumper):
    """Send a vector in pgvector's binary form: dimensions, an unused number, and big-endian halves."""

    format = Format.BINARY

    def dump(self, obj: Halfvec) -> bytes:
        return struct.pack(">hh", len(obj) // 2, 0) + np.frombuffer(obj, "<f2").astype(">f2").tobytes()


class _HalfvecLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return np.frombuffer(data, ">f2", offset=4).astype("<f2").tobytes()


class _NumberLoader(NumericBinaryLoader):
    """Read a sum of whole numbers, which PostgreSQL calls numeric, as a whole number."""

    def load(self, data: Buffer) -> Any:
        value: Decimal = super().load(data)
        return int(value) if value == value.to_integral_value() else float(value)


def register_types(connection: psycopg.Connection[Any], halfvec: int) -> None:
    """Have a connection exchange values in the store's forms; `halfvec` is the oid of that type."""
    adapters = connection.adapters
    # One type a Python type: otherwise each size of number would make another statement to prepare.
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(str, StrBinaryDumper)
    adapters.register_loader("numeric", _NumberLoader)
    for json in ("json", "jsonb"):
        adapters.register_loader(json, _JsonbLoader if json == "jsonb" else TextBinaryLoader)
    adapters.register_dumper(Halfvec, type("HalfvecDumper", (_HalfvecDumper,), {"oid": halfvec}))
    adapters.register_loader(halfvec, _HalfvecLoader)


class _JsonbLoader(TextBinaryLoader):
    def load(self, data: Buffer) -> bytes | str:
        return super().load(bytes(data)[1:])  # behind the number of its version
