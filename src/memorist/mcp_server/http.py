"""
The transport over HTTP, for clients that do not start the server themselves.

Without a token, only this machine is served, and only under its own names: a web page can make a browser send requests
here, but not with the Host and Origin of this machine.
"""

import hmac
import ipaddress
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memorist.errors import ConfigError, InvalidInput
from memorist.mcp_server.server import ServerOptions, build_server

_PATH = "/mcp"
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_SHUTDOWN_SECONDS = 3  # for open streams to end
_SCHEME = b"bearer "


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port to listen on."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Return the address of HOST:PORT; a port alone is one of this machine."""
        host, _, port = text.rpartition(":")
        if not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise InvalidInput(f"{text!r} is not HOST:PORT; write it like 127.0.0.1:8765, or just 8765")
        host = host.removeprefix("[").removesuffix("]").lower() or "127.0.0.1"
        with suppress(ValueError):  # a name
            host = str(ipaddress.ip_address(host))  # in the form that clients use
        return cls(host, int(port))

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_wildcard(self) -> bool:
        """True if it stands for every address of this machine."""
        return self.host in ("0.0.0.0", "::")

    @property
    def url_host(self) -> str:
        """The host as it is written in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host


def serve(options: ServerOptions, address: ListenAddress, token: str | None = None, hosts: Sequence[str] = ()) -> None:
    """Serve until a signal ends the process."""
    _refuse_unsafe(address, token, hosts)
    security = _security_settings(address, hosts)
    listener = _listen(address)
    app: ASGIApp = build_server(options).streamable_http_app(streamable_http_path=_PATH, transport_security=security)
    if token is not None:
        app = _TokenMiddleware(app, token)
    port = listener.getsockname()[1]
    print(f"Memorist serves MCP on http://{address.url_host}:{port}{_PATH}", file=sys.stderr, flush=True)
    options.opener.start()
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_SECONDS, server_header=False)
    uvicorn.Server(config).run(sockets=[listener])


class _TokenMiddleware:
    """ASGI middleware that refuses every request without the bearer token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._has_token(scope):
            await self._app(scope, receive, send)
        else:
            refusal = PlainTextResponse("a bearer token is needed", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)

    def _has_token(self, scope: Scope) -> bool:
        headers = [value for name, value in scope["headers"] if name == b"authorization"]
        # compare_digest takes the same time however much of the token is right.
        return (
            len(headers) == 1
            and headers[0][: len(_SCHEME)].lower() == _SCHEME
            and hmac.compare_digest(headers[0][len(_SCHEME) :].strip(), self._token)
        )


def _refuse_unsafe(address: ListenAddress, token: str | None, hosts: Sequence[str]) -> None:
    if address.is_local and not hosts:
        return
    if token is None:
        raise ConfigError(
            f"{address.host} can be reached from other machines, or by other names, so a token is needed: set "
            "MEMORIST_HTTP_TOKEN, or http_token in your own config, or listen on 127.0.0.1"
        )
    if address.is_wildcard and not hosts:
        raise ConfigError(
            f"{address.host} listens on every address of this machine: say which host names clients use, with "
            "--allow-host NAME"
        )


def _security_settings(address: ListenAddress, hosts: Sequence[str]) -> TransportSecuritySettings:
    """Return the Host and Origin headers to accept; after DNS rebinding, a web page's request has others."""
    own = () if address.is_wildcard else (address.url_host, *(_LOOPBACK_HOSTS if address.is_local else ()))
    names = [*own, *(host.lower() for host in hosts)]  # clients send them in lower case
    allowed = [form for name in names for form in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for host in allowed for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins)


def _listen(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as exc:
        raise ConfigError(f"cannot listen on {address.url_host}:{address.port}: {exc.strerror or exc}") from exc
