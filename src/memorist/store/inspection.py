"""Reading for a person who looks around: turns and chunks in their order, growth day by day, facts that have faded."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from memorist.arguments import Filter
from memorist.errors import NotFound
from memorist.records import Fact, Memory
from memorist.store.filters import filter_conditions, is_unexpired, to_micros
from memorist.store.rows import StorePart, memory_columns, read_keyed, to_fact

_DAY = 86_400_000_000  # in microseconds
_FACT_COLUMNS = (
    "f.id, f.text, f.kind, f.subject, f.predicate, f.object, f.confidence, f.decay_rate, f.created_at, f.reinforced_at"
)


class InspectionStore(StorePart):
    """Reads what a person looks at in one namespace."""

    def list_turns(self, session: str, after: int, limit: int) -> list[tuple[int, Memory]]:
        """Return the live memories created in a session, by their position in it."""
        sql = f"""
            select u.position, {memory_columns()}
            from sessions s
            @then session_memories u on u.sid = s.sid
            @then memories m on m.rid = u.rid
            where s.namespace = :namespace and s.id = :session and u.usage = 'created' and u.position > :after
              and m.deleted_at is null and {is_unexpired("m")}
            order by u.position
            limit :limit
        """
        values = {"namespace": self.namespace, "session": session, "after": after, "limit": limit}
        with self._pool.reading() as connection:
            return read_keyed(connection, connection.fetch(sql, values))

    def list_projects(self, filter: Filter, under: str | None) -> list[str]:
        """Return the projects of memories that pass a filter, sorted: all of them, or `under` and those below it."""
        where, values = filter_conditions(replace(filter, hide_expired=True))
        if under is not None:
            # A slash leads to what is below, and a zero is the next character.
            where += " and m.project >= :under and m.project < :end and (m.project = :under or m.project >= :below)"
            values |= {"under": under, "below": f"{under}/", "end": f"{under}0"}
        sql = f"""
            select distinct m.project from memories m @hint(memories_scope)
            where m.namespace = :namespace and m.deleted_at is null and m.project is not null {where}
            order by m.project
        """
        with self._pool.reading() as connection:
            return [project for (project,) in connection.fetch(sql, values | {"namespace": self.namespace})]

    def find_document_path(self, id: str) -> str:
        """Return the path of the indexed file with this id."""
        sql = "select path from documents where namespace = ? and id = ?"
        with self._pool.reading() as connection:
            path: str | None = connection.fetch_value(sql, (self.namespace, id))
        if path is None:
            raise NotFound(f"no indexed file has the id {id!r}")
        return path

    def list_chunks(self, document: str, after: int, limit: int) -> list[tuple[str, str, str, int, int, int]]:
        """Return the chunks of a file: id, text, breadcrumb as JSON, first and last line, and ordinal."""
        sql = """
            select m.id, m.content, c.breadcrumb, c.start_line, c.end_line, c.ordinal
            from documents d
            join chunks c on c.did = d.did
            join memories m on m.rid = c.rid
            where d.namespace = :namespace and d.id = :document and c.ordinal > :after
            order by c.ordinal
            limit :limit
        """
        values = {"namespace": self.namespace, "document": document, "after": after, "limit": limit}
        with self._pool.reading() as connection:
            return [tuple(row) for row in connection.fetch(sql, values)]

    def count_by_day(self, since: datetime) -> dict[str, dict[int, int]]:
        """Return how many memories and recalls there are of each day (of UTC, since 1970), and recalls that helped."""
        counts = {
            "created": f"""
                select created_at / {_DAY}, count(*) from memories m
                where namespace = :namespace and deleted_at is null and created_at >= :since and {is_unexpired("m")}
                group by 1
            """,
            "recorded": f"""
                select recorded_at / {_DAY}, count(*) from memories m
                where namespace = :namespace and deleted_at is null and recorded_at >= :since and {is_unexpired("m")}
                group by 1
            """,
            "recalls": f"""
                select at / {_DAY}, count(*) from recalls where namespace = :namespace and at >= :since group by 1
            """,
            "relevant": f"""
                select r.at / {_DAY}, count(distinct r.recall) from recalls r join recalled h on h.recall = r.recall
                where r.namespace = :namespace and r.at >= :since and h.relevance >= 0.5 group by 1
            """,
        }
        values = {"namespace": self.namespace, "since": to_micros(since)}
        with self._pool.snapshot() as connection:
            return {name: dict(connection.fetch(sql, values)) for name, sql in counts.items()}

    def list_facts(self, project: str | None, offset: int, limit: int) -> list[Fact]:
        """Return facts of live memories, of one project or all, those confirmed longest ago first."""
        where = "" if project is None else "and m.project = :project"
        sql = f"""
            select m.id, {_FACT_COLUMNS}
            from facts f join memories m on m.rid = f.rid
            where m.namespace = :namespace and m.deleted_at is null and m.valid_until is null
              and {is_unexpired("m")} {where}
            order by f.reinforced_at, f.fact
            limit :limit offset :offset
        """
        values = {"namespace": self.namespace, "project": project, "limit": limit, "offset": offset}
        with self._pool.reading() as connection:
            return [to_fact(memory, columns) for memory, *columns in connection.fetch(sql, values)]

    def list_linked_pairs(self, kind: str, ids: Sequence[str]) -> set[tuple[str, str]]:
        """Return the pairs of memories that a relation of this kind links now, where one of them is among `ids`."""
        if not ids:
            return set()
        names = {f"id{number}": id for number, id in enumerate(ids)}
        sql = f"""
            select a.id, b.id
            from relations r join memories a on a.rid = r.source join memories b on b.rid = r.target
            where r.kind = :kind and r.valid_until is null and a.namespace = :namespace
              and (a.id in ({", ".join(f":{name}" for name in names)})
                or b.id in ({", ".join(f":{name}" for name in names)}))
        """
        with self._pool.reading() as connection:
            rows = connection.fetch(sql, {"kind": kind, "namespace": self.namespace, **names})
        return {(source, target) for source, target in rows}
