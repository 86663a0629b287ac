"""`memorist.connect`: the interface of `memorist.open`, over HTTP, on both databases."""

import inspect
import io
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import memorist
from memorist.errors import AlreadyExists, Ambiguous, ConfigError, InvalidInput, MemoristError, NotFound, StoreError
from memorist.web.client import Remote
from web_server import TOKEN, WebServer

PINNED = Path(__file__).parents[1] / "data" / "interface.txt"


def parameters(function: object) -> inspect.Signature:
    bare = [one.replace(annotation=one.empty) for one in inspect.signature(function).parameters.values()]  # type: ignore[arg-type]
    return inspect.Signature(bare)


def test_it_has_every_method_of_a_memory_with_the_same_parameters() -> None:
    lines = [line for line in PINNED.read_text("utf-8").splitlines() if not line.startswith("open(")]
    members = {name: getattr(Remote, name) for name in dir(Remote) if not name.startswith("_")}
    offered = [
        f"{name}{parameters(member)}" if inspect.isfunction(member) else f"{name}: property"
        for name, member in sorted(members.items())
        if name != "views"
    ]

    assert offered == lines


def test_a_memory_lives_through_it_as_through_the_library(remote: Remote, server: WebServer) -> None:
    added = remote.add(
        "We deploy with `make ship` from the release branch", project="api", tags=["deploy"], kind="howto",
        metadata={"who": "anna"}, facts=["deploys need a green build", {"text": "ship is a target", "kind": "kv"}],
        created_at=datetime(2026, 3, 4, 5, 6, tzinfo=UTC),
    )  # fmt: skip
    ids = remote.add_many(
        ["The staging cluster is rebuilt every night", {"content": "Anna likes tea", "tags": ["people"]}]
    )

    assert isinstance(added, memorist.Memory)
    assert added.created_at == datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
    assert added.tags == ("deploy",)
    assert added.metadata == {"who": "anna"}
    assert [fact.text for fact in added.facts] == ["deploys need a green build", "ship is a target"]
    assert replace(remote.get(added.id), facts=()) == replace(added, facts=())
    assert [memory.id for memory in remote.get([*ids, "0" * 36])] == ids
    assert remote.get(["0" * 36]).missing == ("0" * 36,)

    hits = remote.search("how to ship", project="api", facets=["project"], explain=True, min_relevance=0)
    assert [hit.memory.id for hit in hits] == [added.id]
    assert isinstance(hits, memorist.Results)
    assert isinstance(hits[0], memorist.Hit)
    assert hits.facets == {"project": {"api": 1}}
    assert hits.plan is not None
    assert abs(sum(hits[0].trace.values()) - hits[0].score) < 1e-6
    assert remote.facets(fields=["tag"]) == {"tag": {"deploy": 1, "people": 1}}
    assert remote.suggest("stagign") == "staging"

    changed = remote.update(added.id, content="We deploy with `make release`", title="Deploying", kind=None)
    assert (changed.title, changed.kind) == ("Deploying", None)
    assert [version.content for version in remote.history(added.id)] == [added.content]
    assert remote.get(added.id, as_of=datetime.now(UTC) - timedelta(days=30)).content == added.content

    remote.forget(ids[1])
    with pytest.raises(NotFound, match="restore"):
        remote.get(ids[1])
    assert [memory.id for memory in remote.list(deleted=True)] == [ids[1]]
    assert remote.restore(ids[1]).content == "Anna likes tea"
    remote.forget(ids[1], hard=True)
    assert remote.purge() == 0
    assert remote.stats().memories == 2
    assert remote.recalls_lost == 0
    assert remote.check().ok


ODD_IDS = ["docs/a b", "a%2Fb", "%", "?q=1#x", "日本:é", "..", "/", "a/pin", "\\", "x" * 512]


