"""
The vectors of memories and of their parts on SQLite: packed into blocks, which are read into memory in one piece.

`cross join` and `+column` tell SQLite which table to begin with; see `vector_mirror`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist.arguments import NO_FILTER, Filter
from memorist.records import Model
from memorist.store.database import Connection
from memorist.store.filters import MAX_LISTED_KEYS, indexed_conditions
from memorist.store.image_follower import OF_VECTOR
from memorist.store.key_set import Keys, decode_keys
from memorist.store.metadata_index import MetadataIndex
from memorist.store.records import NO_MATCHES, PART_BITS, Matches, Scope, VectorMatches
from memorist.store.vector_mirror import (
    MirroredVectors,
    MirrorQuery,
    VectorMirror,
    count_live,
    read_live,
    read_live_parts,
    to_halves,
)
from memorist.store.vector_scan import Codes, encode, pack, row_bytes, unpack
from memorist.store.vectors import Halves, damaged_vector
from memorist.time_limit import without_limit

BLOCK_BITS = 10  # a packed block has 1024 neighbouring rids; the triggers' `rid >> 10`
_FILTERED_FACTOR = 8  # how many times `limit` is checked against a filter before all that pass it are read
_SUPERSEDED_FACTOR = 2  # the same if the filter leaves out superseded memories alone, of which there are few
_MAX_CHECKED = 8192  # matches, where those that pass would be too many to read


class SqliteVectors(MirroredVectors):
    """The vectors of one namespace, and a scan of them in memory."""

    _tables = ("vectors", "old_vectors", "vector_blocks")

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
        mirror = self._refresh_mirror(model, scope)
        if mirror is None:
            total = self._count_live(scope)
            return VectorMatches(NO_MATCHES, total, total)
        asked = mirror.ask(vector)
        matches, unfiltered = self._match(asked, scope, limit)
        if scope.filter.as_of is not None:
            with self._database.reading() as connection:
                past = self._match_past(connection, model, vector, scope.filter)
            matches = Matches.join(matches, past)
        return self._to_answer(asked, matches, unfiltered, scope, limit)

    def _count_live(self, scope: Scope) -> int:
        if scope.filter.restricted:
            return len(self._list_restricted(scope))
        with self._database.reading() as connection:
            return count_live(connection, self._namespace)

    def have_parts(self, model: Model) -> bool:
        """Tell if any memory has parts, or may have."""
        mirror = self._find_mirror(model)
        return mirror is None or len(mirror.parts) > 0

    def _match(self, asked: MirrorQuery, scope: Scope, limit: int) -> tuple[Matches, Matches]:
        """Return the matches that pass the filter, and those without the filter."""
        filter = scope.filter
        if scope.is_listed or filter == NO_FILTER:
            return self._match_listed(asked, scope, limit)
        # A filter that lets much through is cheapest to check on the best matches; if too few of them pass, on more of
        # them, or, unless that would be many, all keys that pass are read and only those are compared. Each time the
        # result is that of a complete scan.
        only_superseded = replace(filter, superseded=True) == NO_FILTER
        count = limit * (_SUPERSEDED_FACTOR if only_superseded else _FILTERED_FACTOR)
        # Of a restricted one, what lies beyond may not even decide which matches are looked at.
        if filter.restricted or len(asked.memories) <= count:
            return self._match_listed(asked, replace(scope, keys=self._read_passing(filter)), limit)
        keys, similarities = asked.find_nearest(count)
        passing = self._check(filter, keys)
        unfiltered = Matches.of_vectors(keys[:limit], similarities[:limit])
        found = int(np.count_nonzero(passing))
        if found < limit and found * len(asked.memories) > MAX_LISTED_KEYS * count:
            keys, similarities = asked.find_nearest(min(2 * limit * count // found, _MAX_CHECKED))
            passing = self._check(filter, keys)
            found = int(np.count_nonzero(passing))
        if found < limit:
            return asked.match(limit, self._read_passing(filter)), unfiltered
        return Matches.of_vectors(keys[passing][:limit], similarities[passing][:limit]), unfiltered

    def _check(self, filter: Filter, keys: Keys) -> NDArray[np.bool_]:
        """Return which of some keys pass a filter."""
        return np.isin(keys, self._read_passing(filter, keys))

    def _list_restricted(self, scope: Scope) -> Keys:
        if scope.image is not None:
            return super()._list_restricted(scope)
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

    def _refresh_mirror(self, model: Model, scope: Scope | None = None) -> VectorMirror | None:
        """Return the scans, brought up to what is committed now; None if the model has no vectors yet."""
        try:
            image = scope.image if scope else None
            # Asked before the changes are read: what is committed in between has another mark.
            mark = self._database.read_mark() if image is None else image.mark
            if (mirror := self._follow(model, mark)) is not None:
                return mirror
            with without_limit(), self._database.snapshot() as connection, self._lock:
                mirror = _load_mirror(connection, self._namespace, model)
                self._keep(model, mirror)
                return mirror
        except ValueError as exc:
            raise damaged_vector(str(exc)) from exc


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


def _load_mirror(connection: Connection, namespace: str, model: Model) -> VectorMirror | None:
    """
    Return a mirror of what is stored; None if the model has no vectors yet.

    Packed blocks are read one by one, so that none is held twice, and the rows of open ones in between.

    Both columns in one pass: SQLite reads the vectors of a block on the way to its parts.
    """
    if (begun := VectorMirror.begin(connection, namespace, model)) is None:
        return None
    mirror, number = begun
    owner, dimensions = (number, namespace), model.dimensions
    blocks = connection.fetch(f"select block, data is null, length(data), length(parts) {_BLOCKS}", owner)
    sizes = [size for _, is_open, size, _ in blocks if not is_open]
    part_sizes = [size for _, is_open, _, size in blocks if not is_open and size is not None]
    count, part_count = (sum(size // row_bytes(dimensions) for size in some) for some in (sizes, part_sizes))
    loose = [block for block, is_open, *_ in blocks if is_open]
    vectors = _OpenRows.read(read_block_vectors(connection, namespace, number, loose), dimensions)
    parts = _OpenRows.read(read_block_parts(connection, namespace, number, loose), dimensions)
    with (
        mirror.scan.loading(count + len(vectors.keys)) as add,
        mirror.parts.loading(part_count + len(parts.keys)) as add_parts,
    ):
        for block, data, part_data in connection.stream(f"select block, data, parts {_BLOCKS}", owner):
            if data is None:
                add(*vectors.of_block(block, BLOCK_BITS))
                add_parts(*parts.of_block(block, BLOCK_BITS + PART_BITS))
            else:
                add(*unpack(data, dimensions))
                if part_data is not None:
                    add_parts(*unpack(part_data, dimensions))
    return mirror


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


def read_block_vectors(
    connection: Connection, namespace: str, number: int, blocks: Sequence[int]
) -> list[tuple[int, bytes]]:
    """Return the stored vectors of live memories in some blocks, by ascending key."""
    return read_live(connection, "vectors", "v.rid", namespace, number, _IN_BLOCK, blocks)


def read_block_parts(
    connection: Connection, namespace: str, number: int, blocks: Sequence[int]
) -> list[tuple[int, bytes]]:
    """Return the stored vectors of parts of live memories in some blocks, by ascending key."""
    return read_live_parts(connection, namespace, number, _IN_BLOCK, blocks)


_IN_BLOCK = f"v.rid >= b.value << {BLOCK_BITS} and v.rid < (b.value + 1) << {BLOCK_BITS}"


def _to_arrays(rows: Sequence[tuple[int, bytes]], dimensions: int) -> tuple[Keys, Halves]:
    return np.array([key for key, _ in rows], np.int64), to_halves([vector for _, vector in rows], dimensions)
