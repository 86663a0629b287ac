"""Memories in one SQLite file."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from recollect.errors import Ambiguous, InvalidInput, NotFound, StoreError
from recollect.inputs import UPDATABLE
from recollect.records import Draft, Filter, Match, Memory, Page, Query, Report, Row, Stats, Version
from recollect.store import sqlite_check, sqlite_match
from recollect.store.base import Kept, Model, Nearest, Unembedded
from recollect.store.migrations import Migrations, bundled, migrate
from recollect.store.sqlite_filter import conditions, from_micros, to_micros
from recollect.store.sqlite_pool import APPLICATION_ID, Pool, fetch, value
from recollect.store.sqlite_vectors import Vectors
from recollect.store.words import segments

SHORTEST_ID = 6

_COLUMNS = """
    m.id, m.content, m.namespace, m.project, m.sector, m.tier, m.kind, m.tags, m.salience, m.source, m.title,
    m.summary, m.metadata, m.created_at, m.updated_at, m.reinforced_at, m.deleted_at
"""

_INSERT = """
    insert into memories(
        id, namespace, project, content, content_hash, title, summary, kind, source, tags, segments, sector, tier,
        salience, metadata, created_at, updated_at, reinforced_at)
    values (
        :id, :namespace, :project, :content, :content_hash, :title, :summary, :kind, :source, :tags, :segments, :sector,
        :tier, :salience, :metadata, :created_at, :now, :now)
    on conflict do nothing
    returning rid
"""

_REINFORCE = """
    update memories
    set salience = salience + :amount * (1 - salience), reinforced_at = :now
    where rid = :rid