def test_an_id_of_any_characters_names_a_memory_in_every_call(remote: Remote) -> None:
    other = remote.add("TLS ends at the proxy").id
    for id in ODD_IDS:
        remote.add(f"The port of {id[:20]} is 80", id=id)
    session = remote.start_session(id="talks/one?").id

    assert remote.session(session).id == session
    assert remote.get(ODD_IDS).missing == ()
    for id in ODD_IDS:
        assert remote.get(id).id == id
        assert remote.update(id, title="Port").id == id
        assert len(remote.history(id)) == 1
        assert remote.pin(id).pinned
        assert remote.relate(id, other, "next to").source == id
        assert remote.supersede(id, other).superseded_by is not None
        assert remote.unsupersede(id).superseded_by is None
        remote.forget(id)
        assert remote.restore(id).id == id


def test_an_id_that_is_taken_is_replaced_refused_or_kept(remote: Remote) -> None:
    remote.add("The port is 80", id="port", metadata={"n": 1})

    assert remote.add("The port is 443", id="port").content == "The port is 443"
    assert remote.add("The port is 8080", id="port", if_exists="keep").content == "The port is 443"
    with pytest.raises(AlreadyExists, match="port"):
        remote.add("The port is 8080", id="port", if_exists="error")
    with pytest.raises(InvalidInput, match="if_exists"):
        remote.add("The port is 8080", id="port", if_exists="maybe")
    assert remote.add_many([{"content": "The port is 22", "id": "port", "if_exists": "keep"}]) == ["port"]
    assert [version.content for version in remote.history("port")] == ["The port is 80"]


def test_a_memory_that_has_expired_is_found_no_more(remote: Remote) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    kept = remote.add("The token lasts", expires_at=later)
    gone = remote.add("The token is gone", expires_at=datetime(2020, 1, 1, tzinfo=UTC))

    assert remote.get(kept.id).expires_at == later
    assert remote.update(kept.id, expires_at=None).expires_at is None
    assert remote.get([gone.id]).missing == (gone.id,)
    assert [memory.id for memory in remote.list()] == [kept.id]


def test_filters_by_metadata_counts_and_pages_of_hits(remote: Remote) -> None:
    for number in range(6):
        remote.add(
            f"harbour note {number}",
            kind="note",
            metadata={"n": number, "who": {"name": "anna" if number % 2 else "bob"}},
        )
    many = {"n": {"$gte": 2}, "$or": [{"who.name": "anna"}, {"n": {"$in": [2]}}]}

    assert [memory.metadata["n"] for memory in remote.list(metadata=many)] == [5, 3, 2]
    assert {hit.memory.metadata["n"] for hit in remote.search("harbour", metadata=many)} == {2, 3, 5}
    assert remote.facets(fields=["kind"], metadata=many) == {"kind": {"note": 3}}
    assert "harbour note 4" not in remote.context("harbour", metadata=many, min_relevance=0)
    assert remote.duplicates(metadata={"n": {"$gt": 100}}) == []
    assert (remote.count(), remote.count(metadata=many), remote.count(kind="other")) == (6, 3, 0)
    pages = [[hit.memory.id for hit in remote.search("harbour", limit=2, offset=at)] for at in (0, 2, 4, 6)]
    assert [len(page) for page in pages] == [2, 2, 2, 0]
    assert len({id for page in pages for id in page}) == 6
    for call in (remote.list, remote.count, remote.forget_many):
        with pytest.raises(InvalidInput, match=r"\$near"):
            call(metadata={"n": {"$near": 1}})


def test_many_are_forgotten_by_a_filter_and_never_without_one(remote: Remote) -> None:
    for number in range(5):
        remote.add(f"note {number}", project="notes", metadata={"n": number})

    with pytest.raises(InvalidInput, match="filter"):
        remote.forget_many()
    with pytest.raises(InvalidInput, match="as_of"):
        remote.forget_many(project="notes", as_of="2026-01-01")
    assert remote.forget_many(metadata={"n": {"$lt": 2}}) == 2
    assert (remote.count(), remote.count(deleted=True)) == (3, 2)
    assert remote.forget_many(project="notes", hard=True) == 3
    assert (remote.count(), remote.count(deleted=True)) == (0, 2)


