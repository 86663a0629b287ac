"""The server under attack: slow and large bodies, idle connections, many requests at once. It stays up and answers."""

import http.client
import io
import json
import re
import socket
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import pytest
from test_http_access import ask

import memorist
from memorist.web.access import TokenAuth
from memorist.web.events import MAX_LISTENERS
from memorist.web.server import HEADER_SECONDS, MAX_CONNECTIONS
from timeouts import MAX_WAIT_SECONDS
from web_server import TOKEN, WebServer, web_server

HEAD = (
    "POST /api/v1/search HTTP/1.1\r\nHost: {host}\r\n"
    f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with web_server(tmp_path_factory.mktemp("attacked") / "memory.db") as running:
        ask(running, "GET", "/api/v1/stats")  # the memory is open
        yield running


def memory_mib(server: WebServer, of: str = "VmRSS") -> float:
    status = Path(f"/proc/{server.process.pid}/status")
    if not status.exists():
        pytest.skip("this system does not tell how much memory a process has")
    found = re.search(rf"{of}:\s+(\d+)", status.read_text())
    assert found
    return int(found[1]) / 1024


def peak_memory_mib(server: WebServer) -> float:
    return memory_mib(server, "VmHWM")


def open_files(server: WebServer) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def assert_well(server: WebServer) -> None:
    assert ask(server, "POST", "/api/v1/search", {"query": "still there?"})[0] == 200
    assert "Traceback" not in server.log.read_text()


def connect(server: WebServer) -> socket.socket:
    return socket.create_connection(server.address, timeout=MAX_WAIT_SECONDS)


def test_a_body_of_200_mb_is_refused_before_it_is_read(attacked: WebServer) -> None:
    before = memory_mib(attacked)
    with connect(attacked) as connection:
        connection.sendall((HEAD.format(host=attacked.host) + "Content-Length: 200000000\r\n\r\n").encode())
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413")
    assert memory_mib(attacked) < before + 20
    assert_well(attacked)


def test_a_body_of_200_mb_that_does_not_say_so_is_cut_off(attacked: WebServer) -> None:
    before, chunk = memory_mib(attacked), b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    sent = 0
    with connect(attacked) as connection:
        connection.sendall((HEAD.format(host=attacked.host) + "Transfer-Encoding: chunked\r\n\r\n").encode())
        with suppress(OSError):
            for _ in range(200):
                connection.sendall(chunk)
                sent += 1
    assert sent < 150
    assert memory_mib(attacked) < before + 100
    assert_well(attacked)


def test_headers_without_end_are_refused(attacked: WebServer) -> None:
    with connect(attacked) as connection:
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {attacked.host}\r\n".encode())
        with suppress(OSError):
            for _ in range(100):
                connection.sendall(b"X-Filler: " + b"x" * 10_000 + b"\r\n")
            assert connection.recv(1024).startswith(b"HTTP/1.1 400")
    assert_well(attacked)


def test_a_request_that_comes_byte_by_byte_is_not_waited_for(attacked: WebServer) -> None:
    """Fifty at once, each a byte now and then: all are cut off, and others are answered meanwhile."""
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(attacked)) for _ in range(50)]
        started = time.monotonic()
        open_ones = list(slow)
        while open_ones and time.monotonic() - started < HEADER_SECONDS * 3:
            for connection in list(open_ones):
                try:
                    connection.sendall(b"G")
                    connection.setblocking(False)
                    if connection.recv(1) == b"":
                        open_ones.remove(connection)
                except BlockingIOError:
                    pass
                except OSError:
                    open_ones.remove(connection)
                finally:
                    with suppress(OSError):
                        connection.settimeout(MAX_WAIT_SECONDS)
            assert ask(attacked, "GET", "/api/v1/access")[0] == 200
        assert open_ones == []
    assert_well(attacked)


