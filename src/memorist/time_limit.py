"""A limit on the time of one call: threads that work for it stop when its time is up or its caller has cancelled it."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_deadline: ContextVar[float] = ContextVar("memorist_deadline", default=math.inf)  # by the monotonic clock
_cancelled: ContextVar[threading.Event | None] = ContextVar("memorist_cancelled", default=None)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Limit what is called within the block to so many seconds, or fewer where a limit holds already."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


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
