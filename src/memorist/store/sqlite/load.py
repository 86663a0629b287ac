"""Records of an export, or of what was made into ones, written into a namespace. What is there stays as it is."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apsw
import numpy as np

from memorist.errors import InvalidInput, StoreError
from memorist.records import FILE, SUPERSEDES, TURN
from memorist.store import export_schema
from memorist.store.base import Model
from memorist.store.export_schema import SHAPES, ExportRecord, LoadReport, Shape
from memorist.store.sqlite.connections import ConnectionPool, value
from memorist.store.sqlite.documents import beside
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.keyword import MERGE_EVERY, merge
from memorist.store.sqlite.links import leads_to
from memorist.store.sqlite.vectors import SqliteVectors
from memorist.store.sqlite.writes import content_hash, hash_by_id
from memorist.text.tokenizer import unspaced_bigrams

Fields = Mapping[str, Any]

# As the migration to parts has it: what was said in several sentences, and has no vectors of its parts.
_UNCUT = """
    insert or ignore into uncut(rid)
    select m.rid from memories m
    where m.rid = ? and length(m.content) > 150 and m.rid not in (select rid from chunks)
      and exists (
        select 1 from vectors v join models o on o.model = v.model where v.rid = m.rid and o.name like 'local:%')
"""


class SqliteLoader:
    """
    One import into one namespace, a transaction a batch.

    It remembers which memories were not taken because the same text is there under another id: what is said of them
    later on is said of those.
    """

    def __init__(self, pool: ConnectionPool, namespace: str) -> None:
        self._pool, self._namespace = pool, namespace
        self._same: dict[str, str] = {}
        self._models: dict[str, tuple[int, int]] = {}
        self._kept_in = [SqliteVectors(pool, name) for name in (namespace, beside(namespace))]
        self._unmerged = 0
        self._prepared: dict[str, str] = {}
        self._put: Mapping[str, Callable[[apsw.Connection, Fields], bool | str]] = {
            "model": self._model,
            "session": self._session,
            "memory": self._memory,
            "relation": self._relation,
            "recall": self._recall,
            "feedback": self._feedback,
            "lens": self._lens,
            "document": self._document,
        }

    def put(self, lines: Sequence[ExportRecord]) -> LoadReport:
        """Write records, all of them or none; one that cannot be taken is an InvalidInput that names its place."""
        added = known = sessions = 0
        skipped: list[tuple[str, str]] = []
        with self._pool.writing() as connection:
            for line in lines:
                new = self._one(connection, line)
                if isinstance(new, str):
                    skipped.append((line.place, new))
                elif line.type in ("memory", "document"):
                    added, known = added + new, known + (not new)
                elif line.type == "session":
                    sessions += new
            if self._unmerged >= MERGE_EVERY:
                merge(connection)
                self._unmerged = 0
            self._pack(connection)
        return LoadReport(added, known, sessions, tuple(skipped))

    def _pack(self, connection: apsw.Connection) -> None:
        """Pack the blocks of vectors that came along, as those that are made here are."""
        for name, (_, dimensions) in self._models.items():
            for vectors in self._kept_in:
                vectors.store(connection, Model(name, dimensions), [], np.empty((0, dimensions), np.float32))

    def _one(self, connection: apsw.Connection, line: ExportRecord) -> bool | str:
        try:
            return self._put[line.type](connection, line.fields)
        except _Missing as exc:
            raise InvalidInput(f"{line.place}: {exc}; nothing from there on was taken") from exc
        except apsw.ConstraintError as exc:
            raise InvalidInput(f"{line.place}: it contradicts what is there ({exc})") from exc

    # Records. Each gives whether it is new, or the reason why it was passed over.

    def _model(self, connection: apsw.Connection, fields: Fields) -> bool:
        connection.execute(
            "insert into models(name, dimensions, metric) values (:name, :dimensions, :metric) on conflict do nothing",
            dict(fields),
        )
        number, dimensions, metric = value(
            connection, "select model, dimensions, metric from models where name = ?", (fields["name"],)
        )
        if (dimensions, metric) != (fields["dimensions"], fields["metric"]):
            raise _Missing(
                f"vectors of {fields['name']} have {fields['dimensions']} dimensions ({fields['metric']}) here, and "
                f"{dimensions} ({metric}) in the database: they are of another model"
            )
        self._models[fields["name"]] = (number, dimensions)
        return True

    def _session(self, connection: apsw.Connection, fields: Fields) -> bool:
        return self._insert(connection, "sessions", SHAPES["session"], fields, self._named) is not None

    def _memory(self, connection: apsw.Connection, fields: Fields) -> bool:
        text = fields["content"]
        hash = hash_by_id(fields["id"], text) if fields.get("kind") in (TURN, FILE) else content_hash(text)
        rid = self._text(connection, fields, self._namespace, hash)
        if rid is not None:
            return True
        if self._key(connection, fields["id"]) is None:
            self._same[fields["id"]] = value(
                connection,
                """
                select id from memories
                where namespace = :namespace and coalesce(project, '') = coalesce(:project, '')
                  and content_hash = :hash and deleted_at is null
                """,
                {"namespace": self._namespace, "project": fields.get("project"), "hash": hash},
            )
        return False

    def _relation(self, connection: apsw.Connection, fields: Fields) -> bool | str:
        ends = {end: self._require(connection, fields[end]) for end in ("source", "target")}
        row = _row(SHAPES["relation"], fields) | ends
        if ends["source"] == ends["target"]:
            if fields["source"] != fields["target"]:
                return False  # two memories that are one here
            raise _Missing("a memory cannot be related to itself")
        if value(connection, _SAID_ALREADY, row):
            return False
        if fields["kind"] == SUPERSEDES and row["valid_until"] is None:
            if value(connection, _SUPERSEDED, row):
                return False
            if leads_to(connection, ends["source"], ends["target"]):
                return "the one memory has itself been replaced by the other"
        return self._insert(connection, "relations", SHAPES["relation"], fields, ends, key="relation") is not None

    def _recall(self, connection: apsw.Connection, fields: Fields) -> bool:
        session = fields.get("session")
        sid = None if session is None else self._session_key(connection, session)
        shape = {name: kind for name, kind in SHAPES["recall"].items() if name != "session"}
        number = self._insert(connection, "recalls", shape, fields, self._named | {"sid": sid}, key="recall")
        for one in fields.get("memories", ()) if number is not None else ():
            ends = {"recall": number, "rid": self._require(connection, one["memory"])}
            shape = {name: kind for name, kind in export_schema.RECALLED.items() if name != "memory"}
            self._insert(connection, "recalled", shape, one, ends, key="place")
        return number is not None

    def _feedback(self, connection: apsw.Connection, fields: Fields) -> bool:
        shape = {name: kind for name, kind in SHAPES["feedback"].items() if name != "memory"}
        ends = {"rid": self._require(connection, fields["memory"])}
        return self._insert(connection, "feedback", shape, fields, ends, key="feedback") is not None

    def _lens(self, connection: apsw.Connection, fields: Fields) -> bool:
        return self._insert(connection, "lenses", SHAPES["lens"], fields, self._named, key="name") is not None

    def _document(self, connection: apsw.Connection, fields: Fields) -> bool:
        known = "select 1 from documents where namespace = :namespace and (id = :id or path = :path)"
        if value(connection, known, self._named | {"id": fields["id"], "path": fields["path"]}):
            return False
        key = self._insert(connection, "documents", SHAPES["document"], fields, self._named, key="did")
        for link in fields.get("links", ()):
            connection.execute(
                "insert into document_links(did, line, target, text) values (:did, :line, :target, :text)",
                {"did": key, **link},
            )
        for chunk in fields.get("chunks", ()):
            self._chunk(connection, key, chunk)
        return True

    def _chunk(self, connection: apsw.Connection, document: int, fields: Fields) -> None:
        rid = self._text(connection, fields, beside(self._namespace), hash_by_id(fields["id"], fields["content"]))
        if rid is None:
            raise _Missing(f"the chunk {fields['id']} belongs to another document already")
        shape = {name: kind for name, kind in export_schema.CHUNK.items() if name not in export_schema.MEMORY}
        self._insert(connection, "chunks", shape, fields, {"rid": rid, "did": document})

    # What a memory, or a chunk, is made of.

    def _text(self, connection: apsw.Connection, fields: Fields, namespace: str, hash: bytes) -> int | None:
        """A row of `memories` with all that is its own; None where its id or its text is there already."""
        facts = fields.get("facts", ())
        texts = [fact["text"] for fact in facts]
        derived = {
            "namespace": namespace,
            "content_hash": hash,
            "segments": unspaced_bigrams(fields.get("title"), fields["content"], *fields["tags"], *texts),
            "facts": "\n".join(texts) or None,
        }
        rid: int | None = self._insert(connection, "memories", export_schema.MEMORY, fields, derived, key="rid")
        if rid is None:
            return None
        self._unmerged += 1
        for version in fields.get("versions", ()):
            row = _row(export_schema.VERSION, version)
            connection.execute(
                "insert into memory_history(rid, version, replaced_at, snapshot) values (?, ?, ?, ?)",
                (rid, row["version"], row["replaced_at"], row["was"]),
            )
        for strength in fields.get("strength", ()):
            self._insert(connection, "strength_history", export_schema.STRENGTH, strength, {"rid": rid}, key="change")
        for fact in facts:
            key = self._insert(connection, "facts", export_schema.FACT, fact, {"rid": rid}, key="fact")
            if key is None:
                raise _Missing(f"the fact {fact['text'][:80]!r} stands there twice")
            for version in fact.get("versions", ()):
                self._insert(
                    connection, "fact_history", export_schema.FACT_VERSION, version, {"fact": key}, key="change"
                )
        for usage in fields.get("sessions", ()):
            ends = {"rid": rid, "sid": self._session_key(connection, usage["session"])}
            shape = {name: kind for name, kind in export_schema.USAGE.items() if name != "session"}
            self._insert(connection, "session_memories", shape, usage, ends)
        self._vectors(connection, rid, fields)
        return rid

    def _vectors(self, connection: apsw.Connection, rid: int, fields: Fields) -> None:
        for table in ("vectors", "old_vectors", "part_vectors"):
            for one in fields.get(table, ()):
                if one["model"] not in self._models:
                    raise _Missing(f"no line before it tells of the model {one['model']!r}")
                number, dimensions = self._models[one["model"]]
                if len(one["vector"]) != 2 * dimensions:
                    raise _Missing(f"a vector of {one['model']} has {len(one['vector'])} bytes, not {2 * dimensions}")
                row = dict(one) | {"rid": rid, "model": number}
                connection.execute(
                    f"insert into {table}({', '.join(row)}) values ({', '.join(f':{name}' for name in row)})", row
                )
        if fields.get("vectors") and not fields.get("part_vectors"):  # perhaps from before there were any
            connection.execute(_UNCUT, (rid,))

    # Rows and keys.

    @property
    def _named(self) -> dict[str, Any]:
        return {"namespace": self._namespace}

    def _insert(
        self, connection: apsw.Connection, table: str, shape: Shape, fields: Fields, more: Fields, *, key: str = "rowid"
    ) -> Any:
        """Insert a row unless one with its name is there; gives its key, None where one is."""
        row = {**_row(shape, fields), **more}
        if table not in self._prepared:
            self._prepared[table] = f"""
                insert into {table}({", ".join(row)})
                values ({", ".join(f":{name}" for name in row)})
                on conflict do nothing
                returning {"1" if key == "rowid" else key}
            """
        return value(connection, self._prepared[table], row)

    def _key(self, connection: apsw.Connection, id: str) -> int | None:
        sql = "select rid from memories where namespace = ? and id = ?"
        key: int | None = value(connection, sql, (self._namespace, self._same.get(id, id)))
        return key

    def _require(self, connection: apsw.Connection, id: str) -> int:
        key = self._key(connection, id)
        if key is None:
            raise _Missing(f"there is no memory {id!r}, neither before it nor in the database")
        return key

    def _session_key(self, connection: apsw.Connection, id: str) -> int:
        key: int | None = value(
            connection, "select sid from sessions where namespace = ? and id = ?", (self._namespace, id)
        )
        if key is None:
            raise _Missing(f"there is no session {id!r}, neither before it nor in the database")
        return key


class _Missing(StoreError):
    """What a record speaks of is not there, or is not what it says."""


_SAID_ALREADY = """
    select 1 from relations
    where source = :source and target = :target and kind = :kind
      and (valid_from = :valid_from or (valid_until is null and :valid_until is null))
"""
_SUPERSEDED = f"select 1 from relations where target = :target and kind = '{SUPERSEDES}' and valid_until is null"


def _row(shape: Shape, fields: Fields) -> dict[str, Any]:
    """The columns of a record, as the database keeps them."""
    row = {name: fields.get(name) for name, kind in shape.items() if isinstance(kind, str)}
    for name, given in row.items():
        convert = _STORED.get(str(shape[name]).removesuffix("?"))
        if convert and given is not None:
            row[name] = convert(given)
    return row


def _json(given: Any) -> str:
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"))


_STORED: Mapping[str, Callable[[Any], Any]] = {
    "time": to_micros,
    "flag": int,
    "texts": _json,
    "object": _json,
    "lens": _json,
    "snapshot": _json,
    "number": float,
    "share": float,
    "positive": float,
}
