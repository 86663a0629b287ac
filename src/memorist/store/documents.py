"""Files: those that are indexed, with their chunks and links, and those that agents write."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memorist import validation
from memorist.errors import AlreadyExists, Hint, InvalidInput, NotFound
from memorist.file_records import ChunkDraft, ChunkLocation, Document, FileDraft, IndexedFile, StoredChunk
from memorist.ids import new_id
from memorist.records import FILE, Memory, MemoryDraft, Model
from memorist.store.database import Connection, Database
from memorist.store.filters import from_micros, is_unexpired, to_micros
from memorist.store.records import AddResult, EmbeddingJob
from memorist.store.rows import KeyedMemory, StorePart, memory_columns, read_keyed
from memorist.store.writes import as_json, identity_hash, insert_memory, update_memory
from memorist.text.tokenizer import unspaced_bigrams

if TYPE_CHECKING:
    from memorist.store.store import Store

CHUNK_SUFFIX = "\x1fdocuments"  # no name of a namespace can hold this character


def chunk_namespace(namespace: str) -> str:
    """Return the namespace that holds the chunks of a namespace's files."""
    return namespace + CHUNK_SUFFIX


def namespace_beside(namespace: str) -> str:
    """Return the namespace of a namespace's files, and that of its memories for the one of its files."""
    return namespace.removesuffix(CHUNK_SUFFIX) if namespace.endswith(CHUNK_SUFFIX) else chunk_namespace(namespace)


