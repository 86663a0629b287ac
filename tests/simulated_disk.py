"""
A simulated disk: a folder whose changes are recorded, and which a power cut may hit at any moment.

Everything that SQLite does to files goes through a VFS, and what Python code does through the functions of `os`. The
files are real ones, so locks and shared memory work, but nothing is synced to the real disk: what a power cut leaves is
computed from the record.
"""

import copy
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a folder whose syncs cost nothing, if there is one
SECTOR = 512  # bytes; the unit in which a write reaches a disk whole or not at all
_BLOCK = 4096  # bytes; a file that Python code wrote is taken to be written in such blocks
_FOLDER = -1  # the inode of every folder: their content is the names
_SYNCED_WITH_ITS_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL

Files = dict[str, bytes]  # the path within the disk -> the content


@dataclass(frozen=True, slots=True)
class Write:
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    inode: int


@dataclass(frozen=True, slots=True)
class Rename:
    """Names in one folder that change together: made, removed (None), or both."""

    names: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class SyncFolder:
    folder: str


Event = Write | Truncate | Sync | Rename | SyncFolder


class Disk:
    """The files of one folder, recorded while it is attached."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.path.realpath(folder)
        self.events: list[Event] = []
        self.syncs_until_failure = -1  # of SQLite's; one fails when none is left
        self._names: dict[str, int] = {}
        self._contents: dict[int, bytes] = {}  # of files that Python code writes, as last recorded
        self._next = 0
        for file in sorted(Path(folder).rglob("*")):
            content = None if file.is_dir() else file.read_bytes()
            self._names[self.relative(file)] = _FOLDER if content is None else self._add_inode(content)
        self.base = _State(dict(self._names), {inode: bytearray(data) for inode, data in self._contents.items()})

    @contextmanager
    def attached(self) -> Iterator["Disk"]:
        """Route all file access of this process through the disk for a `with` block."""
        with ExitStack() as stack:
            vfs = _Vfs(self)
            stack.callback(vfs.unregister)
            for name in ("open", "fsync", "replace", "rename", "unlink", "remove", "mkdir"):
                stack.enter_context(patch.object(os, name, self._wrap(name, getattr(os, name))))
            yield self

    def relative(self, path: Any) -> str | None:
        """The name of a file within the disk, None if it is elsewhere."""
        absolute = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
        inside = os.path.commonpath([self.folder, absolute]) == self.folder
        return os.path.relpath(absolute, self.folder) if inside else None

    # What SQLite does

    def opened(self, name: str) -> int:
        """Note that SQLite has opened a file, and made it if it was not there."""
        if name not in self._names:
            self._rename({name: self._add_inode(b"")})
        self._contents.pop(self._names[name], None)
        return self._names[name]

    def deleted(self, name: str) -> None:
        if name in self._names:
            self._rename({name: None})

    # What Python code does

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        handle = getattr(self, f"_os_{name}")

        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            return handle(real, path, *arguments, **options)

        return call

    def _os_open(self, real: Callable[..., Any], path: Any, flags: int, *arguments: Any, **options: Any) -> Any:
        name = None if options.get("dir_fd") is not None else self.relative(path)
        if name is None or not flags & os.O_CREAT:
            return real(path, flags, *arguments, **options)
        handle = real(path, flags, *arguments, **options)
        if name not in self._names:
            self._rename({name: self._add_inode(b"")})
        return handle

    def _os_fsync(self, real: Callable[..., Any], handle: int) -> None:
        status = os.fstat(handle)
        for name in [".", *self._names]:
            path = os.path.join(self.folder, name)
            if os.path.exists(path) and os.path.samestat(status, os.stat(path)):
                if os.path.isdir(path):
                    self.events.append(SyncFolder("" if name == "." else name))
                else:
                    self._record_content(name)
                    self.events.append(Sync(self._names[name]))
                return

    def _os_replace(self, real: Callable[..., Any], source: Any, target: Any, **options: Any) -> None:
        old, new = self.relative(source), self.relative(target)
        if old is not None:
            self._record_content(old)
        real(source, target, **options)
        if old is not None and new is not None:
            inode = self._names.get(old)
            self._rename({old: None, new: self._add_inode(b"") if inode is None else inode})

    _os_rename = _os_replace

    def _os_unlink(self, real: Callable[..., Any], path: Any, **options: Any) -> None:
        name = None if options.get("dir_fd") is not None else self.relative(path)
        real(path, **options)
        if name is not None:
            self.deleted(name)

    _os_remove = _os_unlink

    def _os_mkdir(self, real: Callable[..., Any], path: Any, *arguments: Any, **options: Any) -> None:
        name = None if options.get("dir_fd") is not None else self.relative(path)
        real(path, *arguments, **options)
        if name is not None:
            self._rename({name: _FOLDER})

    def _record_content(self, name: str) -> None:
        """Record what Python code has written to a file since it was recorded last."""
        inode = self._names.get(name)
        if inode is None or inode not in self._contents:
            return
        data = Path(self.folder, name).read_bytes()
        if data != self._contents[inode]:
            self._contents[inode] = data
            self.events += [Write(inode, at, data[at : at + _BLOCK]) for at in range(0, len(data), _BLOCK)]
            self.events.append(Truncate(inode, len(data)))

    def _add_inode(self, content: bytes) -> int:
        inode, self._next = self._next, self._next + 1
        self._contents[inode] = content
        return inode

    def _rename(self, names: dict[str, int | None]) -> None:
        self.events.append(Rename(names))
        for name, inode in names.items():
            if inode is None:
                self._names.pop(name, None)
            else:
                self._names[name] = inode


class _Vfs(apsw.VFS):
    """The default VFS of SQLite while a disk is attached."""

    def __init__(self, disk: Disk) -> None:
        self.disk, self.base = disk, apsw.vfs_names()[0]
        super().__init__("simulated", self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        inside = self.disk.relative(path) if path else None
        if inside is None:
            return _UnsyncedFile(self.base, name, flags)
        return _File(self, inside, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        name = self.disk.relative(filename)
        super().xDelete(filename, syncdir)
        if name is not None:
            self.disk.deleted(name)
            if syncdir:
                self.disk.events.append(SyncFolder(os.path.dirname(name)))


class _UnsyncedFile(apsw.VFSFile):
    """A file elsewhere, which need not survive anything."""

    def xSync(self, flags: int) -> None:  # noqa: N802
        pass


class _File(apsw.VFSFile):
    """A file of the disk that SQLite has open."""

    def __init__(self, vfs: _Vfs, inside: str, name: Any, flags: list[int]) -> None:
        # As SQLite's own VFS does: a journal is of use only if its name survives, too.
        self._syncs_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _SYNCED_WITH_ITS_FOLDER)
        super().__init__(vfs.base, name, flags)
        self._disk, self._name = vfs.disk, inside
        self._inode = vfs.disk.opened(inside)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._disk.events.append(Write(self._inode, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._disk.events.append(Truncate(self._inode, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.syncs_until_failure -= 1
        if self._disk.syncs_until_failure == -1:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        self._disk.events.append(Sync(self._inode))
        if self._syncs_folder:
            self._syncs_folder = False
            self._disk.events.append(SyncFolder(os.path.dirname(self._name)))


# Power cuts


@dataclass
class _State:
    """A disk at one moment: what is synced, and what was done since."""

    names: dict[str, int]
    contents: dict[int, bytearray]
    renames: list[tuple[int, Rename]] = field(default_factory=list)
    writes: dict[int, list[tuple[int, Write | Truncate]]] = field(default_factory=lambda: defaultdict(list))

    def advance(self, number: int, event: Event) -> None:
        match event:
            case Write(inode) | Truncate(inode):
                self.writes[inode].append((number, event))
            case Sync(inode):
                content = self.contents.setdefault(inode, bytearray())
                for _, write in self.writes.pop(inode, ()):
                    _apply(write, content)
            case Rename():
                self.renames.append((number, event))
            case SyncFolder(folder):
                synced = [each for each in self.renames if _in_folder(each[1], folder)]
                self.renames = [each for each in self.renames if each not in synced]
                for _, rename in synced:
                    _apply_names(rename, self.names)

    def cut(self, chance: random.Random) -> Files:
        """Return the files that a power cut leaves: of what was not synced anything may be kept, torn or lost."""
        way = chance.choice(["all lost", "all kept", "the first kept", "any kept", "any kept", "any torn", "any torn"])
        numbers = [number for number, _ in self.renames]
        numbers += [number for writes in self.writes.values() for number, _ in writes]
        last = chance.choice(numbers) if numbers else 0
        share = chance.choice([0.1, 0.5, 0.9])

        def is_kept(number: int) -> bool:
            if way in ("all lost", "all kept"):
                return way == "all kept"
            return number <= last if way == "the first kept" else chance.random() < share

        names = dict(self.names)
        for number, rename in self.renames:
            if is_kept(number):
                _apply_names(rename, names)
        files: Files = {}
        for name, inode in names.items():
            if inode == _FOLDER or not all(str(folder) in names for folder in list(Path(name).parents)[:-1]):
                continue
            content = bytearray(self.contents.get(inode, b""))
            for number, write in self.writes.get(inode, ()):
                if way == "any torn" and isinstance(write, Write):
                    _tear(write, content, chance, share)
                elif is_kept(number):
                    _apply(write, content)
            files[name] = bytes(content)
        return files


def _apply(write: Write | Truncate, content: bytearray) -> None:
    end = write.size if isinstance(write, Truncate) else write.offset + len(write.data)
    if isinstance(write, Truncate):
        del content[end:]
    content.extend(bytes(max(0, end - len(content))))
    if isinstance(write, Write):
        content[write.offset : end] = write.data


def _tear(write: Write, content: bytearray, chance: random.Random, share: float) -> None:
    """Apply some sectors of a write; where the file grew, a lost one holds what the disk held there before."""
    first, end = write.offset, write.offset + len(write.data)
    while first < end:
        last = min(end, first - first % SECTOR + SECTOR)
        if chance.random() < share:
            _apply(Write(write.inode, first, write.data[first - write.offset : last - write.offset]), content)
        elif first >= len(content) and chance.random() < 0.5:
            _apply(Write(write.inode, first, chance.randbytes(last - first)), content)
        first = last


def _in_folder(rename: Rename, folder: str) -> bool:
    return any(os.path.dirname(name) == folder for name in rename.names)


def _apply_names(rename: Rename, names: dict[str, int]) -> None:
    for name, inode in rename.names.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


def cut_power(disk: Disk, moments: list[int], seed: int) -> Iterator[tuple[int, Files]]:
    """Yield what power cuts leave: one before each of the events with these numbers, in order."""
    chance, state, done = random.Random(seed), copy.deepcopy(disk.base), 0
    for moment in sorted(moments):
        for number in range(done, moment):
            state.advance(number, disk.events[number])
        done = moment
        yield moment, state.cut(chance)


def write_files(files: Files, folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
