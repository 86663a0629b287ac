"""Access to the server: tokens, the cookie of the page, hosts and origins, and what is written down about them."""

import html
import http.client
import json
import logging
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import apsw
import pytest
import uvicorn

import memorist
from memorist.config import LoadedSettings, Settings
from memorist.errors import ConfigError, InvalidInput, NotFound
from memorist.listening import ListenAddress
from memorist.web.access import HostNames, TokenAuth
from memorist.web.app import _problem_response
from memorist.web.operations import OPERATIONS, ServerCalls
from memorist.web.server import ServeOptions, serve
from timeouts import MAX_WAIT_SECONDS
from web_server import TOKEN, WebServer, web_server

Answer = tuple[int, Mapping[str, str], bytes]


def ask(
    server: WebServer,
    method: str,
    path: str,
    body: Any = None,
    token: str | None = TOKEN,
    **headers: str,
) -> Answer:
    """Send one request with exactly these headers, and return status, headers and body."""
    connection = http.client.HTTPConnection(*server.address, timeout=MAX_WAIT_SECONDS)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    data = None
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """One server for the tests that change nothing, or nothing that others look at."""
    with web_server(tmp_path_factory.mktemp("web") / "memory.db") as running:
        yield running


def login(server: WebServer) -> str:
    """Open the page with its link, and return the cookie."""
    parts = urlsplit(server.page)
    status, headers, _ = ask(server, "GET", f"{parts.path}?{parts.query}", token=None)
    assert (status, headers["location"]) == (303, "/")
    return headers["set-cookie"]


# Tokens


@pytest.mark.parametrize("given", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "mt1.e30.e30", "mt1.."])
def test_without_the_right_token_nothing_is_answered(shared: WebServer, given: str | None) -> None:
    status, headers, body = ask(shared, "GET", "/api/v1/stats", token=given)

    assert status == 401
    assert headers["www-authenticate"] == "Bearer"
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["type"] == "urn:memorist:problem:unauthorised"


def test_two_tokens_or_another_scheme_are_no_token(shared: WebServer) -> None:
    assert ask(shared, "GET", "/api/v1/stats", token=None, Authorization=f"Basic {TOKEN}")[0] == 401
    assert ask(shared, "GET", "/api/v1/stats", token=None, authorization=f"bearer  {TOKEN}")[0] == 200


def test_a_read_only_token_reads_and_changes_nothing(shared: WebServer) -> None:
    token = TokenAuth(TOKEN).issue_token(read_only=True)

    with memorist.connect(shared.url, token=token) as remote:
        assert ServerCalls(remote).access().read_only
        remote.search("anything")
        assert remote.count() >= 0
        for change in (
            lambda: remote.add("x"),
            lambda: remote.forget("x"),
            lambda: remote.forget_many(project="x"),
            lambda: remote.update("x", title="y"),
            lambda: remote.search("x", record="log"),
            lambda: ServerCalls(remote).import_sample(),
        ):
            with pytest.raises(ConfigError, match="read-only"):
                change()


@pytest.mark.parametrize("bounds", [{"namespace": "anna"}, {"project": "api"}, {}])
def test_a_bounded_token_is_not_told_where_a_database_is_that_cannot_be_used(
    path: Path, bounds: dict[str, str]
) -> None:
    token = TokenAuth(TOKEN).issue_token(**bounds)
    with web_server(path, environ={"MEMORIST_BUSY_TIMEOUT": "0.1"}) as server:
        assert ask(server, "POST", "/api/v1/memories", {"content": "the first"}, token)[0] == 201
        with closing(apsw.Connection(str(path))) as writer:
            writer.execute("begin immediate")
            answers = [ask(server, "POST", "/api/v1/memories", {"content": "x"}, given) for given in (token, TOKEN)]

        problems = [(status, json.loads(body)) for status, _, body in answers]
        assert [(status, problem["type"]) for status, problem in problems] == [
            (503, "urn:memorist:problem:store-busy")
        ] * 2
        assert path.name not in problems[0][1]["detail"]
        assert str(path) in problems[1][1]["detail"]
        assert str(path) in server.log.read_text()


