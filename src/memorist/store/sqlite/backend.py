"""SQLite as the backend of a store: one file, or a database in memory."""

from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw

from memorist.errors import StoreCorrupt
from memorist.reports import CheckReport
from memorist.store.database import Connection
from memorist.store.documents import CHUNK_SUFFIX
from memorist.store.export import select_namespaces
from memorist.store.feed import count_change
from memorist.store.image_follower import IMAGE_BYTES, Followers
from memorist.store.migrations import Migrations, load_migrations, migrate, refuse_newer
from memorist.store.sqlite.backup import BEFORE_REPAIR, BEFORE_RESTORE, back_up_database
from memorist.store.sqlite.check import check_database, make_missing_indexes
from memorist.store.sqlite.connections import BEFORE_REPLACEMENT, ConnectionPool, SqliteSchema
from memorist.store.sqlite.copies import COMPANIONS
from memorist.store.sqlite.keyword import MERGE_EVERY, merge_index_segments
from memorist.store.sqlite.keyword_index import SqliteKeywordIndex
from memorist.store.sqlite.maintenance import purge_indexes, shorten_log, wipe_file
from memorist.store.sqlite.vectors import SqliteVectors

_COPIES = (
    "[0-9][0-9][0-9]-",
    BEFORE_RESTORE,
    BEFORE_REPAIR,
    BEFORE_REPLACEMENT,
)  # the first: by migrations, of any version


class SqliteBackend:
    """One SQLite file, created where there is none; `path` may be ":memory:"."""

    def __init__(
        self,
        path: str,
        *,
        namespace: str = "default",
        read_only: bool = False,
        busy_timeout: float = 30.0,
        synchronous: str = "full",
        image_bytes: int = IMAGE_BYTES,
        migrations: Migrations | None = None,
    ) -> None:
        self.database = ConnectionPool(path, read_only=read_only, busy_timeout=busy_timeout, synchronous=synchronous)
        self._migrations = load_migrations("sqlite") if migrations is None else migrations
        self._unmerged = 0
        self.images = Followers(self.database, image_bytes)
        try:
            with self.database.reading() as connection:
                migrate(SqliteSchema(self.database, connection), self._migrations)
            if migrations is None:
                make_missing_indexes(self.database)
                self.database.before_commit = partial(_end_writing, namespace=namespace)
        except BaseException:
            self.database.close()
            raise

    @property
    def version(self) -> str:
        return f"SQLite {apsw.sqlite_lib_version()}"

    @property
    def searches_in_memory(self) -> bool:
        return True

    @property
    def own_files(self) -> tuple[str, ...]:
        return () if self.database.in_memory else tuple(self.database.file + end for end in ("", *COMPANIONS))

    def open_keyword_index(self, namespace: str) -> SqliteKeywordIndex:
        return SqliteKeywordIndex(namespace, self.images.follow(namespace))

    def open_vectors(self, namespace: str) -> SqliteVectors:
        return SqliteVectors(self.database, namespace)

    def optimize(self, connection: Connection, added: int) -> None:
        if added < MERGE_EVERY:  # a large batch is one segment, and FTS5 itself merges a few of those
            self._unmerged += added
        if self._unmerged >= MERGE_EVERY:
            merge_index_segments(connection)
            self._unmerged = 0

    def purge(self, connection: Connection) -> None:
        purge_indexes(connection)

    def wipe(self, *, copies: bool) -> None:
        wipe_file(self.database, _COPIES if copies else ())

    def measure_size(self) -> int:
        if self.database.in_memory:
            with self.database.reading() as connection:
                return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
        path = self.database.path
        return sum(file.stat().st_size for suffix in ("", "-wal") if (file := Path(path + suffix)).exists())

    def list_namespaces(self) -> list[str]:
        with self.database.reading() as connection:
            return [name for (name,) in connection.fetch(select_namespaces("namespace")) if CHUNK_SUFFIX not in name]

    def back_up(self, path: str, *, overwrite: bool) -> None:
        back_up_database(self.database, path, overwrite=overwrite)

    def check(self, namespace: str, *, repair: bool) -> CheckReport:
        # A newer program may have migrated it since: to this one, what that changed would look like damage.
        with suppress(StoreCorrupt), self.database.reading() as connection:
            refuse_newer(SqliteSchema(self.database, connection).load_applied(), self._migrations)
        return check_database(self.database, namespace, repair=repair)

    def close(self) -> None:
        self.images.close()
        self.database.close()


def _end_writing(connection: Connection, namespace: str) -> None:
    shorten_log(connection)
    count_change(connection, namespace)
