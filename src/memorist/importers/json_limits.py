"""
Limits on the JSON that is parsed of files which somebody sends to a server.

Python's objects take up to a hundred times the memory of the JSON they come from, and nothing else runs while they are
made. So values are counted before a text is parsed. Whoever imports a file of their own machine has no such limits.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from memorist.errors import InvalidInput
from memorist.nesting import count_values


class JsonLimits(Struct, frozen=True):
    """The most that is parsed at once: of one document, all documents of one zip, or one line."""

    bytes: int
    containers: int  # objects and lists
    values: int


# Messages in the form of ChatGPT's exports have 13,000 objects and lists to the megabyte if they have no text at all,
# and 8,000 with 500 characters each: an export of 100 MB fits.
UPLOAD_LIMITS = JsonLimits(128 << 20, 1_500_000, 5_000_000)

_limits: ContextVar[JsonLimits | None] = ContextVar("memorist_json_limits", default=None)


@contextmanager
def limit_json(limits: JsonLimits) -> Iterator[None]:
    """Have what is imported within the block keep to limits."""
    token = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(token)


def current_limits() -> JsonLimits | None:
    return _limits.get()


class JsonBudget:
    """A count, against the limits, of the texts that are in memory together."""

    def __init__(self) -> None:
        self._limits = current_limits()
        self._bytes = self._containers = self._values = 0

    def spend(self, text: str, name: str) -> None:
        """Count a text before it is parsed; InvalidInput if that would be too much."""
        if self._limits is None:
            return
        self._bytes += len(text)
        if self._bytes > self._limits.bytes:
            raise InvalidInput(f"{name} has more than {self._limits.bytes:,} bytes of JSON, {ADVICE}")
        containers, values = count_values(text)
        self._containers += containers
        self._values += values
        if self._containers > self._limits.containers:
            raise InvalidInput(f"{name} has more than {self._limits.containers:,} objects and lists, {ADVICE}")
        if self._values > self._limits.values:
            raise InvalidInput(f"{name} has more than {self._limits.values:,} values, {ADVICE}")


ADVICE = (
    "too much for a server to read at once: split the file, or import it on the machine of the memory, "
    "by `memorist import FILE`"
)


def check_json(text: str, name: str) -> None:
    """Raise InvalidInput if a text has too much for the limits to be parsed."""
    limits = current_limits()
    if limits and len(text) > min(limits.containers, limits.values):  # a shorter one cannot have so many
        JsonBudget().spend(text, name)


def load_json(data: str | bytes, name: str) -> Any:
    """Parse a text or bytes as JSON within the limits; what is no JSON raises as of `json.loads`."""
    if isinstance(data, bytes):
        data = data.decode(json.detect_encoding(data), "surrogatepass")
    check_json(data, name)
    return json.loads(data)
