"""Write recalls to the store after the answer is given, in batches, in a thread of its own, and drop the oldest."""

import atexit
import logging
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from weakref import WeakSet

from memorist.forks import renew_after_fork
from memorist.records import Recall, Reinforcement
from memorist.store.records import RecallLimits
from memorist.store.store import Store

# Seconds the first recall of a batch waits for others: after every write, searches read the file again.
BATCH_DELAY = 1.0
_SETTLE_SECONDS = 2.0  # a reader waits so long for recalls to be written
_IDLE_SECONDS = 5.0  # without work; then the thread ends
_MAX_PENDING = 10_000
_TRIMMED_AT_ONCE = 200  # recalls that one transaction deletes, so that other writers need not wait for all of them
_PURGED_AT_ONCE = 50_000  # the log is measured for each transaction of a purge, for which others wait anyway
_TRIMS_PER_BATCH = 10  # of those after a batch is written; more are left to the next
_SIZE_CHECKED_EVERY = 64  # recalls: measuring the log reads all of it, and each prompt may have a process of its own

_log = logging.getLogger("memorist.recalls")
_recorders: "WeakSet[Recorder]" = WeakSet()
# Within `keep_last`, what was put last.
_kept: ContextVar[list[tuple[Recall, Reinforcement]] | None] = ContextVar("memorist_kept_recall", default=None)


class Recorder:
    """
    A queue of recalls that are to be written to the log.

    It never slows down or fails a search: recalls that cannot be written are counted in `lost`.
    """

    def __init__(self, store: Store, limits: RecallLimits) -> None:
        self._store, self._limits = store, limits
        self._closed = False
        self.lost = 0
        self.after_fork()
        renew_after_fork(self)
        _recorders.add(self)

    def after_fork(self) -> None:
        """Start empty in a forked child: the parent writes what waits, and its thread does not exist here."""
        self._waiting: deque[tuple[Recall, Reinforcement]] = deque()
        self._work = threading.Condition()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._batch: list[tuple[Recall, Reinforcement]] = []  # being written
        self._urgent = False
        if "multiprocessing.util" in sys.modules:  # its children end without atexit
            from multiprocessing.util import Finalize

            Finalize(self, self.flush, exitpriority=0)

    @contextmanager
    def keep_last(self) -> "Iterator[list[tuple[Recall, Reinforcement]]]":
        """Of the recalls that are put within the block, queue only the last, unless the list of it is cleared."""
        kept: list[tuple[Recall, Reinforcement]] = []
        token = _kept.set(kept)
        try:
            yield kept
        finally:
            _kept.reset(token)
        for recall, reinforcement in kept:
            self.put(recall, reinforcement)

    def put(self, recall: Recall, reinforcement: Reinforcement) -> None:
        """Queue a recall to be written soon."""
        if (kept := _kept.get()) is not None:
            kept[:] = [(recall, reinforcement)]
            return
        with self._work:
            if self._closed or len(self._waiting) >= _MAX_PENDING:
                self.lost += 1
                return
            self._waiting.append((recall, reinforcement))
            if self._thread is None:
                self._start()
            self._work.notify_all()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="memorist-recalls", daemon=True)
        try:
            thread.start()
            self._thread = thread
        except RuntimeError as exc:  # no thread available; closing writes what waits
            _log.warning("recalls wait to be written: %s", exc)

    def settle(self, session: str | None = None, *, prompts: bool = True) -> None:
        """
        Wait briefly for pending recalls (of one session) to be written, before something is read that uses them.

        Without `prompts`, not for those of prompts: an agent that reads on would wait after everything it was told.
        """

        def is_written() -> bool:
            return not any(
                session in (None, recall.session) and (prompts or recall.tokens is None)
                for recall, _ in (*self._batch, *self._waiting)
            )

        with self._work:
            if is_written():
                return
            self._urgent = True
            self._work.notify_all()
            self._work.wait_for(is_written, timeout=_SETTLE_SECONDS)

    def flush(self) -> None:
        """Write pending recalls, and wait for those that are being written."""
        with self._writing:
            with self._work:
                self._batch = list(self._waiting)
                self._waiting.clear()
                self._urgent = False
            if not self._batch:
                return
            written: list[int] = []
            try:
                written = self._store.recalls.record(self._batch)
            except Exception as exc:  # any error: the answer was given, so there is no caller to raise it to
                self.lost += len(self._batch)
                _log.warning("%d recalls could not be written: %s", len(self._batch), exc)
            with self._work:
                self._batch = []
                self._work.notify_all()
            if written:
                self._trim_after(written)

    def _trim_after(self, written: Sequence[int]) -> None:
        """Drop some of what is beyond the limits, after recalls with these numbers."""
        by_size = any(number % _SIZE_CHECKED_EVERY == 0 for number in written)
        try:
            for _ in range(_TRIMS_PER_BATCH):
                if not self._trim(_TRIMMED_AT_ONCE, by_size):
                    return
        except Exception as exc:  # nobody asked for it; the next batch tries again
            _log.warning("old recalls could not be deleted: %s", exc)

    def trim(self) -> None:
        """Write pending recalls, and drop everything that is beyond the limits."""
        self.flush()
        while self._trim(_PURGED_AT_ONCE, by_size=True):
            pass

    def _trim(self, most: int, by_size: bool) -> bool:
        """Drop some of the earliest recalls that are beyond the limits; return whether there may be more."""
        return self._store.recalls.trim(self._limits, datetime.now(UTC), most=most, by_size=by_size) == most

    def close(self) -> None:
        self.flush()
        with self._work:
            self._closed = True
            self._work.notify_all()

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(lambda: self._waiting or self._closed, timeout=_IDLE_SECONDS)
                if not self._waiting:
                    self._thread = None
                    return
                self._work.wait_for(lambda: self._closed or self._urgent, timeout=BATCH_DELAY)
            self.flush()


@atexit.register
def _flush_all() -> None:
    for recorder in list(_recorders):
        recorder.flush()