"""


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
    ) -> None:
        self.path = path
        self.namespace = namespace
        self._pool = Pool(path, read_only=read_only, busy_timeout=busy_timeout, synchronous=synchronous)
        self._migrations = bundled("sqlite") if migrations is None else migrations
        self._keyword = sqlite_match.KeywordLeg(namespace)
        self._vectors = Vectors(self._pool, namespace)
        self._unmerged = 0
        try:
            with self._pool.reading() as connection:
                migrate(_Schema(self._pool, connection, self._migrations), self._migrations)
        except BaseException:
            self._pool.close()
            raise

    def close(self) -> None:
        self._pool.close()

    # Writing

    def add(self, drafts: Sequence[Draft], reinforcement: float) -> list[Kept]:
        with self._pool.writing() as connection:
            kept = [self._add(connection, draft, reinforcement) for draft in drafts]
            self._unmerged += len(kept)
            if self._unmerged >= sqlite_match.MERGE_EVERY:
                sqlite_match.merge(connection)
                self._unmerged = 0
            return kept

    def _add(self, connection: apsw.Connection, draft: Draft, reinforcement: float) -> Kept:
        now = to_micros(datetime.now(UTC))
        values = {field: getattr(draft, field) for field in draft.__slots__} | {
            "namespace": self.namespace,
            "content_hash": content_hash(draft.content),
            "tags": _json(draft.tags),
            "segments": segments(draft.title, draft.content, *draft.tags),
            "metadata": _json(draft.metadata),
            "created_at": to_micros(draft.created_at),
            "now": now,
        }
        rid = value(connection, _INSERT, values)
        if rid is not None:
            return Kept(self._row(connection, rid), Unembedded(rid, draft.title, draft.content))
        known = value(
            connection,
            """
            select rid from memories
            where namespace = :namespace and coalesce(project, '') = coalesce(:project, '')
              and content_hash = :content_hash and deleted_at is null
            """,
            values,
        )
        if known is None:
            raise InvalidInput(f"the id {draft.id} belongs to another memory already; choose another one")
        connection.execute(_REINFORCE, {"amount": reinforcement, "now": now, "rid": known})
        return Kept(self._row(connection, known), None)

    def update(self, id: str, changes: Mapping[str, Any], now: datetime) -> tuple[Memory, Unembedded | None]:
        with self._pool.writing() as connection:
            rid, memory = self._require(connection, id)
            new = {field: changes.get(field, getattr(memory, field)) for field in UPDATABLE}
            if all(new[field] == getattr(memory, field) for field in UPDATABLE):
                return memory, None
            stamp = to_micros(now)
            self._keep_history(connection, rid, memory, stamp)
            try:
                connection.execute(
                    _UPDATE,
                    new
                    | {
                        "rid": rid,
                        "now": stamp,
                        "content_hash": content_hash(new["content"]),
                        "tags": _json(new["tags"]),
                        "metadata": _json(new["metadata"]),
                        "segments": segments(new["title"], new["content"], *new["tags"]),
                    },
                )
            except apsw.ConstraintError as exc:
                raise InvalidInput(
                    "another memory of that project says exactly this already; nothing was changed"
                ) from exc
            same_text = (new["content"], new["title"]) == (memory.content, memory.title)
            return self._row(connection, rid), None if same_text else Unembedded(rid, new["title"], new["content"])

    def _keep_history(self, connection: apsw.Connection, rid: int, memory: Memory, now: int) -> None:
        snapshot = {field: getattr(memory, field) for field in UPDATABLE} | {"updated_at": to_micros(memory.updated_at)}
        connection.execute(
            """
            insert into memory_history(rid, version, replaced_at, snapshot)
            select :rid, coalesce(max(version), 0) + 1, :now, :snapshot from memory_history where rid = :rid
            """,
            {"rid": rid, "now": now, "snapshot": _json(snapshot)},
        )

    def forget(self, id: str, now: datetime) -> None:
        with self._pool.writing() as connection:
            rid, _ = self._require(connection, id)
            connection.execute("update memories set deleted_at = ? where rid = ?", (to_micros(now), rid))

    def restore(self, id: str) -> Memory:
        with self._pool.writing() as connection:
            rid, _ = self._require(connection, id, deleted=True)
            try:
                connection.execute("update memories set deleted_at = null where rid = ?", (rid,))
            except apsw.ConstraintError as exc:
                raise InvalidInput(f"{id} cannot be restored: a newer memory of its project has the same text") from exc
            return self._row(connection, rid)

    def erase(self, ids: Sequence[str]) -> int:
        with self._pool.writing() as connection:
            rids = [self._require(connection, id, deleted=None)[0] for id in ids]
            connection.execute(f"delete from memories as m where {_AMONG}", {"keys": _json(rids)})
            return len(set(rids))

    def purge(self, before: datetime | None) -> int:
        with self._pool.writing() as connection:
            connection.execute(
                """
                delete from memories
                where namespace = :namespace and deleted_at is not null and deleted_at < :before
                """,
                {"namespace": self.namespace, "before": to_micros(before) if before else 1 << 62},
            )
            gone = connection.changes()
            # Merging all segments drops the words of deleted rows, which a delete only marks.
            for index in sqlite_match.INDEXES:
                connection.execute(f"insert into {index}({index}) values ('optimize')")
        self._wipe()
        return gone

    def _wipe(self) -> None:
        """Rewrite the file without free pages, and empty the write-ahead log: no text of a deleted row is left."""
        with self._pool.reading() as connection:
            self._pool.patiently(lambda: connection.execute("vacuum"))
            if self._pool.in_memory:
                return

            def checkpoint() -> None:
                busy, _, _ = value(connection, "pragma wal_checkpoint(truncate)")
                if busy:
                    raise apsw.BusyError("a reader holds the write-ahead log")

            self._pool.patiently(checkpoint)

    # Reading

    def find(self, ids: Sequence[str], *, deleted: bool = False) -> list[Memory | None]:
        with self._pool.reading() as connection:
            sql = f"""
                select {_COLUMNS} from memories m
                where m.id in (select value from json_each(:ids)) and m.namespace = :namespace
                  and m.deleted_at is {"not null" if deleted else "null"}
            """
            values = {"ids": _json(list(ids)), "namespace": self.namespace}
            whole = {memory.id: memory for memory in map(_memory, fetch(connection, sql, values))}
            return [whole.get(id) or self._by_part(connection, id, deleted=deleted) for id in ids]

    def _by_part(self, connection: apsw.Connection, id: str, *, deleted: bool) -> Memory | None:
        found = self._find(connection, id, deleted=deleted)
        return found[1] if found else None

    def require(self, id: str) -> Memory:
        with self._pool.reading() as connection:
            return self._require(connection, id)[1]

    def page(self, filter: Filter, *, limit: int, cursor: str | None, deleted: bool) -> Page:
        where, values = conditions(filter)
        if cursor is not None:
            where += " and (m.created_at, m.rid) < (:cursor_time, :cursor_rid)"
            values |= _cursor_values(cursor)
        sql = f"""
            select m.rid, {_COLUMNS}
            from memories m
            where m.namespace = :namespace and m.deleted_at is {"not null" if deleted else "null"} {where}
            order by m.created_at desc, m.rid desc
            limit :limit
        """
        with self._pool.reading() as connection:
            rows = fetch(connection, sql, values | {"namespace": self.namespace, "limit": limit + 1})
        memories = tuple(_memory(row[1:]) for row in rows[:limit])
        more = f"{to_micros(memories[-1].created_at)}:{rows[limit - 1][0]}" if len(rows) > limit else None
        return Page(memories, more)

    def history(self, id: str) -> list[Version]:
        with self._pool.reading() as connection:
            rid, _ = self._require(connection, id, deleted=None)
            rows = fetch(
                connection,
                "select snapshot, replaced_at from memory_history where rid = ? order by version desc",
                (rid,),
            )
        return [
            Version(old["content"], old["title"], tuple(old["tags"]), from_micros(replaced_at))
            for old, replaced_at in ((json.loads(snapshot), replaced_at) for snapshot, replaced_at in rows)
        ]

    def match(
        self, query: Query, filter: Filter, *, limit: int, page: int, weights: Mapping[str, float]
    ) -> list[Match]:
        with self._pool.reading() as connection:
            return self._keyword.match(connection, query, filter, limit, page, weights)

    def nearest(self, model: Model, vector: NDArray[np.float32], filter: Filter, *, limit: int) -> Nearest:
        return self._vectors.nearest(model, vector, filter, limit)

    def rows(self, keys: Sequence[int], model: Model | None, vector: NDArray[np.float32] | None) -> list[Row]:
        sql = f"""
            select m.rid, v.vector, m.created_at, m.updated_at, m.salience, m.sector, {_COLUMNS}
            from memories m
            left join vectors v on v.rid = m.rid and v.model = (select model from models where name = :model)
            where {_AMONG} and +m.namespace = :namespace and m.deleted_at is null
        """
        values = {"keys": _json(list(keys)), "namespace": self.namespace, "model": model.name if model else None}
        with self._pool.reading() as connection:
            found = fetch(connection, sql, values)
        similarities = _similarities([row[1] for row in found], vector)
        return [
            Row(row[0], similarity, row[2] / 1e6, row[3] / 1e6, row[4], row[5], partial(_memory, row[6:]))
            for row, similarity in zip(found, similarities, strict=True)
        ]

    # Vectors

    def pending(self, after: int, limit: int) -> Sequence[Unembedded]:
        return self._vectors.pending(after, limit)

    def without_vector(self, model: Model, after: int, limit: int) -> Sequence[Unembedded]:
        return self._vectors.without_vector(model, after, limit)

    def put_vectors(self, model: Model, texts: Sequence[Unembedded], vectors: NDArray[np.float32]) -> None:
        self._vectors.put(model, texts, vectors)

    def drop_other_vectors(self, model: Model) -> int:
        return self._vectors.drop_others(model)

    # Looking after it

    def stats(self, model: str | None) -> Stats:
        return sqlite_check.stats(self._pool, self.namespace, model)

    def check(self, *, repair: bool) -> Report:
        return sqlite_check.check(self._pool, self.namespace, repair=repair)

    # One memory

    def _row(self, connection: apsw.Connection, rid: int) -> Memory:
        return _memory(value(connection, f"select {_COLUMNS} from memories m where m.rid = ?", (rid,)))

    def _require(self, connection: apsw.Connection, id: str, *, deleted: bool | None = False) -> tuple[int, Memory]:
        found = self._find(connection, id, deleted=deleted)
        if found:
            return found
        if deleted is None:
            raise NotFound(f"no memory has the id {id!r}; `recollect list` shows ids")
        if self._find(connection, id, deleted=not deleted):
            raise NotFound(
                f"memory {id} is not forgotten"
                if deleted
                else f"memory {id} was forgotten; `recollect restore {id}` brings it back"
            )
        raise NotFound(f"no memory has the id {id!r}; `recollect list` shows ids")

    def _find(self, connection: apsw.Connection, id: str, *, deleted: bool | None) -> tuple[int, Memory] | None:
        """By the whole id, or by a beginning or ending that only one memory has. `deleted` None takes either state."""
        state = {None: "", False: "and m.deleted_at is null", True: "and m.deleted_at is not null"}[deleted]
        select = f"select m.rid, {_COLUMNS} from memories m where m.namespace = :namespace {state}"
        values = {"namespace": self.namespace, "id": id, "end": id + "\U0010ffff"}
        rows = fetch(connection, f"{select} and m.id = :id", values)
        if not rows and len(id) >= SHORTEST_ID:
            rows = fetch(
                connection,
                f"""
                {select} and m.id >= :id and m.id < :end
                union
                {select} and substr(m.id, -6) = substr(:id, -6) and substr(m.id, -length(:id)) = :id
                limit 5
                """,
                values,
            )
        if len(rows) > 1:
            raise Ambiguous(f"{id!r} could be {', '.join(row[1] for row in rows)}: give more characters of the id")
        return (rows[0][0], _memory(rows[0][1:])) if rows else None


class _Schema:
    """This database, as migrations see it."""

    def __init__(self, pool: Pool, connection: apsw.Connection, migrations: Migrations) -> None:
        self._pool, self._connection, self._migrations = pool, connection, migrations

    def applied(self) -> dict[str, str]:
        # Asked of the file: `table_exists` answers from the schema this connection read some time before.
        if not value(self._connection, "select 1 from sqlite_master where name = '_migrations'"):
            return {}
        return dict(fetch(self._connection, "select name, sha256 from _migrations"))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._pool.read_only:
            raise StoreError(f"{self._pool.path} has an older schema; open it once for writing to bring it up to date")
        with self._pool.transaction(self._connection, "begin immediate"):
            yield

    def apply(self, name: str, sql: str, digest: str) -> None:
        self._connection.execute("create table if not exists _migrations(name text primary key, sha256 text not null)")
        self._connection.execute(sql)
        self._connection.execute("insert into _migrations(name, sha256) values (?, ?)", (name, digest))
        self._connection.pragma("application_id", APPLICATION_ID)

    def keep_copy(self, before: str) -> None:
        """The whole database as it was before a migration, in a file beside it. Called with the write lock held."""
        if self._pool.in_memory or self._pool.read_only:
            return
        target = Path(f"{self._pool.path}.before-{before}")
        part = target.with_name(target.name + ".part")
        part.unlink(missing_ok=True)
        copy = apsw.Connection(str(part))
        try:
            # Another connection: one that writes cannot be copied from.
            with self._pool.reading() as source, copy.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(1000)
        finally:
            copy.close()
        part.replace(target)


_UPDATE = f"""
    update memories
    set {", ".join(f"{field} = :{field}" for field in UPDATABLE)},
        content_hash = :content_hash, segments = :segments, updated_at = :now
    where rid = :rid
