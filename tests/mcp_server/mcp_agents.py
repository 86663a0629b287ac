"""Agents for tests: the SDK's own client with a synchronous interface, and servers in this process or their own."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from answer_schemas import check_answer
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp_processes import command, environment
from mcp_types import CallToolResult, TextContent, TextResourceContents

import memorist
from memorist import Memorist
from memorist.mcp_server.server import BackgroundOpener, ServerOptions, build_server
from timeouts import MAX_WAIT_SECONDS

ERAS = ("legacy", "auto")  # with the handshake of 2025, and without one


class Agent:
    """A client of a server."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self.client = portal, client

    def do(self, work: Callable[..., Any], *arguments: Any) -> Any:
        async def in_time() -> Any:
            with anyio.fail_after(MAX_WAIT_SECONDS):
                return await work(*arguments)

        return self._portal.call(in_time)

    def ask(self, tool: str, /, **arguments: Any) -> CallToolResult:
        result: CallToolResult = self.do(self.client.call_tool, tool, arguments)
        return result

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return a tool's answer, which is the same as text and as structure."""
        result = self.ask(tool, **arguments)
        assert not result.is_error, text_of(result)
        assert json.loads(text_of(result)) == result.structured_content
        answer: dict[str, Any] = result.structured_content
        check_answer(tool, answer)
        return answer

    def refused(self, tool: str, /, **arguments: Any) -> str:
        """Return the error of a tool that refuses a call."""
        result = self.ask(tool, **arguments)
        assert result.is_error
        assert result.structured_content is None
        return text_of(result)

    def add(self, content: str, **fields: Any) -> str:
        id: str = self.call("memory_add", content=content, **fields)["id"]
        return id

    def read(self, uri: str) -> str:
        (contents,) = self.do(self.client.read_resource, uri).contents
        assert isinstance(contents, TextResourceContents)
        return contents.text

    def prompt(self, name: str, **arguments: str) -> str:
        (message,) = self.do(self.client.get_prompt, name, arguments).messages
        return str(message.content.text)

    def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in self.do(self.client.list_tools).tools}


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@contextmanager
def agent(client: Client) -> Iterator[Agent]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client) as connected:
        yield Agent(portal, connected)


@contextmanager
def serve_in_process(open: Callable[[], Memorist], *, mode: str = "auto", **options: Any) -> Iterator[Agent]:
    """An agent of a server in this process, whose memory is open and loaded."""
    opener = BackgroundOpener(open)
    server = build_server(ServerOptions(opener, **{"answer_tokens": 1500} | options))
    opener.wait_for_memory()
    wait_until(lambda: opener.is_ready)
    with agent(Client(server, mode=mode)) as connected:
        yield connected


def serve_unopened(open: Callable[[], Memorist]) -> Any:
    """An agent of a server in this process that has opened nothing yet."""
    return agent(Client(build_server(ServerOptions(BackgroundOpener(open), answer_tokens=1500))))


def serving(path: Path, **options: Any) -> Any:
    """An agent of a server in this process, with keyword search only."""
    return serve_in_process(lambda: memorist.open(path, embedder="none"), **options)


@contextmanager
def over_stdio(
    path: Path, *arguments: str, mode: str = "auto", more: Mapping[str, str] | None = None
) -> Iterator[Agent]:
    """An agent that starts the server itself, in an empty folder."""
    program, *rest = command(*arguments)
    started = StdioServerParameters(command=program, args=rest, env=environment(path, more), cwd=path.parent)
    with agent(Client(started, mode=mode)) as connected:
        yield connected


@contextmanager
def http_server(path: Path, *arguments: str, more: Mapping[str, str] | None = None) -> Iterator[tuple[str, int]]:
    """A server over HTTP: where it is, and its process."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command("--http", "127.0.0.1:0", *arguments),
        env=environment(path, more), cwd=path.parent, stdin=subprocess.DEVNULL, stderr=pipe, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            yield process.stderr.readline().split()[-1], process.pid
        finally:
            process.terminate()
            process.communicate(timeout=MAX_WAIT_SECONDS)


async def until(true: Callable[[], bool]) -> None:
    """Return as soon as something holds; fail if it never does."""
    with anyio.fail_after(MAX_WAIT_SECONDS):
        while not true():
            await anyio.sleep(0.01)


def wait_until(true: Callable[[], bool]) -> None:
    anyio.run(until, true)
