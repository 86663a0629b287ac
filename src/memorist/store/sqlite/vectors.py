"""Vectors in SQLite, and the scan in memory that follows them.

`cross join` and `+column` tell SQLite which table to begin with: left to itself it walks through every memory of the
namespace, in each of these statements.

The parts of memories: a few sentences each, with a vector of their own.

In memory, a part's key is that of its memory and its number within it, so that whose it is need not be looked up.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from memorist.errors import EmbedderError, StoreCorrupt
from memorist.forks import renew_after_fork
from memorist.records import NO_FILTER, Filter, Match
from memorist.store.base import PART_BITS, EmbeddingJob, Model, Part, Scope, VectorMatches
from memorist.store.sqlite import as_of
from memorist.store.sqlite.connections import ConnectionPool, fetch, value
from memorist.store.sqlite.filters import conditions
from memorist.store.vector_scan import VectorScan, encode, pack, row_bytes, unpack, with_parts

METRIC = "cosine"
BLOCK_BITS = 10  # a packed block has 1024 neighbouring rids; the triggers' `rid >> 10`
LOG_KEPT = 20_000  # changes a scan may lag behind before it reads everything again
FILTER_FIRST_LOOK = 8  # how many times the wanted number is checked against a filter before its whole set is read
NARROW_KEPT = 200  # filters remembered to be narrow
SUPERSEDED_FIRST_LOOK = 2  # the same where only superseded ones are left out, of which there are few


class SqliteVectors:
    """The vectors of one namespace."""

    def __init__(self, pool: ConnectionPool, namespace: str) -> None:
        self._pool = pool
        self._namespace = namespace
        self._lock = threading.Lock()
        self._mirror: _Mirror | None = None
        self._narrow: set[Filter] = set()
        renew_after_fork(self)

    def pending(self, after: int, limit: int) -> list[EmbeddingJob]:
        sql = """
            select m.rid, m.title, m.content
            from unembedded u
            cross join memories m on m.rid = u.rid
            where u.rid > ? and m.namespace = ? and m.deleted_at is null
            order by u.rid
            limit ?
        """
        with self._pool.reading() as connection:
            return [EmbeddingJob(*row) for row in fetch(connection, sql, (after, self._namespace, limit))]

    def without_vector(self, model: Model, after: int, limit: int) -> list[EmbeddingJob]:
        sql = """
            select m.rid, m.title, m.content
            from memories m
            where m.rid > :after and +m.namespace = :namespace and m.deleted_at is null
              and (m.rid in (select rid from uncut) or not exists (
                select 1 from vectors v
                where v.rid = m.rid and v.model = (select model from models where name = :model)))
            order by m.rid
            limit :limit
        """
        values = {"after": after, "namespace": self._namespace, "model": model.name, "limit": limit}
        with self._pool.reading() as connection:
            return [EmbeddingJob(*row) for row in fetch(connection, sql, values)]

    def put(
        self, model: Model, texts: Sequence[EmbeddingJob], vectors: NDArray[np.float32], parts: Sequence[Part] = ()
    ) -> None:
        """Store vectors for texts that still say what they said when they were embedded, and for parts of them."""
        with self._pool.writing() as connection:
            self.store(connection, model, texts, vectors, parts)

    def store(
        self,
        connection: apsw.Connection,
        model: Model,
        texts: Sequence[EmbeddingJob],
        vectors: NDArray[np.float32],
        parts: Sequence[Part] = (),
    ) -> None:
        """The same, within a larger change."""
        halves = vectors.astype(np.float16)
        number = _register(connection, model)
        connection.executemany(
            """
            insert into vectors(rid, model, vector)
            select rid, ?2, ?3 from memories where rid = ?1 and title is ?4 and content = ?5
            on conflict (rid, model) do update set vector = excluded.vector
            """,
            [
                (text.key, number, half.tobytes(), text.title, text.content)
                for text, half in zip(texts, halves[: len(texts)], strict=True)
            ],
        )
        put_parts(connection, number, parts, halves[len(texts) :])
        connection.execute("delete from vector_log where seq <= (select max(seq) from vector_log) - ?", (LOG_KEPT,))
        self._pack_full_blocks(connection, number, model.dimensions)

    def _pack_full_blocks(self, connection: apsw.Connection, number: int, dimensions: int) -> None:
        """Pack the blocks no new memory will join any more."""
        open_blocks = fetch(
            connection,
            f"""
            select block from vector_blocks
            where model = ? and namespace = ? and data is null
              and block < (select max(rid) from memories) >> {BLOCK_BITS}
            """,
            (number, self._namespace),
        )
        for (block,) in open_blocks:
            try:
                keys, halves = _arrays(block_rows(connection, self._namespace, number, [block]), dimensions)
                part_keys, part_halves = _arrays(part_rows(connection, self._namespace, number, [block]), dimensions)
            except ValueError:  # a row is damaged: `check` tells of it, and its block stays open
                continue
            parts = pack(part_keys, encode(part_halves)) if len(part_keys) else None
            connection.execute(
                "update vector_blocks set data = ?, parts = ? where model = ? and namespace = ? and block = ?",
                (pack(keys, encode(halves)), parts, number, self._namespace, block),
            )

    def drop_others(self, model: Model) -> int:
        """Drop this namespace's vectors of other models; what is left with none waits for one."""
        mine = "rid in (select rid from memories where namespace = :namespace)"
        with self._pool.writing() as connection:
            values = {"model": _register(connection, model), "namespace": self._namespace}
            connection.execute(f"delete from vectors where model <> :model and {mine}", values)
            dropped = connection.changes()
            connection.execute(f"delete from old_vectors where model <> :model and {mine}", values)
            connection.execute("delete from vector_blocks where model <> :model and namespace = :namespace", values)
            connection.execute(
                f"""
                insert or ignore into unembedded(rid)
                select rid from memories where {mine} and rid not in (select rid from vectors)
                """,
                values,
            )
            connection.execute(
                """
                delete from models
                where model not in (select model from vectors) and model not in (select model from vector_blocks)
                  and model not in (select model from old_vectors) and model <> :model
                """,
                {"model": values["model"]},
            )
            return dropped

    def nearest(self, model: Model, vector: NDArray[np.float32], scope: Scope, limit: int) -> VectorMatches:
        mirror = self._current(model)
        if mirror is None:
            with self._pool.reading() as connection:
                total = _live(connection, self._namespace)
            return VectorMatches([], total, total)
        matches, unfiltered = self._nearest(mirror, vector, scope, limit)
        if scope.filter.as_of is not None:
            matches = sorted(
                matches + self._then(model, vector, scope.filter), key=lambda each: (-each.score, each.key)
            )
        return VectorMatches(matches[:limit], mirror.total - len(mirror.scan), mirror.total, unfiltered)

    def have_parts(self, model: Model) -> bool:
        """Whether any memory has parts, or may have: where none has, nobody need ask for them."""
        mirror = self._mirror
        return mirror is None or mirror.model != model or len(mirror.parts.scan) > 0

    def _then(self, model: Model, vector: NDArray[np.float32], filter: Filter) -> list[Match]:
        """What has changed since the time that is asked about, compared as it was."""
        with self._pool.reading() as connection:
            rows = as_of.vectors(connection, self._namespace, filter, model.name)
        if not rows:
            return []
        halves = np.frombuffer(b"".join(blob for _, blob in rows), np.float16).reshape(len(rows), -1)
        return _matches(np.array([rid for rid, _ in rows], np.int64), halves.astype(np.float32) @ vector)

    def _nearest(
        self, mirror: "_Mirror", vector: NDArray[np.float32], scope: Scope, limit: int
    ) -> tuple[list[Match], list[Match]]:
        """What passes the filter, and what there was without it."""
        filter = scope.filter
        if filter == NO_FILTER:
            found = mirror.nearest(vector, limit)
            return found, found
        # A filter that lets much through is cheapest asked of the best few; if too few of them pass, the set of all
        # that pass is read and only those are compared. Either way it is what a scan of all would find.
        look = limit * (SUPERSEDED_FIRST_LOOK if replace(filter, superseded=True) == NO_FILTER else FILTER_FIRST_LOOK)
        if scope.keys is not None or filter in self._narrow or len(mirror.scan) <= look:
            matches = mirror.nearest(vector, limit, self._passing(filter) if scope.keys is None else _keys(scope.keys))
            return matches, matches if len(matches) == limit else mirror.nearest(vector, limit)
        keys, similarities = mirror.look(vector, look)
        kept = np.isin(keys, self._passing(filter, keys))
        unfiltered = _matches(keys[:limit], similarities[:limit])
        if np.count_nonzero(kept) < limit:
            self._remember(filter)
            return mirror.nearest(vector, limit, self._passing(filter)), unfiltered
        return _matches(keys[kept][:limit], similarities[kept][:limit]), unfiltered

    def _remember(self, filter: Filter) -> None:
        """A filter that lets too few through for a first look to be worth it; the next time there is none."""
        with self._lock:
            if len(self._narrow) >= NARROW_KEPT:
                self._narrow.clear()
            self._narrow.add(filter)

    def _passing(self, filter: Filter, keys: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """All that passes a filter; or which of some keys do."""
        where, values = conditions(filter)
        mine, values["namespace"] = "m.namespace = :namespace", self._namespace
        if keys is not None:
            mine = f"m.rid in (select value from json_each(:keys)) and +{mine}"
            values["keys"] = json.dumps(keys.tolist())
        sql = f"select json_group_array(m.rid) from memories m where {mine} and m.deleted_at is null {where}"
        with self._pool.reading() as connection:
            return _keys(value(connection, sql, values))

    def _current(self, model: Model) -> "_Mirror | None":
        """The scan, brought up to what is committed now; None where the model has no vectors yet."""
        try:
            with self._lock, self._pool.reading() as connection:
                mirror = self._mirror
                if mirror is not None and mirror.model == model and mirror.follow(connection):
                    return mirror
            with self._lock, self._pool.snapshot() as connection:
                self._mirror = _Mirror.load(connection, self._namespace, model)
                return self._mirror
        except ValueError as exc:
            raise StoreCorrupt(f"a stored vector is damaged ({exc}); `memorist check --repair` makes it anew") from exc

    def after_fork(self) -> None:
        """In a child: another thread of the parent may have held the lock, half-way through a change."""
        self._lock = threading.Lock()
        self._mirror = None


class _Column(NamedTuple):
    """A column of packed vectors: how those of open blocks are read, and by how much a block's number is shifted."""

    name: str
    rows: Callable[[apsw.Connection, str, int, Sequence[int]], list[tuple[int, bytes]]]
    bits: int


class _Mirror:
    """All live vectors of one model in memory, as of one place in the log."""

    def __init__(self, namespace: str, model: Model, position: int) -> None:
        self.model = model
        self.scan = VectorScan(model.dimensions)
        self.parts = PartScan(model.dimensions)
        self.total = 0  # how many memories there are to have a vector
        self._namespace = namespace
        self._position = position

    @classmethod
    def load(cls, connection: apsw.Connection, namespace: str, model: Model) -> "_Mirror | None":
        known = value(connection, "select model, dimensions, metric from models where name = ?", (model.name,))
        if known is None:
            return None
        _same_dimensions(model, known[1])
        if known[2] != METRIC:
            raise EmbedderError(
                f"the vectors of {model.name} were made to be compared by {known[2]}, not by {METRIC}: "
                "`memorist reembed` with another name for the model makes them anew"
            )
        position = value(connection, "select coalesce(max(seq), 0) from vector_log")
        mirror = cls(namespace, model, position)
        mirror._read_blocks(connection, known[0], mirror.scan, _WHOLES)
        mirror._read_blocks(connection, known[0], mirror.parts.scan, _PARTS)
        mirror.total = _live(connection, namespace)
        return mirror

    def nearest(self, vector: NDArray[np.float32], limit: int, among: NDArray[np.int64] | None = None) -> list[Match]:
        return _matches(*self.look(vector, limit, among))

    def look(
        self, vector: NDArray[np.float32], limit: int, among: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The nearest memories and how near they are, by themselves or by a part."""
        return self.parts.nearest(self.scan, vector, limit, among)

    def _read_blocks(self, connection: apsw.Connection, number: int, scan: VectorScan, column: "_Column") -> None:
        """Packed blocks one by one, so that none is held twice; the rows of open ones in their places between them."""
        owner, dimensions = (number, self._namespace), self.model.dimensions
        blocks = fetch(connection, f"select block, data is null, length({column.name}) {_BLOCKS}", owner)
        loose = [block for block, open, _ in blocks if open]
        keys, halves = _arrays(column.rows(connection, self._namespace, number, loose), dimensions)
        codes = encode(halves)

        def pieces() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int8]]]:
            for block, open, data in connection.execute(f"select block, data is null, {column.name} {_BLOCKS}", owner):
                if open:
                    here = slice(*np.searchsorted(keys, [block << column.bits, (block + 1) << column.bits]))
                    yield keys[here], codes[here]
                elif data is not None:
                    yield unpack(data, dimensions)

        packed = sum(size // row_bytes(dimensions) for _, open, size in blocks if not open and size is not None)
        scan.load(pieces(), packed + len(keys))

    def follow(self, connection: apsw.Connection) -> bool:
        """
        Take in what was logged since; False where the log no longer reaches back far enough.

        Memories are counted only while some are known to lack a vector of this model: texts that wait for one, or
        logged ones that have none.
        """
        (_, total, _, _), *news = fetch(
            connection,
            f"""
            select 0, case when :count or {_WAITING} then ({_LIVE}) end, null, null
            union all
            select l.seq, l.rid, case when m.deleted_at is null then v.vector end,
                m.rid is not null and m.deleted_at is null
            from vector_log l
            left join memories m on m.rid = l.rid and m.namespace = :namespace
            left join vectors v on v.rid = m.rid and v.model = (select model from models where name = :model)
            where l.seq > :position
            order by 1
            """,
            {
                "namespace": self._namespace,
                "model": self.model.name,
                "position": self._position,
                "count": self.total > len(self.scan),
            },
        )
        if news and news[0][0] != self._position + 1:
            return False
        latest = {rid: vector for _, rid, vector, _ in news}
        gone = [rid for rid, vector in latest.items() if vector is None]
        come = [rid for rid, vector in latest.items() if vector is not None]
        if gone:
            self.scan.remove(np.array(gone, np.int64))
        if come:
            self.scan.put(np.array(come, np.int64), _halves([latest[rid] for rid in come], self.model.dimensions))
        if news:
            self.parts.follow(connection, self._namespace, self.model.name, latest)
        self._position = news[-1][0] if news else self._position
        if total is None and any(live and vector is None for _, _, vector, live in news):  # another model's, or pruned
            total = _live(connection, self._namespace)
        self.total = len(self.scan) if total is None else total
        return True


_BLOCKS = "from vector_blocks where model = ? and namespace = ? order by block"
_LIVE = "select count(*) from memories indexed by memories_scope where namespace = :namespace and deleted_at is null"
_WAITING = """
    exists (
        select 1 from unembedded u cross join memories m on m.rid = u.rid
        where m.namespace = :namespace and m.deleted_at is null)
"""


def _live(connection: apsw.Connection, namespace: str) -> int:
    """How many memories there are to have a vector, counted in the smallest index that knows."""
    return int(value(connection, _LIVE, {"namespace": namespace}))


def _register(connection: apsw.Connection, model: Model) -> int:
    connection.execute(
        "insert into models(name, dimensions) values (?, ?) on conflict do nothing", (model.name, model.dimensions)
    )
    number, dimensions = value(connection, "select model, dimensions from models where name = ?", (model.name,))
    _same_dimensions(model, dimensions)
    return int(number)


def _same_dimensions(model: Model, recorded: int) -> None:
    if recorded != model.dimensions:
        raise EmbedderError(
            f"{model.name} now gives {model.dimensions} dimensions, but the vectors stored under that name have "
            f"{recorded}: it is another model, so give it another name and run `memorist reembed`"
        )


def block_rows(
    connection: apsw.Connection, namespace: str, number: int, blocks: Sequence[int]
) -> list[tuple[int, bytes]]:
    """The live vectors of some blocks as they are stored, row by row, in the order of their keys."""
    return live_rows(connection, "vectors", "v.rid", namespace, number, _WITHIN, blocks)


def part_rows(
    connection: apsw.Connection, namespace: str, number: int, blocks: Sequence[int]
) -> list[tuple[int, bytes]]:
    """The same of the parts of live memories."""
    return read_part_rows(connection, namespace, number, _WITHIN, blocks)


_WITHIN = f"v.rid >= b.value << {BLOCK_BITS} and v.rid < (b.value + 1) << {BLOCK_BITS}"


def _arrays(rows: Sequence[tuple[int, bytes]], dimensions: int) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
    return np.array([key for key, _ in rows], np.int64), _halves([vector for _, vector in rows], dimensions)


_WHOLES = _Column("data", block_rows, BLOCK_BITS)
_PARTS = _Column("parts", part_rows, BLOCK_BITS + PART_BITS)


def _halves(blobs: Sequence[bytes], dimensions: int) -> NDArray[np.float16]:
    return np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), dimensions)


def _keys(listed: str) -> NDArray[np.int64]:
    return np.sort(np.array(json.loads(listed), np.int64))


def _matches(keys: NDArray[np.int64], similarities: NDArray[np.float32]) -> list[Match]:
    return [Match(key, score) for key, score in zip(keys.tolist(), similarities.tolist(), strict=True)]


LOOKED_AT = 4  # times as many parts as memories are wanted: several of the nearest may be of one

Keys = NDArray[np.int64]
Scores = NDArray[np.float32]
Halves = NDArray[np.float16]


def put_parts(connection: apsw.Connection, model: int, parts: Sequence[Part], halves: Halves) -> None:
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


def read_part_rows(
    connection: apsw.Connection, namespace: str, model: int, among: str, values: Iterable[int]
) -> list[tuple[int, bytes]]:
    """The parts of live memories by their keys, in order; `among` as in `live_rows`."""
    found = live_rows(connection, "part_vectors", "v.rid, v.part", namespace, model, among, values)
    owners = np.array([rid for rid, _ in found], np.int64)
    keys = (owners << PART_BITS) | (np.arange(len(owners)) - np.searchsorted(owners, owners))
    return list(zip(keys.tolist(), (blob for _, blob in found), strict=True))


class PartScan:
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
        found = read_part_rows(connection, namespace, number, "v.rid = b.value", changed.tolist())
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