class DocumentStore(StorePart):
    """The files of one namespace; `chunks` is the store in which their chunks are found."""

    def __init__(self, pool: Database, namespace: str, chunks: "Store") -> None:
        super().__init__(pool, namespace)
        self.chunks = chunks

    def is_empty(self) -> bool:
        """Return whether no file is indexed."""
        with self._pool.reading() as connection:
            return not connection.fetch("select 1 from documents where namespace = ? limit 1", (self.namespace,))

    def load_indexed_files(self) -> dict[str, IndexedFile]:
        """Return every indexed file, by path."""
        sql = "select did, path, root, size, modified_at, hash, project, redacted from documents where namespace = ?"
        with self._pool.reading() as connection:
            rows = connection.fetch(sql, (self.namespace,))
        return {row[1]: IndexedFile(*row) for row in rows}

    def load_chunk_texts(self, path: str) -> set[tuple[str | None, str]]:
        """Return the chunks of a file as heading and text: those need not be embedded again."""
        sql = """
            select m.title, m.content
            from documents d
            join chunks c on c.did = d.did
            join memories m on m.rid = c.rid
            where d.namespace = ? and d.path = ?
        """
        with self._pool.reading() as connection:
            return set(connection.fetch(sql, (self.namespace, path)))

    def put(
        self,
        files: Sequence[FileDraft],
        vectors: Mapping[tuple[str | None, str], NDArray[np.float32]],
        model: Model | None,
        now: datetime,
    ) -> None:
        """
        Store files in place of their earlier states, in one transaction. Unchanged chunks stay, with their vectors.

        `vectors` are those of new chunks, by heading and text; a chunk without one waits for it.
        """
        with self._pool.writing() as connection:
            added = []
            for file in files:
                key = self._put_document(connection, file, to_micros(now))
                added += self._put_chunks(connection, key, file, to_micros(now))
            ready = [text for text in added if (text.title, text.content) in vectors]
            if model is not None and ready:
                stacked = np.stack([vectors[text.title, text.content] for text in ready])
                self.chunks.vectors.write(connection, model, ready, stacked)

    def _put_document(self, connection: Connection, file: FileDraft, now: int) -> int:
        values = {
            "id": new_id(),
            "namespace": self.namespace,
            "now": now,
            "tags": as_json(file.tags),
            "front_matter": as_json(file.front_matter),
            "redacted": int(file.redacted),
        }
        values |= {
            name: getattr(file, name)
            for name in ("path", "root", "project", "title", "sector", "size", "modified_at", "hash")
        }
        key: int = connection.fetch_value(
            """
            insert into documents(
                id, namespace, path, root, project, title, sector, tags, front_matter, size, modified_at, hash,
                redacted, indexed_at)
            values (
                :id, :namespace, :path, :root, :project, :title, :sector, :tags, :front_matter, :size, :modified_at,
                :hash, :redacted, :now)
            on conflict @unique(namespace, path) do update set
                root = excluded.root, project = excluded.project, title = excluded.title, sector = excluded.sector,
                tags = excluded.tags, front_matter = excluded.front_matter, size = excluded.size,
                modified_at = excluded.modified_at, hash = excluded.hash, redacted = excluded.redacted,
                indexed_at = excluded.indexed_at
            returning did
            """,
            values,
        )
        connection.execute("delete from document_links where did = ?", (key,))
        connection.executemany(
            """
            insert into document_links(did, line, target, text) values (:did, :line, :target, :text)
            on conflict do nothing
            """,
            [{"did": key, "line": line, "target": target, "text": text} for line, target, text in file.links],
        )
        return key

    def _put_chunks(self, connection: Connection, key: int, file: FileDraft, now: int) -> list[EmbeddingJob]:
        """Bring the chunks of a file up to date; return the new ones."""
        old = connection.fetch(
            """
            select c.rid, m.title, m.content
            from chunks c join memories m on m.rid = c.rid
            where c.did = ?
            order by c.ordinal
            """,
            (key,),
        )
        free: dict[tuple[str | None, str], list[int]] = {}
        for rid, title, content in old:
            free.setdefault((title, content), []).append(rid)
        unchanged = {}
        for ordinal, chunk in enumerate(file.chunks):
            if same := free.get((chunk.heading, chunk.text)):
                unchanged[ordinal] = same.pop(0)
        removed = [rid for rids in free.values() for rid in rids]
        connection.execute("delete from memories where rid in @keys(:keys)", {"keys": json.dumps(removed)})
        added = []
        for ordinal, chunk in enumerate(file.chunks):
            rid = unchanged.get(ordinal)
            if rid is None:
                rid = self._insert_chunk(connection, file, chunk, now)
                added.append(EmbeddingJob(rid, chunk.heading, chunk.text))
            connection.execute(
                """
                insert into chunks(rid, did, ordinal, start_line, end_line, breadcrumb)
                values (?, ?, ?, ?, ?, ?)
                on conflict @unique(rid) do update set
                    ordinal = excluded.ordinal, start_line = excluded.start_line, end_line = excluded.end_line,
                    breadcrumb = excluded.breadcrumb
                """,
                (rid, key, ordinal, chunk.start_line, chunk.end_line, as_json(chunk.breadcrumb)),
            )
        self._update_labels(connection, key, file)
        return added

    def _update_labels(self, connection: Connection, key: int, file: FileDraft) -> None:
        """Give unchanged chunks the project, path, tags and sector of their file."""
        values = {
            "project": file.project,
            "path": file.path,
            "tags": as_json(file.tags),
            "sector": file.sector,
            "key": key,
        }
        outdated = connection.fetch(
            """
            select m.rid, m.title, m.content
            from chunks c join memories m on m.rid = c.rid
            where c.did = :key
              and (m.project is distinct from :project or m.source is distinct from :path
                or m.tags <> :tags or m.sector <> :sector)
            """,
            values,
        )
        connection.executemany(
            """
            update memories set project = :project, source = :path, tags = :tags, sector = :sector, segments = :segments
            where rid = :rid
            """,
            [
                values | {"rid": rid, "segments": unspaced_bigrams(title, text, *file.tags)}
                for rid, title, text in outdated
            ],
        )

    def _insert_chunk(self, connection: Connection, file: FileDraft, chunk: ChunkDraft, now: int) -> int:
        draft = MemoryDraft(
            id=new_id(),
            content=chunk.text,
            project=file.project,
            sector=file.sector,
            tier="project",
            kind="document",
            tags=file.tags,
            salience=0.5,
            source=file.path,
            title=chunk.heading,
            summary=None,
            metadata={},
            created_at=from_micros(file.modified_at // 1000),
            recorded_at=from_micros(now),
        )
        rid = insert_memory(connection, self.chunks.namespace, draft, identity_hash(draft.id, draft.content))
        assert rid is not None, "its id is new"
        return rid

    def touch(self, key: int, size: int, modified_at: int) -> None:
        """Record that a file was written again with the same content."""
        with self._pool.writing() as connection:
            connection.execute("update documents set size = ?, modified_at = ? where did = ?", (size, modified_at, key))

    def move(self, key: int, path: str, root: str, modified_at: int) -> None:
        """Record the new path of a file."""
        with self._pool.writing() as connection:
            connection.execute(
                "update documents set path = ?, root = ?, modified_at = ? where did = ?", (path, root, modified_at, key)
            )
            connection.execute(
                "update memories set source = ? where rid in (select rid from chunks where did = ?)", (path, key)
            )

    def remove(self, keys: Sequence[int]) -> int:
        with self._pool.writing() as connection:
            listed = json.dumps(list(keys))
            connection.execute(
                """
                delete from memories
                where rid in (select rid from chunks where did in @keys(:keys))
                """,
                {"keys": listed},
            )
            connection.execute(
                "delete from documents where namespace = :namespace and did in @keys(:keys)",
                {"namespace": self.namespace, "keys": listed},
            )
            return connection.changes()

    def list_documents(self, project: str | None, limit: int, after: str | None = None) -> list[Document]:
        """Return files by path; `after` is the path of the last one of the page before."""
        sql = f"""
            select {_COLUMNS} from documents d
            where d.namespace = :namespace and (cast(:project as text) is null or d.project = :project)
              and (cast(:after as text) is null or d.path > :after)
            order by d.path limit :limit
        """
        values = {"namespace": self.namespace, "project": project, "limit": limit, "after": after}
        with self._pool.reading() as connection:
            return [_to_document(row) for row in connection.fetch(sql, values)]

    def locate_chunks(self, keys: Sequence[int]) -> dict[int, ChunkLocation]:
        """Return the locations of chunks, by key."""
        sql = """
            select c.rid, d.id, d.path, d.title, c.breadcrumb, c.start_line, c.end_line, c.ordinal
            from @keys(:keys) k
            @then chunks c on c.rid = k.value
            @then documents d on d.did = c.did
            where d.namespace = :namespace
        """
        with self._pool.reading() as connection:
            rows = connection.fetch(sql, {"keys": json.dumps(list(keys)), "namespace": self.namespace})
        return {
            rid: ChunkLocation(id, path, title, tuple(json.loads(breadcrumb)), start, end, ordinal)
            for rid, id, path, title, breadcrumb, start, end, ordinal in rows
        }

    def load_chunk_ranges(self, ranges: Sequence[tuple[str, int, int]]) -> list[list[StoredChunk]]:
        """Return the chunks of each range: the id of a file, the first and the last ordinal."""
        wanted = ", ".join(f"({number}, :id{number}, :first{number}, :last{number})" for number in range(len(ranges)))
        sql = f"""
            with wanted(number, id, first, last) as (values {wanted})
            select w.number, m.content, c.start_line, c.end_line, c.ordinal
            from wanted w
            join documents d on d.namespace = :namespace and d.id = w.id
            join chunks c on c.did = d.did and c.ordinal between w.first and w.last
            join memories m on m.rid = c.rid
            order by w.number, c.ordinal
        """
        values: dict[str, Any] = {"namespace": self.namespace}
        for number, (id, first, last) in enumerate(ranges):
            values |= {f"id{number}": id, f"first{number}": first, f"last{number}": last}
        found: list[list[StoredChunk]] = [[] for _ in ranges]
        if ranges:
            with self._pool.reading() as connection:
                for number, *chunk in connection.fetch(sql, values):
                    found[number].append(StoredChunk(*chunk))
        return found

    def get(self, path: str) -> Document:
        sql = f"select {_COLUMNS} from documents d where d.namespace = ? and d.path = ?"
        with self._pool.reading() as connection:
            rows = connection.fetch(sql, (self.namespace, path))
        if not rows:
            raise NotFound(f"{path} is not indexed", hint=Hint("index_file", path))
        return _to_document(rows[0])

    def list_links(self) -> list[tuple[str, int, str, str]]:
        """Return every link of every file as the file's path, the line, the target and the text."""
        sql = """
            select d.path, l.line, l.target, l.text
            from documents d join document_links l on l.did = d.did
            where d.namespace = ?
            order by d.path, l.line
        """
        with self._pool.reading() as connection:
            return connection.fetch(sql, (self.namespace,))


_COLUMNS = """
    d.id, d.path, d.root, d.project, d.title, d.sector, d.tags, d.front_matter, d.size, d.indexed_at,
    (select count(*) from chunks c where c.did = d.did)
"""


def _to_document(row: Sequence[Any]) -> Document:
    id, path, root, project, title, sector, tags, front_matter, size, indexed_at, chunks = row
    return Document(
        id, path, root, project, title, sector, tuple(json.loads(tags)), json.loads(front_matter), size,
        from_micros(indexed_at), chunks,
    )  # fmt: skip


class AgentFileStore(StorePart):
    """
    Files kept as memories, by path, within a project or outside of all. A folder is a common beginning of their paths.

    Like a turn, such a memory is known by its id, so that two files may have the same text. The methods here see to it,
    within their transactions, that a path is used once.
    """

    def list_files(self, path: str, project: str | None) -> list[Memory]:
        """Return the file of a path or those of a folder, by path; of files with the same path, the newest first."""
        with self._pool.reading() as connection:
            return [memory for _, memory in self._find_at_or_under(connection, path, project)]

    def create(self, draft: MemoryDraft) -> AddResult:
        path = draft.source or ""
        with self._pool.writing() as connection:
            self._require_free(connection, path, draft.project)
            rid = insert_memory(connection, self.namespace, draft, identity_hash(draft.id, draft.content))
            assert rid is not None, "its id is new"
            ((_, memory),) = self._find_at_or_under(connection, path, draft.project)
            return AddResult(memory, True, EmbeddingJob(rid, draft.title, draft.content))

    def edit(
        self, path: str, project: str | None, change: Callable[[Memory], Mapping[str, Any]], now: datetime
    ) -> tuple[Memory, EmbeddingJob | None]:
        """Apply the changes that a function of the file returns; it is called while nobody else can write."""
        with self._pool.writing() as connection:
            rid, memory = self._require(connection, path, project)[0]
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
                "update memories set deleted_at = :now where rid = :rid",
                [{"now": to_micros(now), "rid": rid} for rid, _ in forgotten],
            )
            return len(forgotten)

    def _require(self, connection: Connection, path: str, project: str | None) -> list[KeyedMemory]:
        found = self._find_at_or_under(connection, path, project)
        if not found:
            raise NotFound(f"there is no file or folder {path}")
        return found

    def _require_free(self, connection: Connection, path: str, project: str | None) -> None:
        above = [str(folder) for folder in PurePosixPath(path).parents]
        for _, memory in self._find_at_or_under(connection, path, project, above):
            if memory.source in above:
                raise InvalidInput(f"{memory.source} is a file, not a folder")
            raise AlreadyExists(f"{path} exists already")

    def _find_at_or_under(
        self, connection: Connection, path: str, project: str | None, also: Sequence[str] = ()
    ) -> list[KeyedMemory]:
        """
        Return the file of a path or all files of a folder, and those of `also`, by path.

        Two files may have one path if one of them was restored: the newer one comes first.
        """
        folder = path.rstrip("/")
        rows = connection.fetch(
            f"""
            select m.rid, {memory_columns()}
            from memories m
            where m.namespace = :namespace and m.project is not distinct from :project and m.kind = :kind
              and m.deleted_at is null and {is_unexpired("m")}
              and (m.source in @texts(:paths) or (m.source > :first and m.source < :last))
            order by m.source, m.rid desc
            """,
            {
                "namespace": self.namespace,
                "project": project,
                "kind": FILE,
                "paths": as_json([path, *also]),
                "first": f"{folder}/",
                "last": f"{folder}0",  # the character after the slash
            },
        )
        return read_keyed(connection, rows)
