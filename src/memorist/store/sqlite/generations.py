"""
Generations: a number in the header of a database that every commit increases, so that a log tells whose it is.

SQLite takes a write-ahead log beside a file for the log of that file, and writes its pages over it. Of a file that was
moved or copied there meanwhile, they make a mixture of two databases. The generation is in SQLite's `user_version` and
in the lower half of its `application_id`, which are on the first page, and a log holds the first page of every commit.
A log belongs to a file whose generation is the one before the log, or one of those in it.

| bits | hold |
|---|---|
| 23 | the number of the commit, which starts at random, so two databases have different ones |
| 8 and 4 | random bits, which tell the commits of two copies of one database apart that have the same number |
| 12 | a digest of the generation before, which tells if the first commit of a log follows that of a file |

The last two are 16 bits called the link. The databases of earlier versions have none.
"""

import os
import random
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

import apsw

from memorist.atomic_file import lock_file, sync_to_disk
from memorist.store.sqlite.copies import choose_kept_name

APPLICATION_ID = 0x52434C54  # "RCLT": the upper half is in the header of every Memorist database
_LINK_BITS = 16
_LINK = (1 << _LINK_BITS) - 1
_NO_LINK = APPLICATION_ID & _LINK
_RANDOM_LINK_BITS = 4
_RANDOM_BITS = 8
_END = 1 << 31 - _RANDOM_BITS  # of numbers; the generation 0 is that of a database that has none yet
_MOST_COMMITS = 1 << 17  # between two looks of a process at its file, by all processes together
_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
_WAL_HEADER, _FRAME_HEADER = struct.Struct(">8I"), struct.Struct(">6I")
_USER_VERSION, _APPLICATION_ID = slice(60, 64), slice(68, 72)  # of the first page
_BIG_ENDIAN_CHECKSUMS = 0x377F0683  # how a log begins; otherwise they are of little-endian words
_random = random.SystemRandom()


def is_application_id(value: int) -> bool:
    """Tell if this is the application id of a Memorist database."""
    return value >> _LINK_BITS == APPLICATION_ID >> _LINK_BITS


def draw_generation() -> int:
    """Return a generation that follows no other."""
    return _make_generation(_random.randrange(1, _END), _random.getrandbits(_RANDOM_BITS), _NO_LINK)


def next_generation(generation: int) -> int:
    """Return one of the generations that may follow another."""
    if not generation:
        return draw_generation()
    link, bits = _NO_LINK, 0
    while link == _NO_LINK:
        link_bits, bits = divmod(_random.getrandbits(_RANDOM_LINK_BITS + _RANDOM_BITS), 1 << _RANDOM_BITS)
        link = _digest(generation) << _RANDOM_LINK_BITS | link_bits
    return _make_generation(_next_number(generation), bits, link)


def _make_generation(number: int, bits: int, link: int) -> int:
    return (number << _RANDOM_BITS | bits) << _LINK_BITS | link


def _digest(generation: int) -> int:
    return crc32(generation.to_bytes(8, "big")) & _LINK >> _RANDOM_LINK_BITS


def _follows(generation: int, before: int) -> bool:
    """Tell if a generation can be the next one after another, as far as it has a link."""
    if _number(generation) != _next_number(before):
        return False
    link = generation & _LINK
    return link == _NO_LINK or link >> _RANDOM_LINK_BITS == _digest(before)


def _next_number(generation: int) -> int:
    return _number(generation) % (_END - 1) + 1


def _number(generation: int) -> int:
    return generation >> _RANDOM_BITS + _LINK_BITS


def advance_generation(connection: apsw.Connection) -> None:
    """Increase the generation, within the transaction that changes something."""
    _write_generation(connection, next_generation(see_generation(connection)))


def see_generation(connection: apsw.Connection) -> int:
    """Return the generation that a connection sees, with the log; 0 if there is none yet."""
    read = connection.execute  # not `pragma`, which prepares the statement each time
    if connection.in_transaction:
        return _join(read("pragma user_version").get, read("pragma application_id").get)
    try:
        read("begin")  # both of one moment: otherwise another process may commit between them
        return see_generation(connection)
    finally:
        if connection.in_transaction:
            read("rollback")


