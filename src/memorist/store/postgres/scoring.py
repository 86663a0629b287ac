"""BM25 of rows whose tokens a search has read."""

from collections.abc import Sequence

from memorist.store.postgres.text_index import Columns, Phrase, quote_token, read_positions
from memorist.store.word_matching import bm25_frequency, bm25_length


class Scorer:
    """Scores rows of one index by phrases with their weights, and tells which rows have all of the required phrases."""

    def __init__(
        self,
        phrases: Sequence[tuple[Phrase, float]],
        required: Sequence[Phrase],
        weights: Sequence[float],
        mean_length: float,
    ) -> None:
        self._weights = weights
        self._mean_length = mean_length
        self._idfs: dict[str, float] = {}  # of words, by the token as PostgreSQL writes it
        for phrase, idf in phrases:
            if phrase.is_word:
                token = quote_token(phrase.tokens[0])
                self._idfs[token] = self._idfs.get(token, 0.0) + idf
        self._phrases = [(phrase, idf) for phrase, idf in phrases if not phrase.is_word]
        self._required_words = {quote_token(phrase.tokens[0]) for phrase in required if phrase.is_word}
        self._required_phrases = {phrase for phrase in required if not phrase.is_word}
        self._reads_positions = bool(self._phrases or self._required_phrases)

    def score(self, found: str, length: int, columns: Columns) -> tuple[float, bool] | None:
        """
        Return the score of a row and whether it has all that is required; None if it has none of the phrases.

        `found` are the tokens of the query that it has, as PostgreSQL writes a tsvector.
        """
        if not found:
            return None
        norm = bm25_length(float(length), self._mean_length)
        # Most rows have one column, and of that only the number of places matters.
        weight = self._weights[columns[0][0]] if len(columns) == 1 else None
        value, has_any, places_of = 0.0, False, {}
        for entry in found.split(" "):
            token, _, places = entry.rpartition(":")
            places_of[token] = places
            idf = self._idfs.get(token)
            if idf is not None:
                has_any = True
                if weight is not None:
                    frequency = weight * (places.count(",") + 1)
                else:
                    frequency = self._weigh(read_positions(places), columns)
                value += idf * bm25_frequency(frequency, norm)
        has_all = self._required_words.issubset(places_of)
        if not self._reads_positions:
            return (value, has_all) if has_any else None
        positions = {token[1:-1]: places for token, places in places_of.items()}
        for phrase, idf in self._phrases:
            if at := phrase.find(positions):
                has_any = True
                frequency = self._weigh(at, columns)
                value += idf * bm25_frequency(frequency, norm)
        has_all = has_all and all(phrase.find(positions) for phrase in self._required_phrases)
        return (value, has_all) if has_any else None

    def _weigh(self, places: Sequence[int], columns: Columns) -> float:
        """Return the weights of the columns that the places are in, added up."""
        total = 0.0
        for place in places:
            for number, start in reversed(columns):
                if place >= start:
                    total += self._weights[number]
                    break
        return total
