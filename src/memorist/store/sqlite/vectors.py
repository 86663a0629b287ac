"""
The vectors of memories and of their parts, and the scans in memory that follow them.

`cross join` and `+column` tell SQLite which table to begin with: otherwise it walks through every memory of the
namespace, in each of these statements. In memory, the key of a part is made of the key of its memory and its number
there, so that its memory need not be looked up.
"""

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist.arguments import NO_FILTER, Filter
from memorist.forks import renew_after_fork
from memorist.records import Model
from memorist.store.database import Connection, Database
from memorist.store.filters import MAX_LISTED_KEYS, indexed_conditions
from memorist.store.key_set import Keys, decode_keys
from memorist.store.metadata_index import MetadataIndex
from memorist.store.records import NO_MATCHES, PART_BITS, Matches, Scope, VectorMatches
from memorist.store.sqlite.image_follower import OF_VECTOR
from memorist.store.vector_scan import Codes, Scores, VectorScan, encode, pack, row_bytes, unpack
from memorist.store.vectors import Compared, Halves, Vectors, check_dimensions, check_metric, damaged_vector
from memorist.time_limit import without_limit

BLOCK_BITS = 10  # a packed block has 1024 neighbouring rids; the triggers' `rid >> 10`
_FILTERED_FACTOR = 8  # how many times `limit` is checked against a filter before all that pass it are read
_SUPERSEDED_FACTOR = 2  # the same if the filter leaves out superseded memories alone, of which there are few
_MAX_CHECKED = 8192  # matches, where those that pass would be too many to read
_PARTS_FACTOR = 4  # how many times `limit` parts are read: several of the nearest may be of one memory
_MORE_PARTS_FACTOR = 16  # how many times more, if too many of them are


