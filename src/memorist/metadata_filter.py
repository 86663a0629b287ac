"""
Filters by metadata: mappings as callers write them, parsed into conditions on the values of a memory's metadata.

A path leads through objects by their keys. A list stands for its items: a condition holds if it holds for one of them.
Values are compared with values of the same kind only: texts, numbers, true, false and null.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from memorist.errors import InvalidInput
from memorist.nesting import refuse_excess

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # what no database can store: NUL, half of a surrogate pair
_MAX_DEPTH = 10  # of mappings within mappings
_MAX_TESTS = 100
_MAX_PATH_KEYS = 10
_MAX_VALUES = 1000  # of $in and $nin
_MAX_TEXT_CHARACTERS = 10_000
_MAX_WHOLE_NUMBER = 2**63
_COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OPERATORS = ("$eq", "$ne", *_COMPARISONS, "$in", "$nin", "$exists", "$not")
_COMBINATIONS = ("$and", "$or", "$not")


class FieldTest(Struct, frozen=True):
    """
    A test of the values at a path: some value of this kind compares so with one of `values`.

    `operator` is =, <, <=, > or >=; or "exists", which asks for any value, also for null, a list or an object. `kind`
    is text, number, true, false, null or any.
    """

    path: tuple[str, ...]
    operator: str
    kind: str
    values: tuple[str | int | float, ...] = ()


class Combination(Struct, frozen=True):
    """Conditions of which all hold ("and"), any holds ("or"), or the one does not hold ("not")."""

    operator: str
    parts: tuple["Condition", ...]


Condition = FieldTest | Combination


def parse_metadata_filter(value: object) -> Condition | None:
    """Return a filter as conditions; None where it has none."""
    refuse_excess(value, "the filter by metadata")
    parser = _Parser()
    parts = parser.parse_mapping(value, (), 0)
    return _all_of(parts) if parts else None


class _Parser:
    """Parses one filter, and refuses one that is too large."""

    def __init__(self) -> None:
        self._tests = 0

    def parse_mapping(self, value: object, path: tuple[str, ...], depth: int) -> list[Condition]:
        """Return the conditions of a mapping: by fields, or combined, below a path."""
        if not isinstance(value, Mapping):
            raise InvalidInput(f"a filter by metadata is a mapping, as in {{'user': 'anna'}}, not {value!r:.80}")
        if depth > _MAX_DEPTH:
            raise InvalidInput(f"the filter by metadata is nested more than {_MAX_DEPTH} deep")
        parts: list[Condition] = []
        for key, condition in value.items():
            if not isinstance(key, str):
                raise InvalidInput(f"a field of metadata is named by text, not by {key!r:.80}")
            if key in _COMBINATIONS:
                parts.append(self._combine(key, condition, path, depth))
            elif key.startswith("$"):
                known = ", ".join(dict.fromkeys((*_OPERATORS, *_COMBINATIONS)))
                raise InvalidInput(f"{key!r:.80} is no operator here; there are: {known}. Write \\$ for a name with $")
            else:
                parts.append(self._parse_field((*path, *split_path(key)), condition, depth))
        return parts

    def _combine(self, operator: str, value: object, path: tuple[str, ...], depth: int) -> Condition:
        if operator == "$not":
            return Combination("not", (_all_of(self.parse_mapping(value, path, depth + 1)),))
        if not isinstance(value, list | tuple) or not value:
            raise InvalidInput(f"{operator} takes a list of mappings, not {value!r:.80}")
        parts = tuple(_all_of(self.parse_mapping(one, path, depth + 1)) for one in value)
        return Combination(operator.removeprefix("$"), parts)

    def _parse_field(self, path: tuple[str, ...], value: object, depth: int) -> Condition:
        """Return the condition on one field: a value, operators, or conditions on the fields of an object."""
        if len(path) > _MAX_PATH_KEYS:
            raise InvalidInput(f"the path {'.'.join(path)!r:.80} has more than {_MAX_PATH_KEYS} keys")
        if not isinstance(value, Mapping):
            return self._equals(path, value)
        if not value:
            raise InvalidInput(f"the filter on {path[-1]!r:.80} is empty; `$exists` asks if there is a value")
        named = [isinstance(key, str) and key.startswith("$") for key in value]
        if not any(named):
            return _all_of(self.parse_mapping(value, path, depth + 1))
        if not all(named):
            raise InvalidInput(f"the filter on {path[-1]!r:.80} mixes operators with names of fields")
        return _all_of([self._apply(path, operator, operand, depth) for operator, operand in value.items()])

    def _apply(self, path: tuple[str, ...], operator: str, operand: object, depth: int) -> Condition:
        if operator == "$eq":
            return self._equals(path, operand)
        if operator == "$ne":
            return _negate(self._equals(path, operand))
        if operator in _COMPARISONS:
            kind, *values = _classify(operand)
            if kind not in ("text", "number"):
                raise InvalidInput(f"{operator} compares with a number or a text, not with {operand!r:.80}")
            return self._test(path, _COMPARISONS[operator], kind, *values)
        if operator in ("$in", "$nin"):
            found = self._is_in(path, operator, operand)
            return found if operator == "$in" else _negate(found)
        if operator == "$exists":
            if not isinstance(operand, bool):
                raise InvalidInput(f"$exists takes True or False, not {operand!r:.80}")
            test = self._test(path, "exists", "any")
            return test if operand else _negate(test)
        if operator == "$not" and isinstance(operand, Mapping):
            if depth > _MAX_DEPTH:
                raise InvalidInput(f"the filter by metadata is nested more than {_MAX_DEPTH} deep")
            return _negate(self._parse_field(path, operand, depth + 1))
        if operator == "$not":
            return _negate(self._equals(path, operand))
        raise InvalidInput(f"there is no operator {operator!r:.80}; there are: {', '.join(_OPERATORS)}")

    def _equals(self, path: tuple[str, ...], value: object) -> Condition:
        return self._test(path, "=", *_classify(value))

    def _is_in(self, path: tuple[str, ...], operator: str, operand: object) -> Condition:
        if not isinstance(operand, list | tuple | set | frozenset):
            raise InvalidInput(f"{operator} takes a list of values, not {operand!r:.80}")
        if len(operand) > _MAX_VALUES:
            raise InvalidInput(f"{operator} has {len(operand):,} values; at most {_MAX_VALUES:,} are compared")
        by_kind: dict[str, list[str | int | float]] = {}
        for one in operand:
            kind, *values = _classify(one)
            by_kind.setdefault(kind, []).extend(values)
        return Combination("or", tuple(self._test(path, "=", kind, *values) for kind, values in by_kind.items()))

    def _test(self, path: tuple[str, ...], operator: str, kind: str, *values: str | int | float) -> FieldTest:
        self._tests += 1
        if self._tests > _MAX_TESTS:
            raise InvalidInput(f"the filter by metadata has more than {_MAX_TESTS} conditions")
        return FieldTest(path, operator, kind, values)


def split_path(text: str) -> tuple[str, ...]:
    """Return the keys of a path: a dot leads into an object, and a backslash takes the next character as it is."""
    keys, key, escaped = [], "", False
    for character in text:
        if escaped or character not in "\\.":
            key, escaped = key + character, False
        elif character == "\\":
            escaped = True
        else:
            keys.append(key)
            key = ""
    if escaped:
        raise InvalidInput(f"the path {text!r:.80} ends with a backslash; write \\\\ for one")
    if UNSTORABLE.search(text):
        raise InvalidInput(f"the path {text!r:.80} has characters that no metadata has")
    return (*keys, key)


def _classify(value: object) -> tuple[Any, ...]:
    """Return the kind of a value and, of texts and numbers, the value."""
    if value is None or isinstance(value, bool):
        return ({None: "null", True: "true", False: "false"}[value],)
    if isinstance(value, str):
        return ("text", _check_text(value))
    if isinstance(value, int | float):
        if value != value or abs(value) == float("inf") or (isinstance(value, int) and abs(value) >= _MAX_WHOLE_NUMBER):
            raise InvalidInput(f"the number {value!r:.80} cannot be compared")
        return ("number", value)
    raise InvalidInput(f"a value to compare with is a text, a number, True, False or None, not {value!r:.80}; see $in")


def _check_text(value: str) -> str:
    if len(value) > _MAX_TEXT_CHARACTERS:
        raise InvalidInput(f"the text to compare with has {len(value):,} characters; at most {_MAX_TEXT_CHARACTERS:,}")
    return UNSTORABLE.sub("\ufffd", value)  # as in stored metadata


def _all_of(parts: list[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else Combination("and", tuple(parts))


def _negate(condition: Condition) -> Condition:
    return Combination("not", (condition,))
