"""
The words of a query in a text: the share of them that it contains, and its score where no index holds it.

BM25 scores the words that are there; it does not say how many words of the query are missing: that is coverage.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from memorist.records import Match
from memorist.text import tokenizer

Number = TypeVar("Number", float, NDArray[np.float64])

INDEX_COLUMNS = ("content", "title", "tags", "source", "segments", "facts")  # of the full-text indexes
TEXT_COLUMNS = ("title", "tags", "source", "segments", "facts", "content")  # the same, as coverage reads them
K1, B = 1.2, 0.75  # of BM25, as in FTS5, whose order of operations is kept as well
LENGTH_SAMPLE = 1000  # of the newest texts, whose mean length stands for that of all where others are in the index
_LEAST_IDF = 1e-6  # of a word that is in more than half of all rows
_MAX_TOKENIZED_CHARACTERS = 20_000  # what follows them in a longer text is searched as it stands
WINDOW_WORDS = 40  # words further apart in a long text were hardly said about one thing


class QueryToken(Struct, frozen=True):
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


def bm25_idf(count: int, rows: int) -> float:
    """Return the weight that BM25 gives a phrase in `count` of `rows` texts, as FTS5 computes it."""
    return max(_LEAST_IDF, math.log((rows - count + 0.5) / (count + 0.5))) if count <= rows else _LEAST_IDF


def bm25_length(length: Number, mean: float) -> Number:
    """Return what the length of a text, or of each of several, in tokens, adds to a frequency that BM25 divides by."""
    return K1 * (1 - B + B * length / mean)


def bm25_frequency(frequency: Number, length: Number) -> Number:
    """Return what BM25 multiplies a weight with: of an array, the same to the last bit as of each of its numbers."""
    return frequency * (K1 + 1.0) / (frequency + length)


def weigh_columns(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of all columns. Pairs of characters, being derived, weigh like the content."""
    return {**weights, "segments": weights.get("content", 0.0)}


class QueryWords(Struct, frozen=True):
    """An atom as the tokenizer sees it, and its weight. A literal one has to be in the text exactly as written."""

    text: str
    stems: tuple[str, ...]
    prefix: str | None
    literal: bool
    weight: float

    @classmethod
    def from_atom(cls, atom: QueryToken, weight: float, literals: Sequence[str]) -> "QueryWords":
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
    if len(stems) > WINDOW_WORDS and len(found) > 1:
        by_stem: dict[str, list[int]] = {}
        for number, words in enumerate(found):
            for stem in words.stems:
                by_stem.setdefault(stem, []).append(number)
        places = [(place, number) for place, stem in enumerate(stems) for number in by_stem.get(stem, ())]
        weight = best_window_weight([words.weight for words in found], places)
    else:
        weight = sum(words.weight for words in found)
    return max(weight, least) / sum(words.weight for words in query)


def best_window_weight(weights: Sequence[float], places: Sequence[tuple[int, int]]) -> float:
    """
    Return the largest weight of query words that one window of a text contains.

    `weights` are those of the words that the text contains; `places` ascend, each with the number of its word.
    """
    placed = {number for _, number in places}
    # A prefix or a literal has no place among the stems, and counts in every window.
    everywhere = sum(weight for number, weight in enumerate(weights) if number not in placed)
    inside = [0] * len(weights)
    best = total = 0.0
    left = 0
    for place, number in places:
        inside[number] += 1
        total += weights[number] if inside[number] == 1 else 0.0
        while places[left][0] <= place - WINDOW_WORDS:
            gone = places[left][1]
            inside[gone] -= 1
            total -= weights[gone] if inside[gone] == 0 else 0.0
            left += 1
        best = max(best, total)
    return best + everywhere


class PastTerm(Struct, frozen=True):
    """A word or phrase of a query, as one of the indexes would hold it, and its inverse document frequency."""

    words: tuple[str, ...]
    prefix: str | None
    stemmed: bool
    idf: float

    @classmethod
    def from_atom(cls, atom: QueryToken, idf: float, *, stemmed: bool) -> "PastTerm":
        words = tokenizer.list_stems(atom.text) if stemmed else tokenizer.list_tokens(atom.text)
        if not atom.prefix or not words:
            return cls(tuple(words), None, stemmed, idf)
        return cls(tuple(words[:-1]), words[-1], stemmed, idf)

    def count_in(self, text: Sequence[str]) -> int:
        """Count its occurrences in a text."""
        length = len(self.words) + (self.prefix is not None)
        if not length:
            return 0
        return sum(
            tuple(text[at : at + len(self.words)]) == self.words
            and (self.prefix is None or text[at + len(self.words)].startswith(self.prefix))
            for at in range(len(text) - length + 1)
        )


class PastQuery(Struct, frozen=True):
    """
    A keyword query on texts that have changed since.

    `words` measure coverage. `raw` is an expression in the index's own syntax, in place of the terms. `stopwords` are
    so common that they only earn a last place; `part` is looked for inside words if nothing else is found.
    """

    terms: Sequence[PastTerm]
    words: Sequence[QueryWords]
    needs_all: bool
    raw: str | None = None
    stopwords: Sequence[PastTerm] = ()
    part: str | None = None
    raw_stemmed: bool = True


def index_columns(title: str | None, content: str, tags: str, source: str | None, facts: str | None) -> dict[str, str]:
    """Return the texts of a memory by the columns of the indexes."""
    segments = tokenizer.unspaced_bigrams(title, content, tags, facts)
    columns = {"title": title, "content": content, "tags": tags, "source": source, "segments": segments, "facts": facts}
    return {name: text for name, text in columns.items() if text}


def match_texts(texts: Mapping[int, Mapping[str, str]], query: PastQuery, weights: Mapping[str, float]) -> list[Match]:
    """Match texts by column, scored by BM25 without regard to length: only an index knows the mean length."""
    found = [match for rid, text in texts.items() if (match := _match(rid, text, query, weights)) is not None]
    if not found and query.part:
        part = tokenizer.fold(query.part)
        found = [Match(rid, 1e-6) for rid, text in texts.items() if part in tokenizer.fold(text["content"])]
    return found


def _match(rid: int, texts: Mapping[str, str], query: PastQuery, weights: Mapping[str, float]) -> Match | None:
    tokens = {True: {name: tokenizer.list_stems(text) for name, text in texts.items()}}  # stemmed -> column -> tokens
    if not all(term.stemmed for term in (*query.terms, *query.stopwords)):
        tokens[False] = {name: tokenizer.list_tokens(text) for name, text in texts.items()}
    score, found = 0.0, 0
    for term in query.terms:
        counts = {name: term.count_in(column) for name, column in tokens[term.stemmed].items()}
        found += any(counts.values())
        weighted = sum(weights.get(name, 0.0) * count for name, count in counts.items())
        score += term.idf * bm25_frequency(weighted, K1)
    has_all = found == len(query.terms)
    if has_all or (found and not query.needs_all) or query.raw is not None:
        return Match(rid, max(score, 1e-9), has_all, measure_coverage(query.words, " ".join(texts.values())))
    stopwords = any(term.count_in(column) for term in query.stopwords for column in tokens[term.stemmed].values())
    return Match(rid, 0.0, coverage=0.0) if stopwords else None
