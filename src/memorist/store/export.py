"""
Exports: the records of one and their fields, a namespace read as records, and records written to a namespace.

A record is complete in itself: a memory comes with its history, its facts and its sessions, a document with its chunks.
So it is either known already or written whole, and an import that was interrupted can be run again. Records refer to
each other by ids. Whatever follows from the rest is left out: indexes, tags, positions in sessions, the time from which
a memory is superseded.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from memorist.errors import InvalidInput, StoreError
from memorist.records import FILE, SUPERSEDES, TURN, Model
from memorist.store.backend import Backend
from memorist.store.database import Conflict, Connection, Database
from memorist.store.documents import chunk_namespace
from memorist.store.filters import from_micros, to_micros
from memorist.store.relations import is_superseded_by
from memorist.store.rows import decode_json
from memorist.store.writes import as_json, content_hash, find_same_text, identity_hash
from memorist.text.tokenizer import unspaced_bigrams

FORMAT = 1  # the version of this format
NORM_TOLERANCE = 0.01  # float16 leaves a unit vector of some thousand dimensions within this of length 1


@dataclass(frozen=True)
class RecordList:
    """Records of one shape, and the table that holds them. An empty list within a record is left out."""

    shape: Mapping[str, "Kind"]
    table: str

    @cached_property
    def columns(self) -> dict[str, str]:
        """The fields that are columns of the table, with their kinds."""
        return {name: kind.removesuffix("?") for name, kind in self.shape.items() if isinstance(kind, str)}

    @cached_property
    def lists(self) -> list[tuple[str, "RecordList"]]:
        """The fields that are lists of records, which have tables of their own."""
        return [(name, kind) for name, kind in self.shape.items() if isinstance(kind, RecordList)]


# The kind of a field's value; with a ? the field may be missing. A share is a number from 0 to 1, a time is in UTC.
Kind = str | RecordList
Shape = Mapping[str, Kind]

VECTOR: Shape = {"model": "text", "vector": "vector"}
VERSION: Shape = {"version": "whole", "replaced_at": "time", "was": "snapshot"}
STRENGTH: Shape = {"replaced_at": "time", "salience": "share", "reinforced_at": "time", "pinned": "flag"}
USAGE: Shape = {"session": "session", "usage": "usage", "at": "time", "latest": "time"}
_SAID: Shape = {
    "kind": "any?", "subject": "any?", "predicate": "any?", "object": "any?", "confidence": "share",
    "decay_rate": "positive?",
}  # fmt: skip
FACT_VERSION: Shape = {"replaced_at": "time", **_SAID, "reinforced_at": "time"}
FACT: Shape = {
    "id": "id", "text": "content", **_SAID, "created_at": "time", "reinforced_at": "time",
    "versions": RecordList(FACT_VERSION, "fact_history"),
}  # fmt: skip
MEMORY: Shape = {
    "id": "id", "project": "any?", "content": "content", "title": "any?", "summary": "any?", "kind": "any?",
    "source": "any?", "tags": "texts", "sector": "sector", "tier": "tier", "salience": "share", "metadata": "object",
    "created_at": "time", "updated_at": "time", "reinforced_at": "time", "recorded_at": "time", "deleted_at": "time?",
    "pinned": "flag", "access_count": "whole", "accessed_at": "time?",
    "versions": RecordList(VERSION, "memory_history"),
    "strength": RecordList(STRENGTH, "strength_history"),
    "facts": RecordList(FACT, "facts"),
    "sessions": RecordList(USAGE, "session_memories"),
    "vectors": RecordList(VECTOR, "vectors"),
    "old_vectors": RecordList({"version": "whole", **VECTOR}, "old_vectors"),
    "part_vectors": RecordList({"first": "whole", "last": "whole", **VECTOR}, "part_vectors"),
}  # fmt: skip
CHUNK: Shape = {"ordinal": "whole", "start_line": "whole", "end_line": "whole", "breadcrumb": "texts", **MEMORY}
RECALLED: Shape = {"memory": "id", "place": "whole", "score": "number", "relevance": "number", "facts": "texts"}

# In the order of an export: a record refers only to records before it.
RECORDS: Mapping[str, RecordList] = {
    "model": RecordList({"name": "text", "dimensions": "whole", "metric": "text"}, "models"),
    "session": RecordList(
        {"id": "session", "project": "any?", "started_at": "time", "ended_at": "time?", "summary": "any?"}, "sessions"
    ),
    "memory": RecordList(MEMORY, "memories"),
    "relation": RecordList({
        "source": "id", "target": "id", "kind": "text", "confidence": "share", "said_by": "any?",
        "valid_from": "time", "valid_until": "time?",
    }, "relations"),
    "recall": RecordList({
        "id": "id", "at": "time", "query": "any?", "mode": "text", "profile": "text", "lens": "any?",
        "session": "session?", "memories": RecordList(RECALLED, "recalled"),
    }, "recalls"),
    "feedback": RecordList({"memory": "id", "query": "text", "good": "flag", "at": "time"}, "feedback"),
    "lens": RecordList({"name": "text", "definition": "lens"}, "lenses"),
    "document": RecordList({
        "id": "id", "path": "text", "root": "text", "project": "any?", "title": "any?", "sector": "sector",
        "tags": "texts", "front_matter": "object", "size": "whole", "modified_at": "whole", "hash": "bytes",
        "redacted": "flag", "indexed_at": "time",
        "links": RecordList({"line": "whole", "target": "any", "text": "any"}, "document_links"),
        "chunks": RecordList(CHUNK, "chunks"),
    }, "documents"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """A checked record to be imported, and its place in the file. Its times are datetimes, its bytes bytes."""

    place: str
    type: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The numbers of new and of known memories and documents, and of new sessions, in a batch of records."""

    added: int = 0
    known: int = 0
    sessions: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # place, reason


