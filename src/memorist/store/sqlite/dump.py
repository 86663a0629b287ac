"""Everything a namespace holds, read in one moment, record by record."""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import apsw

from memorist.store import export_schema
from memorist.store.export_schema import SHAPES, Shape, plain
from memorist.store.sqlite.connections import ConnectionPool, value
from memorist.store.sqlite.documents import beside
from memorist.store.sqlite.filters import from_micros

Record = dict[str, Any]

# A memory's own tables: what is read of each, in which order. `t` is the row, and `:key` the memory.
_OF_A_MEMORY: Mapping[str, tuple[Shape, str]] = {
    "versions": (export_schema.VERSION, "from memory_history t where t.rid = :key order by t.version"),
    "strength": (export_schema.STRENGTH, "from strength_history t where t.rid = :key order by t.change"),
    "facts": (export_schema.FACT, "from facts t where t.rid = :key order by t.fact"),
    "sessions": (
        export_schema.USAGE,
        "from session_memories t join sessions s on s.sid = t.sid where t.rid = :key order by t.sid, t.usage",
    ),
}
_VECTORS_OF_A_MEMORY = {
    table: f"from {table} t join models o on o.model = t.model where t.rid = :key order by {order}"
    for table, order in (
        ("vectors", "t.model"),
        ("old_vectors", "t.version, t.model"),
        ("part_vectors", "t.model, t.first, t.part"),
    )
}
_FACT_VERSIONS = "from fact_history t where t.fact = :key order by t.change"
_MINE = "(t.namespace = :namespace or t.namespace = :beside)"

# Where a column is not what is written down of it.
_COLUMNS = {
    "was": "t.snapshot",
    "model": "o.name",
    "session": "(select s.id from sessions s where s.sid = t.sid)",
    "memory": "(select m.id from memories m where m.rid = t.rid)",
}
_ENDS = {end: f"(select m.id from memories m where m.rid = t.{end})" for end in ("source", "target")}  # of a relation


def dump(pool: ConnectionPool, namespace: str, *, vectors: bool, types: Collection[str] = ()) -> Iterator[Record]:
    """
    Every record in the order of `SHAPES`, after one that tells what follows; only those of some `types`, if given.

    Rows come in the order they were written, which an import into an empty database repeats: so does the next export.
    """
    with pool.snapshot() as connection:
        schema = value(connection, "select max(name) from _migrations")
        yield {"memorist": export_schema.FORMAT, "schema": schema, "namespace": namespace, "vectors": vectors}
        reader = _RecordReader(connection, namespace, vectors)
        for type in SHAPES:
            if not types or type in types:
                for record in reader.of(type):
                    yield {"type": type, **record}


