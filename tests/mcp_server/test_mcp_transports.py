"""The server as a process: over standard input and output, and over HTTP, with the SDK's own client."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_agents import ERAS, Agent, agent, http_server, over_stdio, wait_until
from mcp_processes import HELLO, command, environment

import memorist
from memorist import MemoristError
from memorist.mcp_server.http import ListenAddress, serve
from memorist.mcp_server.server import BackgroundOpener, ServerOptions
from timeouts import MAX_WAIT_SECONDS

TOKEN = "a-token-that-is-long-enough"


def use_every_tool(agent: Agent) -> None:
    """Call each of the eight, and read a resource and a prompt."""
    old = agent.add("We deploy with make ship on Monday", kind="howto")
    new = agent.add("Nowadays the deployment happens on Tuesday")
    assert agent.call("memory_search", query="deploy")["results"]
    assert agent.call("memory_get", ids=[old, new])["memories"]
    assert len(agent.call("memory_timeline", anchor=old)["memories"]) == 2
    assert agent.call("memory_update", id=new, tags=["deploy"])["id"] == new
    assert agent.call("memory_supersede", old_id=old, new_id=new)["superseded_by"] == new
    assert "Tuesday" in agent.call("memory_context", message="deployment on Tuesday")["context"]
    assert agent.call("memory_forget", id=old)["id"] == old
    assert "Tuesday" in agent.read(f"memory://{new}")
    assert "Tuesday" in agent.prompt("recall", task="deployment on Tuesday")


class TestStdio:
    @pytest.mark.parametrize("mode", ERAS)
    def test_every_tool_answers_in_both_eras_of_the_protocol(self, path: Path, mode: str) -> None:
        with over_stdio(path, mode=mode) as agent:
            assert agent.client.server_info.version == memorist.__version__
            use_every_tool(agent)

    def test_a_namespace_is_a_wall_no_argument_leads_through(self, path: Path) -> None:
        with memorist.open(path, embedder="none", namespace="other") as memory:
            id = memory.add("beyond the wall").id
        with over_stdio(path) as agent:
            assert agent.call("memory_search", query="wall")["results"] == []
            assert "no memory" in agent.refused("memory_get", ids=[id])

    def test_the_settings_of_the_project_hold(self, path: Path) -> None:
        (path.parent / "memorist.toml").write_text('project = "api"\nanswer_tokens = 2000\nredact = true\n')
        (path.parent / "config.toml").write_text(f'trusted = ["{path.parent}"]\n')
        with over_stdio(path, "--only-project", "shop") as agent:
            assert agent.add("bound")
        with over_stdio(path) as agent:
            agent.add("password: hunter2hunter2 is set")
            found = agent.call("memory_search", query="bound password set", detail="full")["results"]

        assert {hit["project"] for hit in found} == {"shop", "api"}
        assert "hunter2" not in str(found)

    @pytest.mark.parametrize("trusted", [False, True])
    def test_where_a_project_keeps_memories_holds_only_if_it_is_trusted(self, path: Path, trusted: bool) -> None:
        folder = path.parent / "project"
        folder.mkdir()
        (folder / "memorist.toml").write_text('database = "loot.db"\n')
        (path.parent / "config.toml").write_text(f'database = "{path}"\ntrusted = {[str(folder)] * trusted}\n')
        own = environment(path)
        del own["MEMORIST_DB"]

        call = {"name": "memory_add", "arguments": {"content": "mine"}}
        asked = [HELLO, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}]
        with subprocess.Popen(
            command(), env=own, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as server:
            assert server.stdin
            assert server.stdout
            for message in asked:
                server.stdin.write(json.dumps(message).encode() + b"\n")
                server.stdin.flush()
                assert json.loads(server.stdout.readline())["result"]
            noted = server.communicate(timeout=MAX_WAIT_SECONDS)[1].decode()

        assert (folder / "loot.db").exists() == trusted
        assert path.exists() != trusted
        assert ("is not trusted, so what it sets was ignored (database)" in noted) != trusted

    def test_a_project_that_is_not_trusted_cannot_name_another(self, path: Path) -> None:
        (path.parent / "memorist.toml").write_text('project = "payroll"\n')
        with over_stdio(path) as agent:
            agent.add("The staging server is called heron")
            (hit,) = agent.call("memory_search", query="heron", detail="full")["results"]

        assert "project" not in hit


def over_http(url: str, mode: str = "auto", token: str | None = None) -> Any:
    return agent(Client(_transport(url, token) if token else url, mode=mode))


@asynccontextmanager
async def _transport(url: str, token: str) -> AsyncIterator[Any]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=MAX_WAIT_SECONDS) as sender,
        streamable_http_client(url, http_client=sender) as streams,
    ):
        yield streams


def status(url: str, **headers: str) -> int:
    """What a server says to a handshake with these headers."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=MAX_WAIT_SECONDS)
    own = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", place.path, json.dumps(HELLO), own | headers)
    answered = connection.getresponse().status
    connection.close()
    return answered


