"""Salvage: everything that can still be read in a damaged database, copied into a new one."""

import json
import os
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from memorist.store.database import Conflict
from memorist.store.sqlite.dialect import SqliteConnection, decode_row, typed_columns
from memorist.store.sqlite.pages import Pages
from memorist.store.sqlite.vectors import follow_new_vectors
from memorist.store.writes import as_json, content_hash, identity_hash

# Tables that nothing else could be made from, in the order of their references, each with an integer to find rows by.
# What is not here follows from these: tags, the full text, the queue of texts without vectors, packed blocks.
TABLES = {
    "models": "model",
    "indexed_fields": "field",
    "memories": "rid",
    "memory_history": "rid",
    "strength_history": "change",
    "relations": "relation",
    "facts": "fact",
    "fact_history": "change",
    "sessions": "sid",
    "session_memories": "rid",
    "recalls": "recall",
    "recalled": "recall",
    "feedback": "feedback",
    "lenses": None,
    "erased": "erasure",
    "documents": "did",
    "chunks": "rid",
    "document_links": "did",
}
_VECTORS = {"vectors": "rid", "part_vectors": "part", "old_vectors": "rid", "uncut": "rid"}
_FIRST_COLUMNS = 20  # of `memories` in the first version
_MAX_GAP = 100_000  # keys that are looked for behind the last row that could be read, where no table says how many
_MAX_FAILURES = 200_000  # reads of damaged pages, after which the rest of a table is given up,
_MAX_FAILURES_AT_FIRST = 1000  # and all of it, if there was nothing but damage
_OWNERS = {"rid": "memories", "did": "documents", "recall": "recalls"}  # tables that give the keys of others

_REJECTIONS = (Conflict, apsw.SQLError, apsw.MismatchError)

Row = tuple[Any, ...]


