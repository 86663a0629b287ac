"""Statements about memories: supersession and other relations, salience, pins, and facts. Earlier values are kept."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import asdict

from memorist.errors import Hint, InvalidInput, NotFound
from memorist.ids import new_id, shorten_id
from memorist.records import SUPERSEDES, Decay, Fact, FactDraft, Memory, Related, Relation
from memorist.store.database import Connection
from memorist.store.filters import from_micros, is_unexpired, to_micros
from memorist.store.rows import (
    HAS_ID_PART,
    MIN_ID_LENGTH,
    KeyedMemory,
    StorePart,
    ambiguous_id,
    decode_json,
    load_memory,
    memories_table,
    memory_columns,
    read_memories,
    relation_holds,
    to_fact,
)
from memorist.store.sessions import link_memories, require_open_session
from memorist.text.tokenizer import unspaced_bigrams
from memorist.validation import MAX_FACTS


class LinkStore(StorePart):
    """Relations between the memories of one namespace."""

    def supersede(self, old: str, new: str, at: datetime | None, said_by: str | None, now: datetime) -> Memory:
        """
        Let one memory supersede another from a time on.

        Without `at` that is now or, if the new memory tells of something past, the time of that.
        """
        with self._pool.writing() as connection:
            before = self._require_memory(connection, old)
            supersede(connection, before, self._require_memory(connection, new), at, said_by, now)
            return load_memory(connection, before[0])

    def unsupersede(self, old: str, now: datetime) -> Memory:
        with self._pool.writing() as connection:
            rid, full_id = self._require_key(connection, old)
            if not unsupersede(connection, rid, to_micros(now)):
                raise InvalidInput(f"memory {shorten_id(full_id)} is not superseded; there is nothing to undo")
            return load_memory(connection, rid)

    def relate(
        self, source: str, target: str, kind: str, confidence: float, said_by: str | None, now: datetime
    ) -> Relation:
        """Relate two memories; if they are related so already, the new confidence holds from now on."""
        with self._pool.writing() as connection:
            one, first = self._require_key(connection, source)
            other, second = self._require_key(connection, target)
            if one == other:
                raise InvalidInput(f"memory {shorten_id(first)} cannot be related to itself")
            connection.execute(_END_RELATION, (to_micros(now), one, other, kind))
            connection.execute(_INSERT_RELATION, (one, other, kind, confidence, said_by, to_micros(now)))
            return Relation(first, second, kind, confidence, said_by, now)

    def unrelate(self, source: str, target: str, kind: str, now: datetime) -> None:
        with self._pool.writing() as connection:
            one, first = self._require_key(connection, source)
            other, second = self._require_key(connection, target)
            connection.execute(_END_RELATION, (to_micros(now), one, other, kind))
            if not connection.changes():
                link = f"{shorten_id(first)} {kind} {shorten_id(second)}"
                raise NotFound(f"there is no relation {link}; there is nothing to take back")

    def list_related(self, id: str, limit: int, as_of: datetime | None) -> list[Related]:
        """Return live memories related to one, each once, the most certain first; superseded ones are left out."""
        past = as_of is not None
        with self._pool.reading() as connection:
            rid, full_id = self._require_key(connection, id)
            moment = None if as_of is None else to_micros(as_of)
            rows = connection.fetch(
                f"""
                select r.relations, {memory_columns(past=past)}
                from (
                    select r.other, max(r.confidence) as confidence, max(r.relation) as latest,
                        @list(@array(
                            r.confidence, r.relation, r.kind, r.said_by, r.valid_from, r.valid_until,
                            r.source = :rid)) as relations
                    from (
                        select *, target as other from relations where source = :rid
                        union all
                        select *, source as other from relations where target = :rid) r
                    where r.kind <> '{SUPERSEDES}' and {relation_holds("r", past)}
                    group by r.other) r
                @then {memories_table(past=past)} on m.rid = r.other
                where m.deleted_at is null and m.valid_until is null and {is_unexpired("m", past=past)}
                order by r.confidence desc, r.latest desc
                limit :limit
                """,
                {"rid": rid, "limit": limit, "as_of": moment},
            )
            memories = read_memories(connection, [row[1:] for row in rows], moment)
        return [_to_related(full_id, row[0], memory) for row, memory in zip(rows, memories, strict=True)]

    def count_within(self, ids: Sequence[str], project: str, as_of: datetime | None) -> dict[str, int]:
        """Count the links of memories with live ones of a project, as `related_count` does with all."""
        past = as_of is not None
        link = f"""
            select a.id, r.{{other}} as other, r.kind
            from memories a @then relations r on r.{{own}} = a.rid
            where a.namespace = :namespace and a.id in @texts(:ids) and {relation_holds("r", past)}
        """
        sql = f"""
            select l.id, count(*)
            from ({link.format(own="source", other="target")} union all
                {link.format(own="target", other="source")}) l
            @then {memories_table(past=past)} on m.rid = l.other
            where m.project = :project and m.deleted_at is null
              and (l.kind = '{SUPERSEDES}' or m.valid_until is null) and {is_unexpired("m", past=past)}
            group by l.id
        """
        values = {"namespace": self.namespace, "ids": json.dumps(ids), "project": project}
        with self._pool.reading() as connection:
            return dict(connection.fetch(sql, values | {"as_of": to_micros(as_of) if as_of else None}))

    def list_superseded(self, id: str) -> list[Memory]:
        """Return the live memories that this one supersedes directly."""
        with self._pool.reading() as connection:
            rid, _ = self._require_key(connection, id)
            rows = connection.fetch(
                f"""
                select {memory_columns()}
                from relations r
                @then memories m on m.rid = r.target
                where r.source = ? and r.kind = '{SUPERSEDES}' and r.valid_until is null and m.deleted_at is null
                  and {is_unexpired("m")}
                order by r.relation
                """,
                (rid,),
            )
            return read_memories(connection, rows)


def supersede(
    connection: Connection,
    old: KeyedMemory,
    new: KeyedMemory,
    at: datetime | None,
    said_by: str | None,
    now: datetime,
) -> None:
    """Let one memory supersede another; nothing happens if it does so already."""
    (old_key, before), (new_key, after) = old, new
    if old_key == new_key:
        raise InvalidInput(f"memory {before.short_id} cannot supersede itself")
    successor = connection.fetch_value(f"select id, rid from memories where rid = ({_SUCCESSOR})", (old_key,))
    if successor is not None and successor[1] == new_key:
        return
    if successor is not None:
        raise InvalidInput(
            f"memory {before.short_id} is superseded already, by {shorten_id(successor[0])}; "
            "supersede that one, or undo it first",
            hint=Hint("unsupersede", before.short_id),
        )
    if is_superseded_by(connection, new_key, old_key):
        raise InvalidInput(
            f"memory {before.short_id} itself supersedes {after.short_id}: it cannot be superseded by it"
        )
    undone = connection.fetch_value(_LAST_UNDONE, {"old": old_key, "new": new_key})
    earliest = None if undone is None else from_micros(undone)
    since = to_micros(_valid_from(before, after, at, now, earliest))
    connection.execute(_INSERT_RELATION, (new_key, old_key, SUPERSEDES, 1.0, said_by, since))


def is_superseded_by(connection: Connection, key: int, other: int) -> bool:
    """Tell if a memory is superseded by another one, directly or through others, or is that one."""
    return bool(connection.fetch_value(_IS_SUPERSEDED_BY, {"from": key, "to": other}))


def unsupersede(connection: Connection, rid: int, now: int) -> bool:
    """Let a memory hold again from now on; return False if it was not superseded."""
    connection.execute(
        f"update relations set valid_until = ? where target = ? and kind = '{SUPERSEDES}' and valid_until is null",
        (now, rid),
    )
    return bool(connection.changes())


_INSERT_RELATION = """
    insert into relations(source, target, kind, confidence, said_by, valid_from)
    values (?, ?, ?, ?, ?, ?)