@pytest.mark.slow
def test_a_body_that_never_comes_is_given_up(attacked: WebServer) -> None:
    with connect(attacked) as connection:
        connection.settimeout(MAX_WAIT_SECONDS)
        connection.sendall((HEAD.format(host=attacked.host) + "Content-Length: 100\r\n\r\n{").encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 408")
    assert_well(attacked)


def test_ten_thousand_idle_connections_are_bounded_and_others_get_through(attacked: WebServer) -> None:
    before = memory_mib(attacked)
    deadline = time.monotonic() + 60
    opened = 0
    held: list[socket.socket] = []
    try:
        while opened < 10_000 and time.monotonic() < deadline:
            with suppress(OSError):
                held.append(connect(attacked))
                opened += 1
            if len(held) > MAX_CONNECTIONS + 100:
                for connection in held[:200]:  # the server has closed them, and this process has a limit as well
                    connection.close()
                del held[:200]
            if opened % 1000 == 0:
                assert ask(attacked, "GET", "/api/v1/access")[0] == 200
        assert opened >= 2000
        assert open_files(attacked) < MAX_CONNECTIONS + 100
        assert memory_mib(attacked) < before + 60
        assert_well(attacked)
    finally:
        for connection in held:
            connection.close()


def test_streams_are_bounded_and_give_their_place_back(attacked: WebServer) -> None:
    request = f"GET /api/v1/events HTTP/1.1\r\nHost: {attacked.host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(MAX_LISTENERS):
            stream = stack.enter_context(connect(attacked))
            stream.sendall(request.encode())
            assert stream.recv(100).startswith(b"HTTP/1.1 200")
        refused = stack.enter_context(connect(attacked))
        refused.sendall(request.encode())
        assert refused.recv(100).startswith(b"HTTP/1.1 503")
    deadline, status = time.monotonic() + MAX_WAIT_SECONDS, b"503"
    while b"503" in status and time.monotonic() < deadline:
        with connect(attacked) as again:
            again.sendall(request.encode())
            status = again.recv(12)
    assert status == b"HTTP/1.1 200"
    assert_well(attacked)


def test_a_reader_that_leaves_an_export_harms_nobody(attacked: WebServer) -> None:
    with memorist.connect(attacked.url, token=TOKEN) as remote:
        remote.add_many(f"{number} " + "a long text " * 1000 for number in range(300))
    request = f"GET /api/v1/export HTTP/1.1\r\nHost: {attacked.host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    for _ in range(3):
        with connect(attacked) as connection:
            connection.sendall(request.encode())
            assert b"no-store" in connection.recv(2000).lower()
    assert_well(attacked)


def test_kept_connections_are_served_while_idle_ones_are_sent_away(attacked: WebServer) -> None:
    kept = http.client.HTTPConnection(*attacked.address, timeout=MAX_WAIT_SECONDS)
    with ExitStack() as stack:
        stack.callback(kept.close)
        for _ in range(5):
            for _ in range(50):
                stack.enter_context(connect(attacked))
            kept.request("GET", "/api/v1/access", headers={"Authorization": f"Bearer {TOKEN}"})
            assert json.loads(kept.getresponse().read())["namespace"] == "default"
    assert_well(attacked)


def test_many_clients_at_once_are_all_answered(attacked: WebServer) -> None:
    with memorist.connect(attacked.url, token=TOKEN) as remote:
        remote.add_many(f"memory {number} of the load" for number in range(200))
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda number: len(remote.search(f"memory {number}")), range(500)))
    assert min(answers) > 0
    assert_well(attacked)


def test_a_client_that_leaves_in_the_middle_harms_nobody(attacked: WebServer) -> None:
    body = json.dumps({"query": "words " * 50}).encode()
    for length in (0, 5, len(body)):
        for _ in range(10):
            with connect(attacked) as connection:
                head = HEAD.format(host=attacked.host) + f"Content-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body[:length])
    assert_well(attacked)


