"""Filters by metadata as SQL. Keys and values are bound, so that none of them is ever read as SQL."""

import json
from typing import Any, Protocol

from memorist.metadata_filter import Condition, FieldTest


class FieldTests(Protocol):
    """Another way to test fields of a memory than by its metadata."""

    def write(self, test: FieldTest, name: str, values: dict[str, Any]) -> str | None:
        """Return the condition of a test, and add its values, whose names begin so; None if it is not for this test."""
        ...


def metadata_condition(
    condition: Condition, column: str, values: dict[str, Any], tests: FieldTests | None = None
) -> str:
    """Return a condition on a column with metadata, which is either true or false, and add its values."""
    if isinstance(condition, FieldTest):
        written = tests.write(condition, f"test{len(values)}", values) if tests else None
        return written or _field_condition(condition, column, values)
    parts = [metadata_condition(part, column, values, tests) for part in condition.parts]
    if condition.operator == "not":
        return f"not {parts[0]}"
    if not parts:
        return "1 = 1" if condition.operator == "and" else "1 = 0"
    return f"({f' {condition.operator} '.join(parts)})"


def _field_condition(test: FieldTest, column: str, values: dict[str, Any]) -> str:
    prefix = f"field{sum(name.startswith('field') and name.endswith('_path') for name in values)}"
    keys = {f"{prefix}_key{number}": key for number, key in enumerate(test.path)}
    operator = "in" if test.operator == "=" and len(test.values) > 1 else test.operator
    values |= keys | {
        f"{prefix}_path": _sql_json_path(test),
        f"{prefix}_against": json.dumps({"v": _json_values(test)}),
        f"{prefix}_value": json.dumps(test.values) if operator == "in" else next(iter(test.values), None),
    }
    arguments = [f":{prefix}_path", f":{prefix}_against", operator, test.kind, f":{prefix}_value"]
    return f"@field({', '.join([column, *arguments, *(f':{name}' for name in keys)])})"


def _sql_json_path(test: FieldTest) -> str:
    """Return a test in the path language of SQL/JSON, in which `lax` takes a list for its items, to one level."""
    path = "lax $" + "".join(f".{json.dumps(key)}" for key in test.path)
    if test.operator == "exists":
        return path
    comparison = "==" if test.operator == "=" else test.operator
    return f'{path} ? (@.type() != "array" && @ {comparison} $v[*])'


def _json_values(test: FieldTest) -> list[Any]:
    constants: dict[str, list[Any]] = {"true": [True], "false": [False], "null": [None]}
    return constants.get(test.kind, list(test.values))
