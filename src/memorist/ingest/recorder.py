"""Writes down what was recalled: after the answer is given, in batches, in a thread of its own."""

import atexit
import logging
import sys
import threading
from collections import deque
from weakref import WeakSet

from memorist.forks import renew_after_fork
from memorist.records import Recall, Reinforcement
from memorist.store.base import RecallStore

# Seconds a first recall waits for others to be written with it: every write makes searches read the file anew.
BATCH_DELAY = 1.0
PATIENCE = 0.2  # seconds a reader waits for recalls to be written
IDLE = 5.0  # seconds without work after which the thread ends
MOST_WAITING = 10_000

_log = logging.getLogger("memorist.recalls")
_recorders: "WeakSet[Recorder]" = WeakSet()


class Recorder:
    """
    A queue of recalls on their way into the log.

    Nothing here may slow down or fail a search: what cannot be written is counted in `lost`.
    """

    def __init__(self, recalls: RecallStore) -> None:
        self._recalls = recalls
        self._closed = False
        self.lost = 0
        self.after_fork()
        renew_after_fork(self)
        _recorders.add(self)

    def after_fork(self) -> None:
        """In a child: what waits is the parent's to write, and its thread did not come along."""
        self._waiting: deque[tuple[Recall, Reinforcement]] = deque()
        self._work = threading.Condition()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._batch: list[tuple[Recall, Reinforcement]] = []  # is being written
        self._urgent = False
        if "multiprocessing.util" in sys.modules:  # its children end without atexit
            from multiprocessing.util import Finalize

            Finalize(self, self.flush, exitpriority=0)

    def put(self, recall: Recall, reinforcement: Reinforcement) -> None:
        """Have a recall written soon."""
        with self._work:
            if self._closed or len(self._waiting) >= MOST_WAITING:
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
        except RuntimeError as exc:  # the system has no thread to give; closing writes what waits
            _log.warning("recalls wait to be written: %s", exc)

    def settle(self, session: str | None = None) -> None:
        """
        Before something is read that recalls (of one session) have a part in: wait a little for them, not for whoever
        else writes.
        """

        def written() -> bool:
            return not any(session in (None, recall.session) for recall, _ in (*self._batch, *self._waiting))

        with self._work:
            if written():
                return
            self._urgent = True
            self._work.notify_all()
            self._work.wait_for(written, timeout=PATIENCE)

    def flush(self) -> None:
        """Write what waits, and wait for what is being written."""
        with self._writing:
            with self._work:
                self._batch = list(self._waiting)
                self._waiting.clear()
                self._urgent = False
            if not self._batch:
                return
            try:
                self._recalls.record(self._batch)
            except Exception as exc:  # whatever it is: the answer was given, and nobody is there to be told
                self.lost += len(self._batch)
                _log.warning("%d recalls could not be written: %s", len(self._batch), exc)
            with self._work:
                self._batch = []
                self._work.notify_all()

    def close(self) -> None:
        self.flush()
        with self._work:
            self._closed = True
            self._work.notify_all()

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(lambda: self._waiting or self._closed, timeout=IDLE)
                if not self._waiting:
                    self._thread = None
                    return
                self._work.wait_for(lambda: self._closed or self._urgent, timeout=BATCH_DELAY)
            self.flush()


@atexit.register
def _flush_all() -> None:
    for recorder in list(_recorders):
        recorder.flush()
