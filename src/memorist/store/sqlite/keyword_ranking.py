"""
The keyword leg on the inverted index in memory: the rows, scores and coverage that FTS5 would give, bit by bit.

Words and phrases are answered here. Prefixes, unstemmed words, symbols such as the ++ of C++, expressions in the syntax
of FTS5, and walls are left to FTS5 itself.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memorist.records import Match
from memorist.store.database import Connection
from memorist.store.inverted_index import PLACE_BITS, Postings, Rows
from memorist.store.keyword_search import STEMS, KeywordSearch
from memorist.store.records import Scope
from memorist.store.sqlite.live_index import Family, LiveIndex
from memorist.store.word_matching import (
    INDEX_COLUMNS,
    K1,
    TEXT_COLUMNS,
    WINDOW_WORDS,
    B,
    QueryToken,
    QueryWords,
    best_window_weight,
    bm25_idf,
    measure_coverage,
)
from memorist.text import tokenizer

INDEXED_TEXT = f"concat_ws(' ', {', '.join(f'm.{name}' for name in TEXT_COLUMNS)})"

_CHECKED_FACTOR = 8  # how many times the wanted rows are checked against a filter at first
_MAX_PLACED_WORDS = 1000  # of a text; `measure_coverage` looks at the beginning of a longer one in its own way
_UNSORTED_FACTOR = 4  # how many times the wanted rows are sorted without leaving out the lowest first
_NOT_SUPERSEDED = " and m.valid_until is null"
_PLACE_MASK = (1 << PLACE_BITS) - 1
_TEXT_ORDER = [INDEX_COLUMNS.index(name) for name in TEXT_COLUMNS]

Scores = NDArray[np.float64]
Flags = NDArray[np.bool_]


def can_rank(search: KeywordSearch) -> bool:
    """Tell if an inverted index of stems has all that a search looks for."""
    expressions = [*search.expressions, *search.stopwords]
    return (
        len(search.expressions) == 1
        and not search.restricted
        and not search.literals
        and all(each.index == STEMS for each in expressions)
        and not any(atom.prefix for each in expressions for atom in (*each.atoms, *each.required))
    )


class _Scored(NamedTuple):
    """The BM25 of a row, and whether it has all words."""

    score: float
    has_all: bool


Located = tuple[NDArray[np.intp], NDArray[np.uint16]]  # the numbers of rows among some, and the places there


@dataclass(frozen=True, slots=True)
class _Occurrences:
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


@dataclass(slots=True)
class WordRanking:
    """A keyword search on the inverted index."""

    live: LiveIndex
    search: KeywordSearch
    scope: Scope
    namespace: str
    weights: Scores  # of the columns
    family: Family  # whose numbers count
    _found: dict[tuple[str, ...], Postings] = field(default_factory=dict)
    _rows: dict[QueryToken, Rows] = field(default_factory=dict)
    _occurrences: _Occurrences | None = None  # in the rows that were scored last
    _passing: Rows | None = None
    _excluded: Rows | None = None

    @classmethod
    def plan(
        cls, live: LiveIndex, search: KeywordSearch, scope: Scope, namespace: str, weights: Mapping[str, float]
    ) -> "WordRanking | None":
        """Weight the words of a search and choose the rows worth scoring; None if only FTS5 can answer it."""
        columns = np.array([weights.get(column, 0.0) for column in INDEX_COLUMNS])
        ranking = cls(live, search, scope, namespace, columns, live.find_family(namespace))
        atoms = search.expressions[0].atoms
        if live.index.has_long and any(len(_stems(atom)) > 1 for atom in (*atoms, *search.expressions[0].required)):
            return None
        search.shares_index = any(name != namespace for name in live.namespaces)
        search.weigh(ranking.family.rows, {atom: live.count_rows(_stems(atom), ranking.family) for atom in atoms})
        return ranking

    def run(self, connection: Connection, limit: int, min_found: int) -> tuple[list[Match], list[int] | None] | None:
        """
        Return what the search on FTS5 does: the matches, best first, and all keys with a word if they are known.

        None if the words have to be looked for inside of others.
        """
        search = self.search
        if self.scope.keys is not None:
            self._passing = self.live.index.find_rows(self.scope.keys)
        if self.scope.excluded is not None:
            self._excluded = self.live.index.find_rows(self.scope.excluded)
        found = self._rank(connection, self._list_candidates(pruned=True), None if search.is_narrow else limit)
        if search.substring is not None and not found:
            return None
        all_keys = self.live.index.keys[list(found)].tolist() if search.is_narrow and found else None
        if len(found) < min_found:
            if search.pruning is not None:
                found |= self._rank(connection, self._list_candidates(pruned=False), limit, known=found)
            if search.stopwords:
                found |= self._list_spare(connection, min_found, known=found)
        return self._to_matches(connection, dict(islice(found.items(), limit))), all_keys

    def _find(self, stems: tuple[str, ...]) -> Postings:
        if stems not in self._found:
            self._found[stems] = self.live.index.find(stems)
        return self._found[stems]

    def _rows_of(self, atom: QueryToken) -> Rows:
        if atom not in self._rows:
            self._rows[atom] = self._find(_stems(atom)).distinct_rows
        return self._rows[atom]

    def _list_candidates(self, *, pruned: bool) -> Rows:
        """Return the rows to be scored, as far as they may be found."""
        search, expression = self.search, self.search.expressions[0]
        if pruned and search.is_narrow and self._passing is not None:
            return self._passing
        if pruned and search.pruning is not None:
            groups = [[self._rows_of(atom) for atom in atoms] for atoms in search.pruning]
        elif search.needs_all:
            groups = [[self._rows_of(atom) for atom in expression.required]]
        else:
            groups = [[self._rows_of(atom)] for atom in expression.atoms]
        return self._restrict(self.live.index.mark(groups))

    def _restrict(self, rows: Rows) -> Rows:
        """Return those of some rows that are of this namespace and pass a filter whose keys are known."""
        if self._passing is not None:
            allowed = np.zeros(self.live.index.count, np.bool_)
            allowed[self._passing] = True
            rows = rows[allowed[rows]]
        if self._excluded is not None:
            allowed = np.ones(self.live.index.count, np.bool_)
            allowed[self._excluded] = False
            rows = rows[allowed[rows]]
        if self.search.shares_index:
            rows = rows[self.live.index.owners[rows] == self.live.namespaces.get(self.namespace, -1)]
        return rows

    def _rank(
        self, connection: Connection, rows: Rows, limit: int | None, known: Mapping[int, _Scored] | None = None
    ) -> dict[int, _Scored]:
        """Return the best of some rows, best first: those with all words, by score, newer ones first."""
        rows, scores, has_all = self._score(rows)
        keys = self.live.index.keys[rows]
        is_filtered = bool(self._conditions)
        if limit is not None and not is_filtered and len(rows) > _UNSORTED_FACTOR * limit:
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            chosen = np.flatnonzero((scores >= least) | has_all)
            rows, scores, has_all, keys = rows[chosen], scores[chosen], has_all[chosen], keys[chosen]
        order = np.lexsort((-keys, -scores, ~has_all))
        if is_filtered:
            order = order[self._check_passing(connection, keys[order], limit)]
        order = order[:limit]
        listed = zip(rows[order].tolist(), scores[order].tolist(), has_all[order].tolist(), strict=True)
        return {row: _Scored(score, every) for row, score, every in listed if known is None or row not in known}

    def _score(self, rows: Rows) -> tuple[Rows, Scores, Flags]:
        """Return those of some rows that match, with their BM25, and whether they have all words."""
        search, expression, index = self.search, self.search.expressions[0], self.live.index
        wanted = expression.required if search.needs_all else expression.atoms
        # In the order of FTS5's own function: the sums are the same to the last bit.
        length = K1 * (1 - B + B * index.lengths[rows].astype(np.float64) / self.family.mean_words)
        scores, matched = np.zeros(len(rows)), np.zeros(len(rows), np.bool_)
        present: dict[QueryToken, Flags] = {}
        self._occurrences = _Occurrences(rows)
        for atom in wanted:
            numbers, places = index.locate(self._find(_stems(atom)), rows)
            self._occurrences.located[_stems(atom)] = numbers, places
            present[atom] = _flag(numbers, len(rows))
            matched |= present[atom]
            counts = np.bincount(numbers, self.weights[places >> PLACE_BITS], len(rows))
            scores += bm25_idf(self.live.count_rows(_stems(atom), self.family), self.family.rows) * (
                counts * (K1 + 1.0) / (counts + length)
            )
        has_all = np.full(len(rows), search.all_first)
        for atom in expression.required if search.all_first else ():
            if atom not in present:
                present[atom] = _flag(index.locate(self._find(_stems(atom)), rows)[0], len(rows))
            has_all &= present[atom]
        if matched.all():
            return rows, scores, has_all
        return rows[matched], scores[matched], has_all[matched]

    @property
    def _conditions(self) -> str:
        """The conditions on a memory `m` that are left to check."""
        if self.scope.is_listed:
            return ""
        return self.search.where + (_NOT_SUPERSEDED if self.search.hidden_rows else "")

    def _check_passing(self, connection: Connection, keys: NDArray[np.int64], wanted: int | None) -> Flags:
        """Tell which keys pass the filter; once enough do, no more are looked at."""
        passing = np.zeros(len(keys), np.bool_)
        first = len(keys) if wanted is None else _CHECKED_FACTOR * wanted
        for part in (slice(0, first), slice(first, None)):
            if len(keys[part]) and (wanted is None or np.count_nonzero(passing) < wanted):
                passing[part] = np.isin(keys[part], self._read_passing(connection, keys[part]))
        return passing

    def _read_passing(self, connection: Connection, keys: NDArray[np.int64]) -> list[int]:
        sql = f"""
            select json_group_array(m.rid) from memories m
            where m.rid in (select value from json_each(:keys))
              and +m.namespace = :namespace and m.deleted_at is null {self._conditions}
        """
        values = self.search.values | {"keys": json.dumps(keys.tolist()), "namespace": self.namespace}
        return list(json.loads(connection.fetch_value(sql, values)))

    def _list_spare(self, connection: Connection, limit: int, known: Mapping[int, _Scored]) -> dict[int, _Scored]:
        """Return the newest rows with nothing but words so common that they say little."""
        rows = self._restrict(self.live.index.mark([[self._rows_of(atom)] for atom in self.search.stopwords[0].atoms]))
        rows = rows[np.argsort(-self.live.index.keys[rows], kind="stable")]
        if self._conditions:
            rows = rows[self._check_passing(connection, self.live.index.keys[rows], limit)]
        return {row: _Scored(0.0, False) for row in rows[:limit].tolist() if row not in known}

    def _to_matches(self, connection: Connection, found: Mapping[int, _Scored]) -> list[Match]:
        rows = np.fromiter(found, np.int32, len(found))
        coverage = self._measure_coverage(connection, np.sort(rows))
        keys = self.live.index.keys[rows].tolist()
        return [
            Match(key, scored.score, scored.has_all, coverage[row] if scored.score else 0.0)
            for key, (row, scored) in zip(keys, found.items(), strict=True)
        ]

    def _measure_coverage(self, connection: Connection, rows: Rows) -> dict[int, float]:
        """Return what `measure_coverage` does for the texts of some ascending rows."""
        words, index = self.search.query_words(), self.live.index
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
        shares = np.maximum(weights, each_weight.min()) / each_weight.sum()
        found = dict(zip(rows.tolist(), shares.tolist(), strict=True))
        if too_long := rows[lengths > _MAX_PLACED_WORDS].tolist():
            found |= self._measure_by_text(connection, words, too_long)
        return found

    def _locate_stems(self, stems: Iterable[str], rows: Rows) -> dict[str, Located]:
        """Return the occurrences of stems in some ascending rows, from those that were found for the scores if any."""
        index, known = self.live.index, self._occurrences
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
        sizes = self.live.index.sizes[rows][:, _TEXT_ORDER].astype(np.int64)
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

    def _measure_by_text(
        self, connection: Connection, words: Sequence[QueryWords], rows: Sequence[int]
    ) -> dict[int, float]:
        keys = dict(zip(self.live.index.keys[rows].tolist(), rows, strict=True))
        sql = f"select m.rid, {INDEXED_TEXT} from memories m where m.rid in (select value from json_each(?))"
        texts = connection.fetch(sql, (json.dumps(list(keys)),))
        return {keys[rid]: measure_coverage(words, text) for rid, text in texts}


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
