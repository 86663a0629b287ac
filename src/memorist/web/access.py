"""
Access: bearer tokens for programs, a cookie for the page, and the names that the server may be called by.

Everything is derived from one secret, the setting `http_token` or a key file of the user. A token for less (one
namespace, one project, read-only) and the cookie are signed statements, so the server stores neither, and both outlive
it. Of cookies, it lists those that were ended by logging out; one-time keys are files until they are used.
"""

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from memorist.atomic_file import lock_file, make_folder, write_atomically
from memorist.errors import ConfigError

MIN_TOKEN_CHARACTERS = 16
COOKIE = "memorist"
COOKIE_SECONDS = 30 * 86_400
KEY_SECONDS = 600  # of a one-time key in a URL
_MAX_TOKEN_CHARACTERS = 4096
_MAX_TIME_DIGITS = 12  # of seconds since 1970
_SEALED_BYTES = 160  # eight numbers of up to 19 digits
_TAG_BYTES = 16
_SIGNED = "mt1."  # the first characters of a signed token
_KEY_FILE = "http.key"
REVOKED_FILE = "http.ended"

_log = logging.getLogger(__name__)


class Grant(Struct, frozen=True):
    """
    The rights of a caller.

    Without a project, they hold for every project; without a namespace, for that of the server. Only the secret itself,
    and the page's cookie, may choose `any_namespace`.
    """

    read_only: bool = False
    project: str | None = None
    namespace: str | None = None
    any_namespace: bool = False
    by_cookie: bool = False


class TokenAuth:
    """Checks tokens and cookies, and issues them. Nothing it compares depends in time on how much of it is right."""

    def __init__(self, secret: str, *revoked_files: Path) -> None:
        if len(secret) < MIN_TOKEN_CHARACTERS:
            raise ConfigError(
                f"the token has {len(secret)} characters, so it could be guessed: set http_token to one of at least "
                f"{MIN_TOKEN_CHARACTERS}, such as {secrets.token_urlsafe(24)}"
            )
        self._secret = _as_bytes(secret)
        # Signed tokens are handed to others. A slow hash keeps them from finding a secret that a person has chosen.
        self._key = hashlib.scrypt(self._secret, salt=b"memorist http token", n=2**14, r=8, p=1)
        self._revoked = RevokedCookies(revoked_files)

    def check_token(self, token: str) -> Grant | None:
        """Return what a bearer token grants, or None."""
        if len(token) > _MAX_TOKEN_CHARACTERS:
            return None
        if hmac.compare_digest(_as_bytes(token), self._secret):
            return Grant(any_namespace=True)
        statement = self._read(token, "token")
        if statement is None:
            return None
        return Grant(bool(statement.get("read_only")), statement.get("project"), statement.get("namespace"))

    def issue_token(
        self,
        *,
        read_only: bool = False,
        project: str | None = None,
        namespace: str | None = None,
        seconds: float | None = None,
    ) -> str:
        """Return a signed token for one namespace: the one it names, or that of the server."""
        return self._sign("token", seconds, read_only=read_only, project=project, namespace=namespace)

    def check_cookie(self, value: str) -> Grant | None:
        """Return what the cookie of the page grants, or None."""
        return None if self._read_cookie(value) is None else Grant(any_namespace=True, by_cookie=True)

    def revoke_cookie(self, value: str) -> None:
        """Let a cookie be valid no longer, if it is."""
        if cookie := self._read_cookie(value):
            self._revoked.add(cookie)

    def issue_cookie(self) -> str:
        return self._sign("cookie", COOKIE_SECONDS)

    def seal(self, text: str, namespace: str) -> str:
        """
        Return a text so that nobody but a server with this secret can read or change it, or use it elsewhere.

        The same text is always the same, and no sealed text tells how long it is.
        """
        body = text.encode().ljust(_SEALED_BYTES)
        tag = self._tag(body, namespace)
        return _encode(tag + self._mask(tag, body))

    def unseal(self, sealed: str, namespace: str) -> str | None:
        """Return a text that was sealed for a namespace, or None."""
        with suppress(binascii.Error, ValueError):
            data = _decode(sealed)
            tag, body = data[:_TAG_BYTES], self._mask(data[:_TAG_BYTES], data[_TAG_BYTES:])
            if hmac.compare_digest(tag, self._tag(body, namespace)):
                return body.decode().rstrip()
        return None

    def _tag(self, body: bytes, namespace: str) -> bytes:
        return hmac.digest(self._key, b"\0".join((b"seal", _as_bytes(namespace), body)), "sha256")[:_TAG_BYTES]

    def _mask(self, tag: bytes, body: bytes) -> bytes:
        stream = hashlib.shake_256(b"mask" + self._key + tag).digest(len(body))
        return bytes(a ^ b for a, b in zip(body, stream, strict=True))

    def _read_cookie(self, value: str) -> dict[str, Any] | None:
        cookie = self._read(value, "cookie") if len(value) <= _MAX_TOKEN_CHARACTERS else None
        return None if cookie is None or cookie in self._revoked else cookie

    def _sign(self, purpose: str, seconds: float | None, **statement: Any) -> str:
        until = {} if seconds is None else {"until": int(time.time() + seconds)}
        claims = {"for": purpose, "nonce": secrets.token_hex(4), **until}
        claims |= {name: value for name, value in statement.items() if value}
        body = _encode(json.dumps(claims).encode())
        return f"{_SIGNED}{body}.{self._signature(body)}"

    def _read(self, token: str, purpose: str) -> dict[str, Any] | None:
        """Return a signed statement if it is ours, for this purpose, and still valid."""
        body, _, signature = token.removeprefix(_SIGNED).partition(".")
        if not token.startswith(_SIGNED) or not token.isascii():
            return None
        with suppress(binascii.Error, ValueError):
            # As text: base64 has several spellings of the same bytes, and of a token there is one.
            if hmac.compare_digest(signature, self._signature(body)):
                statement: dict[str, Any] = json.loads(_decode(body))
                if statement.get("for") == purpose and statement.get("until", float("inf")) > time.time():
                    return statement
        return None

    def _signature(self, body: str) -> str:
        return _encode(hmac.digest(self._key, body.encode(), "sha256"))


