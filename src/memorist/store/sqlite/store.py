"""Memories in one SQLite file."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from memorist.errors import InvalidInput
from memorist.records import (
    CheckReport,
    ConversationBatch,
    Filter,
    Memory,
    MemoryDraft,
    Page,
    Query,
    Reinforcement,
    Row,
    Stats,
    Term,
    Version,
)
from memorist.store.base import (
    AddResult,
    ConversationResult,
    EmbeddingJob,
    KeywordMatches,
    Model,
    Part,
    Scope,
    VectorMatches,
)
from memorist.store.migrations import Migrations, bundled, migrate
from memorist.store.sqlite import keyword, maintenance
from memorist.store.sqlite.agent_files import SqliteAgentFiles
from memorist.store.sqlite.as_of import vector as stored_vector
from memorist.store.sqlite.backup import ASIDE, back_up
from memorist.store.sqlite.connections import ConnectionPool, SqliteSchema, fetch, value
from memorist.store.sqlite.documents import SqliteDocuments, beside
from memorist.store.sqlite.dump import dump
from memorist.store.sqlite.filters import END_OF_TIME, Scopes, conditions, from_micros, to_micros
from memorist.store.sqlite.ids import MemoryIds
from memorist.store.sqlite.links import SqliteLinks, replace_by, revive
from memorist.store.sqlite.load import SqliteLoader
from memorist.store.sqlite.maintenance import drop_deleted_words, erase, wipe
from memorist.store.sqlite.recalls import SqliteFeedback, SqliteLenses, SqliteRecalls
from memorist.store.sqlite.rows import columns, memory_of, ranking_row, source
from memorist.store.sqlite.sessions import SqliteSessions, link, open_session
from memorist.store.sqlite.strength import (
    SqliteStrength,
    add_facts,
    index_facts,
    set_pin,
    strengthen,
    take_facts,
)
from memorist.store.sqlite.turns import take
from memorist.store.sqlite.vectors import NearestPart, SqliteVectors, nearest_parts
from memorist.store.sqlite.vocabulary import Vocabulary
from memorist.store.sqlite.writes import as_json, content_hash, insert, update
from memorist.store.vector_scan import with_parts
from memorist.validation import MAX_TAGS


class SqliteStore:
    """The verbs of `Store` on SQLite. `path` may be ":memory:"."""

    def __init__(
        self,
        path: str,
        *,
        namespace: str = "default",
        read_only: bool = False,
        busy_timeout: float = 30.0,
        synchronous: str = "full",
        migrations: Migrations | None = None,
        pool: ConnectionPool | None = None,
    ) -> None:
        self.path = path
        self.namespace = namespace
        self._pool = pool or ConnectionPool(
            path, read_only=read_only, busy_timeout=busy_timeout, synchronous=synchronous
        )
        self._migrations = bundled("sqlite") if migrations is None else migrations
        self._scopes = Scopes(namespace)
        self._keyword = keyword.KeywordLeg(namespace)
        self._vectors = SqliteVectors(self._pool, namespace)
        self._vocabulary = Vocabulary(namespace)
        self._unmerged = 0
        self._ids = MemoryIds(namespace)
        self.links = SqliteLinks(self._pool, self._ids)
        self.strength = SqliteStrength(self._pool, self._ids)
        self.sessions = SqliteSessions(self._pool, self._ids)
        self.recalls = SqliteRecalls(self._pool, self._ids)
        self.feedback = SqliteFeedback(self._pool, self._ids)
        self.lenses = SqliteLenses(self._pool, namespace)
        self.notebook = SqliteAgentFiles(self._pool, namespace)
        if pool is not None:
            return
        try:
            with self._pool.reading() as connection:
                migrate(SqliteSchema(self._pool, connection), self._migrations)
        except BaseException:
            self._pool.close()
            raise

    @cached_property
    def documents(self) -> SqliteDocuments:
        """The files of this namespace. Their chunks are memories of a namespace beside it, in the same database."""
        chunks = SqliteStore(self.path, namespace=beside(self.namespace), migrations=self._migrations, pool=self._pool)
        return SqliteDocuments(self._pool, self.namespace, chunks, chunks._vectors)

    def close(self) -> None:
        self._pool.close()

    # Writing

    def add(self, drafts: Sequence[MemoryDraft], reinforcement: Reinforcement) -> list[AddResult]:
        with self._pool.writing() as connection:
            kept = [self._add(connection, draft, reinforcement) for draft in drafts]
            self._merge_words(connection, len(kept))
            return kept

    def take(self, told: Sequence[ConversationBatch]) -> ConversationResult:
        with self._pool.writing() as connection:
            taken = take(connection, self.namespace, told)
            self._merge_words(connection, len(taken.ids))
            return taken

    def _merge_words(self, connection: apsw.Connection, written: int) -> None:
        """Join the pieces of the full-text indexes when enough was written."""
        self._unmerged += written
        if self._unmerged >= keyword.MERGE_EVERY:
            keyword.merge(connection)
            self._unmerged = 0

    def _add(self, connection: apsw.Connection, draft: MemoryDraft, reinforcement: Reinforcement) -> AddResult:
        recorded = to_micros(draft.recorded_at)
        sid = None if draft.session is None else open_session(connection, self.namespace, draft.session)
        hash = content_hash(draft.content)
        rid = insert(connection, self.namespace, draft, hash)
        if rid is not None:
            if sid is not None:
                link(connection, sid, [rid], "created", recorded)
            add_facts(connection, rid, draft.facts, min(recorded, to_micros(draft.created_at)), indexed=True)
            return AddResult(self._row(connection, rid), EmbeddingJob(rid, draft.title, draft.content))
        known = value(
            connection,
            """
            select rid from memories
            where namespace = :namespace and coalesce(project, '') = coalesce(:project, '')
              and content_hash = :hash and deleted_at is null
            """,
            {"namespace": self.namespace, "project": draft.project, "hash": hash},
        )
        if known is None:
            raise InvalidInput(f"the id {draft.id} belongs to another memory already; choose another one")
        strengthen(connection, [known], reinforcement.share, recorded, reinforcement.decay.sectors)
        revive(connection, known, recorded)  # whoever says it again means that it holds
        if sid is not None:
            link(connection, sid, [known], "reinforced", recorded)
        add_facts(connection, known, draft.facts, recorded)
        return AddResult(self._row(connection, known), None)

    def update(
        self, id: str, changes: Mapping[str, Any], now: datetime, session: str | None
    ) -> tuple[Memory, EmbeddingJob | None]:
        with self._pool.writing() as connection:
            rid, memory = self._ids.require(connection, id)
            if session is not None:
                sid = open_session(connection, self.namespace, session)
                link(connection, sid, [rid], "updated", to_micros(now))
            return update(connection, rid, memory, changes, to_micros(now))

    def merge(self, keep: str, others: Sequence[str], now: datetime) -> Memory:
        stamp = to_micros(now)
        with self._pool.writing() as connection:
            kept = self._ids.require(connection, keep)
            merged = [self._ids.require(connection, id) for id in others]
            for other in merged:
                replace_by(connection, other, kept, None, "merge", now)
                take_facts(connection, kept[0], other[1].facts, stamp)
            tags = dict.fromkeys([*kept[1].tags, *(tag for _, memory in merged for tag in memory.tags)])
            update(connection, *kept, {"tags": tuple(tags)[:MAX_TAGS]}, stamp)
            if any(memory.pinned for _, memory in merged):
                set_pin(connection, *kept, True, stamp)
            index_facts(connection, kept[0])
            return self._row(connection, kept[0])

    def forget(self, id: str, now: datetime) -> None:
        with self._pool.writing() as connection:
            rid, _ = self._ids.require(connection, id)
            connection.execute("update memories set deleted_at = ? where rid = ?", (to_micros(now), rid))

    def restore(self, id: str) -> Memory:
        with self._pool.writing() as connection:
            rid, _ = self._ids.require(connection, id, deleted=True)
            try:
                connection.execute("update memories set deleted_at = null where rid = ?", (rid,))
            except apsw.ConstraintError as exc:
                raise InvalidInput(f"{id} cannot be restored: a newer memory of its project has the same text") from exc
            return self._row(connection, rid)

    def erase(self, ids: Sequence[str]) -> int:
        with self._pool.writing() as connection:
            rids = {self._ids.require(connection, id, deleted=None)[0] for id in ids}
            erase(connection, sorted(rids))
            return len(rids)

    def purge(self, before: datetime | None) -> int:
        with self._pool.writing() as connection:
            forgotten = fetch(
                connection,
                """
                select rid from memories
                where namespace = :namespace and deleted_at is not null and deleted_at < :before
                """,
                {"namespace": self.namespace, "before": END_OF_TIME if before is None else to_micros(before)},
            )
            erase(connection, [rid for (rid,) in forgotten])
            drop_deleted_words(connection)
        wipe(self._pool, [*self._migrations, ASIDE])
        return len(forgotten)

    # Reading

    def find(self, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory | None]:
        moment = None if as_of is None else to_micros(as_of)
        with self._pool.reading() as connection:
            sql = f"""
                select {columns(then=as_of is not None)} from {source(then=as_of is not None)}
                where m.id in (select value from json_each(:ids)) and m.namespace = :namespace
                  and m.deleted_at is null
            """
            values = {"ids": as_json(list(ids)), "namespace": self.namespace, "as_of": moment}
            whole = {memory.id: memory for memory in map(memory_of, fetch(connection, sql, values))}
            return [whole.get(id) or self._by_part(connection, id, moment) for id in ids]

    def _by_part(self, connection: apsw.Connection, id: str, as_of: int | None) -> Memory | None:
        found = self._ids.find(connection, id, as_of=as_of)
        return found[1] if found else None

    def require(self, id: str) -> Memory:
        with self._pool.reading() as connection:
            return self._ids.require(connection, id)[1]

    def page(self, filter: Filter, *, limit: int, cursor: str | None, deleted: bool) -> Page:
        where, values = "", {"limit": limit + 1}
        if cursor is not None:
            where = "and (m.created_at, m.rid) < (:cursor_time, :cursor_rid)"
            values |= _cursor_values(cursor)
        rows = self._in_order(filter, where, values, "desc", deleted=deleted)
        memories = tuple(memory_of(row[1:]) for row in rows[:limit])
        more = f"{to_micros(memories[-1].created_at)}:{rows[limit - 1][0]}" if len(rows) > limit else None
        return Page(memories, more)

    def around(self, id: str, filter: Filter, *, before: int, after: int) -> list[Memory]:
        with self._pool.reading() as connection:
            rid, anchor = self._ids.require(connection, id)
        values = {"time": to_micros(anchor.created_at), "rid": rid}
        place = "and (m.created_at, m.rid) {} (:time, :rid)"
        earlier = self._in_order(filter, place.format("<"), values | {"limit": before}, "desc")
        later = self._in_order(filter, place.format(">"), values | {"limit": after}, "asc")
        (shown,) = self.find([anchor.id], as_of=filter.as_of)
        rows = [memory_of(row[1:]) for row in (*reversed(earlier), *later)]
        return [*rows[: len(earlier)], *([shown] if shown else []), *rows[len(earlier) :]]

    def between(self, filter: Filter, limit: int) -> list[Memory]:
        return [memory_of(row[1:]) for row in self._in_order(filter, "", {"limit": limit}, "asc")]

    def _in_order(
        self, filter: Filter, where: str, values: Mapping[str, Any], order: str, *, deleted: bool = False
    ) -> list[tuple[Any, ...]]:
        """Rows that pass a filter in the order they happened, or the other way round; in the order added on a tie."""
        then = filter.as_of is not None
        wanted, given = conditions(filter, then=then)
        # Of the few that are pinned an index knows; left to itself, SQLite would walk through all of time for them.
        at = "+m.created_at" if filter.pinned else "m.created_at"
        sql = f"""
            select m.rid, {columns(then=then)}
            from {source(then=then)}
            where m.namespace = :namespace and m.deleted_at is {"not null" if deleted else "null"} {wanted} {where}
            order by {at} {order}, m.rid {order}
            limit :limit
        """
        with self._pool.reading() as connection:
            return fetch(connection, sql, {**given, **values, "namespace": self.namespace})

    def texts(self, filter: Filter) -> Iterator[tuple[str, str | None, str]]:
        where, values = conditions(filter)
        sql = f"""
            select m.rid, m.id, m.project, m.content, m.content_hash from memories m
            where m.rid > :after and +m.namespace = :namespace and m.deleted_at is null {where}
            order by m.rid limit {TEXTS_AT_ONCE}
        """
        after = 0
        while True:
            with self._pool.reading() as connection:
                rows = fetch(connection, sql, values | {"namespace": self.namespace, "after": after})
            yield from ((id, project, text) for _, id, project, text, hash in rows if hash == content_hash(text))
            if len(rows) < TEXTS_AT_ONCE:
                return
            after = rows[-1][0]

    def history(self, id: str) -> list[Version]:
        with self._pool.reading() as connection:
            rid, _ = self._ids.require(connection, id, deleted=None)
            rows = fetch(
                connection,
                "select snapshot, replaced_at from memory_history where rid = ? order by version desc",
                (rid,),
            )
        return [
            Version(old["content"], old["title"], tuple(old["tags"]), from_micros(replaced_at))
            for old, replaced_at in ((json.loads(snapshot), replaced_at) for snapshot, replaced_at in rows)
        ]

    def scope(self, filter: Filter) -> Scope:
        with self._pool.reading() as connection:
            return self._scopes.of(connection, filter)

    def match(
        self, query: Query, scope: Scope, *, limit: int, page: int, weights: Mapping[str, float]
    ) -> KeywordMatches:
        with self._pool.reading() as connection:
            return self._keyword.match(connection, query, scope, limit, page, weights)

    def facets(
        self, query: Query | None, filter: Filter, keys: Sequence[int], fields: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        with self._pool.reading() as connection:
            scope = self._scopes.of(connection, filter) if query else Scope(filter)
            return keyword.facets(connection, self._keyword, query, scope, keys, fields)

    def held_back(self, query: Query, filter: Filter, keys: Sequence[int]) -> dict[str, int]:
        with self._pool.reading() as connection:
            return keyword.held_back(connection, self._keyword, query, filter, keys)

    def known_terms(self, terms: Sequence[Term]) -> set[Term]:
        with self._pool.reading() as connection:
            return self._vocabulary.known(connection, terms)

    def similar_words(self, word: str) -> list[str]:
        with self._pool.reading() as connection:
            return self._vocabulary.similar(connection, word)

    def nearest(self, model: Model, vector: NDArray[np.float32], scope: Scope, *, limit: int) -> VectorMatches:
        return self._vectors.nearest(model, vector, scope, limit)

    def rows(
        self,
        keys: Sequence[int],
        model: Model | None,
        vector: NDArray[np.float32] | None,
        as_of: datetime | None = None,
    ) -> list[Row]:
        then = as_of is not None
        sql = f"""
            select m.rid, {stored_vector(then=then)}, {"m.reworded" if then else "false"}, {columns(then=then)}
            from {source(then=then)}
            where {_AMONG} and +m.namespace = :namespace and m.deleted_at is null
        """
        values = {
            "keys": as_json(list(keys)),
            "namespace": self.namespace,
            "model": model.name if model else None,
            "as_of": to_micros(as_of) if as_of else None,
        }
        with self._pool.reading() as connection:
            found = fetch(connection, sql, values)
            near = {}
            if model is not None and vector is not None and self._vectors.have_parts(model):
                same = [row[0] for row in found if not row[2]]  # the parts there are belong to what it says now
                near = nearest_parts(connection, model.name, same, vector)
        similarities = _similarities([row[1] for row in found], vector)
        rows = [ranking_row(row[0], whole, row[1], row[3:]) for row, whole in zip(found, similarities, strict=True)]
        return [_by_part(row, near[row.key]) if row.key in near else row for row in rows]

    # Vectors

    def vector(self, id: str, model: Model, as_of: datetime | None) -> NDArray[np.float32] | None:
        then = as_of is not None
        sql = f"""
            select {stored_vector(then=then)}
            from {source(then=then)}
            where m.namespace = :namespace and m.id = :id and m.deleted_at is null
        """
        values = {"namespace": self.namespace, "id": id, "model": model.name}
        with self._pool.reading() as connection:
            blob = value(connection, sql, values | ({"as_of": to_micros(as_of)} if as_of else {}))
        return None if blob is None else np.frombuffer(blob, np.float16).astype(np.float32)

    def pending(self, after: int, limit: int) -> Sequence[EmbeddingJob]:
        return self._vectors.pending(after, limit)

    def without_vector(self, model: Model, after: int, limit: int) -> Sequence[EmbeddingJob]:
        return self._vectors.without_vector(model, after, limit)

    def put_vectors(
        self,
        model: Model,
        texts: Sequence[EmbeddingJob],
        vectors: NDArray[np.float32],
        parts: Sequence[Part] = (),
    ) -> None:
        self._vectors.put(model, texts, vectors, parts)

    def drop_other_vectors(self, model: Model) -> int:
        return self._vectors.drop_others(model)

    # Looking after it

    def dump(self, *, vectors: bool, types: Collection[str] = ()) -> Iterator[dict[str, Any]]:
        return dump(self._pool, self.namespace, vectors=vectors, types=types)

    def loader(self) -> SqliteLoader:
        return SqliteLoader(self._pool, self.namespace)

    def backup(self, path: str, *, overwrite: bool) -> None:
        back_up(self._pool, path, overwrite=overwrite)

    def stats(self, model: str | None) -> Stats:
        return maintenance.stats(self._pool, self.namespace, model)

    def check(self, *, repair: bool) -> CheckReport:
        return maintenance.check(self._pool, self.namespace, repair=repair)

    # One memory

    def _row(self, connection: apsw.Connection, rid: int) -> Memory:
        return memory_of(value(connection, f"select {columns()} from memories m where m.rid = ?", (rid,)))


TEXTS_AT_ONCE = 1000

_AMONG = "m.rid in (select value from json_each(:keys))"


def _similarities(blobs: Sequence[bytes | None], vector: NDArray[np.float32] | None) -> list[float | None]:
    """Exact cosine similarities; None where there is no vector to compare."""
    present = [blob for blob in blobs if blob is not None]
    if vector is None or not present:
        return [None] * len(blobs)
    matrix = np.frombuffer(b"".join(present), np.float16).reshape(len(present), -1).astype(np.float64)
    # Row by row in double: a similarity must not depend on which others are computed beside it.
    scores = iter(np.einsum("ij,j->i", matrix, vector.astype(np.float64)).tolist())
    return [None if blob is None else next(scores) for blob in blobs]


def _by_part(row: Row, part: NearestPart) -> Row:
    """A memory that has parts is near by itself and by the nearest of them."""
    whole = row.similarity
    if whole is None or part.similarity <= whole:
        return row
    return replace(row, similarity=float(with_parts(whole, part.similarity, part.of)), passage=part.span)


def _cursor_values(cursor: str) -> dict[str, int]:
    try:
        time, rid = map(int, cursor.split(":"))
        if max(abs(time), abs(rid)) < END_OF_TIME:
            return {"cursor_time": time, "cursor_rid": rid}
    except (ValueError, AttributeError):
        pass
    raise InvalidInput(f"{cursor!r} is no cursor; take the one that the page before gave")
