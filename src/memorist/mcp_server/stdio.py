"""
The transport over standard input and output, for the one client that started this process.

The process ends when its input ends, on a signal, and when its parent is gone, even if another process still holds the
other end of its input. The SDK passes over lines that are no messages; here they are answered with an error, because a
client would wait for an answer for ever.
"""

import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn, cast

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

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
        lines = _MessageLines()
        async with stdio_server(cast("anyio.AsyncFile[str]", lines)) as (incoming, outgoing):
            lines.outgoing = outgoing
            try:
                await server.run(incoming, outgoing, server.create_initialization_options())
            except anyio.get_cancelled_exc_class():  # the client closed our output; do not wait for more input
                _exit()
        watchers.cancel_scope.cancel()


class _MessageLines:
    """The lines of the client that are messages. What is none is answered with an error."""

    outgoing: Any  # the stream of the server's messages

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in anyio.wrap_file(io.TextIOWrapper(sys.stdin.buffer, "utf-8", "replace")):
            if not line.strip():
                continue
            text = _repair_surrogates(line)
            if errors := _find_errors(text):
                for error in errors:
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                        await self.outgoing.send(SessionMessage(error))
            else:
                yield text


def _repair_surrogates(line: str) -> str:
    """Replace escaped halves of surrogate pairs, which Python's JSON takes and the SDK's does not, by U+FFFD."""
    if "\\ud" not in line.lower():
        return line
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
    except (ValueError, RecursionError):
        return line
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _find_errors(line: str) -> Sequence[types.JSONRPCError]:
    """Return the answers to a line that is no message; those to the requests of a batch, which MCP does not have."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        # A request whose id is of a wrong type looks like a notification, which is not answered.
        if not isinstance(message, types.JSONRPCNotification) or "id" not in json.loads(line):
            return ()
    except ValueError:
        pass
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return [_error(None, types.PARSE_ERROR, "this is not JSON")]
    if isinstance(value, list):
        reason, ids = "batches are not supported: send one request a line", [_find_id(one) for one in value]
    else:
        reason, ids = "this is not a JSON-RPC 2.0 request whose id is a text or a whole number", [_find_id(value)]
    return [_error(id, types.INVALID_REQUEST, reason) for id in ids if id is not None] or [
        _error(None, types.INVALID_REQUEST, reason)
    ]


def _find_id(value: object) -> str | int | None:
    id = value.get("id") if isinstance(value, dict) else None
    return id if isinstance(id, str | int) and not isinstance(id, bool) else None


def _error(id: str | int | None, code: int, reason: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=types.ErrorData(code=code, message=reason))


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
