"""A limit on the time of one call: threads that work for it stop when its time is up or its caller has cancelled it."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

_deadline: ContextVar[float] = ContextVar("memorist_deadline", default=math.inf)  # by the monotonic clock
_cancelled: ContextVar[threading.Event | None] = ContextVar("memorist_cancelled", default=None)


def call_within(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """
    Call a function that has so many seconds, or fewer where a limit holds already.

    In a context of its own: an exception that a signal raises could skip the end of a `with` block, and then the limit
    would go on to hold for whatever this thread does later.
    """
    context = copy_context()
    context.run(_deadline.set, min(_deadline.get(), time.monotonic() + seconds))
    return context.run(function, *arguments)


@contextmanager
def cancel_with(cancelled: threading.Event) -> Iterator[None]:
    """Have what is called within the block stop as soon as an event is set."""
    token = _cancelled.set(cancelled)
    try:
        yield
    finally:
        _cancelled.reset(token)


@contextmanager
def without_limit() -> Iterator[None]:
    """Have no limit within the block, for work that later calls share."""
    deadline, cancelled = _deadline.set(math.inf), _cancelled.set(None)
    try:
        yield
    finally:
        _cancelled.reset(cancelled)
        _deadline.reset(deadline)


def is_time_up() -> bool:
    """Return whether the present call has to stop."""
    cancelled = _cancelled.get()
    return time.monotonic() > _deadline.get() or (cancelled is not None and cancelled.is_set())