def test_a_bounded_token_is_not_told_where_a_model_is_that_cannot_be_reached(path: Path) -> None:
    token, nowhere = TokenAuth(TOKEN).issue_token(namespace="anna"), "http://127.0.0.1:9"
    questions: tuple[tuple[str, dict[str, Any]], ...] = (
        ("memories", {"content": "x"}),
        ("search", {"query": "x"}),
        ("search", {"query": "x", "mode": "semantic"}),
        ("compare", {"query": "x", "profiles": ["balanced", "precise"]}),
    )
    with web_server(path, embedder="ollama:a-model", environ={"OLLAMA_HOST": nowhere}) as server:
        for name, body in questions:
            assert nowhere.encode() not in ask(server, "POST", f"/api/v1/{name}", body, token)[2]
            assert nowhere.encode() in ask(server, "POST", f"/api/v1/{name}", body)[2]


@pytest.mark.parametrize(
    "asked", [{"options": {"record": "log"}}, {"options": {"record_session": "s"}}, {"record": "reinforce"}]
)
def test_a_read_only_token_records_no_search(shared: WebServer, asked: dict[str, Any]) -> None:
    token = TokenAuth(TOKEN).issue_token(read_only=True)
    with memorist.connect(shared.url, token=TOKEN) as remote:
        before = len(remote.searches.list())

        refused, *_ = ask(shared, "POST", "/api/v1/search", {"query": "ship", **asked}, token)
        taken, *_ = ask(shared, "POST", "/api/v1/search", {"query": "ship", "profile": "salience"}, token)

        assert (refused, taken) == (403, 200)
        assert len(remote.searches.list()) == before


def test_an_option_may_not_repeat_an_argument(shared: WebServer) -> None:
    status, _, body = ask(shared, "POST", "/api/v1/search", {"query": "ship", "limit": 3, "options": {"limit": 4}})

    assert (status, b"beside" in body) == (422, True)


def test_a_login_takes_no_large_body(shared: WebServer) -> None:
    status, *_ = ask(shared, "POST", "/login", {"token": "x" * 10_000}, None, Origin=shared.url)

    assert status == 413


def test_a_token_of_one_project_gives_no_access_to_another(path: Path) -> None:
    with web_server(path) as server, memorist.connect(server.url, token=TOKEN) as everything:
        mine = everything.add("the key is under the mat", project="mine")
        theirs = everything.add("the key is in the safe", project="theirs")
        token = TokenAuth(TOKEN).issue_token(project="mine")
        with memorist.connect(server.url, token=token) as remote:
            assert [hit.memory.id for hit in remote.search("key")] == [mine.id]
            assert [memory.id for memory in remote.list()] == [mine.id]
            assert remote.get(mine.id).id == mine.id
            assert remote.add("another", title="t").project == "mine"
            assert remote.update(mine.id, title="changed").title == "changed"
            with pytest.raises(NotFound):
                remote.get(theirs.id)
            with pytest.raises(NotFound):
                remote.update(theirs.id, title="changed")
            with pytest.raises(NotFound):
                remote.forget(theirs.id)
            with pytest.raises(InvalidInput, match="only project"):
                remote.search("key", project="theirs")
            assert remote.add("mine now", id=theirs.id).id not in (theirs.id, mine.id)
            assert remote.get(theirs.id).content == "mine now"
            assert remote.count() == 3
            assert remote.forget_many(metadata={"n": {"$exists": False}}) == 3
            with pytest.raises(InvalidInput, match="filter"):
                remote.forget_many()
            for call in (remote.count, remote.forget_many):
                with pytest.raises(InvalidInput, match="only project"):
                    call(project="theirs")
            assert everything.get(theirs.id).content == theirs.content
            for refused in (
                remote.stats,
                remote.sessions.list,
                remote.searches.list,
                remote.lenses.list,
                remote.check,
            ):
                with pytest.raises(ConfigError, match="one project"):
                    refused()
            with pytest.raises(ConfigError, match="one project"):
                next(remote.changes())
            with pytest.raises(ConfigError, match="one project"):
                remote.transfer.export(path.with_name("out.jsonl"))


@pytest.mark.parametrize("if_exists", ["update", "keep", "error"])
def test_adding_does_not_tell_whether_a_memory_of_that_id_was_moved_away_or_erased(
    server: WebServer, if_exists: str
) -> None:
    token = TokenAuth(TOKEN).issue_token(project="mine")

    def add(name: str, content: str) -> tuple[int, str]:
        body = {"content": content, "id": name, "if_exists": if_exists}
        status, _, answer = ask(server, "POST", "/api/v1/memories", body, token)
        return status, json.loads(answer).get("id", answer.decode())

    with memorist.connect(server.url, token=TOKEN) as owner:
        given = {name: add(name, f"the first {name}")[1] for name in ("moved", "erased")}
        owner.update(given["moved"], project="theirs")
        owner.forget(given["erased"], hard=True)
        answers = {name: add(name, f"the second {name}") for name in (*given, "unused", *given.values())}

        assert {status for status, _ in answers.values()} == {201}, answers
        for name, (_, id) in answers.items():
            assert re.fullmatch(re.escape(name) + "~[0-9a-f]{28}", id)
            assert id not in given.values()
            assert ask(server, "GET", f"/api/v1/memories/{quote(name, safe='')}", token=token)[0] == 200
        assert owner.get(given["moved"]).content == "the first moved"