class SqliteVectors(Vectors):
    """The vectors of one namespace, and a scan of them in memory."""

    _tables = ("vectors", "old_vectors", "vector_blocks")

    def __init__(self, database: Database, namespace: str) -> None:
        super().__init__(database, namespace)
        self._lock = threading.Lock()
        self._mirrors: dict[str, _Mirror] = {}  # by the name of their model
        renew_after_fork(self)

    def insert(self, connection: Connection, number: int, rows: Sequence[tuple[int, bytes]]) -> None:
        super().insert(connection, number, rows)
        if rows:
            new = "(select value as rid, :model as model from json_each(:keys))"
            follow_new_vectors(connection, new, {"model": number, "keys": str([rid for rid, _ in rows])})

    def _finish_write(self, connection: Connection, model: Model, number: int) -> None:
        """Pack full blocks."""
        self._pack_full_blocks(connection, number, model.dimensions)

    def _pack_full_blocks(self, connection: Connection, number: int, dimensions: int) -> None:
        """Pack the blocks that no new memory will join any more."""
        open_blocks = connection.fetch(
            f"""
            select block from vector_blocks
            where model = ? and namespace = ? and data is null
              and block < (select max(rid) from memories) >> {BLOCK_BITS}
            """,
            (number, self._namespace),
        )
        for (block,) in open_blocks:
            try:
                keys, halves = _to_arrays(read_block_vectors(connection, self._namespace, number, [block]), dimensions)
                part_rows = read_block_parts(connection, self._namespace, number, [block])
                part_keys, part_halves = _to_arrays(part_rows, dimensions)
            except ValueError:  # a row is damaged, as `check` will say; its block stays open
                continue
            parts = pack(part_keys, encode(part_halves)) if len(part_keys) else None
            connection.execute(
                "update vector_blocks set data = ?, parts = ? where model = ? and namespace = ? and block = ?",
                (pack(keys, encode(halves)), parts, number, self._namespace, block),
            )

    def _finish_drop(self, connection: Connection, number: int) -> None:
        values = {"number": number, "namespace": self._namespace}
        connection.execute("delete from vector_blocks where model <> :number and namespace = :namespace", values)

    def find_nearest(self, model: Model, vector: NDArray[np.float32], scope: Scope, limit: int) -> VectorMatches:
        mirror = self._refresh_mirror(model)
        if mirror is None:
            total = self._count_live(scope)
            return VectorMatches(NO_MATCHES, total, total)
        matches, unfiltered = self._match(mirror, vector, scope, limit)
        if scope.filter.as_of is not None:
            with self._database.reading() as connection:
                past = self._match_past(connection, model, vector, scope.filter)
            matches = Matches.join(matches, past)
        total, unembedded = mirror.total, mirror.total - len(mirror.scan)
        if unembedded and scope.filter.restricted:
            own = self._list_restricted(scope)
            total, unembedded = len(own), int(np.count_nonzero(~np.isin(own, mirror.scan.keys)))
        return VectorMatches(matches.take(slice(limit)), unembedded, total, unfiltered)

    def _count_live(self, scope: Scope) -> int:
        if scope.filter.restricted:
            return len(self._list_restricted(scope))
        with self._database.reading() as connection:
            return _count_live(connection, self._namespace)

    def have_parts(self, model: Model) -> bool:
        """Tell if any memory has parts, or may have."""
        mirror = self._mirrors.get(model.name)
        return mirror is None or mirror.model != model or len(mirror.parts.scan) > 0

    def _match(
        self, mirror: "_Mirror", vector: NDArray[np.float32], scope: Scope, limit: int
    ) -> tuple[Matches, Matches]:
        """Return the matches that pass the filter, and those without the filter."""
        filter = scope.filter
        if scope.excluded is not None:
            matches = mirror.match(vector, limit, without=scope.excluded)
            return matches, matches if len(matches) == limit else mirror.match(vector, limit)
        if filter == NO_FILTER:
            matches = mirror.match(vector, limit)
            return matches, matches
        # A filter that lets much through is cheapest to check on the best matches; if too few of them pass, on more of
        # them, or, unless that would be many, all keys that pass are read and only those are compared. Each time the
        # result is that of a complete scan.
        only_superseded = replace(filter, superseded=True) == NO_FILTER
        count = limit * (_SUPERSEDED_FACTOR if only_superseded else _FILTERED_FACTOR)
        # Of a restricted one, what lies beyond may not even decide which matches are looked at.
        if scope.keys is not None or filter.restricted or len(mirror.scan) <= count:
            matches = mirror.match(vector, limit, self._read_passing(filter) if scope.keys is None else scope.keys)
            if len(matches) == limit or filter == filter.restriction:
                return matches, matches
            return matches, mirror.match(vector, limit, self._list_restricted(scope) if filter.restricted else None)
        keys, similarities = mirror.find_nearest(vector, count)
        passing = self._check(filter, keys)
        unfiltered = Matches.of_vectors(keys[:limit], similarities[:limit])
        found = int(np.count_nonzero(passing))
        if found < limit and found * len(mirror.scan) > MAX_LISTED_KEYS * count:
            keys, similarities = mirror.find_nearest(vector, min(2 * limit * count // found, _MAX_CHECKED))
            passing = self._check(filter, keys)
            found = int(np.count_nonzero(passing))
        if found < limit:
            return mirror.match(vector, limit, self._read_passing(filter)), unfiltered
        return Matches.of_vectors(keys[passing][:limit], similarities[passing][:limit]), unfiltered

    def _check(self, filter: Filter, keys: Keys) -> NDArray[np.bool_]:
        """Return which of some keys pass a filter."""
        return np.isin(keys, self._read_passing(filter, keys))

    def _list_restricted(self, scope: Scope) -> Keys:
        """Return the keys of all that the caller may know of."""
        if scope.image is not None:
            own = scope.image.find_scope(self._namespace, scope.filter.restriction)
            if own is not None and own.keys is not None:
                return own.keys
        return self._read_passing(scope.filter.restriction)

    def _read_passing(self, filter: Filter, keys: Keys | None = None) -> Keys:
        """Return all keys that pass a filter, or those of some keys."""
        with self._database.snapshot() as connection:
            fields = MetadataIndex(self._namespace)
            # Of some keys, each is looked up.
            where, values, _ = indexed_conditions(connection, fields, filter, most=None if keys is None else 0)
            if keys is not None:
                where = f"m.rid in (select value from json_each(:keys)) and +{where}"
                values["keys"] = json.dumps(keys.tolist())
            sql = f"select json_group_array(m.rid) from memories m where {where} and m.deleted_at is null"
            return decode_keys(connection.fetch_value(sql, values))

    def load(self, model: Model) -> None:
        self._refresh_mirror(model)

    def compare(self, model: Model, vector: NDArray[np.float32], keys: Keys) -> Compared | None:
        mirror = self._mirrors.get(model.name)  # as the search for the nearest has left it
        return None if mirror is None or mirror.model != model else mirror.compare(vector, keys)

    def _refresh_mirror(self, model: Model) -> "_Mirror | None":
        """Return the scans, brought up to what is committed now; None if the model has no vectors yet."""
        try:
            mirror = self._mirrors.get(model.name)
            # Asked before the changes are read: what is committed in between has another mark.
            mark = self._database.read_mark() if mirror is not None else None
            if mirror is not None and mirror.model == model and mirror.mark == mark:
                return mirror
            with without_limit(), self._lock, self._database.reading() as connection:
                mirror = self._mirrors.get(model.name)
                if mirror is not None and mirror.model == model and mirror.follow(connection):
                    mirror.mark = mark
                    return mirror
            with without_limit(), self._lock, self._database.snapshot() as connection:
                mirror = _Mirror.load(connection, self._namespace, model)
                # Two models may be searched in turns; others have been left for good.
                self._mirrors.pop(model.name, None)
                while len(self._mirrors) > 1:
                    del self._mirrors[next(iter(self._mirrors))]
                if mirror is not None:
                    self._mirrors[model.name] = mirror
                return mirror
        except ValueError as exc:
            raise damaged_vector(str(exc)) from exc

    def after_fork(self) -> None:
        """Renew the lock in a child: another thread of the parent may have held it, half-way through a change."""
        self._lock = threading.Lock()
        self._mirrors = {}


class _OpenRows(NamedTuple):
    """Vectors, or those of parts, of blocks that are not packed, by ascending key."""

    keys: Keys
    codes: Codes

    @classmethod
    def read(cls, rows: Sequence[tuple[int, bytes]], dimensions: int) -> "_OpenRows":
        keys, halves = _to_arrays(rows, dimensions)
        return cls(keys, encode(halves))

    def of_block(self, block: int, bits: int) -> "_OpenRows":
        """Return the rows of a block, given the bits of a key that are below the block's number."""
        span = slice(*np.searchsorted(self.keys, [block << bits, (block + 1) << bits]))
        return _OpenRows(self.keys[span], self.codes[span])


class _Mirror:
    """All live vectors of one model in memory, as of a position in the log."""

    def __init__(self, namespace: str, model: Model, position: int) -> None:
        self.model = model
        self.scan = VectorScan(model.dimensions)
        self.parts = _PartScan(model.dimensions)
        self.total = 0  # memories, with a vector or without
        self.mark: str | None = None  # of the database when it was last followed
        self._namespace = namespace
        self._position = position

    @classmethod
    def load(cls, connection: Connection, namespace: str, model: Model) -> "_Mirror | None":
        known = connection.fetch_value("select model, dimensions, metric from models where name = ?", (model.name,))
        if known is None:
            return None
        check_dimensions(model, known[1])
        check_metric(model, known[2])
        position = connection.fetch_value("select coalesce(max(seq), 0) from changes")
        mirror = cls(namespace, model, position)
        mirror._read_blocks(connection, known[0])
        mirror.total = _count_live(connection, namespace)
        return mirror

    def match(
        self, vector: NDArray[np.float32], limit: int, among: Keys | None = None, without: Keys | None = None
    ) -> Matches:
        return Matches.of_vectors(*self.find_nearest(vector, limit, among, without))

    def find_nearest(
        self, vector: NDArray[np.float32], limit: int, among: Keys | None = None, without: Keys | None = None
    ) -> tuple[Keys, Scores]:
        """Return the nearest memories with their similarities, by themselves or by a part."""
        return self.parts.find_nearest(self.scan, vector, limit, among, without)

    def compare(self, vector: NDArray[np.float32], keys: Keys) -> Compared:
        """Compare memories, given by ascending keys, with a vector, by themselves and by their parts."""
        places, found, scores = self.scan.compare(vector, keys)
        similarities = np.full(len(keys), np.nan)
        codes = np.zeros((len(keys), self.model.dimensions), found.dtype)
        similarities[places], codes[places] = scores, found
        return Compared(codes, similarities, self.parts.raise_to_nearest(vector, keys, similarities))

    def _read_blocks(self, connection: Connection, number: int) -> None:
        """
        Load packed blocks one by one, so that none is held twice, and the rows of open ones in between.

        Both columns in one pass: SQLite reads the vectors of a block on the way to its parts.
        """
        owner, dimensions = (number, self._namespace), self.model.dimensions
        blocks = connection.fetch(f"select block, data is null, length(data), length(parts) {_BLOCKS}", owner)
        sizes = [size for _, is_open, size, _ in blocks if not is_open]
        part_sizes = [size for _, is_open, _, size in blocks if not is_open and size is not None]
        count, part_count = (sum(size // row_bytes(dimensions) for size in some) for some in (sizes, part_sizes))
        loose = [block for block, is_open, *_ in blocks if is_open]
        vectors = _OpenRows.read(read_block_vectors(connection, self._namespace, number, loose), dimensions)
        parts = _OpenRows.read(read_block_parts(connection, self._namespace, number, loose), dimensions)
        with (
            self.scan.loading(count + len(vectors.keys)) as add,
            self.parts.scan.loading(part_count + len(parts.keys)) as add_parts,
        ):
            for block, data, part_data in connection.stream(f"select block, data, parts {_BLOCKS}", owner):
                if data is None:
                    add(*vectors.of_block(block, BLOCK_BITS))
                    add_parts(*parts.of_block(block, BLOCK_BITS + PART_BITS))
                else:
                    add(*unpack(data, dimensions))
                    if part_data is not None:
                        add_parts(*unpack(part_data, dimensions))

    def follow(self, connection: Connection) -> bool:
        """
        Take in the changes logged since; return False if the log no longer reaches back far enough.

        Memories are counted only while some are known to lack a vector of this model: texts that wait for one, or
        logged ones that have none.
        """
        (_, total, first, last, _), *changes = connection.fetch(
            f"""
            select 0, case when :count or {_ANY_UNEMBEDDED} then ({_COUNT_LIVE}) end,
                coalesce((select min(seq) from changes), 0), coalesce((select max(seq) from changes), 0), null
            union all
            select l.seq, l.rid, null, case when m.deleted_at is null then v.vector end,
                m.rid is not null and m.deleted_at is null
            from changes l
            left join memories m on m.rid = l.rid and m.namespace = :namespace
            left join vectors v on v.rid = m.rid and v.model = (select model from models where name = :model)
            where l.seq > :position and l.what & {OF_VECTOR}
            order by 1
            """,
            {
                "namespace": self._namespace,
                "model": self.model.name,
                "position": self._position,
                "count": self.total > len(self.scan),
            },
        )
        if first > self._position + 1:
            return False
        latest = {rid: vector for _, rid, _, vector, _ in changes}
        removed = [rid for rid, vector in latest.items() if vector is None]
        added = [rid for rid, vector in latest.items() if vector is not None]
        if removed:
            self.scan.remove(np.array(removed, np.int64))
        if added:
            self.scan.put(np.array(added, np.int64), _to_halves([latest[rid] for rid in added], self.model.dimensions))
        if changes:
            self.parts.reload(connection, self._namespace, self.model.name, latest)
        self._position = last
        # A live memory without a vector: it has one of another model, or its vector was dropped.
        if total is None and any(live and vector is None for *_, vector, live in changes):
            total = _count_live(connection, self._namespace)
        self.total = len(self.scan) if total is None else total
        return True


class _PartScan:
    """The vectors of the parts of memories, of one model in one namespace, in memory."""

    def __init__(self, dimensions: int) -> None:
        self.scan = VectorScan(dimensions)

    def reload(self, connection: Connection, namespace: str, model: str, memories: Iterable[int]) -> None:
        """Read the parts of some memories again."""
        changed = np.sort(np.fromiter(memories, np.int64))
        number = connection.fetch_value("select model from models where name = ?", (model,))
        self.scan.remove(self._keys_of(changed))
        if number is None:
            return
        found = _read_live_parts(connection, namespace, number, "v.rid = b.value", changed.tolist())
        if found:
            halves = np.frombuffer(b"".join(blob for _, blob in found), np.float16)
            self.scan.put([key for key, _ in found], halves.reshape(len(found), self.scan.dimensions))

    def find_nearest(
        self, memories: VectorScan, vector: NDArray[np.float32], k: int, among: Keys | None, without: Keys | None
    ) -> tuple[Keys, Scores]:
        """Return the nearest memories, by themselves and by their parts; `among` and `without` ascend."""
        keys, scores = memories.find_nearest(vector, k, among, without)
        if not len(self.scan):
            return keys, scores
        among_parts = None if among is None else self._keys_of(among)
        without_parts = None if without is None else self._keys_of(without)
        count = _PARTS_FACTOR * k
        while True:
            parts, part_scores = self.scan.find_nearest(vector, count, among_parts, without_parts)
            found_keys, found_scores = _keep_nearest(
                np.concatenate([keys, parts >> PART_BITS]), np.concatenate([scores, part_scores]), k
            )
            # Further parts are of no use if they are less similar than all that was found.
            if len(parts) < count or (len(found_keys) == k and part_scores[-1] <= found_scores[-1]):
                return found_keys, found_scores
            count *= _MORE_PARTS_FACTOR

    def raise_to_nearest(
        self, vector: NDArray[np.float32], memories: Keys, similarities: NDArray[np.float64]
    ) -> dict[int, int]:
        """
        Replace the similarities of memories that a part is nearer than; return the numbers of those parts, by place.

        The keys of the memories ascend.
        """
        keys = self._keys_of(memories)
        if not len(keys):
            return {}
        _, _, scores = self.scan.compare(vector, keys)
        places = np.searchsorted(memories, keys >> PART_BITS)
        # Of equal ones the first counts: it is the last to be written.
        order = np.lexsort((-keys, scores))
        nearest = np.full(len(memories), -1)
        nearest[places[order]] = order
        nearer = np.flatnonzero(nearest >= 0)
        nearer = nearer[scores[nearest[nearer]] > similarities[nearer]]
        chosen = nearest[nearer]
        similarities[nearer] = scores[chosen]
        numbers = (keys[chosen] & ((1 << PART_BITS) - 1)).tolist()
        return dict(zip(nearer.tolist(), numbers, strict=True))

    def _keys_of(self, memories: Keys) -> Keys:
        """Return the keys of all parts of memories, given in ascending order."""
        all_keys = self.scan.keys
        first = np.searchsorted(all_keys, memories << PART_BITS)
        counts = np.searchsorted(all_keys, (memories + 1) << PART_BITS) - first
        before = np.cumsum(counts) - counts
        keys: Keys = all_keys[np.repeat(first - before, counts) + np.arange(counts.sum())]
        return keys


def _keep_nearest(keys: Keys, scores: Scores, k: int) -> tuple[Keys, Scores]:
    """Return the k nearest of some memories, each once, with the highest of its scores; ties by lower key."""
    best_first = np.lexsort((keys, -scores))
    keys, scores = keys[best_first], scores[best_first]
    _, first = np.unique(keys, return_index=True)
    nearest = np.sort(first)[:k]
    return keys[nearest], scores[nearest]


def follow_new_vectors(connection: Connection, new: str, values: Mapping[str, Any] | None = None) -> None:
    """Write what follows new vectors, given by a query for each one's `rid` and `model`: the queues, log and blocks."""
    connection.execute(f"delete from unembedded where rid in (select rid from {new})", values)
    connection.execute(f"delete from uncut where rid in (select rid from {new})", values)
    connection.execute(f"insert into changes(rid, what) select rid, {OF_VECTOR} from {new}", values)
    connection.execute(
        f"""
        insert into vector_blocks(namespace, model, block)
        select distinct m.namespace, n.model, n.rid >> {BLOCK_BITS}
        from {new} n cross join memories m on m.rid = n.rid
        where true
        on conflict (model, block, namespace) do update set data = null where data is not null
        """,
        values,
    )


_BLOCKS = "from vector_blocks where model = ? and namespace = ? order by block"
_COUNT_LIVE = (
    "select count(*) from memories indexed by memories_scope where namespace = :namespace and deleted_at is null"
)
_ANY_UNEMBEDDED = """
    exists (
        select 1 from unembedded u cross join memories m on m.rid = u.rid
        where m.namespace = :namespace and m.deleted_at is null)
"""


def _count_live(connection: Connection, namespace: str) -> int:
    return int(connection.fetch_value(_COUNT_LIVE, {"namespace": namespace}))


def read_block_vectors(
    connection: Connection, namespace: str, number: int, blocks: Sequence[int]
) -> list[tuple[int, bytes]]:
    """Return the stored vectors of live memories in some blocks, by ascending key."""
    return _read_live(connection, "vectors", "v.rid", namespace, number, _IN_BLOCK, blocks)


def read_block_parts(
    connection: Connection, namespace: str, number: int, blocks: Sequence[int]
) -> list[tuple[int, bytes]]:
    """Return the stored vectors of parts of live memories in some blocks, by ascending key."""
    return _read_live_parts(connection, namespace, number, _IN_BLOCK, blocks)


_IN_BLOCK = f"v.rid >= b.value << {BLOCK_BITS} and v.rid < (b.value + 1) << {BLOCK_BITS}"


def _to_arrays(rows: Sequence[tuple[int, bytes]], dimensions: int) -> tuple[Keys, Halves]:
    return np.array([key for key, _ in rows], np.int64), _to_halves([vector for _, vector in rows], dimensions)


def _to_halves(blobs: Sequence[bytes], dimensions: int) -> Halves:
    return np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), dimensions)


def _read_live(
    connection: Connection, table: str, order: str, namespace: str, model: int, join: str, values: Iterable[int]
) -> list[tuple[int, bytes]]:
    """Return vectors of live memories with their keys; `join` selects rows `v` by the values, each a `b.value`."""
    found = connection.fetch(
        f"""
        select v.rid, v.vector
        from json_each(:values) b
        cross join {table} v on {join}
        cross join memories m on m.rid = v.rid
        where v.model = :model and m.namespace = :namespace and m.deleted_at is null
        order by {order}
        """,
        {"values": json.dumps(list(values)), "model": model, "namespace": namespace},
    )
    return [(rid, vector) for rid, vector in found]


def _read_live_parts(
    connection: Connection, namespace: str, model: int, join: str, values: Iterable[int]
) -> list[tuple[int, bytes]]:
    """Return vectors of parts of live memories with the keys of the parts, ascending; `join` as in `_read_live`."""
    found = _read_live(connection, "part_vectors", "v.rid, v.part", namespace, model, join, values)
    owners = np.array([rid for rid, _ in found], np.int64)
    keys = (owners << PART_BITS) | (np.arange(len(owners)) - np.searchsorted(owners, owners))
    return list(zip(keys.tolist(), (blob for _, blob in found), strict=True))