"""
_AMONG = "m.rid in (select value from json_each(:keys))"


def content_hash(content: str) -> bytes:
    return hashlib.sha256(content.encode()).digest()


def _memory(row: Sequence[Any]) -> Memory:
    (
        id, content, namespace, project, sector, tier, kind, tags, salience, source, title, summary, metadata,
        created_at, updated_at, reinforced_at, deleted_at,
    ) = row  # fmt: skip
    return Memory(
        id=id,
        content=content,
        namespace=namespace,
        project=project,
        sector=sector,
        tier=tier,
        kind=kind,
        tags=tuple(json.loads(tags)) if tags != "[]" else (),
        salience=salience,
        source=source,
        title=title,
        summary=summary,
        metadata=json.loads(metadata) if metadata != "{}" else {},
        created_at=from_micros(created_at),
        updated_at=from_micros(updated_at),
        reinforced_at=from_micros(reinforced_at),
        deleted_at=None if deleted_at is None else from_micros(deleted_at),
    )


def _similarities(blobs: Sequence[bytes | None], vector: NDArray[np.float32] | None) -> list[float | None]:
    """Exact cosine similarities; None where there is no vector to compare."""
    present = [blob for blob in blobs if blob is not None]
    if vector is None or not present:
        return [None] * len(blobs)
    matrix = np.frombuffer(b"".join(present), np.float16).reshape(len(present), -1).astype(np.float64)
    # Row by row in double: a similarity must not depend on which others are computed beside it.
    scores = iter(np.einsum("ij,j->i", matrix, vector.astype(np.float64)).tolist())
    return [None if blob is None else next(scores) for blob in blobs]


def _cursor_values(cursor: str) -> dict[str, int]:
    try:
        time, rid = map(int, cursor.split(":"))
        if max(abs(time), abs(rid)) < 1 << 62:
            return {"cursor_time": time, "cursor_rid": rid}
    except (ValueError, AttributeError):
        pass
    raise InvalidInput(f"{cursor!r} is no cursor; take the one that the page before gave")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
