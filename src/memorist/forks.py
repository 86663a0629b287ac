"""New locks for live objects in a forked child.

A fork copies locks as they are, also those that another thread held, but not the thread that would release them. So
every object with a lock that searching takes gets a new one in the child.
"""

import os
from typing import Protocol
from weakref import WeakSet


class _LockOwner(Protocol):
    def after_fork(self) -> None: ...


_owners: "WeakSet[_LockOwner]" = WeakSet()


def renew_after_fork(owner: _LockOwner) -> None:
    """Have `after_fork` called in every child that is forked while the object lives."""
    _owners.add(owner)


def _renew_all() -> None:
    for owner in list(_owners):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