@pytest.mark.parametrize("pattern", [r"/^(\w+)+$/", "/ghp_/"])
def test_a_pattern_of_what_is_no_secret_is_refused(attacked: WebServer, pattern: str) -> None:
    turn = {"role": "user", "text": f"password: {'Kestrel7' * 5}!", "allow": [pattern]}
    form = (
        f'--x\r\nContent-Disposition: form-data; name="allow"\r\n\r\n{pattern}\r\n'
        '--x\r\nContent-Disposition: form-data; name="file"; filename="a.json"\r\n\r\n[]\r\n--x--\r\n'
    )

    answers = [
        ask(attacked, "POST", "/api/v1/conversations/c/turns", turn),
        ask(attacked, "POST", "/api/v1/import", form.encode(), Content_Type="multipart/form-data; boundary=x"),
    ]

    for status, _, body in answers:
        assert status == 422
        assert "a server takes texts alone" in json.loads(body)["detail"]
    allowed = ask(attacked, "POST", "/api/v1/conversations/c/turns", turn | {"allow": ["Kestrel"]})
    assert json.loads(allowed[2])["content"] == turn["text"]
    assert_well(attacked)


@pytest.mark.parametrize(
    ("path", "field"), [("context", "message"), ("memories", "content"), ("conversations/c/turns", "text")]
)
def test_a_million_accents_in_disorder_do_not_freeze_the_server(attacked: WebServer, path: str, field: str) -> None:
    """Python sorts the accents of one letter in quadratic time, and nothing else runs in the process meanwhile."""
    token = TokenAuth(TOKEN).issue_token(project=None if "turns" in path else "accents")
    body = {field: "a" + "\u0301\u0316" * 499_999} | ({"role": "user"} if "turns" in path else {})

    assert ask(attacked, "POST", f"/api/v1/{path}", body, token)[0] in (200, 201)
    assert_well(attacked)


@pytest.mark.parametrize("name", ["self", "profile", "lens", "query", "limit", "arguments", ""])
def test_no_name_of_an_option_fails_a_search(attacked: WebServer, name: str) -> None:
    options = {"query": "x", "options": {name: "x"}}
    project = TokenAuth(TOKEN).issue_token(project="api")

    assert ask(attacked, "POST", "/api/v1/search", options, project)[0] in (404, 422)
    assert ask(attacked, "POST", "/api/v1/search", options)[0] in (404, 422)
    assert ask(attacked, "POST", "/api/v1/documents:search", options)[0] == 422
    assert ask(attacked, "POST", "/api/v1/compare", options | {"profiles": ["balanced", "precise"]})[0] == 422
    assert_well(attacked)


def test_a_signal_ends_the_server_while_a_request_works(path: Path) -> None:
    with web_server(path) as server, connect(server) as connection, closing(apsw.Connection(str(path))) as writer:
        assert ask(server, "POST", "/api/v1/memories", {"content": "the first"})[0] == 201
        writer.execute("begin immediate")  # so the next request waits for its turn to write, for 30 seconds
        body = json.dumps({"content": "the second"}).encode()
        head = HEAD.replace("/search", "/memories").format(host=server.host)
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert ask(server, "GET", "/api/v1/memories")[0] == 200  # it has begun, and others are answered meanwhile
        server.process.terminate()
        assert server.process.wait(20) is not None


def test_streams_of_events_end_with_the_server(path: Path) -> None:
    with web_server(path) as server, memorist.connect(server.url, token=TOKEN) as remote:
        changes = remote.changes()
        next(changes)
        ended = threading.Event()

        def read() -> None:
            with suppress(memorist.MemoristError):
                list(changes)
            ended.set()

        threading.Thread(target=read, daemon=True).start()
        server.process.terminate()
        assert server.process.wait(MAX_WAIT_SECONDS) is not None
        assert ended.wait(MAX_WAIT_SECONDS)


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        "multipart/form-data; x",
        f"multipart/form-data; boundary={'x' * 5000}",
        "multipart/form-data; boundary=\xe4",
    ],
)
def test_an_upload_without_a_boundary_is_refused(attacked: WebServer, content_type: str) -> None:
    status, _, body = ask(attacked, "POST", "/api/v1/import", b"--x\r\n\r\n--x--\r\n", Content_Type=content_type)

    assert (status, json.loads(body)["type"]) == (400, "urn:memorist:problem:not-multipart")
    assert_well(attacked)


