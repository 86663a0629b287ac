"""
The transport over HTTP, for clients that do not start the server themselves.

Without a token, only this machine is served, and only under its own names: a web page can make a browser send requests
here, but not with the Host and Origin of this machine.
"""

import hmac
import sys
from collections.abc import Sequence

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memorist.listening import ListenAddress
from memorist.mcp_server.server import ServerOptions, build_server

_PATH = "/mcp"
_SHUTDOWN_SECONDS = 3  # for open streams to end
_SCHEME = b"bearer "


def serve(options: ServerOptions, address: ListenAddress, token: str | None = None, hosts: Sequence[str] = ()) -> None:
    """Serve until a signal ends the process."""
    address.refuse_unsafe(token, hosts)
    security = _security_settings(address, hosts)
    listener = address.listen()
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


def _security_settings(address: ListenAddress, hosts: Sequence[str]) -> TransportSecuritySettings:
    """Return the Host and Origin headers to accept; after DNS rebinding, a web page's request has others."""
    allowed = [form for name in address.host_names(hosts) for form in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for host in allowed for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins)
