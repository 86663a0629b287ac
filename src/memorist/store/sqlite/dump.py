"""Exporting a namespace: all of its records, read as of one moment."""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import apsw

from memorist.store.export_schema import (
    CHUNK,
    FACT,
    FACT_VERSION,
    FORMAT,
    MEMORY,
    RECALLED,
    SHAPES,
    STRENGTH,
    USAGE,
    VERSION,
    RecordList,
    Shape,
    scalar_fields,
)
from memorist.store.sqlite.connections import ConnectionPool, fetch_value
from memorist.store.sqlite.documents import chunk_namespace
from memorist.store.sqlite.filters import from_micros

Record = dict[str, Any]

# The tables with rows of one memory, and how they are read: `t` is a row, and `:key` the memory.
_MEMORY_TABLES: Mapping[str, tuple[Shape, str]] = {
    "versions": (VERSION, "from memory_history t where t.rid = :key order by t.version"),
    "strength": (STRENGTH, "from strength_history t where t.rid = :key order by t.change"),
    "facts": (FACT, "from facts t where t.rid = :key order by t.fact"),
    "sessions": (
        USAGE,
        "from session_memories t join sessions s on s.sid = t.sid where t.rid = :key order by t.sid, t.usage",
    ),
}
_VECTOR_TABLES = {
    table: f"from {table} t join models o on o.model = t.model where t.rid = :key order by {order}"
    for table, order in (
        ("vectors", "t.model"),
        ("old_vectors", "t.version, t.model"),
        ("part_vectors", "t.model, t.first, t.part"),
    )
}
_FACT_VERSIONS = "from fact_history t where t.fact = :key order by t.change"
_OWN = "(t.namespace = :namespace or t.namespace = :chunks)"

# The expressions of fields that are not columns of the same name.
_EXPRESSIONS = {
    "was": "t.snapshot",
    "model": "o.name",
    "session": "(select s.id from sessions s where s.sid = t.sid)",
    "memory": "(select m.id from memories m where m.rid = t.rid)",
}
_RELATION_ENDS = {end: f"(select m.id from memories m where m.rid = t.{end})" for end in ("source", "target")}


def dump(pool: ConnectionPool, namespace: str, *, vectors: bool, types: Collection[str] = ()) -> Iterator[Record]:
    """
    Yield a header, then every record, or those of some `types`, in the order of `SHAPES`.

    Rows come in the order they were written. An import into an empty database keeps it, and so the next export is the
    same.
    """
    with pool.snapshot(stream=True) as connection:
        schema = fetch_value(connection, "select max(name) from _migrations")
        yield {"memorist": FORMAT, "schema": schema, "namespace": namespace, "vectors": vectors}
        reader = _RecordReader(connection, namespace, vectors)
        for type in SHAPES:
            if not types or type in types:
                for record in reader.read(type):
                    yield {"type": type, **record}


