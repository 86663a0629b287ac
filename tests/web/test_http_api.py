"""The API: versions and conditions, keys of writes, pages, problems, events, and what a person reviews."""

import json
import math
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from test_http_access import ask

import memorist
from memorist import Memorist
from memorist.contract import Operation, Transport
from memorist.engine.feed import ChangeFeed
from memorist.evaluate import report
from memorist.evaluate.report import list_runs
from memorist.validation import quote
from memorist.views import Change, EvalResult, ReviewItem
from memorist.web.access import TokenAuth
from memorist.web.operations import OPERATIONS, ServerCalls
from memorist.web.remote import multipart
from timeouts import MAX_WAIT_SECONDS
from web_server import TOKEN, WebServer, web_server

OPERATION = {operation.name: operation for operation in OPERATIONS}


def call(server: WebServer, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
    status, received, raw = ask(server, method, f"/api/v1{path}", body, **headers)
    return status, json.loads(raw), received


# Versions


def test_a_change_of_what_was_changed_meanwhile_is_refused(server: WebServer, remote: Memorist) -> None:
    id = remote.add("one").id
    _, _, headers = call(server, "GET", f"/memories/{id}")
    seen = headers["etag"]

    assert call(server, "PATCH", f"/memories/{id}", {"content": "two"})[0] == 428
    status, changed, headers = call(server, "PATCH", f"/memories/{id}", {"content": "two"}, If_Match=seen)
    assert (status, changed["content"]) == (200, "two")
    assert headers["etag"] != seen
    status, problem, _ = call(server, "PATCH", f"/memories/{id}", {"content": "three"}, If_Match=seen)
    assert (status, problem["type"]) == (412, "urn:memorist:problem:changed-meanwhile")
    assert call(server, "DELETE", f"/memories/{id}", If_Match=seen)[0] == 412
    assert remote.get(id).content == "two"
    assert call(server, "DELETE", f"/memories/{id}", If_Match=f'"other", {headers["etag"]}')[0] == 200


def test_reading_does_not_change_the_version_and_every_statement_does(server: WebServer, remote: Memorist) -> None:
    id = remote.add("one", facts=["a fact that decays"]).id

    def version() -> str:
        return str(call(server, "GET", f"/memories/{id}")[2]["etag"])

    before = version()
    remote.search("one", record="log")
    assert version() == before
    seen = {before}
    for change in (
        lambda: remote.pin(id),
        lambda: remote.reinforce(id),
        lambda: remote.facts.add(id, "another"),
        lambda: remote.update(id, tags=["a"]),
        lambda: remote.supersede(id, remote.add("two").id),
    ):
        change()
        seen.add(version())
    assert len(seen) == 6


_CHANGED = {
    "content": "two", "project": "api", "sector": "procedural", "tier": "global", "kind": "decision", "tags": ["a"],
    "salience": 0.9, "source": "a talk", "title": "A title", "summary": "In short", "metadata": {"a": 1},
    "expires_at": "2099-01-01",
}  # fmt: skip


@pytest.mark.parametrize("field", sorted(set(OPERATION["update"].body or ()) - {"session"}))
def test_a_change_of_any_field_alone_changes_the_version(memory: Memorist, field: str) -> None:
    id = memory.add("one").id

    before = memory.get(id).version
    memory.update(id, **{field: _CHANGED[field]})
    after = memory.get(id).version

    assert before != after
    assert memory.get(id).version == after


def test_of_two_who_change_at_once_one_is_told(server: WebServer, remote: Memorist) -> None:
    id = remote.add("0").id
    seen = call(server, "GET", f"/memories/{id}")[2]["etag"]
    answers: list[int] = []

    def change(number: int) -> None:
        answers.append(call(server, "PATCH", f"/memories/{id}", {"content": f"by {number}"}, If_Match=seen)[0])

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == [200] + [412] * 7


# Keys of writes


def test_a_write_that_is_sent_again_is_done_once(server: WebServer, remote: Memorist) -> None:
    body = {"role": "user", "text": "the same words again"}

    first = call(server, "POST", "/conversations/talk/turns", body, Idempotency_Key="k1")
    again = call(server, "POST", "/conversations/talk/turns", body, Idempotency_Key="k1")
    other = call(server, "POST", "/conversations/talk/turns", body, Idempotency_Key="k2")

    assert first[:2] == again[:2]
    assert other[1]["id"] != first[1]["id"]
    assert remote.stats().memories == 2
    status, problem, _ = call(server, "POST", "/conversations/talk/turns", {**body, "text": "x"}, Idempotency_Key="k1")
    assert (status, problem["type"]) == (422, "urn:memorist:problem:idempotency-key-reused")
    assert call(server, "POST", "/memories", {"content": "x"}, Idempotency_Key="a" * 256)[0] == 400


def test_an_upload_is_done_once_and_its_errors_name_the_file_as_it_came(shared: WebServer) -> None:
    def upload(name: str, text: str, **headers: str) -> tuple[int, str]:
        kind, pieces = multipart(name, [text.encode()], [])
        status, _, raw = ask(shared, "POST", "/api/v1/import", b"".join(pieces), Content_Type=kind, **headers)
        return status, raw.decode()

    turns = '[{"role": "user", "content": "is it done once?"}]'
    first = upload("talk.json", turns, Idempotency_Key="an upload")
    assert first[0] == 200
    assert upload("talk.json", turns, Idempotency_Key="an upload") == first
    assert upload("talk.json", turns + " ", Idempotency_Key="an upload")[0] == 422
    status, said = upload("odd.json", '{"nothing": "known"}')
    assert (status, "odd.json" in said, "memorist-import" in said) == (422, True, False)


def test_a_write_that_failed_can_be_sent_again_with_its_key(server: WebServer, remote: Memorist) -> None:
    id = "11111111-2222-7333-8444-555555555555"

    assert call(server, "POST", f"/memories/{id}/pin", Idempotency_Key="k")[0] == 404
    remote.add("now it is there", id=id)
    assert call(server, "POST", f"/memories/{id}/pin", Idempotency_Key="k")[0] == 200


# Requests and problems


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"{", 400, "not JSON"),
        (b'{"query": NaN}', 400, "NaN"),
        (b'{"query": "\xff"}', 400, "not JSON"),
        (b"[" * 100_000, 400, "nested"),
        (b"[]", 422, "object"),
        ({}, 422, "query"),
        ({"query": 7}, 422, "query must be text"),
        ({"query": "x", "limit": 0}, 422, "limit must be from 1 to 1000"),
        ({"query": "x", "limit": 1e300}, 422, "limit"),
        ({"query": "x", "limit": True}, 422, "whole number"),
        ({"query": "x", "wrong": 1}, 422, "takes no argument 'wrong'"),
        ({"query": "x", "facets": ["wrong"]}, 422, "one of"),
        ({"query": "x", "since": "when pigs fly"}, 422, "since"),
        ({"query": "x", "options": {"wrong": 1}}, 422, "wrong"),
        ({"query": "x", "lens": "none"}, 404, "lens"),
    ],
)
def test_a_request_that_cannot_be_used_is_told_why(shared: WebServer, body: Any, status: int, says: str) -> None:
    got, problem, headers = call(shared, "POST", "/search", body)

    assert (got, problem["status"]) == (status, status)
    assert says in problem["detail"]
    assert headers["content-type"] == "application/problem+json"


