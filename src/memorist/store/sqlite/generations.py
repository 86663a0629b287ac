"""
Generations: a number in the header of a database that every commit increases, so that a log tells whose it is.

SQLite takes a write-ahead log beside a file for the log of that file, and writes its pages over it. Of a file that was
moved or copied there meanwhile, they make a mixture of two databases. The generation is SQLite's `user_version`, which
is on the first page, and a log holds the first page of every commit. A log belongs to a file whose generation is the
one before the log, or one of those in it.

A generation is the number of a commit and some random bits. The number starts at random, so two databases have
different ones; the bits tell the commits of two copies of one database apart that have the same number.
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

_RANDOM_BITS = 8
_END = 1 << 31 - _RANDOM_BITS  # of numbers; the generation 0 is that of a database that has none yet
_MOST_COMMITS = 1 << 17  # between two looks of a process at its file, by all processes together
_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
_WAL_HEADER, _FRAME_HEADER = struct.Struct(">8I"), struct.Struct(">6I")
_USER_VERSION = slice(60, 64)  # of the first page
_BIG_ENDIAN_CHECKSUMS = 0x377F0683  # how a log begins; otherwise they are of little-endian words
_random = random.SystemRandom()


def draw_generation() -> int:
    return _make_generation(_random.randrange(1, _END))


def next_generation(generation: int) -> int:
    return _make_generation(_next_number(generation)) if generation else draw_generation()


def _make_generation(number: int) -> int:
    return number << _RANDOM_BITS | _random.getrandbits(_RANDOM_BITS)


def _next_number(generation: int) -> int:
    return _number(generation) % (_END - 1) + 1


def _number(generation: int) -> int:
    return generation >> _RANDOM_BITS


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
        self._path, self._log = path, Path(f"{os.path.realpath(path)}-wal")
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
        with suppress(OSError):  # a log that cannot be read is for SQLite to complain of
            if not belongs_to(self._log, self._path):
                return False
        self._written = status.st_mtime_ns, status.st_size
        self._generation = generation
        return True

    def is_inode_of(self, file: str) -> bool:
        """Tell if this is the file at another path."""
        return self._is_inode(os.stat(file))

    def is_renamed(self) -> bool:
        """Tell if the file has only another name now, under which nobody has written to it."""
        if os.path.lexists(self._path):
            return False
        for name in _list_names(Path(self._path).parent):
            with suppress(OSError):
                if self.is_inode_of(name):
                    return not os.path.lexists(f"{name}-wal") and belongs_to(self._log, name)
        return False

    def may_become(self, generation: int | None) -> bool:
        """Tell if commits can have brought this file to a generation, as far as both are known."""
        if generation is None or not self._generation:
            return True
        return generation > 0 and (_number(generation) - _number(self._generation)) % (_END - 1) < _MOST_COMMITS

    def _is_inode(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == self._inode

    def _look(self) -> os.stat_result | None:
        try:
            return os.stat(self._path)
        except OSError:
            return None


def _list_names(folder: Path) -> Iterator[str]:
    """Yield the names of files in a folder, and of those that this process has open where the system tells them."""
    yield from map(str, folder.iterdir())
    for link in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # the one for reading this folder is closed by now
            yield os.readlink(link)


def belongs_to(log: Path, file: str) -> bool:
    """Tell if a log can be that of a file, as far as generations tell."""
    if next(_read_pages(log), None) is None:  # mostly so when a database is opened: there is no log, or nothing in it
        return True
    if _continues(log, file, read_generation(file)):
        return True
    while True:  # a log that was being begun looks foreign, too, so ask one that has begun, and is still the same
        seen = read_generation(file), _read_header(log)
        if not _has_commit(log) or _continues(log, file, seen[0]):
            return True
        if (read_generation(file), _read_header(log)) == seen:
            return False


def _continues(log: Path, file: str, generation: int | None) -> bool:
    if not generation:  # it has none yet, or is damaged; but beside an empty file, SQLite would remove the log
        return not _is_empty(file)
    is_first = True
    for logged in read_logged_generations(log):
        if logged == generation or (is_first and _number(logged) == _next_number(generation)):
            return True
        is_first = False
    return is_first


def _is_empty(file: str) -> bool:
    try:
        return os.path.getsize(file) == 0
    except FileNotFoundError:  # it may be deleted at any moment
        return False


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
        Path(f"{file}-shm").unlink(missing_ok=True)  # its index, before others begin a log with one of its own
        log.rename(kept)
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


def read_logged_generations(log: Path) -> Iterator[int]:
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


def _read_header(log: Path) -> bytes:
    try:
        with log.open("rb", buffering=0) as file:
            return file.read(_WAL_HEADER.size)
    except FileNotFoundError:
        return b""


def _has_commit(log: Path) -> bool:
    """Tell if SQLite would find a whole commit in a log; a process may have been killed while it wrote the first."""
    with suppress(FileNotFoundError), log.open("rb") as file:
        header = file.read(_WAL_HEADER.size)
        if len(header) < _WAL_HEADER.size:
            return False
        magic, _, page_size, _, *salts, sum_1, sum_2 = _WAL_HEADER.unpack(header)
        order = ">" if magic == _BIG_ENDIAN_CHECKSUMS else "<"
        sums = _add_checksums(order, header[:24], (0, 0))
        if sums != (sum_1, sum_2):
            return False
        size = _FRAME_HEADER.size + page_size
        while len(frame := file.read(size)) == size:
            _, pages_after_commit, *frame_salts, sum_1, sum_2 = _FRAME_HEADER.unpack_from(frame)
            sums = _add_checksums(order, frame[:8] + frame[_FRAME_HEADER.size :], sums)
            if frame_salts != salts or sums != (sum_1, sum_2):
                return False
            if pages_after_commit:
                return True
    return False


def _add_checksums(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    for first, second in struct.iter_unpack(f"{order}2I", data):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two
