"""
How much of a question a text holds.

BM25 says how well the words that are there fit; it does not say how many of those asked for are missing.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memorist.text import tokenizer

CUT_INTO_WORDS = 20_000  # characters; what a longer memory goes on with is searched as it stands
TOGETHER = 40  # words; what stands further apart in a long text was hardly said of one thing


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
class QueryWords:
    """An atom as the tokenizer sees it, and how much it tells. A literal one has to stand in the text as written."""

    text: str
    stems: tuple[str, ...]
    beginning: str | None
    literal: bool
    worth: float

    @classmethod
    def of(cls, atom: Atom, worth: float, literals: Sequence[str]) -> "QueryWords":
        stems = tuple(tokenizer.list_stems(atom.text))
        text = tokenizer.fold(atom.text)
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


def coverage(asked: Sequence[QueryWords], text: str) -> float:
    """
    Which share of what was asked for a text has. BM25 alone prefers one rare word twice to all words once.

    A long text has many words by chance: of one, it is the share that stands together somewhere.
    """
    if not asked:
        return 1.0
    stems = tokenizer.list_stems(text[:CUT_INTO_WORDS])
    present = set(stems)
    held = {each for each in asked if not each.literal and each.stands_in(present)}
    if len(held) < len(asked) and (len(text) > CUT_INTO_WORDS or any(each.literal for each in asked)):
        whole = tokenizer.fold(text)
        held |= {each for each in asked if each.text in whole}
    # The index found something in it, so it holds at least the least of them.
    least = 0.0 if any(each.literal for each in asked) else min(each.worth for each in asked)
    had = _together(held, stems) if len(stems) > TOGETHER and len(held) > 1 else sum(each.worth for each in held)
    return max(had, least) / sum(each.worth for each in asked)


def _together(held: set[QueryWords], stems: Sequence[str]) -> float:
    """What the best stretch of a text has of what the text has, in worth."""
    by_stem: dict[str, list[QueryWords]] = {}
    for each in held:
        for stem in each.stems:
            by_stem.setdefault(stem, []).append(each)
    placed = [(place, each) for place, stem in enumerate(stems) for each in by_stem.get(stem, ())]
    # What has no place among the words, a beginning or a literal, is taken to stand everywhere.
    everywhere = sum(each.worth for each in held.difference(each for _, each in placed))
    inside: Counter[QueryWords] = Counter()
    best = total = 0.0
    left = 0
    for place, each in placed:
        inside[each] += 1
        total += each.worth if inside[each] == 1 else 0.0
        while placed[left][0] <= place - TOGETHER:
            gone = placed[left][1]
            inside[gone] -= 1
            total -= gone.worth if inside[gone] == 0 else 0.0
            left += 1
        best = max(best, total)
    return best + everywhere
