"""Statistics: the numbers of everything in a namespace."""

from memorist.errors import StoreCorrupt
from memorist.records import SUPERSEDES
from memorist.reports import Stats
from memorist.store.backend import Backend
from memorist.store.database import Database
from memorist.store.filters import select_expired


def collect_stats(backend: Backend, namespace: str, model: str | None) -> Stats:
    """Return the numbers of a namespace, and the size of the database."""
    with backend.database.snapshot() as connection:
        columns = ", ".join(f"({sql})" for sql in _COUNTS.values())
        found = connection.fetch_value(f"select {columns}", {"namespace": namespace, "model": model})
        counts: dict[str, int] = dict(zip(_COUNTS, found, strict=True))
        models: dict[str, int] = dict(connection.fetch(_COUNT_BY_MODEL, {"namespace": namespace}))
        schema = connection.fetch_value("select max(name) from _migrations")
    vectors = models.get(model, 0) if model else 0
    return Stats(
        path=backend.database.path,
        namespace=namespace,
        vectors=vectors,
        pending=counts["memories"] - vectors if model else 0,
        model=model,
        models=models,
        size_bytes=backend.measure_size(),
        schema=schema,
        database=backend.version,
        **counts,
    )


def count_memories(database: Database, namespace: str) -> tuple[int, int]:
    """Return the number of live memories of a namespace, and of their vectors; none where they cannot be counted."""
    try:
        with database.snapshot() as connection:
            memories, vectors = connection.fetch_value(
                f"""
                select ({_COUNTS["memories"]}), (
                    select count(*) from vectors v join memories m on m.rid = v.rid {_LIVE})
                """,
                {"namespace": namespace},
            )
        return memories, vectors
    except StoreCorrupt:
        return 0, 0


_OWN_MEMORIES = f"from memories where namespace = :namespace and rid not in ({select_expired('@now')})"
_LIVE = f"where m.namespace = :namespace and m.deleted_at is null and m.rid not in ({select_expired('@now')})"
_OWN_CHUNKS = "from chunks c join documents d on d.did = c.did where d.namespace = :namespace"
_COUNTS = {
    "memories": f"select count(*) {_OWN_MEMORIES} and deleted_at is null",
    "deleted": f"select count(*) {_OWN_MEMORIES} and deleted_at is not null",
    "projects": f"select count(distinct project) {_OWN_MEMORIES} and deleted_at is null",
    "superseded": f"select count(*) {_OWN_MEMORIES} and deleted_at is null and valid_until is not null",
    "pinned": f"select count(*) {_OWN_MEMORIES} and deleted_at is null and pinned <> 0",
    "facts": f"select count(*) from facts f join memories m on m.rid = f.rid {_LIVE}",
    "relations": f"""
        select count(*) from relations r join memories m on m.rid = r.source
        {_LIVE} and r.valid_until is null and r.kind <> '{SUPERSEDES}'
    """,
    "sessions": "select count(*) from sessions where namespace = :namespace and deleted_at is null",
    "recalls": "select count(*) from recalls where namespace = :namespace",
    "documents": "select count(*) from documents where namespace = :namespace",
    "chunks": f"select count(*) {_OWN_CHUNKS}",
    "chunks_pending": f"""
        select count(*) {_OWN_CHUNKS} and cast(:model as text) is not null and not exists (
            select 1 from vectors v where v.rid = c.rid and v.model = (select model from models where name = :model))
    """,
}
_COUNT_BY_MODEL = f"""
    select o.name, count(*)
    from vectors v join models o on o.model = v.model join memories m on m.rid = v.rid
    {_LIVE}
    group by o.name
"""
