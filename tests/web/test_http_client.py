"""`memorist.connect`: the interface of `memorist.open`, over HTTP, on both databases."""

import io
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import memorist
from memorist import Memorist
from memorist.errors import (
    AlreadyExists,
    Ambiguous,
    ChangedMeanwhile,
    ConfigError,
    InvalidInput,
    MemoristError,
    NotFound,
    StoreError,
)
from web_server import TOKEN, WebServer


def test_it_is_the_same_class(remote: Memorist) -> None:
    assert type(remote) is Memorist


def test_a_memory_lives_through_it_as_through_the_library(remote: Memorist, server: WebServer) -> None:
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
    assert remote.stats().recalls_lost == 0
    assert remote.check().ok


ODD_IDS = ["docs/a b", "a%2Fb", "%", "?q=1#x", "日本:é", "..", "/", "a/pin", "\\", "x" * 512]


def test_an_id_of_any_characters_names_a_memory_in_every_call(remote: Memorist) -> None:
    other = remote.add("TLS ends at the proxy").id
    for id in ODD_IDS:
        remote.add(f"The port of {id[:20]} is 80", id=id)
    session = remote.sessions.start(id="talks/one?").id

    assert remote.sessions.get(session).id == session
    assert remote.get(ODD_IDS).missing == ()
    for id in ODD_IDS:
        assert remote.get(id).id == id
        assert remote.update(id, title="Port").id == id
        assert len(remote.history(id)) == 1
        assert remote.pin(id).pinned
        assert remote.links.add(id, other, "next to").source == id
        assert remote.supersede(id, other).superseded_by is not None
        assert remote.unsupersede(id).superseded_by is None
        remote.forget(id)
        assert remote.restore(id).id == id


def test_an_id_that_is_taken_is_replaced_refused_or_kept(remote: Memorist) -> None:
    remote.add("The port is 80", id="port", metadata={"n": 1})

    assert remote.add("The port is 443", id="port").content == "The port is 443"
    assert remote.add("The port is 8080", id="port", if_exists="keep").content == "The port is 443"
    with pytest.raises(AlreadyExists, match="port"):
        remote.add("The port is 8080", id="port", if_exists="error")
    with pytest.raises(InvalidInput, match="if_exists"):
        remote.add("The port is 8080", id="port", if_exists="maybe")
    assert remote.add_many([{"content": "The port is 22", "id": "port", "if_exists": "keep"}]) == ["port"]
    assert [version.content for version in remote.history("port")] == ["The port is 80"]


def test_a_memory_that_has_expired_is_found_no_more(remote: Memorist) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    kept = remote.add("The token lasts", expires_at=later)
    gone = remote.add("The token is gone", expires_at=datetime(2020, 1, 1, tzinfo=UTC))

    assert remote.get(kept.id).expires_at == later
    assert remote.update(kept.id, expires_at=None).expires_at is None
    assert remote.get([gone.id]).missing == (gone.id,)
    assert [memory.id for memory in remote.list()] == [kept.id]


def test_filters_by_metadata_counts_and_pages_of_hits(remote: Memorist) -> None:
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
    assert remote.review.duplicates(metadata={"n": {"$gt": 100}}) == []
    assert (remote.count(), remote.count(metadata=many), remote.count(kind="other")) == (6, 3, 0)
    pages = [[hit.memory.id for hit in remote.search("harbour", limit=2, offset=at)] for at in (0, 2, 4, 6)]
    assert [len(page) for page in pages] == [2, 2, 2, 0]
    assert len({id for page in pages for id in page}) == 6
    for call in (remote.list, remote.count, remote.forget_many):
        with pytest.raises(InvalidInput, match=r"\$near"):
            call(metadata={"n": {"$near": 1}})


def test_many_are_forgotten_by_a_filter_and_never_without_one(remote: Memorist) -> None:
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


def test_statements_about_memories(remote: Memorist) -> None:
    old, new, other = remote.add_many(["The port is 80", "The port is 443", "TLS ends at the proxy"])

    assert remote.supersede(old, new).superseded_by is not None
    assert [memory.id for memory in remote.links.replaced(new)] == [old]
    assert remote.unsupersede(old).superseded_by is None
    relation = remote.links.add(new, other, "because", confidence=0.5, said_by="anna")
    assert (relation.kind, relation.confidence) == ("because", 0.5)
    assert remote.related(new)[0].relation == relation
    remote.links.remove(new, other, "because")
    fact = remote.facts.add(new, "TLS is on", kind="kv", confidence=0.5)
    assert remote.facts.reinforce(fact.id).confidence > 0.5
    assert remote.facts.remove(fact.id).text == "TLS is on"
    assert remote.reinforce(new).salience > 0.5 > remote.deemphasize(other).salience
    assert remote.pin(new).pinned
    assert not remote.unpin(new).pinned
    assert remote.review.merge(new, [old]).id == new
    assert remote.searches.add_feedback(new, True, query="which port?").good
    assert [one.memory for one in remote.searches.list_feedback()] == [new]


