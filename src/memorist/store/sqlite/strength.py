"""How much a memory matters: its salience, its pin, and the confidence of its facts. What they were before is kept."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw

from memorist.errors import NotFound
from memorist.records import Decay, Fact, FactDraft, Memory, new_id
from memorist.store.sqlite.connections import ConnectionPool, fetch, value
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.ids import PART, SHORTEST_ID, MemoryIds, several
from memorist.store.sqlite.rows import fact_of
from memorist.store.sqlite.sessions import link, open_session
from memorist.text.tokenizer import unspaced_bigrams

DAY = 86_400e6  # microseconds
_ABOUT = ("kind", "subject", "predicate", "object", "confidence", "decay_rate")
_AMONG = "rid in (select value from json_each(:keys))"
_FACT = (
    "f.id, f.text, f.kind, f.subject, f.predicate, f.object, f.confidence, f.decay_rate, f.created_at, f.reinforced_at"
)


class SqliteStrength:
    """Reinforcement and facts, of one namespace."""

    def __init__(self, pool: ConnectionPool, ids: MemoryIds) -> None:
        self._pool, self._ids = pool, ids

    def change(self, id: str, share: float, now: datetime, decay: Decay, session: str | None) -> Memory:
        """
        Salience a share of the way up to 1 (or, below 0, down to 0).

        A memory that is confirmed is confirmed with its facts: the confidence each has left is raised in the same way.
        """
        stamp = to_micros(now)
        with self._pool.writing() as connection:
            rid, memory = self._ids.require(connection, id)
            strengthen(connection, [rid], share, stamp, decay.sectors)
            if share > 0:
                for key, fact in self._facts(connection, "f.rid = :rid", {"rid": rid}):
                    self._rebase(connection, key, fact, share, now, decay.facts)
            if session is not None:
                link(connection, open_session(connection, self._ids.namespace, session), [rid], "reinforced", stamp)
            return self._ids.require(connection, memory.id)[1]

    def pin(self, id: str, pinned: bool, now: datetime) -> Memory:
        with self._pool.writing() as connection:
            rid, memory = self._ids.require(connection, id)
            set_pin(connection, rid, memory, pinned, to_micros(now))
            return self._ids.require(connection, memory.id)[1]

    def add_fact(self, id: str, draft: FactDraft, now: datetime) -> Fact:
        """A fact of a memory; one it has already is given the new confidence, as of now, and the rest."""
        with self._pool.writing() as connection:
            rid = self._ids.key(connection, id)
            add_facts(connection, rid, [draft], to_micros(now))
            ((_, fact),) = self._facts(connection, "f.rid = :rid and f.text = :text", {"rid": rid, "text": draft.text})
            return fact

    def reinforce_fact(self, id: str, share: float, now: datetime, rates: Mapping[str, float]) -> Fact:
        with self._pool.writing() as connection:
            key, fact = self._fact(connection, id)
            self._rebase(connection, key, fact, share, now, rates)
            return self._fact(connection, fact.id)[1]

    def remove_fact(self, id: str) -> Fact:
        with self._pool.writing() as connection:
            key, fact = self._fact(connection, id)
            rid = value(connection, "delete from facts where fact = ? returning rid", (key,))
            index_facts(connection, rid)
            return fact

    def _fact(self, connection: apsw.Connection, id: str) -> tuple[int, Fact]:
        """By the whole id, or by a beginning or ending that is enough to name it; and its key."""
        found = self._facts(connection, "f.id = :id", {"id": id})
        if not found and len(id) >= SHORTEST_ID:
            found = self._facts(connection, PART.format("f.id"), {"id": id})
        if len(found) > 1:
            raise several(id, [fact.id for _, fact in found])
        if not found:
            raise NotFound(f"no fact has the id {id!r}; `memorist fact list MEMORY` shows the facts of a memory")
        return found[0]

    def _facts(self, connection: apsw.Connection, which: str, values: Mapping[str, Any]) -> list[tuple[int, Fact]]:
        rows = fetch(
            connection,
            f"""
            select f.fact, m.id, {_FACT}
            from facts f
            cross join memories m on m.rid = f.rid
            where {which} and m.namespace = :namespace and m.deleted_at is null
            order by f.fact
            """,
            {**values, "namespace": self._ids.namespace},
        )
        return [(key, fact_of(memory, row)) for key, memory, *row in rows]

    def _rebase(
        self, connection: apsw.Connection, key: int, fact: Fact, share: float, now: datetime, rates: Mapping[str, float]
    ) -> None:
        """Value and time together: what was lost until now is not won back, and what is left decays from now on."""
        left = fact.confidence_at(now, rates)
        _set_confidence(connection, key, left + share * (1 - left), to_micros(now))


def strengthen(
    connection: apsw.Connection, keys: Sequence[int], share: float, now: int, rates: Mapping[str, float]
) -> None:
    """Value and time together: a share is added to, or taken from, what decay has left of salience."""
    keep_strength(connection, keys, now)
    left = (
        f"salience * exp(-max(0, :now - reinforced_at) / {DAY} * coalesce(:rates ->> sector, 0))"
        if rates
        else "salience"
    )
    target = f"{left} + :share * (1 - {left})" if share >= 0 else f"{left} * (1 + :share)"
    connection.execute(
        f"update memories set salience = {target}, reinforced_at = :now where {_AMONG}",
        {"share": share, "now": now, "keys": json.dumps(keys)} | ({"rates": json.dumps(dict(rates))} if rates else {}),
    )


def keep_strength(connection: apsw.Connection, keys: Sequence[int], now: int) -> None:
    """Write down what is about to be changed, for whoever asks how it was."""
    connection.execute(
        f"""
        insert into strength_history(rid, replaced_at, salience, reinforced_at, pinned)
        select rid, :now, salience, reinforced_at, pinned from memories where {_AMONG}
        """,
        {"now": now, "keys": json.dumps(keys)},
    )


def set_pin(connection: apsw.Connection, rid: int, memory: Memory, pinned: bool, now: int) -> None:
    if memory.pinned != pinned:
        keep_strength(connection, [rid], now)
        connection.execute("update memories set pinned = ? where rid = ?", (pinned, rid))


def add_facts(
    connection: apsw.Connection, rid: int, drafts: Sequence[FactDraft], now: int, *, indexed: bool = False
) -> None:
    """Facts of a memory; of one that was written with their words just now, these are `indexed` already."""
    for draft in drafts:
        known = value(connection, "select fact from facts where rid = ? and text = ?", (rid, draft.text))
        if known is not None:
            _said_again(connection, known, draft, now)
            continue
        connection.execute(
            """
            insert into facts(
                id, rid, text, kind, subject, predicate, object, confidence, decay_rate, created_at, reinforced_at)
            values (
                :id, :rid, :text, :kind, :subject, :predicate, :object, :confidence, :decay_rate, :now, :now)
            """,
            {name: getattr(draft, name) for name in draft.__slots__}
            | {"rid": rid, "now": now, "confidence": 1.0 if draft.confidence is None else draft.confidence},
        )
    if drafts and not indexed:
        index_facts(connection, rid)


def take_facts(connection: apsw.Connection, rid: int, facts: Sequence[Fact], now: int) -> None:
    """Facts of another memory that this one has not: its own from now on, as sure as they are."""
    connection.executemany(
        """
        insert or ignore into facts(
            id, rid, text, kind, subject, predicate, object, confidence, decay_rate, created_at, reinforced_at)
        values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [
            (
                new_id(), rid, fact.text, fact.kind, fact.subject, fact.predicate, fact.object, fact.confidence,
                fact.decay_rate, now, to_micros(fact.reinforced_at),
            )
            for fact in facts
        ],
    )  # fmt: skip


