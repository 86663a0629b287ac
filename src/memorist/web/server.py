"""The server: a socket, the application behind it, and its address printed for the user."""

import asyncio
import html
import logging
import shutil
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from memorist.config import LoadedSettings
from memorist.listening import ListenAddress
from memorist.present.render import printable
from memorist.web.access import KEY_SECONDS, REVOKED_FILE, HostNames, TokenAuth
from memorist.web.app import WebOptions, build_app
from memorist.web.connections import KEEP_ALIVE_SECONDS, BoundedProtocol
from memorist.web.memories import Open, OpenMemories
from memorist.web.openapi import BASE

_SHUTDOWN_SECONDS = 3  # for requests under way to end
_MAX_HEADER_BYTES = 64 << 10
_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The address to listen on, the secret that lets callers in, and whether a browser is opened."""

    address: ListenAddress
    secret: str
    state_folder: Path  # for files of the user that are neither data nor settings
    eval_cache: Path  # where `memorist eval` saves its runs
    hosts: Sequence[str] = ()
    read_only: bool = False
    browser: bool = False


def serve(options: ServeOptions, open: Open, loaded: LoadedSettings) -> None:
    """Serve until a signal ends the process."""
    token_auth = TokenAuth(options.secret, options.state_folder / REVOKED_FILE)
    listener = options.address.listen()
    port = listener.getsockname()[1]
    names = options.address.host_names(options.hosts)
    memories = OpenMemories(open, loaded.settings.namespace)
    app = build_app(
        WebOptions(memories, token_auth, HostNames.of(names), loaded, options.eval_cache, options.read_only)
    )
    home = f"http://{names[0]}:{port}"
    page = f"{home}/login?key={token_auth.issue_key()}"
    _say(f"Memorist serves its API on {home}{BASE}")
    if options.browser:
        _say("Your browser opens the page. Where it finds no file (as a snap or flatpak may), or none opens,")
        _say(f"open this address in it by hand, which works once: {page}")
    else:
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
    with _logging_to_stderr(), ExitStack() as at_end:
        at_end.callback(app.close_feeds)
        if options.browser:
            launch_file = _LaunchFile(page)
            at_end.callback(launch_file.remove)
            launch_file.open()
        # Also called by the server itself, for the signal that ends it then ends the process.
        _Server(config, at_end.close).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that first ends what would keep it waiting: its streams of events."""

    def __init__(self, config: uvicorn.Config, end: Callable[[], None]) -> None:
        super().__init__(config)
        self._end = end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end()
        await asyncio.sleep(0)  # for the streams to see it
        await super().shutdown(sockets)


class _LaunchFile:
    """
    A file that sends the browser on to the page, readable by the user alone, until the link in it has expired.

    Other users can see the command line of a browser: a link there would let them in.
    """

    def __init__(self, page: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="memorist-ui-"))  # nobody else can enter it
        self._file = self._folder / "open.html"
        link = html.escape(page)
        self._file.write_text(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}">'
            f'<title>Memorist</title><p><a href="{link}">Open the page</a></p>\n',
            "utf-8",
        )
        self._file.chmod(0o600)

    @property
    def uri(self) -> str:
        return self._file.as_uri()

    def open(self) -> None:
        threading.Thread(target=webbrowser.open, args=(self.uri,), daemon=True).start()
        timer = threading.Timer(KEY_SECONDS, self.remove)
        timer.daemon = True
        timer.start()

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class _LineFormatter(logging.Formatter):
    """Writes a message on one line and without control characters: others may have written a part of it."""

    def format(self, record: logging.LogRecord) -> str:
        line = copy(record)
        line.msg, line.args = " ".join(record.getMessage().split()), None
        return printable(super().format(line))  # which adds a traceback, on lines of its own


@contextmanager
def _logging_to_stderr() -> Iterator[None]:
    """Write warnings and errors of the package to stderr, where whoever runs the server looks for them."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter(_LOG_FORMAT))
    handler.setLevel(logging.WARNING)
    log = logging.getLogger("memorist")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
