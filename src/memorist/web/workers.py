"""
Workers: processes that share the socket of one server, and a supervisor that starts them and replaces those that die.

A worker reads its task from its standard input, and ends when that is closed: by the supervisor that stops, or by the
system where the supervisor was killed. So none outlives it.
"""

import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.1, 30.0  # before a worker that died is replaced, again and again
_STEADY_SECONDS = 60.0  # a worker that lived so long is replaced without having its delay doubled
_RUN_TASK = "import sys; sys.path[:] = {!r}; import pickle; pickle.load(sys.stdin.buffer)()"
_STANDARD_INPUT = 0

_log = logging.getLogger(__name__)


class SharedListener(socket.socket):
    """
    A listening socket that several processes accept from, one connection in a turn of their event loops.

    asyncio accepts as many in one turn as it has the system queue: the first worker to wake up would get all.
    """

    BACKLOG_OF_LOOP = 1
    _BACKLOG = 2048

    def listen(self, backlog: int = _BACKLOG) -> None:
        super().listen(self._BACKLOG)


class Supervisor:
    """Keeps some workers running until a signal ends it."""

    def __init__(self, task: Callable[[], object], listener: socket.socket, seconds: float) -> None:
        """Give every worker this task, which is pickled; one that does not end within some seconds is killed."""
        self._task, self._seconds = pickle.dumps(task), seconds
        self._inherited = (listener.fileno(),)
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        self._stopping = threading.Event()

    def run(self, count: int) -> signal.Signals:
        """Start the workers, and return the signal after which they have ended."""
        caught: list[signal.Signals] = []

        def stop(number: int, frame: FrameType | None) -> None:
            caught.append(signal.Signals(number))
            self._stopping.set()

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        threads = [threading.Thread(target=self._keep_running, name=f"memorist-worker-{n}") for n in range(count)]
        try:
            for thread in threads:
                thread.start()
            self._stopping.wait()
        finally:
            self._stop(threads)
            for number, handler in before.items():
                signal.signal(number, handler)
        return caught[0]

    def _keep_running(self) -> None:
        """Run one worker after the other."""
        delay = _FIRST_DELAY_SECONDS
        while not self._stopping.is_set():
            try:
                worker = self._start()
            except OSError as exc:  # too many processes, or no memory for one
                _log.warning("no worker could be started (%s); the next try is in %g s", exc, _MAX_DELAY_SECONDS)
                self._stopping.wait(_MAX_DELAY_SECONDS)
                continue
            if worker is None:
                return
            started = time.monotonic()
            code = worker.wait()
            with self._lock:
                self._running.remove(worker)
            if self._stopping.is_set():
                return
            is_steady = time.monotonic() - started > _STEADY_SECONDS
            delay = _FIRST_DELAY_SECONDS if is_steady else min(_MAX_DELAY_SECONDS, delay * 2)
            _log.warning("the worker %d ended (%d); another one starts in %g s", worker.pid, code, delay)
            self._stopping.wait(delay)

    def _start(self) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._stopping.is_set():
                return None
            worker = subprocess.Popen(
                [sys.executable, "-X", "utf8", "-c", _RUN_TASK.format(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=self._inherited,
                process_group=0,  # Ctrl-C in a terminal is for the supervisor
            )
            self._running.append(worker)
        assert worker.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # it has died already, or is to end
            worker.stdin.write(self._task)
            worker.stdin.flush()
        return worker

    def _stop(self, threads: Sequence[threading.Thread]) -> None:
        self._stopping.set()
        with self._lock:
            running = list(self._running)
        for worker in running:
            assert worker.stdin is not None
            with suppress(BrokenPipeError):
                worker.stdin.close()
        deadline = time.monotonic() + self._seconds
        for worker in running:
            try:
                worker.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
        for thread in threads:
            thread.join()


def end_with_supervisor(end: Callable[[], object], seconds: float) -> None:
    """In a worker: call a function when the supervisor stops or has died, and end the process some seconds later."""

    def wait() -> None:
        while os.read(_STANDARD_INPUT, 1):
            pass
        end()
        time.sleep(seconds)
        os._exit(1)

    threading.Thread(target=wait, name="memorist-supervisor", daemon=True).start()
