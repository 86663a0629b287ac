"""
Replace secrets in text by `[redacted:KIND]` before anything is stored.

A secret is found by its documented form (`ghp_...`, a PEM block), by a checksum (a card number), by its location (the
password of a URL, an Authorization header, a column), or by a name like "password" before it. It is reported by kind
and place, never by value. A key of several lines becomes one placeholder on its first line; no other line changes. Each
pattern reads the text once, and a bounded stretch for each match, so no text can make redaction slow.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator

from msgspec import Struct

from memorist.redact.allowances import compile_allowances


class RedactedSecret(Struct, frozen=True):
    """The kind and place of a secret in the original text; line and column count from 1."""

    kind: str
    line: int
    column: int


def redact(
    text: str, allow: Collection[str] = (), *, keep_lines: bool = False
) -> tuple[str, tuple[RedactedSecret, ...]]:
    """
    Return the text with secrets replaced by `[redacted:KIND]`, and a report of them.

    `allow` is for false positives: a secret stays if it contains one of these texts, or matches one written as
    /regex/. With `keep_lines`, empty lines follow the placeholder of a key of several lines, so that every other line
    keeps its number.
    """
    is_allowed = compile_allowances(allow) if allow else None
    spans: list[_Span] = []
    clean = text
    for _ in range(_MAX_PASSES):  # until nothing more is found: redacting the result again must change nothing
        found = _drop_allowed(list(_find_secrets(clean)), clean, is_allowed)
        if not found:
            break
        spans = _merge_overlapping([*spans, *_map_to_original(found, spans)])
        clean = _replace_spans(text, spans)
    return _replace_spans(text, spans, keep_lines) if keep_lines else clean, tuple(_locate(text, spans))


_Span = tuple[int, int, str]  # start, end, kind
_MAX_PASSES = 10
_PLACEHOLDER = r"\[redacted:[a-z0-9-]{1,32}\]"


def _find_secrets(text: str) -> Iterator[_Span]:
    """Yield all secrets of a text, the surest first; they may overlap."""
    # Loaded late: processes that only read need none.
    from memorist.redact import assignments, commands, locations, patterns

    # A placeholder becomes a barrier that no pattern reads across.
    text = re.sub(_PLACEHOLDER, lambda found: "\0" * len(found[0]), text)
    lowered = text.replace("\u0130", "i").lower()  # the only letter that gets longer in lower case
    long_words = "\n".join({word for word in text.split() if len(word) >= patterns.MIN_TOKEN_CHARACTERS})
    yield from patterns.find_secrets_by_pattern(text, lowered, long_words)
    yield from locations.find_secrets_by_location(text, lowered)
    yield from commands.find_secrets_in_commands(text, lowered)
    yield from assignments.find_secrets_by_name(text, lowered)
    yield from locations.find_secrets_in_tables(text, lowered)


def _drop_allowed(found: list[_Span], text: str, is_allowed: Callable[[str], bool] | None) -> list[_Span]:
    """Return the spans that are neither allowed nor part of an allowed one."""
    if is_allowed is None:
        return found
    allowed = _merge_overlapping([span for span in found if is_allowed(text[span[0] : span[1]])])
    if not allowed:
        return found
    starts = [start for start, _, _ in allowed]
    return [span for span in found if (at := bisect_right(starts, span[0])) == 0 or allowed[at - 1][1] < span[1]]


def _merge_overlapping(spans: list[_Span]) -> list[_Span]:
    """Merge overlapping spans, so that no piece of a secret is left; the kind is that of the span found first."""
    merged: list[tuple[int, int, int, str]] = []
    for start, end, rank, kind in sorted((start, end, rank, kind) for rank, (start, end, kind) in enumerate(spans)):
        if merged and start < merged[-1][1]:
            before = merged.pop()
            merged.append((before[0], max(before[1], end), *min(before[2:], (rank, kind))))
        else:
            merged.append((start, end, rank, kind))
    return [(start, end, kind) for start, end, _, kind in merged]


def _map_to_original(found: list[_Span], replaced: list[_Span]) -> list[_Span]:
    """Convert spans of a text with replaced spans to positions in the original text."""
    starts, ends, shifts = [], [], [0]
    for start, end, kind in replaced:
        starts.append(start + shifts[-1])
        ends.append(starts[-1] + len(_placeholder(kind)))
        shifts.append(ends[-1] - end)
    return [
        (start - shifts[bisect_right(ends, start)], end - shifts[bisect_left(starts, end)], kind)
        for start, end, kind in found
    ]


def _replace_spans(text: str, spans: list[_Span], keep_lines: bool = False) -> str:
    pieces, done = [], 0
    for start, end, kind in spans:
        pieces += [text[done:start], _placeholder(kind), "\n" * text.count("\n", start, end) * keep_lines]
        done = end
    return "".join([*pieces, text[done:]])


def _placeholder(kind: str) -> str:
    return f"[redacted:{kind}]"


def _locate(text: str, spans: list[_Span]) -> Iterator[RedactedSecret]:
    line, newline, seen = 1, -1, 0
    for start, _, kind in spans:
        line += text.count("\n", seen, start)
        newline = max(newline, text.rfind("\n", seen, start))
        seen = start
        yield RedactedSecret(kind, line, start - newline)
