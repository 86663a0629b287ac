"""The memories that a server has open: one for each namespace that is asked for."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
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


class _OpenMemory:
    """The memory of one namespace, which may still be opening, and how many use it at present."""

    def __init__(self) -> None:
        self.future: Future[Memorist] = Future()
        self.users = 0

    def close(self) -> None:
        """Close the memory, if it could be opened. A failure is logged: whoever caused it asked for something else."""
        if self.future.exception() is None:
            try:
                self.future.result().close()
            except Exception as exc:
                _log.warning("a memory that is not used any more could not be closed: %s", exc)


class OpenMemories:
    """
    Opens the memory of a namespace when it is first asked for; all of them share one model.

    Where as many are open as may be, the one that was idle for longest is closed to make room.
    """

    def __init__(self, open: Open, namespace: str) -> None:
        self.namespace = namespace  # of requests that name none
        self._open = open
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _OpenMemory] = OrderedDict()  # the one used last is the last
        self._closed = False

    @contextmanager
    def use(self, namespace: str | None = None) -> Iterator["Memorist"]:
        """Keep the memory of a namespace open within a block. Needs a thread: it may have to be opened."""
        name = namespace or self.namespace
        idle: _OpenMemory | None = None
        with self._lock:
            if self._closed:
                raise Refusal(503, "shutting-down", "the server is shutting down")
            entry = self._entries.get(name)
            is_new = entry is None
            if entry is None:
                idle = self._make_room()
                entry = self._entries[name] = _OpenMemory()
            self._entries.move_to_end(name)
            entry.users += 1
        try:
            if is_new:
                self._fill(name, entry)
            if idle is not None:
                idle.close()
            yield entry.future.result()
        finally:
            with self._lock:
                entry.users -= 1

    def warm_up(self) -> None:
        """Open the memory and load its model, in a thread of its own, before somebody waits for it."""
        threading.Thread(target=self._warm_up, name="memorist-open", daemon=True).start()

    def close(self) -> None:
        with self._lock:
            self._closed, entries = True, dict(self._entries)
        # That of the server's own namespace has the model that the others use.
        for _, entry in sorted(entries.items(), key=lambda item: item[0] == self.namespace):
            entry.close()

    def _make_room(self) -> _OpenMemory | None:
        """Return the memory that is to be closed for a new one, if there are too many."""
        if len(self._entries) < MAX_NAMESPACES:
            return None
        for name, entry in self._entries.items():
            if not entry.users and name != self.namespace:
                return self._entries.pop(name)
        raise Refusal(503, "too-many-namespaces", f"{MAX_NAMESPACES} namespaces are in use", {"Retry-After": "1"})

    def _fill(self, name: str, entry: _OpenMemory) -> None:
        try:
            first = self._entries.get(self.namespace)
            is_open = first is not None and first.future.done() and first.future.exception() is None
            shared = first.future.result()._resources.model.embedder if first is not None and is_open else None
            entry.future.set_result(self._open(name, shared))
        except BaseException as exc:
            with self._lock:
                self._entries.pop(name, None)  # the next request tries again
            entry.future.set_exception(exc)

    def _warm_up(self) -> None:
        try:
            with self.use() as memory:
                memory.search(_WARM_UP_QUERY, limit=1, record="off")
        except (MemoristError, Refusal) as exc:  # searches fail in the same way, and tell the client
            _log.warning("the memory could not be searched yet: %s", exc)
