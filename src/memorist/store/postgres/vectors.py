"""
Vectors on PostgreSQL, compared by pgvector: all that pass, or the nearest by an approximate index.

Vectors have unit length, so the inner product is their cosine; `<#>` is its negative. A namespace with many vectors of
a model has an index (HNSW) of its own: what others store costs it nothing, and none has to be searched past.

Whether an index is used is decided here and not by the planner, which cannot know how many vectors an index has to be
asked for until enough of them pass a filter. Comparing all that pass gives them as an array, which no approximate index
serves; an approximate search checks each vector by a scalar subquery, which cannot become a join.
"""

import hashlib
import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import psycopg
from msgspec.structs import replace
from numpy.typing import NDArray
from psycopg import errors

from memorist.arguments import Filter
from memorist.errors import EmbedderError, StoreError
from memorist.records import Model
from memorist.store.database import Connection
from memorist.store.filters import MAX_SCOPE_KEYS, filter_conditions
from memorist.store.image import Image
from memorist.store.image_follower import IMAGE_BYTES
from memorist.store.metadata_index import MetadataIndex
from memorist.store.postgres.connections import PostgresDatabase
from memorist.store.postgres.dialect import quote_text
from memorist.store.postgres.schema import fetch_value
from memorist.store.postgres.vector_blocks import load_mirror
from memorist.store.records import NO_MATCHES, EmbeddingJob, Matches, Part, Scope, VectorMatches
from memorist.store.vector_mirror import MirroredVectors, VectorMirror
from memorist.store.vectors import check_dimensions, check_metric

# Vectors of memories and parts, from which on an index is faster by more than its upkeep: at 20,000 a search takes a
# sixth of the time, and each new vector as long as a tenth of a search without an index.
INDEX_AFTER = 10_000
_MAX_INDEXED_DIMENSIONS = 4000  # of pgvector's halves
_PARTS_FACTORS = (4, 64)  # how many times `limit` parts are read, as several of the nearest may be of one memory
_MAX_COMPARED = 5000  # parts of a namespace that are all compared, as an index may leave some out
# Candidates per result while an index is searched: at 100,000 memories, with 64 results, .997 of the nearest ten are
# found. From 1000 on, pgvector refuses.
_CANDIDATES_FACTOR, _MIN_CANDIDATES, _MAX_CANDIDATES = 4, 200, 1000
_MAX_SCANNED = 200_000  # vectors that an index is asked for until enough of them pass; then all that pass are compared
# An index of n vectors is asked for n / c times `limit` of them where c pass, and each costs as much as comparing some
# five: it is faster if c * c > 25 * limit * n. Measured at 100,000.
_EXACT_FACTOR = 25
_SECONDS_KNOWN = 60.0  # how long a model, a filter and counts are remembered
_MAX_FILTERS = 1000  # remembered
_MAX_TOTAL = 100  # counted of memories that all have their vectors: nobody is told how many they are
_MIN_REMEMBERED = 10_000  # memories; fewer are counted each time
_BUILD_BYTES = 400  # of an index in memory for each vector, besides its numbers
_RELOAD_SECONDS = 60.0  # after which vectors are read into memory again that were not, or were dropped
_REBUILD_SECONDS = 900.0  # after which an index is begun again that could not be built, or was dropped
_LOCK_SECONDS = 0.5  # between two looks at whether another process has built an index
_TABLES = ("vectors", "part_vectors")

_ANY_MOMENT = datetime.min.replace(tzinfo=UTC)


class _Known(NamedTuple):
    """All that is known of a model: its number, its dimensions, and the vectors in its index, or None without one."""

    number: int
    dimensions: int
    indexed: float | None
    many_parts: bool
    until: float


class _Found(NamedTuple):
    """The matches of a statement, whether they are all that should be, and the state of the namespace: `_STATE`."""

    matches: Matches
    complete: bool
    waiting: bool
    others: bool
    total: int


class _Counts(NamedTuple):
    total: int
    unembedded: int
    until: float


