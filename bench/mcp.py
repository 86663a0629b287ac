"""
Measure how long an agent waits for the MCP server: from starting the process to its answer to `initialize`.

    python bench/mcp.py [--runs 10] [--database FILE] [--json]

A bare server of the same SDK, without any tool, is measured in turns with it: the ratio is the cost of Memorist itself.
Then the first search is timed, which answers by keyword while the model loads, and the first search by meaning. It uses
a temporary database with a few memories, or a copy of your own with --database.
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

TARGET_RATIO = 1.3  # at most, to the bare server
BARE_SERVER = """
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
INITIALIZE_PARAMS = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
SERVERS = {"memorist mcp": ["-m", "memorist", "mcp"], "bare server": ["-c", BARE_SERVER]}


class ServerProcess:
    """An MCP server in a process, called over standard input and output."""

    def __init__(self, arguments: list[str], database: Path) -> None:
        environment = os.environ | {"MEMORIST_DB": str(database)}
        pipe = subprocess.PIPE
        self.started = time.perf_counter()
        # Not in this folder, where this file would be imported as the SDK.
        self._process = subprocess.Popen(
            [sys.executable, *arguments], env=environment, cwd=database.parent, stdin=pipe, stdout=pipe
        )
        self._message_id = 0

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._message_id += 1
        message = {"jsonrpc": "2.0", "id": self._message_id, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def search(self, query: str) -> dict[str, Any]:
        answer = self.call("tools/call", {"name": "memory_search", "arguments": {"query": query}})
        structured: dict[str, Any] = answer["result"]["structuredContent"]
        return structured

    def stop(self) -> None:
        self._process.communicate()


def time_handshake(name: str, database: Path) -> float:
    """Return the seconds from starting a server to its answer."""
    server = ServerProcess(SERVERS[name], database)
    server.call("initialize", INITIALIZE_PARAMS)
    took = time.perf_counter() - server.started
    server.stop()
    return took


def time_first_answers(database: Path) -> tuple[float, float]:
    """Return the seconds from the handshake to the first answer, and to the first by meaning."""
    server = ServerProcess(SERVERS["memorist mcp"], database)
    server.call("initialize", INITIALIZE_PARAMS)
    ready = time.perf_counter()
    server.search("how do we ship code?")
    first = time.perf_counter() - ready
    while "still loading" in server.search("how do we ship code?").get("degraded", ""):
        pass
    by_meaning = time.perf_counter() - ready
    server.stop()
    return first, by_meaning


def count_tool_list_characters(database: Path) -> int:
    """Return the length of the tool list without its output schemas."""
    server = ServerProcess(SERVERS["memorist mcp"], database)
    server.call("initialize", INITIALIZE_PARAMS)
    tools = server.call("tools/list", {})["result"]["tools"]
    server.stop()
    return len(json.dumps([{name: tool[name] for name in tool if name != "outputSchema"} for tool in tools]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how long an agent waits for the MCP server.")
    parser.add_argument("--runs", type=int, default=10, help="starts of each server (default %(default)s)")
    parser.add_argument("--database", type=Path, help="a copy of your own (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = options.database.resolve() if options.database else Path(folder, "memory.db")
        if options.database is None:
            with memorist.open(database) as memory:
                memory.add_many(f"We deploy service {number} with make ship" for number in range(100))
        times: dict[str, list[float]] = {name: [] for name in SERVERS}
        for _ in range(options.runs + 1):  # the first warms the system's caches and does not count
            for name in SERVERS:
                times[name].append(time_handshake(name, database))
        own, bare = (statistics.median(times[name][1:]) for name in SERVERS)
        first, by_meaning = time_first_answers(database)
        results = {
            "handshake_s": round(own, 3),
            "bare_s": round(bare, 3),
            "ratio": round(own / bare, 3),
            "target": TARGET_RATIO,
            "first_answer_s": round(first, 3),
            "by_meaning_s": round(by_meaning, 3),
            "tool_list_tokens": count_tool_list_characters(database) // 4,
        }
    if options.json:
        print(json.dumps(results))
        return
    print(f"handshake     {own:.3f} s, a bare server {bare:.3f} s: {own / bare:.2f}x (target {TARGET_RATIO}x at most)")
    print(f"first search  {first:.3f} s after the handshake, by keyword; by meaning after {by_meaning:.3f} s")
    print(f"tool list     {results['tool_list_tokens']} tokens at 4 characters each, without output schemas")


if __name__ == "__main__":
    main()
