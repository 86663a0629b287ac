"""Brings a database to the present schema: numbered files, applied in order, each in one transaction."""

import hashlib
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from memorist.errors import StoreError

Migrations = dict[str, str]


class Database(Protocol):
    """What a backend offers to be migrated; `transaction` holds the write lock."""

    def applied(self) -> dict[str, str]: ...
    def transaction(self) -> AbstractContextManager[None]: ...
    def apply(self, name: str, sql: str, digest: str) -> None: ...
    def keep_copy(self, before: str) -> None: ...


def bundled(backend: str) -> Migrations:
    """The migrations of this version: file name -> SQL, in order."""
    folder = files("memorist.store") / "sql" / backend
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return {Path(entry.name).stem: entry.read_text("utf-8") for entry in found}


def migrate(database: Database, migrations: Migrations) -> None:
    """Apply what is pending; refuse a database whose history is not the beginning of ours."""
    before = database.applied()
    copied = not before
    for name in pending(before, migrations):
        with database.transaction():
            # Asked again under the lock: another process may have migrated while we waited for it.
            if name in database.applied():
                continue
            if not copied:
                database.keep_copy(name)
                copied = True
            database.apply(name, migrations[name], digest(migrations[name]))


def digest(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()


def pending(applied: dict[str, str], migrations: Migrations) -> list[str]:
    """What is still to be applied; an error where the history of the database is not the beginning of ours."""
    newer = sorted(set(applied) - set(migrations))
    if newer:
        raise StoreError(
            f"this database was made by a newer version of Memorist (it has {newer[-1]}, "
            f"this version ends with {max(migrations)}): upgrade Memorist to open it"
        )
    for name, recorded in applied.items():
        if recorded != digest(migrations[name]):
            raise StoreError(
                f"migration {name} of this database is not the one this version of Memorist knows; "
                "install the version that made the database"
            )
    return [name for name in migrations if name not in applied]
