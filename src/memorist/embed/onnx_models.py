"""Models that run on this machine with onnxruntime, loaded at first use, and where optional ones are looked for."""

import hashlib
import importlib.util
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from memorist.errors import EmbedderUnavailable
from memorist.forks import renew_after_fork

MODEL = "model.onnx"
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

    @property
    def is_loaded(self) -> bool:
        """False if the first use has to load the model yet."""
        return self._loaded is not None

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


def load_unchecked_session(file: Path, label: str) -> Any:
    """Return an onnxruntime session of a user's own model, whose checksum nobody knows."""
    return _create_session(_require_onnxruntime(label), file, label)


def load_session(folder: Path, checksums: Mapping[str, str], label: str, install_hint: str) -> Any:
    """
    Return an onnxruntime session of a folder's model.onnx; EmbedderUnavailable where there can be none.

    `checksums` are the sha256 of the folder's files by name. Errors call the model by its `label`.
    """
    onnxruntime = _require_onnxruntime(label)
    # A damaged model would give wrong numbers without an error. The files are read while onnxruntime reads the model.
    with ThreadPoolExecutor(1, "memorist-checksum") as thread:
        checked = thread.submit(_check_files, folder, checksums, label, install_hint)
        try:
            session = _create_session(onnxruntime, folder / MODEL, label)
        except EmbedderUnavailable:
            checked.result()  # that a file is missing or damaged is the better reason
            raise
        checked.result()
        return session


def _require_onnxruntime(label: str) -> Any:
    try:
        return import_onnxruntime()
    except ImportError as exc:
        raise EmbedderUnavailable(
            f"{label} needs onnxruntime, which cannot be imported ({exc}); install it with: pip install onnxruntime"
        ) from exc


def _check_files(folder: Path, checksums: Mapping[str, str], label: str, install_hint: str) -> None:
    for name, sha256 in checksums.items():
        try:
            is_sound = _matches(folder / name, sha256)
        except OSError as exc:
            raise EmbedderUnavailable(f"{label}'s file {name} cannot be read ({exc}); {install_hint}") from exc
        if not is_sound:
            reason = "is damaged or of another version: its sha256 is wrong"
            raise EmbedderUnavailable(f"{label}'s file {name} {reason}; {install_hint}")


def _create_session(onnxruntime: Any, file: Path, label: str) -> Any:
    options = onnxruntime.SessionOptions()
    # One thread a text: texts run side by side, and a short one is too small to share out.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: warnings would go to a user's terminal
    try:
        # By path, not by content: that leaves much less resident.
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # onnxruntime's errors share no base of their own
        raise EmbedderUnavailable(
            f"onnxruntime {onnxruntime.__version__} cannot load {label}: {exc}; "
            "install a current one with: pip install --upgrade onnxruntime"
        ) from exc


def _matches(file: Path, sha256: str) -> bool:
    with file.open("rb") as content:  # piece by piece: memory for all of it takes as long as its checksum
        return hashlib.file_digest(content, "sha256").hexdigest() == sha256


class OptionalModel(Struct, frozen=True):
    """
    A model that can be added: a folder with its files, as a distribution of its own or copied by hand.

    It has the vocabulary of the bundled model, so its folder holds the weights alone.
    """

    name: str
    description: str
    licence: str
    checksums: Mapping[str, str]  # sha256 by the name of a file

    @property
    def distribution(self) -> str:
        return f"memorist-{self.name}"

    @property
    def install_hint(self) -> str:
        """A hint on how to install it, in words that can follow a comma."""
        return f"`pip install {self.distribution}` adds it (from a checkout: `pip install ./models/{self.name}`)"

    @property
    def _reinstall_hint(self) -> str:
        command = "pip install --upgrade --force-reinstall"
        return f"`{command} {self.distribution}` (from a checkout: `{command} ./models/{self.name}`)"

    def user_folder(self) -> Path:
        """Return the folder in the user's data that `memorist models add` copies it to."""
        from platformdirs import user_data_path

        return user_data_path("memorist", appauthor=False) / "models" / self.name

    def find(self, models: Path | None = None) -> Path | None:
        """Return its folder: installed, in the user's data, or in a folder of models."""
        spec = importlib.util.find_spec(self.distribution.replace("-", "_"))
        installed = list(spec.submodule_search_locations or ()) if spec else []
        folders = [*map(Path, installed), self.user_folder(), *([models / self.name] if models else [])]
        return next((folder for folder in folders if (folder / MODEL).is_file()), None)

    def load(self, models: Path | None = None) -> Any:
        """Return its onnxruntime session; EmbedderUnavailable, with a hint, where it is missing or damaged."""
        folder = self.find(models)
        if folder is None:
            raise EmbedderUnavailable(f"{self.distribution} is not installed; {self.install_hint}")
        return load_session(folder, self.checksums, self.distribution, f"install it again: {self._reinstall_hint}")

    def matches(self, folder: Path) -> bool:
        """Return whether a folder holds all of its files, undamaged."""
        return all(
            (folder / name).is_file() and _matches(folder / name, sha256) for name, sha256 in self.checksums.items()
        )


OPTIONAL_MODELS: Mapping[str, OptionalModel] = MappingProxyType(
    {
        model.name: model
        for model in (
            OptionalModel(
                "reranker",
                "memorist-rerank-v1 in int8: reads a question and a passage together",
                "Apache-2.0",
                {MODEL: "a23f4fc328b43b27323d092daf9b793ecb4134ef8fed13220e6ad8c0df811968"},
            ),
        )
    }
)
