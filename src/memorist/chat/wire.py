"""
Answers that arrive piece by piece over HTTP: as server-sent events, or as a JSON value a line.

Whatever goes wrong is a ChatError with a message fit for a user. It is raised outside `except` blocks, so that not even
its context refers to the driver's exception, which may quote a request with its key.
"""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memorist.errors import ChatError
from memorist.servers import Address, refusal, retry_after

LONGEST_WAIT = 30.0  # seconds that a server may ask for before the one further try
_FIRST_WAIT = 1.0  # where it asks for none
_BUSY = (429, 503, 529)
_LONGEST_ANSWER = 32_000_000  # bytes of a stream; one that has no end must not fill the memory
_LONGEST_REFUSAL = 100_000

# Parts of a request that some servers refuse and that can be left out, and how those servers speak of them: Ollama of
# tools that a model cannot call, others of having to say what an answer cost.
_OPTIONAL = {"tools": ("does not support tools",), "stream_options": ("stream_options", "include_usage")}

Sleep = Callable[[float], None]


class Unwanted(ChatError):
    """A server refuses a `part` of a request that can be left out."""

    def __init__(self, message: str, part: str) -> None:
        super().__init__(message)
        self.part = part


class Wire:
    """One server, asked over a new connection each time: an answer that is not wanted to its end leaves none behind."""

    def __init__(self, name: str, address: Address, timeout: float, hints: Mapping[str, str], sleep: Sleep) -> None:
        """`hints` say what to do about a key (`key`), a model (`model`) or a server (`server`) that is not there."""
        self._name, self._address, self._timeout, self._hints, self._sleep = name, address, timeout, hints, sleep
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def events(self, path: str, payload: Mapping[str, object]) -> Iterator[Any]:
        """A stream of server-sent events up to OpenAI's mark of the end: JSON objects, and None for what is none."""
        data: list[str] = []
        for line in self._lines(path, payload):
            field, _, value = line.partition(":")
            if field == "data":
                data.append(value.removeprefix(" "))
            elif not line and data:
                if data == ["[DONE]"]:
                    return
                yield json_object("\n".join(data))
                data = []

    def values(self, path: str, payload: Mapping[str, object]) -> Iterator[Any]:
        """A stream with a JSON object a line, and None for a line that is none."""
        return (json_object(line) for line in self._lines(path, payload) if line.strip())

    def broke_off(self, error: object = None) -> ChatError:
        """What is said of an answer that has no end; `error` is what the server said instead of one."""
        if error is None:
            return ChatError(f"the answer of {self._name} breaks off before its end: try again")
        said = self._address.quote(refusal(json.dumps({"error": error}).encode()))
        return ChatError(f"{self._name} broke off with an error ({said}): try again")

    def strange(self) -> ChatError:
        where = self._address.shown
        return ChatError(f"{where} answered with something that is no answer of a model: {self._hints['server']}")

    def _lines(self, path: str, payload: Mapping[str, object]) -> Iterator[str]:
        """The lines of an answer as they arrive."""
        response, rest, size = self._response(path, json.dumps(payload).encode()), b"", 0
        while piece := self._piece(response):
            size += len(piece)
            if size > _LONGEST_ANSWER:
                raise ChatError(f"the answer of {self._name} has no end: it was stopped after {size // 1_000_000} MB")
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line.removesuffix(b"\r").decode("utf-8", "replace")
        if rest:
            yield rest.decode("utf-8", "replace")

    def _piece(self, response: http.client.HTTPResponse) -> bytes:
        """What has arrived; nothing at the end."""
        try:
            return response.read1(65536)
        except TimeoutError:
            failure = f"{self._name} said nothing more for {self._timeout:g} s: try again"
        except (OSError, http.client.HTTPException, ValueError):
            failure = ""
        raise ChatError(failure) if failure else self.broke_off()

    def _response(self, path: str, body: bytes) -> http.client.HTTPResponse:
        """The answer to a request, asked once more where the server is busy and says when to come back, or soon."""
        for last in (False, True):
            response = self._asked(path, body)
            if response.status == 200:
                return response
            wait = retry_after(response.getheader("Retry-After"))
            text = self._refusal(response)
            if response.status not in _BUSY or last or (wait or 0) > LONGEST_WAIT or "insufficient_quota" in text:
                break
            self.close()
            self._sleep(_FIRST_WAIT if wait is None else wait)
        raise self._refused(response.status, text, wait)

    def _asked(self, path: str, body: bytes) -> http.client.HTTPResponse:
        self._connection = connection = self._address.connection(self._timeout)
        try:
            connection.request("POST", self._address.target(path), body, self._address.headers)
            return connection.getresponse()
        except TimeoutError:
            failure = f"no answer within {self._timeout:g} s"
        except (OSError, http.client.HTTPException, UnicodeError) as exc:
            # Only the system's words are taken over: other messages may quote the request.
            failure = getattr(exc, "strerror", None) or type(exc).__name__
        where = self._address.shown
        raise ChatError(f"cannot reach {self._name} at {where} ({failure}): {self._hints['server']}")

    def _refusal(self, response: http.client.HTTPResponse) -> str:
        try:
            return response.read(_LONGEST_REFUSAL).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return ""

    def _refused(self, status: int, text: str, wait: float | None) -> ChatError:
        where, said = self._address.shown, self._address.quote(refusal(text.encode()))
        if status in (401, 403):  # the answer is not quoted: servers repeat parts of a key they refuse
            return ChatError(f"{where} refused the key: {self._hints['key']}")
        if status == 404:
            return ChatError(f"{where} has no {self._name} ({said}): {self._hints['model']}")
        for part, words in _OPTIONAL.items():
            if status in (400, 422) and any(word in text for word in words):
                return Unwanted(f"{where} answered {status} for {self._name}: {said}", part)
        if status in _BUSY or status >= 500:
            when = f"in {wait:.0f} s" if wait else "later"
            return ChatError(f"{where} answered {status} ({said}): try again {when}")
        return ChatError(f"{where} answered {status} for {self._name}: {said}")


def json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
