"""A server of several processes: whatever one of them is told, all of them know, and none outlives the server."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

import memorist
from memorist.web.idempotency import IdempotencyKeys
from memorist.web.problems import Refusal
from timeouts import MAX_WAIT_SECONDS
from web_server import TOKEN, WebServer, web_server

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it has to be seen which process answers")

Answer = tuple[int, Any, http.client.HTTPMessage]


class Connection:
    """A connection that is kept, so that one and the same worker answers on it."""

    def __init__(self, server: WebServer) -> None:
        self._server = server
        self._connection = http.client.HTTPConnection(*server.address, timeout=MAX_WAIT_SECONDS)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {"Content-Type": "application/json"} if body is not None else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if not {"Cookie", "Authorization"} & sent.keys():
            sent["Authorization"] = f"Bearer {TOKEN}"
        data = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, sent)
        answer = self._connection.getresponse()
        raw = answer.read()
        is_json = "json" in (answer.getheader("content-type") or "")
        return answer.status, json.loads(raw) if is_json else raw, answer.headers

    def stream(self, path: str) -> http.client.HTTPResponse:
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        return self._connection.getresponse()

    @property
    def worker(self) -> int:
        """The process that has accepted this connection."""
        ends = [f"0100007F:{port:04X}" for port in (self._server.address[1], self._connection.sock.getsockname()[1])]
        rows = map(str.split, Path("/proc/net/tcp").read_text().splitlines())
        # Established; the system may list one twice while others come and go.
        (inode,) = {row[9] for row in rows if row[1:4] == [*ends, "01"]}
        (worker,) = (worker for worker in list_workers(self._server) if f"socket:[{inode}]" in list_files(worker))
        return worker

    def close(self) -> None:
        self._connection.close()


def list_files(process: int) -> list[str]:
    found = []
    for file in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):
            found.append(os.readlink(file))
    return found


def list_workers(server: WebServer) -> list[int]:
    children = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    return sorted(int(child) for file in children for child in file.read_text().split())


def wait_until(condition: Any, what: str) -> Any:
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("workers")
    (folder / "state").touch()  # no folder: what is ended or used up cannot be noted there
    with web_server(folder / "memory.db", workers=2, environ={"XDG_STATE_HOME": str(folder / "state")}) as running:
        yield running


@pytest.fixture
def pair(server: WebServer) -> Iterator[tuple[Connection, Connection]]:
    """One connection to each of two workers."""
    with ExitStack() as stack:
        yield connect_to_both(server, stack)


def connect_to_both(server: WebServer, stack: ExitStack) -> tuple[Connection, Connection]:
    by_worker: dict[int, Connection] = {}

    def connect() -> bool:
        connection = stack.enter_context(closing(Connection(server)))
        assert connection.ask("GET", "/api/v1/access")[0] == 200
        by_worker.setdefault(connection.worker, connection)
        return len(by_worker) == 2

    wait_until(connect, "one worker answers everything")
    one, two = by_worker.values()
    return one, two


def count(server: WebServer, text: str) -> int:
    with memorist.connect(server.url, token=TOKEN) as remote:
        return sum(memory.content == text for memory in remote.list(limit=1000))


def login(server: WebServer, connection: Connection) -> str:
    status, _, headers = connection.ask("POST", "/login", {"token": TOKEN}, Cookie="none=1", Origin=server.url)
    assert status == 204
    return str(headers["set-cookie"]).partition(";")[0]


def test_every_worker_answers_and_many_connections_are_shared_out(server: WebServer) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(40) as pool:
        connect_to_both(server, stack)  # both have started
        connections = [stack.enter_context(closing(Connection(server))) for _ in range(40)]

        statuses = list(pool.map(lambda connection: connection.ask("GET", "/api/v1/access")[0], connections))
        answered = [connection.worker for connection in connections]

    assert statuses == [200] * 40
    assert min(map(answered.count, list_workers(server))) >= 4


def test_a_key_that_is_given_to_two_workers_makes_one_memory(
    server: WebServer, pair: tuple[Connection, Connection]
) -> None:
    body = {"text": "the port is 443", "role": "user"}
    path, key = "/api/v1/conversations/twice/turns", "one and the same"

    (status, first, _), (again_status, again, headers) = (
        connection.ask("POST", path, body, Idempotency_Key=key) for connection in pair
    )

    assert (status, again_status, again) == (201, 201, first)
    assert headers["content-type"] == "application/json"
    assert count(server, "the port is 443") == 1
    assert [one.ask("POST", path, {**body, "text": "x"}, Idempotency_Key=key)[0] for one in pair] == [422, 422]


def test_a_key_that_is_given_to_two_workers_at_once_makes_one_memory(server: WebServer) -> None:
    path = "/api/v1/conversations/at-once/turns"

    with ExitStack() as stack, ThreadPoolExecutor(20) as pool:
        connections = [stack.enter_context(closing(Connection(server))) for _ in range(20)]
        for connection in connections:
            connection.ask("GET", "/api/v1/access")
        asked = list(
            pool.map(
                lambda one: one.ask("POST", path, {"text": "once", "role": "user"}, Idempotency_Key="k"), connections
            )
        )
        turns = count(server, "once")

    assert {status for status, *_ in asked} <= {201, 409}
    assert len({answer["id"] for status, answer, _ in asked if status == 201}) == 1
    assert turns == 1


def test_the_page_at_one_worker_sees_what_another_wrote(server: WebServer) -> None:
    with ExitStack() as stack:
        one, two = connect_to_both(server, stack)
        events = one.stream("/api/v1/events")
        while events.readline().strip():  # until its greeting ends
            pass

        _, answer, _ = two.ask("POST", "/api/v1/memories", {"content": "told to the other one"})
        data = next(line for line in iter(events.readline, b"") if line.startswith(b"data:"))
        last = next(line for line in iter(events.readline, b"") if line.startswith(b"id:") or line == b"\n")

    assert json.loads(data[5:])["new"]["memories"] == [answer["id"]]
    assert last == b"\n"


def test_a_position_of_one_worker_is_understood_by_another(server: WebServer) -> None:
    with ExitStack() as stack:
        one, two = connect_to_both(server, stack)
        hello = iter(one.stream("/api/v1/events").readline, b"\n")
        position = next(line for line in hello if line.startswith(b"id: "))[4:].strip().decode()
        other, _ = connect_to_both(server, stack)
        _, answer, _ = other.ask("POST", "/api/v1/memories", {"content": "written while it was away"})

        two._connection.request(
            "GET", "/api/v1/events", headers={"Authorization": f"Bearer {TOKEN}", "Last-Event-ID": position}
        )
        missed = next(line for line in iter(two._connection.getresponse().readline, b"") if line.startswith(b"data"))

    assert answer["id"] in json.loads(missed[5:])["new"]["memories"]


def test_a_cookie_of_one_worker_is_valid_at_all_and_ended_for_all(
    server: WebServer, pair: tuple[Connection, Connection]
) -> None:
    one, two = pair
    cookie = login(server, one)
    assert [each.ask("GET", "/api/v1/access", Cookie=cookie)[0] for each in pair] == [200, 200]

    assert two.ask("POST", "/logout", Cookie=cookie, Origin=server.url)[0] == 204

    # A refused one closes its connection.
    assert one.ask("GET", "/api/v1/access", Cookie=cookie)[0] == 401
    with ExitStack() as stack:
        assert {each.ask("GET", "/api/v1/access", Cookie=cookie)[0] for each in connect_to_both(server, stack)} == {401}


def test_a_link_opens_the_page_at_one_worker_once(server: WebServer, pair: tuple[Connection, Connection]) -> None:
    one, two = pair
    link = server.page.removeprefix(server.url)

    assert two.ask("GET", link, Cookie="none=1")[0] == 303
    assert [each.ask("GET", link, Cookie="none=1")[0] for each in (one, two)] == [401, 401]


def test_two_workers_together_let_no_more_guesses_wait_than_one(server: WebServer) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(60) as pool:
        connections = [stack.enter_context(closing(Connection(server))) for _ in range(60)]
        for connection in connections:
            connection.ask("GET", "/api/v1/access")

        def guess(number: int) -> int:
            return connections[number].ask("GET", "/api/v1/access", Authorization=f"Bearer guess-{number}")[0]

        statuses = list(pool.map(guess, range(60)))

    assert set(statuses) == {401, 429}
    # All at once, or nearly: those that waited for half a second may make room for others.
    assert statuses.count(429) >= 20


def test_a_killed_worker_loses_no_acknowledged_write_and_is_replaced(tmp_path: Path) -> None:
    with web_server(tmp_path / "memory.db", workers=2) as server, ExitStack() as stack:
        one, two = connect_to_both(server, stack)
        killed, stays = one.worker, two.worker
        acknowledged = []
        with suppress(OSError, http.client.HTTPException):
            for number in range(1000):
                acknowledged.append(one.ask("POST", "/api/v1/memories", {"content": f"number {number}"})[1])
                if number == 20:
                    os.kill(killed, signal.SIGKILL)

        assert 21 <= len(acknowledged) < 1000
        ids = [answer["id"] for answer in acknowledged]
        assert len(two.ask("POST", "/api/v1/memories:get", {"ids": ids})[1]["memories"]) == len(ids)
        new = wait_until(lambda: set(list_workers(server)) - {killed, stays}, "the worker was not replaced")
        third = connect_to_both(server, stack)
        assert {each.worker for each in third} == {stays, *new}
    assert f"the worker {killed} ended" in server.log.read_text()


def test_a_key_whose_worker_was_killed_can_be_used_again(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from memorist.web.idempotency import IdempotencyKeys\n"
        "with IdempotencyKeys(Path(sys.argv[1]), b'secret').claim('anna', 'key', b'request'):\n"
        "    print('at work', flush=True); sys.stdin.read()\n"
    )
    keys = IdempotencyKeys(tmp_path, b"secret")
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(Refusal, match="still at work"), keys.claim("anna", "key", b"request"):
            pass
        with pytest.raises(Refusal, match="for another request"), keys.claim("anna", "key", b"another"):
            pass
        process.kill()
        process.wait()

    with keys.claim("anna", "key", b"request") as claim:
        assert claim.answer is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_server(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "temporary").mkdir()
    with (
        web_server(tmp_path / "memory.db", workers=2, environ={"TMPDIR": str(tmp_path / "temporary")}) as server,
        ExitStack() as stack,
    ):
        for connection in connect_to_both(server, stack):
            connection.stream("/api/v1/events")  # which would go on for ever
        workers = list_workers(server)

        server.process.send_signal(number)
        code = server.process.wait(MAX_WAIT_SECONDS)

        wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), "a worker goes on")
    assert code == {signal.SIGINT: 130}.get(number, -number)
    assert not list((tmp_path / "temporary").iterdir())
    assert "Traceback" not in server.log.read_text()
    with memorist.open(tmp_path / "memory.db", embedder="none") as memory:
        assert memory.check().ok


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_ended_as_it_starts_leaves_nothing(tmp_path: Path, workers: int) -> None:
    (tmp_path / "temporary").mkdir()
    environ = {"TMPDIR": str(tmp_path / "temporary")}
    with web_server(tmp_path / "memory.db", workers=workers, environ=environ) as server:
        server.process.send_signal(signal.SIGTERM)  # it has told its address, and is not listening to signals yet
        assert server.process.wait(MAX_WAIT_SECONDS) == -signal.SIGTERM

    wait_until(lambda: not list((tmp_path / "temporary").iterdir()), "a folder is left")


def test_memories_of_one_process_are_served_by_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memorist", "--db", ":memory:", "serve", "--port", "0", "--workers", "2"]
    environ = os.environ | {"HOME": str(tmp_path), "MEMORIST_HTTP_TOKEN": TOKEN}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path, check=False)

    assert done.returncode == 1
    assert "2 workers cannot share" in done.stderr
    with web_server(":memory:", environ={"MEMORIST_WORKERS": ""}) as server, closing(Connection(server)) as connection:
        assert connection.ask("POST", "/api/v1/memories", {"content": "volatile"})[0] == 201
        assert list_workers(server) == []


def test_what_is_kept_for_keys_cannot_be_read_without_the_server(tmp_path: Path) -> None:
    with (
        web_server(tmp_path / "memory.db", environ={"TMPDIR": str(tmp_path)}) as server,
        closing(Connection(server)) as connection,
    ):
        for text in ("my secret plan", "my secret plan", "another secret plan"):
            connection.ask("POST", "/api/v1/memories", {"content": text}, Idempotency_Key=text)
        kept = [file.read_bytes() for file in tmp_path.glob("memorist-serve-*/answers/*")]

    assert len(kept) == 2
    assert not any(b"secret" in content for content in kept)
    assert not list(tmp_path.glob("memorist-serve-*"))


def test_a_server_goes_on_where_its_temporary_folder_was_cleaned(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with (
        web_server(tmp_path / "memory.db", environ={"TMPDIR": str(temporary)}) as server,
        closing(Connection(server)) as connection,
    ):
        for folder in temporary.iterdir():
            shutil.rmtree(folder)

        first, again = (
            connection.ask("POST", "/api/v1/memories", {"content": "kept"}, Idempotency_Key="key") for _ in range(2)
        )

    assert first[0] == again[0] == 201
    assert first[1] == again[1]
