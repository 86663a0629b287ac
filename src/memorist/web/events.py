"""Server-sent events: what any process writes or recalls, found by one thread for all who listen."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from memorist.engine.feed import POLL_SECONDS, ChangeFeed
from memorist.errors import InvalidInput, MemoristError
from memorist.views import Change
from memorist.web.access import TokenAuth
from memorist.web.memories import OpenMemories
from memorist.web.problems import Refusal

MAX_LISTENERS = 100
_MAX_PENDING = 100  # events that a listener has not read: then it is sent away, and comes back with its last one
_HEARTBEAT_SECONDS = 15.0
_RETRY_MILLISECONDS = 1000

_log = logging.getLogger(__name__)

_Listener = tuple[asyncio.AbstractEventLoop, "asyncio.Queue[Change | None]"]


class Feed:
    """Watches one namespace while somebody listens, and tells all listeners what has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def join(self, source: ChangeFeed, listener: _Listener, position: str | None) -> Change:
        """Add a listener, and return what came since its position."""
        mark, now = source.read_mark(), source.read_position()
        with self._lock:
            self._listeners.append(listener)
            if self._thread is None:
                self._stop = threading.Event()
                self._thread = threading.Thread(
                    target=self._watch, args=(source, mark, now, self._stop), name="memorist-feed", daemon=True
                )
                self._thread.start()
        # After it was added: it may be told of a change twice, but misses none.
        try:
            return source.changes_since(position or now)
        except InvalidInput:  # of another version or database: whoever was away so long loads everything again
            return Change(now, {})
        except BaseException:
            self.leave(listener)
            raise

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

    def _watch(self, source: ChangeFeed, mark: str, position: str, stop: threading.Event) -> None:
        while not stop.wait(POLL_SECONDS):
            try:
                latest = source.read_mark()
                if latest == mark:
                    continue
                change = source.changes_since(position)
            except MemoristError as exc:
                if stop.is_set():  # the memory was closed after the last listener had left
                    return
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
        self._joined = 0
        self._lock = threading.Lock()

    def join(
        self,
        memories: OpenMemories,
        namespace: str,
        position: str | None,
        loop: asyncio.AbstractEventLoop,
        token_auth: TokenAuth,
    ) -> "Subscription":
        """Return a subscription to a namespace from now on, and to what came since a position. Needs a thread."""
        with ExitStack() as stack:
            stack.enter_context(self._count_in())
            source = ChangeFeed(stack.enter_context(memories.use(namespace))._resources.store)
            with self._lock:
                feed = self._feeds.setdefault(namespace, Feed())
            listener: _Listener = (loop, asyncio.Queue())
            # A position is made of keys of the whole database, which would tell how much other namespaces write.
            known = None if position is None else token_auth.unseal(position, namespace)
            missed = feed.join(source, listener, known)
            stack.callback(feed.leave, listener)
            seal = partial(token_auth.seal, namespace=namespace)
            return Subscription(listener[1], missed, seal, stack.pop_all().close)

    @contextmanager
    def _count_in(self) -> Iterator[None]:
        with self._lock:
            if self._joined >= MAX_LISTENERS:
                raise Refusal(503, "too-many-listeners", f"{MAX_LISTENERS} listeners are served at most")
            self._joined += 1
        try:
            yield
        finally:
            with self._lock:
                self._joined -= 1

    def close(self) -> None:
        for feed in list(self._feeds.values()):
            feed.close()


class Subscription:
    """The place of one listener, which it has until it calls `leave`."""

    def __init__(
        self,
        queue: "asyncio.Queue[Change | None]",
        missed: Change,
        seal: Callable[[str], str],
        leave: Callable[[], None],
    ) -> None:
        self._queue, self._missed, self._seal, self.leave = queue, missed, seal, leave

    async def events(self) -> AsyncIterator[bytes]:
        """Yield what was missed, and then every change, until the feed is closed."""
        yield f"retry: {_RETRY_MILLISECONDS}\n".encode() + self._format("hello", self._missed)
        while True:
            try:
                change = await asyncio.wait_for(self._queue.get(), _HEARTBEAT_SECONDS)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if change is None:
                return
            yield self._format("change", change)

    def _format(self, event: str, change: Change) -> bytes:
        data = json.dumps({"new": {kind: list(ids) for kind, ids in change.new.items()}})
        return f"id: {self._seal(change.position)}\nevent: {event}\ndata: {data}\n\n".encode()