class TestHttp:
    @pytest.mark.parametrize("mode", ERAS)
    def test_every_tool_answers_in_both_eras_of_the_protocol(self, path: Path, mode: str) -> None:
        with http_server(path) as (url, _), over_http(url, mode) as agent:
            use_every_tool(agent)

    def test_only_requests_to_this_machine_by_its_own_names_are_answered(self, path: Path) -> None:
        with http_server(path) as (url, _):
            port = urlsplit(url).port
            assert status(url) == 200
            assert status(url, Host=f"localhost:{port}") == 200
            assert status(url, Origin=f"http://localhost:{port}") == 200
            assert status(url, Host="evil.example") == 421
            assert status(url, Host=f"127.0.0.1.evil.example:{port}") == 421
            assert status(url, Origin="https://evil.example") == 403
            assert status(url, Origin="null") == 403
            assert status(url, Origin=f"http://localhost.evil.example:{port}") == 403

    @pytest.mark.parametrize("address", ["[::1]:0", "[0:0:0:0:0:0:0:1]:0", "LOCALHOST:0", "127.0.0.2:0"])
    def test_the_address_it_tells_is_one_it_answers_to(self, path: Path, address: str) -> None:
        if address.startswith("127.0.0.2") and sys.platform != "linux":
            pytest.skip("has one address of its own")
        with http_server(path, "--http", address) as (url, _):
            assert status(url) == 200
            assert status(url, Origin=f"http://{urlsplit(url).netloc}") == 200
            assert status(url, Host="evil.example") == 421
            assert status(url, Host=f"[::1]evil.example:{urlsplit(url).port}") == 421
            assert status(url, Origin="https://evil.example") == 403

    def test_where_a_token_is_set_nobody_gets_in_without_it(self, path: Path) -> None:
        with http_server(path, more={"MEMORIST_HTTP_TOKEN": TOKEN}) as (url, pid):
            assert status(url) == 401
            for wrong in (
                "",
                "Bearer",
                f"Bearer {TOKEN}x",
                f"Bearer {TOKEN[:-1]}",
                f"Basic {TOKEN}",
                TOKEN,
                f"Bearer {TOKEN.upper()}",
            ):
                assert status(url, Authorization=wrong) == 401
            assert status(url, Authorization=f"Bearer {TOKEN}") == 200
            assert status(url, Authorization=f"Bearer {TOKEN}", Host="evil.example") == 421
            with over_http(url, token=TOKEN) as agent:
                assert agent.add("let in")
            if (line := Path(f"/proc/{pid}/cmdline")).exists():
                assert TOKEN not in line.read_text()

    def test_a_name_it_is_called_by_can_be_added_with_a_token(self, path: Path) -> None:
        token = {"MEMORIST_HTTP_TOKEN": TOKEN}
        with http_server(path, "--allow-host", "Memory.Example", more=token) as (url, _):
            allowed = {"Authorization": f"Bearer {TOKEN}", "Host": "memory.example"}
            assert status(url, **allowed, Origin="https://memory.example") == 200
            assert status(url, Host="memory.example") == 401

    @pytest.mark.parametrize(
        ("address", "token", "hosts", "about"),
        [
            ("0.0.0.0:0", None, (), "a token is needed"),
            ("[::]:0", None, (), "a token is needed"),
            ("0:0", None, (), "a token is needed"),
            ("[::ffff:0.0.0.0]:0", None, (), "a token is needed"),
            ("[0:0::0]:0", TOKEN, (), "--allow-host"),
            ("127.0.0.1:0", None, ("memory.example",), "a token is needed"),
            ("0.0.0.0:0", TOKEN, (), "--allow-host"),
            ("nowhere", None, (), "is not HOST:PORT"),
            ("127.0.0.1:99999", None, (), "is not HOST:PORT"),
        ],
    )
    def test_what_is_unsafe_or_wrong_is_refused_at_once(
        self, path: Path, address: str, token: str | None, hosts: tuple[str, ...], about: str
    ) -> None:
        options = ServerOptions(BackgroundOpener(lambda: memorist.open(path)), answer_tokens=1500)

        with pytest.raises(MemoristError, match=about):
            serve(options, ListenAddress.parse(address), token, hosts)

    def test_a_port_that_is_taken_is_one_clear_line(self, path: Path) -> None:
        with http_server(path) as (url, _):
            taken = f"127.0.0.1:{urlsplit(url).port}"
            done = subprocess.run(
                command("--http", taken), env=environment(path), cwd=path.parent, capture_output=True, text=True,
                timeout=MAX_WAIT_SECONDS, check=False,
            )  # fmt: skip

        assert done.returncode == 1
        assert done.stderr.startswith(f"Error: cannot listen on {taken}")

    def test_a_body_that_is_too_large_is_refused(self, path: Path) -> None:
        with http_server(path) as (url, _):
            place = urlsplit(url)
            connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=MAX_WAIT_SECONDS)
            connection.putrequest("POST", place.path)
            connection.putheader("Content-Length", str(1_000_000_000))
            connection.endheaders()
            assert connection.getresponse().status == 413
            connection.close()

    def test_it_ends_with_a_signal_while_a_client_is_connected(self, path: Path) -> None:
        with http_server(path) as (url, pid), over_http(url, "legacy") as agent:
            agent.add("kept")
            os.kill(pid, 15)
            wait_until(lambda: _ended(pid))
        with memorist.open(path, embedder="none") as memory:
            assert [one.content for one in memory.list()] == ["kept"]


def _ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
