"""
The files that an agent keeps: memories of their own kind, with the path as their source. Like a turn, such a memory is
known by its id, so that two files may say the same; that a path is taken once is seen to here, within the transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import apsw

from memorist import validation
from memorist.errors import AlreadyExists, InvalidInput, NotFound
from memorist.records import FILE, Memory, MemoryDraft
from memorist.store.base import AddResult, EmbeddingJob
from memorist.store.sqlite.connections import ConnectionPool, fetch
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.rows import columns, memory_of
from memorist.store.sqlite.writes import as_json, hash_by_id, insert, update

Files = list[tuple[int, Memory]]


class SqliteAgentFiles:
    """Files by path, within a project or outside of all. A folder is what the paths of files have in common."""

    def __init__(self, pool: ConnectionPool, namespace: str) -> None:
        self._pool = pool
        self._namespace = namespace

    def files(self, path: str, project: str | None) -> list[Memory]:
        with self._pool.reading() as connection:
            return [memory for _, memory in self._at_or_under(connection, path, project)]

    def create(self, draft: MemoryDraft) -> AddResult:
        path = draft.source or ""
        with self._pool.writing() as connection:
            self._require_free(connection, path, draft.project)
            rid = insert(connection, self._namespace, draft, hash_by_id(draft.id, draft.content))
            assert rid is not None, "its id is new"
            ((_, memory),) = self._at_or_under(connection, path, draft.project)
            return AddResult(memory, EmbeddingJob(rid, draft.title, draft.content))

    def edit(
        self, path: str, project: str | None, change: Callable[[Memory], Mapping[str, Any]], now: datetime
    ) -> tuple[Memory, EmbeddingJob | None]:
        with self._pool.writing() as connection:
            found = self._require(connection, path, project)
            rid, memory = found[0]
            if memory.source != path:
                raise InvalidInput(f"{path} is a folder, not a file")
            return update(connection, rid, memory, change(memory), to_micros(now))

    def move(self, path: str, to: str, project: str | None, now: datetime) -> int:
        with self._pool.writing() as connection:
            self._require_free(connection, to, project)
            moved = self._require(connection, path, project)
            if to.startswith(f"{path}/"):
                raise InvalidInput(f"{path} cannot be moved into itself")
            for rid, memory in moved:
                place = validation.file_path(to + (memory.source or "")[len(path) :])
                update(connection, rid, memory, {"source": place}, to_micros(now))
            return len(moved)

    def forget(self, path: str, project: str | None, now: datetime) -> int:
        with self._pool.writing() as connection:
            gone = self._require(connection, path, project)
            connection.executemany(
                "update memories set deleted_at = ? where rid = ?", [(to_micros(now), rid) for rid, _ in gone]
            )
            return len(gone)

    def _require(self, connection: apsw.Connection, path: str, project: str | None) -> Files:
        found = self._at_or_under(connection, path, project)
        if not found:
            raise NotFound(f"there is no file or folder {path}")
        return found

    def _require_free(self, connection: apsw.Connection, path: str, project: str | None) -> None:
        above = [str(folder) for folder in PurePosixPath(path).parents]
        for _, memory in self._at_or_under(connection, path, project, above):
            if memory.source in above:
                raise InvalidInput(f"{memory.source} is a file, not a folder")
            raise AlreadyExists(f"{path} is there already")

    def _at_or_under(
        self, connection: apsw.Connection, path: str, project: str | None, also: Sequence[str] = ()
    ) -> Files:
        """
        The file of this path, or all files of this folder, by path. Two can have taken one path, where one was
        restored: the newer stands before the other. `also` are paths to look at besides.
        """
        folder = path.rstrip("/")
        rows = fetch(
            connection,
            f"""
            select m.rid, {columns()}
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
                "last": f"{folder}0",  # what comes after the slash
            },
        )
        return [(row[0], memory_of(row[1:])) for row in rows]