def test_a_token_of_one_namespace_stays_in_it(path: Path) -> None:
    with web_server(path) as server:
        token = TokenAuth(TOKEN).issue_token(namespace="team")
        with memorist.connect(server.url, token=token) as team, memorist.connect(server.url, token=TOKEN) as own:
            team.add("a secret of the team")
            assert ServerCalls(team).access().namespace == "team"
            for tells_of_the_machine in (ServerCalls(team).settings, ServerCalls(team).eval_runs):
                with pytest.raises(ConfigError, match="one namespace"):
                    tells_of_the_machine()
            assert len(own.search("secret")) == 0
            with memorist.connect(server.url, token=TOKEN, namespace="team") as chosen:
                assert len(chosen.search("secret")) == 1
        with (
            memorist.connect(server.url, token=token, namespace="default") as elsewhere,
            pytest.raises(ConfigError, match="namespace"),
        ):
            elsewhere.stats()


@pytest.mark.parametrize("rights", [{}, {"read_only": True}, {"project": "api"}, {"project": "api", "read_only": True}])
def test_a_token_without_a_namespace_of_its_own_is_for_that_of_the_server(
    shared: WebServer, rights: dict[str, Any]
) -> None:
    with memorist.connect(shared.url, token=TOKEN, namespace="anna") as anna:
        kept = anna.add("Anna's memory", project="api")
        token = TokenAuth(TOKEN).issue_token(**rights)
        doors = [(operation.method, operation.path) for operation in OPERATIONS]

        for method, path in doors:
            filled = re.sub(r"{\w+}", kept.id, path)
            status, _, body = ask(shared, method, f"/api/v1{filled}", {}, token, Memorist_Namespace="anna")
            assert (status, b"Anna" in body) == (403, False), (method, path, body)
        assert ask(shared, "GET", "/api/v1/access", token=token, Memorist_Namespace="default")[0] == 200
        with memorist.connect(shared.url, token=token, namespace="anna") as there:
            for call in (lambda: there.search("memory"), lambda: there.forget(kept.id)):
                with pytest.raises(ConfigError, match=r"namespace 'default' alone|read-only"):
                    call()

        assert anna.get(kept.id).content == "Anna's memory"


def test_a_signed_token_opens_no_page_and_tells_nothing_of_the_machine(shared: WebServer) -> None:
    token = TokenAuth(TOKEN).issue_token()

    assert ask(shared, "POST", "/login", {"token": token}, token=None, Origin=shared.url)[0] == 401
    for path in ("settings", "eval-runs"):
        assert ask(shared, "GET", f"/api/v1/{path}", token=token)[0] == 403
        assert ask(shared, "GET", f"/api/v1/{path}", token=TOKEN)[0] == 200


@pytest.mark.parametrize(
    ("arguments", "namespace"),
    [
        (("token",), None),
        (("--namespace", "team", "token", "--read-only"), "team"),
        (("--namespace", "default", "token", "--only-project", "api"), "default"),
        (("--namespace", "team", "token", "--only-namespace", "team"), "team"),
        (("token", "--only-namespace", "team"), "team"),
    ],
)
def test_a_token_is_for_the_namespace_that_the_command_names(
    tmp_path: Path, arguments: tuple[str, ...], namespace: str | None
) -> None:
    token = run(*arguments, home=tmp_path).stdout.strip()

    grant = TokenAuth((tmp_path / "state" / "memorist" / "http.key").read_text()).check_token(token)

    assert grant is not None
    assert (grant.namespace, grant.any_namespace) == (namespace, False)


def test_a_token_cannot_be_for_two_namespaces(tmp_path: Path) -> None:
    refused = run("--namespace", "team", "token", "--only-namespace", "anna", home=tmp_path)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "team" in refused.stderr


