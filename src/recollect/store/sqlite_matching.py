"""All that matches a question, and not only the page that is shown: counted by field, and by what keeps it out."""

import json
from collections.abc import Sequence
from typing import Any

import apsw

from recollect.records import EVERYTHING, Filter, Query
from recollect.store import sqlite_past
from recollect.store.sqlite_filter import CHANGED, EXISTED, MONTH, clauses, conditions, to_micros
from recollect.store.sqlite_match import Expression, KeywordLeg
from recollect.store.sqlite_pool import fetch
from recollect.store.sqlite_rows import NOW, THEN

MOST_HELD_BACK = 5000  # rows looked at to say what a filter keeps out
MOST_VALUES = 100  # of one field; the rest is rarer still

_ROW_FIELDS = ("project", "sector", "tier", "kind", "source", "month")


def facets(
    connection: apsw.Connection,
    leg: KeywordLeg,
    query: Query | None,
    filter: Filter,
    keys: Sequence[int],
    fields: Sequence[str],
) -> dict[str, dict[str, int]]:
    """
    How many of the matching memories have each value of a field, the commonest first.

    What matches a question by its words is what the keyword leg would score: of a question with many common words, that
    is what holds a rare one or several of them. `keys` are what matched otherwise.
    """
    if not fields:
        return {}
    then = filter.as_of is not None
    where, values = conditions(filter, then=then)
    values |= {"namespace": leg.namespace}
    if query:
        source, more = _found(connection, leg, query, filter, keys)
        values |= more
        joined = f"from ({source}) found cross join {THEN if then else NOW} on m.rid = found.rid"
        where += f" and (not found.by_words or not {CHANGED})" if then else ""
    else:
        joined = f"from {THEN if then else NOW}"
    arms = " union all ".join(_arm(field, then) for field in fields)
    sql = f"""
        with seen as materialized (
            select m.rid, m.project, m.sector, m.tier, m.kind, m.source, m.tags, {MONTH} as month
            {joined}
            where {"+" if query else ""}m.namespace = :namespace and m.deleted_at is null {where})
        {arms}
        order by 3 desc, 2
    """
    counted: dict[str, dict[str, int]] = {field: {} for field in fields}
    for field, name, count in fetch(connection, sql, values):
        if len(counted[field]) < MOST_VALUES:
            counted[field][name] = count
    return counted


def _arm(field: str, then: bool) -> str:
    if field in _ROW_FIELDS:
        return f"select '{field}', {field}, count(*) from seen where {field} is not null group by {field}"
    if field == "tag":
        return "select 'tag', t.value, count(*) from seen, json_each(seen.tags) t group by t.value"
    known = "and f.created_at <= :as_of" if then else ""
    return f"""
        select 'fact_kind', f.kind, count(distinct f.rid)
        from seen cross join facts f on f.rid = seen.rid
        where f.kind is not null {known}
        group by f.kind
    """


def held_back(
    connection: apsw.Connection, leg: KeywordLeg, query: Query, filter: Filter, keys: Sequence[int]
) -> dict[str, int]:
    """How many matching memories each part of a filter keeps out; one that several keep out counts for the first."""
    named, values = clauses(filter)
    if filter.as_of is not None:
        named["as_of"] = EXISTED
        values["as_of"] = to_micros(filter.as_of)
    if not named:
        return {}
    search = leg.prepare(query, EVERYTHING)
    arms, more = _arms(search.expressions, [each.any_of for each in search.expressions], keys)
    failed = " ".join(f"when ({clause}) is not true then '{name}'" for name, clause in named.items())
    sql = f"""
        select case {failed} end as filter, count(*)
        from (select distinct rid from ({" union all ".join(arms)}) limit {MOST_HELD_BACK}) found
        cross join memories m on m.rid = found.rid
        where +m.namespace = :namespace and m.deleted_at is null
        group by filter
        having filter is not null
    """
    held = dict(fetch(connection, sql, values | more | {"namespace": leg.namespace}))
    return {name: held[name] for name in named if name in held}


def _arms(
    expressions: Sequence[Expression], wanted: Sequence[str], keys: Sequence[int]
) -> tuple[list[str], dict[str, Any]]:
    """One statement for each index, one for the keys, and the values for them."""
    values: dict[str, Any] = {f"found{number}": text for number, text in enumerate(wanted)}
    arms = [
        f"select rowid as rid, 1 as by_words from {each.index} where {each.index} match :found{number}"
        for number, each in enumerate(expressions)
    ]
    return [*arms, "select value as rid, 0 as by_words from json_each(:found_keys)"], {
        "found_keys": json.dumps(list(keys)),
        **values,
    }


def _found(
    connection: apsw.Connection, leg: KeywordLeg, query: Query, filter: Filter, keys: Sequence[int]
) -> tuple[str, dict[str, Any]]:
    """A statement for the keys of all that matches, and the values for it."""
    search = leg.prepare(query, filter)
    leg.survey(connection, search)
    expressions: Sequence[Expression] = search.expressions
    wanted = [each.all_of if search.all_needed else search.guard or each.any_of for each in expressions]
    if query.raw is not None and (raw := leg.readable(connection, query.raw)) is not None:
        expressions, wanted = [raw], [query.raw]
    if filter.as_of is not None:
        changed = sqlite_past.matches(
            connection, leg.namespace, filter, search.counted(), {}, all_needed=search.all_needed
        )
        keys = [*keys, *(match.key for match in changed)]
    arms, values = _arms(expressions, wanted, keys)
    if search.few:
        passing = f"select m.rid from memories m where m.namespace = :namespace and m.deleted_at is null {search.where}"
        arms = [f"{arm} and +rowid in ({passing})" for arm in arms[:-1]] + arms[-1:]
        values |= search.values
    if search.all_needed and len(expressions) > 1:
        both = " intersect ".join(arms[:-1])
        arms = [f"select * from ({both})", arms[-1]]
    return f"select rid, min(by_words) as by_words from ({' union all '.join(arms)}) group by rid", values