class _RecordReader:
    """Reads the tables of one namespace, on a connection that sees one moment."""

    def __init__(self, connection: apsw.Connection, namespace: str, vectors: bool) -> None:
        self._connection, self._vectors = connection, vectors
        self._names = {"namespace": namespace, "chunks": chunk_namespace(namespace)}
        self._prepared: dict[str, tuple[str, list[tuple[str, Callable[[Any], Any] | None]]]] = {}

    def read(self, type: str) -> Iterator[Record]:
        readers = {
            "model": self._read_models,
            "session": self._read_sessions,
            "memory": self._read_memories,
            "relation": self._read_relations,
            "recall": self._read_recalls,
            "feedback": self._read_feedback,
            "lens": self._read_lenses,
            "document": self._read_documents,
        }
        return readers[type]()

    def _read_models(self) -> Iterator[Record]:
        if not self._vectors:
            return
        used = " union all ".join(
            f"select 1 from {table} v join memories t on t.rid = v.rid where v.model = o.model and {_OWN}"
            for table in _VECTOR_TABLES
        )
        columns = {"name": "o.name", "dimensions": "o.dimensions", "metric": "o.metric"}
        for _, record in self._rows(SHAPES["model"], f"from models o where exists ({used}) order by o.model", columns):
            yield record

    def _read_sessions(self) -> Iterator[Record]:
        for _, record in self._rows(SHAPES["session"], "from sessions t where t.namespace = :namespace order by t.sid"):
            yield record

    def _read_memories(self) -> Iterator[Record]:
        # In the order of rid: sorted by anything else, all of them would be held in memory.
        source = "from memories t where +t.namespace = :namespace order by t.rid"
        for key, record in self._rows(MEMORY, source, key="t.rid"):
            yield record | self._read_memory_tables(key)

    def _read_relations(self) -> Iterator[Record]:
        source = """
            from relations t cross join memories m on m.rid = t.source
            where m.namespace = :namespace order by t.relation
        """
        for _, record in self._rows(SHAPES["relation"], source, _RELATION_ENDS):
            yield record

    def _read_recalls(self) -> Iterator[Record]:
        source = "from recalls t where +t.namespace = :namespace order by t.recall"
        for key, record in self._rows(SHAPES["recall"], source, key="t.recall"):
            hits = self._rows(RECALLED, "from recalled t where t.recall = :key order by t.place", of=key)
            yield record | _drop_empty({"memories": [hit for _, hit in hits]})

    def _read_feedback(self) -> Iterator[Record]:
        source = """
            from feedback t cross join memories m on m.rid = t.rid
            where m.namespace = :namespace order by t.feedback
        """
        for _, record in self._rows(SHAPES["feedback"], source):
            yield record

    def _read_lenses(self) -> Iterator[Record]:
        for _, record in self._rows(SHAPES["lens"], "from lenses t where t.namespace = :namespace order by t.name"):
            yield record

    def _read_documents(self) -> Iterator[Record]:
        source = "from documents t where +t.namespace = :namespace order by t.did"
        links_source = "from document_links t where t.did = :key order by t.line, t.target, t.text"
        for key, record in self._rows(SHAPES["document"], source, key="t.did"):
            links = self._rows(_nested_shape(SHAPES["document"], "links"), links_source, of=key)
            yield record | _drop_empty({"links": [link for _, link in links], "chunks": list(self._read_chunks(key))})

    def _read_chunks(self, document: int) -> Iterator[Record]:
        source = "from chunks c join memories t on t.rid = c.rid where c.did = :key order by c.ordinal, c.rid"
        columns = {name: f"c.{name}" for name in ("ordinal", "start_line", "end_line", "breadcrumb")}
        for key, record in self._rows(CHUNK, source, columns, key="t.rid", of=document):
            yield record | self._read_memory_tables(key)

    def _read_memory_tables(self, memory: int) -> Record:
        """Return the lists of records that belong to one memory."""
        lists: Record = {}
        for name, (shape, source) in _MEMORY_TABLES.items():
            lists[name] = []
            for key, record in self._rows(shape, source, key="t.fact" if name == "facts" else "0", of=memory):
                if name == "facts":
                    versions = self._rows(FACT_VERSION, _FACT_VERSIONS, of=key)
                    record |= _drop_empty({"versions": [version for _, version in versions]})
                lists[name].append(record)
        if self._vectors:
            for name, source in _VECTOR_TABLES.items():
                lists[name] = [record for _, record in self._rows(_nested_shape(MEMORY, name), source, of=memory)]
        return _drop_empty(lists)

    def _rows(
        self, shape: Shape, source: str, columns: Mapping[str, str] | None = None, *, key: str = "0", of: int = 0
    ) -> Iterator[tuple[int, Record]]:
        """Yield the rows of a table as records, each with its key. `of` is the key they belong to."""
        if source not in self._prepared:
            fields, expressions = scalar_fields(shape), {**_EXPRESSIONS, **(columns or {})}
            selected = ", ".join(expressions.get(name, f"t.{name}") for name in fields)
            converters = [(name, _CONVERTERS.get(kind)) for name, kind in fields.items()]
            self._prepared[source] = (f"select {key}, {selected} {source}", converters)
        sql, converters = self._prepared[source]
        for number, *row in self._connection.execute(sql, self._names | {"key": of}):
            yield (
                number,
                {
                    name: convert(stored) if convert else stored
                    for (name, convert), stored in zip(converters, row, strict=True)
                    if stored is not None
                },
            )


def _nested_shape(shape: Shape, name: str) -> Shape:
    nested = shape[name]
    assert isinstance(nested, RecordList)
    return nested.shape


def _drop_empty(lists: Record) -> Record:
    return {name: records for name, records in lists.items() if records}


def _format_time(micros: int) -> str:
    return from_micros(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "time": _format_time,
    "flag": bool,
    "texts": json.loads,
    "object": json.loads,
    "lens": json.loads,
    "snapshot": json.loads,
    "bytes": lambda stored: b64encode(stored).decode("ascii"),
    "vector": lambda stored: b64encode(stored).decode("ascii"),
}