@pytest.mark.parametrize("name", ["😀" * 100 + ".json", "é" * 200, "\u0301" * 99, "a" * 300, "..", "/", ".json"])
def test_an_upload_may_have_any_name_and_leaves_nothing_behind(path: Path, tmp_path: Path, name: str) -> None:
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    form = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n[]\r\n--x--\r\n'
    with web_server(path, environ={"TMPDIR": str(uploads)}) as server:
        status, _, body = ask(
            server, "POST", "/api/v1/import", form.encode(), Content_Type="multipart/form-data; boundary=x"
        )

        assert (status, json.loads(body)["type"]) == (422, "urn:memorist:problem:invalid-input")
        assert list(uploads.glob("memorist-import-*")) == []
        assert_well(server)
    assert list(uploads.iterdir()) == []


def test_a_body_of_many_small_values_is_taken(attacked: WebServer) -> None:
    items = [{"content": f"item {n}", "tags": [f"tag {t}" for t in range(100)], "project": "many"} for n in range(1000)]

    assert ask(attacked, "POST", "/api/v1/memories:batch", {"items": items})[0] == 201


@pytest.mark.parametrize("levels", [65, 80, 500, 990, 5000, 100_000])
def test_deep_json_is_refused_and_poisons_nothing(attacked: WebServer, levels: int) -> None:
    """By whatever token it comes: nothing is stored, and the owner reads on."""
    deep = '{"a":' * levels + "1" + "}" * levels
    token = TokenAuth(TOKEN).issue_token(project="poison")
    for method, path, body in (
        ("POST", "memories", f'{{"content": "a poison pill", "metadata": {deep}}}'),
        ("POST", "search", f'{{"query": "x", "metadata": {deep}}}'),
        ("POST", "search", f'{{"query": "x", "options": {deep}}}'),
        ("POST", "memories:count", deep),
    ):
        status, _, answer = ask(attacked, method, f"/api/v1/{path}", body.encode(), token)
        assert status in (400, 422), (method, path, status, answer)
    for body in (f'{{"items": [{{"content": "a poison pill", "metadata": {deep}}}]}}', f'{{"boosts": {deep}}}'):
        path = "/api/v1/lenses/x" if "boosts" in body else "/api/v1/memories:batch"
        assert ask(attacked, "PUT" if "boosts" in body else "POST", path, body.encode())[0] in (400, 422)
    if levels < 1000:
        assert ask(attacked, "GET", f"/api/v1/memories?metadata={quote(deep)}", token=token)[0] in (400, 422)
    with memorist.connect(attacked.url, token=TOKEN) as remote:
        assert remote.count(project="poison") == 0
        assert remote.lenses.list() == []
    assert_well(attacked)


def upload(server: WebServer, name: str, content: bytes, token: str) -> tuple[int, dict[str, Any]]:
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    form = head + content + b"\r\n--x--\r\n"
    status, _, body = ask(server, "POST", "/api/v1/import", form, token, Content_Type="multipart/form-data; boundary=x")
    return status, json.loads(body)


def zip_of(*members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for number, member in enumerate(members):
            archive.writestr(f"conversations-{number:03}.json", member)
    return packed.getvalue()


MANY = b"[" + b"[]," * 8_000_000 + b"[]]"  # 24 MB, and 900 MB as Python's objects
SOME = b"[" + b"[]," * 600_000 + b"[]]"
TALK = b'{"role": "user", "content": "hello"}\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("conversations.json", MANY),
        ("conversations.json", MANY.decode().encode("utf-16-le")),
        ("memories.json", b'{"results": ' + MANY + b"}"),
        ("export.zip", zip_of(*[SOME] * 10)),
        ("lines.jsonl", TALK + MANY + b"\n"),
        ("backup.jsonl", b'{"memorist": 1, "x": ' + MANY + b"}\n"),
    ],
    ids=["document", "document in UTF-16", "mem0", "zip", "line", "export"],
)
def test_an_upload_of_millions_of_values_is_refused_before_they_fill_the_memory(
    path: Path, name: str, content: bytes
) -> None:
    with web_server(path) as server:
        token = TokenAuth(TOKEN).issue_token(namespace="small")
        assert upload(server, "talk.jsonl", TALK, token)[0] == 200
        before, started = peak_memory_mib(server), time.monotonic()

        status, answer = upload(server, name, content, token)

        took, grown = time.monotonic() - started, peak_memory_mib(server) - before
        told = json.dumps(answer)
        assert (took < 10, grown < 300) == (True, True), f"{took:.1f} s, {grown:.0f} MiB"
        assert status == (200 if name == "lines.jsonl" else 422), told[:500]
        assert "more than 1,500,000 objects and lists" in told, told[:500]
        assert "`memorist import FILE`" in told, told[:500]
        assert_well(server)


