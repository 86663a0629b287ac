"""
Near duplicates: texts that share most of their words.

100,000 texts have five billion pairs. But two texts that share most of their words share one of their rarest, so only
texts with a rare word in common are compared: the prefix filter of set-similarity joins (Chaudhuri, Ganti and Kaushik,
ICDE 2006; Bayardo, Ma and Srikant, WWW 2007). A pair that it leaves out is below the threshold, so the result is exact.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import islice

from memorist.errors import InvalidInput
from memorist.text.tokenizer import list_stems, unspaced_bigrams

DUPLICATE_THRESHOLD = 0.8  # the share of words in common from which two texts say almost the same
_SIGNATURE_BITS = 128  # tells most texts apart without comparing their words
LARGE_GROUP = 32  # texts; from here on it pays to skip a whole group at once
_SLACK = 1e-9  # for floating point, in which 0.07 * 100 is a little more than 7


def word_set(text: str) -> frozenset[str]:
    """Return the stems of a text; of scripts that put no space between words, pairs of characters."""
    return frozenset(list_stems(f"{text} {unspaced_bigrams(text) or ''}"))


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the share of two texts' words that are in both (Jaccard); 0 for texts without words."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def find_near_duplicates(
    texts: Iterable[tuple[int, frozenset[str]]], threshold: float = DUPLICATE_THRESHOLD
) -> list[tuple[int, ...]]:
    """
    Return groups of keys whose texts resemble each other, directly or through others of the group.

    Groups are ordered by their first keys, and so are the keys within each.
    """
    if not 0 < threshold <= 1:
        raise InvalidInput(f"a threshold of resemblance lies above 0 and is at most 1, not {threshold}")
    keys: defaultdict[frozenset[str], list[int]] = defaultdict(list)
    for key, text in texts:
        if text:
            keys[text].append(key)
    distinct = sorted(keys, key=len)
    counts = Counter(word for text in distinct for word in text)
    rarity = {word: place for place, word in enumerate(sorted(counts, key=lambda word: (counts[word], word)))}
    join = _SimilarityJoin(threshold)
    for text in distinct:
        join.add(text, sorted(rarity[word] for word in text))
    found: defaultdict[int, list[int]] = defaultdict(list)
    for place, text in enumerate(distinct):
        found[join.root(place)] += keys[text]
    return sorted(tuple(sorted(group)) for group in found.values() if len(group) > 1)


class _Posting:
    """The texts that have a rare word: those of large groups by the group's root, and the rest."""

    __slots__ = ("large", "rest")

    def __init__(self) -> None:
        self.large: dict[int, list[int]] = {}
        self.rest: list[int] = []


class _SimilarityJoin:
    """
    Groups of similar texts, which are added one by one, the shortest first.

    A text is not compared with others of a group it has joined, so ten thousand equal texts do not cost fifty million
    comparisons.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._texts: list[frozenset[str]] = []
        self._lengths: list[int] = []
        self._signatures: list[int] = []
        self._parents: list[int] = []
        self._sizes: list[int] = []  # of the group of a root
        self._postings: defaultdict[int, _Posting] = defaultdict(_Posting)

    def root(self, place: int) -> int:
        """Return the number that stands for the group of a text."""
        parents = self._parents
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    def add(self, text: frozenset[str], rare_first: list[int]) -> None:
        """Add one more text, with its words numbered by rarity."""
        place, size, share = len(self._texts), len(text), self._threshold
        self._texts.append(text)
        self._lengths.append(size)
        self._parents.append(place)
        self._sizes.append(1)
        self._signatures.append(_signature(rare_first))
        least = math.ceil(share * size - _SLACK)  # words that a similar text shares with it
        shortest = bisect_left(self._lengths, least)
        for before, word in enumerate(rare_first[: size - least + 1]):
            if word in self._postings:
                # If this is the first shared word, a longer text would share too few others.
                longest = int((size - before) * (1 + share) / share - size + _SLACK)
                self._compare(place, self._postings[word], shortest, bisect_right(self._lengths, longest))
        root = self.root(place)
        # Later texts are no shorter, so they must share more of this one.
        least = math.ceil(2 * share / (1 + share) * size - _SLACK)
        for word in rare_first[: size - least + 1]:
            posting = self._postings[word]
            places = posting.large.setdefault(root, []) if self._sizes[root] >= LARGE_GROUP else posting.rest
            places.append(place)

    def _compare(self, place: int, posting: _Posting, start: int, end: int) -> None:
        """Unite a text with similar ones of a posting; numbers out of bounds have the wrong length."""
        signatures, signature, share = self._signatures, self._signatures[place], self._threshold
        # At most so many words are in one text only. Each accounts for one differing bit, or none.
        most = int(2 * self._lengths[place] * (1 - share) / (1 + share) + _SLACK)
        rest = posting.rest
        fitting = islice(rest, bisect_left(rest, start), bisect_left(rest, end))
        for other in [other for other in fitting if (signature ^ signatures[other]).bit_count() <= most]:
            if self.root(other) != self.root(place) and self._is_similar(place, other):
                self._union(place, other)
        self._merge_large_groups(posting)
        for root, members in posting.large.items():
            if self.root(root) == self.root(place):
                continue
            for other in islice(members, bisect_left(members, start), bisect_left(members, end)):
                if (signature ^ signatures[other]).bit_count() <= most and self._is_similar(place, other):
                    self._union(place, other)
                    break

    def _is_similar(self, place: int, other: int) -> bool:
        return jaccard(self._texts[place], self._texts[other]) >= self._threshold

    def _union(self, place: int, other: int) -> None:
        small, large = sorted((self.root(place), self.root(other)), key=self._sizes.__getitem__)
        self._parents[small] = large
        self._sizes[large] += self._sizes[small]

    def _merge_large_groups(self, posting: _Posting) -> None:
        """Merge groups of a posting that have become one since."""
        for root in [root for root in posting.large if self._parents[root] != root]:
            members = posting.large.pop(root) + posting.large.get(self.root(root), [])
            posting.large[self.root(root)] = sorted(members)


def _signature(words: list[int]) -> int:
    """Return a set of words as bits, for a first comparison."""
    return sum(1 << bit for bit in {word % _SIGNATURE_BITS for word in words})
