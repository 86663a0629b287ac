"""Counts of all that matches a query: by the values of fields, and by what a filter leaves out."""

from collections.abc import Sequence

from msgspec.structs import replace

from memorist.arguments import Filter
from memorist.records import Query
from memorist.store.backend import KeywordIndex
from memorist.store.database import Connection
from memorist.store.filters import (
    CHANGED,
    EXISTED,
    FACT_KIND_AS_OF,
    MONTH,
    filter_clauses,
    filter_conditions,
    is_unexpired,
    to_micros,
)
from memorist.store.metadata_index import MetadataIndex
from memorist.store.records import Scope
from memorist.store.rows import memories_table

_MAX_FILTERED_OUT = 5000  # rows read to count what a filter leaves out
_MAX_FACET_VALUES = 100  # of one field; the rest is rarer still
_ROW_FIELDS = ("project", "sector", "tier", "kind", "source", "month")


def count_facets(
    connection: Connection,
    index: KeywordIndex,
    metadata_index: MetadataIndex,
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
    where, values = filter_conditions(replace(filter, metadata=None), past=past)
    # Of what matches, each memory is looked up.
    most = None if query is None else 0
    narrowed, test = metadata_index.write_conditions(connection, filter, values, most=most)
    where, values["namespace"] = where + test, metadata_index.namespace
    if query is not None:
        matching, more, passed = index.select_matching(connection, query, scope, keys)
        values |= more
        where = "" if passed else where
        joined = f"from ({matching}) found @then {memories_table(past=past)} on m.rid = found.rid"
        where += _UNCHANGED if past else ""
    else:
        joined = f"from {memories_table(past=past)}"
    arms = " union all ".join(_select_facet(field, past) for field in fields)
    sql = f"""
        with matching as materialized (
            select m.rid, m.project, m.sector, m.tier, m.kind, m.source, m.tags, {MONTH} as month
            {joined}
            where {"m.namespace" if query is None and not narrowed else "@plain(m.namespace)"} = :namespace {narrowed}
              and m.deleted_at is null {where})
        {arms}
    """
    facets: dict[str, dict[str, int]] = {field: {} for field in fields}
    for name, value, count in sorted(connection.fetch(sql, values), key=lambda row: (-row[2], row[1])):
        if len(facets[name]) < _MAX_FACET_VALUES:
            facets[name][value] = count
    return facets


_UNCHANGED = f" and (found.by_words = 0 or not {CHANGED})"


def _select_facet(field: str, past: bool) -> str:
    if field in _ROW_FIELDS:
        return f"select '{field}', {field}, count(*) from matching where {field} is not null group by {field}"
    if field == "tag":
        return "select 'tag', t.value, count(*) from matching, @each(matching.tags) t group by t.value"
    kind, known = (FACT_KIND_AS_OF, "f.created_at <= :as_of") if past else ("f.kind", "true")
    return f"""
        select 'fact_kind', {kind} as fact_kind, count(distinct f.rid)
        from matching @then facts f on f.rid = matching.rid
        where ({kind}) is not null and {known}
        group by 2
    """


def count_filtered_out(
    connection: Connection, index: KeywordIndex, namespace: str, query: Query, filter: Filter, keys: Sequence[int]
) -> dict[str, int]:
    """Count the matching memories that fail a filter, each by the first field it fails."""
    past = filter.as_of is not None
    named, values = filter_clauses(replace(filter, hide_expired=True), past=past)
    unexpired = named.pop("expired")  # what has expired is not there: no filter holds it back
    if filter.as_of is not None:
        values["as_of"] = to_micros(filter.as_of)
    elif not named:
        return {}
    unfiltered = Scope(replace(filter.restriction, as_of=filter.as_of))
    matching, more, _ = index.select_matching(connection, query, unfiltered, keys, filtered=False)
    failed = " ".join(f"when ({clause}) is not true then '{name}'" for name, clause in named.items())
    found = f"""(
        select f.rid, f.by_words
        from ({matching}) f @then memories n on n.rid = f.rid
        where n.namespace = :namespace {"and n.project = :project" if filter.restricted else ""}
        limit {_MAX_FILTERED_OUT}) found
    """
    sql = f"""
        select {f"case {failed} end" if failed else "null"} as filter, count(*)
        from {found} @then {memories_table(past=past)} on m.rid = found.rid
        where @plain(m.namespace) = :namespace and m.deleted_at is null and {unexpired}
          {_UNCHANGED if past else ""}
        group by filter
    """
    if past:
        sql += f"""
            union all
            select 'as_of', count(*)
            from {found} @then memories m on m.rid = found.rid
            where @plain(m.namespace) = :namespace and m.deleted_at is null and not {EXISTED} and {is_unexpired("m")}
        """
    counts: dict[str, int] = dict(connection.fetch(sql, values | more | {"namespace": namespace}))
    return {name: counts[name] for name in (*named, "as_of") if counts.get(name)}