@pytest.mark.parametrize(
    "body",
    [b'{"items": [' + b"[]," * 5_000_000 + b"[]]}", b'{"x": [' + b'"ab",' * 3_000_000 + b"1]}"],
    ids=["lists", "texts"],
)
def test_a_body_of_millions_of_values_is_refused_before_they_fill_the_memory(path: Path, body: bytes) -> None:
    with web_server(path) as server:
        token = TokenAuth(TOKEN).issue_token(project="small")
        ask(server, "GET", "/api/v1/memories", token=token)
        before = peak_memory_mib(server)

        status, _, answer = ask(server, "POST", "/api/v1/search", body, token)

        grown = peak_memory_mib(server) - before
        assert grown < 120, f"{grown:.0f} MiB"
        assert (status, json.loads(answer)["type"]) == (413, "urn:memorist:problem:too-large"), answer[:500]
        assert "send it in several requests" in json.loads(answer)["detail"]


def test_a_large_export_of_another_program_is_still_taken(attacked: WebServer) -> None:
    """Prose and code have as many commas and brackets as an attack, but within texts."""
    turn = {
        "uuid": "x",
        "sender": "human",
        "created_at": "2026-01-01T00:00:00Z",
        "text": 'f([{"a\\": [1,2,3]}])\n' * 20_000,
    }
    talks = [{"uuid": f"talk {n}", "name": "a talk", "chat_messages": [turn | {"uuid": f"{n}"}]} for n in range(60)]
    content = json.dumps(talks).encode()
    assert content.count(b"[") + content.count(b"{") > 2_000_000

    status, answer = upload(attacked, "conversations.json", content, TOKEN)

    assert (status, answer["added"], answer["skipped"]) == (200, 60, [])


def test_an_upload_of_lines_that_cannot_be_read_names_some_of_them(attacked: WebServer) -> None:
    status, answer = upload(attacked, "talk.jsonl", TALK + b"1\n" * 300_000, TOKEN)

    assert status == 200
    assert len(answer["skipped"]) <= 10_001
    assert answer["skipped"][-1][0] == "290,000 more"


def test_a_costly_filter_keeps_nobody_from_writing_while_memories_are_forgotten(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        nested = [{"c": f"value {number}"} for number in range(20)]
        memory.add_many(
            {"content": f"note {number}", "project": "small", "metadata": {"a": {"b": nested}}}
            for number in range(4000)
        )
    costly = {"metadata": {"$not": {"$or": [{"a.b.c": {"$gt": f"zzz{number}"}} for number in range(100)]}}}
    token, waits, ended = TokenAuth(TOKEN).issue_token(project="small"), list[float](), threading.Event()
    with web_server(path) as server, ThreadPoolExecutor(1) as pool:

        def write() -> None:
            while not ended.is_set():
                started = time.monotonic()
                assert ask(server, "POST", "/api/v1/memories", {"content": f"other {len(waits)}"})[0] == 201
                waits.append(time.monotonic() - started)

        writing = pool.submit(write)
        started = time.monotonic()
        status, _, answer = ask(server, "POST", "/api/v1/memories:forget", costly, token)
        took = time.monotonic() - started
        ended.set()
        writing.result(MAX_WAIT_SECONDS)

        assert (status, json.loads(answer)) == (200, {"count": 4000})
        assert max(waits) < took / 2, f"a writer waited {max(waits):.1f} s of {took:.1f} s"
