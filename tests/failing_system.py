"""System calls that fail: those of SQLite, replaced beneath its VFS, and those of Python code, in `os`."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import apsw

_INT, _SIZE, _POINTER, _TEXT = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
_COUNT, _OFFSET = ctypes.c_ssize_t, ctypes.c_int64
# SQLite's calls: what they are to a test, what they return, and what they take. SQLite has some of them.
_CALLS: dict[str, tuple[str, list[Any]]] = {
    "open": ("open", [_INT, _TEXT, _INT, _INT]),
    "read": ("read", [_COUNT, _INT, _POINTER, _SIZE]),
    "pread": ("read", [_COUNT, _INT, _POINTER, _SIZE, _OFFSET]),
    "pread64": ("read", [_COUNT, _INT, _POINTER, _SIZE, _OFFSET]),
    "write": ("write", [_COUNT, _INT, _POINTER, _SIZE]),
    "pwrite": ("write", [_COUNT, _INT, _POINTER, _SIZE, _OFFSET]),
    "pwrite64": ("write", [_COUNT, _INT, _POINTER, _SIZE, _OFFSET]),
    "ftruncate": ("truncate", [_INT, _INT, _OFFSET]),
    "fstat": ("stat", [_INT, _INT, _POINTER]),
    "unlink": ("unlink", [_INT, _TEXT]),
}
_PYTHON_CALLS = {
    "open": "create", "fsync": "sync", "replace": "rename", "rename": "rename", "unlink": "unlink",
    "remove": "unlink", "mkdir": "create",
}  # fmt: skip
SHORT = -1  # in the place of an error: the call does half of what it was asked to


@dataclass
class Fault:
    """Makes a call fail: the one with a number, or all from it on. `errors` has an error for each kind that can."""

    first: int
    errors: dict[str, int]
    lasting: bool = False
    met: int = 0

    def error_of(self, number: int, kind: str) -> int | None:
        if kind not in self.errors or number < self.first or (self.met and not self.lasting):
            return None
        self.met += 1
        return self.errors[kind]


class FailingSystem:
    """The system calls of this process, counted and failing as asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []  # the kinds of all calls so far
        self.fault: Fault | None = None

    @contextmanager
    def installed(self) -> Iterator["FailingSystem"]:
        with ExitStack() as stack:
            vfs = apsw.VFS("failing", apsw.vfs_names()[0])  # not the default: only to reach the system calls
            stack.callback(vfs.unregister)
            kept = []  # by SQLite alone, which Python does not know
            for name, (kind, types) in _CALLS.items():
                if pointer := vfs.xGetSystemCall(name):
                    prototype = ctypes.CFUNCTYPE(*types, use_errno=True)
                    kept.append(prototype(self._fail_in_sqlite(kind, prototype(pointer))))
                    vfs.xSetSystemCall(name, ctypes.cast(kept[-1], ctypes.c_void_p).value)
                    stack.callback(vfs.xSetSystemCall, name, pointer)
            for name, kind in _PYTHON_CALLS.items():
                stack.enter_context(patch.object(os, name, self._fail_in_python(kind, getattr(os, name))))
            yield self

    def _meet(self, kind: str) -> int | None:
        self.calls.append(kind)
        return self.fault.error_of(len(self.calls) - 1, kind) if self.fault else None

    def _fail_in_sqlite(self, kind: str, real: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            met = "create" if kind == "open" and arguments[1] & os.O_CREAT else kind
            error = self._meet(met)
            if error == SHORT:
                handle, buffer, size, *place = arguments
                return real(handle, buffer, max(1, size // 2), *place)
            if error:
                ctypes.set_errno(error)
                return -1
            return real(*arguments)

        return call

    def _fail_in_python(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            met = "open" if real.__name__ == "open" and not arguments[0] & os.O_CREAT else kind
            if error := self._meet(met):
                raise OSError(error, os.strerror(error), path if isinstance(path, str | os.PathLike) else None)
            return real(path, *arguments, **options)

        return call


DEFECT = dict.fromkeys(("open", "create", "read", "write", "truncate", "stat", "unlink", "rename", "sync"), errno.EIO)
FULL = dict.fromkeys(("create", "write", "truncate", "rename", "sync"), errno.ENOSPC)
SHORT_CALLS = {"read": SHORT, "write": SHORT}
