"""
Migrations bring a database to the present schema: numbered files, applied in order, each in one transaction.

The first, 001-schema.sql, is the schema of the first release. A database from before it, whose history is that of the
last version then, is brought there by a script of its own in the place of that file, and has its history from then on.
"""

import hashlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from memorist.errors import StoreError

Migrations = dict[str, str]
_FOLDER = Path(__file__).with_name("sql")
_FIRST_BEFORE_RELEASE = (
    "001-memories"  # what every history from before the first release begins with, on both databases
)
# The last of these histories, by the digest of its names and digests, and what brings a database with it to our first.
_UPGRADES = {
    "00deb74f53b89cd32c2a3daccb6dc7fe7821d0f8c8358e6206fb61e453379cc9": "sqlite/from-017.sql",
    "19336aa7444590c050775abc4df932a44630260a78130e656b43cf56e32c8f7b": "postgres/from-010.sql",
}


class Schema(Protocol):
    """The schema of a database, as migrations change it; `transaction` holds the write lock."""

    def load_applied(self) -> dict[str, str]: ...
    def transaction(self) -> AbstractContextManager[None]: ...
    def apply(self, name: str, sql: str, digest: str) -> None: ...
    def save_copy(self, before: str) -> None: ...


def load_migrations(backend: str) -> Migrations:
    """Return the migrations of this version, in order: file name -> SQL."""
    found = sorted((_FOLDER / backend).glob("[0-9]*.sql"))
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
            applied = schema.load_applied()
            if name in applied:
                continue
            if not copied:
                schema.save_copy(name)
                copied = True
            sql = _load_upgrade(applied) if _is_before_release(applied) else migrations[name]
            schema.apply(name, sql, _digest(migrations[name]))


def list_pending(applied: dict[str, str], migrations: Migrations) -> list[str]:
    """Return the migrations still to be applied; raise if those applied are not the first ones of this version."""
    if _is_before_release(applied):
        _load_upgrade(applied)
        return list(migrations)
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


def _is_before_release(applied: Iterable[str]) -> bool:
    return _FIRST_BEFORE_RELEASE in applied


def _load_upgrade(applied: dict[str, str]) -> str:
    """Return the script that brings a database from before the first release to the schema of that."""
    history = _digest("\n".join(f"{name} {digest}" for name, digest in sorted(applied.items())))
    if history not in _UPGRADES:
        raise StoreError(
            "this database was made by a version of Memorist from before the first release (its schema ends with "
            f"{max(applied)}), and of those only the last schema can be brought up to date; nothing was changed. "
            "Export its memories to a file with the version that made it, and import that into a new database"
        )
    return (_FOLDER / _UPGRADES[history]).read_text("utf-8")


def _digest(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()
