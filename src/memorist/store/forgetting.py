"""
Forgetting by a filter: memories that pass it are found while others write, and forgotten in short transactions.

A filter by metadata may take a millisecond for each memory, or far more, and nobody else could write meanwhile. So a
transaction does not test metadata: it tests that a memory has not been changed since they were.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from memorist.arguments import Filter
from memorist.store.database import Connection, Database
from memorist.store.erasure import erase_memories
from memorist.store.filters import filter_conditions, indexed_conditions
from memorist.store.metadata_index import MetadataIndex
from memorist.store.writes import as_json

_LISTED_AT_ONCE = 100_000  # memories, of which two numbers each are kept in memory
_FORGOTTEN_AT_ONCE = 1000  # memories, so that other writers need not wait for all of them


def forget_passing(pool: Database, fields: MetadataIndex, filter: Filter, now: int, *, hard: bool) -> int:
    """Forget, or erase, the memories that pass a filter, until there are none; return how many."""
    filter, count = replace(filter, hide_expired=True), 0
    with pool.writing():
        pass  # a standby is read from only when it has what was written before this
    while found := list_versions(pool, fields, filter):
        for start in range(0, len(found), _FORGOTTEN_AT_ONCE):
            versions = dict(found[start : start + _FORGOTTEN_AT_ONCE])
            with pool.writing() as connection:
                keys = _list_unchanged(connection, fields.namespace, filter, versions)
                _forget(connection, keys, now, hard=hard)
            count += len(keys)
        # What was changed or added meanwhile is looked at again.
    return count


def list_versions(pool: Database, fields: MetadataIndex, filter: Filter) -> list[tuple[int, int]]:
    """Return the keys of some live memories that pass a filter, each with the time when it was changed last."""
    with pool.snapshot() as connection:
        where, values, _ = indexed_conditions(connection, fields, filter)
        sql = f"""
            select m.rid, m.updated_at from memories m
            where {where} and m.deleted_at is null limit {_LISTED_AT_ONCE}
        """
        return [(rid, updated_at) for rid, updated_at in connection.fetch(sql, values)]


def _list_unchanged(connection: Connection, namespace: str, filter: Filter, versions: Mapping[int, int]) -> list[int]:
    """Return those keys whose memories still pass: they have the same metadata, and whatever else is asked of them."""
    where, values = filter_conditions(replace(filter, metadata=None))
    sql = f"""
        select m.rid, m.updated_at from memories m
        where m.rid in @keys(:keys) and @plain(m.namespace) = :namespace and m.deleted_at is null {where}
    """
    values |= {"keys": as_json(list(versions)), "namespace": namespace}
    return [rid for rid, updated_at in connection.fetch(sql, values) if versions[rid] == updated_at]


def _forget(connection: Connection, keys: list[int], now: int, *, hard: bool) -> None:
    if hard:
        erase_memories(connection, keys)
    elif keys:
        sql = "update memories set deleted_at = :now where rid in @keys(:keys)"
        connection.execute(sql, {"now": now, "keys": as_json(keys)})
