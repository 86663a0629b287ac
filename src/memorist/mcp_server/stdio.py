"""
Over standard input and output: one client, which started this process and is not outlived by it.

The process ends when its input does, when it is told to, and when its parent is gone though somebody else still holds
the other end of its input.
"""

import os
import signal
import sys
from typing import NoReturn

import anyio
from mcp.server.stdio import stdio_server

from memorist.mcp_server.server import BackgroundOpener, ServerOptions, build, close

LOOK_AT_PARENT = 1.0  # seconds


def serve(serving: ServerOptions) -> None:
    """Serve until the client is gone."""
    anyio.run(_serve, serving)
    _leave()


async def _serve(serving: ServerOptions) -> None:
    server = build(serving)
    async with anyio.create_task_group() as beside:
        beside.start_soon(_end_with_parent, serving.opening)
        if sys.platform != "win32":
            beside.start_soon(_end_when_told, serving.opening)
        async with stdio_server() as (incoming, outgoing):
            try:
                await server.run(incoming, outgoing, server.create_initialization_options())
            except anyio.get_cancelled_exc_class():  # nobody reads what is answered; more input would be waited for
                _leave()
        beside.cancel_scope.cancel()


async def _end_with_parent(opening: BackgroundOpener) -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        await anyio.sleep(LOOK_AT_PARENT)
    await _end(opening)


async def _end_when_told(opening: BackgroundOpener) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            await _end(opening)


async def _end(opening: BackgroundOpener) -> None:
    await close(opening)
    _leave()


def _leave() -> NoReturn:
    """End now: a thread that waits for input, or is at work for a client that is gone, would keep the process."""
    sys.stderr.flush()
    os._exit(0)