_VECTOR_TABLES = ("vectors", "old_vectors", "part_vectors")
# The keys of tables whose rows have lists of records; rows of those lists have a column of the same name.
_KEYS = {"memories": "rid", "chunks": "rid", "facts": "fact", "recalls": "recall", "documents": "did"}
_OWN = "(m.namespace = :namespace or m.namespace = :chunks)"
_USED = " union all ".join(
    f"select 1 from {table} v join memories m on m.rid = v.rid where v.model = t.model and {_OWN}"
    for table in _VECTOR_TABLES
)
# Where the rows `t` of a table come from: those of the namespace, or those that belong to the row `:key` of another.
# Rows come in the order they were written: sorted by anything else, all memories would be held in memory.
_SOURCES = {
    "models": f"models t where exists ({_USED}) order by t.model",
    "sessions": "sessions t where t.namespace = :namespace order by t.sid",
    "memories": "memories t where @plain(t.namespace) = :namespace order by t.rid",
    "memory_history": "memory_history t where t.rid = :key order by t.version",
    "strength_history": "strength_history t where t.rid = :key order by t.change",
    "facts": "facts t where t.rid = :key order by t.fact",
    "fact_history": "fact_history t where t.fact = :key order by t.change",
    "session_memories": "session_memories t where t.rid = :key order by t.sid, t.usage",
    "vectors": "vectors t where t.rid = :key order by t.model",
    "old_vectors": "old_vectors t where t.rid = :key order by t.version, t.model",
    "part_vectors": "part_vectors t where t.rid = :key order by t.model, t.first, t.part",
    "relations": """(
        select a.id as source, b.id as target, r.relation, r.kind, r.confidence, r.said_by, r.valid_from, r.valid_until
        from relations r @then memories a on a.rid = r.source @then memories b on b.rid = r.target
        where a.namespace = :namespace) t order by t.relation""",
    "recalls": "recalls t where @plain(t.namespace) = :namespace order by t.recall",
    "recalled": "recalled t where t.recall = :key order by t.place",
    "feedback": """
        feedback t @then memories m on m.rid = t.rid where m.namespace = :namespace order by t.feedback""",
    "lenses": "lenses t where t.namespace = :namespace order by t.name",
    "documents": "documents t where @plain(t.namespace) = :namespace order by t.did",
    "document_links": "document_links t where t.did = :key order by t.line, t.target, t.text",
    "chunks": """(
        select c.did, c.ordinal, c.start_line, c.end_line, c.breadcrumb, m.*
        from chunks c join memories m on m.rid = c.rid) t where t.did = :key order by t.ordinal, t.rid""",
}
_RENAMED = {"was": "snapshot"}  # columns with another name than their fields
# Fields that name another record, whose key is in the row.
_REFERENCES = {
    "model": "(select o.name from models o where o.model = t.model)",
    "session": "(select s.id from sessions s where s.sid = t.sid)",
    "memory": "(select m.id from memories m where m.rid = t.rid)",
}


