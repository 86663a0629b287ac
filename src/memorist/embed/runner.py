"""A model that runs on this machine: loaded when it is first used, and shared between threads."""

import os
import threading
from abc import ABC, abstractmethod
from typing import Any

from memorist.forks import renew_after_fork

MAX_THREADS = 8  # by default; a memory should not take every core of a large shared machine


class Runner(ABC):
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
