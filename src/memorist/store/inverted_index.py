"""
An inverted index in memory: of every word, the rows that have it and its places there.

Nothing is decoded on the way, so it ranks a question several times faster than an index on disk. It holds every
occurrence in six bytes: the number of its row, and its column and place there. The occurrences lie in segments, each
sorted by word; a write adds a small segment, and small ones are merged.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist.store.key_set import Keys

Rows = NDArray[np.int32]
Places = NDArray[np.uint16]  # the column in the high bits, the place in that column in the low ones

PLACE_BITS = 13
_LAST_PLACE = (1 << PLACE_BITS) - 1  # of all that follow
_MAX_PHRASE_PLACES = _LAST_PLACE - 64  # of a column that phrases can be found in; the rest is for the longest phrase
_MERGE_FACTOR = 4  # segments that differ less in size are merged
_MERGED_WORDS = 1024  # at a time: the places of all would take more memory than the index
_MAX_MERGED = 200_000  # occurrences that a write merges: some milliseconds
_MIN_ROOM = 1024  # rows
_LOOKUP_FACTOR = 16  # with so many times more occurrences than rows, it is cheaper to look up each row


class IndexedText(NamedTuple):
    """A text to be indexed: its key, the number of its owner, and the words of each of its columns."""

    key: int
    owner: int
    columns: Sequence[Sequence[str]]


class Postings(NamedTuple):
    """The occurrences of a word or a phrase, by ascending row and place."""

    rows: Rows
    places: Places

    @property
    def distinct_rows(self) -> Rows:
        """The rows, each once."""
        is_first = np.ones(len(self.rows), np.bool_)
        np.not_equal(self.rows[1:], self.rows[:-1], out=is_first[1:])
        rows: Rows = self.rows[is_first]
        return rows


_NOTHING = Postings(np.empty(0, np.int32), np.empty(0, np.uint16))


class _Segment(Struct, frozen=True):
    """
    The occurrences of the words of some rows, sorted by word, row and place.

    A word is known by the 64 bits that Python hashes it to: a list of the words themselves would take several times the
    room. Among a million words, two have the same hash once in thirty million processes.
    """

    words: Keys
    starts: Keys  # of the occurrences of each word, and the end of the last
    rows: Rows
    places: Places

    @classmethod
    def build(cls, texts: Sequence[IndexedText], first_row: int) -> "_Segment":
        columns = len(texts[0].columns)
        sizes = np.array([[len(words) for words in text.columns] for text in texts], np.int64)
        total = int(sizes.sum())
        words = chain.from_iterable(chain.from_iterable(text.columns for text in texts))
        hashes = np.fromiter(map(hash, words), np.int64, total)
        by_column = sizes.ravel()
        starts = np.cumsum(by_column) - by_column
        places = np.minimum(np.arange(total) - np.repeat(starts, by_column), _LAST_PLACE)
        places |= np.repeat(np.tile(np.arange(columns) << PLACE_BITS, len(texts)), by_column)
        rows = np.repeat(np.arange(first_row, first_row + len(texts), dtype=np.int32), sizes.sum(axis=1))
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        first = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]])) if total else np.empty(0, np.int64)
        return cls(hashes[first], np.append(first, total), rows[order], places[order].astype(np.uint16))

    @classmethod
    def merge(cls, segments: Sequence["_Segment"]) -> "_Segment":
        """Join segments of ascending rows."""
        words = np.unique(np.concatenate([segment.words for segment in segments]))
        counts = np.zeros(len(words), np.int64)
        found = [np.searchsorted(words, segment.words) for segment in segments]
        for segment, at in zip(segments, found, strict=True):
            counts[at] += np.diff(segment.starts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        rows, places = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.uint16)
        free = starts[:-1].copy()
        for segment, at in zip(segments, found, strict=True):
            own, moves = np.diff(segment.starts), free[at] - segment.starts[:-1]
            for first in range(0, len(at), _MERGED_WORDS):
                end = min(first + _MERGED_WORDS, len(at))
                span = slice(segment.starts[first], segment.starts[end])
                target = np.repeat(moves[first:end], own[first:end])
                target += np.arange(span.start, span.stop)
                rows[target], places[target] = segment.rows[span], segment.places[span]
            free[at] += own
        return cls(words, starts, rows, places)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.starts.nbytes + self.rows.nbytes + self.places.nbytes

    def find(self, word: int) -> slice | None:
        at = int(np.searchsorted(self.words, word))
        if at == len(self.words) or self.words[at] != word:
            return None
        return slice(int(self.starts[at]), int(self.starts[at + 1]))


class InvertedIndex(Struct, frozen=True):
    """
    The index at one moment. The first `count` rows of its arrays are never written again, so readers need no lock; the
    rows after them are room for the next state, which one writer at a time makes.

    A text that was changed or removed leaves its row behind, marked as dead. The keys of the first `sorted_count` rows
    ascend.
    """

    segments: tuple[_Segment, ...]
    keys: Keys
    owners: NDArray[np.int32]
    sizes: NDArray[np.uint16]  # words in each column, up to the largest number that fits
    lengths: NDArray[np.int32]  # words in all columns
    alive: NDArray[np.bool_]
    count: int
    sorted_count: int
    live: int  # rows that are not dead
    words: int  # in the live rows
    has_long: bool  # whether some text is too long for the places of all of its words

    @classmethod
    def empty(cls, columns: int) -> "InvertedIndex":
        return cls(
            (), np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, columns), np.uint16), np.empty(0, np.int32),
            np.empty(0, np.bool_), 0, 0, 0, 0, has_long=False,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        arrays = (self.keys, self.owners, self.sizes, self.lengths, self.alive)
        return sum(array.nbytes for array in arrays) + sum(segment.nbytes for segment in self.segments)

    @property
    def dead(self) -> int:
        return self.count - self.live

    @property
    def mean_words(self) -> float:
        return self.words / self.live if self.live else 1.0

    def with_changes(
        self, removed: Sequence[int], added: Sequence[IndexedText], *, merge_all: bool = False
    ) -> "InvertedIndex":
        """
        Return the index without the rows of some keys and with these texts, whose keys it no longer has.

        With `merge_all`, segments of any size are merged.
        """
        index = self._without(np.array(removed, np.int64)) if removed else self
        if not added:
            return index
        start, end = index.count, index.count + len(added)
        index = index._with_room(end)
        sizes = np.array([[len(words) for words in text.columns] for text in added], np.int64)
        index.keys[start:end] = [text.key for text in added]
        index.owners[start:end] = [text.owner for text in added]
        index.sizes[start:end] = np.minimum(sizes, np.iinfo(np.uint16).max)
        index.lengths[start:end] = sizes.sum(axis=1)
        alive = index.alive.copy()
        alive[start:end] = True
        last = int(index.keys[start - 1]) if start else -1
        ascends = index.sorted_count == start and bool((np.diff(index.keys[start:end], prepend=last) > 0).all())
        segments = (*index.segments, _Segment.build(added, start))
        return replace(
            index,
            segments=_merge_alike(segments, None if merge_all else _MAX_MERGED),
            alive=alive,
            count=end,
            sorted_count=end if ascends else index.sorted_count,
            live=index.live + len(added),
            words=index.words + int(sizes.sum()),
            has_long=index.has_long or int(sizes.max(initial=0)) > _MAX_PHRASE_PLACES,
        )

    def merge(self) -> "InvertedIndex":
        """Return the index with all its occurrences in one segment."""
        return replace(self, segments=(_Segment.merge(self.segments),)) if len(self.segments) > 1 else self

    def _without(self, keys: Keys) -> "InvertedIndex":
        rows = self.find_rows(keys)
        if not len(rows):
            return self
        alive = self.alive.copy()
        alive[rows] = False
        return replace(self, alive=alive, live=self.live - len(rows), words=self.words - int(self.lengths[rows].sum()))

    def _with_room(self, rows: int) -> "InvertedIndex":
        if rows <= len(self.keys):
            return self
        more = max(rows, self.count + self.count // 4, _MIN_ROOM) - self.count
        return replace(
            self,
            keys=_extend(self.keys[: self.count], more),
            owners=_extend(self.owners[: self.count], more),
            sizes=_extend(self.sizes[: self.count], more),
            lengths=_extend(self.lengths[: self.count], more),
            alive=_extend(self.alive[: self.count], more),
        )

    def find_rows(self, keys: Keys) -> Rows:
        """Return the live rows of some keys, ascending."""
        main, other = self.keys[: self.sorted_count], self.keys[self.sorted_count : self.count]
        at = np.searchsorted(main, keys)
        at[at == len(main)] = 0
        rows = at[main[at] == keys] if len(main) else np.empty(0, np.intp)
        if len(other):
            rows = np.concatenate([rows, self.sorted_count + np.flatnonzero(np.isin(other, keys))])
        is_found = np.zeros(self.count, np.bool_)
        is_found[rows] = True
        found: Rows = np.flatnonzero(is_found & self.alive[: self.count]).astype(np.int32)
        return found

    def find(self, words: Sequence[str]) -> Postings:
        """Return the occurrences of a word, or of several in a row, in live rows."""
        if not words:
            return _NOTHING
        found = [self._find_word(word) for word in words]
        postings = found[0] if len(found) == 1 else _join_phrase(found)
        if not self.dead:
            return postings
        alive = self.alive[postings.rows]
        return Postings(postings.rows[alive], postings.places[alive])

    def _find_word(self, word: str) -> Postings:
        code = hash(word)
        pieces = [
            Postings(segment.rows[span], segment.places[span])
            for segment in self.segments
            if (span := segment.find(code)) is not None
        ]
        if len(pieces) < 2:
            return pieces[0] if pieces else _NOTHING
        return Postings(
            np.concatenate([piece.rows for piece in pieces]), np.concatenate([piece.places for piece in pieces])
        )

    def find_sharing(self, words: Collection[str], least: int) -> Keys:
        """Return the keys of the live rows with at least so many of these words, ascending."""
        rarest_first = sorted(self._find_rows_of(words), key=len)
        lacking = len(rarest_first) - least
        if lacking < 0:
            return np.empty(0, np.int64)
        # A row that lacks no more has all words of one group, if there is one group more than that.
        rows = self.mark(rarest_first[number :: lacking + 1][:2] for number in range(lacking + 1))
        missing = np.zeros(len(rows), np.int64)
        for other in rarest_first:
            if not len(rows):
                break
            missing += other[np.minimum(np.searchsorted(other, rows), len(other) - 1)] != rows
            near = missing <= lacking
            rows, missing = rows[near], missing[near]
        return np.sort(self.keys[rows[self.alive[rows]]])

    def _find_rows_of(self, words: Collection[str]) -> list[Rows]:
        """Return the rows of each of some words that any row has, ascending; a row as often as it has the word."""
        codes = np.fromiter(map(hash, words), np.int64, len(words))
        found: dict[int, list[Rows]] = {}
        for segment in self.segments:
            if not len(segment.words):  # its texts have none
                continue
            at = np.minimum(np.searchsorted(segment.words, codes), len(segment.words) - 1)
            known = np.flatnonzero(segment.words[at] == codes)
            starts, ends = segment.starts[at[known]].tolist(), segment.starts[at[known] + 1].tolist()
            for number, start, end in zip(known.tolist(), starts, ends, strict=True):
                found.setdefault(number, []).append(segment.rows[start:end])
        return [pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for pieces in found.values()]

    def mark(self, groups: Iterable[Sequence[Rows]]) -> Rows:
        """Return the rows that are in every list of one of the groups, ascending."""
        wanted = np.zeros(self.count, np.bool_)
        for group in groups:
            rows, *others = sorted(group, key=len)
            for other in others:
                mine = np.zeros(self.count, np.bool_)
                mine[other] = True
                rows = rows[mine[rows]]
            wanted[rows] = True
        return np.flatnonzero(wanted).astype(np.int32)

    def locate(self, postings: Postings, rows: Rows) -> tuple[NDArray[np.intp], Places]:
        """Return the occurrences in some ascending rows: each one's number among the rows, and its place."""
        if len(postings.rows) > _LOOKUP_FACTOR * len(rows):
            first = np.searchsorted(postings.rows, rows, "left")
            counts = np.searchsorted(postings.rows, rows, "right") - first
            before = np.cumsum(counts) - counts
            chosen = np.repeat(first - before, counts) + np.arange(counts.sum())
            return np.repeat(np.arange(len(rows)), counts), postings.places[chosen]
        number_of = np.zeros(self.count, np.int32)
        number_of[rows] = np.arange(1, len(rows) + 1)
        numbers = number_of[postings.rows]
        chosen = np.flatnonzero(numbers)
        return numbers[chosen].astype(np.intp) - 1, postings.places[chosen]


def _merge_alike(segments: tuple[_Segment, ...], most: int | None) -> tuple[_Segment, ...]:
    """Merge the last segments while they are alike in size, so that there are never many."""
    while len(segments) > 1:
        *rest, one, other = segments
        if len(one) > _MERGE_FACTOR * len(other) or (most is not None and len(one) + len(other) > most):
            break
        segments = (*rest, _Segment.merge([one, other]))
    return segments


def _join_phrase(words: Sequence[Postings]) -> Postings:
    """Return where words follow one another in a column."""
    codes = [found.rows.astype(np.int64) << 16 | found.places for found in words]
    rarest = min(range(len(codes)), key=lambda number: len(codes[number]))
    starts = codes[rarest] - rarest
    for number, other in enumerate(codes):
        if number != rarest and len(other):
            at = np.minimum(np.searchsorted(other, starts + number), len(other) - 1)
            starts = starts[other[at] == starts + number]
    if not all(len(found) for found in codes):
        return _NOTHING
    return Postings((starts >> 16).astype(np.int32), (starts & 0xFFFF).astype(np.uint16))


def _extend(array: NDArray[Any], more: int) -> NDArray[Any]:
    """Return an array with room for more rows."""
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])
