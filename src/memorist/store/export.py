"""
Exports: the records of one and their fields, a namespace read as records, and records written to a namespace.

A record is complete in itself: a memory comes with its history, its facts and its sessions, a document with its chunks.
So it is either known already or written whole, and an import that was interrupted can be run again. Records refer to
each other by ids. Whatever follows from the rest is left out: indexes, tags, positions in sessions, the time from which
a memory is superseded.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

import numpy as np

from memorist.errors import InvalidInput, StoreError
from memorist.records import FILE, SUPERSEDES, TURN, Model
from memorist.store.backend import Backend
from memorist.store.database import Conflict, Connection, Database, Refused, Row
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
# Where the rows `t` of the namespace come from, by table.
# Rows come in the order they were written: sorted by anything else, all memories would be held in memory.
_SOURCES = {
    "models": f"models t where exists ({_USED}) order by t.name",
    "sessions": "sessions t where t.namespace = :namespace order by t.sid",
    "memories": "memories t where @plain(t.namespace) = :namespace order by t.rid",
    "relations": """(
        select a.id as source, b.id as target, r.relation, r.kind, r.confidence, r.said_by, r.valid_from, r.valid_until
        from relations r @then memories a on a.rid = r.source @then memories b on b.rid = r.target
        where a.namespace = :namespace) t order by t.relation""",
    "recalls": "recalls t where @plain(t.namespace) = :namespace order by t.recall",
    "feedback": """
        feedback t @then memories m on m.rid = t.rid where m.namespace = :namespace order by t.feedback""",
    "lenses": "lenses t where t.namespace = :namespace order by t.name",
    "documents": "documents t where @plain(t.namespace) = :namespace order by t.did",
}
# The rows of lists, by table: the column with the key of the row they belong to, and their order.
_LISTS = {
    "memory_history": ("rid", "t.version"),
    "strength_history": ("rid", "t.change"),
    "facts": ("rid", "t.fact"),
    "fact_history": ("fact", "t.change"),
    "session_memories": ("rid", "t.sid, t.usage"),
    "vectors": ("rid", "t.model"),
    "old_vectors": ("rid", "t.version"),
    "part_vectors": ("rid", "t.first, t.part"),
    "recalled": ("recall", "t.place"),
    "document_links": ("did", "t.line, t.target, t.text"),
    "chunks": ("did", "t.ordinal, t.rid"),
}
# Each database numbers models in its own way: by their names, the order is the same everywhere.
_SORTED = {"vectors": ("model",), "old_vectors": ("version", "model"), "part_vectors": ("model", "first")}
_CHUNKS = """(
    select c.did, c.ordinal, c.start_line, c.end_line, c.breadcrumb, m.*
    from chunks c join memories m on m.rid = c.rid)"""
_RENAMED = {"was": "snapshot"}  # columns with another name than their fields
# Fields that name another record, whose key is in the row.
_REFERENCES = {
    "model": "(select o.name from models o where o.model = t.model)",
    "session": "(select s.id from sessions s where s.sid = t.sid)",
    "memory": "(select m.id from memories m where m.rid = t.rid)",
}
# Rows whose lists are read together; those of documents are long.
_ROWS_AT_ONCE, _DOCUMENTS_AT_ONCE, _CHARACTERS_AT_ONCE = 200, 8, 2_000_000

ReportDamage = Callable[[str, str], object]  # called with a record and what is wrong with it


def dump(
    pool: Database,
    namespace: str,
    *,
    vectors: bool,
    types: Collection[str] = (),
    report_damage: ReportDamage | None = None,
) -> Generator[dict[str, Any], None, None]:
    """
    Yield a header, then every record, or those of some `types`, as of one moment and in the order of `RECORDS`.

    Rows come in the order they were written. An import into an empty database keeps it, and so the next export is the
    same, whichever database it is. What is damaged is left out, or read as far as possible, and reported.
    """
    yield {"memorist": FORMAT, "namespace": namespace, "vectors": vectors}
    with pool.snapshot(stream=True) as connection:
        reader = _RecordReader(connection, namespace, vectors, report_damage)
        for type, records in RECORDS.items():
            if (not types or type in types) and (vectors or type != "model"):
                for record in reader.read(type, records):
                    yield {"type": type, **record}


def count_records(pool: Database, namespace: str) -> dict[str, int]:
    """Return the number of records of each type."""
    names = {"namespace": namespace, "chunks": chunk_namespace(namespace)}
    with pool.snapshot() as connection:
        return {
            type: connection.fetch_value(f"select count(*) from (select 1 from {_SOURCES[records.table]}) t", names)
            for type, records in RECORDS.items()
        }


def select_namespaces(column: str) -> str:
    """Return the query for all namespaces, whose names are in a column of the tables that have one for them."""
    return " union ".join(f"select {column} from {table}" for table in _NAMESPACED) + " order by 1"


class _RecordReader:
    """Reads the tables of one namespace, on a connection that sees one moment."""

    def __init__(
        self, connection: Connection, namespace: str, vectors: bool, report_damage: ReportDamage | None
    ) -> None:
        self._connection, self._vectors, self._report_damage = connection, vectors, report_damage
        self._names = {"namespace": namespace, "chunks": chunk_namespace(namespace)}
        self._prepared: dict[str, str] = {}

    def read(self, type: str, records: RecordList) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table as records, each with its lists."""
        rows = self._connection.stream(_select_rows(records, _SOURCES[records.table]), self._names)
        most = _DOCUMENTS_AT_ONCE if records.table == "documents" else _ROWS_AT_ONCE
        for batch in _take_batches(rows, most):
            yield from (record for _, record in self._build(records, batch, type, {}))

    def _build(
        self, records: RecordList, rows: Sequence[Row], type: str, owners: Mapping[int, str]
    ) -> list[tuple[int, dict[str, Any]]]:
        """Return the records of rows with the keys of the rows that they belong to, which `owners` names."""
        built, names = [], dict[int, str]()
        for owner, key, hash, *row in rows:
            name = _name_record(type, dict(zip(records.columns, row, strict=True)), owners.get(owner))
            record = self._convert(records, row, name)
            if record is not None:
                if hash is not None:
                    self._check_text(name, record, hash)
                names[key] = name
                built.append((owner, key, record))
        if built:
            for name, kind in records.lists:
                if self._vectors or kind.table not in _VECTOR_TABLES:
                    lists = self._read_lists(kind, name, names)
                    for _, key, record in built:
                        if key in lists:
                            record[name] = lists[key]
        return [(owner, record) for owner, _, record in built]

    def _read_lists(self, records: RecordList, type: str, owners: Mapping[int, str]) -> dict[int, list[dict[str, Any]]]:
        """Return the records of a list by the key of the row they belong to."""
        if records.table not in self._prepared:
            self._prepared[records.table] = _select_list(records)
        rows = self._connection.fetch(self._prepared[records.table], {"keys": as_json(list(owners))})
        lists: dict[int, list[dict[str, Any]]] = {}
        for owner, record in self._build(records, rows, type, owners):
            lists.setdefault(owner, []).append(record)
        if order := _SORTED.get(records.table):
            for found in lists.values():
                found.sort(key=itemgetter(*order))
        return lists

    def _convert(self, records: RecordList, row: Sequence[Any], name: str) -> dict[str, Any] | None:
        """Return a row as a record; None if a value without which it means nothing is damaged beyond reading."""
        record = {}
        for (field, kind), stored in zip(records.columns.items(), row, strict=True):
            if stored is None:
                continue
            if self._report_damage and (damage := _find_damage(kind, stored)):
                self._report_damage(name, f"its {field} {damage}")
                if kind == "vector":
                    return None  # it can be made again
            try:
                record[field] = _FROM_COLUMN[kind](stored) if kind in _FROM_COLUMN else stored
            except ValueError:
                return None  # a version or a lens; a check reports it
        return record

    def _check_text(self, name: str, record: Mapping[str, Any], hash: bytes) -> None:
        if self._report_damage:
            id, text = record["id"], record["content"]
            if hash not in (content_hash(text), identity_hash(id, text)):
                self._report_damage(name, "its text is not the one that was stored")


