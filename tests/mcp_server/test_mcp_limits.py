"""No answer is longer than its limit, whatever is remembered; and nothing is lost by that."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_agents import Agent, serving, text_of

import memorist

LEAST = 1000  # tokens
LONG = "".join(f'sentence {number} of a long text, in "quotes" and\nlines. <b>\\</b>\n' for number in range(2000))


def sized(agent: Agent, tokens: int, tool: str, **arguments: Any) -> dict[str, Any]:
    """An answer that is not longer than the limit, in either form."""
    result = agent.ask(tool, **arguments)
    assert len(text_of(result)) <= tokens * 4
    assert not result.is_error, text_of(result)
    answer: dict[str, Any] = result.structured_content
    return answer


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything a memory can be too much of."""
    path = tmp_path_factory.mktemp("crowded") / "memory.db"
    with memorist.open(path, embedder="none") as memory:
        memory.add(LONG, id="the-long-one", created_at="2026-01-01", title="crowded long")
        memory.add("crowded labels", id="the-laden-one", project="p" * 500, kind='"' * 500, title="\\" * 500,
                   summary="<" * 5000, source="s" * 500, tags=[f"{number}" + "t" * 400 for number in range(100)],
                   facts=[f"fact {number} " + "f" * 3000 for number in range(200)],
                   metadata={f"key {number}": "m" * 1000 for number in range(100)})  # fmt: skip
        memory.add_many(
            {
                "content": f"crowded note {number} " + "and more words " * 40,
                "created_at": f"2026-02-01T00:00:{number % 60:02}",
                "id": f"{number:0128}",
            }
            for number in range(600)
        )
    return path


@pytest.fixture(params=[LEAST, 1500])
def tokens(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def agent(crowded: Path, tokens: int) -> Iterator[Agent]:
    with serving(crowded, answer_tokens=tokens) as connected:
        yield connected


@pytest.mark.parametrize("detail", ["index", "snippet", "full"])
def test_a_search_says_how_many_did_not_fit_and_how_to_get_them(agent: Agent, tokens: int, detail: str) -> None:
    answer = sized(agent, tokens, "memory_search", query="crowded", limit=100, detail=detail)

    assert answer["results"]
    assert len(answer["results"]) + answer["left_out"]["count"] == 100
    assert len(json.dumps(answer)) > tokens * 2  # what fits is there
    assert answer["left_out"]["how"]


def test_what_was_left_out_can_be_had_by_its_ids(agent: Agent, tokens: int) -> None:
    answer = sized(agent, tokens, "memory_search", query="note", limit=50)

    more = sized(agent, tokens, "memory_get", ids=answer["left_out"]["ids"])

    assert more["memories"][0]["id"] == answer["left_out"]["ids"][0]


def test_a_long_memory_comes_in_parts_that_make_the_whole(agent: Agent, tokens: int) -> None:
    parts, offset = [], 0
    while True:
        (memory,) = sized(agent, tokens, "memory_get", ids=["the-long-one"], offset=offset)["memories"]
        parts.append(memory["content"])
        assert len(json.dumps(memory)) > tokens * 3 or "more_from" not in memory
        if "more_from" not in memory:
            break
        assert memory["content_length"] == len(LONG)
        offset = memory["more_from"]

    assert len(parts) > 10
    assert "".join(parts).replace("&lt;", "<") == LONG


def test_what_is_said_about_a_memory_does_not_take_the_room_of_its_text(tmp_path: Path) -> None:
    many = [f"{number}" + "t" * 110 for number in range(20)]
    with memorist.open(tmp_path / "memory.db", embedder="none") as memory:
        id = memory.add(LONG, tags=many, title="t" * 190, source="s" * 190).id
    with serving(tmp_path / "memory.db", answer_tokens=LEAST) as agent:
        (part,) = sized(agent, LEAST, "memory_get", ids=[id])["memories"]

    assert part["more_from"] > LEAST
    assert part["cut"] == ["labels"]


def test_a_place_beyond_the_end_is_refused(agent: Agent) -> None:
    assert "beyond" in agent.refused("memory_get", ids=["the-long-one"], offset=len(LONG))


def test_a_memory_with_too_much_about_it_says_what_is_cut(agent: Agent, tokens: int) -> None:
    (memory,) = sized(agent, tokens, "memory_get", ids=["the-laden-one"])["memories"]

    assert memory["content"] == "crowded labels"
    assert memory["cut"]


def test_many_ids_at_once(agent: Agent, tokens: int) -> None:
    wanted = [
        "the-long-one",
        "the-laden-one",
        *(f"{number:0128}" for number in range(8)),
        *("x" * 5000 + c for c in "abcdefghij"),
    ]

    answer = sized(agent, tokens, "memory_get", ids=wanted)

    assert len(answer["missing"]) == 10
    assert len(answer["memories"]) + answer["left_out"]["count"] == 10


def test_a_timeline_goes_on_where_it_was_cut(agent: Agent, tokens: int) -> None:
    first = sized(agent, tokens, "memory_timeline", start="2026-01-01", end="2026-03-01")
    start = first["left_out"]["how"].rpartition("start=")[2]
    second = sized(agent, tokens, "memory_timeline", start=start, end="2026-03-01")

    assert first["memories"][0]["id"] == "the-long-one"
    assert first["left_out"]["how"].startswith("at least this many")
    assert first["memories"][-1]["created_at"] <= second["memories"][0]["created_at"]


def test_the_latest_are_kept_where_a_timeline_is_cut(agent: Agent, tokens: int) -> None:
    answer = sized(agent, tokens, "memory_timeline", end="2026-02-28")

    assert answer["memories"][-1]["created_at"] == "2026-02-01T00:00:59Z"
    assert "end=2026-02-01" in answer["left_out"]["how"]


def test_the_anchor_is_kept_where_a_timeline_is_cut(agent: Agent, tokens: int) -> None:
    anchor = f"{330:0128}"

    answer = sized(agent, tokens, "memory_timeline", anchor=anchor, before=100, after=100)

    shown = [memory["id"] for memory in answer["memories"]]
    assert abs(shown.index(anchor) - len(shown) // 2) <= 1
    assert len(shown) + answer["left_out"]["count"] == 201


def test_a_block_of_context_fits(agent: Agent, tokens: int) -> None:
    for message in ("crowded note", "crowded labels", "a long text"):
        sized(agent, tokens, "memory_context", message=message)
    assert sized(agent, tokens, "memory_context", message="crowded note")["context"]
    assert len(sized(agent, tokens, "memory_context", message="crowded note", budget=100)["context"]) <= 400


@pytest.mark.parametrize("uri", ["the-long-one", "the-laden-one", "timeline/2026-02-01", "timeline/2026", "stats"])
def test_resources_fit_and_stay_framed(agent: Agent, tokens: int, uri: str) -> None:
    text = agent.read(f"memory://{uri}")

    assert len(text) <= tokens * 4
    if uri.startswith("the-"):
        assert text.count("</memory>") == 1
    if uri == "the-long-one":
        assert "offset=" in text.rpartition("</memory>")[2]


def test_a_prompt_fits(agent: Agent, tokens: int) -> None:
    assert len(agent.prompt("recall", task="crowded note " * 10_000)) <= tokens * 4
    assert len(agent.prompt("save", about="x" * 100_000)) <= tokens * 4


@pytest.mark.parametrize("levels", [65, 150])
def test_deep_arguments_are_refused(agent: Agent, levels: int) -> None:
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"a": deep}

    result = agent.ask("memory_search", query="crowded", metadata=deep)

    assert result.is_error
    assert "levels" in text_of(result)