def test_sessions_recalls_and_context(remote: Memorist) -> None:
    session = remote.sessions.start("api", summary="a talk")
    memory = remote.add("We chose PostgreSQL since reporting needs joins", session=session.id, project="api")
    for number in range(3):
        remote.sessions.add_turn("user", f"question {number} about joins", conversation="talk", project="api")
    remote.search("joins", record="log", record_session=session.id)

    assert remote.sessions.get(session.id).memories >= 1
    assert {one.id for one in remote.sessions.list()} == {session.id, "chat:talk"}
    assert remote.sessions.context_of(memory.id) is not None
    assert [recall.query for recall in remote.searches.list(memory=memory.id)] == ["joins"]
    assert remote.sessions.end(session.id, "done").ended_at is not None
    assert remote.sessions.summarise(session.id, None).summary is None
    assert "PostgreSQL" in remote.context("why did we choose it: joins?", project="api", min_relevance=0)
    assert "PostgreSQL" in remote.briefing()
    assert remote.searches.clear() == 1
    assert [memory.id for memory in remote.timeline(project="api")] == [
        memory.id, *(turn.id for turn in remote.sessions.turns("chat:talk")),
    ]  # fmt: skip


def test_lenses_and_files(remote: Memorist) -> None:
    lens = remote.lenses.set("work", project="api", boosts={"tag": {"decision": 1.5}}, profile="notes")
    assert remote.lenses.list() == [lens]
    assert remote.lenses.get("work") == lens
    remote.lenses.remove("work")
    with pytest.raises(NotFound):
        remote.lenses.get("work")

    file = remote.files.create("/notes/today.md", "one")
    assert file.text == "one"
    assert remote.files.edit("/notes/today.md", lambda text: text + " two").text == "one two"
    assert remote.files.move("/notes", "/old") == 1
    assert [file.path for file in remote.files.list()] == ["/old/today.md"]
    assert remote.files.forget("/old") == 1


def test_an_edit_of_a_file_that_somebody_else_changed_is_made_again(remote: Memorist, memory: Memorist) -> None:
    remote.files.create("/list", "a")
    seen: list[str] = []

    def change(text: str) -> str:
        seen.append(text)
        if len(seen) == 1:
            memory.files.edit("/list", lambda text: text + "b")
        return text + "c"

    assert remote.files.edit("/list", change).text == "abc"
    assert seen == ["a", "ab"]


def test_an_export_that_is_imported_again_is_the_same(remote: Memorist, tmp_path: Path) -> None:
    remote.add_many([f"memory {number}" for number in range(50)])
    remote.links.add(*[memory.id for memory in remote.list(limit=2)], "next to")

    count = remote.transfer.export(tmp_path / "all.jsonl")
    exported = (tmp_path / "all.jsonl").read_bytes()
    with memorist.open(tmp_path / "copy.db", embedder="none") as copy:
        assert copy.transfer.import_(tmp_path / "all.jsonl").added == 50
        again = io.BytesIO()
        assert copy.transfer.export(again) == count
    assert again.getvalue() == exported
    report = remote.transfer.import_(tmp_path / "all.jsonl")
    assert (report.format, report.added, report.known) == ("memorist", 0, 50)


