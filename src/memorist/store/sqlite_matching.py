"""All that matches a question, and not only the page that is shown: counted by field, and by what keeps it out."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import apsw

from memorist.records import EVERYTHING, Filter, Query
from memorist.store import sqlite_past
from memorist.store.base import Scope
from memorist.store.sqlite_filter import CHANGED, EXISTED, FACT_KIND_THEN, MONTH, clauses, conditions, to_micros
from memorist.store.sqlite_match import PASSING, Expression, KeywordLeg, Search, inside_words
from memorist.store.sqlite_pool import fetch
from memorist.store.sqlite_rows import source

MOST_HELD_BACK = 5000  # rows looked at to say what a filter keeps out
MOST_COUNTED = 30_000  # rows with any of the words; of more, only those are counted that the keyword leg would score
MOST_VALUES = 100  # of one field; the rest is rarer still

_ROW_FIELDS = ("project", "sector", "tier", "kind", "source", "month")


def facets(
    connection: apsw.Connection,
    leg: KeywordLeg,
    query: Query | None,
    scope: Scope,
    keys: Sequence[int],
    fields: Sequence[str],
) -> dict[str, dict[str, int]]:
    """
    How many of the matching memories have each value of a field, the commonest first.

    By its words a question matches what holds any of them; where these are so common that they stand in tens of
    thousands of memories, what holds a rare one or several of them. `keys` are what matched otherwise; it has passed
    the filter.
    """
    if not fields:
        return {}
    filter = scope.filter
    then = filter.as_of is not None
    where, values = conditions(filter, then=then)
    values |= {"namespace": leg.namespace}
    if query is not None:
        matching, more, passed = _found(connection, leg, query, scope, keys)
        values |= more
        where = "" if passed else where
        joined = f"from ({matching}) found cross join {source(then=then)} on m.rid = found.rid"
        where += _UNCHANGED if then else ""
    else:
        joined = f"from {source(then=then)}"
    arms = " union all ".join(_arm(field, then) for field in fields)
    sql = f"""
        with seen as materialized (
            select m.rid, m.project, m.sector, m.tier, m.kind, m.source, m.tags, {MONTH} as month
            {joined}
            where {"+" if query is not None else ""}m.namespace = :namespace and m.deleted_at is null {where})
        {arms}
        order by 3 desc, 2
    """
    counted: dict[str, dict[str, int]] = {field: {} for field in fields}
    for field, name, count in fetch(connection, sql, values):
        if len(counted[field]) < MOST_VALUES:
            counted[field][name] = count
    return counted


_UNCHANGED = f" and (not found.by_words or not {CHANGED})"


def _arm(field: str, then: bool) -> str:
    if field in _ROW_FIELDS:
        return f"select '{field}', {field}, count(*) from seen where {field} is not null group by {field}"
    if field == "tag":
        return "select 'tag', t.value, count(*) from seen, json_each(seen.tags) t group by t.value"
    kind, known = (FACT_KIND_THEN, "f.created_at <= :as_of") if then else ("f.kind", "true")
    return f"""
        select 'fact_kind', {kind} as fact_kind, count(distinct f.rid)
        from seen cross join facts f on f.rid = seen.rid
        where fact_kind is not null and {known}
        group by fact_kind
    """


def held_back(
    connection: apsw.Connection, leg: KeywordLeg, query: Query, filter: Filter, keys: Sequence[int]
) -> dict[str, int]:
    """How many matching memories each part of a filter keeps out; one that several keep out counts for the first."""
    then = filter.as_of is not None
    named, values = clauses(filter, then=then)
    if filter.as_of is not None:
        values["as_of"] = to_micros(filter.as_of)
    elif not named:
        return {}
    anything = Scope(replace(EVERYTHING, as_of=filter.as_of))
    matching, more, _ = _found(connection, leg, query, anything, keys, filtered=False)
    failed = " ".join(f"when ({clause}) is not true then '{name}'" for name, clause in named.items())
    found = f"""(
        select f.rid, f.by_words
        from ({matching}) f cross join memories n on n.rid = f.rid
        where n.namespace = :namespace
        limit {MOST_HELD_BACK}) found
    """
    sql = f"""
        select {f"case {failed} end" if failed else "null"} as filter, count(*)
        from {found} cross join {source(then=then)} on m.rid = found.rid
        where +m.namespace = :namespace and m.deleted_at is null {_UNCHANGED if then else ""}
        group by filter
    """
    if then:
        sql += f"""
            union all
            select 'as_of', count(*)
            from {found} cross join memories m on m.rid = found.rid
            where +m.namespace = :namespace and m.deleted_at is null and not {EXISTED}
        """
    held = dict(fetch(connection, sql, values | more | {"namespace": leg.namespace}))
    return {name: held[name] for name in (*named, "as_of") if held.get(name)}


def _found(
    connection: apsw.Connection,
    leg: KeywordLeg,
    query: Query,
    scope: Scope,
    keys: Sequence[int],
    *,
    filtered: bool = True,
) -> tuple[str, dict[str, Any], bool]:
    """
    A statement for the keys of all that matches, each with whether words found it, and the values for it.

    With `filtered` it may be that all of them pass the filter, and need not be asked again: then the last is True.
    """
    search, filter = leg.prepare(query, scope), scope.filter
    if search.expressions and (filtered or filter.as_of is not None):
        leg.survey(connection, search)
    expressions: Sequence[Expression] = search.expressions
    guard = search.guard if sum(search.counts.values()) > MOST_COUNTED else None
    wanted = [each.all_of if search.all_needed else guard or each.any_of for each in expressions]
    raw = None
    if query.raw is not None and (readable := leg.readable(connection, query.raw)) is not None:
        expressions, wanted, raw = [readable], [query.raw], query.raw
    if filter.as_of is not None and query:
        changed = sqlite_past.matches(connection, leg.namespace, filter, search.wanted(raw), {})
        keys = [*keys, *(match.key for match in changed)]
    values: dict[str, Any] = {"found_keys": json.dumps(list(keys))}
    values |= {f"found{number}": text for number, text in enumerate(wanted)}
    arms = [
        f"select rowid as rid, 1 as by_words from {each.index} where {each.index} match :found{number}"
        for number, each in enumerate(expressions)
    ]
    if filtered and search.few:
        arms = [f"{arm} and +rowid in ({PASSING})" for arm in arms]
        values |= search.values
    if search.all_needed and len(arms) > 1:
        arms = [f"select * from ({' intersect '.join(arms)})"]
    arms += _parts(search, arms, values)
    arms.append("select value as rid, 0 as by_words from json_each(:found_keys)")
    sql = f"select rid, min(by_words) as by_words from ({' union all '.join(arms)}) group by rid"
    passed = search.few or not expressions
    return sql, values, filtered and passed and search.part is None and filter.as_of is None


def _parts(search: Search, arms: Sequence[str], values: dict[str, Any]) -> list[str]:
    """What has the one thing asked for inside of a word, where no word is it."""
    if search.part is None or not arms:
        return []
    has_it, values["part"] = inside_words(search.part)
    return [
        f"""
        select m.rid, 1
        from memories m
        where not exists ({" union all ".join(arms)})
          and m.namespace = :namespace and m.deleted_at is null and {has_it}
        """
    ]