class Salvager:
    """Copies the rows of a damaged database to an empty one, and keeps count of what it kept and lost."""

    def __init__(self, path: str, target: SqliteConnection) -> None:
        self._path, self._target = path, target
        self.kept: dict[str, int] = {}
        self.lost: list[str] = []
        self._mended: list[str] = []
        self._source: SqliteConnection | None = None

    def run(self) -> None:
        """Copy everything, in one transaction of the new database."""
        self._target.pragma("foreign_keys", False)
        self._source = source = self._open()
        try:
            with self._target:
                for table, key in TABLES.items():
                    self._copy_table(source, table, key, self.lost)
                    if table == "memories":
                        self._find_loose_memories(source)
                self._copy_vectors(source)
                self._drop_orphans()
                self._forget_hashes()
                self._keep_sequences(source)
        finally:
            if source:
                source.close()
            self._target.pragma("foreign_keys", True)
        self.lost += self._mended

    def _open(self) -> SqliteConnection | None:
        """Return a connection that sees one moment of the damaged file; None if SQLite cannot make it out at all."""
        file = Path(self._path).absolute()
        # Otherwise SQLite needs a -shm file, which cannot be made on a disk that is only read.
        alone = not os.access(file.parent, os.W_OK) and not Path(f"{file}-wal").exists()
        name = f"file:{quote(str(file))}{'?immutable=1' if alone else ''}"
        source = SqliteConnection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            source.execute("begin")
            source.execute("select 1 from memories limit 0")
            return source
        except apsw.Error as exc:
            source.close()
            if isinstance(exc, apsw.BusyError | apsw.CantOpenError):
                raise
            self.lost.append(f"everything but the memories themselves: the list of tables cannot be read ({exc})")
            return None

    def _copy_table(self, source: SqliteConnection | None, table: str, key: str | None, lost: list[str]) -> None:
        columns = self._list_columns(source, table)
        if source is None or not columns:
            return
        reader = _TableReader(source, table, columns, key)
        rejected = self._insert(table, columns, reader.read())
        self.kept[table] = reader.count - len(rejected)
        lost += [f"{table}: {line}" for line in (*reader.lost, *rejected)]

    def _list_columns(self, source: SqliteConnection | None, table: str) -> list[str]:
        """Return the columns that a table has in both databases: the damaged one may be of an earlier version."""
        names = [[name for _, name, *_ in each.fetch(f"pragma table_info({table})")] for each in self._both(source)]
        return [name for name in names[-1] if name in names[0]]

    def _both(self, source: SqliteConnection | None) -> list[SqliteConnection]:
        return [self._target] if source is None else [source, self._target]

    def _insert(self, table: str, columns: Collection[str], rows: Iterable[Row]) -> list[str]:
        """Insert rows; return a line for each that is no row of this table, or is there already."""
        sql = f"insert into {table}({', '.join(columns)}) values ({', '.join('?' * len(columns))})"
        rejected = []
        for row in rows:
            try:
                self._target.execute(sql, row)
            except _REJECTIONS as exc:
                if table != "memories" or not self._insert_mended(sql, dict(zip(columns, row, strict=True))):
                    rejected.append(f"row {row[0]!r} is damaged ({exc})")
        return rejected

    def _insert_mended(self, sql: str, row: dict[str, Any]) -> bool:
        """Insert a memory with as much as can be read of what is damaged beside its text; tell if that was all."""
        content = str(row["content"]).replace("\0", "\ufffd")  # where SQLite would see the end of the text
        tags, metadata = str(row["tags"]), str(row["metadata"])
        damaged: dict[str, Any] = {}
        if not _is_json(tags):
            damaged["tags"] = self._read_tags(row["rid"]) or _read_whole_texts(tags)
        if not _is_json(metadata):
            damaged["metadata"] = _read_whole_pairs(metadata)
        mended = {name: as_json(value) for name, value in damaged.items()}
        try:
            self._target.execute(sql, tuple((row | {"content": content} | mended).values()))
        except _REJECTIONS:
            return False
        self._mended += [f"memories: the {name} of {row['id']} can be read only in part" for name in damaged]
        return True

    def _read_tags(self, rid: int) -> list[str]:
        """Return the tags of a memory by their own table; none if that cannot be read either."""
        try:
            rows = self._source.fetch("select tag from memory_tags where rid = ?", (rid,)) if self._source else []
        except apsw.Error as exc:
            _require_damage(exc)
            return []
        return [tag for (tag,) in rows if isinstance(tag, str)]

    def _find_loose_memories(self, source: SqliteConnection | None) -> None:
        """Find the memories that could not be read by way of their table on the pages of the file."""
        kept = {rid for (rid,) in self._target.fetch("select rid from memories")}
        ids = _list_ids(source)
        missing = None if ids is None else {rid: id for rid, id in ids.items() if rid not in kept}
        if missing == {} or (missing is None and source is not None and not self.lost):
            return
        columns = self._list_columns(None, "memories")
        found: dict[int, dict[str, Any]] = {}
        for rid, values in Pages(self._read_file(source)).find_rows(len(columns), _FIRST_COLUMNS):
            row = dict(zip(columns, values, strict=True)) | {"rid": rid}
            wanted = rid not in kept if missing is None else missing.get(rid) == row["id"]
            if wanted and _is_memory(row) and (rid not in found or row["updated_at"] > found[rid]["updated_at"]):
                found[rid] = {name: value for name, value in row.items() if value is not None}
        rejected = [rid for rid, row in sorted(found.items()) if self._insert("memories", row, [tuple(row.values())])]
        self.kept["memories"] = self.kept.get("memories", 0) + len(found) - len(rejected)
        if missing is not None:
            self.lost = [line for line in self.lost if not line.startswith("memories: ")]
            lost = [id for rid, id in missing.items() if rid not in found or rid in rejected]
            self.lost += [f"memories: {id} cannot be read" for id in lost]

    def _read_file(self, source: SqliteConnection | None) -> bytes:
        """Return the bytes of the database, with those still in its log if SQLite can tell."""
        if source is not None:
            try:
                return source.serialize("main")
            except apsw.Error:
                pass
        return Path(self._path).read_bytes()

    def _copy_vectors(self, source: SqliteConnection | None) -> None:
        """Copy the vectors; if some parts are lost, none of them: which texts lack some is not known."""
        lost: list[str] = []
        for table, key in _VECTORS.items():
            self._copy_table(source, table, key, lost)
            if table == "vectors":
                follow_new_vectors(self._target, table)
        if any(line.startswith(("part_vectors", "uncut")) for line in lost):
            self._target.execute("delete from vectors")
            self._target.execute("delete from part_vectors")

    def _drop_orphans(self) -> None:
        """Delete the rows that belong to others that are lost, and what belongs to those."""
        while broken := self._target.fetch("pragma foreign_key_check"):
            for table in sorted({table for table, *_ in broken}):
                count = self._delete_orphans(table, [one for one in broken if one[0] == table])
                self.kept[table] = self.kept.get(table, 0) - count
                if table in TABLES:
                    self.lost.append(f"{table}: {count} rows belong to others that are lost")

    def _delete_orphans(self, table: str, broken: Sequence[Row]) -> int:
        before = self._target.total_changes()
        for parent, link in {(parent, link) for _, _, parent, link in broken}:
            column, of = next(
                (column, of)
                for number, _, _, column, of, *_ in self._target.fetch(f"pragma foreign_key_list({table})")
                if number == link
            )
            self._target.execute(
                f"delete from {table} where {column} is not null and {column} not in (select {of} from {parent})"
            )
        return self._target.total_changes() - before

    def _forget_hashes(self) -> None:
        """Have the next `index` read every file again, if chunks are lost."""
        if any(line.startswith(("memories:", "chunks:")) for line in self.lost):
            self._target.execute("update documents set size = -1, modified_at = 0, hash = x''")

    def _keep_sequences(self, source: SqliteConnection | None) -> None:
        """Never give a key again that was given before: indexes and vectors join on it."""
        if source is None:
            return
        try:
            rows = source.fetch("select seq, name from sqlite_sequence")
        except apsw.Error:
            return
        for seq, name in rows:
            values = (seq, name)
            self._target.execute("update sqlite_sequence set seq = max(seq, ?) where name = ?", values)
            if not self._target.changes():
                self._target.execute("insert into sqlite_sequence(seq, name) values (?, ?)", values)


