"""Requests to a server: kept connections, one for each thread at work, and errors as the engine raised them."""

import http.client
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from memorist import __version__
from memorist.errors import ConfigError, InvalidInput, MemoristError, StoreError
from memorist.web.problems import ERROR_CLASSES

_BASE = "/api/v1"
_PROBLEM = "urn:memorist:problem:"
_CHUNK_BYTES = 256 << 10
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ConnectionAbortedError)


class HttpClient:
    """Sends requests to one server. Any number of threads may use it; connections are kept for the next request."""

    def __init__(self, url: str, token: str | None, namespace: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise InvalidInput(f"{url!r} is not the address of a server; write it like http://127.0.0.1:8377")
        try:
            self._port = parts.port
        except ValueError:
            raise InvalidInput(f"{url!r} has a port that is no number from 0 to 65535") from None
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._host, self._is_secure = parts.hostname, parts.scheme == "https"
        self._base = parts.path.rstrip("/").removesuffix(_BASE) + _BASE
        self._timeout = timeout
        self._headers = {"User-Agent": f"memorist/{__version__}"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_as_header(token, 'token')}"
        if namespace is not None:
            self._headers["Memorist-Namespace"] = _as_header(namespace, "namespace")
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._is_closed = False

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for connection in idle:
            connection.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request, and return the JSON of its answer."""
        sent = dict(headers or {})
        data = None
        if body is not None:
            try:
                data = json.dumps(body, default=_as_plain).encode("utf-8", "replace")
            except (TypeError, ValueError) as exc:
                raise InvalidInput(f"arguments must be made of what JSON knows: {exc}") from exc
            sent["Content-Type"] = "application/json"
        if method not in ("GET", "HEAD"):
            sent["Idempotency-Key"] = str(uuid4())  # so that a request whose answer was lost can be sent again
        with self.open(method, path, query=query, data=data, headers=sent) as answer:
            try:
                return json.loads(answer.read())
            except ValueError:
                raise MemoristError(f"{self.url} gave an answer that is not JSON; is it a Memorist server?") from None

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        data: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request, and give its answer to be read; one that is not read to its end costs the connection."""
        target = self._base + path + (f"?{urlencode(query, doseq=True)}" if query else "")
        can_repeat = data is None or isinstance(data, bytes)
        connection, answer = self._send(method, target, data, {**self._headers, **(headers or {})}, can_repeat)
        is_whole = False
        try:
            problem = _read_problem(answer, self.url) if answer.status >= 300 else None
            if problem is None:
                yield answer
            is_whole = answer.isclosed() and not answer.will_close
            if problem is not None:
                raise problem
        except (OSError, http.client.HTTPException) as exc:  # such as an answer that was cut off
            raise self._unreachable(exc) from exc
        finally:
            if is_whole:
                self._keep(connection)
            else:
                answer.close()
                connection.close()

    def _send(
        self, method: str, target: str, data: Any, headers: Mapping[str, str], can_repeat: bool
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        if can_repeat and (kept := self._take()):
            try:
                kept.request(method, target, data, headers)
                return kept, kept.getresponse()
            except _STALE:  # the server has closed it meanwhile
                kept.close()
            except (OSError, http.client.HTTPException) as exc:
                kept.close()
                raise self._unreachable(exc) from exc
        new = self._connect()
        try:
            new.request(method, target, data, headers, encode_chunked=not can_repeat)
            return new, new.getresponse()
        except (BrokenPipeError, ConnectionResetError) as exc:  # it may have refused the body before all was sent
            try:
                return new, new.getresponse()
            except (OSError, http.client.HTTPException):
                raise self._unreachable(exc) from exc
        except (OSError, http.client.HTTPException) as exc:
            new.close()
            raise self._unreachable(exc) from exc

    def _connect(self) -> http.client.HTTPConnection:
        if self._is_closed:
            raise StoreError("this connection has been closed; connect again")
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout)

    def _take(self) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def _unreachable(self, error: Exception) -> StoreError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return StoreError(f"{self.url} gave no answer ({reason}); is `memorist serve` running there?")


def _as_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON")


def path_of(*parts: str) -> str:
    """Return a path made of parts, each of which may hold any character."""
    return "".join(f"/{quote(part, safe=':')}" for part in parts)


def _as_header(value: str, what: str) -> str:
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise InvalidInput(f"the {what} must be text of printable ASCII characters")
    return value


def _read_problem(answer: http.client.HTTPResponse, url: str) -> Exception:
    """Return the error that an answer tells of, of the class that the engine has raised."""
    if location := answer.getheader("Location"):
        return ConfigError(f"{url} answered {answer.status} and sends you to {location[:200]!r}; connect to that")
    try:
        problem = json.loads(answer.read(1 << 20))
        name, detail = problem["type"].removeprefix(_PROBLEM), problem["detail"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return MemoristError(f"{url} answered {answer.status} {answer.reason}; is it a Memorist server?")
    if answer.status in (401, 403):
        return ConfigError(detail)
    return ERROR_CLASSES.get(name, InvalidInput if answer.status < 500 else MemoristError)(detail)


def multipart(name: str, chunks: Iterable[bytes], fields: Iterable[tuple[str, str]]) -> tuple[str, Iterator[bytes]]:
    """Return the content type and the pieces of a form with a file in it."""
    boundary = uuid4().hex
    safe = "".join(one if one.isprintable() and one not in '"\\' else "_" for one in name)

    def pieces() -> Iterator[bytes]:
        for key, value in fields:
            yield f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        disposition = f'Content-Disposition: form-data; name="file"; filename="{safe}"'
        yield f"--{boundary}\r\n{disposition}\r\nContent-Type: application/octet-stream\r\n\r\n".encode()
        yield from chunks
        yield f"\r\n--{boundary}--\r\n".encode()

    return f"multipart/form-data; boundary={boundary}", pieces()
