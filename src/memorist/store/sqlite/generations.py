"""
Generations: a number in the header of a database that every commit increases, so that a log tells whose it is.

SQLite takes a write-ahead log beside a file for the log of that file, and writes its pages over it. Of a file that was
moved or copied there meanwhile, they make a mixture of two databases. The generation is SQLite's `user_version`, which
is on the first page: it starts at random, so two databases have different ones, and a log holds the first page of every
commit. A log belongs to a file whose generation is the one before the log, or one of those in it.
"""

import os
import random
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from memorist.atomic_file import lock_file, sync_to_disk
from memorist.store.sqlite.copies import choose_kept_name

_END = 1 << 31  # of generations; 0 is that of a database that has none yet
_MOST_COMMITS = 1 << 24  # between two looks of a process at its file, by all processes together
_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
_WAL_HEADER, _FRAME_HEADER = struct.Struct(">8I"), struct.Struct(">6I")
_USER_VERSION = slice(60, 64)  # of the first page


def draw_generation() -> int:
    return random.SystemRandom().randrange(1, _END)


def next_generation(generation: int) -> int:
    return generation % (_END - 1) + 1 if generation else draw_generation()


def advance_generation(connection: apsw.Connection) -> None:
    """Increase the generation, within the transaction that changes something."""
    connection.pragma("user_version", next_generation(connection.pragma("user_version")))


def set_generation(file: Path, generation: int) -> None:
    """Give a copy, which nobody has opened yet, a generation."""
    with closing(apsw.Connection(str(file))) as connection:
        connection.pragma("user_version", generation)


def read_generation(file: str) -> int | None:
    """
    Return the generation of a file itself, without its log: 0 if it has none yet, None if it cannot be read.

    SQLite reads it: to open and close the file here would end the locks that this process has on it.
    """
    try:
        with closing(apsw.Connection(f"file:{quote(file)}?immutable=1", flags=_READ_ONLY)) as connection:
            return int(connection.pragma("user_version"))
    except apsw.Error:
        return None


class FileIdentity:
    """The file at a path, as it was when it was opened: another one has another inode, or no later generation."""

    def __init__(self, path: str) -> None:
        self._path = path
        status = os.stat(path)
        self._inode = status.st_dev, status.st_ino
        self._written = status.st_mtime_ns, status.st_size
        self._generation = read_generation(path)

    def is_untouched(self) -> bool:
        """Tell if nobody has written to the file since it was looked at; most of the time, nobody has."""
        status = self._look()
        return status is not None and self._is_inode(status) and self._written == (status.st_mtime_ns, status.st_size)

    def is_same(self) -> bool:
        """Tell if the file is still there, and nobody has written another over it; one thread at a time."""
        status, generation = self._look(), read_generation(self._path)
        if status is None or not self._is_inode(status) or not self.may_become(generation):
            return False
        self._written = status.st_mtime_ns, status.st_size
        self._generation = generation
        return True

    def is_inode_of(self, file: str) -> bool:
        """Tell if this is the file at another path."""
        return self._is_inode(os.stat(file))

    def may_become(self, generation: int | None) -> bool:
        """Tell if commits can have brought this file to a generation, as far as both are known."""
        if generation is None or not self._generation:
            return True
        return generation > 0 and (generation - self._generation) % (_END - 1) < _MOST_COMMITS

    def _is_inode(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == self._inode

    def _look(self) -> os.stat_result | None:
        try:
            return os.stat(self._path)
        except OSError:
            return None


def belongs_to(log: Path, file: str) -> bool:
    """Tell if a log can be that of a file, as far as generations tell."""
    while next(_read_pages(log), None):
        generation = read_generation(file)
        continues = _continues(log, file, generation)
        if continues or read_generation(file) == generation:  # otherwise a new log may have begun meanwhile
            return continues
    return True


def _continues(log: Path, file: str, generation: int | None) -> bool:
    if not generation:  # it has none yet, or is damaged; but beside an empty file, SQLite would remove the log
        return os.path.getsize(file) > 0
    is_first = True
    for logged in _read_generations(log):
        if logged == generation or (is_first and logged == next_generation(generation)):
            return True
        is_first = False
    return is_first


def set_foreign_log_aside(file: str, name: str) -> Path | None:
    """Rename a log that is not of the file beside it, and return the name; whoever has it open goes on with it."""
    log = Path(f"{file}-wal")
    if belongs_to(log, file):
        return None
    with _lock_folder(log.parent):
        # Asked again under the lock: another process may have done it, and begun a log of its own.
        if belongs_to(log, file):
            return None
        kept = Path(f"{choose_kept_name(Path(file), name)}-wal")
        log.rename(kept)
        Path(f"{file}-shm").unlink(missing_ok=True)  # the index of that log
        sync_to_disk(log.parent)
        return kept


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders, and there nobody renames a log that is open
        yield
        return
    try:
        with suppress(OSError):  # where there are no locks, two processes may rename it at once
            lock_file(handle, wait=True)
        yield
    finally:
        os.close(handle)


def _read_generations(log: Path) -> Iterator[int]:
    """Yield the generations in a log, in the order of the commits."""
    for number, page in _read_pages(log):
        generation = int.from_bytes(page[_USER_VERSION]) if number == 1 else 0
        if generation:
            yield generation


def _read_pages(log: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the beginning of each page in a log, until one that an earlier log has left there."""
    with suppress(FileNotFoundError), log.open("rb", buffering=0) as file:
        header = file.read(_WAL_HEADER.size)
        if len(header) < _WAL_HEADER.size:
            return
        _, _, page_size, _, *salts, _, _ = _WAL_HEADER.unpack(header)
        length = _FRAME_HEADER.size + _USER_VERSION.stop
        while len(frame := file.read(length)) == length:
            number, _, *frame_salts, _, _ = _FRAME_HEADER.unpack_from(frame)
            if frame_salts != salts:
                return
            yield number, frame[_FRAME_HEADER.size :]
            file.seek(_FRAME_HEADER.size + page_size - length, os.SEEK_CUR)
