"""This database, as migrations see it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from memorist.errors import StoreError
from memorist.store.sqlite_pool import APPLICATION_ID, Pool, fetch, value


class Schema:
    """What `migrations.Database` asks for, on SQLite."""

    def __init__(self, pool: Pool, connection: apsw.Connection) -> None:
        self._pool, self._connection = pool, connection

    def applied(self) -> dict[str, str]:
        # Asked of the file: `table_exists` answers from the schema this connection read some time before.
        if not value(self._connection, "select 1 from sqlite_master where name = '_migrations'"):
            return {}
        return dict(fetch(self._connection, "select name, sha256 from _migrations"))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._pool.read_only:
            raise StoreError(f"{self._pool.path} has an older schema; open it once for writing to bring it up to date")
        with self._pool.transaction(self._connection, "begin immediate"):
            yield

    def apply(self, name: str, sql: str, digest: str) -> None:
        self._connection.execute("create table if not exists _migrations(name text primary key, sha256 text not null)")
        self._connection.execute(sql)
        self._connection.execute("insert into _migrations(name, sha256) values (?, ?)", (name, digest))
        self._connection.pragma("application_id", APPLICATION_ID)

    def keep_copy(self, before: str) -> None:
        """The whole database as it was before a migration, in a file beside it. Called with the write lock held."""
        if self._pool.in_memory or self._pool.read_only:
            return
        target = Path(f"{self._pool.file}.before-{before}")
        part = target.with_name(target.name + ".part")
        part.unlink(missing_ok=True)
        copy = apsw.Connection(str(part))
        try:
            # Another connection: one that writes cannot be copied from.
            with self._pool.reading() as source, copy.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(1000)
        finally:
            copy.close()
        part.replace(target)
