"""The memories that a server has open: one for each namespace that is asked for."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from memorist.errors import MemoristError
from memorist.web.problems import Refusal

if TYPE_CHECKING:
    from memorist.embed.base import Embedder
    from memorist.engine import Memorist

MAX_NAMESPACES = 32  # that are open at once
_WARM_UP_QUERY = "memorist"  # any query loads the model and the vectors

_log = logging.getLogger(__name__)

Open = Callable[[str, "Embedder | None"], "Memorist"]


class OpenMemories:
    """Opens the memory of a namespace when it is first asked for; all of them share one model."""

    def __init__(self, open: Open, namespace: str) -> None:
        self.namespace = namespace  # of requests that name none
        self._open = open
        self._lock = threading.Lock()
        self._opened: dict[str, Future[Memorist]] = {}
        self._closed = False

    def get(self, namespace: str | None = None) -> "Memorist":
        """Return the memory of a namespace. Needs a thread: it may have to be opened."""
        name = namespace or self.namespace
        with self._lock:
            if self._closed:
                raise Refusal(503, "shutting-down", "the server is shutting down")
            future, is_new = self._opened.get(name), False
            if future is None:
                if len(self._opened) >= MAX_NAMESPACES:
                    raise Refusal(503, "too-many-namespaces", f"{MAX_NAMESPACES} namespaces are open already")
                future, is_new = self._opened.setdefault(name, Future()), True
        if is_new:
            self._work(name, future)
        return future.result()

    def warm_up(self) -> None:
        """Open the memory and load its model, in a thread of its own, before somebody waits for it."""
        threading.Thread(target=self._warm_up, name="memorist-open", daemon=True).start()

    def close(self) -> None:
        with self._lock:
            self._closed, opened = True, list(self._opened.values())
        # The first has the model that the others use.
        for future in reversed(opened):
            if future.exception() is None:
                future.result().close()

    def _work(self, name: str, future: "Future[Memorist]") -> None:
        try:
            first = self._opened[self.namespace]
            shared = first.result()._resources.model.embedder if name != self.namespace and first.done() else None
            future.set_result(self._open(name, shared))
        except BaseException as exc:
            with self._lock:
                self._opened.pop(name, None)  # the next request tries again
            future.set_exception(exc)

    def _warm_up(self) -> None:
        try:
            self.get().search(_WARM_UP_QUERY, limit=1, record="off")
        except (MemoristError, Refusal) as exc:  # searches fail in the same way, and tell the client
            _log.warning("the memory could not be searched yet: %s", exc)