def test_statements_about_memories(remote: Remote) -> None:
    old, new, other = remote.add_many(["The port is 80", "The port is 443", "TLS ends at the proxy"])

    assert remote.supersede(old, new).superseded_by is not None
    assert [memory.id for memory in remote.replaced(new)] == [old]
    assert remote.unsupersede(old).superseded_by is None
    relation = remote.relate(new, other, "because", confidence=0.5, said_by="anna")
    assert (relation.kind, relation.confidence) == ("because", 0.5)
    assert remote.related(new)[0].relation == relation
    remote.unrelate(new, other, "because")
    fact = remote.add_fact(new, "TLS is on", kind="kv", confidence=0.5)
    assert remote.reinforce_fact(fact.id).confidence > 0.5
    assert remote.remove_fact(fact.id).text == "TLS is on"
    assert remote.reinforce(new).salience > 0.5 > remote.deemphasize(other).salience
    assert remote.pin(new).pinned
    assert not remote.unpin(new).pinned
    assert remote.merge(new, [old]).id == new
    assert remote.feedback(new, True, query="which port?").good
    assert [one.memory for one in remote.feedbacks()] == [new]


def test_sessions_recalls_and_context(remote: Remote) -> None:
    session = remote.start_session("api", summary="a talk")
    memory = remote.add("We chose PostgreSQL since reporting needs joins", session=session.id, project="api")
    for number in range(3):
        remote.add_turn("user", f"question {number} about joins", conversation="talk", project="api")
    remote.search("joins", record="log", record_session=session.id)

    assert remote.session(session.id).memories >= 1
    assert {one.id for one in remote.sessions()} == {session.id, "chat:talk"}
    assert remote.session_context(memory.id) is not None
    assert [recall.query for recall in remote.recalls(memory=memory.id)] == ["joins"]
    assert remote.end_session(session.id, "done").ended_at is not None
    assert remote.summarise_session(session.id, None).summary is None
    assert "PostgreSQL" in remote.context("why did we choose it: joins?", project="api", min_relevance=0)
    assert "PostgreSQL" in remote.briefing()
    assert remote.clear_recalls() == 1
    assert [memory.id for memory in remote.timeline(project="api")] == [
        memory.id, *(turn.id for turn in remote.views.turns("chat:talk")),
    ]  # fmt: skip


def test_lenses_and_files(remote: Remote) -> None:
    lens = remote.set_lens("work", project="api", boosts={"tag": {"decision": 1.5}}, profile="notes")
    assert remote.lenses() == [lens]
    assert remote.lens("work") == lens
    remote.remove_lens("work")
    with pytest.raises(NotFound):
        remote.lens("work")

    file = remote.create_file("/notes/today.md", "one")
    assert file.text == "one"
    assert remote.edit_file("/notes/today.md", lambda text: text + " two").text == "one two"
    assert remote.move_files("/notes", "/old") == 1
    assert [file.path for file in remote.files()] == ["/old/today.md"]
    assert remote.forget_files("/old") == 1


def test_an_edit_of_a_file_that_somebody_else_changed_is_made_again(remote: Remote, memory: memorist.Memorist) -> None:
    remote.create_file("/list", "a")
    seen: list[str] = []

    def change(text: str) -> str:
        seen.append(text)
        if len(seen) == 1:
            memory.edit_file("/list", lambda text: text + "b")
        return text + "c"

    assert remote.edit_file("/list", change).text == "abc"
    assert seen == ["a", "ab"]