class _RecordReader:
    """The tables of one namespace, on a connection that sees one moment."""

    def __init__(self, connection: apsw.Connection, namespace: str, vectors: bool) -> None:
        self._connection, self._vectors = connection, vectors
        self._names = {"namespace": namespace, "beside": beside(namespace)}
        self._prepared: dict[str, tuple[str, list[tuple[str, Callable[[Any], Any]]]]] = {}

    def of(self, type: str) -> Iterator[Record]:
        readers = {
            "model": self.models,
            "session": self.sessions,
            "memory": self.memories,
            "relation": self.relations,
            "recall": self.recalls,
            "feedback": self.feedback,
            "lens": self.lenses,
            "document": self.documents,
        }
        return readers[type]()

    def models(self) -> Iterator[Record]:
        if not self._vectors:
            return
        used = " union all ".join(
            f"select 1 from {table} v join memories t on t.rid = v.rid where v.model = o.model and {_MINE}"
            for table in _VECTORS_OF_A_MEMORY
        )
        columns = {"name": "o.name", "dimensions": "o.dimensions", "metric": "o.metric"}
        for _, record in self._rows(SHAPES["model"], f"from models o where exists ({used}) order by o.model", columns):
            yield record

    def sessions(self) -> Iterator[Record]:
        for _, record in self._rows(SHAPES["session"], "from sessions t where t.namespace = :namespace order by t.sid"):
            yield record

    def memories(self) -> Iterator[Record]:
        # By rid, whatever else is in the table: sorted by anything else, all of it would be held in memory.
        wanted = "from memories t where +t.namespace = :namespace order by t.rid"
        for key, record in self._rows(export_schema.MEMORY, wanted, key="t.rid"):
            yield record | self._about(key)

    def relations(self) -> Iterator[Record]:
        wanted = """
            from relations t cross join memories m on m.rid = t.source
            where m.namespace = :namespace order by t.relation
        """
        for _, record in self._rows(SHAPES["relation"], wanted, _ENDS):
            yield record

    def recalls(self) -> Iterator[Record]:
        wanted = "from recalls t where +t.namespace = :namespace order by t.recall"
        for key, record in self._rows(SHAPES["recall"], wanted, key="t.recall"):
            found = self._rows(export_schema.RECALLED, "from recalled t where t.recall = :key order by t.place", of=key)
            yield record | _nonempty({"memories": [one for _, one in found]})

    def feedback(self) -> Iterator[Record]:
        wanted = """
            from feedback t cross join memories m on m.rid = t.rid
            where m.namespace = :namespace order by t.feedback
        """
        for _, record in self._rows(SHAPES["feedback"], wanted):
            yield record

    def lenses(self) -> Iterator[Record]:
        for _, record in self._rows(SHAPES["lens"], "from lenses t where t.namespace = :namespace order by t.name"):
            yield record

    def documents(self) -> Iterator[Record]:
        wanted = "from documents t where +t.namespace = :namespace order by t.did"
        links: Shape = {"line": "whole", "target": "any", "text": "any"}
        for key, record in self._rows(SHAPES["document"], wanted, key="t.did"):
            pointed = self._rows(
                links, "from document_links t where t.did = :key order by t.line, t.target, t.text", of=key
            )
            yield record | _nonempty({"links": [link for _, link in pointed], "chunks": list(self._chunks(key))})

    def _chunks(self, document: int) -> Iterator[Record]:
        wanted = "from chunks c join memories t on t.rid = c.rid where c.did = :key order by c.ordinal, c.rid"
        columns = {name: f"c.{name}" for name in ("ordinal", "start_line", "end_line", "breadcrumb")}
        for key, record in self._rows(export_schema.CHUNK, wanted, columns, key="t.rid", of=document):
            yield record | self._about(key)

    def _about(self, memory: int) -> Record:
        """What belongs to one memory alone."""
        about: Record = {}
        for name, (shape, wanted) in _OF_A_MEMORY.items():
            about[name] = []
            for key, record in self._rows(shape, wanted, key="t.fact" if name == "facts" else "0", of=memory):
                if name == "facts":
                    versions = self._rows(export_schema.FACT_VERSION, _FACT_VERSIONS, of=key)
                    record |= _nonempty({"versions": [one for _, one in versions]})
                about[name].append(record)
        if self._vectors:
            for name, wanted in _VECTORS_OF_A_MEMORY.items():
                several = export_schema.MEMORY[name]
                assert isinstance(several, export_schema.RecordList)
                about[name] = [record for _, record in self._rows(several.shape, wanted, of=memory)]
        return _nonempty(about)

    def _rows(
        self, shape: Shape, wanted: str, columns: Mapping[str, str] | None = None, *, key: str = "0", of: int = 0
    ) -> Iterator[tuple[int, Record]]:
        """The rows of a table as records, each with its key."""
        if wanted not in self._prepared:
            named, own = plain(shape), {**_COLUMNS, **(columns or {})}
            chosen = ", ".join(own.get(name, f"t.{name}") for name in named)
            converted = [(name, _AS_JSON.get(kind, _as_it_is)) for name, kind in named.items()]
            self._prepared[wanted] = (f"select {key}, {chosen} {wanted}", converted)
        sql, kinds = self._prepared[wanted]
        for number, *row in self._connection.execute(sql, self._names | {"key": of}):
            yield (
                number,
                {
                    name: convert(stored)
                    for (name, convert), stored in zip(kinds, row, strict=True)
                    if stored is not None
                },
            )


def moment(micros: int) -> str:
    """A time as it is written down, to the microsecond."""
    return from_micros(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _nonempty(lists: Record) -> Record:
    return {name: records for name, records in lists.items() if records}


def _as_it_is(stored: Any) -> Any:
    return stored


_AS_JSON: Mapping[str, Callable[[Any], Any]] = {
    "time": moment,
    "flag": bool,
    "texts": json.loads,
    "object": json.loads,
    "lens": json.loads,
    "snapshot": json.loads,
    "bytes": lambda stored: b64encode(stored).decode("ascii"),
    "vector": lambda stored: b64encode(stored).decode("ascii"),
}
