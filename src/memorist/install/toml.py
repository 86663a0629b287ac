"""
TOML that people edit by hand: one table is added, changed or removed, and everything else stays as it was.

Only the text of that table is handed to tomlkit, which reorders documents in which arrays of tables stand between the
tables of a group.
"""

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from memorist.errors import ConfigError

_HEADER = re.compile(r"[ \t]*\[")
# Comments and texts, in which a bracket means nothing; brackets; and the ends of lines, which a header may follow.
_TOKEN = re.compile(
    r"#[^\n]*|\"\"\"(?:\\.|[^\\])*?\"{3,5}|'''.*?'{3,5}|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|[\[{]|[\]}]|\n", re.DOTALL
)
_LAST_BLANK_LINE = re.compile(r"^[ \t]*\r?\n\Z", re.MULTILINE)


def parse_document(text: str) -> dict[str, Any]:
    """Return the values of a document, or raise ConfigError if it is not TOML."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # a number of thousands of digits is TOML that cannot be read
        raise ConfigError(f"it is not TOML: {exc}") from exc


def patch_table(text: str, values: Mapping[str, Any], group: str, name: str) -> str:
    """Return the text with these values, which differ from its own only in the table [group.name]."""
    entry = values.get(group, {}).get(name)
    with suppress(TOMLKitError, ValueError, RecursionError):
        patched = _remove_table(text, group, name) if entry is None else _set_table(text, group, name, entry)
        if _drop_empty(tomllib.loads(patched), group) == _drop_empty(values, group):
            return patched
    raise ConfigError(f"{group}.{name} is written in a form that cannot be changed safely; change it by hand")


def _drop_empty(values: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Return the values without an empty group, which means the same as none."""
    return {key: value for key, value in values.items() if key != group or value}


def _set_table(text: str, group: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text with this entry, in the table of that name or in a new one at the end; tables below it stay."""
    newline = "\r\n" if "\r\n" in text else "\n"
    own = {key: value for key, value in entry.items() if not isinstance(value, dict)}
    parts = _split_tables(text)
    for at, part in enumerate(parts):
        if _parse_header(part) == {group: {name: {}}} and _is_plain(tomllib.loads(part)[group][name]):
            parts[at] = _update_table(part.replace("\r\n", "\n"), group, name, own).replace("\n", newline)
            return "".join(parts)
    if text and not text.endswith("\n"):
        text += newline
    blank_line = "" if not text or _LAST_BLANK_LINE.search(text) else newline
    return text + blank_line + tomlkit.dumps({group: {name: own}}).replace("\n", newline)


def _update_table(part: str, group: str, name: str, own: Mapping[str, Any]) -> str:
    """Return the text of a table with these values, in the place of older ones or behind the others."""
    document = tomlkit.parse(part if part.endswith("\n") else f"{part}\n")
    table = cast(Table, cast(Table, document[group])[name])
    for key, value in own.items():
        if table.get(key) != value:
            table[key] = value
    return document.as_string()


def _is_plain(table: Mapping[str, Any]) -> bool:
    """Check that a table holds only text, numbers and lists, as clients write it: no inline tables and no dates."""
    items = [item for value in table.values() for item in (value if isinstance(value, list) else [value])]
    return all(isinstance(item, str | int | float) for item in items)


def _remove_table(text: str, group: str, name: str) -> str:
    """Return the text without a table, the tables below it, and the blank line before each."""
    kept: list[str] = []
    for part in _split_tables(text):
        tables = _parse_header(part).get(group)
        if not isinstance(tables, dict) or name not in tables:
            kept.append(part)
        elif kept:
            kept[-1] = _LAST_BLANK_LINE.sub("", kept[-1])
    return "".join(kept)


def _split_tables(text: str) -> list[str]:
    """Split a document into its tables, and the blank lines and comments between them."""
    starts, depth = [0], 0
    if _HEADER.match(text):
        starts.append(0)
    for token in _TOKEN.finditer(text):
        if token[0] == "\n":
            if depth == 0 and _HEADER.match(text, token.end()):
                starts.append(token.end())
        else:
            depth += (token[0] in "[{") - (token[0] in "]}")
    tables = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [part for table in tables for part in _split_last_lines(table)]


def _split_last_lines(table: str) -> tuple[str, str]:
    """Split off the blank lines and comments at the end of a table."""
    end = len(table) + 1
    for line in reversed(table.split("\n")):
        if line.strip(" \t\r") and not line.lstrip(" \t\r").startswith("#"):
            break
        end -= len(line) + 1
    return table[:end], table[end:]


def _parse_header(part: str) -> dict[str, Any]:
    """Return the names in the header of a table as nested tables: {"a": {"b": {}}} for [a.b]."""
    return tomllib.loads(part.partition("\n")[0].rstrip("\r")) if _HEADER.match(part) else {}
