"""The port's contract on PostgreSQL, its errors, and connections that are lost."""

from memorist.store.postgres.connections import PostgresDatabase

INSERT = "insert into lenses(namespace, name, definition) values (:namespace, :name, '{}')"


def test_reads_and_writes(database: PostgresDatabase) -> None:
    with database.writing() as connection:
        connection.execute(INSERT, {"namespace": "a", "name": "b"})
    with database.reading() as connection:
        assert connection.fetch("select namespace, name from lenses where name = ?", ("b",)) == [("a", "b")]