def _select_rows(records: RecordList, source: str, owner: str = "0") -> str:
    """Return the query for rows: the key of their owner, their own, the hash of their text, and their fields."""
    key = _KEYS.get(records.table)
    hash = "t.content_hash" if "content" in records.columns else "null"
    columns = [_REFERENCES.get(name, f"t.{_RENAMED.get(name, name)}") for name in records.columns]
    return f"select {', '.join([owner, f't.{key}' if key else '0', hash, *columns])} from {source}"


def _select_list(records: RecordList) -> str:
    owner, order = _LISTS[records.table]
    table = _CHUNKS if records.table == "chunks" else records.table
    source = f"{table} t where t.{owner} in @keys(:keys) order by t.{owner}, {order}"
    return _select_rows(records, source, f"t.{owner}")


def _take_batches(rows: Iterator[Row], most: int) -> Iterator[list[Row]]:
    """Group rows, so that few queries read their lists, and few rows are held in memory."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(batch) >= most or size >= _CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _name_record(type: str, fields: Mapping[str, Any], owner: str | None) -> str:
    return f"{owner}, {type}" if owner else name_record(type, fields)


def name_record(type: str, fields: Mapping[str, Any]) -> str:
    """Return how people know a record: by its type and id."""
    if type == "relation":
        return f"relation {fields['source']} {fields['kind']} {fields['target']}"
    if type == "feedback":
        return f"feedback on {fields['memory']}"
    return f"{type} {fields.get('id') or fields.get('name')}"


def _find_damage(kind: str, stored: Any) -> str | None:
    """Return what is wrong with a stored value that an export reads as far as possible."""
    if kind == "time" and to_micros(from_micros(stored)) != stored:
        return "is not a time"
    if kind == "vector" and not is_unit_vector(stored):
        return "is not of unit length"
    if kind in _JSON_KINDS:
        try:
            if isinstance(json.loads(stored), list if kind == "texts" else dict):
                return None
        except ValueError:
            pass
        return "is not JSON of its kind"
    return None


def is_unit_vector(stored: bytes) -> bool:
    """Return whether bytes are a vector of unit length, float16."""
    if len(stored) % 2:
        return False
    return abs(float(np.linalg.norm(np.frombuffer(stored, np.float16).astype(np.float32))) - 1.0) < NORM_TOLERANCE


def _read_object(text: str) -> dict[str, Any]:
    """Return the object that a text is in JSON; raise ValueError if it is damaged."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


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
    **dict.fromkeys(("lens", "snapshot"), _read_object),
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
# Of lists without lists of their own, the fields that are there once; their rows are inserted many at a time.
_ONCE: Mapping[str, tuple[str, ...]] = {
    "memory_history": ("version",), "strength_history": (), "fact_history": (),
    "session_memories": ("session", "usage"), "vectors": ("model",), "old_vectors": ("version", "model"),
    "part_vectors": (), "recalled": ("place",), "document_links": ("line", "target", "text"),
}  # fmt: skip
# As in the migration to parts: memories of several sentences without vectors of their parts.
_MARK_UNCUT = """
    insert into uncut(rid)
    select m.rid from memories m
    where m.rid in @keys(:keys) and length(m.content) > 150 and m.rid not in (select rid from chunks)
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
        self._waiting: dict[str, list[dict[str, Any]]] = {}  # rows of lists, to be inserted with the batch
        self._uncut: list[int] = []
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
        self._waiting, self._uncut, self._inserted = {}, [], 0
        with self._backend.database.writing() as connection:
            for record in records:
                new = self._put_record(connection, record)
                if isinstance(new, str):
                    skipped.append((record.place, new))
                elif record.type in ("memory", "document"):
                    added, known = added + new, known + (not new)
                elif record.type == "session":
                    sessions += new
            self._insert_waiting(connection, records)
            self._backend.tend(connection, self._inserted)
            self._pack_blocks(connection)
        return LoadReport(added, known, sessions, tuple(skipped))

    def _insert_waiting(self, connection: Connection, records: Sequence[ExportRecord]) -> None:
        """Insert the rows of lists, many in one round trip to a server."""
        try:
            for table, rows in self._waiting.items():
                columns = ", ".join(rows[0])
                values = ", ".join(f":{name}" for name in rows[0])
                connection.executemany(f"insert into {table}({columns}) values ({values})", rows)
            if self._uncut:
                connection.execute(_MARK_UNCUT, {"keys": as_json(self._uncut), "models": self._sentence_models})
        except (Conflict, Refused) as exc:
            places = " to ".join(dict.fromkeys((records[0].place, records[-1].place)))
            raise InvalidInput(f"{places}: a record contradicts what is stored ({exc})") from exc

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
        except Refused as exc:
            raise InvalidInput(f"{record.place}: {exc}") from exc

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
        self._wait(connection, _CHUNK_ROW, fields, rid=rid, did=document)

    def _insert_memory(self, connection: Connection, fields: Fields, hash: bytes, **more: Any) -> int | None:
        """Insert a memory or a chunk; return its key, None if its id or text is stored already."""
        texts = [fact["text"] for fact in fields.get("facts", ())]
        more["segments"] = unspaced_bigrams(fields.get("title"), fields["content"], *fields["tags"], *texts)
        more["facts"] = "\n".join(texts) or None
        rid = self._insert(connection, RECORDS["memory"], fields, content_hash=hash, **more)
        if rid is not None:
            self._inserted += 1
            if fields.get("vectors") and not fields.get("part_vectors"):  # perhaps from before there were any
                self._uncut.append(rid)
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
                self._insert_items(connection, name, kind, fields.get(name, ()), {_KEYS[table]: key})
        return key

    def _insert_items(
        self, connection: Connection, name: str, records: RecordList, items: Sequence[Fields], owner: dict[str, int]
    ) -> None:
        """Insert the records of a list within a record, or have them wait for the end of the batch."""
        once = _ONCE.get(records.table)
        if once and len({tuple(item[field] for field in once) for item in items}) < len(items):
            raise _InvalidRecord(f"of its {name}, one is there twice")
        for item in items:
            if records.table == "chunks":
                self._put_chunk(connection, item, owner["did"])
            elif once is not None:
                self._wait(connection, records, item, **owner)
            elif self._insert(connection, records, item, **owner) is None:
                raise _InvalidRecord(f"of its {name}, {item['text'][:80]!r} is there twice")

    def _wait(self, connection: Connection, records: RecordList, fields: Fields, **more: Any) -> None:
        row = self._to_row(connection, records, fields) | more
        self._waiting.setdefault(records.table, []).append(row)

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
