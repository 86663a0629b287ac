"""Importing records, of an export or converted from another format. What is stored already stays as it is."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import apsw
import numpy as np

from memorist.errors import InvalidInput, StoreError
from memorist.records import FILE, SUPERSEDES, TURN, Model
from memorist.store.export_schema import (
    CHUNK,
    FACT,
    FACT_VERSION,
    MEMORY,
    RECALLED,
    SHAPES,
    STRENGTH,
    USAGE,
    VERSION,
    ExportRecord,
    LoadReport,
    Shape,
)
from memorist.store.sqlite.connections import ConnectionPool, fetch_value
from memorist.store.sqlite.documents import chunk_namespace
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.keyword import MERGE_EVERY, merge_index_segments
from memorist.store.sqlite.links import is_superseded_by
from memorist.store.sqlite.vectors import SqliteVectors
from memorist.store.sqlite.writes import as_json, content_hash, identity_hash
from memorist.text.tokenizer import unspaced_bigrams

Fields = Mapping[str, Any]

# As in the migration to parts: a memory of several sentences without vectors of its parts.
_MARK_UNCUT = """
    insert or ignore into uncut(rid)
    select m.rid from memories m
    where m.rid = :rid and length(m.content) > 150 and m.rid not in (select rid from chunks)
      and exists (
        select 1 from vectors v join models o on o.model = v.model
        where v.rid = m.rid and o.name in (select value from json_each(:models)))
