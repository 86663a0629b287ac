"""
The vector scan: every vector of one model as a code in memory, searched by brute force.

A code is a row of small integers with the direction of its vector. Its length does not matter, because a similarity
divides by it: no scale has to be stored beside a code. Each row uses the whole range of an int8, so only rounding is
lost. Of few dimensions, the rounding of each would be felt: those vectors are their own codes, as they are stored.

A similarity is that of two codes, wherever it is computed: a search ranks by the same numbers whether the vectors are
in memory or were read from a database.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from memorist.forks import renew_after_fork
from memorist.store.key_set import Keys, is_ascending, sort_unique

Codes = NDArray[np.int8] | NDArray[np.float16]
Scores = NDArray[np.float32]
Rows = NDArray[np.intp]

_KEY_BYTES = 8
_MIN_ROUNDED = 128  # dimensions; vectors of fewer are not rounded to int8
_BLOCK_ROWS = 1024  # rows converted at a time where numpy needs wider numbers: they stay in the processor's cache
_ENCODED_ROWS = 128  # rows encoded at a time, for the same reason
_MAX_GATHER_SHARE = 1 / 8  # picking single rows costs several times what passing over them does
_GROUPS_PER_RESULT = 8  # see `_select_best`: a floor that lets about 7 % more than the wanted rows through
_MAX_SCAN_THREADS = 4
_PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_SHARED_BYTES = 8_000_000  # of codes that a thread compares at least: it takes many times as long as a hand-off
_MAX_DEAD_SHARE = 1 / 4  # removed rows still cost time to pass over; past this share they are cleared away


def code_type(dimensions: int) -> np.dtype[Any]:
    """Return the type of the components of codes."""
    return np.dtype(np.int8 if dimensions >= _MIN_ROUNDED else np.float16)


def encode(vectors: NDArray[np.float16] | NDArray[np.float32]) -> Codes:
    """Return the codes of vectors: each row scaled so that its largest component is 127, and rounded."""
    if code_type(vectors.shape[1]) != np.int8:
        return vectors.astype(np.float16, copy=False)
    codes = np.empty(vectors.shape, np.int8)
    for start in range(0, len(vectors), _ENCODED_ROWS):
        wide = vectors[start : start + _ENCODED_ROWS].astype(np.float32)
        largest = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
        wide /= np.where(largest > 0, largest, 1)
        wide *= 127
        codes[start : start + _ENCODED_ROWS] = np.rint(wide, out=wide)
    return codes


class QueryCode(NamedTuple):
    """A query as codes are compared with it, and what its products are divided by."""

    code: NDArray[Any]
    scale: Scores

    @classmethod
    def of(cls, vector: NDArray[np.float32]) -> "QueryCode":
        if code_type(len(vector)) != np.int8:
            return cls(vector.astype(np.float64), np.ones(1, np.float32))
        code = encode(vector[np.newaxis])
        return cls(code[0], _inverse_lengths(code))

    def compare(self, codes: Codes, weights: Scores) -> Scores:
        """Return the similarities of codes, given one over the length of each."""
        scores = _multiply(self.code, codes)
        scores *= weights
        scores *= self.scale
        return scores


class _ScanThreads:
    """Threads that share the comparison of many codes with the one that asks; it holds no lock of the interpreter."""

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start anew in a child: threads do not survive a fork."""
        self._pool: ThreadPoolExecutor | None = None

    def compare(self, query: QueryCode, codes: Codes, weights: Scores) -> Scores:
        """Return the similarities of codes, given one over the length of each."""
        shares = min(_PROCESSORS, _MAX_SCAN_THREADS, codes.nbytes // _SHARED_BYTES)
        if shares < 2:
            return query.compare(codes, weights)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MAX_SCAN_THREADS - 1, "memorist-scan")
        cuts = [len(codes) * number // shares for number in range(shares + 1)]
        first, *others = (slice(start, end) for start, end in pairwise(cuts))
        try:
            waiting = [self._pool.submit(query.compare, codes[part], weights[part]) for part in others]
        except RuntimeError:  # no thread available, or the interpreter is ending
            return query.compare(codes, weights)
        own = query.compare(codes[first], weights[first])
        return np.concatenate([own, *(future.result() for future in waiting)])


_scan_threads = _ScanThreads()


def compare(vector: NDArray[np.float32], codes: Codes) -> Scores:
    """Return the cosine similarities of codes to a vector."""
    return QueryCode.of(vector).compare(codes, _inverse_lengths(codes))


def decode(codes: Codes) -> NDArray[np.float64]:
    """Return the unit vectors that codes stand for."""
    return codes.astype(np.float64) * _inverse_lengths(codes)[:, np.newaxis]


def pack(keys: Keys, codes: Codes) -> bytes:
    """Return keys and their codes as one blob, the same on every machine."""
    if codes.ndim != 2 or keys.shape != codes.shape[:1]:
        raise ValueError(f"{keys.shape} keys do not fit codes of shape {codes.shape}")
    return keys.astype("<i8").tobytes() + codes.astype(codes.dtype.newbyteorder("<")).tobytes()


def row_bytes(dimensions: int) -> int:
    """Return the size of a packed row."""
    return _KEY_BYTES + dimensions * code_type(dimensions).itemsize


def unpack(blob: bytes, dimensions: int) -> tuple[Keys, Codes]:
    """Return the keys and codes of a packed blob, as views into it."""
    count, rest = divmod(len(blob), row_bytes(dimensions))
    if rest:
        raise ValueError(f"a blob of {len(blob)} bytes does not hold whole rows of {dimensions} dimensions")
    keys = np.frombuffer(blob, "<i8", count).astype(np.int64, copy=False)
    packed = np.frombuffer(blob, code_type(dimensions).newbyteorder("<"), offset=count * _KEY_BYTES)
    return keys, packed.astype(code_type(dimensions), copy=False).reshape(count, dimensions)


class VectorScan:
    """
    Every vector of one model in memory as a code.

    Any thread may search while another writes: a search keeps the state it began with, and a write builds the next one
    beside it.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._write = threading.Lock()
        self._state = _State.from_sorted(np.empty(0, np.int64), np.empty((0, dimensions), code_type(dimensions)), 0)

    def __len__(self) -> int:
        return self._state.live

    @property
    def keys(self) -> Keys:
        """All keys, ascending."""
        return self._state.ascending

    @property
    def nbytes(self) -> int:
        state = self._state
        return state.keys.nbytes + state.codes.nbytes + state.weights.nbytes

    def load(self, pieces: Iterable[tuple[Keys, Codes]], count: int) -> None:
        """Replace everything with these pieces, `count` rows in all, their keys ascending throughout."""
        with self.loading(count) as add:
            for piece_keys, piece_codes in pieces:
                add(piece_keys, piece_codes)

    @contextmanager
    def loading(self, count: int) -> Iterator[Callable[[Keys, Codes], None]]:
        """Replace everything with what a block adds, `count` rows in all, their keys ascending throughout."""
        keys = np.empty(count + _BLOCK_ROWS, np.int64)
        codes = np.empty((count + _BLOCK_ROWS, self.dimensions), code_type(self.dimensions))
        end = 0

        def add(piece_keys: Keys, piece_codes: Codes) -> None:
            nonlocal end
            start, end = end, end + len(piece_keys)
            if end > count or piece_codes.shape != (len(piece_keys), self.dimensions):
                raise ValueError(f"{len(piece_keys)} keys and codes {piece_codes.shape} do not fit")
            keys[start:end], codes[start:end] = piece_keys, piece_codes

        yield add
        if end != count or not is_ascending(keys[:count]):
            raise ValueError("keys have to ascend, each there once, and as many as announced")
        state = _State.from_sorted(keys, codes, count)
        with self._write:
            self._state = state

    def put(self, keys: ArrayLike, vectors: NDArray[np.float16] | NDArray[np.float32]) -> None:
        """Add or replace vectors. If a key is given twice, its last vector counts."""
        new_keys = np.asarray(keys, np.int64)
        if np.shape(vectors) != (len(new_keys), self.dimensions):
            raise ValueError(f"{len(new_keys)} keys of {self.dimensions} dimensions do not fit {np.shape(vectors)}")
        codes = encode(vectors)
        if not is_ascending(new_keys):
            # Reversed, the stable sort inside `unique` finds the last of equal keys first.
            new_keys, last = np.unique(new_keys[::-1], return_index=True)
            codes = codes[::-1][last]
        with self._write:
            self._state = self._state.with_rows(new_keys, codes).compact()

    def remove(self, keys: ArrayLike) -> None:
        """Remove keys; unknown ones are ignored."""
        removed = sort_unique(np.asarray(keys, np.int64))
        with self._write:
            self._state = self._state.without_keys(removed).compact()

    def ask(self, question: QueryCode) -> "ScanQuery":
        """Return a question beside the vectors as they are now."""
        if len(question.code) != self.dimensions:
            raise ValueError(f"a query of {len(question.code)} dimensions cannot be compared in {self.dimensions}")
        return ScanQuery(self._state, question)

    def find_nearest(
        self, query: NDArray[np.float32], k: int, among: ArrayLike | None = None, without: ArrayLike | None = None
    ) -> tuple[Keys, Scores]:
        """Return the nearest of a question that is asked once."""
        if np.shape(query) != (self.dimensions,):
            raise ValueError(f"a query of shape {np.shape(query)} cannot be compared in {self.dimensions} dimensions")
        return self.ask(QueryCode.of(query)).find_nearest(k, among, without)


class ScanQuery:
    """A question beside the vectors of a scan as of one moment, each of which is compared once at most."""

    def __init__(self, state: "_State", question: QueryCode) -> None:
        self._state, self._question = state, question
        self._all: Scores | None = None  # of every row, dead ones included

    def __len__(self) -> int:
        return self._state.live

    @property
    def keys(self) -> Keys:
        """All keys, ascending."""
        return self._state.ascending

    def find_nearest(
        self, k: int, among: ArrayLike | None = None, without: ArrayLike | None = None
    ) -> tuple[Keys, Scores]:
        """
        Return the k keys most similar to the question with their cosine similarities, best first, ties by lower key.

        Only the keys `among` these are searched, or those `without` these; unknown ones are ignored.
        """
        state = self._state
        if among is None:
            keys, scores = state.keys[: state.count], self._compare_all()
            left_out = (
                state.dead if without is None else state.find_left_out(sort_unique(np.asarray(without, np.int64)))
            )
            if len(left_out):
                scores = scores.copy()
                scores[left_out] = -np.inf
            return _select_best(keys, scores, min(k, state.count - len(left_out)))
        rows = state.find_rows(sort_unique(np.asarray(among, np.int64)))
        if len(rows) >= _MAX_GATHER_SHARE * state.count:
            self._compare_all()
        return _select_best(state.keys[rows], self._compare_rows(rows), min(k, len(rows)))

    def compare(self, keys: Keys) -> tuple[Rows, Codes, Scores]:
        """Return which of some ascending keys are here, by their places among them, their codes and similarities."""
        rows, places = self._state.locate(keys)
        return places, self._state.codes.take(rows, axis=0), self._compare_rows(rows)

    def _compare_all(self) -> Scores:
        if self._all is None:
            self._all = self._state.similarities(self._question)
        return self._all

    def _compare_rows(self, rows: Rows) -> Scores:
        return self._state.similarities_of(rows, self._question) if self._all is None else self._all[rows]


class _State(Struct, frozen=True):
    """
    The scan at one moment. The first `count` rows of its arrays are never written again, so readers need no lock;
    the rows after them are spare room for the next state.

    New rows go to the end, and removed or replaced ones are only marked: moving hundreds of megabytes for one changed
    memory would be slow. `ascending` and `order` find the row of a key.
    """

    keys: Keys
    codes: Codes
    weights: Scores  # one over the length of each row's codes
    count: int
    dead: Rows  # rows removed or replaced
    ascending: Keys  # the keys of the live rows
    order: Rows | None  # the live rows by ascending key; None while that is simply every row

    @classmethod
    def from_sorted(cls, keys: Keys, codes: Codes, count: int) -> "_State":
        """Make a state of arrays whose first `count` rows ascend by key; the rest is spare room."""
        weights = np.empty(len(keys), np.float32)
        weights[:count] = _inverse_lengths(codes[:count])
        return cls(keys, codes, weights, count, np.empty(0, np.intp), keys[:count], None)

    @property
    def live(self) -> int:
        return self.count - len(self.dead)

    def similarities(self, query: QueryCode) -> Scores:
        """Return the similarity of every row to the query, dead ones included."""
        return _scan_threads.compare(query, self.codes[: self.count], self.weights[: self.count])

    def similarities_of(self, rows: Rows, query: QueryCode) -> Scores:
        """Return the similarities of some rows to the query."""
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _BLOCK_ROWS):
            part = rows[start : start + _BLOCK_ROWS]
            scores[start : start + _BLOCK_ROWS] = query.compare(self.codes.take(part, axis=0), self.weights[part])
        return scores

    def find_rows(self, keys: Keys) -> Rows:
        """Return the rows of those of the ascending keys that are here, in the same order."""
        return self.locate(keys)[0]

    def locate(self, keys: Keys) -> tuple[Rows, Rows]:
        """Return the rows of those of the ascending keys that are here, and their places among the keys."""
        if not self.live:
            return np.empty(0, np.intp), np.empty(0, np.intp)
        at = np.searchsorted(self.ascending, keys)
        np.minimum(at, self.live - 1, out=at)
        places = np.flatnonzero(self.ascending[at] == keys)
        at = at[places]
        return (at if self.order is None else self.order[at]), places

    def find_left_out(self, keys: Keys) -> Rows:
        """Return the rows of some ascending keys, and those that are removed."""
        return np.concatenate([self.dead, self.find_rows(keys)])

    def with_rows(self, keys: Keys, codes: Codes) -> "_State":
        """Return the state with the rows of ascending keys added, or replaced if they are here already."""
        start, end = self.count, self.count + len(keys)
        state = self._with_room(end)
        state.keys[start:end] = keys
        state.codes[start:end] = codes
        state.weights[start:end] = _inverse_lengths(codes)
        if self.order is None and (not start or not len(keys) or keys[0] > self.keys[start - 1]):
            return replace(state, count=end, ascending=state.keys[:end])
        return replace(state, count=end)._without_rows(self.find_rows(keys))

    def without_keys(self, keys: Keys) -> "_State":
        """Return the state without these ascending keys."""
        removed = self.find_rows(keys)
        return self._without_rows(removed) if len(removed) else self

    def compact(self) -> "_State":
        """Return the live rows in the order of their keys, once the dead ones have become many."""
        if self.order is None or len(self.dead) <= _MAX_DEAD_SHARE * self.count:
            return self
        codes, weights = self.codes.take(self.order, axis=0), self.weights[self.order]
        return _State(self.ascending, codes, weights, self.live, np.empty(0, np.intp), self.ascending, None)

    def _without_rows(self, rows: Rows) -> "_State":
        """Return the state with these rows marked as dead, and the others put in order."""
        dead = np.concatenate([self.dead, rows])
        alive = np.ones(self.count, np.bool_)
        alive[dead] = False
        order = np.flatnonzero(alive)
        keys = self.keys[order]
        # Stable, because that sort is fast on rows in order, and nearly all are.
        sort = np.argsort(keys, kind="stable")
        return replace(self, dead=dead, ascending=keys[sort], order=order[sort])

    def _with_room(self, rows: int) -> "_State":
        """Return arrays with room for `rows`; moved ones grow by half, so that appends are cheap."""
        if rows <= len(self.keys):
            return self
        room = max(rows, self.count + self.count // 2, _BLOCK_ROWS)
        keys, weights = np.empty(room, np.int64), np.empty(room, np.float32)
        codes = np.empty((room, self.codes.shape[1]), self.codes.dtype)
        keys[: self.count] = self.keys[: self.count]
        codes[: self.count] = self.codes[: self.count]
        weights[: self.count] = self.weights[: self.count]
        return replace(self, keys=keys, codes=codes, weights=weights)


def _inverse_lengths(codes: Codes) -> Scores:
    """Return one over the length of each row; zero for a row of zeros, which is similar to nothing."""
    if codes.dtype != np.int8:  # of unit length already
        return np.ones(len(codes), np.float32)
    weights, squares = np.zeros(len(codes), np.float32), _squares(codes)
    np.divide(1, np.sqrt(squares), out=weights, where=squares > 0, casting="same_kind")
    return weights


def _select_best(keys: Keys, scores: Scores, k: int) -> tuple[Keys, Scores]:
    """
    Return the k highest scores with their keys, in order.

    Sorting or partitioning everything would take as long as the scan itself. The k-th highest of the maxima of many
    groups is a floor that the k highest scores reach, since k groups do: little is left to sort.
    """
    if k <= 0:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    groups = _GROUPS_PER_RESULT * k
    height = len(scores) // groups
    pool = scores[: height * groups].reshape(height, groups).max(axis=0) if height > 1 else scores
    floor = np.partition(pool, len(pool) - k)[len(pool) - k]
    rows = np.flatnonzero(scores >= floor)
    rows = rows[np.lexsort((keys[rows], -scores[rows]))[:k]]
    return keys[rows], scores[rows]


def _multiply(code: NDArray[Any], codes: Codes) -> Scores:
    """Return the products of one code with each of many; none depends on the others."""
    if codes.dtype == np.int8:
        return _dot_products(code, codes)
    scores = np.empty(len(codes), np.float32)
    for start in range(0, len(codes), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        scores[part] = np.einsum("ij,j->i", codes[part].astype(np.float64), code)
    return scores


def _dot_products_numpy(code: Codes, codes: Codes) -> Scores:
    """Return the dot product of one code with each of many."""
    # A sum of whole numbers is exact in a float as long as it fits the mantissa.
    exact: type[np.floating] = np.float32 if 128 * 128 * codes.shape[1] <= 2**24 else np.float64
    wide = code.astype(exact)
    dots = np.empty(len(codes), np.float32)
    for start in range(0, len(codes), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        dots[part] = np.matmul(codes[part].astype(exact), wide)
    return dots


def _squares_numpy(codes: Codes) -> NDArray[np.float64]:
    """Return the dot product of each code with itself."""
    squares = np.empty(len(codes), np.float64)
    for start in range(0, len(codes), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        wide = codes[part].astype(np.int32)
        squares[part] = np.einsum("ij,ij->i", wide, wide)
    return squares


def _load_kernels() -> tuple[Callable[[Codes, Codes], Scores], Callable[[Codes], NDArray[np.float64]]]:
    """Return the fastest dot products and squares that this machine has; all give the same numbers."""
    try:
        import simsimd
    except ImportError:  # no wheel for this platform
        return _dot_products_numpy, _squares_numpy

    def dot_products_simsimd(code: Codes, codes: Codes) -> Scores:
        if not len(codes):
            return np.empty(0, np.float32)
        # Never with `out=`: that call drops a reference to None it does not own, which in time ends Python 3.11.
        dots: Scores = np.asarray(simsimd.cdist(code[np.newaxis], codes, metric="dot", out_dtype="float32"))[0]
        return dots

    def squares_simsimd(codes: Codes) -> NDArray[np.float64]:
        if len(codes) < 2:  # of one row it makes a number
            return _squares_numpy(codes)
        squares: NDArray[np.float64] = np.asarray(simsimd.dot(codes, codes))
        return squares

    return dot_products_simsimd, squares_simsimd


_dot_products, _squares = _load_kernels()
