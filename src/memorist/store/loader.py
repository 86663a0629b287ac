"""Loading: records of an export written to a namespace, in batches."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from memorist.errors import InvalidInput, StoreError
from memorist.records import FILE, SUPERSEDES, TURN, Model
from memorist.store.backend import Backend
from memorist.store.database import Conflict, Connection, Refused
from memorist.store.documents import chunk_namespace
from memorist.store.export import (
    CHUNK,
    JSON_KINDS,
    KEYS,
    MEMORY,
    NAMESPACED,
    RECORDS,
    RENAMED,
    ExportRecord,
    RecordList,
)
from memorist.store.filters import to_micros
from memorist.store.relations import is_superseded_by
from memorist.store.writes import as_json, content_hash, find_same_text, identity_hash, insert_memory_rows
from memorist.text.tokenizer import unspaced_bigrams

Fields = Mapping[str, Any]


class LoadReport(Struct, frozen=True):
    """The numbers of new and of known memories and documents, and of new sessions, in a batch of records."""

    added: int = 0
    known: int = 0
    sessions: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # place, reason


_TO_COLUMN: Mapping[str, Callable[[Any], Any]] = {
    "time": to_micros,
    "flag": int,
    **dict.fromkeys(JSON_KINDS, as_json),
    "texts": lambda texts: as_json(texts) if texts else "[]",  # mostly
    "object": lambda object: as_json(object) if object else "{}",
    **dict.fromkeys(("number", "share", "positive"), float),
}

_CHUNK_ROW = RecordList({name: kind for name, kind in CHUNK.items() if name not in MEMORY}, "chunks")
# Of lists without lists of their own, the fields that are there once; their rows are inserted many at a time.
_ONCE: Mapping[str, tuple[str, ...]] = {
    "memory_history": ("version",), "strength_history": (), "fact_history": (),
    "session_memories": ("session", "usage"), "vectors": ("model",), "old_vectors": ("version", "model"),
    "part_vectors": (), "recalled": ("place",), "document_links": ("line", "target", "text"),
}  # fmt: skip
# Memories of several sentences whose vectors came without those of their parts.
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
        self._prepared: dict[str, str] = {}
        self._begin_batch()
        self._put: Mapping[str, Callable[[Connection, Fields], bool | str]] = {
            "model": self._put_model,
            "memory": self._put_memory,
            "relation": self._put_relation,
            "document": self._put_document,
        }

    def put(self, records: Sequence[ExportRecord]) -> LoadReport:
        """Write records, all of them or none; an InvalidInput names the place of one that cannot be written."""
        try:
            return self._write(records, together=True)
        except (Conflict, Refused):  # of many rows at once: one by one, it is found which
            return self._write(records, together=False)

    def _begin_batch(self) -> None:
        self._inserted = 0
        self._keys: dict[int, int | None] = {}  # of memories that are inserted together, by the `id()` of their fields
        self._sessions: dict[str, int] = {}
        self._waiting: dict[str, list[dict[str, Any]]] = {}  # rows of lists, to be inserted with the batch
        self._uncut: list[int] = []

    def _write(self, records: Sequence[ExportRecord], *, together: bool) -> LoadReport:
        """Write records in one transaction, rows of the same table `together`: in few round trips to a server."""
        added = known = sessions = 0
        skipped: list[tuple[str, str]] = []
        self._begin_batch()
        with self._backend.database.writing() as connection:
            if together:
                self._insert_memories(connection, [one.fields for one in records if one.type == "memory"])
            for record in records:
                new = self._put_record(connection, record, together)
                if isinstance(new, str):
                    skipped.append((record.place, new))
                elif record.type in ("memory", "document"):
                    added, known = added + new, known + (not new)
                elif record.type == "session":
                    sessions += new
            self._insert_waiting(connection)
            self._backend.optimize(connection, self._inserted)
            self._pack_blocks(connection)
        return LoadReport(added, known, sessions, tuple(skipped))

    def _insert_memories(self, connection: Connection, memories: Sequence[Fields]) -> None:
        """Insert the rows of memories, without their lists."""
        if memories:
            rows = [self._to_memory_row(connection, fields, _hash_memory(fields)) for fields in memories]
            keys = insert_memory_rows(connection, list(rows[0]), [tuple(row.values()) for row in rows])
            self._keys = {id(fields): key for fields, key in zip(memories, keys, strict=True)}

    def _insert_waiting(self, connection: Connection) -> None:
        """Insert the rows of lists."""
        vectors = self._waiting.pop("vectors", [])
        for number in {row["model"] for row in vectors}:
            of_model = [(row["rid"], row["vector"]) for row in vectors if row["model"] == number]
            self._vectors[0].insert(connection, number, of_model)
        for table, rows in self._waiting.items():
            connection.insert_rows(table, list(rows[0]), [tuple(row.values()) for row in rows])
        if self._uncut:
            connection.execute(_MARK_UNCUT, {"keys": as_json(self._uncut), "models": self._sentence_models})
        self._waiting, self._uncut = {}, []

    def _pack_blocks(self, connection: Connection) -> None:
        """Pack the blocks of imported vectors."""
        for name, (_, dimensions) in self._models.items():
            for vectors in self._vectors:
                vectors.write(connection, Model(name, dimensions), [], np.empty((0, dimensions), np.float32))

    def _put_record(self, connection: Connection, record: ExportRecord, together: bool) -> bool | str:
        """Write a record; return if it is new, or the reason why it was skipped."""
        try:
            if put := self._put.get(record.type):
                new = put(connection, record.fields)
            else:
                new = self._insert(connection, RECORDS[record.type], record.fields) is not None
            if not together:
                self._insert_waiting(connection)
            return new
        except _InvalidRecord as exc:
            raise InvalidInput(f"{record.place}: {exc}; nothing from there on was imported") from exc
        except Conflict as exc:
            raise InvalidInput(f"{record.place}: it contradicts what is stored ({exc.reason})") from exc
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
        if self._insert_memory(connection, fields, _hash_memory) is not None:
            return True
        same = find_same_text(connection, self._namespace, fields.get("project"), _hash_memory(fields))
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
        rid = self._insert_memory(connection, fields, _hash_by_id, namespace=chunk_namespace(self._namespace))
        if rid is None:
            raise _InvalidRecord(f"the chunk {fields['id']} belongs to another document already")
        self._wait(connection, _CHUNK_ROW, fields, rid=rid, did=document)

    def _insert_memory(
        self, connection: Connection, fields: Fields, hash: Callable[[Fields], bytes], **more: Any
    ) -> int | None:
        """Insert a memory or a chunk; return its key, None if its id or text is stored already."""
        if id(fields) in self._keys:
            rid = self._keys.pop(id(fields))
        else:
            row = self._to_memory_row(connection, fields, hash(fields)) | more
            rid = connection.fetch_value(self._prepare_insert("memories", row), row)
        if rid is not None:
            self._inserted += 1
            self._insert_lists(connection, RECORDS["memory"], fields, rid)
            if fields.get("vectors") and not fields.get("part_vectors"):  # perhaps from before there were any
                self._uncut.append(rid)
        return rid

    def _insert(self, connection: Connection, records: RecordList, fields: Fields, **more: Any) -> int | None:
        """Insert a row with its lists, and `more` columns; return its key, None if it is stored already."""
        table = records.table
        own = {"namespace": self._namespace} if table in NAMESPACED else {}
        row = {**self._to_row(connection, records, fields), **own, **more}
        key: int | None = connection.fetch_value(self._prepare_insert(table, row), row)
        if key is not None:
            self._insert_lists(connection, records, fields, key)
        return key

    def _prepare_insert(self, table: str, row: Fields) -> str:
        """Return the statement that inserts a row and returns its key, or nothing if it is stored already."""
        if table not in self._prepared:
            self._prepared[table] = f"""
                insert into {table}({", ".join(row)})
                values ({", ".join(f":{name}" for name in row)})
                on conflict do nothing
                returning {KEYS.get(table, "1")}
            """
        return self._prepared[table]

    def _to_memory_row(self, connection: Connection, fields: Fields, hash: bytes) -> dict[str, Any]:
        """Return the columns of a memory, also those that follow from its texts."""
        texts = [fact["text"] for fact in fields.get("facts", ())]
        return self._to_row(connection, RECORDS["memory"], fields) | {
            "namespace": self._namespace,
            "content_hash": hash,
            "segments": unspaced_bigrams(fields.get("title"), fields["content"], *fields["tags"], *texts),
            "facts": "\n".join(texts) or None,
        }

    def _insert_lists(self, connection: Connection, records: RecordList, fields: Fields, key: int) -> None:
        for name, kind in records.lists:
            if items := fields.get(name):
                self._insert_items(connection, name, kind, items, {KEYS[records.table]: key})

    def _insert_items(
        self, connection: Connection, name: str, records: RecordList, items: Sequence[Fields], owner: dict[str, int]
    ) -> None:
        """Insert the records of a list within a record, or have them wait for the end of the batch."""
        once = _ONCE.get(records.table)
        if records.table == "facts" and not any(item.get("versions") for item in items):
            once = ("text",)  # no list needs their keys
        if once and len({tuple(item[field] for field in once) for item in items}) < len(items):
            raise _InvalidRecord(f"of its {name}, one is there twice ({', '.join(once)})")
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
        plan = _plan_columns(records)
        row = {column: fields.get(name) for name, column in plan.columns}
        for column, convert in plan.converted:
            if (value := row[column]) is not None:
                row[column] = convert(value)
        for column in plan.keys:
            if column == "rid":
                row[column] = self._require_memory(connection, row[column])
            elif column == "model":
                row[column] = self._require_model(row[column], fields["vector"])
            elif (session := row[column]) is not None:
                row[column] = self._require_session(connection, session)
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
        if id not in self._sessions:
            sql = "select sid from sessions where namespace = ? and id = ?"
            key: int | None = connection.fetch_value(sql, (self._namespace, id))
            if key is None:
                raise _InvalidRecord(f"there is no session {id!r}, neither before it nor in the database")
            self._sessions[id] = key
        return self._sessions[id]

    def _require_model(self, model: Any, vector: bytes) -> int:
        """Return the number of the model that made a vector."""
        if model not in self._models:
            raise _InvalidRecord(f"no record before it describes the model {model!r}")
        number, dimensions = self._models[model]
        if len(vector) != 2 * dimensions:
            raise _InvalidRecord(f"a vector of {model} has {len(vector)} bytes, not {2 * dimensions}")
        return number


_KEY_COLUMNS = {"session": "sid", "memory": "rid"}  # columns with the key of what a field names


class _ColumnPlan(NamedTuple):
    """The fields of records with their columns, those columns that are converted, and those with the key of another."""

    columns: list[tuple[str, str]]
    converted: list[tuple[str, Callable[[Any], Any]]]
    keys: list[str]


_plans: dict[int, _ColumnPlan] = {}  # by the `id()` of a kind of records, of which there are a few for good


def _plan_columns(records: RecordList) -> _ColumnPlan:
    """Return how the fields of records become columns."""
    if id(records) not in _plans:
        columns = [(name, _KEY_COLUMNS.get(name) or RENAMED.get(name, name)) for name in records.columns]
        converted = [
            (column, _TO_COLUMN[records.columns[name]])
            for name, column in columns
            if records.columns[name] in _TO_COLUMN
        ]
        keys = [column for _, column in columns if column in ("sid", "rid", "model")]
        _plans[id(records)] = _ColumnPlan(columns, converted, keys)
    return _plans[id(records)]


def _hash_memory(fields: Fields) -> bytes:
    """Return the hash by which a memory is known: that of its text, or of its id, too."""
    by_id = fields.get("by_id") or fields.get("kind") in (TURN, FILE)
    return _hash_by_id(fields) if by_id else content_hash(fields["content"])


def _hash_by_id(fields: Fields) -> bytes:
    return identity_hash(fields["id"], fields["content"])


class _InvalidRecord(StoreError):
    """A record contradicts itself, or refers to something that is not stored."""


_IS_RELATED = """
    select 1 from relations
    where source = :source and target = :target and kind = :kind
      and (valid_from = :valid_from or (valid_until is null and cast(:valid_until as bigint) is null))
"""
_IS_SUPERSEDED = f"select 1 from relations where target = :target and kind = '{SUPERSEDES}' and valid_until is null"