def test_an_export_that_is_imported_again_is_the_same(remote: Remote, tmp_path: Path) -> None:
    remote.add_many([f"memory {number}" for number in range(50)])
    remote.relate(*[memory.id for memory in remote.list(limit=2)], "next to")

    count = remote.export(tmp_path / "all.jsonl")
    exported = (tmp_path / "all.jsonl").read_bytes()
    with memorist.open(tmp_path / "copy.db", embedder="none") as copy:
        assert copy.import_(tmp_path / "all.jsonl").added == 50
        again = io.BytesIO()
        assert copy.export(again) == count
    assert again.getvalue() == exported
    report = remote.import_(tmp_path / "all.jsonl")
    assert (report.format, report.added, report.known) == ("memorist", 0, 50)


def test_conversations_are_imported_by_uploading_them(remote: Remote, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    file.write_text(
        '[{"role": "user", "content": "where is the key?"}, {"role": "assistant", "content": "under the mat"}]'
    )

    report = remote.import_conversations(file, project="home")

    assert (report.added, report.sessions) == (2, 1)
    (session,) = remote.sessions()
    page = remote.views.turns(session.id, limit=1)
    rest = remote.views.turns(session.id, cursor=page.cursor)
    assert [memory.content for memory in [*page, *rest]] == ["where is the key?", "under the mat"]
    with pytest.raises(MemoristError, match="folder"):
        remote.import_(tmp_path)
    with pytest.raises(InvalidInput, match="format"):
        remote.import_(io.BytesIO(b"nothing"), format="wrong")


def test_long_lists_come_page_by_page_behind_the_curtain(remote: Remote) -> None:
    ids = remote.add_many(f"memory {number}" for number in range(1100))

    assert len(remote.list(limit=1050)) == 1050
    assert remote.list(limit=1050).cursor is not None
    assert {memory.id for memory in remote.list(limit=5000)} == set(ids)
    assert len(remote.get(ids)) == 1100


def test_errors_are_those_of_the_library(remote: Remote, server: WebServer) -> None:
    first, second = (
        remote.add("one", id="11111111-2222-7333-8444-5555aa999999"),
        remote.add("two", id="11111111-2222-7333-8444-5555bb999999"),
    )

    with pytest.raises(NotFound):
        remote.get("ffffff")
    with pytest.raises(Ambiguous, match=first.id):
        remote.get("999999")
    with pytest.raises(InvalidInput, match="limit"):
        remote.search("x", limit=0)
    with pytest.raises(InvalidInput, match="alpha"):
        remote.search("x", alpha=7)
    with pytest.raises(InvalidInput, match="project"):
        remote.add("x", project=7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        remote.relate(first.id, second.id, "supersedes")
    with pytest.raises(ConfigError, match="token"):
        memorist.connect(server.url, token="wrong").stats()
    with pytest.raises(ConfigError, match="token"):
        memorist.connect(server.url).stats()
    with pytest.raises(StoreError, match="serve"):
        memorist.connect("http://127.0.0.1:1", token=TOKEN).stats()
    with pytest.raises(InvalidInput, match="address"):
        memorist.connect("127.0.0.1:8377", token=TOKEN)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 301 Moved\r\nLocation: https://elsewhere.example/\r\nContent-Length: 0\r\n\r\n", "elsewhere"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "no answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "not JSON"),
        (b"something else entirely\r\n\r\n", "no answer"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error_of_the_library(answer: bytes, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with memorist.connect(url, token=TOKEN) as remote, pytest.raises(MemoristError, match=says):
            remote.stats()


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="port"):
        memorist.connect("http://127.0.0.1:99999", token=TOKEN)


@pytest.mark.parametrize("name", ["index", "watch", "backup", "reembed", "discover"])
def test_what_only_the_servers_machine_can_do_says_so_by_name(name: str) -> None:
    remote = memorist.connect("http://127.0.0.1:1", token=TOKEN)

    with pytest.raises(MemoristError, match=f"^{name} cannot be called over HTTP.*`memorist"):
        getattr(remote, name)(*([] if name in ("reembed", "discover") else ["x"]))