class PostgresVectors(MirroredVectors):
    """The vectors of one namespace. Beside an image of it, they are in memory as well, up to `most_bytes` of both."""

    _database: PostgresDatabase

    def __init__(self, database: PostgresDatabase, namespace: str, most_bytes: int = IMAGE_BYTES) -> None:
        super().__init__(database, namespace)
        self._most_bytes = most_bytes
        self._tenant = quote_text(database.namespace)
        # Row security adds the tenant in any case; of a constant, the planner knows how common it is.
        self._live = f"m.tenant = {self._tenant} and m.namespace = :namespace and m.deleted_at is null"

    def after_fork(self) -> None:
        super().after_fork()
        self._next_loads: dict[str, float] = {}  # when this process may read the vectors of a model into memory again
        self._models: dict[str, _Known] = {}
        self._narrow: dict[Filter, tuple[bool, float]] = {}
        self._counts: dict[tuple[str, Filter], _Counts] = {}
        self._parts = True  # whether there are any, or may be
        self._next_builds: dict[str, float] = {}  # when this process may begin to build the index of a model again

    def _insert(
        self,
        connection: Connection,
        model: Model,
        texts: Sequence[EmbeddingJob],
        vectors: NDArray[np.float32] | NDArray[np.float16],
        parts: Sequence[Part],
        keys: Mapping[int, int],
    ) -> None:
        self._database.note_rows(len(vectors))
        super()._insert(connection, model, texts, vectors, parts, keys)
        self._parts = self._parts or bool(parts)

    def drop_others(self, model: Model) -> int:
        before = self._list_models()
        dropped = super().drop_others(model)
        gone = before - self._list_models()
        with self._lock:
            self._models.clear()
            self._counts.clear()
        if gone and not self._database.read_only:
            with suppress(StoreError), self._database.administering() as raw:  # an empty index is in nobody's way
                for table, number in ((table, number) for table in _TABLES for number in gone):
                    raw.execute(f"drop index concurrently if exists {self._name_index(table, number)}".encode())
        return dropped

    def have_parts(self, model: Model) -> bool:
        return self._parts

    # Searching

    def find_nearest(self, model: Model, vector: NDArray[np.float32], scope: Scope, limit: int) -> VectorMatches:
        mirror = None if scope.image is None else self._find_in_memory(model, scope.image)
        if mirror is None:
            return self._ask_server(model, vector, scope, limit)
        asked = mirror.ask(vector)
        matches, unfiltered = self._match_listed(asked, scope, limit)
        return self._to_answer(asked, matches, unfiltered, scope, limit)

    def _find_in_memory(self, model: Model, image: Image) -> VectorMirror | None:
        """Return the mirror of a model as of the moment of an image, if there is one; begin to make one otherwise."""
        mirror = self._follow(model, (image.logged, image.newest), image.logged)
        if mirror is not None and image.nbytes + mirror.nbytes > self._most_bytes:
            with self._lock:
                self._mirrors.pop(model.name, None)
            return None
        if self._find_mirror(model) is None:
            with self._lock:
                if time.monotonic() < self._next_loads.get(model.name, 0.0):
                    return None
                self._next_loads[model.name] = math.inf
            loading = threading.Thread(
                target=self._try_to_load, args=(model, image.nbytes), name="memorist-vectors", daemon=True
            )
            try:
                loading.start()
            except RuntimeError:  # no thread available
                self._next_loads[model.name] = time.monotonic() + _RELOAD_SECONDS
        return mirror

    def _try_to_load(self, model: Model, taken: int) -> None:
        # Where it fails, or too many would have to be read, the server goes on to compare them.
        try:
            with suppress(StoreError, EmbedderError, ValueError):  # the last: one is damaged, as `check` will say
                self.load_mirror(model, taken)
        finally:
            self._next_loads[model.name] = time.monotonic() + _RELOAD_SECONDS

    def load_mirror(self, model: Model, taken: int = 0) -> None:
        """Read the vectors of a model into memory, where an image has taken some of what is granted."""
        with self._database.snapshot() as connection:
            mirror = load_mirror(connection, self._namespace, model, self._most_bytes - taken)
        with self._lock:
            self._keep(model, mirror)

    def _ask_server(self, model: Model, vector: NDArray[np.float32], scope: Scope, limit: int) -> VectorMatches:
        wall = scope.filter.restriction
        if scope.keys is not None and len(scope.keys) > MAX_SCOPE_KEYS:
            scope = replace(scope, keys=None)  # an image lists more than should be sent
        # The index of fields may be changed between two statements that do not see one moment.
        is_filtered = scope.filter.metadata is not None and scope.keys is None
        with self._database.snapshot() if is_filtered else self._database.reading() as connection:
            known = self._identify(model, connection)
            if known is None:
                total, _ = self._count(connection, None, wall)
                return VectorMatches(NO_MATCHES, total, total)
            half = vector.astype(np.float16).tobytes()
            try:
                found = self._match(connection, known, half, scope, limit)
            except StoreError:
                self._forget_model(model.name)
                with self._database.reading() as another:  # a transaction would be over
                    self._identify(model, another)  # raises if its dimensions are others by now
                raise
            matches = unfiltered = found.matches
            if len(matches) < limit and scope.filter != wall:
                unfiltered = self._match(connection, known, half, Scope(wall), limit).matches
            if scope.filter.as_of is not None:
                past = self._match_past(connection, model, vector, scope.filter)
                matches = Matches.join(matches, past).take(slice(limit))
            total, unembedded = found.total, 0
            if found.waiting or found.others:
                total, unembedded = self._count_remembered(connection, model, known, wall)
        return VectorMatches(matches, unembedded, total, unfiltered)

    def _match(self, connection: Connection, known: _Known, half: bytes, scope: Scope, limit: int) -> _Found:
        """Return the nearest memories that pass the filter, by an index where that is faster."""
        filter = scope.filter
        asked = {"vector": half, "limit": limit, "namespace": self._namespace}
        if scope.keys is not None:
            values = asked | {"keys": json.dumps(scope.keys.tolist())}
            return self._search(connection, filter, _select_all("select k.value from @keys(:keys) k", known), values)
        if self._can_use_index(connection, known, filter, limit):
            where, values = self._write_conditions(connection, filter, listed=False)
            nearest = _select_nearest(f"{self._live} {where}", known, self._tenant)
            values |= asked
            values["candidates"] = str(_count_candidates(limit))
            for factor in _PARTS_FACTORS:
                values["part_limit"] = factor * limit
                found = self._search(
                    connection, filter, nearest, values, complete=_ENOUGH_PARTS if known.many_parts else "true"
                )
                if found.complete and len(found.matches) == limit:
                    return found
            if len(found.matches) < limit:
                self._remember_filter(filter, narrow=True)  # few pass, or few of what is near
        where, values = self._write_conditions(connection, filter)
        passing = f"select m.rid from memories m where {self._live} {where}"
        return self._search(connection, filter, _select_all(passing, known), values | asked)

    def _write_conditions(
        self, connection: Connection, filter: Filter, *, listed: bool = True
    ) -> tuple[str, dict[str, Any]]:
        """Return a filter as ` and ...`: the index of fields lists memories `m`, or each is looked up in it."""
        where, values = filter_conditions(replace(filter, metadata=None))
        most = None if listed else 0
        narrowed, test = MetadataIndex(self._namespace).write_conditions(connection, filter, values, most=most)
        return f"{narrowed} {where} {test}", values

    def _search(
        self, connection: Connection, filter: Filter, nearest: str, values: dict[str, Any], *, complete: str = "true"
    ) -> _Found:
        """Run a search, and look at the state of the namespace, or of what is within the wall, in one round trip."""
        where, more = filter_conditions(filter.restriction)
        sql = f"{nearest} {_STATE.format(live=f'{self._live} {where}', complete=complete)}"
        keys, scores, is_complete, waiting, others, total, self._parts = connection.fetch(sql, values | more)[0]
        matches = Matches.of_vectors(np.array(keys or (), np.int64), np.array(scores or (), np.float64))
        return _Found(matches, is_complete, waiting, others, total)

    def _can_use_index(self, connection: Connection, known: _Known, filter: Filter, limit: int) -> bool:
        """Return whether there is an index, and so much passes the filter that it is faster than comparing it all."""
        # Of a restricted one, what lies beyond may not even decide which matches are looked at.
        if known.indexed is None or filter.restricted:
            return False
        narrow, until = self._narrow.get(_ignore_moment(filter), (False, 0.0))
        if until < time.monotonic():
            most = math.isqrt(int(_EXACT_FACTOR * max(limit, 1) * max(known.indexed, 1)))
            where, values = self._write_conditions(connection, filter)
            narrow = most >= connection.fetch_value(
                f"select count(*) from (select 1 from memories m where {self._live} {where} limit {most + 1}) passing",
                values | {"namespace": self._namespace},
            )
            self._remember_filter(filter, narrow=narrow)
        return not narrow

    def _remember_filter(self, filter: Filter, *, narrow: bool) -> None:
        with self._lock:
            if len(self._narrow) >= _MAX_FILTERS:
                self._narrow.clear()
            self._narrow[_ignore_moment(filter)] = narrow, time.monotonic() + _SECONDS_KNOWN

    # Counting

    def _count_remembered(self, connection: Connection, model: Model, known: _Known, wall: Filter) -> tuple[int, int]:
        """Count memories and those without a vector of the model; many are counted once in a while."""
        key, now = (model.name, wall), time.monotonic()
        counts = self._counts.get(key)
        if counts is None or counts.until < now:
            counts = _Counts(*self._count(connection, known, wall), now + _SECONDS_KNOWN)
            with self._lock:
                self._counts.pop(key, None)
                if counts.total >= _MIN_REMEMBERED:
                    self._counts[key] = counts
        return counts.total, counts.unembedded

    def _count(self, connection: Connection, known: _Known | None, wall: Filter) -> tuple[int, int]:
        where, values = filter_conditions(wall)
        embedded = (
            "0"
            if known is None
            else f"""
            (select count(*) from memories m join vectors v on v.rid = m.rid
            where v.model = {known.number} and {self._live} {where})
        """
        )
        sql = f"select count(*), {embedded} from memories m where {self._live} {where}"
        total, have_one = connection.fetch_value(sql, values | {"namespace": self._namespace})
        return total, max(0, total - have_one)

    # Models and their indexes

    def _identify(self, model: Model, connection: Connection) -> _Known | None:
        """
        Return what is known of a model, None if it is new; begin to build its index if one is due.

        A search finds that out, and not a write: a large import is done sooner without the index.
        """
        known = self._models.get(model.name)
        if known is None or known.until < time.monotonic():
            known = self._read_model(connection, model)
            if known is None:
                return None
            self._models[model.name] = known
        check_dimensions(model, known.dimensions)
        return known

    def _read_model(self, connection: Connection, model: Model) -> _Known | None:
        found = connection.fetch_value(
            "select model, dimensions, metric from models where name = :name", {"name": model.name}
        )
        if found is None:
            return None
        number, dimensions, metric = found
        check_metric(model, metric)
        names = json.dumps([self._name_index(table, number) for table in _TABLES])
        valid, vectors = connection.fetch_value(_INDEXES, {"names": names})
        indexed = vectors if valid == len(_TABLES) else None
        many_parts = self._has_more(connection, number, _MAX_COMPARED, ("part_vectors",))
        known = _Known(number, dimensions, indexed, many_parts, time.monotonic() + _SECONDS_KNOWN)
        if known.indexed is None and self._needs_index(connection, known):
            self._build_in_background(model)
        return known

    def _needs_index(self, connection: Connection, known: _Known) -> bool:
        return known.dimensions <= _MAX_INDEXED_DIMENSIONS and self._has_more(connection, known.number, INDEX_AFTER)

    def _has_more(self, connection: Connection, model: int, most: int, tables: Sequence[str] = _TABLES) -> bool:
        """Return whether there are more vectors of a model than `most`."""
        counts = (
            f"(select count(*) from (select 1 from {table} where model = {model} limit {most + 1}) t)"
            for table in tables
        )
        return int(connection.fetch_value(f"select {' + '.join(counts)}")) > most

    def _build_in_background(self, model: Model) -> None:
        with self._lock:
            if self._database.read_only or time.monotonic() < self._next_builds.get(model.name, 0.0):
                return
            self._next_builds[model.name] = time.monotonic() + _REBUILD_SECONDS
        threading.Thread(target=self._try_to_build, args=(model,), name="memorist-index", daemon=True).start()

    def _try_to_build(self, model: Model) -> None:
        # A user who does not own the tables may not: searches then compare all.
        with suppress(StoreError):
            self.build_index(model, wait=False)

    def build_index(self, model: Model, *, wait: bool = True) -> None:
        """Build the approximate index of a model, while others go on reading and writing, unless it is there."""
        with self._database.reading() as connection:
            number = connection.fetch_value("select model from models where name = :name", {"name": model.name})
            if number is None:
                return
            most = max(
                connection.fetch_value(f"select count(*) from {table} where model = {number}") for table in _TABLES
            )
        with self._database.administering() as raw:
            lock = _number_lock(self._name_index(_TABLES[0], number))
            # Asked for again and again: what waits for a lock would keep the one that builds from its end.
            while not fetch_value(raw, f"select pg_try_advisory_lock({lock})"):
                if not wait:
                    return
                time.sleep(_LOCK_SECONDS)
            try:
                megabytes = most * (2 * model.dimensions + _BUILD_BYTES) // 2**20
                raw.execute(f"set maintenance_work_mem = '{min(max(megabytes, 64), 8192)}MB'".encode())
                for table in _TABLES:
                    self._build(raw, table, number, model.dimensions)
                # Without statistics, any index that begins with the tenant would do to look a memory up.
                raw.execute(b"analyze memories, vectors, part_vectors")
            finally:
                raw.execute(f"select pg_advisory_unlock({lock})".encode())
        self._forget_model(model.name)

    def _build(self, raw: psycopg.Connection[Any], table: str, number: int, dimensions: int) -> None:
        name = self._name_index(table, number)
        valid = fetch_value(raw, f"select indisvalid from pg_index where indexrelid = to_regclass('{name}')")
        if valid:
            return
        if valid is False:  # a build was stopped half-way
            raw.execute(f"drop index concurrently if exists {name}".encode())
        create = f"""
            create index concurrently {name} on {table} using hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops)
            where tenant = {self._tenant} and model = {number}
        """
        try:
            raw.execute(create.encode())
        except (errors.DiskFull, errors.OutOfMemory):
            # Workers share the graph in /dev/shm, of which a container has little.
            raw.execute(f"drop index concurrently if exists {name}".encode())
            raw.execute(b"set max_parallel_maintenance_workers = 0")
            raw.execute(create.encode())

    def _name_index(self, table: str, number: int) -> str:
        digest = hashlib.sha256(f"{self._database.namespace}\0{number}".encode()).hexdigest()
        return f"{table}_nearest_{digest[:16]}"

    def _list_models(self) -> set[int]:
        with self._database.reading() as connection:
            return {number for (number,) in connection.fetch("select model from models")}

    def _forget_model(self, name: str) -> None:
        with self._lock:
            self._models.pop(name, None)


