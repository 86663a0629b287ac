"""
The keyword leg on the image of a namespace: the rows, scores and coverage that the database would give, bit by bit.

Words and phrases are answered here. Prefixes, unstemmed words, symbols such as the ++ of C++, and expressions in the
syntax of FTS5 are left to the database.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from memorist.records import Query
from memorist.store.image import Image, Population
from memorist.store.inverted_index import PLACE_BITS, Postings, Rows
from memorist.store.key_set import Keys
from memorist.store.keyword_search import MIN_PRUNED, STEMS, KeywordSearch
from memorist.store.records import KeywordMatches, Matches, Scope
from memorist.store.word_matching import (
    INDEX_COLUMNS,
    TEXT_COLUMNS,
    WINDOW_WORDS,
    QueryToken,
    QueryWords,
    best_window_weight,
    bm25_frequency,
    bm25_idf,
    bm25_length,
    measure_coverage,
    weigh_columns,
)
from memorist.text import tokenizer

INDEXED_TEXT = f"concat_ws(' ', {', '.join(f'm.{name}' for name in TEXT_COLUMNS)})"

_MAX_PLACED_WORDS = 1000  # of a text; `measure_coverage` looks at the beginning of a longer one in its own way
_UNSORTED_FACTOR = 4  # how many times the wanted rows are sorted without leaving out the lowest first
_PLACE_MASK = (1 << PLACE_BITS) - 1
_TEXT_ORDER = [INDEX_COLUMNS.index(name) for name in TEXT_COLUMNS]

Scores = NDArray[np.float64]
Flags = NDArray[np.bool_]
ReadTexts = Callable[[Keys], Iterable[tuple[int, str]]]  # the keys and texts of some memories


def can_rank(search: KeywordSearch) -> bool:
    """Tell if an inverted index of stems has all that a search looks for."""
    expressions = [*search.expressions, *search.stopwords]
    return (
        len(search.expressions) == 1
        and not search.literals
        and all(each.index == STEMS for each in expressions)
        and not any(atom.prefix for each in expressions for atom in (*each.atoms, *each.required))
    )


def match_in_memory(
    query: Query,
    scope: Scope,
    namespace: str,
    limit: int,
    page: int,
    weights: Mapping[str, float],
    read_texts: ReadTexts,
) -> KeywordMatches | None:
    """Do what the index of a database does with the image of a scope; None if only the database can."""
    search = KeywordSearch.from_query(query, scope, namespace)
    if query.raw is not None or not can_rank(search):
        return None
    ranking = WordRanking.plan(search, scope, namespace, weigh_columns(weights), read_texts)
    answer = ranking.run(limit, min(limit, max(page, MIN_PRUNED))) if ranking else None
    if answer is None:
        return None
    found, all_keys = answer
    return KeywordMatches(found, search.list_unknown(), None if all_keys is None else all_keys.tolist(), True)


class _Ranked(NamedTuple):
    """Rows, best first, their BM25, and whether they have all words."""

    rows: Rows
    scores: Scores
    has_all: Flags

    def take(self, places: Any) -> "_Ranked":
        return _Ranked(*(array[places] for array in self))

    def followed_by(self, other: "_Ranked") -> "_Ranked":
        """Return these rows, and behind them those of others that are not among them."""
        other = other.take(~np.isin(other.rows, self.rows))
        return _Ranked(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.has_all, other.has_all]),
        )


Located = tuple[NDArray[np.intp], NDArray[np.uint16]]  # the numbers of rows among some, and the places there


class _Occurrences(Struct, frozen=True):
    """The occurrences of words in some ascending rows."""

    rows: Rows
    located: dict[tuple[str, ...], Located] = field(default_factory=dict)

    def restrict(self, words: tuple[str, ...], numbers: NDArray[np.intp]) -> Located:
        """Return those in the rows with these ascending numbers, renumbered."""
        number_of = np.full(len(self.rows), -1)
        number_of[numbers] = np.arange(len(numbers))
        owners, places = self.located[words]
        owners = number_of[owners]
        chosen = owners >= 0
        return owners[chosen], places[chosen]


class WordRanking(Struct):
    """A keyword search on the inverted index."""

    image: Image
    search: KeywordSearch
    allowed: Flags | None  # the rows that may be found; None for all of them
    weights: Scores  # of the columns
    population: Population  # whose numbers count
    read_texts: ReadTexts
    _found: dict[tuple[str, ...], Postings] = field(default_factory=dict)
    _rows: dict[QueryToken, Rows] = field(default_factory=dict)
    _occurrences: _Occurrences | None = None  # in the rows that were scored last

    @classmethod
    def plan(
        cls, search: KeywordSearch, scope: Scope, namespace: str, weights: Mapping[str, float], read_texts: ReadTexts
    ) -> "WordRanking | None":
        """Weight the words of a search and choose the rows worth scoring; None if only the database can answer it."""
        image = scope.image
        assert image is not None
        columns = np.array([weights.get(column, 0.0) for column in INDEX_COLUMNS])
        population = image.find_population(namespace, scope.filter.project[0] if search.restricted else None)
        allowed = image.list_own(namespace) if scope.passing is None and image.has_files else scope.passing
        ranking = cls(image, search, allowed, columns, population, read_texts)
        atoms = search.expressions[0].atoms
        if image.index.has_long and any(len(_stems(atom)) > 1 for atom in (*atoms, *search.expressions[0].required)):
            return None
        search.counts_files = image.has_files and not search.restricted and not image.counts_apart
        search.weigh(population.count, {atom: image.count_rows(_stems(atom), population) for atom in atoms})
        return ranking

    def run(self, limit: int, min_found: int) -> tuple[Matches, Keys | None] | None:
        """
        Return the matches, best first, and all keys with a word if they are known.

        None if the words have to be looked for inside of others.
        """
        search = self.search
        found = self._rank(self._list_candidates(pruned=True), None if search.is_narrow else limit)
        if search.substring is not None and not len(found.rows):
            return None
        all_keys = self.image.index.keys[found.rows] if search.is_narrow and len(found.rows) else None
        if len(found.rows) < min_found:
            if search.pruning is not None:
                found = found.followed_by(self._rank(self._list_candidates(pruned=False), limit))
            if search.stopwords:
                found = found.followed_by(self._list_with_stopwords(min_found))
        return self._to_matches(found.take(slice(limit))), all_keys

    def _find(self, stems: tuple[str, ...]) -> Postings:
        if stems not in self._found:
            self._found[stems] = self.image.index.find(stems)
        return self._found[stems]

    def _rows_of(self, atom: QueryToken) -> Rows:
        if atom not in self._rows:
            self._rows[atom] = self._find(_stems(atom)).distinct_rows
        return self._rows[atom]

    def _list_candidates(self, *, pruned: bool) -> Rows:
        """Return the rows to be scored, as far as they may be found."""
        search, expression = self.search, self.search.expressions[0]
        if pruned and search.is_narrow and self.allowed is not None:
            return np.flatnonzero(self.allowed).astype(np.int32)
        if pruned and search.pruning is not None:
            groups = [[self._rows_of(atom) for atom in atoms] for atoms in search.pruning]
        elif search.needs_all:
            groups = [[self._rows_of(atom) for atom in expression.required]]
        else:
            groups = [[self._rows_of(atom)] for atom in expression.atoms]
        return self._restrict(self.image.index.mark(groups))

    def _restrict(self, rows: Rows) -> Rows:
        """Return those of some rows that may be found."""
        return rows if self.allowed is None else rows[self.allowed[rows]]

    def _rank(self, rows: Rows, limit: int | None) -> _Ranked:
        """Return the best of some rows, best first: those with all words, by score, newer ones first."""
        ranked = self._score(rows)
        if limit is not None and len(ranked.rows) > _UNSORTED_FACTOR * limit:
            least = np.partition(ranked.scores, len(ranked.rows) - limit)[len(ranked.rows) - limit]
            ranked = ranked.take(np.flatnonzero((ranked.scores >= least) | ranked.has_all))
        keys = self.image.index.keys[ranked.rows]
        return ranked.take(np.lexsort((-keys, -ranked.scores, ~ranked.has_all))[:limit])

    def _score(self, rows: Rows) -> _Ranked:
        """Return those of some rows that match, with their BM25, and whether they have all words."""
        search, expression, index = self.search, self.search.expressions[0], self.image.index
        wanted = expression.required if search.needs_all else expression.atoms
        # In the order of FTS5's own function: the sums are the same to the last bit.
        length = bm25_length(index.lengths[rows].astype(np.float64), self.population.mean_words)
        scores, matched = np.zeros(len(rows)), np.zeros(len(rows), np.bool_)
        present: dict[QueryToken, Flags] = {}
        self._occurrences = _Occurrences(rows)
        for atom in wanted:
            numbers, places = index.locate(self._find(_stems(atom)), rows)
            self._occurrences.located[_stems(atom)] = numbers, places
            present[atom] = _flag(numbers, len(rows))
            matched |= present[atom]
            found = np.bincount(numbers, self.weights[places >> PLACE_BITS], len(rows))
            counts: Scores = found.astype(np.float64, copy=False)
            count = self.image.count_rows(_stems(atom), self.population)
            scores += bm25_idf(count, self.population.count) * bm25_frequency(counts, length)
        has_all = np.full(len(rows), search.all_first)
        for atom in expression.required if search.all_first else ():
            if atom not in present:
                present[atom] = _flag(index.locate(self._find(_stems(atom)), rows)[0], len(rows))
            has_all &= present[atom]
        ranked = _Ranked(rows, scores, has_all)
        return ranked if matched.all() else ranked.take(matched)

    def _list_with_stopwords(self, limit: int) -> _Ranked:
        """Return the newest rows with nothing but words so common that they say little."""
        rows = self._restrict(self.image.index.mark([[self._rows_of(atom)] for atom in self.search.stopwords[0].atoms]))
        rows = rows[np.argsort(-self.image.index.keys[rows], kind="stable")][:limit]
        return _Ranked(rows, np.zeros(len(rows)), np.zeros(len(rows), np.bool_))

    def _to_matches(self, found: _Ranked) -> Matches:
        ascending = np.argsort(found.rows)
        coverage = np.empty(len(ascending))
        if len(ascending):
            coverage[ascending] = self._measure_coverage(found.rows[ascending])
        coverage[found.scores == 0.0] = 0.0
        return Matches(self.image.index.keys[found.rows], found.scores, found.has_all, coverage)

    def _measure_coverage(self, rows: Rows) -> Scores:
        """Return what `measure_coverage` does for the texts of some ascending rows."""
        words, index = self.search.query_words(), self.image.index
        lengths = index.lengths[rows]
        stems = self._locate_stems({stem for each in words for stem in each.stems}, rows)
        contained = np.ones((len(words), len(rows)), np.bool_)
        for number, each in enumerate(words):
            for stem in each.stems:
                contained[number] &= _flag(stems[stem][0], len(rows))
        each_weight = np.array([each.weight for each in words])
        weights = contained.T @ each_weight
        is_long = (lengths > WINDOW_WORDS) & (contained.sum(axis=0) > 1)
        for row, places in self._list_places(stems, words, contained & is_long, rows):
            weights[row] = best_window_weight((each_weight * contained[:, row]).tolist(), places)
        shares: Scores = np.maximum(weights, each_weight.min()) / each_weight.sum()
        too_long = np.flatnonzero(lengths > _MAX_PLACED_WORDS)
        if len(too_long):
            keys = index.keys[rows[too_long]]
            place_of = dict(zip(keys.tolist(), too_long.tolist(), strict=True))
            for key, text in self.read_texts(keys):
                shares[place_of[key]] = measure_coverage(words, text)
        return shares

    def _locate_stems(self, stems: Iterable[str], rows: Rows) -> dict[str, Located]:
        """Return the occurrences of stems in some ascending rows, from those that were found for the scores if any."""
        index, known = self.image.index, self._occurrences
        if known is None or not len(known.rows):
            return {stem: index.locate(self._find((stem,)), rows) for stem in stems}
        numbers = np.minimum(np.searchsorted(known.rows, rows), len(known.rows) - 1)
        is_known = np.array_equal(known.rows[numbers], rows)
        return {
            stem: known.restrict((stem,), numbers)
            if is_known and (stem,) in known.located
            else index.locate(self._find((stem,)), rows)
            for stem in stems
        }

    def _list_places(
        self,
        stems: Mapping[str, Located],
        words: Sequence[QueryWords],
        wanted: Flags,
        rows: Rows,
    ) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """
        Yield the number of each row with a word that is `wanted` there, and where its words are.

        The places are those in a text of all columns, each with the number of its word.
        """
        if not wanted.any():
            return
        sizes = self.image.index.sizes[rows][:, _TEXT_ORDER].astype(np.int64)
        offsets = np.empty_like(sizes)
        offsets[:, _TEXT_ORDER] = np.cumsum(sizes, axis=1) - sizes
        found: list[tuple[NDArray[np.intp], NDArray[np.uint16], int]] = []
        for number, each in enumerate(words):
            for stem in dict.fromkeys(each.stems):
                inside = wanted[number][stems[stem][0]]
                found.append((stems[stem][0][inside], stems[stem][1][inside], number))
        owners, local = np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])
        numbers = np.repeat([number for *_, number in found], [len(each) for each, *_ in found])
        places = offsets[owners, local >> PLACE_BITS] + (local & _PLACE_MASK)
        order = np.lexsort((places, owners))
        owners, listed = owners[order], list(zip(places[order].tolist(), numbers[order].tolist(), strict=True))
        for row, start, end in zip(*_group(owners), strict=True):
            yield row, listed[start:end]


@lru_cache(10_000)
def _stems(atom: QueryToken) -> tuple[str, ...]:
    return tuple(tokenizer.list_stems(atom.text))


def _group(ascending: NDArray[np.intp]) -> tuple[list[int], list[int], list[int]]:
    """Return the distinct numbers of an ascending list, and where each begins and ends."""
    distinct, starts = np.unique(ascending, return_index=True)
    return distinct.tolist(), starts.tolist(), [*starts[1:].tolist(), len(ascending)]


def _flag(numbers: NDArray[np.intp], count: int) -> Flags:
    flags = np.zeros(count, np.bool_)
    flags[numbers] = True
    return flags
