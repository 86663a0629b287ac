"""
How much of a question a text holds.

BM25 says how well the words that are there fit; it does not say how many of those asked for are missing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.store import words

CUT_INTO_WORDS = 20_000  # characters; what a longer memory goes on with is searched as it stands


@dataclass(frozen=True, slots=True)
class Atom:
    """The smallest thing looked for: a word, a phrase, a beginning, a pair of characters. In FTS5's syntax."""

    text: str
    prefix: bool = False

    @property
    def sql(self) -> str:
        return '"' + self.text.replace('"', '""') + '"' + "*" * self.prefix


def worth(count: int, rows: int) -> float:
    """How much a word tells: inverse document frequency, in the form that is positive for every word."""
    return math.log(1 + (max(rows, count) - count + 0.5) / (count + 0.5))


@dataclass(frozen=True, slots=True)
class Asked:
    """An atom as the tokenizer sees it, and how much it tells. A literal one has to stand in the text as written."""

    text: str
    stems: tuple[str, ...]
    beginning: str | None
    literal: bool
    worth: float

    @classmethod
    def of(cls, atom: Atom, worth: float, literals: Sequence[str]) -> "Asked":
        stems = tuple(words.stems(atom.text))
        text = words.folded(atom.text)
        literal = atom.text.lower() in literals
        if not atom.prefix or not stems:
            return cls(text, stems, None, literal, worth)
        return cls(text, stems[:-1], text.split()[-1], literal, worth)

    def stands_in(self, stems: set[str]) -> bool:
        """Whether a text with these stems has it; a phrase in any order."""
        if not stems.issuperset(self.stems):
            return False
        # A stem may be shorter than the beginning that was asked for.
        return self.beginning is None or any(
            stem.startswith(self.beginning) or (len(stem) > 2 and self.beginning.startswith(stem)) for stem in stems
        )


def coverage(asked: Sequence[Asked], text: str) -> float:
    """Which share of what was asked for a text has. BM25 alone prefers one rare word twice to all words once."""
    if not asked:
        return 1.0
    stems = set(words.stems(text[:CUT_INTO_WORDS]))
    held = {each for each in asked if not each.literal and each.stands_in(stems)}
    if len(held) < len(asked) and (len(text) > CUT_INTO_WORDS or any(each.literal for each in asked)):
        whole = words.folded(text)
        held |= {each for each in asked if each.text in whole}
    # The index found something in it, so it holds at least the least of them.
    least = 0.0 if any(each.literal for each in asked) else min(each.worth for each in asked)
    return max(sum(each.worth for each in held), least) / sum(each.worth for each in asked)
