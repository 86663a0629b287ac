"""The feed of changes: what came into a namespace after a position in its logs, whichever process wrote it."""

from collections.abc import Mapping
from typing import Any

from memorist.store.database import Connection
from memorist.store.rows import StorePart

_MAX_IDS = 200  # of one kind in one change; whoever gets as many loads everything again

# For each kind of change: the ascending key of its log, the id that it tells of, and the rows of a namespace. The last
# row is found from the end of the log (`@plain`: and not by an index of the namespace).
_OF_MEMORY = "{} t join memories m on m.rid = t.rid where @plain(m.namespace) = :namespace"
_NAMED = "{} t where @plain(t.namespace) = :namespace"
_LOGS: Mapping[str, tuple[str, str, str]] = {
    "memories": ("rid", "t.id", _NAMED.format("memories")),
    "strengths": ("change", "m.id", _OF_MEMORY.format("strength_history")),
    "facts": ("fact", "m.id", _OF_MEMORY.format("facts")),
    "relations": (
        "relation",
        "m.id",
        "relations t join memories m on m.rid in (t.source, t.target) where @plain(m.namespace) = :namespace",
    ),
    "recalls": ("recall", "t.id", _NAMED.format("recalls")),
    "sessions": ("sid", "t.id", _NAMED.format("sessions")),
    "documents": ("did", "t.id", _NAMED.format("documents")),
    "feedback": ("feedback", "m.id", _OF_MEMORY.format("feedback")),
}
KINDS = tuple(_LOGS)
_COUNT_CHANGE = """
    insert into namespace_changes(namespace, changes) values (:namespace, 1)
    on conflict @unique(namespace) do update set changes = namespace_changes.changes + 1
"""

Positions = Mapping[str, int]


def count_change(connection: Connection, namespace: str) -> None:
    """Count a transaction that has written to a namespace, at its end."""
    connection.execute(_COUNT_CHANGE, {"namespace": namespace})


class FeedStore(StorePart):
    """The feed of one namespace."""

    def read_mark(self) -> str:
        """Return a mark that changes with all that is written to this namespace; cheap enough to ask every moment."""
        with self._pool.reading() as connection:
            sql = "select changes from namespace_changes where namespace = ?"
            return str(connection.fetch_value(sql, (self.namespace,)) or 0)

    def read_positions(self, after: Positions | None = None) -> dict[str, int]:
        """
        Return the last key of every log in this namespace: those of others would tell how much they write.

        Beyond known positions, only what is new is read: other namespaces may have written all the rest.
        """
        with self._pool.reading() as connection:
            return {kind: self._read_position(connection, kind, (after or {}).get(kind, 0)) for kind in _LOGS}

    def _read_position(self, connection: Connection, kind: str, after: int) -> int:
        key, _, rows = _LOGS[kind]
        sql = f"select t.{key} from {rows} and t.{key} > :after order by t.{key} desc limit 1"
        return int(connection.fetch_value(sql, {"namespace": self.namespace, "after": after}) or after)

    def list_new(self, after: Positions, until: Positions) -> dict[str, list[str]]:
        """Return the ids of what was logged between two positions, by kind."""
        with self._pool.reading() as connection:
            return {
                kind: ids
                for kind in _LOGS
                if after.get(kind, 0) < until.get(kind, 0) and (ids := self._list_ids(connection, kind, after, until))
            }

    def _list_ids(self, connection: Connection, kind: str, after: Positions, until: Positions) -> list[str]:
        key, id, rows = _LOGS[kind]
        values: dict[str, Any] = {"after": after.get(kind, 0), "until": until[kind], "namespace": self.namespace}
        sql = f"select distinct {id} from {rows} and t.{key} > :after and t.{key} <= :until limit {_MAX_IDS}"
        return [found for (found,) in connection.fetch(sql, values)]
