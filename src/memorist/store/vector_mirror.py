"""
The vectors of memories and of their parts in memory, which follow what any process writes.

In memory, the key of a part is made of the key of its memory and its number there, so that its memory need not be
looked up. `@then` and `@plain` tell SQLite which table to begin with: otherwise it walks through every memory of the
namespace, in each of these statements.
"""

import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memorist.forks import renew_after_fork
from memorist.records import Model
from memorist.store.database import Connection, Database
from memorist.store.image_follower import OF_VECTOR
from memorist.store.key_set import Keys
from memorist.store.records import PART_BITS, Compared, Matches, Scope, VectorMatches
from memorist.store.vector_scan import QueryCode, ScanQuery, Scores, VectorScan
from memorist.store.vectors import Halves, Vectors, check_dimensions, check_metric
from memorist.time_limit import without_limit

_PARTS_FACTOR = 4  # how many times `limit` parts are read: several of the nearest may be of one memory
_MORE_PARTS_FACTOR = 16  # how many times more, if too many of them are


class MirroredVectors(Vectors):
    """The vectors of one namespace, with mirrors of them in memory."""

    def __init__(self, database: Database, namespace: str) -> None:
        super().__init__(database, namespace)
        self._mirrors: dict[str, VectorMirror] = {}  # by the name of their model
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Begin anew in a child: another thread of the parent may have held the lock, half-way through a change."""
        self._lock = threading.Lock()
        self._mirrors = {}

    def _find_mirror(self, model: Model) -> "VectorMirror | None":
        mirror = self._mirrors.get(model.name)
        return mirror if mirror is not None and mirror.model == model else None

    def _follow(self, model: Model, moment: object, least: int = 0) -> "VectorMirror | None":
        """
        Return the mirror of a model, brought up to a moment that the database has had; None if there is none.

        It is dropped if it has lagged behind too far. None as well if the server that is read from, a standby, has not
        come to the position `least` yet.
        """
        mirror = self._find_mirror(model)
        if mirror is None or mirror.moment == moment:
            return mirror
        # The connection first: others hold theirs while they wait for the lock.
        with without_limit(), self._database.reading() as connection, self._lock:
            mirror = self._find_mirror(model)
            if mirror is None:
                return None
            if not mirror.follow(connection):
                del self._mirrors[model.name]
                return None
            if mirror.position < least:
                return None
            mirror.moment = moment
            return mirror

    def _keep(self, model: Model, mirror: "VectorMirror | None") -> None:
        """Keep a mirror that was read, under the lock. Two models may be searched in turns; others have been left."""
        self._mirrors.pop(model.name, None)
        while len(self._mirrors) > 1:
            del self._mirrors[next(iter(self._mirrors))]
        if mirror is not None:
            self._mirrors[model.name] = mirror

    def _match_listed(self, asked: "MirrorQuery", scope: Scope, limit: int) -> tuple[Matches, Matches]:
        """Return the matches of a scope whose keys are listed, or that has no filter, and those without the filter."""
        filter = scope.filter
        matches = asked.match(limit, scope.keys, scope.excluded)
        if len(matches) == limit or filter == filter.restriction:
            return matches, matches
        return matches, asked.match(limit, self._list_restricted(scope) if filter.restricted else None)

    def _to_answer(
        self, asked: "MirrorQuery", matches: Matches, unfiltered: Matches, scope: Scope, limit: int
    ) -> VectorMatches:
        total, unembedded = asked.total, asked.total - len(asked.memories)
        if unembedded and scope.filter.restricted:
            own = self._list_restricted(scope)
            total, unembedded = len(own), int(np.count_nonzero(~np.isin(own, asked.memories.keys)))
        return VectorMatches(matches.take(slice(limit)), unembedded, total, unfiltered, asked.compare)

    def _list_restricted(self, scope: Scope) -> Keys:
        """Return the keys of all that the caller may know of."""
        image = scope.image
        own = None if image is None else image.find_scope(self._namespace, scope.filter.restriction)
        assert image is not None, "the scope is one of an image"
        assert own is not None, "an image knows what is within a wall"
        return image.list_keys(image.list_own(self._namespace) if own.passing is None else own.passing)


class VectorMirror:
    """All live vectors of one model in memory, as of a position in the log."""

    def __init__(self, namespace: str, model: Model, position: int) -> None:
        self.model = model
        self.scan = VectorScan(model.dimensions)
        self.parts = VectorScan(model.dimensions)
        self.total = 0  # memories, with a vector or without
        self.moment: object = None  # of the database when it was last followed
        self.position = position
        self._namespace = namespace

    @classmethod
    def begin(cls, connection: Connection, namespace: str, model: Model) -> "tuple[VectorMirror, int] | None":
        """Return an empty mirror, and the number of its model; None if the model has no vectors yet."""
        known = connection.fetch_value(
            "select model, dimensions, metric from models where name = :name", {"name": model.name}
        )
        if known is None:
            return None
        check_dimensions(model, known[1])
        check_metric(model, known[2])
        position = connection.fetch_value("select coalesce(max(seq), 0) from changes")
        mirror = cls(namespace, model, position)
        mirror.total = count_live(connection, namespace)
        return mirror, known[0]

    @property
    def nbytes(self) -> int:
        return self.scan.nbytes + self.parts.nbytes

    def ask(self, vector: NDArray[np.float32]) -> "MirrorQuery":
        """Return a question, given by its vector, beside all vectors as they are now."""
        question = QueryCode.of(vector)
        return MirrorQuery(self.scan.ask(question), self.parts.ask(question), self.total)

    def follow(self, connection: Connection) -> bool:
        """
        Take in the changes logged since; return False if the log no longer reaches back far enough.

        Memories are counted only while some are known to lack a vector of this model: texts that wait for one, or
        logged ones that have none.
        """
        values = {"namespace": self._namespace, "model": self.model.name, "position": self.position}
        values["count"] = int(self.total > len(self.scan))
        (_, total, first, last, *_), *changes = connection.fetch(_CHANGES, values)
        if first > self.position + 1:
            return False
        if last < self.position:  # a standby that is behind has nothing new
            return True
        latest = {rid: vector for _, rid, _, _, vector, _ in changes}
        removed = [rid for rid, vector in latest.items() if vector is None]
        added = [rid for rid, vector in latest.items() if vector is not None]
        if removed:
            self.scan.remove(np.array(removed, np.int64))
        if added:
            self.scan.put(np.array(added, np.int64), to_halves([latest[rid] for rid in added], self.model.dimensions))
        if changes:
            self._reload_parts(connection, latest)
        self.position = last
        # A live memory without a vector: it has one of another model, or its vector was dropped.
        if total is None and any(live and vector is None for *_, vector, live in changes):
            total = count_live(connection, self._namespace)
        self.total = len(self.scan) if total is None else total
        return True

    def _reload_parts(self, connection: Connection, memories: Iterable[int]) -> None:
        """Read the parts of some memories again."""
        changed = np.sort(np.fromiter(memories, np.int64))
        number = connection.fetch_value("select model from models where name = :name", {"name": self.model.name})
        self.parts.remove(_find_parts(self.parts.keys, changed))
        if number is None:
            return
        found = read_live_parts(connection, self._namespace, number, "v.rid = b.value", changed.tolist())
        if found:
            self.parts.put(
                np.array([key for key, _ in found], np.int64),
                to_halves([blob for _, blob in found], self.model.dimensions),
            )


class MirrorQuery(NamedTuple):
    """A question beside all vectors of a model as of one moment: those of the `total` memories, and of their parts."""

    memories: ScanQuery
    parts: ScanQuery
    total: int

    def match(self, limit: int, among: Keys | None = None, without: Keys | None = None) -> Matches:
        return Matches.of_vectors(*self.find_nearest(limit, among, without))

    def find_nearest(self, k: int, among: Keys | None = None, without: Keys | None = None) -> tuple[Keys, Scores]:
        """Return the nearest memories, by themselves and by their parts; `among` and `without` ascend."""
        keys, scores = self.memories.find_nearest(k, among, without)
        if not len(self.parts):
            return keys, scores
        among_parts = None if among is None else _find_parts(self.parts.keys, among)
        without_parts = None if without is None else _find_parts(self.parts.keys, without)
        count = _PARTS_FACTOR * k
        while True:
            parts, part_scores = self.parts.find_nearest(count, among_parts, without_parts)
            found_keys, found_scores = _keep_nearest(
                np.concatenate([keys, parts >> PART_BITS]), np.concatenate([scores, part_scores]), k
            )
            # Further parts are of no use if they are less similar than all that was found.
            if len(parts) < count or (len(found_keys) == k and part_scores[-1] <= found_scores[-1]):
                return found_keys, found_scores
            count *= _MORE_PARTS_FACTOR

    def compare(self, keys: Keys) -> Compared:
        """Compare memories, given by ascending keys, by themselves and by their parts."""
        places, found, scores = self.memories.compare(keys)
        similarities = np.full(len(keys), np.nan)
        codes = np.zeros((len(keys), found.shape[1]), found.dtype)
        similarities[places], codes[places] = scores, found
        return Compared(codes, similarities, self._raise_to_nearest(keys, similarities))

    def _raise_to_nearest(self, memories: Keys, similarities: NDArray[np.float64]) -> dict[int, int]:
        """Replace the similarities of memories that a part is nearer than; return the numbers of those, by place."""
        keys = _find_parts(self.parts.keys, memories)
        if not len(keys):
            return {}
        _, _, scores = self.parts.compare(keys)
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


def _find_parts(parts: Keys, memories: Keys) -> Keys:
    """Return the keys of all parts of memories; all are given in ascending order."""
    first = np.searchsorted(parts, memories << PART_BITS)
    counts = np.searchsorted(parts, (memories + 1) << PART_BITS) - first
    before = np.cumsum(counts) - counts
    keys: Keys = parts[np.repeat(first - before, counts) + np.arange(counts.sum())]
    return keys


def _keep_nearest(keys: Keys, scores: Scores, k: int) -> tuple[Keys, Scores]:
    """Return the k nearest of some memories, each once, with the highest of its scores; ties by lower key."""
    best_first = np.lexsort((keys, -scores))
    keys, scores = keys[best_first], scores[best_first]
    _, first = np.unique(keys, return_index=True)
    nearest = np.sort(first)[:k]
    return keys[nearest], scores[nearest]


_COUNT_LIVE = "select count(*) from memories @hint(memories_scope) where namespace = :namespace and deleted_at is null"
_ANY_UNEMBEDDED = """
    exists (
        select 1 from unembedded u @then memories m on m.rid = u.rid
        where m.namespace = :namespace and m.deleted_at is null)
