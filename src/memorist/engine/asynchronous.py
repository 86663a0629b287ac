"""A memory for asyncio: the methods of `Memorist`, each awaited, run by a few threads."""

import asyncio
import functools
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from math import isclose
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from weakref import finalize

from memorist import validation
from memorist.documents import IndexReport
from memorist.engine import open_memory
from memorist.engine.facade import Memorist
from memorist.engine.files import Paths
from memorist.forks import renew_after_fork
from memorist.time_limit import cancel_with

_SWITCH_INTERVAL = 0.0005  # seconds; Python's own is ten times as long. Less gains little more

P = ParamSpec("P")
T = TypeVar("T")

Method = Callable[Concatenate[Memorist, P], T]
AwaitedMethod = Callable[Concatenate["AsyncMemorist", P], Coroutine[Any, Any, T]]


def _awaited(method: Method[P, T]) -> AwaitedMethod[P, T]:
    """Return a method that has a thread call this one; once a thread has begun, it is finished as a whole."""

    @functools.wraps(method)
    async def call(self: "AsyncMemorist", /, *arguments: P.args, **options: P.kwargs) -> T:
        return await self._run(functools.partial(method, self._memory, *arguments, **options))

    return call


def _stoppable(method: Method[P, T]) -> AwaitedMethod[P, T]:
    """Return a method that has a thread call this one, which only reads, and stops it when the caller is cancelled."""

    @functools.wraps(method)
    async def call(self: "AsyncMemorist", /, *arguments: P.args, **options: P.kwargs) -> T:
        cancelled = threading.Event()

        def read() -> T:
            with cancel_with(cancelled):
                return method(self._memory, *arguments, **options)

        try:
            return await self._run(read)
        except asyncio.CancelledError:
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


class AsyncMemorist:
    """
    A memory whose methods are awaited, with the names, arguments and answers of `Memorist`.

    Made by `memorist.open_async`. Close it, or use it in an `async with` block. A call that is cancelled before a
    thread has begun it does nothing. After that, a reading call stops, and a writing one is finished as a whole.
    Functions that you pass, such as `progress`, are called in a thread.
    """

    def __init__(self, memory: Memorist, threads: int) -> None:
        self._memory = memory
        self._threads = ThreadPoolExecutor(threads, "memorist-async")
        self._end_short_turns = _short_turns.begin(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for the calls under way, and release the file, the model and every thread. Closing twice is fine."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._end_short_turns()
        self._memory.close()

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, call)

    @property
    def recalls_lost(self) -> int:
        """The number of recalls that could not be recorded; their searches were answered all the same."""
        return self._memory.recalls_lost

    async def watch(
        self, paths: Paths, *, stop: threading.Event | None = None, **options: Any
    ) -> AsyncGenerator[IndexReport, None]:
        """Index files, folders and globs, and again whenever something in them changes, until `stop` is set."""
        stopped = stop or threading.Event()
        reports = self._memory.watch(paths, stop=stopped, **options)
        with ThreadPoolExecutor(1, "memorist-watch") as thread:  # waiting for changes would keep one of the others
            try:
                loop = asyncio.get_running_loop()
                while (report := await loop.run_in_executor(thread, next, reports, None)) is not None:
                    yield report
            finally:
                stopped.set()

    add = _awaited(Memorist.add)
    add_many = _awaited(Memorist.add_many)
    update = _awaited(Memorist.update)
    forget = _awaited(Memorist.forget)
    forget_many = _awaited(Memorist.forget_many)
    restore = _awaited(Memorist.restore)
    purge = _awaited(Memorist.purge)
    search = _stoppable(Memorist.search)
    search_documents = _stoppable(Memorist.search_documents)
    suggest = _stoppable(Memorist.suggest)
    facets = _stoppable(Memorist.facets)
    get = _stoppable(Memorist.get)
    list = _stoppable(Memorist.list)
    count = _stoppable(Memorist.count)
    history = _stoppable(Memorist.history)
    timeline = _stoppable(Memorist.timeline)
    related = _stoppable(Memorist.related)
    duplicates = _stoppable(Memorist.duplicates)
    merge = _awaited(Memorist.merge)
    context = _stoppable(Memorist.context)
    briefing = _stoppable(Memorist.briefing)
    start_session = _awaited(Memorist.start_session)
    end_session = _awaited(Memorist.end_session)
    summarise_session = _awaited(Memorist.summarise_session)
    forget_session = _awaited(Memorist.forget_session)
    restore_session = _awaited(Memorist.restore_session)
    session = _stoppable(Memorist.session)
    sessions = _stoppable(Memorist.sessions)
    session_context = _stoppable(Memorist.session_context)
    add_turn = _awaited(Memorist.add_turn)
    import_conversations = _awaited(Memorist.import_conversations)
    supersede = _awaited(Memorist.supersede)
    unsupersede = _awaited(Memorist.unsupersede)
    replaced = _stoppable(Memorist.replaced)
    relate = _awaited(Memorist.relate)
    unrelate = _awaited(Memorist.unrelate)
    add_fact = _awaited(Memorist.add_fact)
    remove_fact = _awaited(Memorist.remove_fact)
    reinforce_fact = _awaited(Memorist.reinforce_fact)
    reinforce = _awaited(Memorist.reinforce)
    deemphasize = _awaited(Memorist.deemphasize)
    pin = _awaited(Memorist.pin)
    unpin = _awaited(Memorist.unpin)
    recalls = _stoppable(Memorist.recalls)
    clear_recalls = _awaited(Memorist.clear_recalls)
    feedback = _awaited(Memorist.feedback)
    feedbacks = _stoppable(Memorist.feedbacks)
    lenses = _stoppable(Memorist.lenses)
    lens = _stoppable(Memorist.lens)
    set_lens = _awaited(Memorist.set_lens)
    remove_lens = _awaited(Memorist.remove_lens)
    stats = _stoppable(Memorist.stats)
    check = _awaited(Memorist.check)
    reembed = _awaited(Memorist.reembed)
    index = _awaited(Memorist.index)
    documents = _stoppable(Memorist.documents)
    document = _stoppable(Memorist.document)
    unindex = _awaited(Memorist.unindex)
    create_file = _awaited(Memorist.create_file)
    edit_file = _awaited(Memorist.edit_file)
    files = _stoppable(Memorist.files)
    move_files = _awaited(Memorist.move_files)
    forget_files = _awaited(Memorist.forget_files)
    export = _awaited(Memorist.export)
    import_ = _awaited(Memorist.import_)
    discover = _awaited(Memorist.discover)
    backup = _awaited(Memorist.backup)


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
