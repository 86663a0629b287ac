"""
The parts of memories: a few sentences each, with a vector of their own.

In memory, a part's key is that of its memory and its number within it, so that whose it is need not be looked up.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import apsw
import numpy as np
from numpy.typing import NDArray

from memorist.errors import StoreCorrupt
from memorist.store.base import PART_BITS, Part
from memorist.store.sqlite_pool import fetch, value
from memorist.store.vectors import VectorScan, with_parts

LOOKED_AT = 4  # times as many parts as memories are wanted: several of the nearest may be of one

Keys = NDArray[np.int64]
Scores = NDArray[np.float32]
Halves = NDArray[np.float16]


def put(connection: apsw.Connection, model: int, parts: Sequence[Part], halves: Halves) -> None:
    """Store the vectors of parts; those a memory had before went when its own vector did."""
    connection.executemany(
        """
        insert into part_vectors(rid, model, first, last, vector)
        select rid, ?2, ?3, ?4, ?5 from memories where rid = ?1 and title is ?6 and content = ?7
        """,
        [
            (part.text.key, model, part.first, part.last, half.tobytes(), part.text.title, part.text.content)
            for part, half in zip(parts, halves, strict=True)
        ],
    )


@dataclass(frozen=True, slots=True)
class NearestPart:
    """How similar the nearest of a memory's parts is, exactly, which characters it is, and of how many parts."""

    similarity: float
    span: tuple[int, int]
    of: int


def nearest_parts(
    connection: apsw.Connection, model: str, memories: Sequence[int], vector: NDArray[np.float32]
) -> dict[int, NearestPart]:
    """The nearest part of each of these memories that has parts."""
    found = fetch(
        connection,
        """
        select p.rid, p.first, p.last, p.vector
        from json_each(:memories) k
        cross join part_vectors p on p.rid = k.value
        where p.model = (select model from models where name = :model)
        order by p.rid, p.part
        """,
        {"memories": json.dumps(memories), "model": model},
    )
    if any(len(blob) != 2 * len(vector) for *_, blob in found):
        raise StoreCorrupt("a stored vector is damaged: its length is wrong; `memorist check --repair` makes it anew")
    matrix = np.frombuffer(b"".join(blob for *_, blob in found), np.float16).reshape(len(found), len(vector))
    # Row by row in double: a similarity must not depend on which others are computed beside it.
    scores = np.einsum("ij,j->i", matrix.astype(np.float64), vector.astype(np.float64)).tolist()
    nearest: dict[int, NearestPart] = {}
    for (rid, first, last, _), score in zip(found, scores, strict=True):
        best = nearest.get(rid)
        if best is None or score > best.similarity:
            nearest[rid] = NearestPart(score, (first, last), best.of + 1 if best else 1)
        else:
            nearest[rid] = replace(best, of=best.of + 1)
    return nearest


def live_rows(
    connection: apsw.Connection, table: str, order: str, namespace: str, model: int, among: str, values: Iterable[int]
) -> list[tuple[int, bytes]]:
    """Vectors of live memories, with their memories: those of a table `among` some values, each `b.value` there."""
    found = fetch(
        connection,
        f"""
        select v.rid, v.vector
        from json_each(:values) b
        cross join {table} v on {among}
        cross join memories m on m.rid = v.rid
        where v.model = :model and m.namespace = :namespace and m.deleted_at is null
        order by {order}
        """,
        {"values": json.dumps(list(values)), "model": model, "namespace": namespace},
    )
    return [(rid, vector) for rid, vector in found]


def rows(
    connection: apsw.Connection, namespace: str, model: int, among: str, values: Iterable[int]
) -> list[tuple[int, bytes]]:
    """The parts of live memories by their keys, in order; `among` as in `live_rows`."""
    found = live_rows(connection, "part_vectors", "v.rid, v.part", namespace, model, among, values)
    owners = np.array([rid for rid, _ in found], np.int64)
    keys = (owners << PART_BITS) | (np.arange(len(owners)) - np.searchsorted(owners, owners))
    return list(zip(keys.tolist(), (blob for _, blob in found), strict=True))


class Parts:
    """The parts of one namespace in memory."""

    def __init__(self, dimensions: int) -> None:
        self.scan = VectorScan(dimensions)

    def follow(self, connection: apsw.Connection, namespace: str, model: str, memories: Iterable[int]) -> None:
        """Take in the parts of some memories anew, whatever has become of them."""
        changed = np.sort(np.fromiter(memories, np.int64))
        number = value(connection, "select model from models where name = ?", (model,))
        self.scan.remove(self._of(changed))
        if number is None:
            return
        found = rows(connection, namespace, number, "v.rid = b.value", changed.tolist())
        if found:
            halves = np.frombuffer(b"".join(blob for _, blob in found), np.float16)
            self.scan.put([key for key, _ in found], halves.reshape(len(found), self.scan.dimensions))

    def nearest(
        self, wholes: VectorScan, vector: NDArray[np.float32], k: int, among: Keys | None
    ) -> tuple[Keys, Scores]:
        """The nearest memories, by themselves and by their parts; `among` ascends."""
        keys, scores = wholes.nearest(vector, k, among)
        if not len(self.scan):
            return keys, scores
        parts, _ = self.scan.nearest(vector, LOOKED_AT * k, None if among is None else self._of(among))
        every = np.union1d(keys, parts >> PART_BITS)
        keys, scores = wholes.nearest(vector, len(every), every)
        order = np.argsort(keys)
        keys, scores = keys[order], scores[order]
        theirs = self._of(keys)
        parts, near = self.scan.nearest(vector, len(theirs), theirs)
        owners = np.searchsorted(keys, parts >> PART_BITS)
        nearest = np.full(len(keys), -1.0, np.float32)
        np.maximum.at(nearest, owners, near)
        scores = with_parts(scores, nearest, np.bincount(owners, minlength=len(keys))).astype(np.float32)
        best = np.lexsort((keys, -scores))[:k]
        return keys[best], scores[best]

    def _of(self, memories: Keys) -> Keys:
        """The keys of all parts of memories, which ascend."""
        there = self.scan.keys
        first = np.searchsorted(there, memories << PART_BITS)
        many = np.searchsorted(there, (memories + 1) << PART_BITS) - first
        before = np.cumsum(many) - many
        theirs: Keys = there[np.repeat(first - before, many) + np.arange(many.sum())]
        return theirs
