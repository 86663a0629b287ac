"""BM25 of rows whose tokens a search has read: the formula of FTS5's bm25(), with its constants."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memorist.store.postgres.text_index import Phrase, Positions
from memorist.store.word_matching import K1

_B = 0.75  # as in FTS5, like K1
_LEAST_IDF = 1e-6  # of a word that is in more than half of all rows

Columns = Sequence[tuple[int, int]]


def bm25_idf(count: int, rows: int) -> float:
    """Return the weight of a phrase that is in `count` of `rows` memories."""
    return max(_LEAST_IDF, math.log((rows - count + 0.5) / (count + 0.5))) if count <= rows else _LEAST_IDF


@dataclass(slots=True)
class Score:
    """The score of a row by one index, and whether it has every phrase that was asked for."""

    value: float
    has_all: bool


class Scorer:
    """Scores rows of one index by phrases with their weights, and tells which rows have all of the required phrases."""

    def __init__(
        self,
        phrases: Sequence[tuple[Phrase, float]],
        required: Sequence[Phrase],
        weights: Sequence[float],
        mean_length: float,
    ) -> None:
        self._phrases = phrases
        self._weights = weights
        self._mean_length = mean_length
        # Of words alone, a token is a phrase, and need not be looked for.
        self._is_plain = all(phrase.is_word for phrase, _ in phrases)
        self._idfs = {phrase.tokens[0]: idf for phrase, idf in phrases} if self._is_plain else {}
        scored = {phrase for phrase, _ in phrases}
        self._required = list(dict.fromkeys(required))
        self._is_scored = self._is_plain and scored.issuperset(self._required)

    def score(self, positions: Positions, length: int, columns: Columns) -> Score | None:
        """Return the score of a row; None if it has none of the phrases."""
        norm = K1 * (1 - _B + _B * length / self._mean_length)
        if self._is_plain and len(self._idfs) == len(self._phrases):
            return self._score_words(positions, norm, columns)
        value, found = 0.0, False
        for phrase, idf in self._phrases:
            places = phrase.find(positions)
            if places:
                found = True
                weight = self._weigh(places, columns)
                value += idf * ((weight * (K1 + 1.0)) / (weight + norm))
        if not found:
            return None
        return Score(value, all(phrase.find(positions) for phrase in self._required))

    def _score_words(self, positions: Positions, norm: float, columns: Columns) -> Score | None:
        value, found = 0.0, 0
        for token, idf in self._idfs.items():
            places = positions.get(token)
            if places:
                found += 1
                weight = self._weigh(places, columns)
                value += idf * ((weight * (K1 + 1.0)) / (weight + norm))
        if not found:
            return None
        if self._is_scored and len(self._required) == len(self._idfs):
            return Score(value, found == len(self._idfs))
        return Score(value, all(phrase.find(positions) for phrase in self._required))

    def _weigh(self, places: Sequence[int], columns: Columns) -> float:
        """Return the weights of the columns that the places are in, added up."""
        if len(columns) == 1:
            return self._weights[columns[0][0]] * len(places)
        total = 0.0
        for place in places:
            for number, start in reversed(columns):
                if place >= start:
                    total += self._weights[number]
                    break
        return total


def list_weights(weights: Mapping[str, float], columns: Sequence[str]) -> list[float]:
    """Return the weights of columns in their order. Pairs of characters, being derived, weigh like the content."""
    by_name = {**weights, "segments": weights.get("content", 0.0)}
    return [by_name.get(column, 0.0) for column in columns]
