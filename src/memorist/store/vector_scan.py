"""
The in-process vector scan: every vector of one model as int8 codes, found by brute force.

A vector becomes small integers whose direction is the vector's; how long the row of integers is does not matter,
because a similarity divides by it. So no scale has to be stored beside a code, and what is lost is rounding alone:
each row uses the whole range of an int8.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Keys = NDArray[np.int64]
Codes = NDArray[np.int8]
Scores = NDArray[np.float32]
Rows = NDArray[np.intp]

KEY_BYTES = 8
BLOCK = 1024  # rows converted at a time where numpy needs wider numbers: they stay in the processor's cache
GATHER_BELOW = 1 / 8  # picking single rows costs several times what passing over them does
GROUPS_PER_RESULT = 8  # see `_best`: a floor that lets about 7 % more than the wanted rows through
DEAD_ABOVE = 1 / 4  # removed rows still cost time to pass over; past this share they are cleared away

# Of a text with many parts, one is near to almost anything: the whole of it counts as much as the nearest part. Of one
# with few parts, the nearest counts alone. Looked at on LoCoMo and SciFact's train part: docs/quality.md.
FEW_PARTS, MANY_PARTS = 2, 6
WHOLE_SHARE = 0.5


def encode(vectors: NDArray[np.float16] | NDArray[np.float32]) -> Codes:
    """The codes of vectors: each row stretched so that its largest part is 127, and rounded."""
    wide = np.asarray(vectors, np.float32)
    largest = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
    codes: Codes = np.rint(wide / np.where(largest > 0, largest, 1) * 127).astype(np.int8)
    return codes


def pack(keys: Keys, codes: Codes) -> bytes:
    """Keys and their codes as one blob, the same on every machine."""
    if codes.ndim != 2 or keys.shape != codes.shape[:1]:
        raise ValueError(f"{keys.shape} keys do not fit codes of shape {codes.shape}")
    return keys.astype("<i8").tobytes() + codes.astype(np.int8).tobytes()


def row_bytes(dimensions: int) -> int:
    """How much a packed row takes."""
    return KEY_BYTES + dimensions


def unpack(blob: bytes, dimensions: int) -> tuple[Keys, Codes]:
    """What `pack` packed, as views into the blob."""
    count, rest = divmod(len(blob), row_bytes(dimensions))
    if rest:
        raise ValueError(f"a blob of {len(blob)} bytes does not hold whole rows of {dimensions} dimensions")
    keys = np.frombuffer(blob, "<i8", count).astype(np.int64, copy=False)
    return keys, np.frombuffer(blob, np.int8, offset=count * KEY_BYTES).reshape(count, dimensions)


def with_parts(whole: ArrayLike, nearest: ArrayLike, parts: ArrayLike) -> NDArray[np.float64]:
    """How near texts are, by how near they are as a whole, how near their nearest part is, and how many there are."""
    share = np.interp(np.asarray(parts, np.float64), (FEW_PARTS, MANY_PARTS), (0.0, WHOLE_SHARE))
    both = share * np.maximum(whole, 0.0) + (1.0 - share) * np.asarray(nearest, np.float64)
    return np.where(np.greater(nearest, whole), both, whole)


class VectorScan:
    """
    Every vector of one model in memory as int8 codes, found by brute force.

    Any thread may search while another writes: a search takes the state there is and keeps it to its end, and a
    write builds the next state out of sight of it.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._write = threading.Lock()
        self._state = _State.sorted(np.empty(0, np.int64), np.empty((0, dimensions), np.int8), 0)

    def __len__(self) -> int:
        return self._state.live

    @property
    def keys(self) -> Keys:
        """All keys there are, ascending."""
        return self._state.ascending

    def load(self, parts: Iterable[tuple[Keys, Codes]], count: int) -> None:
        """Replace everything with these parts, `count` rows in all, copied into one; keys ascend through all."""
        keys, codes = np.empty(count + BLOCK, np.int64), np.empty((count + BLOCK, self.dimensions), np.int8)
        end = 0
        for some_keys, some_codes in parts:
            start, end = end, end + len(some_keys)
            if end > count or some_codes.shape != (len(some_keys), self.dimensions):
                raise ValueError(f"{len(some_keys)} keys and codes {some_codes.shape} do not fit")
            keys[start:end], codes[start:end] = some_keys, some_codes
        if end != count or not _ascend(keys[:count]):
            raise ValueError("keys have to ascend, each there once, and as many as announced")
        state = _State.sorted(keys, codes, count)
        with self._write:
            self._state = state

    def put(self, keys: ArrayLike, vectors: NDArray[np.float16] | NDArray[np.float32]) -> None:
        """Add or replace vectors. Where a key is named twice, its last vector counts."""
        named = np.asarray(keys, np.int64)
        if np.shape(vectors) != (len(named), self.dimensions):
            raise ValueError(f"{len(named)} keys of {self.dimensions} dimensions do not fit {np.shape(vectors)}")
        codes = encode(vectors)
        if not _ascend(named):
            # Reversed, the stable sort inside `unique` finds the last of equal keys first.
            named, last = np.unique(named[::-1], return_index=True)
            codes = codes[::-1][last]
        with self._write:
            self._state = self._state.plus(named, codes).tidied()

    def remove(self, keys: ArrayLike) -> None:
        """Forget these keys; those that are not there are no error."""
        named = _distinct(np.asarray(keys, np.int64))
        with self._write:
            self._state = self._state.minus(named).tidied()

    def nearest(self, query: NDArray[np.float32], k: int, among: ArrayLike | None = None) -> tuple[Keys, Scores]:
        """
        The k keys most similar to the query with their cosine similarities, best first, ties by lower key.

        With `among`, only these keys count; unknown ones are ignored, and k come back whenever k of them are here.
        """
        if np.shape(query) != (self.dimensions,):
            raise ValueError(f"a query of shape {np.shape(query)} cannot be compared in {self.dimensions} dimensions")
        state = self._state
        code = encode(query[np.newaxis])
        scale = _weights(code)
        if among is None:
            keys, scores = state.keys[: state.count], state.similarities(code[0], scale)
            scores[state.dead] = -np.inf
            return _best(keys, scores, min(k, state.live))
        rows = state.find(_distinct(np.asarray(among, np.int64)))
        if len(rows) < GATHER_BELOW * state.count:
            scores = state.similarities_of(rows, code[0], scale)
        else:
            scores = state.similarities(code[0], scale)[rows]
        return _best(state.keys[rows], scores, min(k, len(rows)))


