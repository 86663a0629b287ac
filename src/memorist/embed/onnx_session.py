"""A model that runs on this machine: loaded when it is first used, and shared between threads.

Models on disk: checked to be whole, and loaded into onnxruntime.
"""

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

MAX_THREADS = 8  # by default; a memory should not take every core of a large shared machine


class OnnxModel(ABC):
    """Has an onnxruntime session from its first use on, and a number of threads to run texts side by side."""

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = max(1, threads if threads is not None else min(os.cpu_count() or 1, MAX_THREADS))
        self._loaded: Any = None
        self.after_fork()
        renew_after_fork(self)

    @abstractmethod
    def _load(self) -> Any:
        """An onnxruntime session, from files known to be whole."""

    def after_fork(self) -> None:
        """In a child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """Release the model; a later use loads it again."""
        with self._lock:
            self._loaded = None

    def _session(self) -> Any:
        loaded = self._loaded
        if loaded is None:
            with self._lock:
                loaded = self._loaded
                if loaded is None:
                    loaded = self._loaded = self._load()
        return loaded


def load(folder: Traversable, sums: Mapping[str, str], what: str, cure: str) -> Any:
    """An onnxruntime session of a folder's model.onnx; `sums` are the sha256 of the folder's files."""
    try:
        import onnxruntime  # slow and large, so not before it is wanted
    except ImportError as exc:
        raise EmbedderUnavailable(
            f"{what} needs onnxruntime, which cannot be imported ({exc}); install it with: pip install onnxruntime"
        ) from exc
    for name, sha256 in sums.items():
        _check(folder, name, sha256, what, cure)
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
            f"onnxruntime {onnxruntime.__version__} cannot load {what}: {exc}; "
            "install a current one with: pip install --upgrade onnxruntime"
        ) from exc


def _check(folder: Traversable, name: str, sha256: str, what: str, cure: str) -> None:
    """Refuse a file that is not the one we know: a damaged model would give wrong numbers without a word."""
    try:
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    except OSError as exc:
        raise EmbedderUnavailable(f"{what}'s file {name} cannot be read ({exc}); {cure}") from exc
    if digest != sha256:
        raise EmbedderUnavailable(f"{what}'s file {name} is damaged: its sha256 is wrong; {cure}")
