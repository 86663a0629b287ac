"""
Exports: the records of one and their fields, and a namespace read as records.

A record is complete in itself: a memory comes with its history, its facts and its sessions, a document with its chunks.
So it is either known already or written whole, and an import that was interrupted can be run again. Records refer to
each other by ids. Whatever follows from the rest is left out: indexes, tags, positions in sessions, the time from which
a memory is superseded.
"""

import json
import math
from base64 import b64encode
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from memorist.nesting import MAX_LEVELS, cut_levels
from memorist.records import FILE, TURN
from memorist.store.database import Connection, Database, Row
from memorist.store.documents import chunk_namespace
from memorist.store.filters import from_micros, to_micros
from memorist.store.rows import decode_json
from memorist.store.writes import as_json, content_hash, identity_hash, is_unhashed

FORMAT = 1  # the version of this format; readers refuse fields they do not know, so a new field is no new version
NORM_TOLERANCE = 0.01  # float16 leaves a unit vector of some thousand dimensions within this of length 1

T = TypeVar("T")


class RecordList(Struct, frozen=True, dict=True):
    """Records of one shape, and the table that holds them. An empty list within a record is left out."""

    shape: Mapping[str, "Kind"]
    table: str

    @cached_property
    def columns(self) -> dict[str, str]:
        """The fields that are columns of the table, with their kinds."""
        return {
            name: kind.removesuffix("?")
            for name, kind in self.shape.items()
            if isinstance(kind, str) and kind != _KNOWN_BY_ID
        }

    @cached_property
    def lists(self) -> list[tuple[str, "RecordList"]]:
        """The fields that are lists of records, which have tables of their own."""
        return [(name, kind) for name, kind in self.shape.items() if isinstance(kind, RecordList)]


_KNOWN_BY_ID = "by_id?"  # is no column: a memory's hash tells if it is known by its id or by its text
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
    "expires_at": "time?",
    "pinned": "flag", "access_count": "whole", "accessed_at": "time?", "by_id": _KNOWN_BY_ID,
    "versions": RecordList(VERSION, "memory_history"),
    "strength": RecordList(STRENGTH, "strength_history"),
    "facts": RecordList(FACT, "facts"),
    "sessions": RecordList(USAGE, "session_memories"),
    "vectors": RecordList(VECTOR, "vectors"),
    "old_vectors": RecordList({"version": "whole", **VECTOR}, "old_vectors"),
    "part_vectors": RecordList({"first": "whole", "last": "whole", **VECTOR}, "part_vectors"),
}  # fmt: skip
CHUNK: Shape = {"ordinal": "whole", "start_line": "whole", "end_line": "whole", "breadcrumb": "texts", **MEMORY}
RECALLED: Shape = {"memory": "id", "place": "whole", "score": "number", "relevance": "number", "facts": "texts",
                   "prompt": "any?"}  # fmt: skip

# In the order of an export: a record refers only to records before it.
RECORDS: Mapping[str, RecordList] = {
    "model": RecordList({"name": "text", "dimensions": "whole", "metric": "text"}, "models"),
    "session": RecordList(
        {"id": "session", "project": "any?", "started_at": "time", "ended_at": "time?", "summary": "any?",
         "deleted_at": "time?"}, "sessions"
    ),
    "memory": RecordList(MEMORY, "memories"),
    "relation": RecordList({
        "source": "id", "target": "id", "kind": "text", "confidence": "share", "said_by": "any?",
        "valid_from": "time", "valid_until": "time?",
    }, "relations"),
    "recall": RecordList({
        "id": "id", "at": "time", "query": "any?", "mode": "text", "profile": "text", "lens": "any?",
        "session": "session?", "surface": "any?", "tokens": "whole?", "memories": RecordList(RECALLED, "recalled"),
    }, "recalls"),
    "feedback": RecordList({"memory": "id", "query": "text", "good": "flag", "at": "time"}, "feedback"),
    "lens": RecordList({"name": "text", "definition": "lens"}, "lenses"),
    "erased": RecordList({"salt": "text", "digest": "text", "erased_at": "time"}, "erased"),
    "document": RecordList({
        "id": "id", "path": "text", "root": "text", "project": "any?", "title": "any?", "sector": "sector",
        "tags": "texts", "front_matter": "object", "size": "whole", "modified_at": "whole", "hash": "bytes",
        "redacted": "flag", "indexed_at": "time",
        "links": RecordList({"line": "whole", "target": "any", "text": "any"}, "document_links"),
        "chunks": RecordList(CHUNK, "chunks"),
    }, "documents"),
}  # fmt: skip


class ExportRecord(Struct, frozen=True):
    """A checked record to be imported, and its place in the file. Its times are datetimes, its bytes bytes."""

    place: str
    type: str
    fields: Mapping[str, Any]