def dump(pool: Database, namespace: str, *, vectors: bool, types: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """
    Yield a header, then every record, or those of some `types`, as of one moment and in the order of `RECORDS`.

    Rows come in the order they were written. An import into an empty database keeps it, and so the next export is the
    same.
    """
    with pool.snapshot(stream=True) as connection:
        schema = connection.fetch_value("select max(name) from _migrations")
        yield {"memorist": FORMAT, "schema": schema, "namespace": namespace, "vectors": vectors}
        reader = _RecordReader(connection, namespace, vectors)
        for type, records in RECORDS.items():
            if (not types or type in types) and (vectors or type != "model"):
                for record in reader.read(records):
                    yield {"type": type, **record}


class _RecordReader:
    """Reads the tables of one namespace, on a connection that sees one moment."""

    def __init__(self, connection: Connection, namespace: str, vectors: bool) -> None:
        self._connection, self._vectors = connection, vectors
        self._names = {"namespace": namespace, "chunks": chunk_namespace(namespace)}
        self._prepared: dict[str, tuple[str, list[tuple[str, Callable[[Any], Any] | None]]]] = {}

    def read(self, records: RecordList, of: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table as records, each with its lists. `of` is the key of the row they belong to."""
        if records.table not in self._prepared:
            self._prepared[records.table] = _prepare(records)
        sql, converters = self._prepared[records.table]
        for key, *row in self._connection.stream(sql, self._names | {"key": of}):
            try:
                record = {
                    name: convert(stored) if convert else stored
                    for (name, convert), stored in zip(converters, row, strict=True)
                    if stored is not None
                }
            except ValueError:
                continue  # a version or a lens that is damaged beyond reading; a check reports it
            for name, kind in records.lists:
                if (self._vectors or kind.table not in _VECTOR_TABLES) and (found := list(self.read(kind, key))):
                    record[name] = found
            yield record


def _prepare(records: RecordList) -> tuple[str, list[tuple[str, Callable[[Any], Any] | None]]]:
    """Return the query for the rows of a table, each with its key, and how the columns become fields."""
    fields, key = records.columns, _KEYS.get(records.table)
    columns = [_REFERENCES.get(name, f"t.{_RENAMED.get(name, name)}") for name in fields]
    sql = f"select {', '.join([f't.{key}' if key else '0', *columns])} from {_SOURCES[records.table]}"
    return sql, [(name, _FROM_COLUMN.get(kind)) for name, kind in fields.items()]


def _format_time(micros: int) -> str:
    return from_micros(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _encode_bytes(stored: bytes) -> str:
    return b64encode(stored).decode("ascii")


_JSON_KINDS = ("texts", "object", "lens", "snapshot")
_FROM_COLUMN: Mapping[str, Callable[[Any], Any]] = {
    "time": _format_time,
    "flag": bool,
    "bytes": _encode_bytes,
    "vector": _encode_bytes,
    "texts": partial(decode_json, empty=[]),
    "object": partial(decode_json, empty={}),
    **dict.fromkeys(("lens", "snapshot"), json.loads),
}
_TO_COLUMN: Mapping[str, Callable[[Any], Any]] = {
    "time": to_micros,
    "flag": int,
    **dict.fromkeys(_JSON_KINDS, as_json),
    **dict.fromkeys(("number", "share", "positive"), float),
}

Fields = Mapping[str, Any]

_NAMESPACED = ("sessions", "memories", "recalls", "lenses", "documents")  # tables with a column for it
_CHUNK_ROW = RecordList({name: kind for name, kind in CHUNK.items() if name not in MEMORY}, "chunks")
# As in the migration to parts: a memory of several sentences without vectors of its parts.
_MARK_UNCUT = """
    insert into uncut(rid)
    select m.rid from memories m
    where m.rid = :rid and length(m.content) > 150 and m.rid not in (select rid from chunks)
      and exists (
        select 1 from vectors v join models o on o.model = v.model
        where v.rid = m.rid and o.name in @texts(:models))
    on conflict do nothing
"""


class ExportLoader:
    """
    One import into one namespace, with a transaction for each batch. What is stored already stays as it is.

    It remembers the memories it skipped because their text is stored under another id: records that refer to them refer
    to the stored ones.
    """

    def __init__(self, backend: Backend, namespace: str, sentence_models: Collection[str]) -> None:
        self._backend, self._namespace = backend, namespace
        self._sentence_models = as_json(list(sentence_models))
        self._stored_ids: dict[str, str] = {}  # of skipped memories
        self._models: dict[str, tuple[int, int]] = {}
        self._vectors = [backend.open_vectors(name) for name in (namespace, chunk_namespace(namespace))]
        self._inserted = 0
        self._prepared: dict[str, str] = {}
        self._put: Mapping[str, Callable[[Connection, Fields], bool | str]] = {
            "model": self._put_model,
            "memory": self._put_memory,
            "relation": self._put_relation,
            "document": self._put_document,
        }

    def put(self, records: Sequence[ExportRecord]) -> LoadReport:
        """Write records, all of them or none; an InvalidInput names the place of one that cannot be written."""
        added = known = sessions = 0
        skipped: list[tuple[str, str]] = []
        with self._backend.database.writing() as connection:
            for record in records:
                new = self._put_record(connection, record)
                if isinstance(new, str):
                    skipped.append((record.place, new))
                elif record.type in ("memory", "document"):
                    added, known = added + new, known + (not new)
                elif record.type == "session":
                    sessions += new
            self._backend.tend(connection, self._inserted)
            self._inserted = 0
            self._pack_blocks(connection)
        return LoadReport(added, known, sessions, tuple(skipped))

    def _pack_blocks(self, connection: Connection) -> None:
        """Pack the blocks of imported vectors."""
        for name, (_, dimensions) in self._models.items():
            for vectors in self._vectors:
                vectors.write(connection, Model(name, dimensions), [], np.empty((0, dimensions), np.float32))

    def _put_record(self, connection: Connection, record: ExportRecord) -> bool | str:
        """Write a record; return if it is new, or the reason why it was skipped."""
        try:
            if put := self._put.get(record.type):
                return put(connection, record.fields)
            return self._insert(connection, RECORDS[record.type], record.fields) is not None
        except _InvalidRecord as exc:
            raise InvalidInput(f"{record.place}: {exc}; nothing from there on was imported") from exc
        except Conflict as exc:
            raise InvalidInput(f"{record.place}: it contradicts what is stored ({exc})") from exc

    def _put_model(self, connection: Connection, fields: Fields) -> bool:
        self._insert(connection, RECORDS["model"], fields)
        number, dimensions, metric = connection.fetch_value(
            "select model, dimensions, metric from models where name = ?", (fields["name"],)
        )
        if (dimensions, metric) != (fields["dimensions"], fields["metric"]):
            raise _InvalidRecord(
                f"vectors of {fields['name']} have {fields['dimensions']} dimensions ({fields['metric']}) here, and "
                f"{dimensions} ({metric}) in the database: they are of another model"
            )
        self._models[fields["name"]] = (number, dimensions)
        return True

    def _put_memory(self, connection: Connection, fields: Fields) -> bool:
        text = fields["content"]
        hash = identity_hash(fields["id"], text) if fields.get("kind") in (TURN, FILE) else content_hash(text)
        if self._insert_memory(connection, fields, hash) is not None:
            return True
        same = find_same_text(connection, self._namespace, fields.get("project"), hash)
        if same and self._find_memory(connection, fields["id"]) is None:
            self._stored_ids[fields["id"]] = same[1]
        return False

    def _put_relation(self, connection: Connection, fields: Fields) -> bool | str:
        ends = {end: self._require_memory(connection, fields[end]) for end in ("source", "target")}
        row = self._to_row(connection, RECORDS["relation"], fields) | ends
        if ends["source"] == ends["target"]:
            if fields["source"] != fields["target"]:
                return False  # two memories there, one and the same here
            raise _InvalidRecord("a memory cannot be related to itself")
        if connection.fetch_value(_IS_RELATED, row):
            return False
        if fields["kind"] == SUPERSEDES and row["valid_until"] is None:
            if connection.fetch_value(_IS_SUPERSEDED, row):
                return False
            if is_superseded_by(connection, ends["source"], ends["target"]):
                return "the superseding memory is itself superseded by the other"
        return self._insert(connection, RECORDS["relation"], fields, **ends) is not None

    def _put_document(self, connection: Connection, fields: Fields) -> bool:
        known = "select 1 from documents where namespace = :namespace and (id = :id or path = :path)"
        names = {"namespace": self._namespace, "id": fields["id"], "path": fields["path"]}
        if connection.fetch_value(known, names):
            return False
        return self._insert(connection, RECORDS["document"], fields) is not None

    def _put_chunk(self, connection: Connection, fields: Fields, document: int) -> None:
        hash = identity_hash(fields["id"], fields["content"])
        rid = self._insert_memory(connection, fields, hash, namespace=chunk_namespace(self._namespace))
        if rid is None:
            raise _InvalidRecord(f"the chunk {fields['id']} belongs to another document already")
        self._insert(connection, _CHUNK_ROW, fields, rid=rid, did=document)

    def _insert_memory(self, connection: Connection, fields: Fields, hash: bytes, **more: Any) -> int | None:
        """Insert a memory or a chunk; return its key, None if its id or text is stored already."""
        texts = [fact["text"] for fact in fields.get("facts", ())]
        more["segments"] = unspaced_bigrams(fields.get("title"), fields["content"], *fields["tags"], *texts)
        more["facts"] = "\n".join(texts) or None
        rid = self._insert(connection, RECORDS["memory"], fields, content_hash=hash, **more)
        if rid is not None:
            self._inserted += 1
            if fields.get("vectors") and not fields.get("part_vectors"):  # perhaps from before there were any
                connection.execute(_MARK_UNCUT, {"rid": rid, "models": self._sentence_models})
        return rid

    def _insert(self, connection: Connection, records: RecordList, fields: Fields, **more: Any) -> int | None:
        """Insert a row with its lists, and `more` columns; return its key, None if it is stored already."""
        table = records.table
        own = {"namespace": self._namespace} if table in _NAMESPACED else {}
        row = {**self._to_row(connection, records, fields), **own, **more}
        if table not in self._prepared:
            self._prepared[table] = f"""
                insert into {table}({", ".join(row)})
                values ({", ".join(f":{name}" for name in row)})
                on conflict do nothing
                returning {_KEYS.get(table, "1")}
            """
        key: int | None = connection.fetch_value(self._prepared[table], row)
        if key is not None:
            for name, kind in records.lists:
                for item in fields.get(name, ()):
                    self._insert_item(connection, name, kind, item, {_KEYS[table]: key})
        return key

    def _insert_item(
        self, connection: Connection, name: str, records: RecordList, item: Fields, owner: dict[str, int]
    ) -> None:
        """Insert a record of a list within a record."""
        if records.table == "chunks":
            self._put_chunk(connection, item, owner["did"])
        elif self._insert(connection, records, item, **owner) is None:
            which = repr(item["text"][:80]) if "text" in item else "one"
            raise _InvalidRecord(f"of its {name}, {which} is there twice")

    def _to_row(self, connection: Connection, records: RecordList, fields: Fields) -> dict[str, Any]:
        """Return the columns of a record, as the database stores them."""
        row = {}
        for name, kind in records.columns.items():
            field, convert = fields.get(name), _TO_COLUMN.get(kind)
            if name == "session":
                row["sid"] = None if field is None else self._require_session(connection, field)
            elif name == "memory":
                row["rid"] = self._require_memory(connection, field)
            elif name == "model":
                row["model"] = self._require_model(field, fields["vector"])
            else:
                row[_RENAMED.get(name, name)] = convert(field) if convert and field is not None else field
        return row

    def _find_memory(self, connection: Connection, id: str) -> int | None:
        sql = "select rid from memories where namespace = ? and id = ?"
        key: int | None = connection.fetch_value(sql, (self._namespace, self._stored_ids.get(id, id)))
        return key

    def _require_memory(self, connection: Connection, id: Any) -> int:
        key = self._find_memory(connection, id)
        if key is None:
            raise _InvalidRecord(f"there is no memory {id!r}, neither before it nor in the database")
        return key

    def _require_session(self, connection: Connection, id: str) -> int:
        sql = "select sid from sessions where namespace = ? and id = ?"
        key: int | None = connection.fetch_value(sql, (self._namespace, id))
        if key is None:
            raise _InvalidRecord(f"there is no session {id!r}, neither before it nor in the database")
        return key

    def _require_model(self, model: Any, vector: bytes) -> int:
        """Return the number of the model that made a vector."""
        if model not in self._models:
            raise _InvalidRecord(f"no record before it describes the model {model!r}")
        number, dimensions = self._models[model]
        if len(vector) != 2 * dimensions:
            raise _InvalidRecord(f"a vector of {model} has {len(vector)} bytes, not {2 * dimensions}")
        return number


class _InvalidRecord(StoreError):
    """A record contradicts itself, or refers to something that is not stored."""


_IS_RELATED = """
    select 1 from relations
    where source = :source and target = :target and kind = :kind
      and (valid_from = :valid_from or (valid_until is null and cast(:valid_until as bigint) is null))
"""
_IS_SUPERSEDED = f"select 1 from relations where target = :target and kind = '{SUPERSEDES}' and valid_until is null"
