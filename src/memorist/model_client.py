"""
The client of a server of language or embedding models.

It sends JSON, reads JSON, server-sent events or JSON lines, tries again where a server is busy, and describes every
failure in words fit for a user. Secrets are sent only as request headers.
"""

import base64
import contextlib
import email.utils
import json
import math
import random
import re
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct, field

from memorist.errors import ConfigError, MemoristError
from memorist.http import Answer, HttpClient, Unreachable

_MAX_QUOTE_CHARACTERS = 200  # of what a server says
_MAX_REFUSAL_BYTES = 100_000
_MAX_STREAM_BYTES = 32_000_000  # a stream that has no end must not fill the memory
_MAX_ANSWER_BYTES = 64_000_000  # several times the vectors of a batch
_MAX_WAITS = 2  # for an answer to begin, or to be there whole if it is not a stream: as many times the time-out
_MAX_DELAY = 20.0  # seconds between two attempts, unless the server asks for more

_TEMPORARY = frozenset({0, 408, 409, 429, *range(500, 600)})
# How servers say that a text, or the texts of one request together, are more than the model takes.
_TOO_LONG = re.compile(r"context (?:length|size)|too (?:long|large)|less than \d+ tokens|tokens per request", re.I)

T = TypeVar("T")
JsonObject = dict[str, Any]
Sleep = Callable[[float], None]
_ReadAnswer = Callable[[Answer, contextlib.ExitStack], T]


class Service(Struct, frozen=True):
    """An API that serves models: the settings that locate it, and what to do where it fails."""

    name: str
    default_url: str
    url_setting: str
    key_setting: str
    model_hint: str = "check the name of the model, and {url_setting} if you set it"  # if it has no such model
    server_hint: str = "check the network, and {url_setting} if you set it"  # if it does not answer
    key_header: str | None = None  # None: the key is a bearer token
    key_host: str | None = None  # this host and its subdomains answer nobody without a key
    headers: Mapping[str, str] = field(default_factory=dict)
    complete_url: Callable[[str], str] = str


class RetryPolicy(Struct, frozen=True):
    """The rules for sending a request again. Times are in seconds."""

    retries: int  # at most, after the first attempt
    patience: float  # no attempt begins later than this after the first one
    max_delay: float = math.inf  # a longer Retry-After is not waited for
    first_delay: float = 0.5  # doubled each time; a server's Retry-After takes precedence
    jitter: float = 0.5  # share of a delay that is random, so that many clients do not come back at once
    statuses: Container[int] = _TEMPORARY

    def delay(self, attempt: int) -> float:
        return min(_MAX_DELAY, self.first_delay * 2.0**attempt) * random.uniform(1 - self.jitter, 1)


class Failure(Struct, frozen=True):
    """A request without an answer: what the server said, or with status 0 why it could not be reached."""

    status: int
    text: str
    retry_after: float | None = None  # seconds

    @property
    def reason(self) -> str:
        """The message of an error response, in the form of one of the services or as plain text."""
        text = self.text
        with contextlib.suppress(LookupError, TypeError, ValueError, RecursionError):
            error = json.loads(text)["error"]
            text = str(error["message"] if isinstance(error, dict) else error)
        return " ".join(text.split())

    @property
    def too_long(self) -> bool:
        return self.status >= 400 and _TOO_LONG.search(self.reason) is not None

    @property
    def temporary(self) -> bool:
        """True where the same request may succeed a little later."""
        return self.status in _TEMPORARY and not self.too_long and "insufficient_quota" not in self.text


# Makes the error to raise from a message for the user; the failure is None where an answer had begun.
ErrorFactory = Callable[[str, Failure | None], MemoristError]


