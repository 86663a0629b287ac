"""The feed of a memory: what any process has written to it since a position."""

import time
from collections.abc import Iterator, Mapping

from memorist.errors import InvalidInput
from memorist.store.feed import KINDS
from memorist.store.store import Store
from memorist.views import Change

POLL_SECONDS = 0.25


class ChangeFeed:
    """Reads what is new."""

    def __init__(self, store: Store) -> None:
        self._feed = store.feed

    def read_mark(self) -> str:
        """Return a mark that changes with everything that is written, and costs next to nothing."""
        return self._feed.read_mark()

    def read_position(self) -> str:
        """Return the position of the feed: what is written from now on comes after it."""
        return _format_position(self._feed.read_positions())

    def changes_since(self, position: str) -> Change:
        """Return what is new since a position of the feed, and the position after it."""
        after = _parse_positions(position)
        until = self._feed.read_positions(after)
        new = self._feed.list_new(after, until)
        return Change(_format_position(until), {kind: tuple(ids) for kind, ids in new.items()})


def follow_changes(store: Store, position: str | None) -> Iterator[Change]:
    """Yield what is new since a position, which may be nothing, and then what comes, as it comes."""
    feed = ChangeFeed(store)
    mark = feed.read_mark()
    change = feed.changes_since(position or feed.read_position())
    yield change
    while True:
        time.sleep(POLL_SECONDS)
        if (latest := feed.read_mark()) != mark:
            mark, change = latest, feed.changes_since(change.position)
            if change.new:
                yield change


def _format_position(positions: Mapping[str, int]) -> str:
    return "-".join(str(positions[kind]) for kind in KINDS)


def _parse_positions(position: str) -> dict[str, int]:
    parts = position.split("-")
    if len(parts) != len(KINDS) or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise InvalidInput(f"{position[:60]!r} is not a position of the feed")
    return {kind: int(part) for kind, part in zip(KINDS, parts, strict=True)}
