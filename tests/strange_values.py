"""
Values of types that a reader of another program's files does not expect, in every place of a valid record.

To replace values at random finds a reader that trusts one of them only by luck, so each value of a record is replaced
by each strange one in turn. Tests that change several values at once draw from `strange`.
"""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

_DEPTHS = (300, 900, 5000)  # of lists in lists: Python's readers, writers and representations give up at different ones
_DEEP = [f"lists in lists, {depth} deep" for depth in _DEPTHS]  # too deep to be written from a value
STRANGE: tuple[Any, ...] = (
    None, True, -1, 10**400, 1.5, float("nan"), float("-inf"), "", "\ud800\0", [], ["text"], {}, {"type": []}, *_DEEP,
)  # fmt: skip
strange = st.sampled_from(STRANGE).map(deepcopy) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def to_json(value: Any) -> str:
    """Return a value as JSON on one line."""
    text = json.dumps(value)
    for depth, name in zip(_DEPTHS, _DEEP, strict=True):
        text = text.replace(json.dumps(name), "[" * depth + "]" * depth)
    return text


def parse(value: Any) -> Any:
    """Return a value as a reader of JSON gives it; with another in the place of one that is too deep to be read."""
    try:
        return json.loads(to_json(value))
    except RecursionError:
        return json.loads(json.dumps(value))


def to_lines(values: list[Any]) -> str:
    return "".join(f"{to_json(value)}\n" for value in values)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list or object in a value, with each of its keys."""
    keys = range(len(value)) if isinstance(value, list) else list(value) if isinstance(value, dict) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def replace_each(value: Any, others: Sequence[Any] = STRANGE) -> Iterator[Any]:
    """Yield a record again and again, each time with another of its values missing or of another type."""
    value = deepcopy(value)
    for holder, key in list(places(value)):
        kept = holder[key]
        for other in others:
            holder[key] = other
            yield value
        if isinstance(holder, dict):
            del holder[key]
            yield value
        holder[key] = kept
