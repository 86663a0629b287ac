"""Salience, pins, and facts with their confidence. Their earlier values are kept."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw

from memorist.errors import Hint, NotFound
from memorist.records import Decay, Fact, FactDraft, Memory, new_id
from memorist.store.sqlite.connections import ConnectionPool, fetch, fetch_value
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.rows import HAS_ID_PART, MIN_ID_LENGTH, MemoryIds, ambiguous_id, to_fact
from memorist.store.sqlite.sessions import link_memories, require_open_session
from memorist.text.tokenizer import unspaced_bigrams

_DAY = 86_400e6  # microseconds
_FACT_FIELDS = ("kind", "subject", "predicate", "object", "confidence", "decay_rate")
_INSERT_FACT = f"""
    insert into facts(id, rid, text, {", ".join(_FACT_FIELDS)}, created_at, reinforced_at)
    values (:id, :rid, :text, {", ".join(f":{name}" for name in _FACT_FIELDS)}, :now, :reinforced_at)
"""
_KEYS = "rid in (select value from json_each(:keys))"
_FACT_COLUMNS = ", ".join(f"f.{name}" for name in ("id", "text", *_FACT_FIELDS, "created_at", "reinforced_at"))


class SqliteStrength:
    """The strength of the memories of one namespace."""

    def __init__(self, pool: ConnectionPool, ids: MemoryIds) -> None:
        self._pool, self._ids = pool, ids

    def adjust_salience(self, id: str, share: float, now: datetime, decay: Decay, session: str | None) -> Memory:
        """
        Move salience a share of the way up to 1 or, with a negative share, down to 0.

        A reinforced memory is reinforced with its facts: the confidence each has left is raised in the same way.
        """
        stamp = to_micros(now)
        with self._pool.writing() as connection:
            rid, memory = self._ids.require(connection, id)
            adjust_salience(connection, [rid], share, stamp, decay.sectors)
            if share > 0:
                for key, fact in self._load_facts(connection, "f.rid = :rid", {"rid": rid}):
                    self._raise_confidence(connection, key, fact, share, now, decay.facts)
            if session is not None:
                sid = require_open_session(connection, self._ids.namespace, session)
                link_memories(connection, sid, [rid], "reinforced", stamp)
            return self._ids.require(connection, memory.id)[1]

    def set_pinned(self, id: str, pinned: bool, now: datetime) -> Memory:
        with self._pool.writing() as connection:
            rid, memory = self._ids.require(connection, id)
            set_pinned(connection, rid, memory, pinned, to_micros(now))
            return self._ids.require(connection, memory.id)[1]

    def add_fact(self, id: str, draft: FactDraft, now: datetime) -> Fact:
        """Add a fact to a memory; one with the same text is changed to what is said of it now."""
        with self._pool.writing() as connection:
            rid = self._ids.require_key(connection, id)
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
            rid = fetch_value(connection, "delete from facts where fact = ? returning rid", (key,))
            index_facts(connection, rid)
            return fact

    def _require_fact(self, connection: apsw.Connection, id: str) -> tuple[int, Fact]:
        """Return the key and the fact with an id, or with a unique beginning or ending of one."""
        found = self._load_facts(connection, "f.id = :id", {"id": id})
        if not found and len(id) >= MIN_ID_LENGTH:
            found = self._load_facts(connection, HAS_ID_PART.format("f.id"), {"id": id})
        if len(found) > 1:
            raise ambiguous_id(id, [fact.id for _, fact in found])
        if not found:
            raise NotFound(f"no fact has the id {id!r}", hint=Hint("list_facts"))
        return found[0]

    def _load_facts(self, connection: apsw.Connection, where: str, values: Mapping[str, Any]) -> list[tuple[int, Fact]]:
        rows = fetch(
            connection,
            f"""
            select f.fact, m.id, {_FACT_COLUMNS}
            from facts f
            cross join memories m on m.rid = f.rid
            where {where} and m.namespace = :namespace and m.deleted_at is null
            order by f.fact
            """,
            {**values, "namespace": self._ids.namespace},
        )
        return [(key, to_fact(memory, columns)) for key, memory, *columns in rows]

    def _raise_confidence(
        self, connection: apsw.Connection, key: int, fact: Fact, share: float, now: datetime, rates: Mapping[str, float]
    ) -> None:
        """Raise the confidence that decay has left by a share; it decays from now on."""
        left = fact.confidence_at(now, rates)
        _change_fact(connection, key, {"confidence": min(1.0, left + share * (1 - left))}, to_micros(now))


def adjust_salience(
    connection: apsw.Connection, keys: Sequence[int], share: float, now: int, rates: Mapping[str, float]
) -> None:
    """Raise or lower the salience that decay has left by a share; it decays from now on."""
    save_strength(connection, keys, now)
    left = (
        f"salience * exp(-max(0, :now - reinforced_at) / {_DAY} * coalesce(:rates ->> sector, 0))"
        if rates
        else "salience"
    )
    target = f"{left} + :share * (1 - {left})" if share >= 0 else f"{left} * (1 + :share)"
    values: dict[str, float | str] = {"share": share, "now": now, "keys": json.dumps(keys)}
    if rates:
        values["rates"] = json.dumps(dict(rates))
    connection.execute(f"update memories set salience = {target}, reinforced_at = :now where {_KEYS}", values)


def save_strength(connection: apsw.Connection, keys: Sequence[int], now: int) -> None:
    """Save the salience and pins that are about to change, for searches as of an earlier time."""
    connection.execute(
        f"""
        insert into strength_history(rid, replaced_at, salience, reinforced_at, pinned)
        select rid, :now, salience, reinforced_at, pinned from memories where {_KEYS}
        """,
        {"now": now, "keys": json.dumps(keys)},
    )


def set_pinned(connection: apsw.Connection, rid: int, memory: Memory, pinned: bool, now: int) -> None:
    if memory.pinned != pinned:
        save_strength(connection, [rid], now)
        connection.execute("update memories set pinned = ? where rid = ?", (pinned, rid))


def add_facts(
    connection: apsw.Connection, rid: int, drafts: Sequence[FactDraft], now: int, *, indexed: bool = False
) -> None:
    """Add facts to a memory. `indexed` says that the memory was inserted with their texts already."""
    for draft in drafts:
        known = fetch_value(connection, "select fact from facts where rid = ? and text = ?", (rid, draft.text))
        if known is not None:
            changes = {name: field for name in _FACT_FIELDS if (field := getattr(draft, name)) is not None}
            if changes:
                _change_fact(connection, known, changes, now)
            continue
        values = {name: getattr(draft, name) for name in draft.__slots__} | {
            "rid": rid,
            "now": now,
            "reinforced_at": now,
        }
        connection.execute(_INSERT_FACT, values | {"confidence": 1.0 if draft.confidence is None else draft.confidence})
    if drafts and not indexed:
        index_facts(connection, rid)


def copy_facts(connection: apsw.Connection, rid: int, facts: Sequence[Fact], now: int) -> None:
    """Add facts of another memory that this one lacks, with the confidence they have."""
    for fact in facts:
        values = {name: getattr(fact, name) for name in ("text", *_FACT_FIELDS)}
        values |= {"id": new_id(), "rid": rid, "now": now, "reinforced_at": to_micros(fact.reinforced_at)}
        connection.execute(f"{_INSERT_FACT} on conflict do nothing", values)


def index_facts(connection: apsw.Connection, rid: int) -> None:
    """Put the facts of a memory into the full-text index."""
    texts = [text for (text,) in fetch(connection, "select text from facts where rid = ? order by fact", (rid,))]
    title, content, tags = fetch_value(connection, "select title, content, tags from memories where rid = ?", (rid,))
    connection.execute(
        "update memories set facts = ?, segments = ? where rid = ?",
        ("\n".join(texts) or None, unspaced_bigrams(title, content, *json.loads(tags), *texts), rid),
    )


def _change_fact(connection: apsw.Connection, key: int, changes: Mapping[str, Any], now: int) -> None:
    """Save the values a fact had, and change it; a new confidence decays from now on."""
    saved = f"{', '.join(_FACT_FIELDS)}, reinforced_at"
    connection.execute(
        f"insert into fact_history(fact, replaced_at, {saved}) select fact, :now, {saved} from facts where fact = :key",
        {"now": now, "key": key},
    )
    settings = [f"{name} = :{name}" for name in changes] + ["reinforced_at = :now"] * ("confidence" in changes)
    connection.execute(
        f"update facts set {', '.join(settings)} where fact = :key",
        {**changes, "key": key} | ({"now": now} if "confidence" in changes else {}),
    )
