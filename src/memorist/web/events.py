"""Server-sent events: what any process writes or recalls, found by one thread for all who listen."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio.to_thread

from memorist.engine.inspection import Inspection
from memorist.errors import InvalidInput, MemoristError
from memorist.views import Change
from memorist.web.problems import Refusal

MAX_LISTENERS = 100
_POLL_SECONDS = 0.25
_MAX_PENDING = 100  # events that a listener has not read: then it is sent away, and comes back with its last one
_HEARTBEAT_SECONDS = 15.0
_RETRY_MILLISECONDS = 1000

_log = logging.getLogger(__name__)

_Listener = tuple[asyncio.AbstractEventLoop, "asyncio.Queue[Change | None]"]


class Feed:
    """Watches one namespace while somebody listens, and tells all listeners what has changed."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        return len(self._listeners)

    def join(self, listener: _Listener, position: str | None) -> Change:
        """Add a listener, and return what came since its position."""
        with self._lock:
            mark, now = self._inspection.read_mark(), self._inspection.read_position()
            try:
                missed = self._inspection.changes_since(position or now)
            except InvalidInput:  # of another version or database: whoever was away so long loads everything again
                missed = Change(now, {})
            self._listeners.append(listener)
            if self._thread is None:
                self._stop = threading.Event()
                self._thread = threading.Thread(
                    target=self._watch, args=(mark, now, self._stop), name="memorist-feed", daemon=True
                )
                self._thread.start()
            return missed

    def leave(self, listener: _Listener) -> None:
        """Remove a listener; the last one ends the thread."""
        with self._lock:
            self._listeners = [other for other in self._listeners if other is not listener]
            if not self._listeners:
                self._stop.set()
                self._thread = None

    def close(self) -> None:
        """Send every listener away."""
        with self._lock:
            listeners, self._listeners = self._listeners, []
            self._stop.set()
        for loop, queue in listeners:
            loop.call_soon_threadsafe(_put, queue, None)

    def _watch(self, mark: str, position: str, stop: threading.Event) -> None:
        while not stop.wait(_POLL_SECONDS):
            try:
                latest = self._inspection.read_mark()
                if latest == mark:
                    continue
                change = self._inspection.changes_since(position)
            except MemoristError as exc:
                _log.warning("the memory could not be watched: %s", exc)
                if stop.wait(_HEARTBEAT_SECONDS):
                    return
                continue
            mark, position = latest, change.position
            with self._lock:
                for loop, queue in self._listeners:
                    loop.call_soon_threadsafe(_put, queue, change)


def _put(queue: "asyncio.Queue[Change | None]", change: Change | None) -> None:
    if change is None or queue.qsize() >= _MAX_PENDING:
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)
    else:
        queue.put_nowait(change)


class Feeds:
    """The feeds of the namespaces that are open."""

    def __init__(self) -> None:
        self._feeds: dict[str, Feed] = {}
        self._lock = threading.Lock()

    @asynccontextmanager
    async def listen(
        self, namespace: str, inspect: Callable[[], Inspection], position: str | None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give the events of a namespace from now on, after those since a position."""
        if sum(feed.count for feed in self._feeds.values()) >= MAX_LISTENERS:
            raise Refusal(503, "too-many-listeners", f"{MAX_LISTENERS} listeners are served at most")
        feed = await anyio.to_thread.run_sync(self._get, namespace, inspect)
        queue: asyncio.Queue[Change | None] = asyncio.Queue()
        listener = (asyncio.get_running_loop(), queue)
        missed = await anyio.to_thread.run_sync(feed.join, listener, position)
        try:
            yield _stream(queue, missed)
        finally:
            feed.leave(listener)

    def close(self) -> None:
        for feed in list(self._feeds.values()):
            feed.close()

    def _get(self, namespace: str, inspect: Callable[[], Inspection]) -> Feed:
        inspection = inspect()
        with self._lock:
            return self._feeds.setdefault(namespace, Feed(inspection))


async def _stream(queue: "asyncio.Queue[Change | None]", missed: Change) -> AsyncIterator[bytes]:
    yield f"retry: {_RETRY_MILLISECONDS}\n".encode() + _format("hello", missed)
    while True:
        try:
            change = await asyncio.wait_for(queue.get(), _HEARTBEAT_SECONDS)
        except TimeoutError:
            yield b": still here\n\n"
            continue
        if change is None:
            return
        yield _format("change", change)


def _format(event: str, change: Change) -> bytes:
    data = json.dumps({"new": {kind: list(ids) for kind, ids in change.new.items()}})
    return f"id: {change.position}\nevent: {event}\ndata: {data}\n\n".encode()