def test_of_a_large_value_only_the_beginning_is_written_into_an_error(shared: WebServer) -> None:
    class Unwritable:
        def __repr__(self) -> str:
            raise AssertionError("all of it was written")

    assert quote([*range(1000), Unwritable()]).startswith("[0, 1, 2")
    assert quote("x" * 1000) == "'" + "x" * 59 + "…"
    status, problem, _ = call(shared, "POST", "/search", {"query": ["y" * 1000] * 1000})
    assert (status, len(problem["detail"]) < 200) == (422, True)


def test_a_filter_of_a_lens_may_not_repeat_an_argument(shared: WebServer) -> None:
    assert call(shared, "PUT", "/lenses/x", {"filters": {"profile": "precise"}})[0] == 422


def test_paths_methods_and_parameters_that_are_not_there(shared: WebServer) -> None:
    assert call(shared, "GET", "/nothing")[0] == 404
    status, _, headers = call(shared, "PUT", "/memories")
    assert status == 405
    assert set(headers["allow"].split(", ")) >= {"GET", "POST"}
    assert call(shared, "GET", "/memories?wrong=1")[0] == 422
    assert call(shared, "GET", "/memories?limit=x")[0] == 422
    assert call(shared, "GET", "/memories?limit=1&limit=2")[0] == 422
    assert call(shared, "GET", "/memories?pinned=perhaps")[0] == 422
    assert call(shared, "GET", "/memories?cursor=wrong")[0] == 422
    assert call(shared, "GET", "/recalls?cursor=wrong")[0] == 200
    assert call(shared, "GET", "/sessions/none/turns")[0] == 404


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """One server for the tests that change nothing."""
    with web_server(tmp_path_factory.mktemp("web") / "memory.db") as running:
        yield running


