"""Check a database against itself, repair what can be made again, and salvage a damaged one into a new file."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path

import apsw
import numpy as np

from memorist.atomic_file import make_folder
from memorist.errors import InvalidInput, StoreBusy, StoreError
from memorist.reports import FILE_PROBLEM, CheckReport, SalvageReport
from memorist.store import derived
from memorist.store.database import Conflict
from memorist.store.derived import Checked
from memorist.store.documents import CHUNK_SUFFIX
from memorist.store.export import NORM_TOLERANCE
from memorist.store.filters import is_time
from memorist.store.migrations import load_migrations, migrate
from memorist.store.sqlite.backup import BEFORE_REPAIR, overwrite
from memorist.store.sqlite.connections import ConnectionPool, SqliteSchema
from memorist.store.sqlite.copies import choose_kept_name, rename_durably, temporary_file
from memorist.store.sqlite.dialect import SqliteConnection, decode_text
from memorist.store.sqlite.keyword import INDEXES
from memorist.store.sqlite.maintenance import find_file_problems
from memorist.store.sqlite.salvage import TABLES, Salvager
from memorist.store.sqlite.vectors import read_block_parts, read_block_vectors
from memorist.store.statistics import count_memories
from memorist.store.vector_scan import encode, unpack
from memorist.store.writes import HASH_BYTES, content_hash, hash_texts, identity_hash, is_unhashed

_ATTEMPTS = 3  # to make the file again, if others write meanwhile


def check_database(pool: ConnectionPool, namespace: str, *, repair: bool) -> CheckReport:
    """Check the file, and a namespace in it. With `repair`, make again what can be made again."""
    checked = Checked(namespace)
    problems = _find_problems(pool, checked)
    left = problems
    if repair and not pool.read_only:
        _hash_texts(pool, checked)
    if repair and problems:
        if pool.read_only:
            raise StoreError(f"{pool.path} was opened read-only, and cannot be repaired")
        left = _fix(pool, checked)
        if any(problem.startswith(FILE_PROBLEM) for problem in left) and not pool.in_memory:
            lost = _rebuild_file(pool)
            left = [*left, *lost] if lost else _find_problems(pool, checked)
        problems = [*problems, *(problem for problem in left if problem not in problems)]
    repaired = [problem for problem in problems if problem not in left]
    skipped = ["full text: checking it needs the right to write"] if pool.read_only else []
    skipped += _find_unhashed(pool, checked)
    memories, vectors = count_memories(pool, namespace)
    return CheckReport(not left, tuple(problems), tuple(repaired), tuple(skipped), memories, vectors)


def _hash_texts(pool: ConnectionPool, checked: Checked) -> None:
    """Hash the texts that other programs wrote, if the table can be read."""
    with suppress(StoreError), pool.writing() as connection:
        hash_texts(connection, checked.in_namespace(), checked.values)


def _find_unhashed(pool: ConnectionPool, checked: Checked) -> Iterator[str]:
    """Yield how many texts have no hash to be compared with."""
    sql = f"select count(*) from memories where length(content_hash) <> {HASH_BYTES} and {checked.in_namespace()}"
    with suppress(StoreError), pool.reading() as connection:
        if count := connection.fetch_value(sql, checked.values):
            yield f"text: {count} written by plain SQL have no hash yet; a repair makes it"


def _find_problems(pool: ConnectionPool, checked: Checked) -> list[str]:
    checks = [find for find, _ in _CHECKS if find is not _find_full_text_problems or not pool.read_only]
    return list(dict.fromkeys(problem for find in checks for problem in _run_check(pool, find, checked)))


def _fix(pool: ConnectionPool, checked: Checked) -> list[str]:
    """Repair in place what each check finds; return what all of them find then."""
    for find, fix in _CHECKS:
        if fix is derived.drop_orphan_chunks and _run_check(pool, _find_file_problems, checked):
            continue  # its file may be the one that cannot be read
        if fix and _run_check(pool, find, checked):
            try:
                with pool.writing() as connection:
                    fix(connection, checked)
            except StoreBusy:
                raise
            except StoreError:
                continue  # it is found again
    return _find_problems(pool, checked)


def _run_check(pool: ConnectionPool, find: "_FindProblems", checked: Checked) -> list[str]:
    """Return the problems that a check finds as of one moment. To SQLite, the check of FTS5 is a write."""
    found: list[str] = []
    try:
        with pool.writing() if find is _find_full_text_problems else pool.snapshot() as connection:
            for problem in find(connection, checked):
                found.append(problem)
    except StoreBusy:
        raise
    except StoreError as exc:
        found.append(f"{FILE_PROBLEM} a part of it cannot be read ({exc.__cause__ or exc})")
    return found


def salvage_database(path: str, target: str, *, busy_timeout: float) -> SalvageReport:
    """Copy everything that can be read in a damaged database to a new file, and check that."""
    source, new = Path(path), Path(target)
    if not source.is_file():
        raise InvalidInput(
            f"cannot salvage {path}: {'it is not a file' if source.exists() else 'there is no such file'}"
        )
    if not os.access(source, os.R_OK):
        raise InvalidInput(f"cannot salvage {path}: it cannot be read; check its permissions")
    if os.path.lexists(new):
        raise InvalidInput(f"{target} exists; name a new file for what can be salvaged")
    try:
        make_folder(new.parent, private=True)
        with temporary_file(new) as part:
            report = _salvage(str(source), part, busy_timeout)
            if not report.kept.get("memories"):
                raise StoreError(f"no memory can be read in {path}, and no file was made; restore a backup")
            rename_durably(part, new)
    except OSError as exc:
        raise StoreError(f"cannot write {target}: {exc.strerror}") from exc
    return report


def _salvage(path: str, part: Path, busy_timeout: float) -> SalvageReport:
    pool = ConnectionPool(str(part), read_only=False, busy_timeout=busy_timeout, synchronous="full")
    with closing(pool):
        with pool.reading() as connection:
            migrate(SqliteSchema(pool, connection), load_migrations("sqlite"))
            salvager = Salvager(path, connection)
            salvager.run()
        left = _fix(pool, Checked())
    return SalvageReport(salvager.kept, tuple(salvager.lost), tuple(left))


def _rebuild_file(pool: ConnectionPool) -> list[str]:
    """
    Make the file again of everything in it, and keep a copy of the damaged one; return what stands in the way.

    A file of which something cannot be read stays as it is: to leave that behind is for the user to decide.
    """
    database = Path(pool.file)
    for _ in range(_ATTEMPTS):
        with temporary_file(database) as part, pool.reading() as connection:
            is_unchanged = partial(_has_version, connection, connection.pragma("data_version"))
            report = _salvage(pool.file, part, pool.busy_timeout)
            if report.lost:
                return [f"{FILE_PROBLEM} {line}" for line in report.lost]
            if overwrite(pool, part, choose_kept_name(database, BEFORE_REPAIR), is_unchanged):
                return []
    raise StoreBusy(f"others write to {pool.path} all the time; repair it when they are done")


def _has_version(connection: SqliteConnection, version: int) -> bool:
    """Tell if nobody else has written since a connection saw this version of the database."""
    return bool(connection.pragma("data_version") == version)


def make_missing_indexes(pool: ConnectionPool) -> None:
    """Make the full-text indexes again if they are gone, of the text."""
    names = ", ".join(f"'{index}'" for index in INDEXES)
    with pool.reading() as connection:
        found = connection.fetch_value(f"select count(*) from sqlite_master where name in ({names})")
    if found < len(INDEXES) and not pool.read_only:
        with pool.writing() as connection:
            _make_missing(connection, Checked())
            _rebuild_full_text(connection, Checked())


def _find_file_problems(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    return find_file_problems(connection)


def _reindex(connection: SqliteConnection, checked: Checked) -> None:
    connection.execute("reindex")


@cache
def _list_schema() -> dict[str, tuple[str, str]]:
    """Return type and statement of everything in the present schema by name, in the order it is made."""
    with closing(SqliteConnection(":memory:")) as connection:
        for sql in load_migrations("sqlite").values():
            connection.execute(sql)
        rows = connection.fetch("select name, type, sql from sqlite_master where sql is not null")
    shadows = tuple(f"{index}_" for index in INDEXES)
    return {name: (type, sql) for name, type, sql in rows if not name.startswith((*shadows, "sqlite_"))}


def _find_missing(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    for name in _list_missing(connection):
        yield f"schema: the {_list_schema()[name][0]} {name} is missing"


def _list_missing(connection: SqliteConnection) -> list[str]:
    present = {name for (name,) in connection.fetch("select name from sqlite_master")}
    return [name for name in _list_schema() if name not in present]


def _make_missing(connection: SqliteConnection, checked: Checked) -> None:
    for name in _list_missing(connection):
        connection.execute(_list_schema()[name][1])
        if name in INDEXES:
            connection.execute(f"insert into {name}({name}, rank) values ('usermerge', 2)")


def _find_text_problems(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    """Yield the texts that are not UTF-8, and those of memories that are not what their hash says."""
    for table, key in TABLES.items():
        names = [name for _, name, type, *_ in connection.fetch(f"pragma table_info({table})") if type == "TEXT"]
        if not names:
            continue
        columns = ", ".join(f"cast({name} as blob)" for name in names)
        extra = "content_hash" if table == "memories" else "null"
        sql = f"select {key or 'null'}, {extra}, {columns} from {table} where {_whose(connection, table, checked)}"
        for number, hash, *stored in connection.execute(sql, checked.values):
            texts = dict(zip(names, stored, strict=True))
            broken = [name for name, text in texts.items() if text is not None and not _is_utf8(text)]
            for name in broken:
                yield f"text: the {name} of {_name_row(table, number, texts)} is not UTF-8"
            unhashed = table != "memories" or is_unhashed(hash)
            if not unhashed and "content" not in broken and not _has_hash(texts, hash):
                yield f"text: the text of {_name_row(table, number, texts)} is not the one that was stored"


def _whose(connection: SqliteConnection, table: str, checked: Checked) -> str:
    """Return the condition that a row of a table belongs to the namespace that is checked."""
    names = {name for _, name, *_ in connection.fetch(f"pragma table_info({table})")}
    if "namespace" in names:
        return checked.in_namespace()
    if "rid" in names or "source" in names:
        return checked.of_memories("rid" if "rid" in names else "source")
    key, owners, of_owner = next(owner for owner in _OWNERS if owner[0] in names)
    of_owner = checked.in_namespace() if of_owner == "namespace" else checked.of_memories()
    return f"{key} in (select {key} from {owners} where {of_owner})" if checked.namespace is not None else "1 = 1"


# Columns that tell whose a row is where it does not say so itself: the table of its owner, and what that one has.
_OWNERS = (
    ("did", "documents", "namespace"),
    ("recall", "recalls", "namespace"),
    ("fact", "facts", "rid"),
    ("model", "vectors", "rid"),
)


def _find_time_problems(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    """Yield the times of memories that are none: a date that far off would be an error in every list."""
    names = [name for _, name, *_ in connection.fetch("pragma table_info(memories)") if name.endswith("_at")]
    sql = f"select cast(id as blob), {', '.join(names)} from memories where {checked.in_namespace()}"
    for id, *times in connection.execute(sql, checked.values):
        for name, micros in zip(names, times, strict=True):
            if micros is not None and not is_time(micros):
                yield f"text: the {name} of {decode_text(id)} is not a time"


def _find_version_problems(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    sql = _DAMAGED_VERSIONS.format(checked.in_namespace("m.namespace"))
    for id, version in connection.fetch(sql, checked.values):
        yield f"text: version {version} of {id} cannot be read"


_DAMAGED_VERSIONS = """
    select m.id, h.version
    from memory_history h join memories m on m.rid = h.rid
    where {} and not iif(
        json_valid(h.snapshot),
        coalesce(json_type(h.snapshot, '$.content') = 'text' and json_type(h.snapshot, '$.tags') = 'array'
            and json_type(h.snapshot, '$.metadata') = 'object' and json_type(h.snapshot, '$.updated_at') = 'integer'
            and json_type(h.snapshot, '$.title') in ('text', 'null'), false),
        false)
    order by h.rid, h.version
