"""A memory that is opened in the background: a handshake waits neither for the engine nor for the model."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from memorist.errors import MemoristError

if TYPE_CHECKING:  # the point of this module is that it is loaded later
    from memorist.engine import Memorist

WARMING = "memorist"  # a question that loads the model and the vectors

_log = logging.getLogger(__name__)


class Opening:
    """Opens a memory once, in a thread of its own, then loads its model; where opening fails, the next call tries."""

    def __init__(self, open: "Callable[[], Memorist]") -> None:
        self._open = open
        self._lock = threading.Lock()
        self._opened: Future[Memorist] | None = None
        self._ready = threading.Event()
        self._closed = False

    @property
    def ready(self) -> bool:
        """Whether a search need not wait for the model any more."""
        return self._ready.is_set()

    def start(self) -> None:
        """Begin, if that has not happened yet."""
        self._begun()

    def memory(self) -> "Memorist":
        """The memory, as soon as it is open."""
        return self._begun().result()

    def close(self) -> None:
        with self._lock:
            self._closed, opened = True, self._opened
        if opened is not None and opened.exception() is None:
            opened.result().close()

    def _begun(self) -> "Future[Memorist]":
        with self._lock:
            failed = self._opened is not None and self._opened.done() and self._opened.exception() is not None
            if (self._opened is None or failed) and not self._closed:
                self._opened = Future()
                threading.Thread(target=self._work, args=(self._opened,), name="memorist-open", daemon=True).start()
            if self._opened is None:
                raise MemoristError("the server is ending")
            return self._opened

    def _work(self, opened: "Future[Memorist]") -> None:
        try:
            memory = self._open()
        except BaseException as exc:
            opened.set_exception(exc)
            return
        opened.set_result(memory)
        try:
            memory.search(WARMING, limit=1, record="off")
        except MemoristError as exc:  # searches will meet it, too, and say so
            if not self._closed:
                _log.warning("the memory could not be searched yet: %s", exc)
        finally:
            self._ready.set()
