"""Write files whole or not at all."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

_DISK_ERRORS = (errno.EIO, errno.ENOSPC)  # others say that this cannot be synced
_PART_SUFFIX = ".part"  # of the file beside the target while it is written
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
    part = target.with_name(f"{target.name}.{uuid4().hex[:12]}{_PART_SUFFIX}")
    old_mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    mode = new_mode if old_mode is None else old_mode
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if old_mode is not None:
            part.chmod(old_mode)  # the umask may have taken away from it
        part.replace(target)
        sync_to_disk(target.parent)
    finally:
        part.unlink(missing_ok=True)


def write_atomically(target: Path, content: bytes) -> None:
    """Put content in the place of a file, making its folder where there is none."""
    make_folder(Path(os.path.realpath(target)).parent)
    with replace_atomically(target) as file:
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
    numbered = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", target.as_posix())
    return int(numbered[1]) if numbered else None


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it that are missing, so that a power cut does not take them with their files."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=mode)
    for each in missing:
        sync_to_disk(each.parent)


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