"""


class SqliteLoader:
    """
    One import into one namespace, with a transaction for each batch.

    It remembers the memories it skipped because their text is stored under another id: records that refer to them refer
    to the stored ones.
    """

    def __init__(self, pool: ConnectionPool, namespace: str, sentence_models: Collection[str]) -> None:
        self._pool, self._namespace = pool, namespace
        self._sentence_models = as_json(list(sentence_models))
        self._stored_ids: dict[str, str] = {}  # of skipped memories
        self._models: dict[str, tuple[int, int]] = {}
        self._vectors = [SqliteVectors(pool, name) for name in (namespace, chunk_namespace(namespace))]
        self._unmerged = 0
        self._prepared: dict[str, str] = {}
        self._put: Mapping[str, Callable[[apsw.Connection, Fields], bool | str]] = {
            "model": self._put_model,
            "session": self._put_session,
            "memory": self._put_memory,
            "relation": self._put_relation,
            "recall": self._put_recall,
            "feedback": self._put_feedback,
            "lens": self._put_lens,
            "document": self._put_document,
        }

    def put(self, records: Sequence[ExportRecord]) -> LoadReport:
        """Write records, all of them or none; an InvalidInput names the place of one that cannot be written."""
        added = known = sessions = 0
        skipped: list[tuple[str, str]] = []
        with self._pool.writing() as connection:
            for record in records:
                new = self._put_record(connection, record)
                if isinstance(new, str):
                    skipped.append((record.place, new))
                elif record.type in ("memory", "document"):
                    added, known = added + new, known + (not new)
                elif record.type == "session":
                    sessions += new
            if self._unmerged >= MERGE_EVERY:
                merge_index_segments(connection)
                self._unmerged = 0
            self._pack_blocks(connection)
        return LoadReport(added, known, sessions, tuple(skipped))

    def _pack_blocks(self, connection: apsw.Connection) -> None:
        """Pack the blocks of imported vectors."""
        for name, (_, dimensions) in self._models.items():
            for vectors in self._vectors:
                vectors.write(connection, Model(name, dimensions), [], np.empty((0, dimensions), np.float32))

    def _put_record(self, connection: apsw.Connection, record: ExportRecord) -> bool | str:
        """Write a record; return if it is new, or the reason why it was skipped."""
        try:
            return self._put[record.type](connection, record.fields)
        except _InvalidRecord as exc:
            raise InvalidInput(f"{record.place}: {exc}; nothing from there on was imported") from exc
        except apsw.ConstraintError as exc:
            raise InvalidInput(f"{record.place}: it contradicts what is stored ({exc})") from exc

    # Records

    def _put_model(self, connection: apsw.Connection, fields: Fields) -> bool:
        connection.execute(
            "insert into models(name, dimensions, metric) values (:name, :dimensions, :metric) on conflict do nothing",
            dict(fields),
        )
        number, dimensions, metric = fetch_value(
            connection, "select model, dimensions, metric from models where name = ?", (fields["name"],)
        )
        if (dimensions, metric) != (fields["dimensions"], fields["metric"]):
            raise _InvalidRecord(
                f"vectors of {fields['name']} have {fields['dimensions']} dimensions ({fields['metric']}) here, and "
                f"{dimensions} ({metric}) in the database: they are of another model"
            )
        self._models[fields["name"]] = (number, dimensions)
        return True

    def _put_session(self, connection: apsw.Connection, fields: Fields) -> bool:
        return self._insert(connection, "sessions", SHAPES["session"], fields, self._namespace_column) is not None

    def _put_memory(self, connection: apsw.Connection, fields: Fields) -> bool:
        text = fields["content"]
        hash = identity_hash(fields["id"], text) if fields.get("kind") in (TURN, FILE) else content_hash(text)
        rid = self._insert_memory(connection, fields, self._namespace, hash)
        if rid is not None:
            return True
        if self._find_memory(connection, fields["id"]) is None:
            self._stored_ids[fields["id"]] = fetch_value(
                connection,
                """
                select id from memories
                where namespace = :namespace and coalesce(project, '') = coalesce(:project, '')
                  and content_hash = :hash and deleted_at is null
                """,
                {"namespace": self._namespace, "project": fields.get("project"), "hash": hash},
            )
        return False

    def _put_relation(self, connection: apsw.Connection, fields: Fields) -> bool | str:
        ends = {end: self._require_memory(connection, fields[end]) for end in ("source", "target")}
        row = _to_columns(SHAPES["relation"], fields) | ends
        if ends["source"] == ends["target"]:
            if fields["source"] != fields["target"]:
                return False  # two memories there, one and the same here
            raise _InvalidRecord("a memory cannot be related to itself")
        if fetch_value(connection, _IS_RELATED, row):
            return False
        if fields["kind"] == SUPERSEDES and row["valid_until"] is None:
            if fetch_value(connection, _IS_SUPERSEDED, row):
                return False
            if is_superseded_by(connection, ends["source"], ends["target"]):
                return "the superseding memory is itself superseded by the other"
        return self._insert(connection, "relations", SHAPES["relation"], fields, ends, key="relation") is not None

    def _put_recall(self, connection: apsw.Connection, fields: Fields) -> bool:
        session = fields.get("session")
        sid = None if session is None else self._require_session(connection, session)
        shape = {name: kind for name, kind in SHAPES["recall"].items() if name != "session"}
        number = self._insert(connection, "recalls", shape, fields, self._namespace_column | {"sid": sid}, key="recall")
        for hit in fields.get("memories", ()) if number is not None else ():
            ends = {"recall": number, "rid": self._require_memory(connection, hit["memory"])}
            shape = {name: kind for name, kind in RECALLED.items() if name != "memory"}
            self._insert(connection, "recalled", shape, hit, ends, key="place")
        return number is not None

    def _put_feedback(self, connection: apsw.Connection, fields: Fields) -> bool:
        shape = {name: kind for name, kind in SHAPES["feedback"].items() if name != "memory"}
        ends = {"rid": self._require_memory(connection, fields["memory"])}
        return self._insert(connection, "feedback", shape, fields, ends, key="feedback") is not None

    def _put_lens(self, connection: apsw.Connection, fields: Fields) -> bool:
        return (
            self._insert(connection, "lenses", SHAPES["lens"], fields, self._namespace_column, key="name") is not None
        )

    def _put_document(self, connection: apsw.Connection, fields: Fields) -> bool:
        known = "select 1 from documents where namespace = :namespace and (id = :id or path = :path)"
        if fetch_value(connection, known, self._namespace_column | {"id": fields["id"], "path": fields["path"]}):
            return False
        key = self._insert(connection, "documents", SHAPES["document"], fields, self._namespace_column, key="did")
        for link in fields.get("links", ()):
            connection.execute(
                "insert into document_links(did, line, target, text) values (:did, :line, :target, :text)",
                {"did": key, **link},
            )
        for chunk in fields.get("chunks", ()):
            self._put_chunk(connection, key, chunk)
        return True

    def _put_chunk(self, connection: apsw.Connection, document: int, fields: Fields) -> None:
        hash = identity_hash(fields["id"], fields["content"])
        rid = self._insert_memory(connection, fields, chunk_namespace(self._namespace), hash)
        if rid is None:
            raise _InvalidRecord(f"the chunk {fields['id']} belongs to another document already")
        shape = {name: kind for name, kind in CHUNK.items() if name not in MEMORY}
        self._insert(connection, "chunks", shape, fields, {"rid": rid, "did": document})

    # Memories and chunks

    def _insert_memory(self, connection: apsw.Connection, fields: Fields, namespace: str, hash: bytes) -> int | None:
        """Insert a memory with all records of its own; return its key, None if its id or text is stored already."""
        facts = fields.get("facts", ())
        texts = [fact["text"] for fact in facts]
        derived = {
            "namespace": namespace,
            "content_hash": hash,
            "segments": unspaced_bigrams(fields.get("title"), fields["content"], *fields["tags"], *texts),
            "facts": "\n".join(texts) or None,
        }
        rid: int | None = self._insert(connection, "memories", MEMORY, fields, derived, key="rid")
        if rid is None:
            return None
        self._unmerged += 1
        for version in fields.get("versions", ()):
            row = _to_columns(VERSION, version)
            connection.execute(
                "insert into memory_history(rid, version, replaced_at, snapshot) values (?, ?, ?, ?)",
                (rid, row["version"], row["replaced_at"], row["was"]),
            )
        for strength in fields.get("strength", ()):
            self._insert(connection, "strength_history", STRENGTH, strength, {"rid": rid}, key="change")
        for fact in facts:
            key = self._insert(connection, "facts", FACT, fact, {"rid": rid}, key="fact")
            if key is None:
                raise _InvalidRecord(f"the fact {fact['text'][:80]!r} is there twice")
            for version in fact.get("versions", ()):
                self._insert(connection, "fact_history", FACT_VERSION, version, {"fact": key}, key="change")
        for usage in fields.get("sessions", ()):
            ends = {"rid": rid, "sid": self._require_session(connection, usage["session"])}
            shape = {name: kind for name, kind in USAGE.items() if name != "session"}
            self._insert(connection, "session_memories", shape, usage, ends)
        self._insert_vectors(connection, rid, fields)
        return rid

    def _insert_vectors(self, connection: apsw.Connection, rid: int, fields: Fields) -> None:
        for table in ("vectors", "old_vectors", "part_vectors"):
            for record in fields.get(table, ()):
                model, size = record["model"], len(record["vector"])
                if model not in self._models:
                    raise _InvalidRecord(f"no record before it describes the model {model!r}")
                number, dimensions = self._models[model]
                if size != 2 * dimensions:
                    raise _InvalidRecord(f"a vector of {model} has {size} bytes, not {2 * dimensions}")
                row = dict(record) | {"rid": rid, "model": number}
                connection.execute(
                    f"insert into {table}({', '.join(row)}) values ({', '.join(f':{name}' for name in row)})", row
                )
        if fields.get("vectors") and not fields.get("part_vectors"):  # perhaps from before there were any
            connection.execute(_MARK_UNCUT, {"rid": rid, "models": self._sentence_models})

    # Rows and keys

    @property
    def _namespace_column(self) -> dict[str, Any]:
        return {"namespace": self._namespace}

    def _insert(
        self, connection: apsw.Connection, table: str, shape: Shape, fields: Fields, more: Fields, *, key: str = "rowid"
    ) -> Any:
        """Insert a row and return its key; None if it is stored already."""
        row = {**_to_columns(shape, fields), **more}
        if table not in self._prepared:
            self._prepared[table] = f"""
                insert into {table}({", ".join(row)})
                values ({", ".join(f":{name}" for name in row)})
                on conflict do nothing
                returning {"1" if key == "rowid" else key}
            """
        return fetch_value(connection, self._prepared[table], row)

    def _find_memory(self, connection: apsw.Connection, id: str) -> int | None:
        sql = "select rid from memories where namespace = ? and id = ?"
        key: int | None = fetch_value(connection, sql, (self._namespace, self._stored_ids.get(id, id)))
        return key

    def _require_memory(self, connection: apsw.Connection, id: str) -> int:
        key = self._find_memory(connection, id)
        if key is None:
            raise _InvalidRecord(f"there is no memory {id!r}, neither before it nor in the database")
        return key

    def _require_session(self, connection: apsw.Connection, id: str) -> int:
        sql = "select sid from sessions where namespace = ? and id = ?"
        key: int | None = fetch_value(connection, sql, (self._namespace, id))
        if key is None:
            raise _InvalidRecord(f"there is no session {id!r}, neither before it nor in the database")
        return key


class _InvalidRecord(StoreError):
    """A record contradicts itself, or refers to something that is not stored."""


_IS_RELATED = """
    select 1 from relations
    where source = :source and target = :target and kind = :kind
      and (valid_from = :valid_from or (valid_until is null and :valid_until is null))
"""
_IS_SUPERSEDED = f"select 1 from relations where target = :target and kind = '{SUPERSEDES}' and valid_until is null"


def _to_columns(shape: Shape, fields: Fields) -> dict[str, Any]:
    """Return the columns of a record, as the database stores them."""
    columns = {name: fields.get(name) for name, kind in shape.items() if isinstance(kind, str)}
    for name, field in columns.items():
        convert = _CONVERTERS.get(str(shape[name]).removesuffix("?"))
        if convert and field is not None:
            columns[name] = convert(field)
    return columns


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "time": to_micros,
    "flag": int,
    "texts": as_json,
    "object": as_json,
    "lens": as_json,
    "snapshot": as_json,
    "number": float,
    "share": float,
    "positive": float,
}
