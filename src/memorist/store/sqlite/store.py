"""The store on SQLite: memories in one file."""

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
from memorist.store.migrations import Migrations, load_migrations, migrate
from memorist.store.sqlite.agent_files import SqliteAgentFiles
from memorist.store.sqlite.as_of import vector_column
from memorist.store.sqlite.backup import BEFORE_RESTORE, back_up_database
from memorist.store.sqlite.connections import COMPANIONS, ConnectionPool, SqliteSchema, fetch, fetch_value
from memorist.store.sqlite.documents import SqliteDocuments, chunk_namespace
from memorist.store.sqlite.dump import dump
from memorist.store.sqlite.filters import END_OF_TIME, Scopes, filter_conditions, from_micros, to_micros
from memorist.store.sqlite.ids import MemoryIds
from memorist.store.sqlite.keyword import (
    MERGE_EVERY,
    KeywordLeg,
    count_facets,
    count_filtered_out,
    merge_index_segments,
)
from memorist.store.sqlite.links import SqliteLinks, supersede, unsupersede
from memorist.store.sqlite.load import SqliteLoader
from memorist.store.sqlite.maintenance import (
    check_database,
    collect_stats,
    erase_memories,
    purge_indexes,
    wipe_file,
)
from memorist.store.sqlite.recalls import SqliteFeedback, SqliteLenses, SqliteRecalls
from memorist.store.sqlite.rows import load_memory, memories_table, memory_columns, to_memory, to_row
from memorist.store.sqlite.sessions import SqliteSessions, link_memories, require_open_session
from memorist.store.sqlite.strength import (
    SqliteStrength,
    add_facts,
    adjust_salience,
    copy_facts,
    index_facts,
    set_pinned,
)
from memorist.store.sqlite.turns import add_conversations
from memorist.store.sqlite.vectors import Halves, NearestPart, SqliteVectors, find_nearest_parts
from memorist.store.sqlite.vocabulary import Vocabulary
from memorist.store.sqlite.writes import as_json, content_hash, insert_memory, update_memory
from memorist.store.vector_scan import combine_with_parts
from memorist.validation import MAX_TAGS

_TEXTS_AT_ONCE = 1000


