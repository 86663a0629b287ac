"""
Files kept by agents: memories of kind `file`, with the path as their source.

Like a turn, such a memory is known by its id, so that two files may have the same text. The methods here see to it,
within their transactions, that a path is used once.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import apsw

from memorist import validation
from memorist.errors import AlreadyExists, InvalidInput, NotFound
from memorist.records import FILE, Memory, MemoryDraft
from memorist.store.records import AddResult, EmbeddingJob
from memorist.store.sqlite.connections import ConnectionPool, fetch
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.rows import memory_columns, to_memory
from memorist.store.sqlite.writes import as_json, identity_hash, insert_memory, update_memory

KeyedMemories = list[tuple[int, Memory]]


class SqliteAgentFiles:
    """Files by path, within a project or outside of all. A folder is a common beginning of their paths."""

    def __init__(self, pool: ConnectionPool, namespace: str) -> None:
        self._pool = pool
        self._namespace = namespace

    def list_files(self, path: str, project: str | None) -> list[Memory]:
        with self._pool.reading() as connection:
            return [memory for _, memory in self._find_at_or_under(connection, path, project)]

    def create(self, draft: MemoryDraft) -> AddResult:
        path = draft.source or ""
        with self._pool.writing() as connection:
            self._require_free(connection, path, draft.project)
            rid = insert_memory(connection, self._namespace, draft, identity_hash(draft.id, draft.content))
            assert rid is not None, "its id is new"
            ((_, memory),) = self._find_at_or_under(connection, path, draft.project)
            return AddResult(memory, EmbeddingJob(rid, draft.title, draft.content))

    def edit(
        self, path: str, project: str | None, change: Callable[[Memory], Mapping[str, Any]], now: datetime
    ) -> tuple[Memory, EmbeddingJob | None]:
        with self._pool.writing() as connection:
            found = self._require(connection, path, project)
            rid, memory = found[0]
            if memory.source != path:
                raise InvalidInput(f"{path} is a folder, not a file")
            return update_memory(connection, rid, memory, change(memory), to_micros(now))

    def move(self, path: str, to: str, project: str | None, now: datetime) -> int:
        with self._pool.writing() as connection:
            self._require_free(connection, to, project)
            moved = self._require(connection, path, project)
            if to.startswith(f"{path}/"):
                raise InvalidInput(f"{path} cannot be moved into itself")
            for rid, memory in moved:
                target = validation.file_path(to + (memory.source or "")[len(path) :])
                update_memory(connection, rid, memory, {"source": target}, to_micros(now))
            return len(moved)

    def forget(self, path: str, project: str | None, now: datetime) -> int:
        with self._pool.writing() as connection:
            forgotten = self._require(connection, path, project)
            connection.executemany(
                "update memories set deleted_at = ? where rid = ?", [(to_micros(now), rid) for rid, _ in forgotten]
            )
            return len(forgotten)

    def _require(self, connection: apsw.Connection, path: str, project: str | None) -> KeyedMemories:
        found = self._find_at_or_under(connection, path, project)
        if not found:
            raise NotFound(f"there is no file or folder {path}")
        return found

    def _require_free(self, connection: apsw.Connection, path: str, project: str | None) -> None:
        above = [str(folder) for folder in PurePosixPath(path).parents]
        for _, memory in self._find_at_or_under(connection, path, project, above):
            if memory.source in above:
                raise InvalidInput(f"{memory.source} is a file, not a folder")
            raise AlreadyExists(f"{path} exists already")

    def _find_at_or_under(
        self, connection: apsw.Connection, path: str, project: str | None, also: Sequence[str] = ()
    ) -> KeyedMemories:
        """
        Return the file of a path or all files of a folder, and those of `also`, by path.

        Two files may have one path if one of them was restored: the newer one comes first.
        """
        folder = path.rstrip("/")
        rows = fetch(
            connection,
            f"""
            select m.rid, {memory_columns()}
            from memories m
            where m.namespace = :namespace and m.project is :project and m.kind = :kind and m.deleted_at is null
              and (m.source in (select value from json_each(:paths)) or (m.source > :first and m.source < :last))
            order by m.source, m.rid desc
            """,
            {
                "namespace": self._namespace,
                "project": project,
                "kind": FILE,
                "paths": as_json([path, *also]),
                "first": f"{folder}/",
                "last": f"{folder}0",  # the character after the slash
            },
        )
        return [(row[0], to_memory(row[1:])) for row in rows]
