"""The parts of memories that are too long for one vector: each has its own, and speaks for the whole memory."""

from collections.abc import Iterable, Sequence

import apsw
import numpy as np
from numpy.typing import NDArray

from recollect.store.base import Part
from recollect.store.sqlite_pool import fetch
from recollect.store.vectors import VectorScan

_PARTS = """(
    select group_concat(p.first || ':' || p.last || ':' || hex(p.vector), ' ')
    from part_vectors p
    where p.rid = m.rid and p.model = (select model from models where name = :model))"""

Keys = NDArray[np.int64]
Scores = NDArray[np.float32]


def parts(*, then: bool) -> str:
    """The parts of a memory `m`, for `nearest_part`; null where it has none, as most, or said something else then."""
    return f"case when not m.reworded then {_PARTS} end" if then else _PARTS


def put(connection: apsw.Connection, model: int, parts: Sequence[Part], halves: NDArray[np.float16]) -> None:
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


def nearest_part(parts: str, vector: NDArray[np.float32]) -> tuple[float, tuple[int, int]]:
    """How similar the nearest of a memory's parts is, exactly, and which characters of the content it is."""
    spans, blobs = [], []
    for part in parts.split():
        first, last, blob = part.split(":")
        spans.append((int(first), int(last)))
        blobs.append(bytes.fromhex(blob))
    matrix = np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), -1).astype(np.float64)
    scores = np.einsum("ij,j->i", matrix, vector.astype(np.float64))
    best = int(scores.argmax())
    return float(scores[best]), spans[best]


class Parts:
    """The parts of one namespace in memory, found in the place of their memories."""

    def __init__(self, dimensions: int) -> None:
        self._scan = VectorScan(dimensions)
        self._dimensions = dimensions
        self._parts: Keys = np.empty(0, np.int64)  # ascending
        self._owners: Keys = np.empty(0, np.int64)  # the memory of each

    def read(self, connection: apsw.Connection, namespace: str, model: str, keys: Iterable[int] | None = None) -> None:
        """Take in the parts of all live memories; or of some anew, whatever has become of them."""
        chosen = None if keys is None else np.fromiter(keys, np.int64)
        if chosen is not None and len(chosen):
            gone = np.isin(self._owners, chosen)
            self._scan.remove(self._parts[gone])
            self._parts, self._owners = self._parts[~gone], self._owners[~gone]
        some = "" if chosen is None else "and p.rid in (select value from json_each(:keys))"
        rows = fetch(
            connection,
            f"""
            select p.part, p.rid, p.vector
            from part_vectors p cross join memories m on m.rid = p.rid
            where p.model = (select model from models where name = :model)
              and m.namespace = :namespace and m.deleted_at is null {some}
            order by p.part
            """,
            {"namespace": namespace, "model": model, **({} if chosen is None else {"keys": str(chosen.tolist())})},
        )
        if rows:
            parts, owners, blobs = zip(*rows, strict=True)
            self._scan.put(parts, np.frombuffer(b"".join(blobs), np.float16).reshape(-1, self._dimensions))
            order = np.argsort(joined := np.concatenate([self._parts, np.array(parts, np.int64)]))
            owned = np.concatenate([self._owners, np.array(owners, np.int64)])
            self._parts, self._owners = joined[order], owned[order]

    def better(
        self, keys: Keys, scores: Scores, vector: NDArray[np.float32], k: int, among: Keys | None
    ) -> tuple[Keys, Scores]:
        """The nearest memories, where a part may be nearer than the whole."""
        if not len(self._parts):
            return keys, scores
        allowed = None if among is None else self._parts[np.isin(self._owners, among)]
        # Several of the nearest parts may be of one memory.
        parts, near = self._scan.nearest(vector, 4 * k, allowed)
        owners = self._owners[np.searchsorted(self._parts, parts)]
        every, closest = np.concatenate([keys, owners]), np.concatenate([scores, near])
        order = np.lexsort((every, -closest))
        _, first = np.unique(every[order], return_index=True)
        best = order[np.sort(first)[:k]]
        return every[best], closest[best]