def _join(user_version: int, application_id: int) -> int:
    link = application_id & _LINK if is_application_id(application_id) else _NO_LINK
    return user_version << _LINK_BITS | link if user_version else 0


def _write_generation(connection: apsw.Connection, generation: int) -> None:
    connection.pragma("user_version", generation >> _LINK_BITS)
    connection.pragma("application_id", APPLICATION_ID & ~_LINK | generation & _LINK)


def set_generation(file: Path, generation: int) -> None:
    """Give a copy, which nobody has opened yet, a generation."""
    with closing(apsw.Connection(str(file))) as connection:
        _write_generation(connection, generation)


def begin_generations(connection: apsw.Connection) -> None:
    """Give an empty file its generation, within a transaction. It gets its application id with its first table."""
    if not connection.pragma("user_version"):
        connection.pragma("user_version", draw_generation() >> _LINK_BITS)


def read_generation(file: str) -> int | None:
    """
    Return the generation of a file itself, without its log: 0 if it has none yet, None if it cannot be read.

    SQLite reads it: to open and close the file here would end the locks that this process has on it.
    """
    try:
        with closing(apsw.Connection(f"file:{quote(file)}?immutable=1", flags=_READ_ONLY)) as connection:
            return see_generation(connection)
    except apsw.Error:
        return None


class FileIdentity:
    """The file at a path, as it was when it was opened: another one has another inode, or no later generation."""

    def __init__(self, path: str) -> None:
        self._path, self._log = path, Path(f"{os.path.realpath(path)}-wal")
        status = os.stat(path)
        self._inode = _inode_of(status)
        self._log_inode: tuple[int, int] | None = None
        self._written = status.st_mtime_ns, status.st_size
        self._generation = read_generation(path)

    def is_untouched(self) -> bool:
        """Tell if nobody has written to the file since it was looked at; most of the time, nobody has."""
        status = self._look()
        return status is not None and self._is_inode(status) and self._written == (status.st_mtime_ns, status.st_size)

    @property
    def has_log(self) -> bool:
        """True if it is known which log is open."""
        return self._log_inode is not None

    def remember_log(self) -> None:
        """Remember which log the first of some connections has opened: SQLite removes no log that anybody has open."""
        with suppress(OSError):
            self._log_inode = None
            self._log_inode = _inode_of(os.stat(self._log))

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

    def is_generation(self, generation: int) -> bool:
        """Tell if this was the generation of the file when it was looked at."""
        return generation == self._generation

    def may_become(self, generation: int | None) -> bool:
        """Tell if commits can have brought this file to a generation, as far as both are known."""
        if generation is None or not self._generation:
            return True
        if generation == 0 or _number(generation) == _number(self._generation):
            return generation == self._generation
        return (_number(generation) - _number(self._generation)) % (_END - 1) < _MOST_COMMITS

    def _is_inode(self, status: os.stat_result) -> bool:
        return _inode_of(status) == self._inode

    def is_log_gone(self) -> bool:
        """Tell if the log that was remembered is not beside the file any more."""
        try:
            return self._log_inode is not None and _inode_of(os.stat(self._log)) != self._log_inode
        except FileNotFoundError:
            return True

    def _look(self) -> os.stat_result | None:
        try:
            return os.stat(self._path)
        except OSError:
            return None


def _inode_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


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
        if logged == generation or (is_first and _follows(logged, generation)):
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
        if number == 1:
            generation = _join(int.from_bytes(page[_USER_VERSION]), int.from_bytes(page[_APPLICATION_ID]))
            if generation:
                yield generation


def _read_pages(log: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the beginning of each page in a log, until one that an earlier log has left there."""
    with suppress(FileNotFoundError), log.open("rb", buffering=0) as file:
        header = file.read(_WAL_HEADER.size)
        if len(header) < _WAL_HEADER.size:
            return
        _, _, page_size, _, *salts, _, _ = _WAL_HEADER.unpack(header)
        length = _FRAME_HEADER.size + _APPLICATION_ID.stop
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