def test_a_token_ends_with_its_time_and_with_the_secret_it_was_made_of() -> None:
    token_auth = TokenAuth(TOKEN)

    assert token_auth.check_token(token_auth.issue_token(seconds=60)) is not None
    assert token_auth.check_token(token_auth.issue_token(seconds=-1)) is None
    assert TokenAuth(TOKEN + "!").check_token(token_auth.issue_token()) is None
    assert token_auth.check_token(token_auth.issue_cookie()) is None
    assert token_auth.check_cookie(token_auth.issue_token()) is None


def test_a_token_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 16"):
        TokenAuth("secret")


# The page


def test_the_link_opens_the_page_once(path: Path) -> None:
    with web_server(path) as server:
        cookie = login(server)

        assert re.search(r"HttpOnly.*SameSite=strict", cookie, re.IGNORECASE)
        assert "Path=/" in cookie
        value = cookie.partition(";")[0]
        assert ask(server, "GET", "/api/v1/access", token=None, Cookie=value)[0] == 200
        parts = urlsplit(server.page)
        assert ask(server, "GET", f"{parts.path}?{parts.query}", token=None)[0] == 401


def test_the_cookie_outlives_the_server(path: Path) -> None:
    with web_server(path) as server:
        value = login(server).partition(";")[0]
    with web_server(path) as server:
        assert ask(server, "GET", "/api/v1/access", token=None, Cookie=value)[0] == 200


def test_a_logout_ends_the_cookie_for_whoever_has_a_copy(path: Path, tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    with web_server(path, environ=state) as server:
        value = login(server).partition(";")[0]
        other = TokenAuth(TOKEN).issue_cookie()
        assert ask(server, "POST", "/logout", token=None, Origin=server.url, Cookie=value)[0] == 204
        assert ask(server, "GET", "/api/v1/access", token=None, Cookie=value)[0] == 401
    with web_server(path, environ=state) as server:
        assert ask(server, "GET", "/api/v1/access", token=None, Cookie=value)[0] == 401
        assert ask(server, "GET", "/api/v1/access", token=None, Cookie=f"memorist={other}")[0] == 200


def test_no_other_spelling_of_an_ended_cookie_is_valid() -> None:
    token_auth = TokenAuth(TOKEN)
    cookie = token_auth.issue_cookie()
    signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    spellings = [cookie + "=", cookie + "==", cookie + "!", cookie + "\n", *(cookie[:-1] + sign for sign in signs)]

    token_auth.revoke_cookie(cookie)

    assert not any(map(token_auth.check_cookie, [cookie, *spellings]))


def test_what_is_damaged_in_the_list_of_ended_cookies_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "http.revoked"
    token_auth = TokenAuth(TOKEN, file)
    ended, other = token_auth.issue_cookie(), token_auth.issue_cookie()
    token_auth.revoke_cookie(ended)
    file.write_bytes(b"\xff\xfe\n\nnot a time at all\n" + file.read_bytes() + b"half of a li")

    new = TokenAuth(TOKEN, file)
    assert (new.check_cookie(ended), new.check_cookie(other) is not None) == (None, True)
    new.revoke_cookie(other)
    assert TokenAuth(TOKEN, file).check_cookie(other) is None


def test_a_logout_at_another_server_is_seen_even_within_one_tick_of_the_clock(tmp_path: Path) -> None:
    file = tmp_path / "http.revoked"
    one, two = TokenAuth(TOKEN, file), TokenAuth(TOKEN, file)
    first, second = one.issue_cookie(), one.issue_cookie()
    one.revoke_cookie(first)
    tick = file.stat().st_mtime_ns
    assert two.check_cookie(first) is None
    one.revoke_cookie(second)
    os.utime(file, ns=(tick, tick))

    assert two.check_cookie(second) is None


def test_the_list_of_ended_cookies_drops_those_that_have_expired(tmp_path: Path) -> None:
    file = tmp_path / "http.revoked"
    token_auth = TokenAuth(TOKEN, file)
    token_auth.revoke_cookie(token_auth.issue_cookie())
    expired = f"{int(time.time()) - 1} 0123abcd"
    file.write_text(f"{expired}\n{file.read_text()}")

    token_auth.revoke_cookie(token_auth.issue_cookie())

    assert len(file.read_text().splitlines()) == 2
    assert expired not in file.read_text()
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_half_of_a_character_is_no_token(shared: WebServer) -> None:
    body = b'{"token": "\\ud800"}'

    assert ask(shared, "POST", "/login", body, token=None, Origin=shared.url)[0] == 401


def test_a_person_who_types_the_token_gets_the_cookie_and_a_lesser_token_does_not_do(shared: WebServer) -> None:
    lesser = TokenAuth(TOKEN).issue_token(read_only=True)

    status, headers, _ = ask(shared, "POST", "/login", {"token": TOKEN}, token=None, Origin=shared.url)
    assert status == 204
    assert headers["set-cookie"].startswith("memorist=")
    assert ask(shared, "POST", "/login", {"token": lesser}, token=None, Origin=shared.url)[0] == 401
    status, headers, _ = ask(shared, "POST", "/logout", token=None, Origin=shared.url)
    assert status == 204
    assert "Max-Age=0" in headers["set-cookie"]


def test_a_page_from_elsewhere_can_make_a_browser_do_nothing(path: Path) -> None:
    with web_server(path) as server:
        cookie = login(server).partition(";")[0]
        body = {"content": "written by a page"}
        own, port = server.url, server.address[1]

        def write(**headers: str) -> int:
            return ask(server, "POST", "/api/v1/memories", body, token=None, Cookie=cookie, **headers)[0]

        assert write(Origin=own) == 201
        assert write() == 403
        assert write(Origin="http://evil.example") == 403
        assert write(Origin="null") == 403
        assert write(Origin=f"http://127.0.0.1:{port + 1}") == 403
        assert write(Origin=f"http://localhost:{port}") == 403
        assert write(Origin=own, Content_Type="text/plain") == 415
        assert write(Origin=own, Sec_Fetch_Site="cross-site") == 403
        reading = ask(server, "GET", "/api/v1/export", token=None, Cookie=cookie, Sec_Fetch_Site="same-site")
        assert reading[0] == 403
        assert "access-control-allow-origin" not in ask(server, "GET", "/api/v1/stats")[1]
        assert ask(server, "OPTIONS", "/api/v1/memories", token=None, Origin="http://evil.example")[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "127.0.0.1@evil", "[::1"]
)
def test_a_foreign_host_is_refused_even_with_the_token(shared: WebServer, host: str) -> None:
    connection = http.client.HTTPConnection(*shared.address, timeout=MAX_WAIT_SECONDS)
    connection.putrequest("GET", "/api/v1/stats", skip_host=True)
    connection.putheader("Host", host)
    connection.putheader("Authorization", f"Bearer {TOKEN}")
    connection.endheaders()
    answer = connection.getresponse()

    assert answer.status in (400, 403)
    assert b"memories" not in answer.read()
    connection.close()


