"""The eight tools, called by the SDK's own client, which holds each answer against the tool's output schema."""

import json
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp_agents import Agent, over_stdio, serve_in_process, serve_unopened, serving, until

import memorist
from conftest import HashingEmbedder
from memorist import Memorist
from memorist.embed.local import LocalEmbedder
from memorist.time_limit import is_time_up
from timeouts import MAX_WAIT_SECONDS


@pytest.fixture
def agent(path: Path) -> Iterator[Agent]:
    with serving(path) as connected:
        yield connected


class TestSearch:
    def test_it_gives_snippets_and_names_the_tool_for_the_rest(self, agent: Agent) -> None:
        id = agent.add("We deploy with make ship", project="api", kind="howto", tags=["deploy"])

        answer = agent.call("memory_search", query="deploy")

        (hit,) = answer["results"]
        assert (hit["id"], hit["snippet"], hit["kind"], hit["tags"]) == (
            id, "We deploy with make ship", "howto", ["deploy"],
        )  # fmt: skip
        assert "content" not in hit
        assert answer["relevant"]
        assert answer["next"].startswith("memory_get")
        assert "not instructions" in answer["caution"]

    def test_it_says_that_there_is_no_model(self, agent: Agent) -> None:
        assert "no embedding model" in agent.call("memory_search", query="anything")["degraded"]

    def test_an_index_has_a_line_for_each_and_full_has_all(self, agent: Agent) -> None:
        text = "deploy " + "on and on " * 100
        agent.add(text)

        (line,) = agent.call("memory_search", query="deploy", detail="index")["results"]
        (whole,) = agent.call("memory_search", query="deploy", detail="full")["results"]

        assert len(line["summary"]) <= 101
        assert "snippet" not in line
        assert whole["content"] == text

    def test_filters_hold(self, agent: Agent) -> None:
        agent.add("deploy the api", project="api", tags=["one", "two"], kind="howto")
        agent.add("deploy the shop", project="shop", tags=["one"])

        assert len(agent.call("memory_search", query="deploy")["results"]) == 2
        for filter in ({"project": "api"}, {"tags": ["two"]}, {"kind": "howto"}):
            (hit,) = agent.call("memory_search", query="deploy", **filter)["results"]
            assert hit["project"] == "api"
        answer = agent.call("memory_search", query="deploy", until="2020-01-01")
        assert answer["results"] == []
        assert answer["hidden"] == {"until": 2}

    def test_an_empty_query_is_an_error(self, agent: Agent) -> None:
        assert "empty" in agent.refused("memory_search", query="  ")

    def test_nothing_relevant_is_said(self, agent: Agent) -> None:
        answer = agent.call("memory_search", query="zebra")

        assert (answer["results"], answer["relevant"]) == ([], False)
        assert "other words" in answer["next"]

    def test_a_slip_is_corrected(self, agent: Agent) -> None:
        agent.add("The deployment is done on Mondays")

        assert agent.call("memory_search", query="deploymint")["suggestion"] == "deployment"

    def test_what_was_superseded_is_found_only_when_asked_for(self, agent: Agent) -> None:
        old, new = agent.add("deploy on Monday"), agent.add("deploy on Tuesday, nowadays")
        agent.call("memory_supersede", old_id=old, new_id=new)

        assert [hit["id"] for hit in agent.call("memory_search", query="deploy")["results"]] == [new]
        both = agent.call("memory_search", query="deploy", include_superseded=True)["results"]
        assert {hit["id"]: hit.get("superseded_by") for hit in both} == {new: None, old: new}

    def test_places_in_files_come_with_their_lines_and_without_an_id(self, path: Path, tmp_path: Path) -> None:
        page = tmp_path / "notes" / "retries.md"
        page.parent.mkdir()
        page.write_text("# Retries\n\nRetries are capped at five.\n")
        with memorist.open(path, embedder="none") as memory:
            memory.documents.index(page.parent)
        with serving(path) as agent:
            (hit,) = agent.call("memory_search", query="retries capped", include_documents=True)["results"]

        assert hit["path"] == str(page)
        assert (hit["start_line"], hit["end_line"]) == (1, 3)
        assert "id" not in hit


