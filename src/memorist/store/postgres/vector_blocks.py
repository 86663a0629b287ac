"""Vectors read from PostgreSQL into memory, a block of rows at a time, as the bytes in which the server has them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from memorist.records import Model
from memorist.store.database import Connection
from memorist.store.key_set import Keys
from memorist.store.vector_mirror import VectorMirror, number_parts
from memorist.store.vector_scan import encode, row_bytes
from memorist.store.vectors import Halves

_BLOCK_ROWS = 1024
_HEADER_BYTES = 4  # of a vector in pgvector's binary form; big-endian halves follow
_LIVE = """
    from {table} v join memories m on m.rid = v.rid
    where v.model = :model and m.namespace = :namespace and m.deleted_at is null
"""
_ORDERS = {"vectors": "rid", "part_vectors": "rid, part"}


def load_mirror(connection: Connection, namespace: str, model: Model, most_bytes: int) -> VectorMirror | None:
    """
    Return a mirror of the vectors that are stored at the moment that a connection sees.

    None if the model has none yet, or if they would take too much memory.
    """
    if (begun := VectorMirror.begin(connection, namespace, model)) is None:
        return None
    mirror, number = begun
    values = {"model": number, "namespace": namespace}
    counts = {
        table: connection.fetch_value(f"select count(*) {_LIVE.format(table=table)}", values) for table in _ORDERS
    }
    if sum(counts.values()) * row_bytes(model.dimensions) > most_bytes:
        return None
    with mirror.scan.loading(counts["vectors"]) as add:
        for keys, halves in _read_blocks(connection, "vectors", values, model.dimensions):
            add(keys, encode(halves))
    with mirror.parts.loading(counts["part_vectors"]) as add:
        for memories, halves in _read_blocks(connection, "part_vectors", values, model.dimensions):
            add(number_parts(memories), encode(halves))
    return mirror


def _read_blocks(
    connection: Connection, table: str, values: Mapping[str, Any], dimensions: int
) -> Iterator[tuple[Keys, Halves]]:
    """Yield the memories of vectors, ascending, and the vectors; those of one memory are not parted."""
    order = _ORDERS[table]
    sql = f"""
        select array_agg(rid order by {order}), string_agg(halfvec_send(vector), '' order by {order})
        from (select v.* {_LIVE.format(table=table)} and v.rid > :after order by {order} limit :rows) b
    """
    after, rows, is_full = 0, _BLOCK_ROWS, True
    while is_full:
        found, data = connection.fetch_value(sql, {**values, "after": after, "rows": rows})
        keys = np.array(found or (), np.int64)
        raw = np.frombuffer(data or b"", np.uint8).reshape(len(keys), _HEADER_BYTES + 2 * dimensions)
        halves = np.ascontiguousarray(raw[:, _HEADER_BYTES:]).view(">f2").astype(np.float16)
        is_full = len(keys) == rows
        whole = int(np.searchsorted(keys, keys[-1])) if is_full else len(keys)  # the last memory may have more
        if is_full and not whole:
            rows *= 2
            continue
        yield keys[:whole], halves[:whole]
        after = int(keys[whole - 1]) if whole else after
