"""
How long an agent waits for its memory: from starting the server to its answer to `initialize`.

    python bench/mcp.py [--runs 10] [--database FILE] [--json]

Beside it, in turns, a bare server of the same SDK that can do nothing at all: the ratio is what Memorist itself costs.
Then what comes after the handshake: the first search, which answers by keyword while the model loads, and the first
that finds by meaning. With --database on a copy of one's own, or on a temporary one with a few memories.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import memorist

TARGET = 1.3  # times the bare server
BARE = """
import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import ListToolsResult

async def list_tools(context, params):
    return ListToolsResult(tools=[])

async def main():
    server = Server("bare", on_list_tools=list_tools)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

anyio.run(main)
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
SERVERS = {"memorist mcp": ["-m", "memorist", "mcp"], "bare server": ["-c", BARE]}


class Server:
    """A server process, and how long it takes to answer."""

    def __init__(self, arguments: list[str], database: Path) -> None:
        environment = os.environ | {"MEMORIST_DB": str(database)}
        pipe = subprocess.PIPE
        self.started = time.perf_counter()
        # Elsewhere than here, where this file would be taken for the SDK.
        self._process = subprocess.Popen(
            [sys.executable, *arguments], env=environment, cwd=database.parent, stdin=pipe, stdout=pipe
        )
        self._number = 0

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def search(self, query: str) -> dict[str, Any]:
        answer = self.ask("tools/call", {"name": "memory_search", "arguments": {"query": query}})
        structured: dict[str, Any] = answer["result"]["structuredContent"]
        return structured

    def end(self) -> None:
        self._process.communicate()


def handshake(name: str, database: Path) -> float:
    server = Server(SERVERS[name], database)
    server.ask("initialize", HELLO)
    took = time.perf_counter() - server.started
    server.end()
    return took


def first_answers(database: Path) -> tuple[float, float]:
    """From the handshake to the first answer, and to the first by meaning."""
    server = Server(SERVERS["memorist mcp"], database)
    server.ask("initialize", HELLO)
    ready = time.perf_counter()
    server.search("how do we ship code?")
    first = time.perf_counter() - ready
    while "still loading" in server.search("how do we ship code?").get("degraded", ""):
        pass
    by_meaning = time.perf_counter() - ready
    server.end()
    return first, by_meaning


def tool_list(database: Path) -> int:
    """The characters of the tool list without its output schemas."""
    server = Server(SERVERS["memorist mcp"], database)
    server.ask("initialize", HELLO)
    tools = server.ask("tools/list", {})["result"]["tools"]
    server.end()
    return len(json.dumps([{name: tool[name] for name in tool if name != "outputSchema"} for tool in tools]))


def main() -> None:
    parser = argparse.ArgumentParser(description="How long an agent waits for its memory.")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--database", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = options.database.resolve() if options.database else Path(folder, "memory.db")
        if options.database is None:
            with memorist.open(database) as memory:
                memory.add_many(f"We deploy service {number} with make ship" for number in range(100))
        times: dict[str, list[float]] = {name: [] for name in SERVERS}
        for _ in range(options.runs + 1):  # the first warms the system's caches, and does not count
            for name in SERVERS:
                times[name].append(handshake(name, database))
        own, bare = (statistics.median(times[name][1:]) for name in SERVERS)
        first, by_meaning = first_answers(database)
        figures = {
            "handshake_s": round(own, 3),
            "bare_s": round(bare, 3),
            "ratio": round(own / bare, 3),
            "target": TARGET,
            "first_answer_s": round(first, 3),
            "by_meaning_s": round(by_meaning, 3),
            "tool_list_tokens": tool_list(database) // 4,
        }
    if options.json:
        print(json.dumps(figures))
        return
    print(f"handshake     {own:.3f} s, a bare server {bare:.3f} s: {own / bare:.2f}x (target {TARGET}x at most)")
    print(f"first search  {first:.3f} s after the handshake, by keyword; by meaning too after {by_meaning:.3f} s")
    print(f"tool list     {figures['tool_list_tokens']} tokens at 4 characters each, output schemas aside")


if __name__ == "__main__":
    main()