NAMESPACED = ("sessions", "memories", "recalls", "lenses", "erased", "documents")  # tables with a column for it
_VECTOR_TABLES = ("vectors", "old_vectors", "part_vectors")
# The keys of tables whose rows have lists of records; rows of those lists have a column of the same name.
KEYS = {"memories": "rid", "chunks": "rid", "facts": "fact", "recalls": "recall", "documents": "did"}
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
    "erased": "erased t where @plain(t.namespace) = :namespace order by t.erasure",
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
RENAMED = {"was": "snapshot"}  # columns with another name than their fields
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
    with pool.snapshot() as connection:
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
    return " union ".join(f"select {column} from {table}" for table in NAMESPACED) + " order by 1"


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
        for batch in take_batches(rows, most, _CHARACTERS_AT_ONCE, _count_characters):
            yield from (record for _, record in self._build(records, batch, type, {}))

    def _build(
        self, records: RecordList, rows: Sequence[Row], type: str, owners: Mapping[int, str]
    ) -> list[tuple[int, dict[str, Any]]]:
        """Return the records of rows with the keys of the rows that they belong to, which `owners` names."""
        built, names = [], dict[int, str]()
        for owner, key, hash, *row in rows:
            name = ""
            if self._report_damage:  # of nothing else is it said where it is
                name = _name_record(type, dict(zip(records.columns, row, strict=True)), owners.get(owner))
            record = self._convert(records, row, name)
            if record is not None:
                if hash is not None:
                    self._check_text(name, record, hash)
                    if records.table == "memories" and _is_known_by_id(record, hash):
                        record["by_id"] = True
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
            if not is_unhashed(hash) and hash not in (content_hash(text), identity_hash(id, text)):
                self._report_damage(name, "its text is not the one that was stored")


def _is_known_by_id(record: Mapping[str, Any], hash: bytes) -> bool:
    """Return whether a memory is known by its id though others of its kind are known by their texts."""
    return record.get("kind") not in (TURN, FILE) and hash == identity_hash(record["id"], record["content"])


def _select_rows(records: RecordList, source: str, owner: str = "0") -> str:
    """Return the query for rows: the key of their owner, their own, the hash of their text, and their fields."""
    key = KEYS.get(records.table)
    hash = "t.content_hash" if "content" in records.columns else "null"
    columns = [_REFERENCES.get(name, f"t.{RENAMED.get(name, name)}") for name in records.columns]
    return f"select {', '.join([owner, f't.{key}' if key else '0', hash, *columns])} from {source}"


def _select_list(records: RecordList) -> str:
    owner, order = _LISTS[records.table]
    table = _CHUNKS if records.table == "chunks" else records.table
    source = f"{table} t where t.{owner} in @keys(:keys) order by t.{owner}, {order}"
    return _select_rows(records, source, f"t.{owner}")


def _count_characters(row: Row) -> int:
    return sum(len(value) for value in row if isinstance(value, str))


def take_batches(items: Iterable[T], most: int, most_size: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Group items into batches: up to so many, or until their sizes reach so much, as all are held in memory."""
    batch: list[T] = []
    size = 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if len(batch) >= most or size >= most_size:
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
    return f"{type} {fields.get('id') or fields.get('name') or fields.get('digest')}"


def _find_damage(kind: str, stored: Any) -> str | None:
    """Return what is wrong with a stored value that an export reads as far as possible."""
    if kind == "time" and to_micros(from_micros(stored)) != stored:
        return "is not a time"
    if kind == "vector" and not is_unit_vector(stored):
        return "is not of unit length"
    if kind in JSON_KINDS:
        read = cut_levels(stored, _LEVELS[kind])
        if read != stored:
            return f"is nested more than {_LEVELS[kind]} levels deep; what is deeper was left out"
        try:
            if isinstance(json.loads(read), list if kind == "texts" else dict):
                return None
        except ValueError:
            pass
        return "is not JSON of its kind"
    return None


def is_unit_vector(stored: bytes) -> bool:
    """Return whether bytes are a vector of unit length, float16."""
    if len(stored) % 2:
        return False
    vector = np.frombuffer(stored, np.float16).astype(np.float32)
    return abs(math.sqrt(float(vector @ vector)) - 1.0) < NORM_TOLERANCE


def _read_object(text: str) -> dict[str, Any]:
    """Return the object that a text is in JSON; raise ValueError if it is damaged."""
    found = json.loads(cut_levels(text, MAX_LEVELS + 1))
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


@lru_cache(1000)  # most of a memory's times are the same
def _format_time(micros: int) -> str:
    return from_micros(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _encode_bytes(stored: bytes) -> str:
    return b64encode(stored).decode("ascii")


_LEVELS = {"texts": MAX_LEVELS, "object": MAX_LEVELS, "lens": MAX_LEVELS + 1, "snapshot": MAX_LEVELS + 1}
JSON_KINDS = tuple(_LEVELS)
_FROM_COLUMN: Mapping[str, Callable[[Any], Any]] = {
    "time": _format_time,
    "flag": bool,
    "bytes": _encode_bytes,
    "vector": _encode_bytes,
    "texts": partial(decode_json, empty=[]),
    "object": partial(decode_json, empty={}),
    **dict.fromkeys(("lens", "snapshot"), _read_object),
}
