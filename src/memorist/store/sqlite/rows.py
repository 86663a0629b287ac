"""Memories as rows: what is selected of one, now or at a time in the past, and the record made of it."""

import json
from collections.abc import Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

from memorist.records import SUPERSEDES, Fact, Memory, Row, SessionRef, Successor
from memorist.store.sqlite.filters import ACCESS_THEN, EXISTED, STRENGTH_THEN, VALID_UNTIL_THEN, from_micros

SUCCESSOR_TEXT = 200  # characters of what replaced a memory
LONGEST_CHAIN = 100_000  # of memories that replaced one another

# Every memory as it was at `:as_of`: with the text of the version that was replaced after it, if any.
_TEXTS = ("project", "content", "sector", "tier", "kind", "source", "title", "summary")
THEN = f"""(
    select m.rid, m.id, m.namespace, m.created_at, m.recorded_at, m.deleted_at,
        ({ACCESS_THEN.format("count(*)")}) as access_count, ({ACCESS_THEN.format("max(r.at)")}) as accessed_at,
        {", ".join(f"iif(h.rid is null, m.{name}, h.snapshot ->> '{name}') as {name}" for name in _TEXTS)},
        iif(h.rid is null, m.tags, h.snapshot -> 'tags') as tags,
        iif(h.rid is null, m.metadata, h.snapshot -> 'metadata') as metadata,
        iif(h.rid is null, m.updated_at, h.snapshot ->> 'updated_at') as updated_at,
        {", ".join(f"{STRENGTH_THEN.format(name)} as {name}" for name in ("salience", "reinforced_at", "pinned"))},
        {VALID_UNTIL_THEN} as valid_until,
        h.version,
        h.rid is not null
            and (h.snapshot ->> 'content' <> m.content or h.snapshot ->> 'title' is not m.title) as reworded
    from memories m
    left join memory_history h on h.rid = m.rid
        and h.version = (select min(version) from memory_history where rid = m.rid and replaced_at > :as_of)
    where {EXISTED}
) m"""

_COLUMNS = (
    "id", "content", "namespace", "project", "sector", "tier", "kind", "tags", "salience", "source", "title", "summary",
    "metadata", "created_at", "updated_at", "reinforced_at", "recorded_at", "deleted_at", "pinned", "valid_until",
    "access_count", "accessed_at",
)  # fmt: skip


def source(*, then: bool) -> str:
    """The memories `m` of now, or as they were at `:as_of`."""
    return THEN if then else "memories m"


def columns(*, then: bool = False) -> str:
    """The columns of a memory `m`, for `memory_of`."""
    return f"""
        {", ".join(f"m.{name}" for name in _COLUMNS)},
        ({_facts(then)}), ({_ORIGIN}), case when m.valid_until is not null then ({_successor(then)}) end,
        ({_related(then)})
    """


def _facts(then: bool) -> str:
    names = ("kind", "subject", "predicate", "object", "confidence", "decay_rate", "reinforced_at")
    now = {name: f"f.{name}" for name in names}
    if not then:
        return _FACTS.format(source="(select * from facts where rid = m.rid order by fact) f", **now)
    source = """
        (select * from facts where rid = m.rid and created_at <= :as_of order by fact) f
        left join fact_history h on h.change = (
            select change from fact_history
            where fact = f.fact and replaced_at > :as_of order by replaced_at, change limit 1)
    """
    return _FACTS.format(source=source, **{name: f"iif(h.change is null, f.{name}, h.{name})" for name in names})


_FACTS = """
    select json_group_array(json_array(
        f.id, f.text, {kind}, {subject}, {predicate}, {object}, {confidence}, {decay_rate}, f.created_at,
        {reinforced_at}))
    from {source}
"""
_ORIGIN = """
    select json_array(s.id, s.started_at, s.summary, s.project)
    from session_memories u
    join sessions s on s.sid = u.sid
    where u.rid = m.rid and u.usage = 'created'
    order by u.at
    limit 1
"""


def held(relation: str, then: bool) -> str:
    """Whether a relation is, or was then, held to be so."""
    if not then:
        return f"{relation}.valid_until is null"
    return f"{relation}.valid_from <= :as_of and ({relation}.valid_until is null or {relation}.valid_until > :as_of)"


def _successor(then: bool) -> str:
    """The newest of the chain of memories that replaced one another."""
    content = "n.content"
    if then:
        content = """coalesce((
            select h.snapshot ->> 'content' from memory_history h
            where h.rid = n.rid and h.replaced_at > :as_of order by h.version limit 1), n.content)"""
    return f"""
        with recursive chain(rid, place) as (
            select r.source, 1 from relations r
            where r.target = m.rid and r.kind = '{SUPERSEDES}' and {held("r", then)}
            union
            select r.source, c.place + 1
            from chain c cross join relations r indexed by relations_by_target on r.target = c.rid
            where r.kind = '{SUPERSEDES}' and {held("r", then)} and c.place < {LONGEST_CHAIN})
        select json_array(n.id, substr({content}, 1, {SUCCESSOR_TEXT}), n.created_at)
        from chain c
        join memories n on n.rid = c.rid
        where n.deleted_at is null
        order by c.place desc
        limit 1
    """


