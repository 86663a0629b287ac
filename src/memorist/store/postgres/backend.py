"""PostgreSQL as the backend of a store: one namespace of a database on a server."""

from memorist.errors import InvalidInput, StoreError
from memorist.reports import CheckReport, DistributionReport
from memorist.store.database import Connection
from memorist.store.export import select_namespaces
from memorist.store.feed import count_change
from memorist.store.image_follower import IMAGE_BYTES, Followers
from memorist.store.postgres.check import check_database
from memorist.store.postgres.citus import SIZE, distribute
from memorist.store.postgres.connections import PostgresDatabase
from memorist.store.postgres.keyword import PostgresKeywordIndex
from memorist.store.postgres.text_index import index_queued
from memorist.store.postgres.vectors import PostgresVectors

_SIZE = "select pg_database_size(current_database())"
_MANY = 100  # memories, after which a table is not what it was


class PostgresBackend:
    """A database on a server, seen by one namespace."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str,
        read_only: bool = False,
        busy_timeout: float = 30.0,
        image_bytes: int = IMAGE_BYTES,
    ) -> None:
        self.database = PostgresDatabase(url, namespace=namespace, read_only=read_only, busy_timeout=busy_timeout)
        self.database.before_commit = self._end_transaction
        if not read_only:
            self._index_waiting()
        self.images = Followers(self.database, image_bytes, counts_apart=True)
        self._image_bytes = image_bytes
        self._added = 0  # memories since plans were made anew

    def _index_waiting(self) -> None:
        """Index the texts that a newer schema has queued; each other namespace does so when it is opened."""
        with self.database.reading() as connection:
            is_waiting = connection.fetch_value("select exists (select 1 from unindexed)")
        if is_waiting:
            with self.database.writing():
                pass  # which indexes them before it ends

    def _end_transaction(self, connection: Connection) -> None:
        index_queued(connection)
        count_change(connection, self.database.namespace)

    @property
    def version(self) -> str:
        with self.database.reading() as connection:
            return f"PostgreSQL {connection.fetch_value('show server_version')}".partition(" (")[0]

    @property
    def searches_in_memory(self) -> bool:
        return False

    @property
    def own_files(self) -> tuple[str, ...]:
        return ()

    def open_keyword_index(self, namespace: str) -> PostgresKeywordIndex:
        return PostgresKeywordIndex(namespace, self.images.follow(namespace))

    def open_vectors(self, namespace: str) -> PostgresVectors:
        return PostgresVectors(self.database, namespace, self._image_bytes)

    def optimize(self, connection: Connection, added: int) -> None:
        """
        Have this connection plan its statements anew after many memories.

        Plans that were made for small tables read them whole. Triggers and foreign keys would go on like that, and each
        thousand memories would take longer than the one before, until the server has looked at the tables again.
        """
        self.database.note_rows(added)
        self._added += added
        if self._added >= _MANY:
            self._added = 0
            connection.execute("discard plans")

    def purge(self, connection: Connection) -> None:
        """Do nothing: `wipe` removes what indexes keep, too."""

    def wipe(self, *, copies: bool) -> None:
        with self.database.administering() as raw:
            raw.execute("vacuum")  # of the tables that are this user's

    def measure_size(self) -> int:
        with self.database.reading() as connection:
            return int(connection.fetch_value(SIZE if self.database.is_distributed else _SIZE))

    def list_namespaces(self) -> list[str]:
        with self.database.administering() as raw:
            if raw.execute("select row_security_active('memories')").fetchone() == (True,):
                raise StoreError(
                    f"this user of {self.database.path} sees one namespace at a time; name the namespaces one by one, "
                    "or connect as a user who is a superuser or has bypassrls"
                )
            return [name for (name,) in raw.execute(select_namespaces("tenant").encode()).fetchall()]

    def back_up(self, path: str, *, overwrite: bool) -> None:
        raise InvalidInput(
            "a database on a server is backed up by its own tools, such as pg_dump; "
            "an export writes a namespace to a file"
        )

    def check(self, namespace: str, *, repair: bool) -> CheckReport:
        return check_database(self.database, namespace, repair=repair)

    def distribute(self) -> DistributionReport:
        with self.database.administering() as raw:
            return distribute(raw, self.database.path)

    def close(self) -> None:
        self.images.close()
        self.database.close()
