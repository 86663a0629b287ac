"""
Over HTTP, for clients that do not start the server themselves.

Only this machine is served without a token, and only by the names it is known by: a web page may make a browser speak
to it, but not in its name.
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
from memorist.mcp_server.server import ServerOptions, build

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LAST_WORDS = 3  # seconds that open streams have to end
_SCHEME = b"bearer "


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> "ListenAddress":
        """From HOST:PORT, or from a port alone, which is one of this machine."""
        host, _, port = text.rpartition(":")
        if not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise InvalidInput(f"{text!r} is no HOST:PORT; write it like 127.0.0.1:8765, or just 8765")
        host = host.removeprefix("[").removesuffix("]").lower() or "127.0.0.1"
        with suppress(ValueError):  # a name
            host = str(ipaddress.ip_address(host))  # in the form that clients write it in
        return cls(host, int(port))

    @property
    def local(self) -> bool:
        """Whether nobody but this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def everywhere(self) -> bool:
        return self.host in ("0.0.0.0", "::")

    @property
    def name(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host


def serve(serving: ServerOptions, address: ListenAddress, token: str | None = None, hosts: Sequence[str] = ()) -> None:
    """Serve until told to end."""
    _refuse_what_is_unsafe(address, token, hosts)
    security = _security(address, hosts)
    listening = _listen(address)
    app: ASGIApp = build(serving).streamable_http_app(streamable_http_path=PATH, transport_security=security)
    if token is not None:
        app = RequireToken(app, token)
    port = listening.getsockname()[1]
    print(f"Memorist serves MCP on http://{address.name}:{port}{PATH}", file=sys.stderr, flush=True)
    serving.opening.start()
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=LAST_WORDS, server_header=False)
    uvicorn.Server(config).run(sockets=[listening])


class RequireToken:
    """Lets requests through that carry the token, and nothing else."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._allowed(scope):
            await self._app(scope, receive, send)
        else:
            refusal = PlainTextResponse("a bearer token is needed", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        # Compared in a time that does not tell how much of it was right.
        return (
            len(given) == 1
            and given[0][: len(_SCHEME)].lower() == _SCHEME
            and hmac.compare_digest(given[0][len(_SCHEME) :].strip(), self._token)
        )


def _refuse_what_is_unsafe(address: ListenAddress, token: str | None, hosts: Sequence[str]) -> None:
    if address.local and not hosts:
        return
    if token is None:
        raise ConfigError(
            f"{address.host} can be reached from other machines, or by other names, so a token is needed: set "
            "MEMORIST_HTTP_TOKEN, or http_token in your own config, or listen on 127.0.0.1"
        )
    if address.everywhere and not hosts:
        raise ConfigError(
            f"{address.host} is every address of this machine: say by which names it is called, with --allow-host NAME"
        )


def _security(address: ListenAddress, hosts: Sequence[str]) -> TransportSecuritySettings:
    """Which Host and Origin a request may carry: a page whose name leads here by a trick has another."""
    own = () if address.everywhere else (address.name, *(LOOPBACK if address.local else ()))
    names = [*own, *(host.lower() for host in hosts)]  # as clients write them
    allowed = [form for name in names for form in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for host in allowed for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins)


def _listen(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as exc:
        raise ConfigError(f"cannot listen on {address.name}:{address.port}: {exc.strerror or exc}") from exc
