"""Copies of a database, beside it: made whole or not at all, and kept each in a file of its own."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from memorist.atomic_file import reserve_part, sync_to_disk
from memorist.store.sqlite.dialect import SqliteConnection

COMPANIONS = ("-wal", "-shm", "-journal")  # files that SQLite keeps beside a database
PAGES_AT_ONCE = 2000  # copied before signals are handled again


def choose_kept_name(database: Path, reason: str) -> Path:
    """Return a free name for the replaced database: memory.db.before-restore, or with a number behind it."""
    first = f"{database}.before-{reason}"
    names = chain([first], (f"{first}-{number}" for number in count(2)))
    return next(Path(name) for name in names if not any(os.path.lexists(name + end) for end in ("", *COMPANIONS)))


@contextmanager
def temporary_file(target: Path) -> Iterator[Path]:
    """Make a file beside a target, and remove it at the end unless it was renamed."""
    with reserve_part(target) as part:
        create_private_file(part)
        yield part


def create_private_file(file: Path) -> None:
    """Make an empty file that only its owner may read, unless it is there; SQLite would let everybody read its own."""
    with suppress(OSError):  # which SQLite will meet, and say, as well
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def copy_pages(source: SqliteConnection, part: Path) -> None:
    """Copy all pages as the source's transaction sees them, so that writes of others do not restart the copy."""
    with closing(SqliteConnection(str(part))) as copy:
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(PAGES_AT_ONCE)
        copy.pragma("journal_mode", "delete")  # one file, readable on a read-only disk, too


def rename_durably(part: Path, target: Path) -> None:
    """Give a complete file its name; even a power cut leaves either it or the file it replaces."""
    sync_to_disk(part)
    for companion in COMPANIONS:  # of a replaced database: SQLite would take them for those of this one
        Path(f"{target}{companion}").unlink(missing_ok=True)
    sync_to_disk(target.parent)  # they must not come back beside it
    part.replace(target)
    sync_to_disk(target.parent)
