"""A server does not outlive its client, however that goes; and many servers share one file."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from mcp_agents import wait_until
from mcp_processes import Server, alive, command, environment, started

import memorist
from timeouts import MAX_WAIT_SECONDS

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and /bin/sh")


def contents(path: Path) -> set[str]:
    with memorist.open(path, embedder="none") as memory:
        assert memory.check().ok
        return {one.content for one in memory.list(limit=1_000_000)}


class TestTheEnd:
    def test_comes_with_the_end_of_its_input(self, path: Path) -> None:
        with started(path) as server:
            server.call("memory_add", content="kept")
            assert server.process.stdin is not None
            server.process.stdin.close()

            assert server.process.wait(MAX_WAIT_SECONDS) == 0
            assert server.process.stderr is not None
            assert server.process.stderr.read() == b""
        assert contents(path) == {"kept"}

    def test_comes_when_nobody_reads_any_more(self, path: Path) -> None:
        with started(path) as server:
            assert server.process.stdout is not None
            server.process.stdout.close()
            server.ask("memory_add", content="answered to nobody")

            assert server.process.wait(MAX_WAIT_SECONDS) == 0
            assert server.process.stderr is not None
            assert b"Traceback" not in server.process.stderr.read()

    @posix
    @pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
    def test_comes_with_a_signal_though_its_input_is_open(self, path: Path, sent: signal.Signals) -> None:
        with started(path) as server:
            server.call("memory_add", content="kept")
            server.process.send_signal(sent)

            assert server.process.wait(MAX_WAIT_SECONDS) == 0
        assert contents(path) == {"kept"}

    @posix
    def test_leaves_no_lock_behind_in_the_midst_of_writing(self, path: Path) -> None:
        with started(path) as server:
            server.call("memory_add", content="kept")
            for number in range(50):
                server.ask("memory_add", content=f"on its way {number}")
            server.process.kill()
            server.process.wait(MAX_WAIT_SECONDS)

            assert "kept" in contents(path)
            with memorist.open(path, embedder="none", busy_timeout=1) as memory:
                memory.add("written at once")

    @posix
    def test_comes_when_its_parent_is_killed_though_another_holds_its_input(self, path: Path) -> None:
        # The parent gives the server our end of a pipe, and tells its id; we keep the pipe open.
        parent = """
            import os, subprocess, sys
            server = subprocess.Popen(sys.argv[1:], stdin=0)
            print(server.pid, file=sys.stderr, flush=True)
            server.wait()
        """
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(parent), *command()],
            env=environment(path), cwd=path.parent, stdin=pipe, stdout=pipe, stderr=pipe,
        ) as process:  # fmt: skip
            assert process.stderr is not None
            pid = int(process.stderr.readline())
            Server(process)
            process.kill()
            process.wait(MAX_WAIT_SECONDS)

            wait_until(lambda: not alive(pid))


# A client in a process of its own: starts a server, adds and searches until it is told to be quiet, and waits.
CLIENT = """
    import json, sys, time
    from mcp_processes import started
    from pathlib import Path
    path, name, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    with started(path) as server:
        print(server.process.pid, flush=True)
        until, number = time.monotonic() + seconds, 0
        while number < 10 or time.monotonic() < until:
            server.call("memory_add", content=f"note {number} of {name}")
            found = server.call("memory_search", query=f'"note {number} of {name}"', limit=3)["results"]
            assert found, number
            number += 1
        print(number, flush=True)
        sys.stdin.read()
"""
SERVERS = 4


def at_once(path: Path, seconds: float) -> None:
    """Four clients with a server each, on one file; killed in the end, so that nobody can say goodbye."""
    here = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    own = environment(path)
    own["PYTHONPATH"] = os.pathsep.join([own["PYTHONPATH"], here])
    pipe = subprocess.PIPE
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CLIENT), str(path), f"client {which}", str(seconds)],
            env=own, cwd=path.parent, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True,
        )
        for which in range(SERVERS)
    ]  # fmt: skip
    try:
        heard = [client.stdout for client in clients if client.stdout]
        servers = [int(output.readline()) for output in heard]
        counts = []
        for output in heard:
            line = output.readline()
            assert line.strip().isdigit(), line + output.read()
            counts.append(int(line))
    finally:
        for client in clients:
            client.kill()
        for client in clients:
            client.communicate(timeout=MAX_WAIT_SECONDS)
    wait_until(lambda: not any(alive(server) for server in servers))

    expected = {f"note {number} of client {which}" for which, count in enumerate(counts) for number in range(count)}
    assert contents(path) == expected
    with memorist.open(path, embedder="none", busy_timeout=1) as memory:
        memory.add("nobody holds a lock")


@posix
def test_four_servers_on_one_file_lose_nothing_and_leave_nothing(path: Path) -> None:
    at_once(path, 0)


@posix
@pytest.mark.slow
def test_four_servers_on_one_file_for_a_minute(path: Path) -> None:
    at_once(path, 60)