class _Recorder(Transport):
    """A transport that only notes what would be sent."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def call(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        self.called.add(f"{operation.method} {operation.path}")
        operation.write_arguments(arguments)
        raise ConnectionError

    def close(self) -> None: ...


def test_a_memory_on_a_server_hands_every_operation_to_its_transport() -> None:
    recorder = _Recorder()
    remote = Memorist(recorder)
    rooms = {"": remote, ServerCalls._name: ServerCalls(remote)}
    for operation in OPERATIONS:
        room = rooms[operation.room] if operation.room in rooms else getattr(remote, operation.room)
        with pytest.raises(ConnectionError):
            _call_with_ids(getattr(room, operation.attribute))

    assert recorder.called == {f"{operation.method} {operation.path}" for operation in OPERATIONS}
    for work in (remote.get, remote.add_many, lambda _: remote.check(), lambda _: remote.check(repair=True)):
        with pytest.raises(ConnectionError):
            work(["x"])


def test_what_only_the_machine_of_a_memory_can_do_is_refused_over_http() -> None:
    remote = Memorist(_Recorder())
    for method in (remote.documents.index, remote.documents.watch, remote.transfer.backup, remote.reembed):
        with pytest.raises(memorist.MemoristError, match="cannot be called over HTTP: it "):
            _call_with_ids(method)


def _call_with_ids(method: Callable[..., object]) -> object:
    """Call a method with "x" for every argument that it needs."""
    import inspect

    needed = [
        one
        for one in inspect.signature(method).parameters.values()
        if one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    ]
    named = {one.name: "x" for one in needed if one.kind is one.KEYWORD_ONLY}
    return method(*("x" for one in needed if one.kind is not one.KEYWORD_ONLY), **named)


# Looking around


def test_a_session_is_read_in_its_order_page_by_page(remote: Memorist) -> None:
    for number in range(5):
        remote.sessions.add_turn("user", f"turn {number}", conversation="talk")

    read, cursor = [], None
    while True:
        page = remote.sessions.turns("chat:talk", limit=2, cursor=cursor)
        read += [memory.content for memory in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert read == [f"turn {number}" for number in range(5)]


def test_sessions_and_recalls_are_paged_while_others_come(remote: Memorist) -> None:
    for number in range(4):
        remote.sessions.start(id=f"session {number}")
        remote.search(f"question {number}", record="log")
    remote.searches.list()

    sessions = remote.sessions.list(limit=2)
    recalls = remote.searches.list(limit=2)
    remote.sessions.start(id="session 4")
    remote.search("question 4", record="log")
    rest = remote.sessions.list(cursor=sessions.cursor)
    earlier = remote.searches.list(cursor=recalls.cursor)

    assert [one.id for one in (*sessions.sessions, *rest.sessions)] == [f"session {n}" for n in (3, 2, 1, 0)]
    assert [one.query for one in (*recalls.recalls, *earlier.recalls)] == [f"question {n}" for n in (3, 2, 1, 0)]


def test_a_document_is_read_in_its_lines(target: Path | str, tmp_path: Path) -> None:
    file = tmp_path / "guide.md"
    file.write_text("# Guide\n\n## One\n\nfirst words\n\n## Two\n\nsecond words\n")
    with memorist.open(target, embedder="none") as memory:
        memory.documents.index(file)
    with web_server(target) as server, memorist.connect(server.url, token=TOKEN) as remote:
        (document,) = remote.documents.list()
        chunks = remote.documents.chunks(document.id).chunks
        (hit,) = remote.documents.search("second")

        assert remote.documents.get(document.id).path == str(file)
        assert [chunk.start_line for chunk in chunks] == sorted(chunk.start_line for chunk in chunks)
        assert isinstance(hit, memorist.DocumentHit)
        assert hit.memory.id in {chunk.id for chunk in chunks}
        assert remote.documents.find(file).id == document.id
        assert remote.documents.remove(file) == 1


def test_the_surroundings_of_a_memory_are_two_links_wide(remote: Memorist) -> None:
    a, b, c, d = remote.add_many(["alpha", "beta", "gamma", "delta"])
    for first, second in ((a, b), (b, c), (c, d)):
        remote.links.add(first, second, "next")
    old = remote.add("alpha before").id
    remote.supersede(old, a)

    graph = remote.review.graph(a)

    assert {memory.id for memory in graph.memories} == {a, b, c, old}
    stated = {(edge.source, edge.target, edge.kind) for edge in graph.edges if edge.kind != "similar"}
    assert stated >= {(a, b, "next"), (b, c, "next"), (a, old, "supersedes")}
    assert {memory.id for memory in remote.review.graph(a, hops=1).memories} == {a, b, old}


def test_growth_counts_days(remote: Memorist) -> None:
    remote.add_many([{"content": f"m{n}", "created_at": datetime(2026, 3, 1, tzinfo=UTC)} for n in range(3)])
    remote.search("m1", record="log")
    remote.searches.list()

    days = {day.day: day for day in remote.review.growth(since="2026-01-01").days}

    assert days["2026-03-01"].created == 3
    today = datetime.now(UTC).date().isoformat()
    assert (days[today].recorded, days[today].recalls) == (3, 1)


@pytest.mark.parametrize("kind", ["duplicates", "contradictions", "secrets"])
def test_pages_of_a_review_that_time_cuts_short_hold_what_one_page_holds(memory: Memorist, kind: str) -> None:
    for number in range(3):
        memory.add(
            f"The nightly backup of database {number} runs on server atlas, password=hunter2!x9",
            on_near_duplicate="off",
        )
        memory.add(
            f"Nightly, the backup of database {number} runs on server atlas, password=hunter2!x9",
            on_near_duplicate="off",
        )

    memory.review.seconds = math.inf
    whole = memory.review.list(kind)
    memory.review.seconds, cursor, pages = 0, None, 0
    items: list[ReviewItem] = []
    while pages == 0 or cursor is not None:
        page = memory.review.list(kind, cursor=cursor)
        assert page.looked_at == 1
        items, cursor, pages = [*items, *page.items], page.cursor, pages + 1

    assert (whole.looked_at, whole.cursor, pages) == (6, None, 6)
    assert [item.memories for item in items] == [item.memories for item in whole.items] != []


def test_what_is_worth_a_look_is_found_and_every_act_is_undone(remote: Memorist) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=400)
    first = remote.add(
        "The nightly backup of the billing database runs at 02:00 on server atlas", on_near_duplicate="off"
    ).id
    second = remote.add(
        "The nightly backup of the billing database runs at 04:00 on server atlas", on_near_duplicate="off"
    ).id
    same = remote.add(
        "Nightly, the backup of the billing database runs at 04:00 on server atlas", on_near_duplicate="off"
    ).id
    secret = remote.add(
        "The key is AKIAIOSFODNN7EXAMQLE and aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYzzzz"
    ).id
    stale = remote.add("Anna owns billing", facts=["Anna owns billing"], created_at=long_ago).id

    def pairs(kind: str) -> set[frozenset[str]]:
        return {frozenset(memory.id for memory in item.memories) for item in remote.review.list(kind).items}

    assert frozenset({first, second}) in pairs("contradictions")
    assert pairs("duplicates") == {frozenset({second, same})}
    (contradiction, *_) = remote.review.list("contradictions").items
    assert any("02:00" in reason for reason in contradiction.reasons)
    (found,) = remote.review.list("secrets").items
    assert found.memories[0].id == secret
    assert not any("wJalr" in reason for reason in found.reasons)
    (faded,) = remote.review.list("stale_facts").items
    assert (faded.memories[0].id, faded.fact is not None and faded.fact.effective < 0.5) == (stale, True)
    assert remote.review.list("stale_facts", project="another").items == ()
    assert {item.memories[0].id for item in remote.review.list("never_recalled").items} == {stale}

    remote.review.merge(second, [same])
    assert pairs("duplicates") == set()
    remote.unsupersede(same)
    assert pairs("duplicates") == {frozenset({second, same})}
    remote.links.add(second, first, "distinct")
    assert frozenset({first, second}) not in pairs("contradictions")
    remote.links.remove(second, first, "distinct")
    assert frozenset({first, second}) in pairs("contradictions")


def test_a_file_that_is_no_run_keeps_nobody_from_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()

    def save(name: str, mean: float, **more: str) -> None:
        measures = {"ndcg@10": {"mean": mean, "low": 0.6, "high": 0.8}}
        sets = [{"name": "notes", "ways": [{"name": "balanced", "measures": measures}]}]
        (folder / name).write_text(json.dumps({"memorist_eval": 1, "version": "1.0", "sets": sets, **more}))

    save("good.json", 0.7)
    save("no number.json", math.nan)
    save("large.json", 0.7, more="x" * 5000)
    (folder / "gone.json").symlink_to(folder / "nothing")
    (folder / "folder.json").mkdir()
    monkeypatch.setattr(report, "_MAX_RUN_BYTES", 1000)

    runs = list_runs(tmp_path)
    assert {run.name: len(run.results) for run in runs} == {"good": 1, "no number": 0}
    save("good.json", 0.65)
    assert next(run for run in list_runs(tmp_path) if run.name == "good").results[0].mean == 0.65


def test_saved_runs_of_an_evaluation_are_listed(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "memorist" / "runs"
    folder.mkdir(parents=True)
    measures = {"ndcg@10": {"mean": 0.7, "low": 0.6, "high": 0.8}}
    sets = [{"name": "notes", "ways": [{"name": "balanced", "measures": measures}]}]
    (folder / "first.json").write_text(json.dumps({"memorist_eval": 1, "version": "1.0", "sets": sets}))
    (folder / "other.json").write_text("{}")
    (folder / "broken.json").write_text('{"memorist_eval": 1, "sets": [3]}')

    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    with web_server(path, environ=environ) as server, memorist.connect(server.url, token=TOKEN) as remote:
        (run,) = ServerCalls(remote).eval_runs()

    assert (run.name, run.version, run.measure) == ("first", "1.0", "ndcg@10")
    assert run.results == (EvalResult("notes", "balanced", 0.7, 0.6, 0.8),)


def test_a_path_is_looked_up_as_it_is_written_and_tells_nothing_of_the_servers_files(path: Path) -> None:
    folder = path.with_name("notes")
    folder.mkdir()
    file, link = folder / "plan.md", path.with_name("link")
    file.write_text("# The plan\n\nPlan the launch.")
    link.symlink_to(folder)
    with memorist.open(path, embedder="none") as memory:
        memory.documents.index(folder)
    with web_server(path) as server, memorist.connect(server.url, token=TOKEN) as remote:
        for named in (
            "~root/x",
            "~",
            str(link),
            str(link / "plan.md"),
            "/proc/self",
            ".",
            f"{folder}/../notes/plan.md",
        ):
            for method in ("GET", "DELETE"):
                status, answer, _ = call(server, method, f"/document?{urlencode({'path': named})}")

                told = (404, f"{named} is not indexed") if method == "GET" else (200, 0)
                found = answer["detail"].partition(";")[0] if method == "GET" else answer["count"]
                assert (status, found) == told, (method, named)
        assert remote.documents.find(file).path == str(file)
        link.unlink()
        file.unlink()
        file.symlink_to(path)  # what is stored is told of, whatever stands there by now
        (document,) = remote.documents.list()
        assert remote.documents.get(document.id).path == remote.documents.find(file).path == str(file)
        assert remote.documents.remove(f"{folder}/") == 1


# Events


@pytest.mark.parametrize("place", ["documents/%00", "documents/%00/chunks", "documents/%ED%A0%80/chunks"])
def test_an_id_that_no_database_can_store_is_of_no_document(server: WebServer, place: str) -> None:
    assert ask(server, "GET", f"/api/v1/{place}")[0] == 404


def test_a_stream_that_cannot_begin_is_answered_as_a_problem(shared: WebServer) -> None:
    status, problem, _ = call(shared, "GET", "/events", Memorist_Namespace="x" * 1000)

    assert (status, problem["status"]) == (422, 422)


def test_a_position_tells_nothing_of_other_namespaces(target: Path | str, memory: Memorist) -> None:
    memory.add("ours")
    feed = ChangeFeed(memory._resources.store)
    before = feed.read_position()
    with memorist.open(target, embedder="none", namespace="other") as other:
        other.add("theirs", facts=["a fact"])
        other.search("theirs", record="reinforce")
        other.sessions.start()

    assert feed.read_position() == before
    added = memory.add("ours as well")
    assert feed.changes_since(before).new == {"memories": (added.id,)}


def test_listeners_are_told_of_their_own_namespace_alone(path: Path) -> None:
    with (
        web_server(path) as server,
        memorist.connect(server.url, token=TOKEN) as own,
        memorist.connect(server.url, token=TOKEN, namespace="other") as other,
    ):
        kept = own.add("ours")
        theirs = other.add("theirs", facts=["a fact"])
        listener = Listener(own)
        other.update(theirs.id, title="changed")
        other.search("theirs", record="log")
        other.forget(other.add("more").id, hard=True)
        other.sessions.start()
        own.update(kept.id, title="changed")  # an edit is an event with nothing in it

        first = listener.wait_for_any()

        assert first.new == {}
        assert first.position == listener.hello.position
        assert re.fullmatch(r"[\w-]{200,}", first.position)
        added = own.add("ours, too")
        assert listener.wait_for("memories", added.id).position != first.position
        missed = next(own.changes(first.position))
        assert missed.new == {"memories": (added.id,)}
        # It is of no use elsewhere, and so is one that was changed.
        for remote, position in ((other, first.position), (own, first.position[::-1]), (own, "1-0-0-0-0-0-0-0")):
            assert next(remote.changes(position)).new == {}


@pytest.mark.parametrize("rights", [{}, {"read_only": True}, {"namespace": "default"}])
def test_a_token_for_less_is_not_told_where_the_database_is_and_how_large(path: Path, rights: dict[str, Any]) -> None:
    with web_server(path) as server:
        with memorist.connect(server.url, token=TOKEN) as everything:
            everything.add("x")
            assert everything.stats().path == str(path)
        with memorist.connect(server.url, token=TokenAuth(TOKEN).issue_token(**rights)) as remote:
            stats = remote.stats()
            assert (stats.path, stats.size_bytes, stats.memories) == (None, None, 1)
            assert str(path.parent) not in repr((stats, remote.check()))


def test_a_purge_by_a_token_of_one_namespace_leaves_the_copies_of_the_whole_file(path: Path) -> None:
    copy = path.with_name(f"{path.name}.before-restore")
    with web_server(path) as server:
        for token, stays in ((TokenAuth(TOKEN).issue_token(namespace="team"), True), (TOKEN, False)):
            copy.write_text("of every namespace")
            with memorist.connect(server.url, token=token) as remote:
                remote.forget(remote.add(f"gone, stays: {stays}").id)
                assert remote.purge() == 1
            assert copy.exists() == stays


class Listener:
    """Changes as they arrive, read by a thread."""

    def __init__(self, remote: Memorist, position: str | None = None) -> None:
        self._changes = remote.changes(position)
        self.hello = next(self._changes)
        self._queue: queue.Queue[Change] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for change in self._changes:
                self._queue.put(change)
        except (memorist.MemoristError, ValueError, OSError):
            return

    def wait_for_any(self) -> Change:
        return self._queue.get(timeout=60)

    def wait_for(self, kind: str, id: str) -> Change:
        """Return the change that tells of an id; whatever else comes is passed over."""
        while True:
            change = self._queue.get(timeout=MAX_WAIT_SECONDS)
            if id in change.new.get(kind, ()):
                return change

    def wait(self) -> Change:
        return self._queue.get(timeout=MAX_WAIT_SECONDS)


def test_what_other_processes_write_and_recall_is_told(target: Path | str, server: WebServer, remote: Memorist) -> None:
    listener = Listener(remote)

    code = (
        "import sys, memorist\n"
        "with memorist.open(sys.argv[1], embedder='none') as memory:\n"
        "    print(memory.add('written elsewhere').id)\n"
        "    memory.search('elsewhere', record='log')\n"
        "    print(memory.searches.list()[0].id)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True, text=True, check=True)
    id, recall = done.stdout.split()

    assert listener.wait_for("memories", id)
    assert recall in {one.id for one in remote.searches.list()}


def test_an_edit_by_another_is_told_even_though_it_has_no_log(remote: Memorist, memory: Memorist) -> None:
    id = memory.add("one").id
    listener = Listener(remote)

    memory.update(id, metadata={"a": 1})

    assert listener.wait() is not None


def test_whoever_was_away_is_told_what_came_meanwhile_even_by_a_new_server(target: Path | str) -> None:
    with web_server(target) as server, memorist.connect(server.url, token=TOKEN) as remote:
        with closing(remote.changes()) as changes:
            seen = next(changes).position
        added = remote.add("meanwhile").id
    with web_server(target) as server, memorist.connect(server.url, token=TOKEN) as remote:
        with closing(remote.changes(seen)) as changes:
            assert added in next(changes).new["memories"]
        with closing(remote.changes("not-a-position-1")) as changes:
            assert next(changes).new == {}