class OneTimeKeys:
    """Keys that open the page once, each a file named by its hash, in a folder that the workers of a server share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def issue(self) -> str:
        key = secrets.token_urlsafe(24)
        self._find(key).touch(0o600)
        return key

    def use(self, key: str) -> bool:
        """Return whether a key is valid, which it is no longer afterwards."""
        file = self._find(key[:_MAX_TOKEN_CHARACTERS])
        try:
            issued = file.stat().st_mtime
            file.unlink()  # of all that try, one succeeds
        except OSError:
            return False
        return issued > time.time() - KEY_SECONDS

    def _find(self, key: str) -> Path:
        return self._folder / hashlib.sha256(_as_bytes(key)).hexdigest()


class RevokedCookies:
    """
    The cookies of people who logged out, in the first of some files that can be written: a cookie outlives the server.

    A line is the time at which a cookie expires by itself, and its nonce. After that time, it is dropped.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._lines: set[str] = set()
        self._read_last: dict[Path, tuple[int, ...]] = {}  # what told each file apart when it was read

    def add(self, cookie: Mapping[str, Any]) -> None:
        self._lines.add(_line(cookie))
        for file in self._files:
            try:
                self._write(file)
                return
            except OSError as exc:
                _log.warning("a logout holds only until this server ends: %s: %s", file, exc.strerror)

    def __contains__(self, cookie: Mapping[str, Any]) -> bool:
        self._read()
        return _line(cookie) in self._lines

    def _write(self, file: Path) -> None:
        make_folder(file.parent, private=True)
        with _locked(file.with_name(f"{file.name}.lock")):  # for others may add one as well
            self._read()
            self._lines = set(filter(_is_current, self._lines))
            content = "".join(f"{line}\n" for line in sorted(self._lines))
            write_atomically(file, content.encode(), private=True)

    def _read(self) -> None:
        """Read what another server of this user may have added; a line that is damaged counts for nothing."""
        for file in self._files:
            with suppress(OSError):
                state = file.stat()
                # Two changes may come in one tick of the clock.
                found = (state.st_ino, state.st_mtime_ns, state.st_size)
                if found != self._read_last.get(file):
                    self._lines |= set(filter(_is_current, file.read_text("ascii", "replace").splitlines()))
                    self._read_last[file] = found


def _line(cookie: Mapping[str, Any]) -> str:
    return f"{cookie['until']} {cookie['nonce']}"


def _is_current(line: str) -> bool:
    until, _, nonce = line.partition(" ")
    return until.isdigit() and len(until) <= _MAX_TIME_DIGITS and nonce.isalnum() and int(until) > time.time()


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with open(file, "ab", opener=partial(os.open, mode=0o600)) as lock:
        with suppress(OSError):  # where there are no locks, two logouts in one moment may become one
            lock_file(lock, wait=True)
        yield


def _as_bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")  # JSON can hold half of a character


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def load_secret(folder: Path) -> str:
    """Return the user's own secret from a file that only the user can read, which is made at the first time."""
    file = folder / _KEY_FILE
    try:
        make_folder(folder, private=True)
        with suppress(FileExistsError), open(file, "x", opener=partial(os.open, mode=0o600)) as new:
            new.write(secrets.token_urlsafe(32))
        secret = file.read_text("ascii").strip()
    except OSError as exc:
        raise ConfigError(f"cannot read or make {file}: {exc.strerror}; set MEMORIST_HTTP_TOKEN instead") from exc
    if not secret:
        raise ConfigError(f"{file} is empty; remove it, and a new one is made")
    return secret


class HostNames(Struct, frozen=True):
    """The names that the server may be called by. After DNS rebinding, the request of a web page has another."""

    names: frozenset[str]

    @classmethod
    def of(cls, names: Iterable[str]) -> "HostNames":
        return cls(frozenset(name.lower() for name in names))

    def knows_host(self, header: str) -> bool:
        """Return whether a Host header names this server; any port is fine, as a proxy may have another."""
        return _without_port(header) in self.names

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Return whether an Origin header is of the page that this server gave, at the very host and port it has."""
        scheme, _, authority = origin.partition("://")
        return scheme in ("http", "https") and authority.lower() == host.lower() and self.knows_host(host)


def _without_port(header: str) -> str:
    name, colon, port = header.lower().rpartition(":")
    return name if colon and port.isdigit() and name.count("[") == name.count("]") else header.lower()