"""
_END_RELATION = """
    update relations
    set valid_until = ?
    where source = ? and target = ? and kind = ? and valid_until is null
"""
_SUCCESSOR = f"select source from relations where target = ? and kind = '{SUPERSEDES}' and valid_until is null"
# The last time at which a supersession was undone among all memories that ever superseded one another, with these two
# among them. A new one from before that time could make a circle.
_LAST_UNDONE = f"""
    with recursive family(rid) as (
        select cast(:old as bigint)
        union
        select cast(:new as bigint)
        union
        select case when r.source = f.rid then r.target else r.source end
        from family f @then relations r on r.source = f.rid or r.target = f.rid
        where r.kind = '{SUPERSEDES}')
    select max(r.valid_until)
    from family f @then relations r @hint(relations_by_target) on r.target = f.rid
    where r.kind = '{SUPERSEDES}'
"""
_IS_SUPERSEDED_BY = f"""
    with recursive later(rid) as (
        select cast(:from as bigint)
        union
        select r.source
        from later l @then relations r @hint(relations_by_target) on r.target = l.rid
        where r.kind = '{SUPERSEDES}' and r.valid_until is null)
    select 1 from later where rid = :to
"""


def _valid_from(before: Memory, after: Memory, at: datetime | None, now: datetime, undone: datetime | None) -> datetime:
    """Return the time from which a memory supersedes another."""
    began = min(before.created_at, before.recorded_at)
    if at is not None:
        if at > now:
            raise InvalidInput(f"{at:%Y-%m-%d %H:%M} UTC is in the future; give a time up to now")
        if at < began:
            raise InvalidInput(
                f"memory {before.short_id} began on {began:%Y-%m-%d %H:%M} UTC; it cannot have ended before that"
            )
        if undone is not None and at < undone:
            raise InvalidInput(
                f"until {undone:%Y-%m-%d %H:%M:%S} UTC another supersession held among these memories; "
                "give a time after that"
            )
        return at
    past = after.created_at < after.recorded_at and after.created_at >= max(began, undone or began)
    return after.created_at if past else now


def _to_related(id: str, links: str, memory: Memory) -> Related:
    relations = []
    surest_first = sorted(json.loads(links), key=lambda relation: relation[:2], reverse=True)
    for confidence, _, kind, said_by, valid_from, valid_until, outward in surest_first:
        source, target = (id, memory.id) if outward else (memory.id, id)
        ends = None if valid_until is None else from_micros(valid_until)
        relations.append(Relation(source, target, kind, confidence, said_by, from_micros(valid_from), ends))
    return Related(memory, relations[0], further_relations=tuple(relations[1:]))


_DAY = 86_400e6  # microseconds
MAX_STRENGTH_CHANGES = 100  # of one memory that are kept: a search may record another each time
MAX_FACT_CHANGES = 100  # of one fact that are kept: a program may confirm it every minute
_FACT_FIELDS = ("kind", "subject", "predicate", "object", "confidence", "decay_rate")
_INSERT_FACT = f"""
    insert into facts(id, rid, text, {", ".join(_FACT_FIELDS)}, created_at, reinforced_at)
    values (:id, :rid, :text, {", ".join(f":{name}" for name in _FACT_FIELDS)}, :now, :reinforced_at)
