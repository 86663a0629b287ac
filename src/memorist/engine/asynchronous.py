"""A memory for asyncio: the methods of `Memorist`, each awaited, run by a few threads."""

import asyncio
import functools
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from math import isclose
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from weakref import finalize

from memorist import validation
from memorist.contract import Operation
from memorist.engine import open_memory
from memorist.engine.documents import Documents, Paths
from memorist.engine.facts import Facts
from memorist.engine.files import Files
from memorist.engine.lenses import Lenses
from memorist.engine.links import Links
from memorist.engine.memory import Memorist
from memorist.engine.review import Review
from memorist.engine.room import Room
from memorist.engine.searches import Searches
from memorist.engine.sessions import Sessions
from memorist.engine.transfer import Transfer
from memorist.forks import renew_after_fork
from memorist.reports import IndexReport
from memorist.time_limit import cancel_with
from memorist.views import Change

_SWITCH_INTERVAL = 0.0005  # seconds; Python's own is ten times as long. Less gains little more

P = ParamSpec("P")
R = TypeVar("R", bound=Room)
T = TypeVar("T")

Method = Callable[Concatenate[R, P], T]
AwaitedMethod = Callable[Concatenate["_AsyncRoom", P], Coroutine[Any, Any, T]]


def _awaited(method: Method[R, P, T], *, reads: bool | None = None) -> AwaitedMethod[P, T]:
    """
    Return a method that has a thread call this one.

    What only reads, as its operation says or else `reads`, is stopped when the caller is cancelled. What writes is
    finished as a whole once a thread has begun it.
    """
    described: Operation | None = getattr(method, "operation", None)
    is_stopped = described is not None and described.reads if reads is None else reads

    @functools.wraps(method)
    async def call(self: "_AsyncRoom", /, *arguments: P.args, **options: P.kwargs) -> T:
        cancelled = threading.Event()

        def run() -> T:
            with cancel_with(cancelled):
                return method(self._room, *arguments, **options)

        try:
            return await self._threads.run(run)
        except asyncio.CancelledError:
            if is_stopped:
                cancelled.set()
            raise

    return call