class SqliteStore:
    """A `Store` on SQLite. `path` may be ":memory:"."""

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
        self._migrations = load_migrations("sqlite") if migrations is None else migrations
        self._scopes = Scopes(namespace)
        self._keyword = KeywordLeg(namespace)
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
        self.agent_files = SqliteAgentFiles(self._pool, namespace)
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
        """The files of this namespace. Their chunks are memories of another namespace in the same database."""
        namespace = chunk_namespace(self.namespace)
        chunks = SqliteStore(self.path, namespace=namespace, migrations=self._migrations, pool=self._pool)
        return SqliteDocuments(self._pool, self.namespace, chunks, chunks._vectors)

    @property
    def own_files(self) -> tuple[str, ...]:
        """The paths of the files that this store writes."""
        return () if self._pool.in_memory else tuple(self._pool.file + end for end in ("", *COMPANIONS))

    def close(self) -> None:
        self._pool.close()

    # Writing

    def add(self, drafts: Sequence[MemoryDraft], reinforcement: Reinforcement) -> list[AddResult]:
        with self._pool.writing() as connection:
            results = [self._add(connection, draft, reinforcement) for draft in drafts]
            self._merge_segments(connection, len(results))
            return results

    def add_conversations(self, batches: Sequence[ConversationBatch]) -> ConversationResult:
        with self._pool.writing() as connection:
            result = add_conversations(connection, self.namespace, batches)
            self._merge_segments(connection, len(result.ids))
            return result

    def _merge_segments(self, connection: apsw.Connection, written: int) -> None:
        """Merge segments of the full-text indexes when enough was written."""
        self._unmerged += written
        if self._unmerged >= MERGE_EVERY:
            merge_index_segments(connection)
            self._unmerged = 0

    def _add(self, connection: apsw.Connection, draft: MemoryDraft, reinforcement: Reinforcement) -> AddResult:
        recorded = to_micros(draft.recorded_at)
        sid = None if draft.session is None else require_open_session(connection, self.namespace, draft.session)
        hash = content_hash(draft.content)
        rid = insert_memory(connection, self.namespace, draft, hash)
        if rid is not None:
            if sid is not None:
                link_memories(connection, sid, [rid], "created", recorded)
            add_facts(connection, rid, draft.facts, min(recorded, to_micros(draft.created_at)), indexed=True)
            return AddResult(load_memory(connection, rid), EmbeddingJob(rid, draft.title, draft.content))
        known = fetch_value(
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
        adjust_salience(connection, [known], reinforcement.share, recorded, reinforcement.decay.sectors)
        unsupersede(connection, known, recorded)  # said again, it holds again
        if sid is not None:
            link_memories(connection, sid, [known], "reinforced", recorded)
        add_facts(connection, known, draft.facts, recorded)
        return AddResult(load_memory(connection, known), None)

    def update(
        self, id: str, changes: Mapping[str, Any], now: datetime, session: str | None
    ) -> tuple[Memory, EmbeddingJob | None]:
        with self._pool.writing() as connection:
            rid, memory = self._ids.require(connection, id)
            if session is not None:
                sid = require_open_session(connection, self.namespace, session)
                link_memories(connection, sid, [rid], "updated", to_micros(now))
            return update_memory(connection, rid, memory, changes, to_micros(now))

    def merge(self, keep: str, others: Sequence[str], now: datetime) -> Memory:
        stamp = to_micros(now)
        with self._pool.writing() as connection:
            rid, memory = self._ids.require(connection, keep)
            merged = [self._ids.require(connection, id) for id in others]
            for other in merged:
                supersede(connection, other, (rid, memory), None, "merge", now)
                copy_facts(connection, rid, other[1].facts, stamp)
            tags = dict.fromkeys([*memory.tags, *(tag for _, other in merged for tag in other.tags)])
            update_memory(connection, rid, memory, {"tags": tuple(tags)[:MAX_TAGS]}, stamp)
            if any(other.pinned for _, other in merged):
                set_pinned(connection, rid, memory, True, stamp)
            index_facts(connection, rid)
            return load_memory(connection, rid)

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
            return load_memory(connection, rid)

    def erase(self, ids: Sequence[str]) -> int:
        with self._pool.writing() as connection:
            rids = {self._ids.require(connection, id, deleted=None)[0] for id in ids}
            erase_memories(connection, sorted(rids))
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
            erase_memories(connection, [rid for (rid,) in forgotten])
            purge_indexes(connection)
        wipe_file(self._pool, [*self._migrations, BEFORE_RESTORE])
        return len(forgotten)

    # Reading

    def find(self, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory | None]:
        moment = None if as_of is None else to_micros(as_of)
        with self._pool.reading() as connection:
            sql = f"""
                select {memory_columns(past=as_of is not None)} from {memories_table(past=as_of is not None)}
                where m.id in (select value from json_each(:ids)) and m.namespace = :namespace
                  and m.deleted_at is null
            """
            values = {"ids": as_json(list(ids)), "namespace": self.namespace, "as_of": moment}
            found = {memory.id: memory for memory in map(to_memory, fetch(connection, sql, values))}
            return [found.get(id) or self._find_by_id_part(connection, id, moment) for id in ids]

    def _find_by_id_part(self, connection: apsw.Connection, id: str, as_of: int | None) -> Memory | None:
        found = self._ids.find(connection, id, as_of=as_of)
        return found[1] if found else None

    def require(self, id: str) -> Memory:
        with self._pool.reading() as connection:
            return self._ids.require(connection, id)[1]

    def find_in_project(self, id: str, project: str) -> Memory | None:
        with self._pool.reading() as connection:
            found = self._ids.find(connection, id, project=project)
        return found[1] if found else None

    def list_page(self, filter: Filter, *, limit: int, cursor: str | None, deleted: bool) -> Page:
        where, values = "", {"limit": limit + 1}
        if cursor is not None:
            where = "and (m.created_at, m.rid) < (:cursor_time, :cursor_rid)"
            values |= _parse_cursor(cursor)
        rows = self._select_by_time(filter, where, values, "desc", deleted=deleted)
        memories = tuple(to_memory(row[1:]) for row in rows[:limit])
        next_cursor = f"{to_micros(memories[-1].created_at)}:{rows[limit - 1][0]}" if len(rows) > limit else None
        return Page(memories, next_cursor)

    def list_around(self, id: str, filter: Filter, *, before: int, after: int) -> list[Memory]:
        with self._pool.reading() as connection:
            rid, anchor = self._ids.require(connection, id)
        values = {"time": to_micros(anchor.created_at), "rid": rid}
        where = "and (m.created_at, m.rid) {} (:time, :rid)"
        earlier = self._select_by_time(filter, where.format("<"), values | {"limit": before}, "desc")
        later = self._select_by_time(filter, where.format(">"), values | {"limit": after}, "asc")
        (current,) = self.find([anchor.id], as_of=filter.as_of)
        memories = [to_memory(row[1:]) for row in (*reversed(earlier), *later)]
        return [*memories[: len(earlier)], *([current] if current else []), *memories[len(earlier) :]]

    def list_between(self, filter: Filter, limit: int) -> list[Memory]:
        return [to_memory(row[1:]) for row in self._select_by_time(filter, "", {"limit": limit}, "asc")]

    def _select_by_time(
        self, filter: Filter, where: str, values: Mapping[str, Any], order: str, *, deleted: bool = False
    ) -> list[tuple[Any, ...]]:
        """Return rows that pass a filter, by time and, of the same time, in the order they were added."""
        past = filter.as_of is not None
        conditions, filter_values = filter_conditions(filter, past=past)
        # There is an index of the few pinned memories, but SQLite would choose the one by time, and read all of it.
        at = "+m.created_at" if filter.pinned else "m.created_at"
        sql = f"""
            select m.rid, {memory_columns(past=past)}
            from {memories_table(past=past)}
            where m.namespace = :namespace and m.deleted_at is {"not null" if deleted else "null"} {conditions} {where}
            order by {at} {order}, m.rid {order}
            limit :limit
        """
        with self._pool.reading() as connection:
            return fetch(connection, sql, {**filter_values, **values, "namespace": self.namespace})

    def iter_texts(self, filter: Filter) -> Iterator[tuple[str, str | None, str]]:
        where, values = filter_conditions(filter)
        sql = f"""
            select m.rid, m.id, m.project, m.content, m.content_hash from memories m
            where m.rid > :after and +m.namespace = :namespace and m.deleted_at is null {where}
            order by m.rid limit {_TEXTS_AT_ONCE}
        """
        after = 0
        while True:
            with self._pool.reading() as connection:
                rows = fetch(connection, sql, values | {"namespace": self.namespace, "after": after})
            yield from ((id, project, text) for _, id, project, text, hash in rows if hash == content_hash(text))
            if len(rows) < _TEXTS_AT_ONCE:
                return
            after = rows[-1][0]

    def list_versions(self, id: str) -> list[Version]:
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

    def resolve_scope(self, filter: Filter) -> Scope:
        with self._pool.reading() as connection:
            return self._scopes.resolve(connection, filter)

    def match_keywords(
        self, query: Query, scope: Scope, *, limit: int, page: int, weights: Mapping[str, float]
    ) -> KeywordMatches:
        with self._pool.reading() as connection:
            return self._keyword.match(connection, query, scope, limit, page, weights)

    def count_facets(
        self, query: Query | None, filter: Filter, keys: Sequence[int], fields: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        with self._pool.reading() as connection:
            scope = self._scopes.resolve(connection, filter) if query else Scope(filter)
            return count_facets(connection, self._keyword, query, scope, keys, fields)

    def count_filtered_out(self, query: Query, filter: Filter, keys: Sequence[int]) -> dict[str, int]:
        with self._pool.reading() as connection:
            return count_filtered_out(connection, self._keyword, query, filter, keys)

    def find_known_terms(self, terms: Sequence[Term]) -> set[Term]:
        with self._pool.reading() as connection:
            return self._vocabulary.find_known(connection, terms)

    def find_similar_words(self, word: str) -> list[str]:
        with self._pool.reading() as connection:
            return self._vocabulary.find_similar(connection, word)

    def find_nearest(self, model: Model, vector: NDArray[np.float32], scope: Scope, *, limit: int) -> VectorMatches:
        return self._vectors.find_nearest(model, vector, scope, limit)

    def load_rows(
        self,
        keys: Sequence[int],
        model: Model | None,
        vector: NDArray[np.float32] | None,
        as_of: datetime | None = None,
    ) -> list[Row]:
        past = as_of is not None
        sql = f"""
            select m.rid, {vector_column(past=past)}, {"m.reworded" if past else "false"}, {memory_columns(past=past)}
            from {memories_table(past=past)}
            where m.rid in (select value from json_each(:keys)) and +m.namespace = :namespace and m.deleted_at is null
        """
        values = {
            "keys": as_json(list(keys)),
            "namespace": self.namespace,
            "model": model.name if model else None,
            "as_of": to_micros(as_of) if as_of else None,
        }
        with self._pool.reading() as connection:
            found = fetch(connection, sql, values)
            parts = {}
            if model is not None and vector is not None and self._vectors.have_parts(model):
                current = [row[0] for row in found if not row[2]]  # stored parts are those of the present text
                parts = find_nearest_parts(connection, model.name, current, vector)
        vectors, similarities = _compare_vectors([row[1] for row in found], vector)
        rows = [
            to_row(row[0], similarity, half, row[3:])
            for row, similarity, half in zip(found, similarities, vectors, strict=True)
        ]
        return [_with_part(row, parts[row.key]) if row.key in parts else row for row in rows]

    # Vectors

    def load_vector(self, id: str, model: Model, as_of: datetime | None) -> NDArray[np.float32] | None:
        past = as_of is not None
        sql = f"""
            select {vector_column(past=past)}
            from {memories_table(past=past)}
            where m.namespace = :namespace and m.id = :id and m.deleted_at is null
        """
        values = {"namespace": self.namespace, "id": id, "model": model.name}
        with self._pool.reading() as connection:
            blob = fetch_value(connection, sql, values | ({"as_of": to_micros(as_of)} if as_of else {}))
        return None if blob is None else np.frombuffer(blob, np.float16).astype(np.float32)

    def list_unembedded(self, after: int, limit: int, project: str | None = None) -> Sequence[EmbeddingJob]:
        return self._vectors.list_unembedded(after, limit, project)

    def list_without_vector(self, model: Model, after: int, limit: int) -> Sequence[EmbeddingJob]:
        return self._vectors.list_without_vector(model, after, limit)

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

    # Maintenance

    def dump(self, *, vectors: bool, types: Collection[str] = ()) -> Iterator[dict[str, Any]]:
        return dump(self._pool, self.namespace, vectors=vectors, types=types)

    def create_loader(self, sentence_models: Collection[str] = ()) -> SqliteLoader:
        return SqliteLoader(self._pool, self.namespace, sentence_models)

    def backup(self, path: str, *, overwrite: bool) -> None:
        back_up_database(self._pool, path, overwrite=overwrite)

    def stats(self, model: str | None) -> Stats:
        return collect_stats(self._pool, self.namespace, model)

    def check(self, *, repair: bool) -> CheckReport:
        return check_database(self._pool, self.namespace, repair=repair)


def _compare_vectors(
    blobs: Sequence[bytes | None], vector: NDArray[np.float32] | None
) -> tuple[list[Halves | None], list[float | None]]:
    """Return stored vectors as arrays, and their exact cosine similarities to a vector; None where there is none."""
    present = [blob for blob in blobs if blob is not None]
    if vector is None or not present:
        return [None] * len(blobs), [None] * len(blobs)
    halves = np.frombuffer(b"".join(present), np.float16).reshape(len(present), -1)
    # Row by row in double: a similarity must not depend on which others are computed beside it.
    scores = np.einsum("ij,j->i", halves.astype(np.float64), vector.astype(np.float64)).tolist()
    if len(present) == len(blobs):
        return list(halves), scores
    rows, similarities = iter(halves), iter(scores)
    return (
        [None if blob is None else next(rows) for blob in blobs],
        [None if blob is None else next(similarities) for blob in blobs],
    )


def _with_part(row: Row, part: NearestPart) -> Row:
    """Return a row with the similarity of its memory combined with that of the nearest part."""
    whole = row.similarity
    if whole is None or part.similarity <= whole:
        return row
    return replace(row, similarity=float(combine_with_parts(whole, part.similarity, part.count)), passage=part.span)


def _parse_cursor(cursor: str) -> dict[str, int]:
    try:
        time, rid = map(int, cursor.split(":"))
        if max(abs(time), abs(rid)) < END_OF_TIME:
            return {"cursor_time": time, "cursor_rid": rid}
    except (ValueError, AttributeError):
        pass
    raise InvalidInput(f"{cursor!r} is not a cursor; use the one that the previous page gave")