"""


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _has_hash(texts: dict[str, bytes | None], hash: object) -> bool:
    id, content = decode_text(texts["id"] or b""), decode_text(texts["content"] or b"")
    return hash in (content_hash(content), identity_hash(id, content))


def _name_row(table: str, key: int | None, texts: dict[str, bytes | None]) -> str:
    """Return how a user knows a row: a memory by its id, a chunk by its file as well."""
    id = decode_text(texts.get("id") or b"")
    if table != "memories":
        return f"{id or f'row {key}'} in {table}"
    if decode_text(texts["namespace"] or b"").endswith(CHUNK_SUFFIX):
        return f"{id}, a chunk of {decode_text(texts['source'] or b'')},"
    return id


def _find_tag_problems(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    sql = f"select id from memories where {checked.in_namespace()} and rid in ({_WRONG_TAGS})"
    for (id,) in connection.fetch(sql, checked.values):
        yield f"tags: the tags of {id} are not in their table"


# Of text that is not JSON, `json_each` would raise an error.
_TAGS = """
    select t.value as tag, m.rid
    from memories m, json_each(iif(json_valid(m.tags), m.tags, '[]')) t
"""
_WRONG_TAGS = f"""
    select rid from (select * from ({_TAGS}) except select tag, rid from memory_tags)
    union
    select rid from (select tag, rid from memory_tags except select * from ({_TAGS}))