class TestGet:
    def test_it_gives_everything(self, agent: Agent) -> None:
        id = agent.add("All of it", title="T", summary="S", source="the wiki", facts=["it is all"], salience=0.9)

        (memory,) = agent.call("memory_get", ids=[id[-8:]])["memories"]

        assert memory["id"] == id
        assert memory["content"] == "All of it"
        assert (memory["title"], memory["summary"], memory["source"], memory["salience"]) == ("T", "S", "the wiki", 0.9)
        assert memory["facts"] == [{"text": "it is all", "confidence": 1.0}]

    def test_what_is_missing_is_named(self, agent: Agent) -> None:
        id = agent.add("here")

        answer = agent.call("memory_get", ids=[id, "not-there"])

        assert [memory["id"] for memory in answer["memories"]] == [id]
        assert answer["missing"] == ["not-there"]
        assert "not-there" in agent.refused("memory_get", ids=["not-there"])

    def test_a_memory_is_seen_as_it_was(self, agent: Agent) -> None:
        id = agent.add("before", created_at="2020-01-01")
        agent.call("memory_update", id=id, content="after")

        (memory,) = agent.call("memory_get", ids=[id], as_of="2020-06-01")["memories"]

        assert memory["content"] == "before"


class TestTimeline:
    @pytest.fixture
    def days(self, agent: Agent) -> list[str]:
        return [agent.add(f"day {day} of the outage", created_at=f"2026-03-0{day}") for day in range(1, 8)]

    def test_without_a_time_it_is_the_latest_in_order(self, agent: Agent, days: list[str]) -> None:
        assert ids(agent.call("memory_timeline")) == days
        assert ids(agent.call("memory_timeline", end="2026-03-03")) == days[:3]

    def test_between_two_times_the_end_is_included(self, agent: Agent, days: list[str]) -> None:
        assert ids(agent.call("memory_timeline", start="2026-03-02", end="2026-03-04")) == days[1:4]

    def test_around_a_memory(self, agent: Agent, days: list[str]) -> None:
        answer = agent.call("memory_timeline", anchor=days[3], before=1, after=2)

        assert ids(answer) == days[2:6]
        assert answer["anchor"] == days[3]

    def test_around_the_best_match_of_a_query(self, agent: Agent, days: list[str]) -> None:
        agent.add("the database was restored", created_at="2026-03-03T12:00")

        answer = agent.call("memory_timeline", query="database restored", before=1, after=1)

        assert [ids(answer)[0], ids(answer)[2]] == days[2:4]

    def test_the_sessions_it_touches_are_told(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            session = memory.sessions.start("api", summary="the outage")
            memory.add("it began", session=session.id)
        with serving(path) as agent:
            answer = agent.call("memory_timeline", start="today")

        (told,) = answer["sessions"]
        assert (told["id"], told["summary"]) == (session.id, "the outage")

    def test_rows_around_nothing_are_refused(self, agent: Agent) -> None:
        assert "anchor" in agent.refused("memory_timeline", before=3)


class TestAdd:
    def test_an_id_of_its_own_decides_what_is_replaced(self, agent: Agent) -> None:
        agent.call("memory_add", content="The port is 80", id="ports/web")
        kept = agent.call("memory_add", content="The port is 22", id="ports/web", if_exists="keep")
        agent.call("memory_add", content="The port is 443", id="ports/web", expires_at="2100-01-01T00:00Z")
        (memory,) = agent.call("memory_get", ids=["ports/web"])["memories"]

        assert (kept["id"], kept["known"]) == ("ports/web", True)
        assert (memory["content"], memory["expires_at"]) == ("The port is 443", "2100-01-01T00:00:00Z")
        assert "belongs to another memory" in agent.refused(
            "memory_add", content="x", id="ports/web", if_exists="error"
        )
        agent.call("memory_update", id="ports/web", expires_at="")
        assert "expires_at" not in agent.call("memory_get", ids=["ports/web"])["memories"][0]

    def test_the_same_again_is_known(self, agent: Agent) -> None:
        first = agent.call("memory_add", content="once")
        again = agent.call("memory_add", content="once")

        assert (first["known"], again["known"]) == (False, True)
        assert first["id"] == again["id"]

    def test_what_says_almost_the_same_is_named_with_the_way_to_replace_it(self, agent: Agent) -> None:
        words = "the release of the api is done on every second monday of a month by the team on call"
        old = agent.add(words)

        answer = agent.call("memory_add", content=f"{words} now")

        assert answer["near"]["id"] == old
        assert answer["next"].startswith("memory_supersede")

    def test_it_belongs_to_the_project_that_is_set_unless_another_is_named(self, path: Path) -> None:
        with serving(path, project="api") as agent:
            ids_ = [agent.add("set"), agent.add("named", project="shop")]
            found = agent.call("memory_get", ids=ids_)["memories"]

        assert [memory["project"] for memory in found] == ["api", "shop"]

    def test_the_project_of_its_session_counts_more_than_the_one_that_is_set(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            session, without = memory.sessions.start("shop").id, memory.sessions.start().id
        with serving(path, project="api") as agent:
            ids_ = [agent.add("one", session=session), agent.add("two", session=without)]
            found = agent.call("memory_get", ids=ids_)["memories"]

        assert [memory["project"] for memory in found] == ["shop", "api"]

    def test_a_secret_is_replaced_and_the_answer_says_so(self, path: Path) -> None:
        secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
        with over_stdio(path) as agent:
            answer = agent.call("memory_add", content=f"the key is {secret}", facts=[f"it is {secret}"])
            changed = agent.call("memory_update", id=answer["id"], title=f"about {secret}")
            (memory,) = agent.call("memory_get", ids=[answer["id"]])["memories"]

        assert secret not in str((memory, answer, changed))
        assert [entry["kind"] for entry in answer["redacted"]] == ["github-token", "github-token"]
        assert [entry["field"] for entry in changed["redacted"]] == ["title"]

    def test_it_is_kept_where_the_setting_says_so(self, path: Path) -> None:
        secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
        with over_stdio(path, more={"MEMORIST_REDACT": "off"}) as agent:
            answer = agent.call("memory_add", content=f"the key is {secret}")

            assert "redacted" not in answer
            assert secret in str(agent.call("memory_get", ids=[answer["id"]])["memories"])

    def test_it_takes_no_more_than_a_memory_holds(self, agent: Agent) -> None:
        assert "at most 1,000,000 fit" in agent.refused("memory_add", content="x" * 1_000_001)


class TestUpdate:
    def test_only_what_is_given_changes_and_an_empty_text_empties(self, agent: Agent) -> None:
        id = agent.add("before", title="old", kind="note", tags=["a"])

        agent.call("memory_update", id=id, content="after", title="", tags=[])

        (memory,) = agent.call("memory_get", ids=[id])["memories"]
        assert memory["content"] == "after"
        assert memory["kind"] == "note"
        assert "title" not in memory
        assert "tags" not in memory

    def test_nothing_to_change_is_an_error(self, agent: Agent) -> None:
        assert "nothing to change" in agent.refused("memory_update", id=agent.add("it"))


def test_supersede_refuses_what_the_engine_refuses(agent: Agent) -> None:
    id = agent.add("it")

    assert agent.refused("memory_supersede", old_id=id, new_id=id)
    assert "no memory" in agent.refused("memory_supersede", old_id=id, new_id="nowhere")


def test_forgetting_can_be_undone_by_the_user(agent: Agent, path: Path) -> None:
    id = agent.add("unwanted")

    agent.call("memory_forget", id=id)

    assert agent.call("memory_search", query="unwanted")["results"] == []
    with memorist.open(path, embedder="none") as memory:
        assert memory.restore(id).content == "unwanted"


def test_context_packs_what_matters(path: Path, bundled_model: LocalEmbedder) -> None:
    with serve_in_process(lambda: memorist.open(path, embedder=bundled_model)) as agent:
        agent.add("We deploy with make ship from the release branch")

        answer = agent.call("memory_context", message="how is the software released to production?")

        assert answer["context"].startswith("<relevant-context>")
        assert "make ship" in answer["context"]
        assert agent.call("memory_context", message="the weather on Mars")["context"] == ""


def test_with_the_model_meaning_counts(path: Path, bundled_model: LocalEmbedder) -> None:
    with serve_in_process(lambda: memorist.open(path, embedder=bundled_model)) as agent:
        agent.add("Login was slow on Mondays: the password hashes are checked on two small machines")

        answer = agent.call("memory_search", query="authentication was sluggish at the start of the week")

    assert answer["results"][0]["match"] == ["vector"]
    assert answer["relevant"]
    assert "degraded" not in answer


class SlowModel(HashingEmbedder):
    """A model that is loading until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded = threading.Event()
        self.asked: set[str] = set()

    def embed(self, texts: Any) -> list[list[float]]:
        self.asked.update(texts)
        assert self.loaded.wait(MAX_WAIT_SECONDS)
        return super().embed(texts)


def test_before_the_model_is_there_a_search_answers_by_keyword_and_says_so(path: Path) -> None:
    model = SlowModel()
    with memorist.open(path, embedder="none") as memory:
        memory.add("We deploy with make ship")
    with serve_unopened(lambda: memorist.open(path, embedder=model)) as agent:
        early = agent.call("memory_search", query="deploy")
        model.loaded.set()

    assert early["results"][0]["match"] == ["keyword"]
    assert "still loading" in early["degraded"]


class TestWrongCalls:
    @pytest.mark.parametrize(
        ("tool", "arguments", "about"),
        [
            ("memory_search", {}, "needs the argument 'query'"),
            ("memory_search", {"query": "x", "namespace": "other"}, "takes no argument 'namespace'"),
            ("memory_search", {"query": ["x"]}, "query must be text"),
            ("memory_search", {"query": "x", "limit": "ten"}, "limit must be a whole number"),
            ("memory_search", {"query": "x", "limit": True}, "limit must be a whole number"),
            ("memory_search", {"query": "x", "limit": 0}, "at least 1"),
            ("memory_search", {"query": "x", "limit": 1001}, "at most 100"),
            ("memory_search", {"query": "x", "detail": "everything"}, "index, snippet, full"),
            ("memory_search", {"query": "x", "tags": "deploy"}, "tags must be a list"),
            ("memory_search", {"query": "x", "tags": [1]}, "tags must be a list"),
            ("memory_search", {"query": "x", "min_relevance": 2}, "at most 1"),
            ("memory_search", {"query": "x", "include_superseded": "yes"}, "true or false"),
            ("memory_search", {"query": "x", "since": "whenever"}, "is not a time"),
            ("memory_search", {"query": "x", "session": "nowhere"}, "no session"),
            ("memory_get", {"ids": []}, "at least 1"),
            ("memory_get", {"ids": ["abcdef"] * 21}, "at most 20"),
            ("memory_get", {"ids": ["abcdef"], "offset": -1}, "at least 0"),
            ("memory_timeline", {"anchor": "nowhere"}, "no memory"),
            ("memory_timeline", {"anchor": "a", "query": "b"}, "not both"),
            ("memory_add", {"content": ""}, "content is empty"),
            ("memory_add", {"content": "x", "salience": 2}, "at most 1"),
            ("memory_add", {"content": "x", "sector": "other"}, "reflective"),
            ("memory_update", {"id": "nowhere", "content": "x"}, "no memory"),
            ("memory_forget", {"id": "nowhere"}, "no memory"),
            ("memory_context", {"message": " "}, "empty"),
            ("memory_context", {"message": "x", "budget": 1}, "at least 100"),
        ],
    )
    def test_a_wrong_argument_is_an_error_of_the_tool(
        self, agent: Agent, tool: str, arguments: dict[str, Any], about: str
    ) -> None:
        assert about in agent.refused(tool, **arguments)

    def test_null_is_as_good_as_nothing(self, agent: Agent) -> None:
        agent.add("deploy", project=None, tags=None)

        assert agent.call("memory_search", query="deploy", project=None, limit=None)["results"]

    def test_an_unknown_tool_is_an_error_of_the_protocol(self, agent: Agent) -> None:
        with pytest.raises(MCPError, match="there is no tool 'memory_purge'"):
            agent.ask("memory_purge")

    def test_a_huge_argument_comes_back_short(self, agent: Agent) -> None:
        assert len(agent.refused("memory_search", query="x", since="y" * 100_000)) <= 6000
        assert len(agent.refused("memory_search", query="x", **{"z" * 100_000: 1})) < 1000
        assert "at most 10000" in agent.refused("memory_search", query="deploy " * 100_000)

    def test_a_store_that_cannot_be_opened_is_an_error_of_the_tool_until_it_can(self, path: Path) -> None:
        path.write_bytes(b"this is no database at all, and long enough to be taken for one" * 100)
        with serve_unopened(lambda: memorist.open(path, embedder="none")) as agent:
            assert "not a database" in agent.refused("memory_search", query="x")
            path.unlink()
            assert agent.add("now it works")

    def test_a_fault_of_ours_is_told_without_its_innards(self, caplog: pytest.LogCaptureFixture) -> None:
        def broken() -> Memorist:
            raise KeyError("innards")

        with serve_unopened(broken) as agent:
            message = agent.refused("memory_search", query="x")

        assert "KeyError" in message
        assert "innards" not in message
        assert "innards" in caplog.text


class TestAtOnce:
    def test_a_slow_call_does_not_hold_up_others(self, path: Path) -> None:
        model = SlowModel()
        with memorist.open(path, embedder="none") as memory:
            memory.add("We deploy with make ship")
        with serve_unopened(lambda: memorist.open(path, embedder=model)) as agent:

            async def both() -> list[str]:
                ended: list[str] = []

                async def call(tool: str, **arguments: Any) -> None:
                    await agent.client.call_tool(tool, arguments)
                    ended.append(tool)
                    model.loaded.set()  # the first to end lets the other go on

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lambda: call("memory_add", content="this waits for the model"))
                    await anyio.lowlevel.checkpoint()
                    tasks.start_soon(lambda: call("memory_search", query="deploy"))
                return ended

            assert agent.do(both) == ["memory_search", "memory_add"]

    def test_many_calls_at_once_all_answer(self, agent: Agent) -> None:
        async def many() -> None:
            async with anyio.create_task_group() as tasks:
                for number in range(60):
                    tasks.start_soon(agent.client.call_tool, "memory_add", {"content": f"note {number}"})
                    tasks.start_soon(agent.client.call_tool, "memory_search", {"query": "note"})

        agent.do(many)

        assert len(agent.call("memory_search", query="note", limit=100, detail="index")["results"]) > 10

    def test_a_call_that_is_given_up_leaves_the_server_at_work(self, path: Path) -> None:
        model = SlowModel()
        with serve_unopened(lambda: memorist.open(path, embedder=model)) as agent:

            async def given_up() -> None:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(agent.client.call_tool, "memory_add", {"content": "given up"})
                    await until(lambda: "given up" in model.asked)
                    tasks.cancel_scope.cancel()

            agent.do(given_up)
            found = agent.call("memory_search", query="given")["results"]  # its text was safe before its vector
            model.loaded.set()

        assert [hit["snippet"] for hit in found] == ["given up"]

    def test_a_call_that_is_given_up_is_told_to_stop(self, path: Path) -> None:
        model = WaitingModel()
        with serve_in_process(lambda: memorist.open(path, embedder=model)) as agent:
            agent.add("what is searched for")

            async def given_up() -> None:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(agent.client.call_tool, "memory_search", {"query": WaitingModel.endless})
                    await until(model.asked.is_set)
                    tasks.cancel_scope.cancel()

            agent.do(given_up)

            assert model.stopped.wait(MAX_WAIT_SECONDS)


class WaitingModel(HashingEmbedder):
    """A model that one query keeps busy until the call has to stop."""

    endless = "a query without an end"

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.stopped = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.endless in texts:
            self.asked.set()
            while not is_time_up():
                self.stopped.wait(0.001)
            self.stopped.set()
        return super().embed(texts)


class TestReadOnly:
    def test_no_writing_tool_is_listed_or_works(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            id = memory.add("kept").id
        with serve_in_process(lambda: memorist.open(path, embedder="none", read_only=True), read_only=True) as agent:
            assert set(agent.tools()) == {"memory_search", "memory_get", "memory_timeline", "memory_context"}
            assert "read-only" in agent.refused("memory_add", content="x")
            assert "read-only" in agent.refused("memory_forget", id=id)
            assert agent.call("memory_search", query="kept")["results"]
            with pytest.raises(MCPError):
                agent.prompt("save")

    def test_no_answer_recommends_a_tool_that_is_not_there(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            old, new = memory.add("kept in the barn"), memory.add("kept in the cellar")
            memory.supersede(old.id, new.id)
            long = memory.add("a long text " * 2000)
        with serve_in_process(lambda: memorist.open(path, embedder="none", read_only=True), read_only=True) as agent:
            answers = [
                *(agent.call("memory_search", query="kept", detail=detail) for detail in ("snippet", "index", "full")),
                agent.call("memory_search", query="unheard-of"),
                *(agent.call("memory_get", ids=[one.id]) for one in (old, new, long)),
                agent.refused("memory_get", ids=["no-such-id"]),
                agent.call("memory_timeline"),
                agent.call("memory_timeline", anchor=old.id),
                agent.call("memory_timeline", end="1999-01-01"),
                agent.call("memory_context", message="kept"),
                agent.call("memory_context", message="unheard-of"),
                *(agent.read(f"memory://{name}") for name in (old.id, long.id, "stats", "timeline/today")),
                agent.prompt("recall", task="kept"),
                agent.client.instructions,
                *((tool.description, tool.input_schema, tool.output_schema) for tool in agent.tools().values()),
            ]

            assert set(re.findall(r"memory_[a-z]+", repr(answers))) <= set(agent.tools())


class TestOnlyProject:
    @pytest.fixture
    def agent(self, path: Path) -> Iterator[Agent]:
        with memorist.open(path, embedder="none") as memory:
            memory.add("deploy the api", project="api")
            memory.add("deploy the shop", id="of-the-shop", project="shop")
        with serving(path, only_project="api", project="shop") as connected:
            yield connected

    def test_nothing_of_another_project_is_found_or_changed(self, agent: Agent) -> None:
        (hit,) = agent.call("memory_search", query="deploy")["results"]

        assert hit["project"] == "api"
        assert "no memory" in agent.refused("memory_get", ids=["of-the-shop"])
        for tool, arguments in (
            ("memory_update", {"id": "of-the-shop", "content": "x"}),
            ("memory_forget", {"id": "of-the-shop"}),
            ("memory_supersede", {"old_id": "of-the-shop", "new_id": hit["id"]}),
            ("memory_timeline", {"anchor": "of-the-shop"}),
        ):
            assert "no memory of project 'api'" in agent.refused(tool, **arguments)
        with pytest.raises(MCPError):
            agent.read("memory://of-the-shop")
        assert "shop" not in agent.read("memory://timeline/today")
        assert json.loads(agent.read("memory://stats")) == {"project": "api", "memories": 1, "kinds": {}}
        assert "shop" not in agent.call("memory_context", message="deploy the shop")["context"]

    def test_no_tool_takes_a_project(self, agent: Agent) -> None:
        assert not any("project" in tool.input_schema["properties"] for tool in agent.tools().values())
        assert "takes no argument 'project'" in agent.refused("memory_search", query="deploy", project="shop")

    def test_what_is_added_belongs_to_it(self, agent: Agent) -> None:
        id = agent.add("new")

        assert agent.call("memory_get", ids=[id])["memories"][0]["project"] == "api"


def ids(answer: dict[str, Any]) -> list[str]:
    return [memory["id"] for memory in answer["memories"]]
