"""
The client of one server over HTTP: it keeps connections, waits so long and no longer, and says why there is no answer.

Errors are raised outside `except` blocks, so that not even their context refers to an exception that may quote a
request with its key.
"""

import contextlib
import http.client
import io
import math
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, cast
from urllib.parse import SplitResult

from memorist.forks import renew_after_fork


class Unreachable(Exception):
    """There is no answer, or only a part of one. The reason is in the system's words: others may quote the request."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class HttpClient:
    """
    Sends requests to one server. Any number of threads may use it.

    `timeout` is in seconds for each wait, `answer_timeout` for all of an answer.
    """

    def __init__(self, url: SplitResult, *, timeout: float, answer_timeout: float = math.inf) -> None:
        self._url, self._timeout, self._answer_timeout = url, timeout, answer_timeout
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._generation = 0  # connections of an earlier one are not kept
        renew_after_fork(self)
        weakref.finalize(self, _close_all, self._idle)

    def close(self) -> None:
        """Close the connections, those in use after their answers; a later request opens new ones."""
        with self._lock:
            self._generation += 1
            _close_all(self._idle)

    def after_fork(self) -> None:
        """In a child: the parent goes on using the connections it opened."""
        self._lock = threading.Lock()
        self._generation += 1
        self._idle.clear()

    @contextlib.contextmanager
    def send(
        self,
        method: str,
        target: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        keep: bool = True,
    ) -> "Iterator[Answer]":
        """
        Send a request, and give its answer to be read. Unless the connection is not to be kept, it is for the next
        request, if the answer was read to its end.
        """
        generation = self._generation
        connection, answer = self._exchange(method, target, body, headers or {})
        try:
            yield answer
        finally:
            is_whole = answer.isclosed() and not answer.will_close
            with self._lock:
                if is_kept := keep and is_whole and generation == self._generation:
                    self._idle.append(connection)
            if not is_kept:
                answer.close()
                connection.close()

    def _exchange(
        self, method: str, target: str, body: bytes | Iterable[bytes] | None, headers: Mapping[str, str]
    ) -> "tuple[http.client.HTTPConnection, Answer]":
        can_repeat = body is None or isinstance(body, bytes)
        while True:
            connection = self._take() if can_repeat else self._connect()
            reused = connection.sock is not None
            with contextlib.ExitStack() as stack:
                stack.callback(connection.close)
                try:
                    if not reused:
                        connection.connect()
                    try:
                        connection.request(method, target, body, headers)
                    except (BrokenPipeError, ConnectionResetError):
                        if reused:
                            raise
                        # The server may have answered before all of the body was sent.
                    answer = cast(Answer, connection.getresponse())
                    stack.pop_all()  # the connection stays open
                    return connection, answer
                except (OSError, http.client.HTTPException, UnicodeError) as exc:
                    failure = _describe_failure(exc, self._timeout)
            if not reused or failure.timed_out:
                raise failure
            # The server had closed a kept connection; each attempt uses one up.

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            return self._idle.pop() if self._idle else self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        """Return a connection that is not open yet."""
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=self._timeout)
        answers = partial(Answer, timeout=self._timeout, seconds=self._answer_timeout)
        connection.response_class = answers  # type: ignore[assignment]
        return connection


class Answer(http.client.HTTPResponse):
    """An answer; reading it raises Unreachable where it breaks off, or takes longer as a whole than it may."""

    def __init__(self, sock: socket.socket, *args: Any, timeout: float, seconds: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._timeout = timeout
        self._timed = _TimedReader(self.fp.detach(), time.monotonic() + seconds)
        self.fp = io.BufferedReader(self._timed)

    def lift_limit(self) -> None:
        """Let the answer take any time, as long as something comes."""
        self._timed.deadline = math.inf

    def read(self, amt: int | None = None) -> bytes:
        return self._attempt(super().read, amt)

    def read1(self, n: int = -1) -> bytes:
        return self._attempt(super().read1, n)

    def readline(self, limit: int = -1) -> bytes:  # type: ignore[override]
        return self._attempt(super().readline, limit)

    def _attempt(self, read: Callable[[Any], bytes], limit: int | None) -> bytes:
        try:
            return read(limit)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            failure = _describe_failure(exc, self._timeout)
        raise failure


_REASONS: Mapping[type[Exception], str] = {
    http.client.RemoteDisconnected: "it closed the connection",
    http.client.IncompleteRead: "the answer broke off",
    http.client.BadStatusLine: "it does not speak HTTP",
}


def _describe_failure(error: Exception, timeout: float) -> Unreachable:
    if isinstance(error, TimeoutError):
        return Unreachable(f"no answer within {timeout:g} s", timed_out=True)
    reason = _REASONS.get(type(error)) or getattr(error, "strerror", None)
    return Unreachable(reason or type(error).__name__)


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a time of the monotonic clock."""

    def __init__(self, raw: io.RawIOBase, deadline: float) -> None:
        self._raw, self.deadline = raw, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if time.monotonic() > self.deadline:
            raise TimeoutError
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()
