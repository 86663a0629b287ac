"""
Objects that hold locks, and what becomes of them in a forked child.

A fork copies locks as they are, also those that another thread held, and copies no other thread that could release
them. So whatever owns a lock that searching takes gets a new one in the child.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    def after_fork(self) -> None: ...


_objects: "WeakSet[Forkable]" = WeakSet()


def renew_after_fork(thing: Forkable) -> None:
    """Have `after_fork` called in every child that is forked while the object lives."""
    _objects.add(thing)


def _renew() -> None:
    for thing in list(_objects):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