def test_conversations_are_imported_by_uploading_them(remote: Memorist, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    file.write_text(
        '[{"role": "user", "content": "where is the key?"}, {"role": "assistant", "content": "under the mat"}]'
    )

    report = remote.transfer.import_conversations(file, project="home")

    assert (report.added, report.sessions) == (2, 1)
    (session,) = remote.sessions.list()
    page = remote.sessions.turns(session.id, limit=1)
    rest = remote.sessions.turns(session.id, cursor=page.cursor)
    assert [memory.content for memory in [*page, *rest]] == ["where is the key?", "under the mat"]
    with pytest.raises(MemoristError, match="folder"):
        remote.transfer.import_(tmp_path)
    with pytest.raises(InvalidInput, match="format"):
        remote.transfer.import_(io.BytesIO(b"nothing"), format="wrong")


def test_long_lists_come_page_by_page_behind_the_curtain(remote: Memorist) -> None:
    ids = remote.add_many(f"memory {number}" for number in range(1100))

    assert len(remote.list(limit=1050)) == 1050
    assert remote.list(limit=1050).cursor is not None
    assert {memory.id for memory in remote.list(limit=5000)} == set(ids)
    assert len(remote.get(ids)) == 1100


def test_errors_are_those_of_the_library(remote: Memorist, server: WebServer) -> None:
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
        remote.links.add(first.id, second.id, "supersedes")
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


@pytest.mark.parametrize(
    "name", ["documents.index", "documents.watch", "transfer.backup", "reembed", "transfer.discover"]
)
def test_what_only_the_servers_machine_can_do_says_so_by_name(name: str) -> None:
    remote = memorist.connect("http://127.0.0.1:1", token=TOKEN)

    with pytest.raises(MemoristError, match=f"^{name.rpartition('.')[2]} cannot be called over HTTP.*`memorist"):
        attrgetter(name)(remote)(*([] if name in ("reembed", "transfer.discover") else ["x"]))


class TestTheSameAsALocalMemory:
    """What a call over HTTP says must be what it says in one process."""

    @pytest.mark.parametrize(
        "call",
        [
            lambda memory: memory.forget_many(project="p", filters={"kind": "junk"}),
            lambda memory: memory.search("cats", options={"min_relevance": 1.0}),
            lambda memory: memory.list(filters={"project": "p"}),
            lambda memory: memory.facts.add("kept", "a fact", fields={"kind": "kv"}),
            lambda memory: memory.list(project=[]),
            lambda memory: memory.search("cats", mode=None),
            lambda memory: memory.update("kept", title="t", content=None),
            lambda memory: memory.reinforce("kept", None),
            lambda memory: memory.review.merge("kept", []),
            lambda memory: memory.search("cats", profile=""),
            lambda memory: memory.add(b"bytes"),
            lambda memory: memory.update("kept", metadata={"a": b"x"}),
            lambda memory: memory.update("kept", metadata={"a": datetime(2020, 1, 1, tzinfo=UTC)}),
            lambda memory: memory.forget("kept", hard="no"),
            lambda memory: memory.forget("kept", if_version=3),
            lambda memory: memory.review.list("secrets", limit=2000),
        ],
    )
    def test_what_cannot_be_used_is_refused_and_nothing_is_changed(self, remote: Memorist, call: Any) -> None:
        with memorist.open(":memory:", embedder="none") as local:
            for memory in (local, remote):
                memory.add("cats sleep", id="kept", project="p")
                with pytest.raises(InvalidInput):
                    call(memory)
                assert memory.get("kept").content == "cats sleep"
                assert memory.get("kept").title is None

    def test_none_empties_what_can_be_empty(self, remote: Memorist) -> None:
        remote.add("x", id="x", tags=["a"], metadata={"n": 1}, kind="k")

        changed = remote.update("x", tags=None, metadata=None, kind=None)

        assert (changed.tags, changed.metadata, changed.kind) == ((), {}, None)

    def test_none_leaves_fields_of_items_and_facts_open(self, remote: Memorist) -> None:
        (id,) = remote.add_many([{"content": "x", "project": None, "facts": None}])
        added = remote.add("y", facts=[{"text": "a fact", "kind": None}])

        assert remote.get(id).project is None
        assert [fact.text for fact in added.facts] == ["a fact"]

    def test_a_refused_item_has_its_number_among_all(self, remote: Memorist) -> None:
        items = [*(f"note {number}" for number in range(250)), ""]

        with pytest.raises(InvalidInput, match=r"^item 251 cannot be added: .* The 250 before it were added$"):
            remote.add_many(items)
        assert remote.count() == 250

    def test_items_that_were_read_before_an_error_are_kept(self, remote: Memorist) -> None:
        def items() -> Iterator[str]:
            yield from ("one", "two")
            raise RuntimeError("no more")

        with pytest.raises(RuntimeError, match="no more"):
            remote.add_many(items())
        assert remote.count() == 2

    @pytest.mark.parametrize("version", ["other", "a\nb", "é漢", ["x", "y"]])
    def test_another_version_is_not_changed(self, remote: Memorist, version: Any) -> None:
        remote.add("x", id="x")

        with pytest.raises(ChangedMeanwhile):
            remote.forget("x", if_version=version)
        assert remote.update("x", title="t", if_version=["x", remote.get("x").version]).title == "t"

    def test_exceptions_from_redaction_may_be_a_set(self, remote: Memorist, tmp_path: Path) -> None:
        secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
        (tmp_path / "chat.jsonl").write_text(json.dumps({"role": "user", "content": f"use {secret}"}))

        assert remote.transfer.import_(tmp_path / "chat.jsonl", allow={secret}).redacted == {}

    def test_the_number_of_lost_searches_can_be_asked_for(self, remote: Memorist) -> None:
        assert remote.searches.lost == 0
