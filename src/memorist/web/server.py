"""The server: a socket, the application behind it, and the word to the user where it is."""

import asyncio
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import uvicorn

from memorist.config import LoadedSettings
from memorist.listening import ListenAddress
from memorist.web.access import HostNames, Keeper
from memorist.web.app import WebOptions, build_app
from memorist.web.connections import KEEP_ALIVE_SECONDS, BoundedProtocol
from memorist.web.memories import Open, OpenMemories
from memorist.web.openapi import BASE

_SHUTDOWN_SECONDS = 3  # for requests under way to end
_MAX_HEADER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The address to listen on, the secret that lets callers in, and whether a browser is opened."""

    address: ListenAddress
    secret: str
    hosts: Sequence[str] = ()
    read_only: bool = False
    browser: bool = False


def serve(options: ServeOptions, open: Open, loaded: LoadedSettings) -> None:
    """Serve until a signal ends the process."""
    keeper = Keeper(options.secret)
    listener = options.address.listen()
    port = listener.getsockname()[1]
    names = options.address.host_names(options.hosts)
    memories = OpenMemories(open, loaded.settings.namespace)
    app = build_app(WebOptions(memories, keeper, HostNames.of(names), loaded, read_only=options.read_only))
    home = f"http://{names[0]}:{port}"
    page = f"{home}/login?key={keeper.issue_key()}"
    _say(f"Memorist serves its API on {home}{BASE}")
    _say(f"Open the page, once, with {page}")
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    if options.browser:
        _open_browser(page)
    _Server(config, app.close_feeds).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends its event streams first: they would keep it waiting."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await asyncio.sleep(0)  # for the streams to see it
        await super().shutdown(sockets)


def _open_browser(page: str) -> None:
    threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
