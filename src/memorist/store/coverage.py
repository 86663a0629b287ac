"""
Coverage: the share of a query's words that a text contains.

BM25 scores the words that are there; it does not say how many words of the query are missing.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memorist.text import tokenizer

_MAX_TOKENIZED_CHARACTERS = 20_000  # what follows them in a longer text is searched as it stands
_WINDOW_WORDS = 40  # words further apart in a long text were hardly said about one thing


@dataclass(frozen=True, slots=True)
class Atom:
    """The smallest unit of a keyword search: a word, a phrase, a prefix or a pair of characters."""

    text: str
    prefix: bool = False

    @property
    def expression(self) -> str:
        """The atom in the syntax of the full-text index."""
        return '"' + self.text.replace('"', '""') + '"' + "*" * self.prefix


def inverse_document_frequency(count: int, rows: int) -> float:
    """Return the weight of a word found in `count` of `rows` texts, in the form that is positive for every word."""
    return math.log(1 + (max(rows, count) - count + 0.5) / (count + 0.5))


@dataclass(frozen=True, slots=True)
class QueryWords:
    """An atom as the tokenizer sees it, and its weight. A literal one has to be in the text exactly as written."""

    text: str
    stems: tuple[str, ...]
    prefix: str | None
    literal: bool
    weight: float

    @classmethod
    def from_atom(cls, atom: Atom, weight: float, literals: Sequence[str]) -> "QueryWords":
        stems = tuple(tokenizer.list_stems(atom.text))
        text = tokenizer.fold(atom.text)
        literal = atom.text.lower() in literals
        if not atom.prefix or not stems:
            return cls(text, stems, None, literal, weight)
        return cls(text, stems[:-1], text.split()[-1], literal, weight)

    def is_in(self, stems: set[str]) -> bool:
        """Tell if a text with these stems contains it; the words of a phrase in any order."""
        if not stems.issuperset(self.stems):
            return False
        # A stem may be shorter than the prefix that was asked for.
        return self.prefix is None or any(
            stem.startswith(self.prefix) or (len(stem) > 2 and self.prefix.startswith(stem)) for stem in stems
        )


def measure_coverage(query: Sequence[QueryWords], text: str) -> float:
    """
    Return the share of a query, by weight, that a text contains.

    A long text contains many words by chance: of one, the share is that of its best window.
    """
    if not query:
        return 1.0
    stems = tokenizer.list_stems(text[:_MAX_TOKENIZED_CHARACTERS])
    distinct = set(stems)
    found = {words for words in query if not words.literal and words.is_in(distinct)}
    has_literals = any(words.literal for words in query)
    if len(found) < len(query) and (len(text) > _MAX_TOKENIZED_CHARACTERS or has_literals):
        folded = tokenizer.fold(text)
        found |= {words for words in query if words.text in folded}
    # The index matched the text, so it contains at least the lightest of them.
    least = 0.0 if has_literals else min(words.weight for words in query)
    long = len(stems) > _WINDOW_WORDS and len(found) > 1
    weight = _best_window_weight(found, stems) if long else sum(words.weight for words in found)
    return max(weight, least) / sum(words.weight for words in query)


def _best_window_weight(found: set[QueryWords], stems: Sequence[str]) -> float:
    """Return the largest weight of query words that one window of a text contains."""
    by_stem: dict[str, list[QueryWords]] = {}
    for words in found:
        for stem in words.stems:
            by_stem.setdefault(stem, []).append(words)
    places = [(place, words) for place, stem in enumerate(stems) for words in by_stem.get(stem, ())]
    # A prefix or a literal has no place among the stems, and counts in every window.
    everywhere = sum(words.weight for words in found.difference(words for _, words in places))
    inside: Counter[QueryWords] = Counter()
    best = total = 0.0
    left = 0
    for place, words in places:
        inside[words] += 1
        total += words.weight if inside[words] == 1 else 0.0
        while places[left][0] <= place - _WINDOW_WORDS:
            gone = places[left][1]
            inside[gone] -= 1
            total -= gone.weight if inside[gone] == 0 else 0.0
            left += 1
        best = max(best, total)
    return best + everywhere
