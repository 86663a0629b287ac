"""Models that run on this machine with onnxruntime: checked on disk, loaded at first use, shared between threads."""

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.resources import as_file
from importlib.resources.abc import Traversable
from typing import Any

from memorist.errors import EmbedderUnavailable
from memorist.forks import renew_after_fork

_MAX_THREADS = 8  # by default; a memory should not take every core of a large shared machine


class OnnxModel(ABC):
    """A model with an onnxruntime session from its first use on, and threads to run texts side by side."""

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = max(1, threads if threads is not None else min(os.cpu_count() or 1, _MAX_THREADS))
        self._loaded: Any = None
        self.after_fork()
        renew_after_fork(self)

    @abstractmethod
    def _load(self) -> Any:
        """Return an onnxruntime session, from files that were checked."""

    def after_fork(self) -> None:
        """In a child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """Release the model; a later use loads it again."""
        with self._lock:
            self._loaded = None

    def _session(self) -> Any:
        session = self._loaded
        if session is None:
            with self._lock:
                session = self._loaded
                if session is None:
                    session = self._loaded = self._load()
        return session


def import_onnxruntime() -> Any:
    """Return the module onnxruntime, which is slow to import, without its telemetry."""
    # It sends usage events to its maker, and keeps a device id, unless it is told not to before it is imported.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    if disable := getattr(onnxruntime, "disable_telemetry_events", None):
        disable()  # the program may have imported it before
    return onnxruntime


def load_session(folder: Traversable, checksums: Mapping[str, str], label: str, install_hint: str) -> Any:
    """
    Return an onnxruntime session of a folder's model.onnx; EmbedderUnavailable where there can be none.

    `checksums` are the sha256 of the folder's files by name. Errors call the model by its `label`.
    """
    try:
        onnxruntime = import_onnxruntime()
    except ImportError as exc:
        raise EmbedderUnavailable(
            f"{label} needs onnxruntime, which cannot be imported ({exc}); install it with: pip install onnxruntime"
        ) from exc
    for name, sha256 in checksums.items():
        _check_file(folder, name, sha256, label, install_hint)
    options = onnxruntime.SessionOptions()
    # One thread a text: texts run side by side, and a short one is too small to share out.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: warnings would go to a user's terminal
    try:
        # By path, not by content: that leaves much less resident.
        with as_file(folder / "model.onnx") as path:
            return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # onnxruntime's errors share no base of their own
        raise EmbedderUnavailable(
            f"onnxruntime {onnxruntime.__version__} cannot load {label}: {exc}; "
            "install a current one with: pip install --upgrade onnxruntime"
        ) from exc


def _check_file(folder: Traversable, name: str, sha256: str, label: str, install_hint: str) -> None:
    """Refuse a file with another checksum: a damaged model would give wrong numbers without an error."""
    try:
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    except OSError as exc:
        raise EmbedderUnavailable(f"{label}'s file {name} cannot be read ({exc}); {install_hint}") from exc
    if digest != sha256:
        raise EmbedderUnavailable(f"{label}'s file {name} is damaged: its sha256 is wrong; {install_hint}")
