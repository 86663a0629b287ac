"""The columns of memories, as they are now or were at a time, the records made of them, and memories found by id."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from memorist.arguments import Filter
from memorist.errors import Ambiguous, Hint, NotFound
from memorist.nesting import MAX_LEVELS, cut_levels
from memorist.records import SUPERSEDES, Fact, Memory, SessionRef, Successor
from memorist.store.database import Connection, Database
from memorist.store.filters import (
    ACCESS_AS_OF,
    EXISTED,
    STRENGTH_AS_OF,
    VALID_UNTIL_AS_OF,
    filter_conditions,
    from_micros,
    is_unexpired,
)

KeyedMemory = tuple[int, Memory]

_SUCCESSOR_CHARACTERS = 200  # shown of the memory that superseded another


def readable_snapshot(history: str) -> str:
    """Return the snapshot of a version, empty if it is damaged: of text that is not JSON, SQL reads nothing at all."""
    return f"@json(case when @valid({history}.snapshot) then {history}.snapshot else '{{}}' end)"


# Every memory as it was at `:as_of`, with the text of the first version replaced after it, if any.
_VERSIONED = ("project", "kind", "source", "title", "summary")
SNAPSHOT = readable_snapshot("h")
# What every memory has, and what stands for it where a version is damaged.
_REQUIRED = {
    "content": ("->>", "text", "'\ufffd'"),
    "sector": ("->>", "text", "m.sector"),
    "tier": ("->>", "text", "m.tier"),
    "tags": ("->", "text", "'[]'"),
    "metadata": ("->", "text", "'{}'"),
    "updated_at": ("->>", "bigint", "m.updated_at"),
}
_REQUIRED_COLUMNS = ", ".join(
    f"""
        case when h.rid is null then m.{name}
        else coalesce(cast({SNAPSHOT} {operator} '{name}' as {type}), {missing}) end as {name}"""
    for name, (operator, type, missing) in _REQUIRED.items()
)
_VERSIONED_COLUMNS = ", ".join(
    f"case when h.rid is null then m.{name} else {SNAPSHOT} ->> '{name}' end as {name}" for name in _VERSIONED
)
MEMORIES_AS_OF = f"""(
    select m.rid, m.id, m.namespace, m.created_at, m.recorded_at, m.deleted_at,
        ({ACCESS_AS_OF.format("count(*)")}) as access_count, ({ACCESS_AS_OF.format("max(r.at)")}) as accessed_at,
        {_VERSIONED_COLUMNS},
        {_REQUIRED_COLUMNS},
        case when h.rid is null then m.expires_at else cast({SNAPSHOT} ->> 'expires_at' as bigint) end as expires_at,
        {", ".join(f"{STRENGTH_AS_OF.format(name)} as {name}" for name in ("salience", "reinforced_at", "pinned"))},
        {VALID_UNTIL_AS_OF} as valid_until,
        h.version,
        h.rid is not null and (
            {SNAPSHOT} ->> 'content' is distinct from m.content
            or {SNAPSHOT} ->> 'title' is distinct from m.title) as reworded
    from memories m
    left join memory_history h on h.rid = m.rid
        and h.version = (select min(version) from memory_history where rid = m.rid and replaced_at > :as_of)
    where {EXISTED}
) m"""
# Of those, the ones whose text, tags or facts have changed since: the indexes and the vector scan hold the present.
MEMORIES_CHANGED_SINCE = f"""(
    select distinct rid from (
        select rid from memory_history @hint(memory_history_by_time) where replaced_at > :as_of
        union all
        select rid from facts @hint(facts_by_time) where created_at > :as_of) e) c
    @then {MEMORIES_AS_OF} on m.rid = c.rid
"""

_COLUMNS = (
    "id", "content", "namespace", "project", "sector", "tier", "kind", "tags", "salience", "source", "title", "summary",
    "metadata", "created_at", "updated_at", "reinforced_at", "recorded_at", "deleted_at", "expires_at", "pinned",
    "valid_until", "access_count", "accessed_at",
)  # fmt: skip


def memories_table(*, past: bool) -> str:
    """Return the table of memories `m`, as they are or as they were at `:as_of`."""
    return MEMORIES_AS_OF if past else "memories m"


@cache
def memory_columns(*, past: bool = False) -> str:
    """Return the columns of a memory `m`, for `read_memories`."""
    return f"""
        {", ".join(f"m.{name}" for name in _COLUMNS)},
        ({select_facts(past)}), ({_SESSION}), case when m.valid_until is not null then m.rid end,
        ({_count_related(past)})
    """


def select_facts(past: bool) -> str:
    """Return the query for the facts of a memory `m`, for `decode_facts`."""
    names = ("kind", "subject", "predicate", "object", "confidence", "decay_rate", "reinforced_at")
    now = {name: f"f.{name}" for name in names}
    if not past:
        return _FACTS.format(source="(select * from facts where rid = m.rid order by fact) f", **now)
    source = """
        (select * from facts where rid = m.rid and created_at <= :as_of order by fact) f
        left join fact_history h on h.change = (
            select change from fact_history
            where fact = f.fact and replaced_at > :as_of order by replaced_at, change limit 1)
    """
    then = {name: f"case when h.change is null then f.{name} else h.{name} end" for name in names}
    return _FACTS.format(source=source, **then)


_FACTS = """
    select @list(@array(
        f.id, f.text, {kind}, {subject}, {predicate}, {object}, {confidence}, {decay_rate}, f.created_at,
        {reinforced_at}))
    from {source}