def test_loopback_names_are_known_with_any_port() -> None:
    names = HostNames.of(["127.0.0.1", "localhost", "[::1]"])

    assert all(map(names.knows_host, ("127.0.0.1", "127.0.0.1:8377", "LOCALHOST:1", "[::1]:8377", "[::1]")))
    assert not any(map(names.knows_host, ("evil", "127.0.0.1:80:80", "localhost.", "[::2]", "::1", "localhost:")))


def test_every_answer_keeps_browsers_careful(shared: WebServer) -> None:
    for path in ("/", "/api/v1/stats", "/api/v1/nothing", "/search", "/no.js", "/login?key=x"):
        headers = ask(shared, "GET", path)[1]
        assert headers["content-security-policy"].startswith("default-src 'self'; frame-ancestors 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_is_served_with_types_and_tags_and_its_views_are_the_page(shared: WebServer) -> None:
    status, headers, page = ask(shared, "GET", "/", token=None)
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert ask(shared, "GET", "/timeline", token=None)[2] == page
    assert ask(shared, "GET", "/memory/123", token=None)[2] == page
    assert ask(shared, "GET", "/", token=None, If_None_Match=headers["etag"])[0] == 304
    script = re.search(rb'src="(/?[^"]+\.js)"', page)
    if script:
        path = "/" + script[1].decode().lstrip("/")
        assert "javascript" in ask(shared, "GET", path, token=None)[1]["content-type"]
    assert ask(shared, "GET", "/no.js", token=None)[0] == 404
    assert ask(shared, "GET", "/..%2f..%2fapp.py", token=None)[0] == 404


# Setting it up


def run(*arguments: str, home: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "memorist", *arguments],
        capture_output=True, text=True, timeout=MAX_WAIT_SECONDS, check=False, cwd=home,
        env={"PATH": "", "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), **variables},
    )  # fmt: skip


def test_any_address_but_loopback_needs_a_token_and_names(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        refused = run("serve", "--host", host, home=tmp_path)
        assert refused.returncode == 1
        assert "MEMORIST_HTTP_TOKEN" in refused.stderr
    refused = run("serve", "--host", "0.0.0.0", home=tmp_path, MEMORIST_HTTP_TOKEN=TOKEN)
    assert refused.returncode == 1
    assert "--allow-host" in refused.stderr
    refused = run("serve", home=tmp_path, MEMORIST_HTTP_TOKEN="short")
    assert refused.returncode == 1
    assert "16 or more" in refused.stderr


def test_without_a_setting_the_token_is_a_file_of_the_users_own(path: Path, tmp_path: Path) -> None:
    printed = run("token", home=tmp_path)
    token = printed.stdout.strip()
    file = tmp_path / "state" / "memorist" / "http.key"

    assert printed.returncode == 0
    assert token.startswith("mt1.")
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with web_server(path, token=None, environ={"XDG_STATE_HOME": str(tmp_path / "state")}) as server:
        assert ask(server, "GET", "/api/v1/access", token=token)[0] == 200
        assert ask(server, "GET", "/api/v1/access", token=file.read_text())[0] == 200


def test_tokens_are_written_nowhere(path: Path) -> None:
    with web_server(path) as server:
        cookie = login(server).partition(";")[0]
        lesser = TokenAuth(TOKEN).issue_token(read_only=True)
        ask(server, "GET", "/api/v1/stats", token=lesser)
        ask(server, "GET", f"/api/v1/stats?token={TOKEN}")
        ask(server, "POST", "/login", {"token": "x" + TOKEN}, token=None, Origin=server.url)
        _, _, settings = ask(server, "GET", "/api/v1/settings")
    said = server.log.read_text().replace(server.page, "")

    for secret in (TOKEN, lesser, cookie.partition("=")[2], urlsplit(server.page).query):
        assert secret not in said
        assert secret.encode() not in settings


def test_guesses_wait_and_do_not_keep_others_waiting(shared: WebServer) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def guess(number: int) -> int:
        if number % 2:
            return ask(shared, "POST", "/login", {"token": f"guess-{number}"}, token=None, Origin=shared.url)[0]
        return ask(shared, "GET", "/api/v1/stats", token=f"guess-{number}")[0]

    with ThreadPoolExecutor(60) as pool:
        guesses = [pool.submit(guess, number) for number in range(120)]
        started = time.monotonic()
        assert ask(shared, "GET", "/api/v1/access")[0] == 200
        assert time.monotonic() - started < 60
        assert {guess.result() for guess in guesses[::2]} <= {401, 429}
        assert {guess.result() for guess in guesses[1::2]} == {401, 429}


def test_the_browser_is_not_told_the_key_on_its_command_line(path: Path, tmp_path: Path) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}.new\nmv {seen}.new {seen}\n')
    browser.chmod(0o755)
    with web_server(path, command="ui", environ={"BROWSER": str(browser)}) as server:
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while not seen.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        shown = seen.read_text().strip()
        file = Path(urlsplit(shown).path)
        assert "key=" not in shown
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert server.page in html.unescape(file.read_text())
        assert ask(server, "GET", "/api/v1/access")[0] == 200  # from now on it ends in order
    assert not file.exists()


def test_a_server_that_cannot_start_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        sockets[0].close()
        raise OSError("it cannot start")

    monkeypatch.setattr(uvicorn.Server, "run", fail)
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    handlers = list(logging.getLogger("memorist").handlers)
    options = ServeOptions(ListenAddress.parse("127.0.0.1:0"), TOKEN, tmp_path / "state", tmp_path, browser=True)

    with pytest.raises(OSError, match="cannot start"):
        serve(options, lambda *_: memorist.open(":memory:", embedder="none"), LoadedSettings(Settings(), {}))

    assert not list(tmp_path.glob("memorist-ui-*"))
    assert logging.getLogger("memorist").handlers == handlers
    said = capsys.readouterr().err
    assert "browser" in said
    assert re.search(r"http://127\.0\.0\.1:\d+/login\?key=\S+\n", said)


def test_what_goes_wrong_is_on_stderr(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(b"this is no database" * 1000)

    with web_server(path) as server:
        assert ask(server, "GET", "/api/v1/stats")[0] >= 500
    _problem_response(RuntimeError("unexpected"))

    assert "could not be searched" in server.log.read_text()
    assert caplog.records[-1].exc_info
    assert caplog.records[-1].name == "memorist.web.app"


def test_an_answer_in_two_packets_does_not_wait_for_the_client_to_confirm_the_first() -> None:
    with (
        ListenAddress("127.0.0.1", 0).listen() as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