"""
_RATE = "coalesce(cast(@json(:rates) ->> sector as double precision), 0)"
_KEYS = "rid in @keys(:keys)"
_FACT_COLUMNS = ", ".join(f"f.{name}" for name in ("id", "text", *_FACT_FIELDS, "created_at", "reinforced_at"))


class StrengthStore(StorePart):
    """The strength of the memories of one namespace."""

    def adjust_salience(self, id: str, share: float, now: datetime, decay: Decay, session: str | None) -> Memory:
        """
        Move salience a share of the way up to 1 or, with a negative share, down to 0.

        A reinforced memory is reinforced with its facts: the confidence each has left is raised in the same way.
        """
        stamp = to_micros(now)
        with self._pool.writing() as connection:
            rid, _ = self._require_key(connection, id)
            adjust_salience(connection, [rid], share, stamp, decay.sectors)
            if share > 0:
                for key, fact in self._load_facts(connection, "f.rid = :rid", {"rid": rid}):
                    self._raise_confidence(connection, key, fact, share, now, decay.facts)
            if session is not None:
                sid = require_open_session(connection, self.namespace, session)
                link_memories(connection, sid, [rid], "reinforced", stamp)
            return load_memory(connection, rid)

    def set_pinned(self, id: str, pinned: bool, now: datetime) -> Memory:
        with self._pool.writing() as connection:
            rid, memory = self._require_memory(connection, id)
            set_pinned(connection, rid, memory, pinned, to_micros(now))
            return load_memory(connection, rid)

    def add_fact(self, id: str, draft: FactDraft, now: datetime) -> Fact:
        """Add a fact to a memory; one with the same text is changed to what is said of it now."""
        with self._pool.writing() as connection:
            rid, _ = self._require_key(connection, id)
            add_facts(connection, rid, [draft], to_micros(now))
            text = {"rid": rid, "text": draft.text}
            ((_, fact),) = self._load_facts(connection, "f.rid = :rid and f.text = :text", text)
            return fact

    def reinforce_fact(self, id: str, share: float, now: datetime, rates: Mapping[str, float]) -> Fact:
        with self._pool.writing() as connection:
            key, fact = self._require_fact(connection, id)
            self._raise_confidence(connection, key, fact, share, now, rates)
            return self._require_fact(connection, fact.id)[1]

    def remove_fact(self, id: str) -> Fact:
        with self._pool.writing() as connection:
            key, fact = self._require_fact(connection, id)
            rid = connection.fetch_value("delete from facts where fact = ? returning rid", (key,))
            index_facts(connection, rid)
            return fact

    def _require_fact(self, connection: Connection, id: str) -> tuple[int, Fact]:
        """Return the key and the fact with an id, or with a unique beginning or ending of one."""
        found = self._load_facts(connection, "f.id = :id", {"id": id})
        if not found and len(id) >= MIN_ID_LENGTH:
            found = self._load_facts(connection, HAS_ID_PART.format("f.id"), {"id": id})
        if len(found) > 1:
            raise ambiguous_id(id, [fact.id for _, fact in found])
        if not found:
            raise NotFound(f"no fact has the id {id!r}", hint=Hint("list_facts"))
        return found[0]

    def _load_facts(self, connection: Connection, where: str, values: Mapping[str, Any]) -> list[tuple[int, Fact]]:
        rows = connection.fetch(
            f"""
            select f.fact, m.id, {_FACT_COLUMNS}
            from facts f
            @then memories m on m.rid = f.rid
            where {where} and m.namespace = :namespace and m.deleted_at is null and {is_unexpired("m")}
            order by f.fact
            """,
            {**values, "namespace": self.namespace},
        )
        return [(key, to_fact(memory, columns)) for key, memory, *columns in rows]

    def _raise_confidence(
        self, connection: Connection, key: int, fact: Fact, share: float, now: datetime, rates: Mapping[str, float]
    ) -> None:
        """Raise the confidence that decay has left by a share; it decays from now on."""
        left = fact.confidence_at(now, rates)
        _change_fact(connection, key, {"confidence": min(1.0, left + share * (1 - left))}, to_micros(now))


def adjust_salience(
    connection: Connection, keys: Sequence[int], share: float, now: int, rates: Mapping[str, float]
) -> None:
    """Raise or lower the salience that decay has left by a share; it decays from now on."""
    save_strength(connection, keys, now)
    left = f"salience * exp(-@later(0, :now - reinforced_at) / {_DAY} * {_RATE})" if rates else "salience"
    target = f"{left} + :share * (1 - {left})" if share >= 0 else f"{left} * (1 + :share)"
    values: dict[str, float | str] = {"share": share, "now": now, "keys": json.dumps(keys)}
    if rates:
        values["rates"] = json.dumps(dict(rates))
    connection.execute(f"update memories set salience = {target}, reinforced_at = :now where {_KEYS}", values)


def save_strength(connection: Connection, keys: Sequence[int], now: int) -> None:
    """Save the salience and pins that are about to change, for searches as of an earlier time; the latest are kept."""
    connection.execute(
        f"""
        insert into strength_history(rid, replaced_at, salience, reinforced_at, pinned)
        select rid, :now, salience, reinforced_at, pinned from memories where {_KEYS}
        """,
        {"now": now, "keys": json.dumps(keys)},
    )
    _drop_older(connection, "strength_history", "rid", keys, MAX_STRENGTH_CHANGES)


def _drop_older(connection: Connection, history: str, owner: str, keys: Sequence[int], kept: int) -> None:
    """Delete all but the latest changes of each memory or fact."""
    connection.executemany(
        f"""
        delete from {history} where change in (
            select change from {history} where {owner} = :key
            order by replaced_at desc, change desc limit 1000000000 offset :kept)
        """,
        ({"key": key, "kept": kept} for key in keys),
    )


def set_pinned(connection: Connection, rid: int, memory: Memory, pinned: bool, now: int) -> None:
    if memory.pinned != pinned:
        save_strength(connection, [rid], now)
        connection.execute("update memories set pinned = ? where rid = ?", (int(pinned), rid))


def add_facts(
    connection: Connection, rid: int, drafts: Sequence[FactDraft], now: int, *, indexed: bool = False
) -> None:
    """Add facts to a memory. `indexed` says that the memory was inserted with their texts already."""
    added = 0
    for draft in drafts:
        known = connection.fetch_value("select fact from facts where rid = ? and text = ?", (rid, draft.text))
        if known is not None:
            changes = {name: field for name in _FACT_FIELDS if (field := getattr(draft, name)) is not None}
            if draft.reinforced_at is not None:
                changes["reinforced_at"] = to_micros(draft.reinforced_at)
            if changes:
                _change_fact(connection, known, changes, now)
            continue
        values = asdict(draft) | {
            "rid": rid,
            "now": now,
            "reinforced_at": now if draft.reinforced_at is None else to_micros(draft.reinforced_at),
        }
        connection.execute(_INSERT_FACT, values | {"confidence": 1.0 if draft.confidence is None else draft.confidence})
        added += 1
    if added and not indexed:
        count = connection.fetch_value("select count(*) from facts where rid = ?", (rid,))
        if count > MAX_FACTS:
            id = connection.fetch_value("select id from memories where rid = ?", (rid,))
            raise InvalidInput(
                f"memory {shorten_id(id)} has {count - added:,} facts already, and at most {MAX_FACTS:,} fit: remove "
                "some, or add these to another memory"
            )
        index_facts(connection, rid)


def copy_facts(connection: Connection, rid: int, facts: Sequence[Fact], now: int) -> None:
    """Add facts of another memory that this one lacks, as many as fit, with the confidence they have."""
    known = {text for (text,) in connection.fetch("select text from facts where rid = ?", (rid,))}
    lacking = [fact for fact in facts if fact.text not in known]
    for fact in lacking[: max(0, MAX_FACTS - len(known))]:
        values = {name: getattr(fact, name) for name in ("text", *_FACT_FIELDS)}
        values |= {"id": new_id(), "rid": rid, "now": now, "reinforced_at": to_micros(fact.reinforced_at)}
        connection.execute(_INSERT_FACT, values)


def index_facts(connection: Connection, rid: int) -> None:
    """Put the facts of a memory into the full-text index."""
    texts = [text for (text,) in connection.fetch("select text from facts where rid = ? order by fact", (rid,))]
    title, content, tags = connection.fetch_value("select title, content, tags from memories where rid = ?", (rid,))
    connection.execute(
        "update memories set facts = ?, segments = ? where rid = ?",
        ("\n".join(texts) or None, unspaced_bigrams(title, content, *decode_json(tags, []), *texts), rid),
    )


def _change_fact(connection: Connection, key: int, changes: Mapping[str, Any], now: int) -> None:
    """
    Save the values a fact had, of which the latest are kept, and change it.

    A new confidence decays from now on, unless the changes name another time.
    """
    saved = f"{', '.join(_FACT_FIELDS)}, reinforced_at"
    connection.execute(
        f"insert into fact_history(fact, replaced_at, {saved}) select fact, :now, {saved} from facts where fact = :key",
        {"now": now, "key": key},
    )
    _drop_older(connection, "fact_history", "fact", [key], MAX_FACT_CHANGES)
    if "confidence" in changes:
        changes = {"reinforced_at": now, **changes}
    settings = ", ".join(f"{name} = :{name}" for name in changes)
    connection.execute(f"update facts set {settings} where fact = :key", {**changes, "key": key})
