"""TOML that people write by hand: one table put in, replaced or taken out, every other line as it was."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from memorist.config import as_toml
from memorist.errors import ConfigError

_HEADER = re.compile(r"\s*\[")
_IDLE = re.compile(r"\s*(#.*)?$")


def read(text: str) -> dict[str, Any]:
    """The values of a document; ConfigError where it is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"it is not TOML: {exc}") from exc


def patched(text: str, values: Mapping[str, Any], table: tuple[str, str]) -> str:
    """The text, changed so that it holds these values; only this table, one of some, may differ from what is there."""
    group, name = table
    wanted = values.get(group, {}).get(name)
    with suppress(tomllib.TOMLDecodeError, TypeError):  # a date in it, say, cannot be written as in JSON
        new = _without(text, table) if wanted is None else _with(text, table, wanted)
        if _told(tomllib.loads(new), group) == _told(values, group):
            return new
    raise ConfigError(f"{group}.{name} is written in a way that cannot be changed safely; change it by hand")


def _told(values: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The values, where a group with nothing in it is as good as none."""
    return {key: value for key, value in values.items() if key != group or value}


def _with(text: str, table: Sequence[str], values: Mapping[str, Any]) -> str:
    """With this table, in the place of the one of that name or at the end; tables below it stay."""
    lines, line = text.splitlines(keepends=True), "\r\n" if "\r\n" in text else "\n"
    own = {key: value for key, value in values.items() if not isinstance(value, dict)}
    new = [f"[{'.'.join(table)}]{line}", *(f"{key} = {as_toml(value)}{line}" for key, value in own.items())]
    if found := _block(lines, table, below=False):
        lines[found[0] : found[1]] = new
        return "".join(lines)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += line
    return "".join([*lines, *([line] if lines and lines[-1].strip() else []), *new])


def _without(text: str, table: Sequence[str]) -> str:
    """Without the table, and without those below it."""
    lines = text.splitlines(keepends=True)
    while found := _block(lines, table, below=True):
        begin = found[0] - (found[0] > 0 and not lines[found[0] - 1].strip())  # the empty line before it
        del lines[begin : found[1]]
    return "".join(lines)


def _block(lines: Sequence[str], table: Sequence[str], *, below: bool) -> tuple[int, int] | None:
    """From where to where a table goes; or one `below` it, if that comes first."""
    names = r"\s*\.\s*".join(rf"(?:{re.escape(name)}|\"{re.escape(name)}\")" for name in table)
    header = re.compile(rf"\s*\[\s*{names}\s*{r'(?:[.][^]]*)?' if below else ''}\]")
    begin = next((at for at, one in enumerate(lines) if header.match(one)), None)
    if begin is None:
        return None
    end = next((at for at in range(begin + 1, len(lines)) if _HEADER.match(lines[at])), len(lines))
    while _IDLE.match(lines[end - 1]):  # what stands before the next header belongs to that
        end -= 1
    return begin, end