@dataclass(frozen=True, slots=True)
class _State:
    """
    The scan at one moment. The first `count` rows of its arrays are never written again, so readers need no lock;
    the rows after them are room that the next state grows into.

    New rows go to the end and removed or replaced ones are only marked, because to move hundreds of megabytes for
    one changed memory would be slow. `ascending` and `order` find the row of a key.
    """

    keys: Keys
    codes: Codes
    weights: Scores  # one over the length of each row's codes
    count: int
    dead: Rows  # rows removed or replaced
    ascending: Keys  # the keys of the live rows
    order: Rows | None  # the live rows by ascending key; None while that is simply every row

    @classmethod
    def sorted(cls, keys: Keys, codes: Codes, count: int) -> "_State":
        """A state of arrays whose first `count` rows ascend by key; the rest is room."""
        weights = np.empty(len(keys), np.float32)
        weights[:count] = _weights(codes[:count])
        return cls(keys, codes, weights, count, np.empty(0, np.intp), keys[:count], None)

    @property
    def live(self) -> int:
        return self.count - len(self.dead)

    def similarities(self, code: Codes, scale: Scores) -> Scores:
        """Of every row to the query, dead ones included."""
        scores = _dots(code, self.codes[: self.count])
        scores *= self.weights[: self.count]
        scores *= scale
        return scores

    def similarities_of(self, rows: Rows, code: Codes, scale: Scores) -> Scores:
        """Of some rows to the query."""
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            scores[part] = _dots(code, self.codes.take(rows[part], axis=0))
        scores *= self.weights[rows]
        scores *= scale
        return scores

    def find(self, keys: Keys) -> Rows:
        """The rows of those of the ascending keys that are here, in the same order."""
        if not self.live:
            return np.empty(0, np.intp)
        places = np.searchsorted(self.ascending, keys)
        np.minimum(places, self.live - 1, out=places)
        places = places[self.ascending[places] == keys]
        rows: Rows = places if self.order is None else self.order[places]
        return rows

    def plus(self, keys: Keys, codes: Codes) -> "_State":
        """The state with ascending keys added, or replaced where they are already here."""
        start, end = self.count, self.count + len(keys)
        state = self._with_room(end)
        state.keys[start:end] = keys
        state.codes[start:end] = codes
        state.weights[start:end] = _weights(codes)
        if self.order is None and (not start or not len(keys) or keys[0] > self.keys[start - 1]):
            return replace(state, count=end, ascending=state.keys[:end])
        return replace(state, count=end)._without(self.find(keys))

    def minus(self, keys: Keys) -> "_State":
        """The state without these ascending keys."""
        gone = self.find(keys)
        return self._without(gone) if len(gone) else self

    def tidied(self) -> "_State":
        """The same vectors in order of their keys and without the dead rows, once those have become many."""
        if self.order is None or len(self.dead) <= DEAD_ABOVE * self.count:
            return self
        codes, weights = self.codes.take(self.order, axis=0), self.weights[self.order]
        return _State(self.ascending, codes, weights, self.live, np.empty(0, np.intp), self.ascending, None)

    def _without(self, rows: Rows) -> "_State":
        """The state with these rows marked as dead, and the others put in order."""
        dead = np.concatenate([self.dead, rows])
        alive = np.ones(self.count, np.bool_)
        alive[dead] = False
        order = np.flatnonzero(alive)
        keys = self.keys[order]
        # Stable, because that sort takes what is in order as it is, and nearly everything is.
        sort = np.argsort(keys, kind="stable")
        return replace(self, dead=dead, ascending=keys[sort], order=order[sort])

    def _with_room(self, rows: int) -> "_State":
        """Arrays with room for so many rows; half as many again when they have to move, so that appends are cheap."""
        if rows <= len(self.keys):
            return self
        room = max(rows, self.count + self.count // 2, BLOCK)
        keys, weights = np.empty(room, np.int64), np.empty(room, np.float32)
        codes = np.empty((room, self.codes.shape[1]), np.int8)
        keys[: self.count] = self.keys[: self.count]
        codes[: self.count] = self.codes[: self.count]
        weights[: self.count] = self.weights[: self.count]
        return replace(self, keys=keys, codes=codes, weights=weights)


def _ascend(keys: Keys) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def _distinct(keys: Keys) -> Keys:
    """The keys ascending, each once."""
    if _ascend(keys):
        return keys
    ascending = np.sort(keys)
    once: Keys = ascending[np.concatenate([[True], ascending[1:] != ascending[:-1]])]
    return once


def _weights(codes: Codes) -> Scores:
    """One over the length of each row; zero for a row of zeros, which is similar to nothing."""
    weights = np.zeros(len(codes), np.float32)
    for start in range(0, len(codes), BLOCK):
        part = slice(start, start + BLOCK)
        wide = codes[part].astype(np.int32)
        squares = np.einsum("ij,ij->i", wide, wide)
        np.divide(1, np.sqrt(squares, dtype=np.float64), out=weights[part], where=squares > 0, casting="same_kind")
    return weights


def _best(keys: Keys, scores: Scores, k: int) -> tuple[Keys, Scores]:
    """
    The k highest scores with their keys, in order.

    To sort or to partition everything takes as long as the scan itself. The k-th highest of the maxima of many
    groups is a floor below which none of the k highest can be, since k groups reach it: little is left to sort.
    """
    if k <= 0:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    groups = GROUPS_PER_RESULT * k
    height = len(scores) // groups
    pool = scores[: height * groups].reshape(height, groups).max(axis=0) if height > 1 else scores
    floor = np.partition(pool, len(pool) - k)[len(pool) - k]
    rows = np.flatnonzero(scores >= floor)
    rows = rows[np.lexsort((keys[rows], -scores[rows]))[:k]]
    return keys[rows], scores[rows]


def _dots_numpy(code: Codes, codes: Codes) -> Scores:
    """The dot product of one code with each of many."""
    # A sum of whole numbers is exact in a float as long as it fits the mantissa.
    exact: type[np.floating] = np.float32 if 128 * 128 * codes.shape[1] <= 2**24 else np.float64
    wide = code.astype(exact)
    dots = np.empty(len(codes), np.float32)
    for start in range(0, len(codes), BLOCK):
        part = slice(start, start + BLOCK)
        dots[part] = np.matmul(codes[part].astype(exact), wide)
    return dots


def _kernel() -> Callable[[Codes, Codes], Scores]:
    """The fastest way to dot products this machine has; all give the same numbers."""
    try:
        import simsimd
    except ImportError:  # no wheel for this platform
        return _dots_numpy

    def dots_simsimd(code: Codes, codes: Codes) -> Scores:
        if not len(codes):
            return np.empty(0, np.float32)
        # Never with `out=`: that call drops a reference to None it does not own, which in time ends Python 3.11.
        dots: Scores = np.asarray(simsimd.cdist(code[np.newaxis], codes, metric="dot", out_dtype="float32"))[0]
        return dots

    return dots_simsimd


_dots = _kernel()