def index_facts(connection: apsw.Connection, rid: int) -> None:
    """Let a memory be found by the words of its facts."""
    texts = [text for (text,) in fetch(connection, "select text from facts where rid = ? order by fact", (rid,))]
    title, content, tags = value(connection, "select title, content, tags from memories where rid = ?", (rid,))
    connection.execute(
        "update memories set facts = ?, segments = ? where rid = ?",
        ("\n".join(texts) or None, unspaced_bigrams(title, content, *json.loads(tags), *texts), rid),
    )


def _said_again(connection: apsw.Connection, key: int, draft: FactDraft, now: int) -> None:
    """A fact that is there takes on what is said of it now."""
    said = {name: given for name in _ABOUT if (given := getattr(draft, name)) is not None}
    if said:
        _change(connection, key, said, now)


def _set_confidence(connection: apsw.Connection, key: int, confidence: float, now: int) -> None:
    _change(connection, key, {"confidence": min(1.0, confidence)}, now)


def _change(connection: apsw.Connection, key: int, said: Mapping[str, Any], now: int) -> None:
    """Write down what a fact was, and what it is; a confidence is so from now on."""
    kept = f"{', '.join(_ABOUT)}, reinforced_at"
    connection.execute(
        f"insert into fact_history(fact, replaced_at, {kept}) select fact, :now, {kept} from facts where fact = :key",
        {"now": now, "key": key},
    )
    changes = [f"{name} = :{name}" for name in said] + ["reinforced_at = :now"] * ("confidence" in said)
    connection.execute(
        f"update facts set {', '.join(changes)} where fact = :key",
        {**said, "key": key} | ({"now": now} if "confidence" in said else {}),
    )
