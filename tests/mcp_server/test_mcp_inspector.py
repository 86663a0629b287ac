"""The MCP Inspector, as whoever builds an agent would try the server with: its command line, from npm."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp_agents import http_server
from mcp_processes import command, environment

import memorist
from node_packages import fetch_package, find_node
from timeouts import MAX_WAIT_SECONDS

VERSION = "2.12.0"
PACKAGE = "@modelcontextprotocol/inspector"
AT_ONCE = 3

Inspect = Callable[..., Any]


@pytest.fixture(scope="module")
def inspect() -> Inspect:
    """Runs the Inspector's command line; it is fetched once, and kept for the next time."""
    node, _ = find_node()
    program = fetch_package(PACKAGE, VERSION) / "package.json"
    start = json.loads(program.read_text())["bin"]["mcp-inspector"]

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [*node, str(program.parent / start), "--cli", *arguments],
            capture_output=True, text=True, check=False, timeout=MAX_WAIT_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    return run


def tool(name: str, **arguments: Any) -> list[str]:
    pairs = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in arguments.items()]
    return ["--method", "tools/call", "--tool-name", name, *(part for pair in pairs for part in ("--tool-arg", pair))]


def test_it_lists_and_calls_every_tool(path: Path, inspect: Inspect) -> None:
    with memorist.open(path, embedder="none") as memory:
        old, new, unwanted = (memory.add(text).id for text in ("deploy on Monday", "deploy on Tuesday", "unwanted"))
    calls = {
        "list": ["--method", "tools/list", "--strict"],
        "resources": ["--method", "resources/read", "--uri", f"memory://{old}"],
        "prompts": ["--method", "prompts/get", "--prompt-name", "recall", "--prompt-args", "task=deploy"],
        "memory_search": tool("memory_search", query="deploy", limit=5, tags=[]),
        "memory_get": tool("memory_get", ids=[old, new]),
        "memory_timeline": tool("memory_timeline", anchor=old),
        "memory_add": tool("memory_add", content="added by the Inspector", tags=["one", "two"]),
        "memory_update": tool("memory_update", id=new, kind="howto"),
        "memory_supersede": tool("memory_supersede", old_id=old, new_id=new),
        "memory_forget": tool("memory_forget", id=unwanted),
        "memory_context": tool("memory_context", message="deploy"),
    }
    with http_server(path) as (url, _), ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(calls, pool.map(lambda arguments: inspect(url, *arguments), calls.values()), strict=True))

    listed = answers.pop("list")["tools"]
    assert [each["name"] for each in listed] == [name for name in calls if name.startswith("memory_")]
    assert "deploy on Monday" in answers.pop("resources")["contents"][0]["text"]
    assert "memory_search" in answers.pop("prompts")["messages"][0]["content"]["text"]
    for name, answer in answers.items():
        assert not answer.get("isError"), name
        assert answer["structuredContent"]["next"], name
    with memorist.open(path, embedder="none") as memory:
        assert memory.get(old).superseded
        assert memory.get(new).kind == "howto"
        assert {one.content for one in memory.list()} == {
            "deploy on Monday", "deploy on Tuesday", "added by the Inspector",
        }  # fmt: skip


def test_it_starts_the_server_itself(path: Path, inspect: Inspect) -> None:
    own = environment(path)
    settings = [f"{name}={value}" for name, value in own.items() if name.startswith(("MEMORIST_", "PYTHON"))]
    given = [part for setting in settings for part in ("-e", setting)]

    answer = inspect(*given, *tool("memory_add", content="over stdio"), "--", sys.executable, *command()[1:])

    assert answer["structuredContent"]["known"] is False