def _ignore_moment(filter: Filter) -> Filter:
    """Return a filter that stands for itself as of any time: each search may be as of another."""
    return filter if filter.as_of is None else replace(filter, as_of=_ANY_MOMENT)


def _count_candidates(limit: int) -> int:
    return min(max(_CANDIDATES_FACTOR * limit, _MIN_CANDIDATES), _MAX_CANDIDATES)


def _select_all(passing: str, known: _Known) -> str:
    """Return the beginning of a statement that compares all vectors of the keys that a query gives."""
    arms = (
        f"""
        select v.rid, v.vector <#> :vector as distance
        from {table} v
        where v.rid = any ((select p.keys from passing p)::bigint[]) and v.model = {known.number}
        """
        for table in _TABLES
    )
    return f"""
        with passing as materialized (select array({passing}) as keys),
        compared as materialized ({" union all ".join(arms)}),
    """


def _select_nearest(live: str, known: _Known, tenant: str) -> str:
    """
    Return the beginning of a statement that asks the indexes for vectors whose memories meet a condition.

    The vector depends on the settings, so that these are made before an index is asked.
    """
    asked = "(select a.vector from asked a)"
    distance = f"(v.vector::halfvec({known.dimensions})) <#> {asked}"
    condition = f"""
        v.tenant = {tenant} and v.model = {known.number}
        and (select true from memories m where m.rid = v.rid and {live})
    """
    memories, parts = (
        f"select v.rid, {distance} as distance from {table} v where {condition} order by {distance} limit {limit}"
        for table, limit in zip(_TABLES, (":limit", ":part_limit"), strict=True)
    )
    if not known.many_parts:
        parts = f"select v.rid, v.vector <#> {asked} as distance from part_vectors v where {condition}"
    # Results may come slightly out of order: they are sorted below, and in strict order some would be left out.
    return f"""
        with settings as materialized (
            select set_config('hnsw.iterative_scan', 'relaxed_order', true),
                set_config('hnsw.ef_search', :candidates, true),
                set_config('hnsw.max_scan_tuples', '{_MAX_SCANNED}', true)),
        asked as materialized (select :vector::halfvec({known.dimensions}) as vector from settings),
        parts as materialized ({parts}),
        compared as materialized (({memories}) union all select p.rid, p.distance from parts p),
    """


