"""Migrations bring a database to the present schema: numbered files, applied in order, each in one transaction."""

import hashlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from memorist.errors import StoreError

Migrations = dict[str, str]


class Schema(Protocol):
    """The schema of a database, as migrations change it; `transaction` holds the write lock."""

    def load_applied(self) -> dict[str, str]: ...
    def transaction(self) -> AbstractContextManager[None]: ...
    def apply(self, name: str, sql: str, digest: str) -> None: ...
    def save_copy(self, before: str) -> None: ...


def load_migrations(backend: str) -> Migrations:
    """Return the migrations of this version, in order: file name -> SQL."""
    found = sorted((Path(__file__).with_name("sql") / backend).glob("*.sql"))
    return {file.stem: file.read_text("utf-8") for file in found}


def migrate(schema: Schema, migrations: Migrations) -> None:
    """Apply the migrations that are pending; refuse a database with a history that this version does not know."""
    applied = schema.load_applied()
    pending = list_pending(applied, migrations)
    if not applied:
        with schema.transaction():  # one for all: a new database is whole or not there, and waits for the disk once
            if not schema.load_applied():
                for name in pending:
                    schema.apply(name, migrations[name], _digest(migrations[name]))
                return
    copied = not applied
    for name in pending:
        with schema.transaction():
            # Asked again under the lock: another process may have migrated while this one waited for it.
            if name in schema.load_applied():
                continue
            if not copied:
                schema.save_copy(name)
                copied = True
            schema.apply(name, migrations[name], _digest(migrations[name]))


def list_pending(applied: dict[str, str], migrations: Migrations) -> list[str]:
    """Return the migrations still to be applied; raise if those applied are not the first ones of this version."""
    refuse_newer(applied, migrations)
    for name, recorded in applied.items():
        if recorded != _digest(migrations[name]):
            raise StoreError(
                f"migration {name} of this database is not the one this version of Memorist knows; "
                "install the version that made the database"
            )
    return [name for name in migrations if name not in applied]


def refuse_newer(applied: Iterable[str], migrations: Migrations) -> None:
    """Raise if a database has migrations that this version does not know."""
    if newer := sorted(set(applied) - set(migrations)):
        raise StoreError(
            f"this database was made by a newer version of Memorist (it has {newer[-1]}, "
            f"this version ends with {max(migrations)}): upgrade Memorist to open it"
        )


def _digest(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()
