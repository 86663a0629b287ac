"""
Spelling: known words within a few typos of a misspelt one.

The letters of each word, as a bit set, rule out almost all of them at once; edit distances are computed for the rest
together.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_LETTER_BITS = 37  # the remainder tells apart all of a-z and, but for the 0, all digits


def max_typos(word: str) -> int:
    """Return how many typos a word of this length may have: in a short one, two make another word."""
    return 1 if len(word) < 8 else 2


class Lexicon:
    """A list of words that can be searched by edit distance."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._words = words
        self._lengths = np.fromiter(map(len, words), np.int32, len(words))
        self._letters = np.zeros(0, np.uint64)
        if words:
            starts = np.cumsum(self._lengths) - self._lengths
            self._letters = np.bitwise_or.reduceat(_letter_bits("".join(words)), starts)

    def find_near(self, word: str, most: int) -> dict[str, int]:
        """
        Return the words within 1 to `most` typos of this one, with the number of typos: a letter wrong, missing or too
        many, or two adjacent ones swapped. Digits must be equal: another number names another thing.
        """
        places = np.flatnonzero(np.abs(self._lengths - len(word)) <= most)
        differing = self._letters[places] ^ np.bitwise_or.reduce(_letter_bits(word))
        for _ in range(2 * most):  # a typo adds one letter to the set and removes one, at most
            differing &= differing - np.uint64(1)  # clears the lowest bit
        digits = _digits(word)
        fitting = [self._words[place] for place in places[differing == 0]]
        fitting = [other for other in fitting if _digits(other) == digits]
        found = zip(fitting, edit_distances(word, fitting), strict=True)
        return {other: distance for other, distance in found if 0 < distance <= most}


def edit_distances(word: str, others: Sequence[str]) -> list[int]:
    """
    Return the number of typos between a word and each of the others.

    The Damerau-Levenshtein distance in which no letter takes part in two edits ("optimal string alignment"), one row of
    its table at a time, for all words side by side.
    """
    if not others:
        return []
    letters = np.array(others).view(np.uint32).reshape(len(others), -1)
    steps = np.arange(letters.shape[1] + 1, dtype=np.int16)
    before, last = np.tile(steps, (len(others), 1)), np.tile(steps, (len(others), 1))
    same_before = np.zeros(letters.shape, np.bool_)
    for number, letter in enumerate(word, 1):
        same = letters == ord(letter)
        row = last + np.int16(1)  # a letter too many
        row[:, 1:] = np.minimum(row[:, 1:], last[:, :-1] + ~same)  # the right one, or a wrong one
        if number > 1:
            swapped = same[:, :-1] & same_before[:, 1:]
            row[:, 2:] = np.where(swapped, np.minimum(row[:, 2:], before[:, :-2] + 1), row[:, 2:])
        row = np.minimum.accumulate(row - steps, axis=1) + steps  # letters missing
        before, last, same_before = last, row, same
    ends = np.array([len(other) for other in others])
    return [int(distance) for distance in last[np.arange(len(others)), ends]]


def _letter_bits(text: str) -> NDArray[np.uint64]:
    """Return one bit a character."""
    characters = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)
    return np.uint64(1) << (characters % _LETTER_BITS).astype(np.uint64)


def _digits(word: str) -> str:
    return "".join(character for character in word if character.isdigit())
