"""Answers to writes by their Idempotency-Key: a request that is sent again is not done again."""

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass

from starlette.responses import Response

from memorist.web.problems import Refusal

_MAX_ANSWERS, _MAX_BYTES = 1000, 16 << 20  # the oldest are given up first
_SECONDS = 86_400


@dataclass(slots=True)
class _Entry:
    fingerprint: bytes
    at: float
    answer: Response | None = None  # None while the first request is at work

    @property
    def size(self) -> int:
        return len(self.answer.body) if self.answer else 0


class IdempotencyKeys:
    """The latest answers of this process, by caller and key."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._bytes = 0

    def begin(self, caller: str, key: str, *request: bytes) -> Response | None:
        """Return the answer that a key has already; without one, the request has to be answered and `end`ed."""
        if not key or len(key) > 255 or not key.isascii() or not key.isprintable():
            raise Refusal(400, "bad-idempotency-key", "an Idempotency-Key has 1 to 255 printable ASCII characters")
        fingerprint = hashlib.sha256(b"\0".join(request)).digest()
        entry = self._entries.get((caller, key))
        if entry is None or entry.at < time.monotonic() - _SECONDS:
            self._drop(caller, key)
            self._entries[caller, key] = _Entry(fingerprint, time.monotonic())
            return None
        if entry.fingerprint != fingerprint:
            raise Refusal(422, "idempotency-key-reused", "this Idempotency-Key was used for another request")
        if entry.answer is None:
            raise Refusal(409, "still-at-work", "the first request with this Idempotency-Key is still at work")
        return entry.answer

    def end(self, caller: str, key: str, answer: Response | None) -> None:
        """Keep the answer of a request; None gives the key up, so that the request can be tried again."""
        entry = self._entries.get((caller, key))
        if entry is None:
            return
        if answer is None:
            self._drop(caller, key)
            return
        entry.answer = answer
        self._bytes += entry.size
        while len(self._entries) > _MAX_ANSWERS or self._bytes > _MAX_BYTES:
            oldest = next((name for name, kept in self._entries.items() if kept.answer), None)
            if oldest is None:
                return
            self._drop(*oldest)

    def _drop(self, caller: str, key: str) -> None:
        if entry := self._entries.pop((caller, key), None):
            self._bytes -= entry.size
