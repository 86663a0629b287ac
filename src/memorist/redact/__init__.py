"""
Secrets in text, found and replaced by `[redacted:KIND]` before anything is stored.

There are three ways to find one: by its documented form (`ghp_...`, a PEM block), by where it stands (the password of
a URL, an Authorization header), and by a name like "password" before it. It is reported by kind and place, never by
value. A key of several lines becomes one placeholder on its first line, and the text goes on behind its last; no other
line changes. Each pattern reads the text once, and a bounded stretch for each find, so that no text can make it slow.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from memorist.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Redacted:
    """Which kind of secret stood where in the original text; line and column count from 1."""

    kind: str
    line: int
    column: int


def redact(text: str, allow: Collection[str] = (), *, keep_lines: bool = False) -> tuple[str, tuple[Redacted, ...]]:
    """
    The text with secrets replaced by `[redacted:KIND]`, and where they stood. Text without any comes back as it is.

    `allow` is for false positives: a secret is left alone that contains one of these texts, or in which one of those
    written as /regex/ is found. With `keep_lines`, empty lines follow a key of several, so that every other line keeps
    its number.
    """
    allowed = _allowances(allow)
    places: list[_Span] = []
    shown = text
    for _ in range(_MAX_PASSES):  # again, until there is nothing more to find: a second `redact` must change nothing
        found = _without_allowed(list(_secrets(shown)), shown, allowed)
        if not found:
            break
        places = _joined([*places, *_in_original(found, places)])
        shown = _replaced(text, places)
    return _replaced(text, places, keep_lines) if keep_lines else shown, tuple(_reported(text, places))


_Span = tuple[int, int, str]  # start, end, kind
_MAX_PASSES = 10
_PLACEHOLDER = r"\[redacted:[a-z0-9-]{1,32}\]"


def _secrets(text: str) -> Iterator[_Span]:
    """All secrets of a text, the surest first; they may overlap."""
    from memorist.redact import (
        assignments,
        locations,  # patterns that nobody who stores nothing waits for
        patterns,
    )

    # What is redacted already becomes a barrier that nothing is read across.
    text = re.sub(_PLACEHOLDER, lambda found: "\0" * len(found[0]), text)
    lowered = text.replace("\u0130", "i").lower()  # of all letters, only this one would get longer
    yield from patterns.secrets(text)
    yield from locations.secrets(text, lowered)
    yield from assignments.secrets(text, lowered)


def _allowances(allow: Collection[str]) -> Callable[[str], bool]:
    """Whether the user calls a secret harmless."""
    literals = [one for one in allow if one and not _is_regex(one)]
    try:
        patterns = [re.compile(one[1:-1]) for one in allow if _is_regex(one)]
    except re.error as problem:
        raise InvalidInput(f"a pattern of allowed secrets is no regular expression: {problem}") from problem
    return lambda secret: any(one in secret for one in literals) or any(one.search(secret) for one in patterns)


def _without_allowed(found: list[_Span], text: str, allowed: Callable[[str], bool]) -> list[_Span]:
    """The spans that are not allowed, nor part of one that is."""
    kept = _joined([span for span in found if allowed(text[span[0] : span[1]])])
    if not kept:
        return found
    starts = [start for start, _, _ in kept]
    return [span for span in found if (at := bisect_right(starts, span[0])) == 0 or kept[at - 1][1] < span[1]]


def _is_regex(allowance: str) -> bool:
    return len(allowance) > 2 and allowance[0] == allowance[-1] == "/"


def _joined(spans: list[_Span]) -> list[_Span]:
    """One span for those that overlap, so that no piece of a secret is left; of the kind that was found first."""
    joined: list[tuple[int, int, int, str]] = []
    for start, end, rank, kind in sorted((start, end, rank, kind) for rank, (start, end, kind) in enumerate(spans)):
        if joined and start < joined[-1][1]:
            before = joined.pop()
            joined.append((before[0], max(before[1], end), *min(before[2:], (rank, kind))))
        else:
            joined.append((start, end, rank, kind))
    return [(start, end, kind) for start, end, _, kind in joined]


def _in_original(found: list[_Span], places: list[_Span]) -> list[_Span]:
    """Where spans of the text with these places replaced are in the original one."""
    starts, ends, shifts = [], [], [0]
    for start, end, kind in places:
        starts.append(start + shifts[-1])
        ends.append(starts[-1] + len(_placeholder(kind)))
        shifts.append(ends[-1] - end)
    return [
        (start - shifts[bisect_right(ends, start)], end - shifts[bisect_left(starts, end)], kind)
        for start, end, kind in found
    ]


def _replaced(text: str, places: list[_Span], keep_lines: bool = False) -> str:
    pieces, done = [], 0
    for start, end, kind in places:
        pieces += [text[done:start], _placeholder(kind), "\n" * text.count("\n", start, end) * keep_lines]
        done = end
    return "".join([*pieces, text[done:]])


def _placeholder(kind: str) -> str:
    return f"[redacted:{kind}]"


def _reported(text: str, places: list[_Span]) -> Iterator[Redacted]:
    line, newline, seen = 1, -1, 0
    for start, _, kind in places:
        line += text.count("\n", seen, start)
        newline = max(newline, text.rfind("\n", seen, start))
        seen = start
        yield Redacted(kind, line, start - newline)
