"""Servers of models behind HTTP: where they are, what proves who asks, and what they say when they refuse.

A secret leaves this module in a request header and nowhere else.

Answers that arrive piece by piece over HTTP: as server-sent events, or as a JSON value a line.

Whatever goes wrong is a ChatError with a message fit for a user. It is raised outside `except` blocks, so that not even
its context refers to the driver's exception, which may quote a request with its key.
"""

import base64
import contextlib
import email.utils
import http.client
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from memorist.errors import ChatError, ConfigError

OPENAI_URL = "https://api.openai.com/v1"
QUOTED = 200  # characters of what a server said


class Endpoint:
    """A base URL and a key for it. `shown` is what may be told of it, and `headers` go with every request."""

    def __init__(
        self, url: str, key: str, *, url_setting: str, key_setting: str, key_header: str | None = None
    ) -> None:
        """The key is a bearer token unless it has a header of its own; without one, a user in the URL will do."""
        self.key = key.strip()
        if not (self.key.isascii() and self.key.isprintable()):
            raise ConfigError(f"the key in {key_setting} has characters that no key has: copy it again")
        self._url = _parsed(url, url_setting)
        self.host = self._url.hostname or ""
        self.shown = f"{self._url.scheme}://{self._url.netloc.rpartition('@')[2]}{self._url.path}".rstrip("/")
        self.headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "memorist"}
        user, password = unquote(self._url.username or ""), unquote(self._url.password or "")
        if self.key and key_header:
            self.headers[key_header] = self.key
        elif self.key:
            self.headers["Authorization"] = f"Bearer {self.key}"
        elif user:
            self.headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        self._secrets = [secret for secret in (self.key, password or user) if secret]

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        """A new connection, not yet opened; `timeout` is in seconds for each wait."""
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        return kind(self.host, self._url.port, timeout=timeout)

    def target(self, path: str) -> str:
        return f"{self._url.path.rstrip('/')}{path}" + (f"?{self._url.query}" if self._url.query else "")

    def quote(self, text: str) -> str:
        """The server's own words, short and with our secrets masked before the cut can halve one."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text[:QUOTED]


def ollama_url(given: str) -> str:
    """OLLAMA_HOST as Ollama reads it; where that server listens on every address, we ask the loopback one."""
    scheme, found, rest = given.rpartition("://")
    authority, slash, path = rest.partition("/")
    user, at, authority = authority.rpartition("@")
    if authority.count(":") > 1 and "[" not in authority:
        authority = f"[{authority}]"
    name, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = authority, ""
    name = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(name, name)
    port = port or ("" if found else "11434")
    return f"{scheme or 'http'}://{user}{at}{name}{':' if port else ''}{port}{slash}{path}"


def refusal(body: bytes) -> str:
    """The message of an error response, in the form of one of the providers or as plain text."""
    text = body.decode("utf-8", "replace")
    with contextlib.suppress(LookupError, TypeError, ValueError, RecursionError):
        error = json.loads(text)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    return " ".join(text.split())


def retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a header that holds seconds or a date."""
    value = (value or "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", value):
        return float(value)
    try:
        until = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _parsed(url: str, setting: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or re.search(r"[\s\x00-\x1f]", url):  # the value is not shown: it may hold a password
        raise ConfigError(f"the base URL is not of the form https://host:port/path: check {setting}")
    return parts


LONGEST_WAIT = 30.0  # seconds that a server may ask for before the one further try
_FIRST_WAIT = 1.0  # where it asks for none
_BUSY = (429, 503, 529)
_LONGEST_ANSWER = 32_000_000  # bytes of a stream; one that has no end must not fill the memory
_LONGEST_REFUSAL = 100_000

# Parts of a request that some servers refuse and that can be left out, and how those servers speak of them: Ollama of
# tools that a model cannot call, others of having to say what an answer cost.
_OPTIONAL = {"tools": ("does not support tools",), "stream_options": ("stream_options", "include_usage")}

Sleep = Callable[[float], None]


class UnsupportedParameter(ChatError):
    """A server refuses a `part` of a request that can be left out."""

    def __init__(self, message: str, part: str) -> None:
        super().__init__(message)
        self.part = part


class StreamingClient:
    """One server, asked over a new connection each time: an answer that is not wanted to its end leaves none behind."""

    def __init__(self, name: str, address: Endpoint, timeout: float, hints: Mapping[str, str], sleep: Sleep) -> None:
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
                return UnsupportedParameter(f"{where} answered {status} for {self._name}: {said}", part)
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
