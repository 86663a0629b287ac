"""
Databases of before the first release, as the last version then made and filled them.

They have rows in every table: memories of two namespaces with tags, metadata, facts, links, vectors, parts and a past,
sessions, searches, feedback, a lens, two files, and what was forgotten or erased. The model is `HashingEmbedder`. The
one on PostgreSQL is a dump.
"""

import lzma
from contextlib import closing
from pathlib import Path

import apsw
import psycopg

_DATA = Path(__file__).with_name("data") / "before_release"


def place_old_database(path: Path, *, empty: bool = False) -> None:
    """Put a SQLite database of before the first release where there is no file."""
    path.write_bytes(lzma.decompress((_DATA / "memory.db.xz").read_bytes()))
    if empty:
        with closing(apsw.Connection(str(path))) as database:
            database.execute("pragma foreign_keys = on")
            for table in ("memories", "sessions", "recalls", "documents"):
                database.execute(f"delete from {table}")


def load_old_database(url: str) -> None:
    """Make an empty database on a PostgreSQL server one of before the first release."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(lzma.decompress((_DATA / "postgres.sql.xz").read_bytes()))