class _ShortTurns:
    """
    Has threads hand over the interpreter's lock sooner while a memory is open for asyncio.

    The event loop waits for a turn of each thread at work. The interval is that of the whole process.
    """

    def __init__(self) -> None:
        self._users = 0
        self._before: float | None = None  # the interval that was replaced
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """In a child: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()  # a user may be collected as garbage while its thread holds the lock

    def begin(self, user: object) -> Callable[[], object]:
        """Begin for a user; return what ends it, which is called at last when the user is collected as garbage."""
        with self._lock:
            self._users += 1
            if self._before is None and sys.getswitchinterval() > _SWITCH_INTERVAL:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_INTERVAL)
        return finalize(user, self._end)

    def _end(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._before is not None:
                if isclose(sys.getswitchinterval(), _SWITCH_INTERVAL):  # else the program has set another one since
                    sys.setswitchinterval(self._before)
                self._before = None


_short_turns = _ShortTurns()


async def _iterate(items: Iterator[T]) -> AsyncGenerator[T, None]:
    """Yield items that take their time, from a thread of their own: waiting would keep one of the others."""
    with ThreadPoolExecutor(1, "memorist-wait") as thread:
        loop = asyncio.get_running_loop()
        while (item := await loop.run_in_executor(thread, next, items, None)) is not None:
            yield item


class _Threads:
    """The threads that run the calls of one memory."""

    def __init__(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, "memorist-async")

    async def run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, copy_context().run, call)

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)


class _AsyncRoom:
    """A room of a memory, or the memory itself, whose methods are awaited."""

    def __init__(self, room: Room, threads: _Threads) -> None:
        self._room: Any = room
        self._threads = threads


class AsyncSessions(_AsyncRoom):
    """Sessions, awaited."""

    start = _awaited(Sessions.start)
    end = _awaited(Sessions.end)
    summarise = _awaited(Sessions.summarise)
    forget = _awaited(Sessions.forget)
    restore = _awaited(Sessions.restore)
    get = _awaited(Sessions.get)
    list = _awaited(Sessions.list)
    context_of = _awaited(Sessions.context_of)
    turns = _awaited(Sessions.turns)
    add_turn = _awaited(Sessions.add_turn)


class AsyncFacts(_AsyncRoom):
    """Facts, awaited."""

    add = _awaited(Facts.add)
    list = _awaited(Facts.list)
    reinforce = _awaited(Facts.reinforce)
    remove = _awaited(Facts.remove)


class AsyncLinks(_AsyncRoom):
    """Links, awaited."""

    add = _awaited(Links.add)
    remove = _awaited(Links.remove)
    replaced = _awaited(Links.replaced)


class AsyncDocuments(_AsyncRoom):
    """Documents, awaited."""

    index = _awaited(Documents.index)
    search = _awaited(Documents.search)
    list = _awaited(Documents.list)
    get = _awaited(Documents.get)
    find = _awaited(Documents.find)
    chunks = _awaited(Documents.chunks)
    remove = _awaited(Documents.remove)

    async def watch(
        self, paths: Paths, *, stop: threading.Event | None = None, **options: Any
    ) -> AsyncGenerator[IndexReport, None]:
        """Index files, folders and globs, and again whenever something in them changes, until `stop` is set."""
        stopped = stop or threading.Event()
        try:
            async for report in _iterate(self._room.watch(paths, stop=stopped, **options)):
                yield report
        finally:
            stopped.set()


class AsyncFiles(_AsyncRoom):
    """Files of an agent, awaited."""

    create = _awaited(Files.create)
    edit = _awaited(Files.edit)
    replace = _awaited(Files.replace)
    list = _awaited(Files.list)
    move = _awaited(Files.move)
    forget = _awaited(Files.forget)


class AsyncLenses(_AsyncRoom):
    """Lenses, awaited."""

    list = _awaited(Lenses.list)
    get = _awaited(Lenses.get)
    set = _awaited(Lenses.set)
    remove = _awaited(Lenses.remove)


class AsyncSearches(_AsyncRoom):
    """Recorded searches, awaited."""

    @property
    def lost(self) -> int:
        """The number of searches that could not be recorded; they were answered all the same."""
        lost: int = self._room.lost
        return lost

    list = _awaited(Searches.list)
    clear = _awaited(Searches.clear)
    add_feedback = _awaited(Searches.add_feedback)
    list_feedback = _awaited(Searches.list_feedback)


class AsyncReview(_AsyncRoom):
    """Review, awaited."""

    list = _awaited(Review.list)
    duplicates = _awaited(Review.duplicates)
    merge = _awaited(Review.merge)
    compare = _awaited(Review.compare)
    graph = _awaited(Review.graph)
    growth = _awaited(Review.growth)
    projects = _awaited(Review.projects, reads=True)


class AsyncTransfer(_AsyncRoom):
    """Exports, imports and backups, awaited."""

    export = _awaited(Transfer.export, reads=False)  # it writes a file
    import_ = _awaited(Transfer.import_)
    import_conversations = _awaited(Transfer.import_conversations)
    discover = _awaited(Transfer.discover)
    backup = _awaited(Transfer.backup)


class AsyncMemorist(_AsyncRoom):
    """
    A memory whose methods are awaited, with the names, arguments and answers of `Memorist`.

    Made by `memorist.open_async`. Close it, or use it in an `async with` block. A call that is cancelled before a
    thread has begun it does nothing. After that, a reading call stops, and a writing one is finished as a whole.
    Functions that you pass, such as `progress`, are called in a thread.
    """

    def __init__(self, memory: Memorist, threads: int) -> None:
        super().__init__(memory, _Threads(threads))
        self.sessions = AsyncSessions(memory.sessions, self._threads)
        self.facts = AsyncFacts(memory.facts, self._threads)
        self.links = AsyncLinks(memory.links, self._threads)
        self.documents = AsyncDocuments(memory.documents, self._threads)
        self.files = AsyncFiles(memory.files, self._threads)
        self.lenses = AsyncLenses(memory.lenses, self._threads)
        self.searches = AsyncSearches(memory.searches, self._threads)
        self.review = AsyncReview(memory.review, self._threads)
        self.transfer = AsyncTransfer(memory.transfer, self._threads)
        self._end_short_turns = _short_turns.begin(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for the calls under way, and release the file, the model and every thread. Closing twice is fine."""
        await asyncio.to_thread(self._close)

    async def changes(self, position: str | None = None) -> AsyncGenerator[Change, None]:
        """Follow what any process writes or recalls: first what came since a position, then what comes."""
        async for change in _iterate(self._room.changes(position)):
            yield change

    def _close(self) -> None:
        self._threads.close()
        self._end_short_turns()
        self._room.close()

    add = _awaited(Memorist.add)
    add_many = _awaited(Memorist.add_many)
    update = _awaited(Memorist.update)
    forget = _awaited(Memorist.forget)
    forget_many = _awaited(Memorist.forget_many)
    restore = _awaited(Memorist.restore)
    purge = _awaited(Memorist.purge)
    search = _awaited(Memorist.search)
    suggest = _awaited(Memorist.suggest)
    facets = _awaited(Memorist.facets)
    get = _awaited(Memorist.get, reads=True)
    list = _awaited(Memorist.list)
    count = _awaited(Memorist.count)
    history = _awaited(Memorist.history)
    timeline = _awaited(Memorist.timeline)
    related = _awaited(Memorist.related)
    context = _awaited(Memorist.context)
    briefing = _awaited(Memorist.briefing)
    supersede = _awaited(Memorist.supersede)
    unsupersede = _awaited(Memorist.unsupersede)
    reinforce = _awaited(Memorist.reinforce)
    deemphasize = _awaited(Memorist.deemphasize)
    pin = _awaited(Memorist.pin)
    unpin = _awaited(Memorist.unpin)
    stats = _awaited(Memorist.stats)
    check = _awaited(Memorist.check)
    reembed = _awaited(Memorist.reembed)