# A part that was not read is farther away than the best memories.
_ENOUGH_PARTS = """
    (select count(*) = :part_limit and max(p.distance) >= (select max(-b.similarity) from best b) from parts p)
"""

# The best memories, and what there is besides: texts that wait for a vector, other models, memories (a few), parts.
_STATE = f"""
    best as (
        select c.rid, -min(c.distance) as similarity
        from compared c
        group by c.rid
        order by similarity desc, c.rid
        limit :limit)
    select
        (select array_agg(b.rid order by b.similarity desc, b.rid) from best b),
        (select array_agg(b.similarity order by b.similarity desc, b.rid) from best b),
        {{complete}},
        exists (select 1 from unembedded u join memories m on m.rid = u.rid where {{live}}),
        (select count(*) > 1 from models),
        (select count(*) from (
            select 1 from memories m where {{live}} order by m.created_at, m.rid limit {_MAX_TOTAL}) few),
        (select min(p.part) is not null from part_vectors p)
"""

# Of these indexes, how many can be used, and the number of their vectors when they were last counted.
_INDEXES = """
    select count(*), coalesce(sum(c.reltuples), 0)::double precision
    from @texts(:names) n
    join pg_class c on c.oid = to_regclass(n.value)
    join pg_index i on i.indexrelid = c.oid
    where i.indisvalid
"""


def _number_lock(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