def _related(then: bool) -> str:
    """How many live memories it is linked with; that one replaced it is told otherwise."""
    valid = "o.valid_until is null"
    if then:
        valid = f"""not exists (
            select 1 from relations s where s.target = o.rid and s.kind = '{SUPERSEDES}' and {held("s", then)})"""
    return f"""
        select count(*)
        from (
            select r.target as other from relations r
            where r.source = m.rid and r.kind <> '{SUPERSEDES}' and {held("r", then)}
            union
            select r.source from relations r
            where r.target = m.rid and r.kind <> '{SUPERSEDES}' and {held("r", then)}) l
        join memories o on o.rid = l.other
        where o.deleted_at is null and {valid}
    """


_FOR_RANKING = itemgetter(
    *map(
        (*_COLUMNS, "facts", "origin").index,
        ("id", "created_at", "updated_at", "accessed_at", "reinforced_at", "salience", "sector", "kind", "source",
         "tags", "valid_until", "content", "facts", "origin"),
    )
)  # fmt: skip


def ranking_row(key: int, similarity: float | None, vector: bytes | None, row: Sequence[Any]) -> Row:
    """What ranking looks at of the columns of a memory."""
    (
        id, created_at, updated_at, accessed_at, reinforced_at, salience, sector, kind, source, tags, valid_until,
        content, facts, origin,
    ) = _FOR_RANKING(row)  # fmt: skip
    return Row(
        key=key,
        similarity=similarity,
        vector=vector,
        created_at=created_at / 1e6,
        updated_at=updated_at / 1e6,
        accessed_at=None if accessed_at is None else accessed_at / 1e6,
        reinforced_at=reinforced_at / 1e6,
        salience=salience,
        sector=sector,
        kind=kind,
        source=source,
        tags=tags_of(tags),
        superseded=valid_until is not None,
        session=origin,
        length=len(content),
        facts=partial(facts_of, id, facts),
        memory=partial(memory_of, row),
    )


def memory_of(row: Sequence[Any]) -> Memory:
    (
        id, content, namespace, project, sector, tier, kind, tags, salience, source, title, summary, metadata,
        created_at, updated_at, reinforced_at, recorded_at, deleted_at, pinned, valid_until, access_count, accessed_at,
        facts, origin, successor, related_count,
    ) = row  # fmt: skip
    return Memory(
        id=id,
        content=content,
        namespace=namespace,
        project=project,
        sector=sector,
        tier=tier,
        kind=kind,
        tags=tags_of(tags),
        salience=salience,
        source=source,
        title=title,
        summary=summary,
        metadata=json.loads(metadata) if metadata != "{}" else {},
        created_at=from_micros(created_at),
        updated_at=from_micros(updated_at),
        reinforced_at=from_micros(reinforced_at),
        recorded_at=from_micros(recorded_at),
        deleted_at=None if deleted_at is None else from_micros(deleted_at),
        pinned=bool(pinned),
        valid_until=None if valid_until is None else from_micros(valid_until),
        superseded_by=_successor_of(successor),
        session=_origin_of(origin),
        facts=facts_of(id, facts),
        related_count=related_count,
        access_count=access_count,
        accessed_at=None if accessed_at is None else from_micros(accessed_at),
    )


@lru_cache(1000)
def tags_of(tags: str) -> tuple[str, ...]:
    return tuple(json.loads(tags)) if tags != "[]" else ()


def facts_of(memory_id: str, facts: str) -> tuple[Fact, ...]:
    if facts == "[]":
        return ()
    return tuple(fact_of(memory_id, row) for row in json.loads(facts))


def fact_of(memory_id: str, row: Sequence[Any]) -> Fact:
    id, text, kind, subject, predicate, object, confidence, decay_rate, created_at, reinforced_at = row
    return Fact(
        id, memory_id, text, kind, subject, predicate, object, confidence, decay_rate, from_micros(created_at),
        from_micros(reinforced_at),
    )  # fmt: skip


def _origin_of(origin: str | None) -> SessionRef | None:
    if origin is None:
        return None
    id, started_at, summary, project = json.loads(origin)
    return SessionRef(id, from_micros(started_at), summary, project)


def _successor_of(successor: str | None) -> Successor | None:
    if successor is None:
        return None
    id, content, created_at = json.loads(successor)
    return Successor(id, content, from_micros(created_at))