"""


def _rebuild_tags(connection: SqliteConnection, checked: Checked) -> None:
    """Make the table again of the tags of each memory, once those that cannot be read are made again of the table."""
    stored = connection.execute(
        f"""
        select rid, json_valid(tags), cast(tags as blob) from memories
        where {checked.in_namespace()} and rid in ({_WRONG_TAGS})
        """,
        checked.values,
    )
    damaged = [(rid,) for rid, is_json, tags in stored if not is_json or not _is_utf8(tags)]
    connection.executemany(
        """
        update memories
        set tags = (select json_group_array(t.tag) from memory_tags t where t.rid = memories.rid)
        where rid = ? and rid in (select rid from memory_tags)
        """,
        damaged,
    )
    connection.execute(f"delete from memory_tags where {checked.of_memories()}", checked.values)
    sql = f"insert or ignore into memory_tags(tag, rid) {_TAGS} where {checked.in_namespace('m.namespace')}"
    connection.execute(sql, checked.values)


def _find_missing_blocks(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    if count := len(connection.fetch(_missing_blocks(checked), checked.values)):
        yield f"vectors: {count} packed blocks are missing"


def _missing_blocks(checked: Checked) -> str:
    return f"""
        select distinct m.namespace, v.model, v.rid >> 10 from vectors v join memories m on m.rid = v.rid
        where {checked.in_namespace("m.namespace")}
        except
        select namespace, model, block from vector_blocks
    """


def _add_missing_blocks(connection: SqliteConnection, checked: Checked) -> None:
    sql = f"insert into vector_blocks(namespace, model, block) {_missing_blocks(checked)}"
    connection.execute(sql, checked.values)


def _find_full_text_problems(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    for index in INDEXES:
        try:
            connection.execute(f"insert into {index}({index}, rank) values ('integrity-check', 1)")
        except (apsw.CorruptError, Conflict, apsw.SQLError) as exc:
            yield f"full text: {index} does not agree with the memories ({exc})"


def _rebuild_full_text(connection: SqliteConnection, checked: Checked) -> None:
    for index in INDEXES:
        connection.execute(f"insert into {index}({index}) values ('rebuild')")


def _find_vector_problems(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    for id, _, _, model in _find_damaged_vectors(connection, checked):
        yield f"vectors: a vector of {id} for the model {model} is damaged"


def _find_damaged_vectors(connection: SqliteConnection, checked: Checked) -> Iterator[tuple[str, int, int, str]]:
    """Yield the id and the key of each memory with a damaged vector, and the key and the name of its model."""
    rows = connection.execute(
        f"""
        select cast(m.id as blob), v.rid, v.model, cast(o.name as blob), v.vector, o.dimensions
        from (select rid, model, vector from vectors union all select rid, model, vector from part_vectors) v
        join models o on o.model = v.model
        join memories m on m.rid = v.rid
        where {checked.in_namespace("m.namespace")}
        """,
        checked.values,
    )
    for id, rid, model, name, blob, dimensions in rows:
        sound = isinstance(blob, bytes) and len(blob) == 2 * dimensions
        vector = np.frombuffer(blob, np.float16) if sound else None
        if vector is None or not abs(float(np.linalg.norm(vector.astype(np.float32))) - 1.0) < NORM_TOLERANCE:
            yield decode_text(id), rid, model, decode_text(name)


def _drop_damaged_vectors(connection: SqliteConnection, checked: Checked) -> None:
    damaged = [(rid, model) for _, rid, model, _ in _find_damaged_vectors(connection, checked)]
    connection.executemany("delete from vectors where rid = ? and model = ?", damaged)
    connection.executemany("insert or ignore into unembedded(rid) values (?)", [(rid,) for rid, _ in damaged])


def _find_block_problems(connection: SqliteConnection, checked: Checked) -> Iterator[str]:
    if count := len(list(_find_damaged_blocks(connection, checked))):
        yield f"vectors: {count} packed blocks do not agree with their rows"


def _find_damaged_blocks(connection: SqliteConnection, checked: Checked) -> Iterator[tuple[int, int, str]]:
    blocks = connection.execute(
        f"""
        select b.model, b.block, b.namespace, b.data, b.parts, o.dimensions
        from vector_blocks b join models o on o.model = b.model
        where b.data is not null and {checked.in_namespace("b.namespace")}
        """,
        checked.values,
    )
    for model, block, namespace, data, parts, dimensions in blocks:
        vector_rows = read_block_vectors(connection, namespace, model, [block])
        part_rows = read_block_parts(connection, namespace, model, [block])
        if not (_is_packed(data, vector_rows, dimensions) and _is_packed(parts or b"", part_rows, dimensions)):
            yield model, block, namespace


def _is_packed(data: bytes, rows: Sequence[tuple[int, bytes]], dimensions: int) -> bool:
    """Tell if a block agrees with its rows; a row of a wrong length is damaged itself, and found by another check."""
    sound = [(key, vector) for key, vector in rows if len(vector) == 2 * dimensions]
    try:
        keys, codes = unpack(data, dimensions)
    except ValueError:
        return False
    halves = np.frombuffer(b"".join(vector for _, vector in sound), np.float16).reshape(-1, dimensions)
    return keys.tolist() == [key for key, _ in sound] and np.array_equal(codes, encode(halves))


def _open_damaged_blocks(connection: SqliteConnection, checked: Checked) -> None:
    connection.executemany(
        "update vector_blocks set data = null where model = ? and block = ? and namespace = ?",
        list(_find_damaged_blocks(connection, checked)),
    )


_FindProblems = Callable[[SqliteConnection, Checked], Iterator[str]]
_Fix = Callable[[SqliteConnection, Checked], None]

_CHECKS: tuple[tuple[_FindProblems, _Fix | None], ...] = (  # and how each is repaired, where nothing can be lost
    (_find_file_problems, _reindex),
    (_find_missing, _make_missing),
    (_find_text_problems, None),
    (_find_time_problems, None),
    (_find_version_problems, None),
    (_find_tag_problems, _rebuild_tags),
    *derived.CHECKS,
    (_find_full_text_problems, _rebuild_full_text),
    (_find_vector_problems, _drop_damaged_vectors),
    (_find_missing_blocks, _add_missing_blocks),
    (_find_block_problems, _open_damaged_blocks),
)
