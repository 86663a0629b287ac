"""Erasing for good: from every table, every index, every page of the file, and every copy of it."""

import glob
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import apsw

from memorist.store.sqlite_links import splice
from memorist.store.sqlite_match import INDEXES
from memorist.store.sqlite_pool import Pool, value
from memorist.store.sqlite_recalls import erase_traces


def erase(connection: apsw.Connection, keys: Sequence[int]) -> None:
    """Delete memories with all that hangs on them."""
    erase_traces(connection, keys)
    for key in keys:
        splice(connection, key)
    connection.execute("delete from memories where rid in (select value from json_each(?))", (json.dumps(keys),))


def drop_deleted_words(connection: apsw.Connection) -> None:
    """Merge all segments of the indexes: a delete only marks its words."""
    for index in INDEXES:
        connection.execute(f"insert into {index}({index}) values ('optimize')")


def wipe(pool: Pool, copies: Iterable[str]) -> None:
    """
    Rewrite the file without free pages, and empty the write-ahead log: no text of a deleted row is left.

    Copies of the time before a migration, or a restore, may hold it too, and are removed.
    """
    with pool.reading() as connection:
        pool.patiently(lambda: connection.execute("vacuum"))
        if pool.in_memory:
            return

        def checkpoint() -> None:
            busy, _, _ = value(connection, "pragma wal_checkpoint(truncate)")
            if busy:
                raise apsw.BusyError("a reader holds the write-ahead log")

        pool.patiently(checkpoint)
    file = Path(pool.file)
    for name in copies:
        for copy in file.parent.glob(f"{glob.escape(f'{file.name}.before-{name}')}*"):  # parts and logs of it, too
            copy.unlink(missing_ok=True)
