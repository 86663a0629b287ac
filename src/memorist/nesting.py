"""Nested values of JSON: limits on what comes in, measured without recursion, and stored texts cut at a depth."""

import re
from collections.abc import Iterable, Mapping

from memorist.errors import InvalidInput

MAX_LEVELS = 64  # of metadata. Writers and readers of JSON recurse, and each of them gives up at a depth of its own
MAX_ENTRIES = 100_000  # keys and items
_CUT = '"…"'  # stands for what is deeper
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def find_excess(value: object, levels: int = MAX_LEVELS, entries: float = MAX_ENTRIES) -> str | None:
    """Return what of a value is too much, if anything: its levels, or its keys and items."""
    layer, found = [value], 0
    for _ in range(levels + 1):
        # Level by level: a value that contains itself has no end, but each level of it is counted.
        following: list[object] = []
        for one in layer:
            if isinstance(one, Mapping | list | tuple):
                inner: Iterable[object] = one.values() if isinstance(one, Mapping) else one
                found += len(one)
                if found > entries:
                    return f"it has more than {entries:,} keys and items"
                following += inner
        if not any(isinstance(one, Mapping | list | tuple) for one in layer):
            return None
        layer = following
    return f"it is nested more than {levels} levels deep"


def refuse_excess(value: object, what: str) -> None:
    """Raise InvalidInput if a value is too deep, or has too many keys and items."""
    if excess := find_excess(value):
        raise InvalidInput(f"{what} cannot be used: {excess}")


def cut_levels(text: str, levels: int = MAX_LEVELS) -> str:
    """Return a text of JSON with an ellipsis for all that is deeper; earlier versions stored it as it came."""
    if text.count("{") + text.count("[") <= levels:
        return text  # most texts, at once
    kept, depth, start = list[str](), 0, 0
    for token in _TOKEN.finditer(text):
        if token[0][0] in "{[":
            depth += 1
            if depth == levels + 1:
                kept += (text[start : token.start()], _CUT)
        elif token[0][0] in "}]":
            if depth == levels + 1:
                start = token.end()
            depth -= 1
    return "".join([*kept, text[start:]]) if kept else text