"""
_CHANGES = f"""
    select 0, case when :count = 1 or {_ANY_UNEMBEDDED} then ({_COUNT_LIVE}) end,
        coalesce((select min(seq) from changes), 0), coalesce((select max(seq) from changes), 0), null, false
    union all
    select l.seq, l.rid, null, null, case when m.deleted_at is null then v.vector end,
        m.rid is not null and m.deleted_at is null
    from changes l
    left join memories m on m.rid = l.rid and m.namespace = :namespace
    left join vectors v on v.rid = m.rid and v.model = (select model from models where name = :model)
    where l.seq > :position and (l.what & {OF_VECTOR}) <> 0
    order by 1
"""


def count_live(connection: Connection, namespace: str) -> int:
    return int(connection.fetch_value(_COUNT_LIVE, {"namespace": namespace}))


def to_halves(blobs: Sequence[bytes], dimensions: int) -> Halves:
    return np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), dimensions)


def read_live(
    connection: Connection, table: str, order: str, namespace: str, model: int, join: str, values: Iterable[int]
) -> list[tuple[int, bytes]]:
    """Return vectors of live memories with their keys; `join` selects rows `v` by the values, each a `b.value`."""
    found = connection.fetch(
        f"""
        select v.rid, v.vector
        from @keys(:values) b
        @then {table} v on {join}
        @then memories m on m.rid = v.rid
        where v.model = :model and m.namespace = :namespace and m.deleted_at is null
        order by {order}
        """,
        {"values": str(list(values)), "model": model, "namespace": namespace},
    )
    return [(rid, vector) for rid, vector in found]


def read_live_parts(
    connection: Connection, namespace: str, model: int, join: str, values: Iterable[int]
) -> list[tuple[int, bytes]]:
    """Return vectors of parts of live memories with the keys of the parts, ascending; `join` as in `read_live`."""
    found = read_live(connection, "part_vectors", "v.rid, v.part", namespace, model, join, values)
    keys = number_parts(np.array([rid for rid, _ in found], np.int64))
    return list(zip(keys.tolist(), (blob for _, blob in found), strict=True))


def number_parts(memories: Keys) -> Keys:
    """Return the keys of parts, given the memory of each, ascending."""
    keys: Keys = (memories << PART_BITS) | (np.arange(len(memories)) - np.searchsorted(memories, memories))
    return keys
