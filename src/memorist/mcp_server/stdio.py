"""
The transport over standard input and output, for the one client that started this process.

The process ends when its input ends, on a signal, and when its parent is gone, even if another process still holds the
other end of its input.
"""

import os
import signal
import sys
from typing import NoReturn

import anyio
from mcp.server.stdio import stdio_server

from memorist.mcp_server.opener import BackgroundOpener
from memorist.mcp_server.server import ServerOptions, build_server, close_opener

_PARENT_CHECK_SECONDS = 1.0


def serve(options: ServerOptions) -> None:
    """Serve until the client is gone."""
    anyio.run(_serve, options)
    _exit()


async def _serve(options: ServerOptions) -> None:
    server = build_server(options)
    async with anyio.create_task_group() as watchers:
        watchers.start_soon(_exit_with_parent, options.opener)
        if sys.platform != "win32":
            watchers.start_soon(_exit_on_signal, options.opener)
        async with stdio_server() as (incoming, outgoing):
            try:
                await server.run(incoming, outgoing, server.create_initialization_options())
            except anyio.get_cancelled_exc_class():  # the client closed our output; do not wait for more input
                _exit()
        watchers.cancel_scope.cancel()


async def _exit_with_parent(opener: BackgroundOpener) -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        await anyio.sleep(_PARENT_CHECK_SECONDS)
    await _close_and_exit(opener)


async def _exit_on_signal(opener: BackgroundOpener) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            await _close_and_exit(opener)


async def _close_and_exit(opener: BackgroundOpener) -> None:
    await close_opener(opener)
    _exit()


def _exit() -> NoReturn:
    """Exit at once: a thread that waits for input, or works for a client that is gone, would keep the process alive."""
    sys.stderr.flush()
    os._exit(0)
