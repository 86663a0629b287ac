"""Write files whole or not at all, and remove what killed processes left of theirs."""

import errno
import glob
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

_DISK_ERRORS = (errno.EIO, errno.ENOSPC)  # others say that this cannot be synced
_PART_SUFFIX = ".part"  # of the file beside the target while it is written
_LOCK_SUFFIX = ".lock"  # of the file beside the part that is locked as long as a process writes the part
_STANDARD_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}


@contextmanager
def open_output(target: Path, new_mode: int) -> Iterator[BinaryIO]:
    """Open what a user names as the place of an output: a pipe or a device is written to, a file is replaced."""
    if is_stream(target):
        with open(_open_stream(target), "wb") as file:
            yield file
    else:
        with replace_atomically(target, new_mode) as file:
            yield file


@contextmanager
def replace_atomically(target: Path, new_mode: int = 0o666) -> Iterator[BinaryIO]:
    """
    Open a file that takes the target's name when the block ends, and is removed when the block fails.

    Readers see the old file or the new one, also after a power cut. A file that is replaced keeps its permissions; a
    new one gets `new_mode`, less the umask. A link stays, and what it points to is replaced.
    """
    if is_special(target):
        raise OSError(errno.EINVAL, "it is not a regular file", str(target))
    target = Path(os.path.realpath(target))
    old_mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    mode = new_mode if old_mode is None else old_mode
    with reserve_part(target) as part:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if old_mode is not None:
            part.chmod(old_mode)  # the umask may have taken away from it
        part.replace(target)
        sync_to_disk(target.parent)


@contextmanager
def reserve_part(target: Path) -> Iterator[Path]:
    """
    Yield a name beside a target for a file to write and rename, and remove at the end what is left of it.

    What a killed process leaves is removed by the next that reserves a part in the folder.
    """
    sweep_parts(target.parent)
    part = target.with_name(f"{target.name}.{uuid4().hex[:12]}{_PART_SUFFIX}")
    lock = Path(f"{part}{_LOCK_SUFFIX}")
    try:
        with open(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "rb") as file:
            with suppress(OSError):  # where there are no locks, nobody finds this one free
                lock_file(file, wait=True)
            try:
                yield part
            finally:
                with suppress(OSError):  # an error before this one says more
                    _remove_part(part)
    finally:
        with suppress(OSError):
            lock.unlink(missing_ok=True)  # once it is closed, for Windows removes no open file


def sweep_parts(folder: Path) -> None:
    """Remove the parts of a folder that no process writes any more: the end of a process ends its locks."""
    for lock in folder.glob(f"*.{'[0-9a-f]' * 12}{_PART_SUFFIX}{_LOCK_SUFFIX}"):
        with suppress(OSError):  # it is being written, belongs to another user, or is gone
            with lock.open("rb+") as file:
                lock_file(file)
                _remove_part(lock.with_name(lock.name.removesuffix(_LOCK_SUFFIX)))
            lock.unlink()


def _remove_part(part: Path) -> None:
    """Remove a part with the files that SQLite made beside it."""
    for file in part.parent.glob(f"{glob.escape(part.name)}*"):
        if file.name != f"{part.name}{_LOCK_SUFFIX}":
            file.unlink(missing_ok=True)


def lock_file(file: BinaryIO | int, *, wait: bool = False) -> None:
    """Lock a file until it is closed or the process ends; raise BlockingIOError if another has it, or wait for that."""
    try:
        if sys.platform == "win32":
            import msvcrt

            descriptor = file if isinstance(file, int) else file.fileno()
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except PermissionError as exc:
        raise BlockingIOError(*exc.args) from exc


def write_atomically(target: Path, content: bytes, *, private: bool = False) -> None:
    """Put content in the place of a file, making its folder where there is none; a private one is its owner's alone."""
    make_folder(Path(os.path.realpath(target)).parent, private=private)
    with replace_atomically(target, 0o600 if private else 0o666) as file:
        file.write(content)


def is_special(target: Path) -> bool:
    """Tell if there is something that must not be replaced by a file: a pipe, a device, a socket."""
    return target.exists() and not target.is_file() and not target.is_dir()


def is_stream(target: Path) -> bool:
    """Tell if a path names a pipe, a device such as a terminal, or a file that this process has open."""
    return _find_descriptor(target) is not None or target.is_fifo() or target.is_char_device()


def _open_stream(target: Path) -> int:
    descriptor = _find_descriptor(target)
    # A copy, because a file that is opened anew is written from its start.
    return os.open(target, os.O_WRONLY) if descriptor is None else os.dup(descriptor)


def _find_descriptor(target: Path) -> int | None:
    """Return the number of the open file that a path such as /dev/stdout names."""
    if target.as_posix() in _STANDARD_STREAMS:
        return _STANDARD_STREAMS[target.as_posix()]
    numbered = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d{1,9})", target.as_posix())
    return int(numbered[1]) if numbered else None


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Make a folder, and those above it that are missing, so that a power cut does not take them with their files."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True, mode=0o700 if private else 0o777)
    for each in missing:
        sync_to_disk(each.parent)
    folder.mkdir(exist_ok=True)  # raises if it is a file


def sync_to_disk(path: Path) -> None:
    """Make a file, or a rename in a folder, survive a power cut, where the system can be asked to."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Windows opens no folders
    try:
        os.fsync(handle)
    except OSError as exc:
        if exc.errno in _DISK_ERRORS:
            raise
    finally:
        os.close(handle)
