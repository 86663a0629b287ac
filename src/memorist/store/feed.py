"""The feed of changes: what came into a namespace after a position in its logs, whichever process wrote it."""

from collections.abc import Mapping
from typing import Any

from memorist.store.database import Connection
from memorist.store.rows import StorePart

_MAX_IDS = 200  # of one kind in one change; whoever gets as many loads everything again

# For each kind of change: the table whose ascending key is its log, the key, and the ids that it tells of.
_OF_MEMORY = "select distinct m.id from {table} t join memories m on m.rid = t.rid where m.namespace = :namespace and"
_LOGS: Mapping[str, tuple[str, str, str]] = {
    "memories": ("memories", "rid", "select t.id from memories t where t.namespace = :namespace and"),
    "strengths": ("strength_history", "change", _OF_MEMORY.format(table="strength_history")),
    "facts": ("facts", "fact", _OF_MEMORY.format(table="facts")),
    "relations": (
        "relations",
        "relation",
        """
        select distinct m.id from relations t join memories m on m.rid in (t.source, t.target)
        where m.namespace = :namespace and
        """,
    ),
    "recalls": ("recalls", "recall", "select t.id from recalls t where t.namespace = :namespace and"),
    "sessions": ("sessions", "sid", "select t.id from sessions t where t.namespace = :namespace and"),
    "documents": ("documents", "did", "select t.id from documents t where t.namespace = :namespace and"),
    "feedback": ("feedback", "feedback", _OF_MEMORY.format(table="feedback")),
}
KINDS = tuple(_LOGS)

Positions = Mapping[str, int]


class FeedStore(StorePart):
    """The feed of one namespace."""

    def read_mark(self) -> str:
        """Return a mark that changes with everything that is written; cheap enough to ask for every moment."""
        return self._pool.read_mark()

    def read_positions(self) -> dict[str, int]:
        """Return the last key of every log."""
        latest = ", ".join(f"(select coalesce(max({key}), 0) from {table})" for table, key, _ in _LOGS.values())
        with self._pool.reading() as connection:
            return dict(zip(_LOGS, connection.fetch_value(f"select {latest}"), strict=True))

    def list_new(self, after: Positions, until: Positions) -> dict[str, list[str]]:
        """Return the ids of what was logged between two positions, by kind."""
        with self._pool.reading() as connection:
            return {
                kind: ids
                for kind in _LOGS
                if after.get(kind, 0) < until.get(kind, 0) and (ids := self._list_ids(connection, kind, after, until))
            }

    def _list_ids(self, connection: Connection, kind: str, after: Positions, until: Positions) -> list[str]:
        _, key, select = _LOGS[kind]
        values: dict[str, Any] = {"after": after.get(kind, 0), "until": until[kind], "namespace": self.namespace}
        rows = connection.fetch(f"{select} t.{key} > :after and t.{key} <= :until limit {_MAX_IDS}", values)
        return [id for (id,) in rows]
