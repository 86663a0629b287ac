"""Counts of all that matches a query: by the values of fields, and by what a filter leaves out."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import apsw

from memorist.records import Filter, Query
from memorist.store.records import Scope
from memorist.store.sqlite.connections import fetch
from memorist.store.sqlite.filters import (
    CHANGED,
    EXISTED,
    FACT_KIND_AS_OF,
    MONTH,
    filter_clauses,
    filter_conditions,
    to_micros,
)
from memorist.store.sqlite.keyword import PASSING, Expression, KeywordLeg, KeywordSearch, contains_condition
from memorist.store.sqlite.rows import memories_table

_MAX_FILTERED_OUT = 5000  # rows read to count what a filter leaves out
_MAX_FACET_ROWS = 30_000  # rows with any of the words; of more, only those behind the guard are counted
_MAX_FACET_VALUES = 100  # of one field; the rest is rarer still
_ROW_FIELDS = ("project", "sector", "tier", "kind", "source", "month")


def count_facets(
    connection: apsw.Connection,
    leg: KeywordLeg,
    query: Query | None,
    scope: Scope,
    keys: Sequence[int],
    fields: Sequence[str],
) -> dict[str, dict[str, int]]:
    """
    Count the matching memories by the values of fields, the commonest value first.

    A query matches the memories with any of its words; if these are so common that they are in tens of thousands of
    memories, those with a rare one or several of them. `keys` are further matches, which have passed the filter.
    """
    if not fields:
        return {}
    filter = scope.filter
    past = filter.as_of is not None
    where, values = filter_conditions(filter, past=past)
    values |= {"namespace": leg.namespace}
    if query is not None:
        matching, more, passed = _select_matching(connection, leg, query, scope, keys)
        values |= more
        where = "" if passed else where
        joined = f"from ({matching}) found cross join {memories_table(past=past)} on m.rid = found.rid"
        where += _UNCHANGED if past else ""
    else:
        joined = f"from {memories_table(past=past)}"
    arms = " union all ".join(_select_facet(field, past) for field in fields)
    sql = f"""
        with matching as materialized (
            select m.rid, m.project, m.sector, m.tier, m.kind, m.source, m.tags, {MONTH} as month
            {joined}
            where {"+" if query is not None else ""}m.namespace = :namespace and m.deleted_at is null {where})
        {arms}
        order by 3 desc, 2
    """
    facets: dict[str, dict[str, int]] = {field: {} for field in fields}
    for name, value, count in fetch(connection, sql, values):
        if len(facets[name]) < _MAX_FACET_VALUES:
            facets[name][value] = count
    return facets


_UNCHANGED = f" and (not found.by_words or not {CHANGED})"


def _select_facet(field: str, past: bool) -> str:
    if field in _ROW_FIELDS:
        return f"select '{field}', {field}, count(*) from matching where {field} is not null group by {field}"
    if field == "tag":
        return "select 'tag', t.value, count(*) from matching, json_each(matching.tags) t group by t.value"
    kind, known = (FACT_KIND_AS_OF, "f.created_at <= :as_of") if past else ("f.kind", "true")
    return f"""
        select 'fact_kind', {kind} as fact_kind, count(distinct f.rid)
        from matching cross join facts f on f.rid = matching.rid
        where fact_kind is not null and {known}
        group by fact_kind
    """


def count_filtered_out(
    connection: apsw.Connection, leg: KeywordLeg, query: Query, filter: Filter, keys: Sequence[int]
) -> dict[str, int]:
    """Count the matching memories that fail a filter, each by the first field it fails."""
    past = filter.as_of is not None
    named, values = filter_clauses(filter, past=past)
    if filter.as_of is not None:
        values["as_of"] = to_micros(filter.as_of)
    elif not named:
        return {}
    unfiltered = Scope(replace(filter.wall, as_of=filter.as_of))
    matching, more, _ = _select_matching(connection, leg, query, unfiltered, keys, filtered=False)
    failed = " ".join(f"when ({clause}) is not true then '{name}'" for name, clause in named.items())
    found = f"""(
        select f.rid, f.by_words
        from ({matching}) f cross join memories n on n.rid = f.rid
        where n.namespace = :namespace {"and n.project = :project" if filter.walled else ""}
        limit {_MAX_FILTERED_OUT}) found
    """
    sql = f"""
        select {f"case {failed} end" if failed else "null"} as filter, count(*)
        from {found} cross join {memories_table(past=past)} on m.rid = found.rid
        where +m.namespace = :namespace and m.deleted_at is null {_UNCHANGED if past else ""}
        group by filter
    """
    if past:
        sql += f"""
            union all
            select 'as_of', count(*)
            from {found} cross join memories m on m.rid = found.rid
            where +m.namespace = :namespace and m.deleted_at is null and not {EXISTED}
        """
    counts = dict(fetch(connection, sql, values | more | {"namespace": leg.namespace}))
    return {name: counts[name] for name in (*named, "as_of") if counts.get(name)}


def _select_matching(
    connection: apsw.Connection,
    leg: KeywordLeg,
    query: Query,
    scope: Scope,
    keys: Sequence[int],
    *,
    filtered: bool = True,
) -> tuple[str, dict[str, Any], bool]:
    """
    Return a query for the keys of all that matches, and if words matched it, with the values for the query.

    The last result is True if all of them are known to pass the filter.
    """
    search, filter = leg.prepare(query, scope), scope.filter
    if search.expressions and (filtered or filter.as_of is not None):
        leg.plan(connection, search)
    expressions: Sequence[Expression] = search.expressions
    guard = search.guard if sum(search.counts.values()) > _MAX_FACET_ROWS else None
    wanted = [each.all_of if search.needs_all else guard or each.any_of for each in expressions]
    raw = None
    if query.raw is not None and (parsed := leg.parse_raw(connection, query.raw)) is not None:
        expressions, wanted, raw = [parsed], [query.raw], query.raw
    if filter.as_of is not None and query:
        changed = leg.match_past(connection, filter, search.past_query(raw), {})
        keys = [*keys, *(match.key for match in changed)]
    values: dict[str, Any] = {"found_keys": json.dumps(list(keys))}
    values |= {f"found{number}": text for number, text in enumerate(wanted)}
    arms = [
        f"""
        select {each.index}.rowid as rid, 1 as by_words
        from {each.index} {search.join_wall(each.index)}
        where {each.index} match :found{number}
        """
        for number, each in enumerate(expressions)
    ]
    if filtered and search.is_narrow:
        arms = [f"{arm} and +{each.index}.rowid in ({PASSING})" for arm, each in zip(arms, expressions, strict=True)]
        values |= search.values
    if search.needs_all and len(arms) > 1:
        arms = [f"select * from ({' intersect '.join(arms)})"]
    arms += _select_matching_substring(search, arms, values)
    arms.append("select value as rid, 0 as by_words from json_each(:found_keys)")
    sql = f"select rid, min(by_words) as by_words from ({' union all '.join(arms)}) group by rid"
    passed = search.is_narrow or not expressions
    return sql, values, filtered and passed and search.substring is None and filter.as_of is None


def _select_matching_substring(search: KeywordSearch, arms: Sequence[str], values: dict[str, Any]) -> list[str]:
    """Return a query for rows with the only word of the query inside a longer word, if no word is it."""
    if search.substring is None or not arms:
        return []
    contains, values["substring"] = contains_condition(search.substring)
    return [
        f"""
        select m.rid, 1
        from memories m
        where not exists ({" union all ".join(arms)})
          and m.namespace = :namespace and m.deleted_at is null and {contains}
        """
    ]