class _TableReader:
    """Reads a table past its damaged pages: forward up to the first, backward up to the last, and between by halves."""

    def __init__(self, source: SqliteConnection, table: str, columns: Sequence[str], key: str | None) -> None:
        self._source, self._table, self._columns, self._key = source, table, columns, key
        self.count = 0
        self._damaged: list[tuple[int, int]] = []
        self._damage = ""
        self._failures = 0

    @property
    def lost(self) -> list[str]:
        """One line for each range of keys that could not be read."""
        joined: list[tuple[int, int]] = []
        for low, high in sorted(self._damaged):
            if joined and joined[-1][1] + 1 == low:
                joined[-1] = joined[-1][0], high
            else:
                joined.append((low, high))
        lines = [f"rows {low} to {high} cannot be read" for low, high in joined]
        return lines + ([self._damage] if self._damage else [])

    def read(self) -> Iterator[Row]:
        """Yield every row that can be read."""
        order = self._key or ", ".join(self._columns[:2])
        first, forward = yield from self._walk(f"order by {order}", None)
        if forward:
            return
        if self._key is None:
            yield from self._walk(f"order by {order} desc", None)
            self._damage = "not every row can be read"
            return
        last, _ = yield from self._walk(f"where {self._key} > ? order by {self._key} desc", first)
        low = 0 if first is None else first + 1
        high = self._guess_last(low) if last is None else last - 1
        yield from self._bisect(low, high)

    def _walk(self, rest: str, after: int | None) -> Any:
        """Yield rows up to the first that cannot be read; return the last key before it, and if it came to the end."""
        # A key may have several rows: those of the last one before the damage are left to be read by their key.
        values = (-1 if after is None else after,) if "?" in rest else None
        group: list[Row] = []
        whole = None
        try:
            for row in self._select(rest, values):
                if group and self._key and row[self._place] != group[0][self._place]:
                    whole = group[0][self._place]
                    yield from self._hand_out(group)
                    group = []
                group.append(row)
        except apsw.Error as exc:
            _require_damage(exc)
            if not self._key:
                yield from self._hand_out(group)
            return whole, False
        yield from self._hand_out(group)
        return (group[0][self._place] if group and self._key else whole), True

    @property
    def _place(self) -> int:
        return self._columns.index(self._key or self._columns[0])

    def _hand_out(self, rows: Sequence[Row]) -> Iterator[Row]:
        self.count += len(rows)
        yield from rows

    def _select(self, rest: str, values: Any) -> Iterator[Row]:
        """Yield rows with their texts decoded one by one: damaged ones come with U+FFFD."""
        sql = f"select {typed_columns(self._columns)} from {self._table} not indexed {rest}"
        return map(decode_row, self._source.execute(sql, values))

    def _guess_last(self, low: int) -> int:
        try:
            table = _OWNERS.get(self._key or "", self._table)
            last = self._source.fetch_value("select seq from sqlite_sequence where name = ?", (table,))
        except apsw.Error:
            last = None
        return max(low, last if isinstance(last, int) else low + _MAX_GAP)

    def _bisect(self, low: int, high: int) -> Iterator[Row]:
        """Yield the rows of a range of keys, in halves where a whole cannot be read."""
        ranges = deque([(low, high)])  # the widest first, so that a table of which nothing is left is soon given up
        while ranges:
            low, high = ranges.popleft()
            if low > high:
                continue
            try:
                rows = list(self._select(f"where {self._key} between ? and ? order by {self._key}", (low, high)))
            except apsw.Error as exc:
                _require_damage(exc)
                self._failures += 1
                if low == high or self._failures > (_MAX_FAILURES if self.count else _MAX_FAILURES_AT_FIRST):
                    self._damaged.append((low, high))
                else:
                    middle = (low + high) // 2
                    ranges += [(low, middle), (middle + 1, high)]
                continue
            yield from self._hand_out(rows)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _read_whole_texts(damaged: str) -> list[str]:
    """Return the texts of a damaged JSON list that are whole."""
    texts = (json.loads(text) for text in _JSON_TEXT.findall(damaged) if _is_json(text))
    return [text for text in dict.fromkeys(texts) if text and "\ufffd" not in text]


