"""
Exceptions from redaction: texts, and patterns written as /regex/.

A pattern is run as an automaton that reads each character once. Python's own `re` goes back and tries again: a pattern
such as `(\\w+)+$` would keep it busy for minutes, and no other thread could run until it is done.
"""

import re
from collections.abc import Callable, Collection
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from memorist.errors import InvalidInput


def is_pattern(allowance: str) -> bool:
    return len(allowance) > 2 and allowance[0] == allowance[-1] == "/"


def compile_allowances(allow: Collection[str]) -> Callable[[str], bool]:
    """Return a function that tells whether the user allows a secret."""
    literals = [text for text in allow if text and not is_pattern(text)]
    patterns = [_compile_pattern(text[1:-1]) for text in allow if is_pattern(text)]
    return lambda secret: any(text in secret for text in literals) or any(matches(secret) for matches in patterns)


@lru_cache(maxsize=100)
def _compile_pattern(pattern: str) -> Callable[[str], bool]:
    try:
        re.compile(pattern)
        return _Automaton(pattern).search
    except RecursionError as exc:
        raise InvalidInput(f"the pattern /{pattern:.80}/ of allowed secrets has too many groups within groups") from exc
    except (re.error, OverflowError, ValueError) as exc:
        raise InvalidInput(f"a pattern of allowed secrets is not a regular expression: {exc}") from exc


_Takes = Callable[[str], object]
_MAX_STATES = 1_000
_MAX_REMEMBERED_STEPS = 10_000
_MAX_SECRET_CHARACTERS = 10_000  # a longer one matches no pattern
_PIECE = re.compile(
    r"(?P<group>\((?:\?:)?(?!\?))|(?P<anchor>[$^])"
    r"|(?P<one>\\[^0-9A-Za-z]|\\[dDsSwWnrtfv]|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\()|$^*+?\[])",
    re.DOTALL,
)
_REPETITION = re.compile(r"(?:(?P<sign>[*+?])|\{(?P<least>[0-9]*)(?P<to>,?)(?P<most>[0-9]*)(?<=[0-9,])\})\??")


class _PatternNode(Struct, frozen=True):
    """A part of a pattern: a character or an anchor, or else a choice of sequences; and how often it is there."""

    takes: _Takes | None
    choices: "tuple[tuple[_PatternNode, ...], ...]" = ()
    least: int = 1
    most: int | None = 1


class _PatternParser:
    """Reads a pattern that `re` has compiled, so its brackets are in pairs."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._at = pattern, 0

    def parse(self) -> _PatternNode:
        choices = [self._parse_sequence()]
        while self._pattern.startswith("|", self._at):
            self._at += 1
            choices.append(self._parse_sequence())
        return _PatternNode(None, tuple(choices))

    def _parse_sequence(self) -> tuple[_PatternNode, ...]:
        pieces = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            piece = self._parse_piece()
            if repetition := _REPETITION.match(self._pattern, self._at):
                self._at = repetition.end()
                least, most = _read_repetition(repetition)
                piece = replace(piece, least=least, most=most)
            pieces.append(piece)
        return tuple(pieces)

    def _parse_piece(self) -> _PatternNode:
        found = _PIECE.match(self._pattern, self._at)
        if found is None:
            raise InvalidInput(
                f"the pattern /{self._pattern:.80}/ of allowed secrets has something that is not supported, at "
                f"{self._pattern[self._at :][:20]!r}: use characters, [classes], \\d \\s \\w, groups, |, ^, $, and "
                "the repetitions * + ? {n,m}"
            )
        self._at = found.end()
        if found["group"]:
            piece = self.parse()
            self._at += 1
            return piece
        if found["anchor"]:
            return _PatternNode(_at_start if found[0] == "^" else _at_end)
        return _PatternNode(re.compile(found[0]).match)


def _read_repetition(found: re.Match[str]) -> tuple[int, int | None]:
    if found["sign"]:
        return int(found["sign"] == "+"), 1 if found["sign"] == "?" else None
    least = int(found["least"] or 0)
    return least, int(found["most"]) if found["most"] else None if found["to"] else least


def _at_start(_: str) -> bool:
    return False  # an anchor takes no character


def _at_end(_: str) -> bool:
    return False


class _Automaton:
    """A nondeterministic automaton (Thompson's construction): a set of states moves along the text, once."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._states: list[tuple[_Takes | None, tuple[int, ...]]] = []  # what each takes, and those that follow it
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._last = self._add(None)
        self._first = self._build(_PatternParser(pattern).parse(), self._last)

    def _add(self, takes: _Takes | None, *following: int) -> int:
        if len(self._states) >= _MAX_STATES:
            raise InvalidInput(
                f"the pattern /{self._pattern:.80}/ of allowed secrets repeats too much: with all repetitions, at most "
                f"{_MAX_STATES:,} characters fit"
            )
        self._states.append((takes, following))
        return len(self._states) - 1

    def _build(self, piece: _PatternNode, following: int) -> int:
        """Add the states of a piece, with all its repetitions, and return the first of them."""
        if piece.most is None:
            again = self._add(None)
            self._states[again] = (None, (self._build_once(piece, again), following))
            following = again
        for _ in range(0 if piece.most is None else piece.most - piece.least):
            following = self._add(None, self._build_once(piece, following), following)
        for _ in range(piece.least):
            following = self._build_once(piece, following)
        return following

    def _build_once(self, piece: _PatternNode, following: int) -> int:
        if piece.takes is not None:
            return self._add(piece.takes, following)
        starts = []
        for sequence in piece.choices:
            start = following
            for one in reversed(sequence):
                start = self._build(one, start)
            starts.append(start)
        return self._add(None, *starts)

    def search(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in a text."""
        if len(text) > _MAX_SECRET_CHARACTERS:
            return False
        states = self._follow({self._first}, at_start=True, at_end=not text)
        for at, character in enumerate(text, 1):
            if self._last in states:
                return True
            states = self._step(states, character, at_end=at == len(text))
        return self._last in states

    def _step(self, states: frozenset[int], character: str, *, at_end: bool) -> frozenset[int]:
        """Return the states after a character. Steps are remembered, so most of them are one look into a mapping."""
        if not at_end and (known := self._steps.get((states, character))) is not None:
            return known
        moved = {self._first}  # a match may begin anywhere
        for state in states:
            takes, following = self._states[state]
            if takes is not None and takes(character):
                moved.update(following)
        after = self._follow(moved, at_start=False, at_end=at_end)
        if not at_end and len(self._steps) < _MAX_REMEMBERED_STEPS:
            self._steps[states, character] = after
        return after

    def _follow(self, states: set[int], *, at_start: bool, at_end: bool) -> frozenset[int]:
        """Return these states and all that follow them without a character."""
        waiting = list(states)
        while waiting:
            takes, following = self._states[waiting.pop()]
            if takes is None or (takes is _at_start and at_start) or (takes is _at_end and at_end):
                new = [state for state in following if state not in states]
                states.update(new)
                waiting += new
        return frozenset(states)
