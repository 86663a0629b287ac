"""
JSON that people write by hand: changed in one place, every other character as it was.

Comments, and a comma after the last value, are allowed where the program whose file it is allows them. Places are found
in a copy of the text with spaces instead: it is plain JSON, and every position is the same in both.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memorist.errors import ConfigError

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENTS = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMAS = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_SAME_LINE = re.compile(r"(?:[ \t]*(,))?(?:[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/))?")
_OWN_COMMA = re.compile(r"\s*,")
_SPACE = " \t\r\n"
_INDENTED = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_DECODER = json.JSONDecoder()
_MOST_STEPS = 1000

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A member of an object, or an item of a list: from where to where, and where its value begins."""

    start: int
    value: int
    end: int


def read(text: str, *, comments: bool) -> Any:
    """The value of a document; ConfigError where it is none, or none of an object."""
    try:
        value = json.loads(_plain(text, comments), object_pairs_hook=_object)
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"it is not JSON{' with comments' if comments else ''}: {exc}") from exc
    if not isinstance(value, dict):
        raise ConfigError("it holds no JSON object")
    return value


def patched(text: str, value: Mapping[str, Any], *, comments: bool) -> str:
    """The text, changed just so much that it holds this value."""
    if not text.strip():
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    for _ in range(_MOST_STEPS):
        step = _difference(read(text, comments=comments), value)
        if step is None:
            return text
        text = _changed(text, _plain(text, comments), *step)
    raise ConfigError("it is written in a way that cannot be changed safely; change it by hand")


def without_emptied(text: str, before: Mapping[str, Any], *, comments: bool) -> str:
    """The text without objects and lists that held something before; one that holds a comment still does."""
    for path in _emptied(before, read(text, comments=comments)):
        plain = _plain(text, comments)
        part = _parts(plain, _start(plain, path))[path[-1]]
        if not text[part.value + 1 : part.end - 1].strip():
            text = _changed(text, plain, path, _GONE)
    return text


def _emptied(old: Any, new: Any, path: Path = ()) -> list[Path]:
    """Where nothing is left, inner places first; or only what is among these itself."""
    if not old or type(old) is not type(new) or not isinstance(new, dict | list):
        return []
    if isinstance(new, list):
        return [] if new else [path]
    inner = [_emptied(old.get(key), held, (*path, key)) for key, held in new.items()]
    own = [path] if path and all(inner) else []
    return [*(place for places in inner for place in places), *own]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; programs disagree on what one means that has a name twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{json.dumps(twice, ensure_ascii=False)} stands twice in an object of it")
    return value


def _plain(text: str, comments: bool) -> str:
    text = text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text
    for pattern in (_COMMENTS, _LAST_COMMAS) if comments else ():
        text = pattern.sub(lambda found: found[0] if found[0][0] == '"' else " " * len(found[0]), text)
    return text


_GONE = object()


def _difference(old: Any, new: Any, path: Path = ()) -> tuple[Path, Any] | None:
    """The first place at which two values differ, and what is to be there: maybe nothing."""
    if isinstance(old, dict) and isinstance(new, Mapping):
        for key in [*old, *new]:
            if key not in new:
                return (*path, key), _GONE
            if key not in old:
                return (*path, key), new[key]
            if found := _difference(old[key], new[key], (*path, key)):
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        at = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        if at < len(old):
            return ((*path, at), _GONE) if old[at] not in new[at:] else (path, new)
        return ((*path, at), new[at]) if at < len(new) else None
    return None if old == new and type(old) is type(new) else (path, new)


def _changed(text: str, plain: str, path: Path, value: Any) -> str:
    """One step: a member put in, replaced or taken out."""
    start = _start(plain, path)
    parts = _parts(plain, start)
    part = parts.get(path[-1])
    if value is _GONE and part is not None:
        return _without(text, plain, start, list(parts.values()), part)
    unit = found[1] if (found := _INDENTED.search(text)) else "  "
    if part is not None:
        return text[: part.value] + _written(text, value, unit, _margin(text, part.start)) + text[part.end :]
    key = f"{json.dumps(path[-1], ensure_ascii=False)}: " if isinstance(path[-1], str) else ""
    return _with(text, plain, start, list(parts.values()), key, value, unit)


def _start(plain: str, path: Path) -> int:
    """Where the object or list begins that holds the last of a path."""
    start = len(plain) - len(plain.lstrip())
    for key in path[:-1]:
        start = _parts(plain, start)[key].value
    return start


def _parts(plain: str, start: int) -> dict[str | int, Span]:
    """What an object or a list holds, by key or by number."""
    parts: dict[str | int, Span] = {}
    is_object, at = plain[start] == "{", _next(plain, start + 1)
    while plain[at] not in "}]":
        begin, key = at, len(parts)
        if is_object:
            key, at = _DECODER.raw_decode(plain, at)
            at = _next(plain, _next(plain, at) + 1)  # past the colon
        end = _DECODER.raw_decode(plain, at)[1]
        parts[key] = Span(begin, at, end)
        at = _next(plain, end)
        if plain[at] == ",":
            at = _next(plain, at + 1)
    return parts


def _next(plain: str, at: int) -> int:
    while plain[at] in _SPACE:
        at += 1
    return at


def _with(text: str, plain: str, start: int, parts: list[Span], key: str, value: Any, unit: str) -> str:
    """The text with one more member, behind the others."""
    margin = _margin(text, start)
    if not parts:
        inner = margin + unit
        end = plain.index("}" if plain[start] == "{" else "]", start)
        held = text[start + 1 : end].rstrip()  # a comment, at most
        new = held + _line(text) + inner + key + _written(text, value, unit, inner) + _line(text) + margin
        return text[: start + 1] + new + text[end:]
    last = parts[-1].end
    if "\n" not in text[start:last]:
        return f"{text[:last]}, {key}{json.dumps(value, ensure_ascii=False)}{text[last:]}"
    inner = _margin(text, parts[-1].start)
    found = _SAME_LINE.match(text, last)
    after = found.end() if found else last  # a comment stays on its line
    comma = "" if found and found[1] else ","
    new = _line(text) + inner + key + _written(text, value, unit, inner) + ("" if comma else ",")
    return text[:last] + comma + text[last:after] + new + text[after:]


def _without(text: str, plain: str, start: int, parts: list[Span], part: Span) -> str:
    """The text without a member, and without the comma that set it apart."""
    begin = len(text[: part.start].rstrip(_SPACE))
    at = parts.index(part)
    if part is not parts[-1]:
        return text[:begin] + text[plain.index(",", part.end) + 1 :]
    last_comma = _OWN_COMMA.match(text, part.end)
    if at and last_comma:
        return text[:begin] + text[last_comma.end() :]
    if at:
        comma = plain.index(",", parts[at - 1].end)
        return text[:comma] + text[comma + 1 : max(begin, comma + 1)] + text[part.end :]
    end = plain.index("}" if plain[start] == "{" else "]", part.end)
    held = text[start + 1 : begin] + text[part.end : end]
    return text[: start + 1] + (held if held.strip(_SPACE + ",") else "") + text[end:]


def _margin(text: str, at: int) -> str:
    """The space at the beginning of the line on which something stands."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _written(text: str, value: Any, unit: str, margin: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", _line(text) + margin)


def _line(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