def _read_whole_pairs(damaged: str) -> dict[str, Any]:
    """Return the pairs of a damaged JSON object that come before the damage."""
    pairs: dict[str, Any] = {}
    place, decoder = 0, json.JSONDecoder()
    while found := _JSON_KEY.match(damaged, place):
        try:
            value, place = decoder.raw_decode(damaged, found.end())
        except (ValueError, RecursionError):
            break
        if "\ufffd" not in damaged[found.start() : place] and _is_json(found[1]):
            pairs[json.loads(found[1])] = value
    return pairs


_JSON_TEXT = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_JSON_KEY = re.compile(rf"\s*[{{,]\s*({_JSON_TEXT.pattern})\s*:\s*")


def _require_damage(error: apsw.Error) -> None:
    """Raise an error again that says nothing about the pages that were read."""
    if isinstance(error, apsw.BusyError | apsw.LockedError | apsw.InterruptError | apsw.NoMemError):
        raise error


def _list_ids(source: SqliteConnection | None) -> dict[int, str] | None:
    """Return the id of every memory by its key, from an index; None if that is damaged as well."""
    if source is None:
        return None
    try:
        rows = source.fetch("select rid, id from memories indexed by sqlite_autoindex_memories_1")
        sound = source.fetch_value("select count(*) from memories indexed by memories_by_time")
    except apsw.Error:
        return None
    return dict(rows) if sound == len(rows) else None


def _is_memory(row: dict[str, Any]) -> bool:
    """Tell by its hash if a row is one of `memories`, and all of it."""
    id, content, hash = row["id"], row["content"], row["content_hash"]
    if not (isinstance(id, str) and isinstance(content, str) and isinstance(row["updated_at"], int)):
        return False
    return hash in (content_hash(content), identity_hash(id, content))
