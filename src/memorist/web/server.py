"""The server: a socket, connections to it within limits, the application behind it, and its address for the user."""

import asyncio
import html
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from memorist.config import LoadedSettings
from memorist.listening import ListenAddress
from memorist.present.render import printable
from memorist.web.access import KEY_SECONDS, REVOKED_FILE, HostNames, OneTimeKeys, TokenAuth
from memorist.web.app import WebOptions, build_app
from memorist.web.idempotency import IdempotencyKeys
from memorist.web.memories import Open, OpenMemories
from memorist.web.problems import BASE
from memorist.web.workers import SharedListener, Supervisor, end_with_supervisor

MAX_CONNECTIONS = 400  # below what a process may usually have open: 1,024 files, of which the database needs some
HEADER_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 30
UNREAD_SECONDS = 30.0  # that an answer waits for a client which does not read it
_SHUTDOWN_SECONDS = 3  # for requests under way to end
_END_SECONDS = 10.0  # for all of a worker to end
_MAX_HEADER_BYTES = 64 << 10
_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class ServeOptions(Struct, frozen=True):
    """The address to listen on, the secret that lets callers in, whether a browser opens, and how many processes."""

    address: ListenAddress
    secret: str
    state_folder: Path  # for files of the user that are neither data nor settings
    eval_cache: Path  # where `memorist eval` saves its runs
    hosts: Sequence[str] = ()
    read_only: bool = False
    browser: bool = False
    workers: int = 1  # with more, what opens a memory has to be pickled


class _Shared(Struct, frozen=True):
    """The state that the workers of a server share: files in folders of its own, and a secret that is not in them."""

    folder: Path
    secret: bytes

    @classmethod
    def make(cls, folder: str) -> "_Shared":
        shared = cls(Path(folder), secrets.token_bytes(32))
        for part in (shared.keys, shared.answers):
            part.mkdir(0o700)
        return shared

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def answers(self) -> Path:
        return self.folder / "answers"


def serve(options: ServeOptions, open: Open, loaded: LoadedSettings) -> None:
    """Serve until a signal ends the process."""
    listener = options.address.listen()
    ended_by: signal.Signals | None = None
    with ExitStack() as at_end, _ended_by_signal(at_end):
        # A folder that nobody else can enter.
        shared = _Shared.make(at_end.enter_context(tempfile.TemporaryDirectory(prefix="memorist-serve-")))
        home = f"http://{options.address.host_names(options.hosts)[0]}:{listener.getsockname()[1]}"
        page = f"{home}/login?key={OneTimeKeys(shared.keys).issue()}"
        _say(f"Memorist serves its API on {home}{BASE}")
        if options.browser:
            _say("Your browser opens the page. Where it finds no file (as a snap or flatpak may), or none opens,")
            _say(f"open this address in it by hand, which works once: {page}")
        else:
            _say(f"Open the page, once, with {page}")
        at_end.enter_context(_logging_to_stderr())
        if options.browser:
            launch_file = _LaunchFile(page)
            at_end.callback(launch_file.remove)
            launch_file.open()
        if options.workers > 1:
            task = partial(_run_worker, options, open, loaded, shared, listener.fileno(), os.getpid())
            ended_by = Supervisor(task, listener, _END_SECONDS).run(options.workers)
        else:
            # Closed by the server itself, for the signal that ends it then ends the process.
            _make_server(options, open, loaded, shared, at_end.close).run(sockets=[listener])
    if ended_by is not None:
        signal.raise_signal(ended_by)


@contextmanager
def _ended_by_signal(at_end: ExitStack) -> Iterator[None]:
    """Clean up where SIGTERM ends the process before the server or the supervisor has its own handler."""

    def end(number: int, frame: FrameType | None) -> None:
        at_end.close()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run_worker(
    options: ServeOptions, open: Open, loaded: LoadedSettings, shared: _Shared, listener: int, supervisor: int
) -> None:
    """Serve in a process of its own until the supervisor ends."""
    with _logging_to_stderr():
        server = _make_server(options, open, loaded, shared, lambda: None)
        end_with_supervisor(server.end, _END_SECONDS)
        server.run(sockets=[SharedListener(fileno=listener)])
    if os.getppid() != supervisor:  # it was killed, and left this
        shutil.rmtree(shared.folder, ignore_errors=True)


def _make_server(
    options: ServeOptions, open: Open, loaded: LoadedSettings, shared: _Shared, at_end: Callable[[], object]
) -> "_Server":
    app = build_app(
        WebOptions(
            OpenMemories(open, loaded.settings.namespace),
            TokenAuth(options.secret, *(folder / REVOKED_FILE for folder in (options.state_folder, shared.folder))),
            OneTimeKeys(shared.keys),
            IdempotencyKeys(shared.answers, shared.secret),
            HostNames.of(options.address.host_names(options.hosts)),
            loaded,
            options.eval_cache,
            options.read_only,
            options.workers,
        )
    )
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=SharedListener.BACKLOG_OF_LOOP if options.workers > 1 else 2048,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    return _Server(config, app.close_feeds, at_end)


class _Server(uvicorn.Server):
    """A server that first ends what would keep it waiting: its streams of events."""

    def __init__(self, config: uvicorn.Config, close_feeds: Callable[[], None], at_end: Callable[[], object]) -> None:
        super().__init__(config)
        self._close_feeds, self._at_end = close_feeds, at_end

    def end(self) -> None:
        """Have the server shut down soon. Any thread may call it."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._close_feeds()
        await asyncio.sleep(0)  # for the streams to see it
        try:
            await super().shutdown(sockets)
        finally:
            self._at_end()


class BoundedProtocol(H11Protocol):
    """
    HTTP/1.1 as uvicorn speaks it, within limits that it does not have.

    Where all connections are taken, a new one takes the place of the one that has been idle for longest. A request
    whose headers are not complete after some seconds is not waited for, nor is a client that reads no answer.
    """

    _idle: "OrderedDict[BoundedProtocol, None]"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._headers_due: asyncio.TimerHandle | None = None
        self._reading_due: asyncio.TimerHandle | None = None
        # Shared by all connections of one server.
        self._idle = self.app_state.setdefault("memorist.idle", OrderedDict())

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= MAX_CONNECTIONS:
            if not self._idle:
                self.transport = transport  # which `connection_lost` closes
                transport.abort()
                return
            self._idle.popitem(last=False)[0].transport.abort()
        super().connection_made(transport)
        self._idle[self] = None
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.pop(self, None)
        self._stop_waiting()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading_due = self.loop.call_later(UNREAD_SECONDS, self._give_up)

    def resume_writing(self) -> None:
        self._stop_waiting_for_reader()
        super().resume_writing()

    def _stop_waiting_for_reader(self) -> None:
        if self._reading_due is not None:
            self._reading_due.cancel()
            self._reading_due = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._idle.pop(self, None)
            self._stop_waiting()
        elif self._headers_due is None:
            self._expect_headers()

    def on_response_complete(self) -> None:
        self._idle[self] = None  # the newest of them
        super().on_response_complete()

    def _expect_headers(self) -> None:
        self._headers_due = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _give_up(self) -> None:
        self._headers_due = None
        if not self.transport.is_closing():
            self.transport.abort()


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
