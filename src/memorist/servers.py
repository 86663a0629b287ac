"""
Servers of models behind HTTP: where they are, what proves who asks, and what they say when they refuse.

A secret leaves this module in a request header and nowhere else.
"""

import base64
import contextlib
import email.utils
import http.client
import json
import re
from datetime import UTC, datetime
from urllib.parse import SplitResult, unquote, urlsplit

from memorist.errors import ConfigError

OPENAI_URL = "https://api.openai.com/v1"
QUOTED = 200  # characters of what a server said


class Address:
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
