"""Open a memory in the background, so that a handshake waits neither for the engine nor for the model."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from memorist.errors import MemoristError

if TYPE_CHECKING:  # the engine is loaded after the handshake
    from memorist.engine import Memorist

_WARM_UP_QUERY = "memorist"  # any query loads the model and the vectors

_log = logging.getLogger(__name__)


class BackgroundOpener:
    """Opens a memory once, in its own thread, then loads its model; if opening fails, the next call tries again."""

    def __init__(self, open: "Callable[[], Memorist]") -> None:
        self._open = open
        self._lock = threading.Lock()
        self._opened: Future[Memorist] | None = None
        self._ready = threading.Event()
        self._closed = False

    @property
    def is_ready(self) -> bool:
        """True once a search no longer has to wait for the model."""
        return self._ready.is_set()

    def start(self) -> None:
        """Begin to open the memory, unless that has begun."""
        self._ensure_started()

    def wait_for_memory(self) -> "Memorist":
        """Return the memory as soon as it is open."""
        return self._ensure_started().result()

    def close(self) -> None:
        with self._lock:
            self._closed, opened = True, self._opened
        if opened is not None and opened.exception() is None:
            opened.result().close()

    def _ensure_started(self) -> "Future[Memorist]":
        with self._lock:
            failed = self._opened is not None and self._opened.done() and self._opened.exception() is not None
            if (self._opened is None or failed) and not self._closed:
                self._opened = Future()
                threading.Thread(target=self._work, args=(self._opened,), name="memorist-open", daemon=True).start()
            if self._opened is None:
                raise MemoristError("the server is shutting down")
            return self._opened

    def _work(self, opened: "Future[Memorist]") -> None:
        try:
            memory = self._open()
        except BaseException as exc:
            opened.set_exception(exc)
            return
        opened.set_result(memory)
        try:
            memory.search(_WARM_UP_QUERY, limit=1, record="off")
        except MemoristError as exc:  # searches fail in the same way, and tell the client
            if not self._closed:
                _log.warning("the memory could not be searched yet: %s", exc)
        finally:
            self._ready.set()