"""
ORIGIN = """
    select {}
    from session_memories u
    join sessions s on s.sid = u.sid
    where u.rid = m.rid and u.usage = 'created' and s.deleted_at is null
    order by u.at
    limit 1
"""
_SESSION = ORIGIN.format("@array(s.id, s.started_at, s.summary, s.project)")


def relation_holds(relation: str, past: bool) -> str:
    """Return the condition that a relation holds, or held at `:as_of`."""
    if not past:
        return f"{relation}.valid_until is null"
    return f"{relation}.valid_from <= :as_of and ({relation}.valid_until is null or {relation}.valid_until > :as_of)"


def _find_successors(connection: Connection, keys: Sequence[int], as_of: int | None) -> dict[int, Successor]:
    """
    Return the last live memory of those that superseded one another, for each of some superseded memories.

    The links of all of them are read at once: memories of one chain would otherwise each walk to its end.
    """
    past = as_of is not None
    rows = connection.fetch(
        f"""
        with recursive links(target, source) as (
            select r.target, r.source
            from @keys(:keys) k @then relations r @hint(relations_by_target) on r.target = k.value
            where r.kind = '{SUPERSEDES}' and {relation_holds("r", past)}
            union
            select r.target, r.source
            from links l @then relations r @hint(relations_by_target) on r.target = l.source
            where r.kind = '{SUPERSEDES}' and {relation_holds("r", past)})
        select l.target, l.source, n.deleted_at is null and {is_unexpired("n", past=past)}
        from links l join memories n on n.rid = l.source
        """,
        {"keys": json.dumps(list(keys)), "as_of": as_of},
    )
    last = _follow_links({target: source for target, source, _ in rows}, {source for _, source, live in rows if live})
    found = {key: last[key] for key in keys if last.get(key) is not None}
    content, project, version = "n.content", "n.project", ""
    if past:
        content = f"coalesce({SNAPSHOT} ->> 'content', n.content)"
        project = f"case when h.rid is null then n.project else {SNAPSHOT} ->> 'project' end"
        version = """left join memory_history h on h.rid = n.rid
            and h.version = (select min(version) from memory_history where rid = n.rid and replaced_at > :as_of)"""
    columns = connection.fetch(
        f"""
        select n.rid, n.id, substr({content}, 1, {_SUCCESSOR_CHARACTERS}), n.created_at, {project}
        from memories n {version}
        where n.rid in @keys(:keys)
        """,
        {"keys": json.dumps([*{*found.values()}]), "as_of": as_of},
    )
    successors = {rid: Successor(id, text, from_micros(at), project) for rid, id, text, at, project in columns}
    return {key: successors[rid] for key, rid in found.items() if rid in successors}


def _follow_links(links: Mapping[int, int], live: Collection[int]) -> dict[int, int | None]:
    """Return for each key the last one of `live` that its links lead to, walking along each link once."""
    last: dict[int, int | None] = {}
    for start in links:
        path: dict[int, None] = {}
        key = start
        while key in links and key not in last and key not in path:  # damaged ones may form a circle
            path[key] = None
            key = links[key]
        end = last.get(key)
        for key in reversed(path):
            if end is None and links[key] in live:
                end = links[key]
            last[key] = end
    return last


def _count_related(past: bool) -> str:
    """
    Return the query for the number of its links with live memories.

    A memory that is superseded counts only for those that it supersedes or that supersede it.
    """
    valid = "o.valid_until is null"
    if past:
        valid = f"""not exists (
            select 1 from relations s
            where s.target = o.rid and s.kind = '{SUPERSEDES}' and {relation_holds("s", past)})"""
    return f"""
        select count(*)
        from (
            select r.target as other, r.kind from relations r
            where r.source = m.rid and {relation_holds("r", past)}
            union all
            select r.source, r.kind from relations r
            where r.target = m.rid and {relation_holds("r", past)}) l
        join memories o on o.rid = l.other
        where o.deleted_at is null and {is_unexpired("o", past=past)} and (l.kind = '{SUPERSEDES}' or {valid})
    """


def read_passing(
    connection: Connection,
    namespace: str,
    keys: Sequence[int],
    filter: Filter,
    columns: str,
    values: Mapping[str, Any] | None = None,
) -> list[tuple[Any, ...]]:
    """Return the keys and columns of those live memories `m` of some that pass a filter now."""
    past = filter.as_of is not None
    where, own = filter_conditions(filter, past=past)
    sql = f"""
        select m.rid, {columns}
        from {memories_table(past=past)}
        where m.rid in @keys(:keys) and @plain(m.namespace) = :namespace and m.deleted_at is null
          and {is_unexpired("m", past=past)} {where}
    """
    return connection.fetch(sql, {**own, **(values or {}), "keys": json.dumps(list(keys)), "namespace": namespace})


def load_memory(connection: Connection, rid: int) -> Memory:
    """Return the memory with a key."""
    (memory,) = read_memories(connection, connection.fetch(_SELECT_BY_KEY.format(memory_columns()), (rid,)))
    return memory


_SELECT_BY_KEY = "select {} from memories m where m.rid = ?"


def read_memories(connection: Connection, rows: Sequence[Sequence[Any]], as_of: int | None = None) -> list[Memory]:
    """Make memories of their columns, each superseded one with the memory that stands for it now or did at a time."""
    keys = [key for row in rows if (key := row[-2]) is not None]
    successors = _find_successors(connection, keys, as_of) if keys else {}
    return [_to_memory(row, successors) for row in rows]


def read_keyed(connection: Connection, rows: Sequence[Sequence[Any]], as_of: int | None = None) -> list[KeyedMemory]:
    """Make memories of columns that follow a number, such as the key, and return each with it."""
    memories = read_memories(connection, [row[1:] for row in rows], as_of)
    return [(row[0], memory) for row, memory in zip(rows, memories, strict=True)]


def _to_memory(columns: Sequence[Any], successors: Mapping[int, Successor]) -> Memory:
    *own, facts, session, superseded, related_count = columns
    values = dict(zip(_COLUMNS, own, strict=True))
    for name, decode in _DECODERS.items():
        if values[name] is not None:
            values[name] = decode(values[name])
    return Memory(
        **values,
        facts=decode_facts(values["id"], facts),
        session=None if session is None else _decode_session(session),
        superseded_by=successors.get(superseded),
        related_count=related_count,
    )


@lru_cache(1000)
def decode_tags(tags: str) -> tuple[str, ...]:
    """Return the tags of a memory as they are stored."""
    return tuple(decode_json(tags, [])) if tags != "[]" else ()


def _decode_metadata(metadata: str) -> dict[str, Any]:
    return dict(decode_json(metadata, {}))


def decode_json(text: str, empty: Any, levels: int = MAX_LEVELS) -> Any:
    """Return what a text says in JSON, to a depth; nothing where it is damaged, which a check reports."""
    try:
        found = json.loads(cut_levels(text, levels))
    except ValueError:
        return empty
    return found if isinstance(found, type(empty)) else empty


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "tags": decode_tags,
    "metadata": _decode_metadata,
    "pinned": bool,
    **dict.fromkeys([name for name in _COLUMNS if name.endswith("_at") or name == "valid_until"], from_micros),
}


def decode_facts(memory_id: str, facts: str) -> tuple[Fact, ...]:
    """Return the facts of a memory that `select_facts` has selected."""
    if facts == "[]":
        return ()
    return tuple(to_fact(memory_id, columns) for columns in json.loads(facts))


def to_fact(memory_id: str, columns: Sequence[Any]) -> Fact:
    """Make a fact of its columns."""
    id, text, kind, subject, predicate, object, confidence, decay_rate, created_at, reinforced_at = columns
    return Fact(
        id, memory_id, text, kind, subject, predicate, object, confidence, decay_rate, from_micros(created_at),
        from_micros(reinforced_at),
    )  # fmt: skip


@lru_cache(1000)
def _decode_session(session: str) -> SessionRef:
    id, started_at, summary, project = json.loads(session)
    return SessionRef(id, from_micros(started_at), summary, project)


MIN_ID_LENGTH = 6  # characters that name anything by a part of its id
# Only an id in the form of a UUID can be named by a part of it: that of another program means what it says.
_UUID_PART = re.compile(rf"[0-9a-f-]{{{MIN_ID_LENGTH},36}}")
_IS_UUID = "m.id like '________-____-____-____-____________'"

# True of an id that begins or ends with `:id`. Of memories there are many: they are found by indexes instead.
_ENDS_WITH = "substr({0}, length({0}) - length(:id) + 1) = :id"
HAS_ID_PART = f"(substr({{0}}, 1, length(:id)) = :id or {_ENDS_WITH})"
_KEYS_BY_ENDING = f"""
    select e.rid from memories e @hint(memories_by_ending)
    where e.namespace = :namespace and @ending(e.id) = :ending and {_ENDS_WITH.format("e.id")}"""


def ambiguous_id(part: str, ids: Sequence[str]) -> Ambiguous:
    return Ambiguous(f"{part!r} could be {', '.join(ids[:5])}; give more characters of the id")


class StorePart:
    """
    A part of the store, for one namespace, that finds memories by id.

    `deleted=None` finds live and forgotten ones; `as_of` is in microseconds.
    """

    def __init__(self, pool: Database, namespace: str) -> None:
        self._pool, self.namespace = pool, namespace

    def _require_memory(self, connection: Connection, id: str, *, deleted: bool | None = False) -> KeyedMemory:
        """Return a memory and its key; a NotFound says if it was forgotten."""
        return read_keyed(connection, [self._require_row(connection, id, memory_columns(), deleted)])[0]

    def _require_key(self, connection: Connection, id: str, *, deleted: bool | None = False) -> tuple[int, str]:
        """Return the key and the whole id of a memory without reading the rest; NotFound as `_require_memory`."""
        rid, full_id = self._require_row(connection, id, "m.id", deleted)
        return rid, full_id

    def _require_row(self, connection: Connection, id: str, columns: str, deleted: bool | None) -> Sequence[Any]:
        found = self._find_row(connection, id, columns, deleted=deleted)
        if found:
            return found
        if deleted is not None and self._find_row(connection, id, "m.id", deleted=not deleted):
            if deleted:
                raise NotFound(f"memory {id} is not forgotten")
            raise NotFound(f"memory {id} was forgotten; restore it first", hint=Hint("restore_memory", id))
        if len(id) < MIN_ID_LENGTH:
            raise NotFound(f"{id!r} is too short: give at least {MIN_ID_LENGTH} characters of an id")
        raise NotFound(f"no memory has the id {id!r}", hint=Hint("list_memories"))

    def _find_memory(
        self,
        connection: Connection,
        id: str,
        *,
        deleted: bool | None = False,
        as_of: int | None = None,
        project: str | None = None,
    ) -> KeyedMemory | None:
        """Return a memory and its key; with a `project`, ids of others are as good as none."""
        columns = memory_columns(past=as_of is not None)
        found = self._find_row(connection, id, columns, deleted=deleted, as_of=as_of, project=project)
        return None if found is None else read_keyed(connection, [found], as_of)[0]

    def _find_row(
        self,
        connection: Connection,
        id: str,
        columns: str,
        *,
        deleted: bool | None = False,
        as_of: int | None = None,
        project: str | None = None,
    ) -> Sequence[Any] | None:
        """Return the key and columns, of which the first is the id, of the memory that an id or a part of it names."""
        state = {None: "", False: "and m.deleted_at is null", True: "and m.deleted_at is not null"}[deleted]
        state += f" and {is_unexpired('m', past=as_of is not None)}"
        if project is not None:
            state += " and m.project = :project"
        source = f"""
            select m.rid, {columns}
            from {memories_table(past=as_of is not None)}
        """
        select = f"{source} where m.namespace = :namespace {state}"
        values: dict[str, Any] = {"namespace": self.namespace, "id": id, "end": id + "\U0010ffff", "as_of": as_of}
        values |= {"project": project, "ending": id[-MIN_ID_LENGTH:]}
        rows = connection.fetch(f"{select} and m.id = :id", values)
        # A whole id stands for no other memory, even if the one that has it is forgotten or did not exist yet.
        if not rows and _UUID_PART.fullmatch(id) and not is_whole_id(connection, values):
            rows = connection.fetch(
                f"""
                {select} and m.id >= :id and m.id < :end and {_IS_UUID}
                union all
                {source} where m.rid in ({_KEYS_BY_ENDING}) and @plain(m.namespace) = :namespace {state} and {_IS_UUID}
                limit 10
                """,
                values,
            )
            rows = list({row[0]: row for row in rows}.values())  # one may begin and end with it
        if len(rows) > 1:
            raise ambiguous_id(id, [row[1] for row in rows])
        return rows[0] if rows else None


def is_whole_id(connection: Connection, values: Mapping[str, Any]) -> bool:
    """Return whether a memory, live or forgotten, has exactly this id; of a project, if one is given."""
    sql = """
        select 1 from memories
        where namespace = :namespace and id = :id and (cast(:project as text) is null or project = :project)
    """
    return bool(connection.fetch(sql, values))
