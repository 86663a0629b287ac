"""A room: the operations of a memory on one subject, and the cursors of their pages, which name the last item."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from memorist import validation
from memorist.contract import Transport
from memorist.engine.resources import Resources
from memorist.errors import InvalidInput

_MAX_DIGITS = 11  # of the position that a cursor names

T = TypeVar("T")


class Room:
    """
    Operations of a memory on one subject.

    They are run here, with the resources of a memory that is open in this process, or handed to a transport.
    """

    _name = ""  # the name of the attribute of `Memorist` that holds it

    def __init__(self, backend: Resources | Transport) -> None:
        self._remote = backend if isinstance(backend, Transport) else None
        if not isinstance(backend, Transport):
            self._resources = backend
            self._store = backend.store


def next_cursor(found: Sequence[T], count: int, key: Callable[[T], str]) -> str | None:
    """Return the cursor after `count` items, of which one more was looked for; None where there is none."""
    return key(found[count - 1]) if len(found) > count else None


def check_cursor(cursor: str | None) -> str | None:
    return None if cursor is None else validation.required_name(cursor, "cursor")


def parse_position(cursor: str | None, first: int) -> int:
    """Return the position that a cursor names."""
    if cursor is None:
        return first
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > _MAX_DIGITS:
        raise InvalidInput(f"{cursor[:60]!r} is not a cursor; use the one that the previous page gave")
    return int(cursor)
