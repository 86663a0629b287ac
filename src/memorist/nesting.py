"""Values of JSON: limits on what comes in, measured without recursion, and stored texts cut at a depth."""

import re
from collections.abc import Iterable, Iterator, Mapping

from memorist.errors import InvalidInput

MAX_LEVELS = 64  # of metadata. Writers and readers of JSON recurse, and each of them gives up at a depth of its own
MAX_ENTRIES = 100_000  # keys and items
_CUT = '"…"'  # stands for what is deeper
_PIECE_CHARACTERS = 1 << 20
_BACKSLASHES = re.compile(r"\\*")
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


def count_values(text: str) -> tuple[int, int]:
    """
    Return how many objects and lists a text of JSON has, and how many values at most, without parsing it.

    For valid JSON, and for as much of any other text as a parser reads before it gives up.
    """
    containers, commas, within = 0, 0, False
    for piece in _split_between_escapes(text):
        found = _count_piece(piece, within)
        containers, commas, within = containers + found[0], commas + found[1], found[2]
    return containers, containers + commas + 1


def _split_between_escapes(text: str) -> Iterator[str]:
    """Yield a long text in pieces, so that other threads run in between; none begins within an escape sequence."""
    start = 0
    while start < len(text):
        end = start + _PIECE_CHARACTERS
        if text[end - 1 : end] == "\\" and (rest := _BACKSLASHES.match(text, end)):
            end = rest.end() + 1
        yield text[start:end]
        start = end


def _count_piece(piece: str, within: bool) -> tuple[int, int, bool]:
    """Count opening brackets and commas outside of strings; `within` tells if the piece begins, and ends, in one."""
    import numpy as np  # not needed by most of those who use this module

    plain = piece.encode("utf-8", "surrogatepass").replace(b"\\\\", b"").replace(b'\\"', b"")
    characters = np.frombuffer(plain, np.uint8)
    quotes = np.cumsum(characters == ord('"'), dtype=np.uint8)  # modulo 256, and so even or odd as they are
    outside = (quotes & 1) == within
    brackets = (characters == ord("[")) | (characters == ord("{"))
    ends_within = bool((quotes[-1] & 1) != within) if len(quotes) else within
    return (
        int(np.count_nonzero(brackets & outside)),
        int(np.count_nonzero((characters == ord(",")) & outside)),
        ends_within,
    )


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
