"""
Group commit: what several threads want to write at once is written in one transaction.

A durable commit waits for the disk, and whoever writes alone has everybody else wait for that. So the first thread
writes at once, and of those that come meanwhile, one writes for all of them as soon as it has ended. Nobody's call
returns before the commit of what it has given. If a group is refused for what one thread has given, each writes by
itself: it gets an error of its own, and what the others gave is kept. Where the database itself fails, all are told so:
the commit may have happened, and nothing is written twice.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from memorist.errors import StoreError
from memorist.forks import renew_after_fork
from memorist.store.database import Conflict, Refused

_MAX_TOGETHER = 64  # so that nobody waits long for what came after

Given = TypeVar("Given")
Written = TypeVar("Written")


class _Waiting(Generic[Given, Written]):
    """A thread that waits, what it has given, and its answer as a list of one, once there is one."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.answer: list[Written] = []
        self.failure: StoreError | None = None
        self.leads = False  # it is this thread's turn to write
        self.woken = threading.Lock()
        self.woken.acquire()


class GroupCommit(Generic[Given, Written]):
    """The threads that wait to write, and the one that writes for them."""

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Begin anew in a child, where none of the threads goes on that were waiting or writing."""
        self._lock = threading.Lock()
        self._waiting: list[_Waiting[Given, Written]] = []
        self._is_led = False

    @property
    def waiting(self) -> int:
        """The number of threads that wait for the one that writes."""
        return len(self._waiting)

    def write(self, given: Given, write: Callable[[Sequence[Given]], Sequence[Written]]) -> Written:
        """Have `write` answer what is given, which it does in one transaction with what other threads have given it."""
        # Ctrl-C, which may come between any two lines, would leave the others waiting; only this thread meets it.
        if threading.current_thread() is threading.main_thread():
            return write([given])[0]
        own = _Waiting[Given, Written](given)
        with self._lock:
            self._waiting.append(own)
            own.leads, self._is_led = not self._is_led, True
        if not own.leads:
            own.woken.acquire()
        if own.leads:
            self._lead(write)
        if own.failure:
            raise type(own.failure)(str(own.failure)) from own.failure
        return own.answer[0] if own.answer else write([given])[0]

    def _lead(self, write: Callable[[Sequence[Given]], Sequence[Written]]) -> None:
        """Write for all that wait by now, then let the first of those that came meanwhile write for the rest."""
        with self._lock:
            group, self._waiting = self._waiting[:_MAX_TOGETHER], self._waiting[_MAX_TOGETHER:]
        try:
            for one, answer in zip(group, write([one.given for one in group]), strict=True):
                one.answer.append(answer)
        except Exception as exc:
            if len(group) == 1:
                raise
            if isinstance(exc, StoreError) and not isinstance(exc, Conflict | Refused):  # of all, not of one
                for one in group:
                    one.failure = exc
        finally:
            with self._lock:
                following = self._waiting[:1]
                self._is_led = bool(following)
            for one in following:
                one.leads = True
            for one in (*group[1:], *following):
                one.woken.release()
