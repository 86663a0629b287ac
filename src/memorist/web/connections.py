"""Connections to the server: no more than a number at once, and none that sends its request for ever."""

import asyncio
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 400  # below what a process may usually have open: 1,024 files, of which the database needs some
HEADER_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 30
UNREAD_SECONDS = 30.0  # that an answer waits for a client which does not read it


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
