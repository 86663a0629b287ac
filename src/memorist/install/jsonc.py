"""
JSON that people edit by hand: members are added, replaced or removed, and every other character stays as it was.

Comments and trailing commas are accepted if the program that owns the file accepts them. Positions are found in a
masked copy of the text, in which they are spaces: it is plain JSON, and every position is the same in both.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from memorist.errors import ConfigError

# What is never closed reaches to the end, so that nothing is searched twice for its close.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_COMMENTS = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which has no form in UTF-8
_TRAILING_COMMAS = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[ \t]*(,))?(?:[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/))?")
_NEXT_COMMA = re.compile(r"\s*,")
_SPACE = " \t\r\n"
_INDENTED = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_DECODER = json.JSONDecoder()
_MAX_STEPS = 1000
_REMOVED = object()

_MemberPath = tuple[str | int, ...]  # keys of objects and positions in lists


class _MemberSpan(Struct, frozen=True):
    """The positions of a member of an object, or of an item of a list, and of its value."""

    start: int
    value: int
    end: int


def parse_object(text: str, *, comments: bool) -> dict[str, Any]:
    """Return the object in a document, or raise ConfigError if it holds none."""
    try:
        value = json.loads(_mask_comments(text, comments), object_pairs_hook=_build_object)
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"it is not JSON{' with comments' if comments else ''}: {exc}") from exc
    if not isinstance(value, dict):
        raise ConfigError("it is not a JSON object")
    return value


def patch_object(text: str, value: Mapping[str, Any], *, comments: bool) -> str:
    """Return the text with as few changes as needed to hold this value."""
    if not text.strip():
        return _dump(value, indent=2) + "\n"
    for _ in range(_MAX_STEPS):
        try:
            step = _find_difference(parse_object(text, comments=comments), value)
            if step is None:
                return text
            text = _apply_step(text, _mask_comments(text, comments), *step)
        except RecursionError as exc:
            raise ConfigError("it is nested too deeply") from exc
    raise ConfigError("it is written in a form that cannot be changed safely; change it by hand")


def remove_emptied(text: str, before: Mapping[str, Any], *, comments: bool) -> str:
    """Return the text without objects and lists that have become empty, unless they hold a comment."""
    try:
        emptied = _find_emptied(before, parse_object(text, comments=comments))
    except RecursionError as exc:
        raise ConfigError("it is nested too deeply") from exc
    for path in emptied:
        masked = _mask_comments(text, comments)
        member = _find_members(masked, _find_container(masked, path))[path[-1]]
        if not text[member.value + 1 : member.end - 1].strip():
            text = _apply_step(text, masked, path, _REMOVED)
    return text


def _find_emptied(old: Any, new: Any, path: _MemberPath = ()) -> list[_MemberPath]:
    """Return the paths of what became empty, or holds only what did; inner ones first."""
    if not old or type(old) is not type(new) or not isinstance(new, dict | list):
        return []
    if isinstance(new, list):
        return [] if new else [path]
    inner = [_find_emptied(old.get(key), value, (*path, key)) for key, value in new.items()]
    own = [path] if path and all(inner) else []
    return [*(emptied for paths in inner for emptied in paths), *own]


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; refuse duplicate names, which programs read in different ways."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{json.dumps(duplicate, ensure_ascii=False)} occurs twice in an object")
    return value


def _mask_comments(text: str, comments: bool) -> str:
    """Return the text with spaces for a byte order mark and, where they are accepted, comments and trailing commas."""
    text = text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text
    for pattern in (_COMMENTS, _TRAILING_COMMAS) if comments else ():
        text = pattern.sub(_mask, text)
    return text


def _mask(found: re.Match[str]) -> str:
    is_open = found[0].startswith("/*") and not (len(found[0]) > 3 and found[0].endswith("*/"))
    return found[0] if is_open or found[0][0] == '"' else " " * len(found[0])


def _find_difference(old: Any, new: Any, path: _MemberPath = ()) -> tuple[_MemberPath, Any] | None:
    """Return the first path at which two values differ, with the new value there or _REMOVED."""
    if isinstance(old, dict) and isinstance(new, Mapping):
        for key in [*old, *new]:
            if key not in new:
                return (*path, key), _REMOVED
            if key not in old:
                return (*path, key), new[key]
            if found := _find_difference(old[key], new[key], (*path, key)):
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        at = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        if at < len(old):
            return ((*path, at), _REMOVED) if old[at] not in new[at:] else (path, new)
        return ((*path, at), new[at]) if at < len(new) else None
    return None if old == new and type(old) is type(new) else (path, new)


def _apply_step(text: str, masked: str, path: _MemberPath, value: Any) -> str:
    """Return the text with one member added, replaced or removed."""
    start = _find_container(masked, path)
    members = _find_members(masked, start)
    member = members.get(path[-1])
    if value is _REMOVED and member is not None:
        return _remove_member(text, masked, start, list(members.values()), member)
    unit = found[1] if (found := _INDENTED.search(text)) else "  "
    if member is not None:
        return (
            text[: member.value] + _dump_value(text, value, unit, _indentation(text, member.start)) + text[member.end :]
        )
    key = f"{_dump(path[-1])}: " if isinstance(path[-1], str) else ""
    return _insert_member(text, masked, start, list(members.values()), key, value, unit)


def _find_container(masked: str, path: _MemberPath) -> int:
    """Return the position of the object or list that holds the last member of a path."""
    start = len(masked) - len(masked.lstrip())
    for key in path[:-1]:
        start = _find_members(masked, start)[key].value
    return start


def _find_members(masked: str, start: int) -> dict[str | int, _MemberSpan]:
    """Return the members of an object by key, or the items of a list by number."""
    members: dict[str | int, _MemberSpan] = {}
    is_object, at = masked[start] == "{", _skip_space(masked, start + 1)
    while masked[at] not in "}]":
        begin, key = at, len(members)
        if is_object:
            key, at = _DECODER.raw_decode(masked, at)
            at = _skip_space(masked, _skip_space(masked, at) + 1)  # past the colon
        end = _DECODER.raw_decode(masked, at)[1]
        members[key] = _MemberSpan(begin, at, end)
        at = _skip_space(masked, end)
        if masked[at] == ",":
            at = _skip_space(masked, at + 1)
    return members


def _skip_space(masked: str, at: int) -> int:
    while masked[at] in _SPACE:
        at += 1
    return at


def _insert_member(
    text: str, masked: str, start: int, members: list[_MemberSpan], key: str, value: Any, unit: str
) -> str:
    """Return the text with one more member, behind the others."""
    indent = _indentation(text, start)
    if not members:
        inner = indent + unit
        end = masked.index("}" if masked[start] == "{" else "]", start)
        rest = text[start + 1 : end].rstrip()  # a comment, at most
        new = rest + _line_end(text) + inner + key + _dump_value(text, value, unit, inner) + _line_end(text) + indent
        return text[: start + 1] + new + text[end:]
    last = members[-1].end
    if "\n" not in text[start:last]:
        return f"{text[:last]}, {key}{_dump(value)}{text[last:]}"
    inner = _indentation(text, members[-1].start)
    found = _REST_OF_LINE.match(text, last)
    after = found.end() if found else last  # a comment stays on its line
    comma = "" if found and found[1] else ","
    new = _line_end(text) + inner + key + _dump_value(text, value, unit, inner) + ("" if comma else ",")
    return text[:last] + comma + text[last:after] + new + text[after:]


def _remove_member(text: str, masked: str, start: int, members: list[_MemberSpan], member: _MemberSpan) -> str:
    """Return the text without a member and its comma."""
    begin = len(text[: member.start].rstrip(_SPACE))
    at = members.index(member)
    if member is not members[-1]:
        return text[:begin] + text[masked.index(",", member.end) + 1 :]
    last_comma = _NEXT_COMMA.match(text, member.end)
    if at and last_comma:
        return text[:begin] + text[last_comma.end() :]
    if at:
        comma = masked.index(",", members[at - 1].end)
        return text[:comma] + text[comma + 1 : max(begin, comma + 1)] + text[member.end :]
    end = masked.index("}" if masked[start] == "{" else "]", member.end)
    rest = text[start + 1 : begin] + text[member.end : end]
    return text[: start + 1] + (rest if rest.strip(_SPACE + ",") else "") + text[end:]


def _indentation(text: str, at: int) -> str:
    """Return the space at the beginning of the line of a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dump_value(text: str, value: Any, unit: str, indent: str) -> str:
    return _dump(value, indent=unit).replace("\n", _line_end(text) + indent)


def _dump(value: Any, indent: str | int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