class ModelClient:
    """
    Asks one model of a service. Safe to share between threads.

    Connections are kept for further requests, except those of streams.
    """

    def __init__(
        self,
        service: Service,
        model: str,
        *,
        environ: Mapping[str, str],
        timeout: float,
        error: ErrorFactory,
        sleep: Sleep,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        """Without a URL or a key, those of the environment are used. `timeout` is in seconds for each wait."""
        self.name, self._model, self._service = f"{service.name}:{model}", model, service
        self._endpoint = _Endpoint(
            service,
            (base_url or environ.get(service.url_setting, "")).strip(),
            (api_key or environ.get(service.key_setting, "")).strip(),
        )
        self._timeout, self._error, self._sleep = timeout, error, sleep
        self.server_hint = service.server_hint.format(url_setting=service.url_setting)
        self._model_hint = service.model_hint.format(model=model, url_setting=service.url_setting)
        self._http = HttpClient(self._endpoint.url, timeout=timeout, answer_timeout=_MAX_WAITS * timeout)

    @property
    def url(self) -> str:
        """The base URL without secrets."""
        return self._endpoint.display_url

    @property
    def missing_key(self) -> str | None:
        """A message for the user, where the server answers nobody without a key and none is set."""
        key_host = self._service.key_host
        if self._endpoint.key or not key_host or not f".{self._endpoint.host}".endswith(f".{key_host}"):
            return None
        return f"{self.name} needs a key: set {self._service.key_setting}"

    def post(self, path: str, payload: JsonObject, retry: RetryPolicy) -> JsonObject | None:
        """Return the JSON object that answers a request; None where the answer is something else."""

        def read(answer: Answer, _: contextlib.ExitStack) -> bytes:
            content = answer.read(_MAX_ANSWER_BYTES + 1)
            if len(content) > _MAX_ANSWER_BYTES:
                raise self._endless_error(len(content))
            return content

        return parse_json_object(self._request(path, payload, retry, read, keep=True))

    def stream(self, path: str, payload: JsonObject, retry: RetryPolicy) -> Generator[str, None, None]:
        """Yield the lines of an answer as they arrive. Closing the iterator closes the connection."""
        answer, opened = self._request(
            path, payload, retry, lambda answer, stack: (answer, stack.pop_all()), keep=False
        )
        with opened:
            answer.lift_limit()
            rest, size = bytearray(), 0  # of a line, which may come in very many pieces
            while piece := self._read_piece(answer):
                size += len(piece)
                if size > _MAX_STREAM_BYTES:
                    raise self._endless_error(size)
                first, *lines = piece.split(b"\n")
                rest += first
                for line in lines:
                    yield rest.removesuffix(b"\r").decode("utf-8", "replace")
                    rest = bytearray(line)
            if rest:
                yield rest.decode("utf-8", "replace")

    def _endless_error(self, size: int) -> MemoristError:
        message = f"the answer of {self.name} has no end: it was stopped after {size // 1_000_000} MB"
        return self._error(message, None)

    def interruption_error(self, event: JsonObject | None = None) -> MemoristError:
        """Return the error for an answer without an end; `event` is the server's error in place of one."""
        if event is None:
            return self._error(f"the answer of {self.name} breaks off before its end: try again", None)
        reason = self._endpoint.quote(Failure(0, json.dumps(event)).reason)
        return self._error(f"{self.name} broke off with an error ({reason}): try again", None)

    def close(self) -> None:
        """Close the kept connections; a later request opens new ones."""
        self._http.close()

    def _request(self, path: str, payload: JsonObject, retry: RetryPolicy, read: _ReadAnswer[T], *, keep: bool) -> T:
        """Send a request, again where that may help, and return what `read` makes of its answer."""
        body = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        deadline, attempt = time.monotonic() + retry.patience, 0
        while isinstance(outcome := self._attempt(path, body, read, keep), Failure):
            delay = retry.delay(attempt) if outcome.retry_after is None else outcome.retry_after
            may_help = outcome.temporary and outcome.status in retry.statuses and attempt < retry.retries
            if not may_help or delay > retry.max_delay or time.monotonic() + delay > deadline:
                raise self._error(self._describe(outcome), outcome)
            self._sleep(delay)
            attempt += 1
        return outcome

    def _attempt(self, path: str, body: bytes, read: _ReadAnswer[T], keep: bool) -> T | Failure:
        target, headers = self._endpoint.target(path), self._endpoint.headers
        with contextlib.ExitStack() as stack:
            try:
                answer = stack.enter_context(self._http.send("POST", target, body, headers, keep=keep))
                if answer.status == 200:
                    return read(answer, stack)
            except Unreachable as exc:
                return Failure(0, str(exc))
            text = ""
            with contextlib.suppress(Unreachable):  # the status says enough
                text = answer.read(_MAX_REFUSAL_BYTES).decode("utf-8", "replace")
            return Failure(answer.status, text, _parse_retry_after(answer.getheader("Retry-After")))

    def _read_piece(self, answer: Answer) -> bytes:
        """Return the next bytes that have arrived; none at the end."""
        try:
            return answer.read1(65536)
        except Unreachable as exc:
            timed_out = exc.timed_out
        if timed_out:
            raise self._error(f"{self.name} said nothing more for {self._timeout:g} s: try again", None)
        raise self.interruption_error()

    def _describe(self, failure: Failure) -> str:
        """Say what happened, why, and what to do."""
        url, status, reason = self.url, failure.status, self._endpoint.quote(failure.reason)
        if status == 0:
            return f"cannot reach {self.name} at {url} ({reason}): {self.server_hint}"
        if status in (401, 403):  # the reason is not quoted: servers repeat parts of a key they refuse
            return f"{url} refused the key: set {self._service.key_setting} to one it accepts"
        if status == 404:
            return f"{url} has no model {self._model} ({reason}): {self._model_hint}"
        if failure.temporary:
            when = f"in {failure.retry_after:.0f} s" if failure.retry_after else "later"
            return f"{url} answered {status} ({reason}): try again {when}"
        return f"{url} answered {status} for {self.name}: {reason}"


class _Endpoint:
    """A base `url`, and a key for it. `display_url` may be shown; `headers` go with every request."""

    def __init__(self, service: Service, url: str, key: str) -> None:
        """The key is sent in the service's own header or as a bearer token; without one, a user in the URL will do."""
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(f"the key in {service.key_setting} has characters that no key has: copy it again")
        self.url = parts = _parse_url(service.complete_url(url or service.default_url), service.url_setting)
        self.key, self.host = key, parts.hostname or ""
        self.display_url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        self.headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "memorist"}
        self.headers |= service.headers
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if key and service.key_header:
            self.headers[service.key_header] = key
        elif key:
            self.headers["Authorization"] = f"Bearer {key}"
        elif user:
            self.headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        self._secrets = [secret for secret in (key, password or user) if secret]

    def target(self, path: str) -> str:
        return f"{self.url.path.rstrip('/')}{path}" + (f"?{self.url.query}" if self.url.query else "")

    def quote(self, text: str) -> str:
        """Shorten a server's words; secrets are masked before the cut can halve one."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text[:_MAX_QUOTE_CHARACTERS]


def parse_events(lines: Iterable[str]) -> Iterator[JsonObject]:
    """Yield the JSON objects of server-sent events, up to the first event that holds something else."""
    data: list[str] = []
    for line in lines:
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            event = parse_json_object("\n".join(data))
            if event is None:  # such as [DONE], OpenAI's end mark
                return
            yield event
            data = []


def parse_json_lines(lines: Iterable[str]) -> Iterator[JsonObject]:
    """Yield a JSON object a line, up to the first line that holds something else."""
    for line in filter(str.strip, lines):
        event = parse_json_object(line)
        if event is None:
            return
        yield event


def parse_json_object(text: str | bytes) -> JsonObject | None:
    """Return a JSON object, or None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parse_retry_after(value: str | None) -> float | None:
    """Return the seconds to wait, from a header that holds seconds or a date."""
    value = (value or "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", value):
        return float(value)
    try:
        until = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _parse_url(url: str, setting: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or re.search(r"[\s\x00-\x1f]", url):  # the value is not shown: it may hold a password
        raise ConfigError(f"the base URL is not of the form https://host:port/path: check {setting}")
    return parts