class Opening:
    """A memory that is about to be opened: await it, or use it in an `async with` block."""

    def __init__(self, open: Callable[[], Memorist], threads: int) -> None:
        self._open, self._threads = open, threads
        self._memory: AsyncMemorist | None = None

    def __await__(self) -> Generator[Any, None, AsyncMemorist]:
        return self._start().__await__()

    async def __aenter__(self) -> AsyncMemorist:
        self._memory = await self._start()
        return self._memory

    async def __aexit__(self, *error: object) -> None:
        if self._memory is not None:
            await self._memory.close()

    async def _start(self) -> AsyncMemorist:
        opening = asyncio.ensure_future(asyncio.to_thread(self._open))
        try:
            return AsyncMemorist(await asyncio.shield(opening), self._threads)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)  # nobody will
            raise


def open_async(target: str | Path | None = None, *, concurrency: int = 2, **options: Any) -> Opening:
    """
    Open a memory for asyncio: `async with memorist.open_async() as memory`, or `memory = await memorist.open_async()`.

    It takes the options of `open`, and runs up to `concurrency` calls at once; further ones wait their turn. More than
    two are of use where calls wait for a server. While it is open, the process's switch interval is half a millisecond.
    """
    threads = validation.whole_number(concurrency, "concurrency", 1, 64)
    return Opening(functools.partial(open_memory, target, **options), threads)


def _close_unused(opening: "asyncio.Future[Memorist]") -> None:
    with suppress(Exception, asyncio.CancelledError):
        threading.Thread(target=opening.result().close).start()
