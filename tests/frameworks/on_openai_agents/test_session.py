"""The session for the OpenAI Agents SDK: what is put in comes out, and searches find it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, Runner, SessionSettings
from agents.memory import Session
from agents.tool_context import ToolContext
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI

import memorist
from memorist.adapters.openai_agents import MemoristSession, memory_search_tool
from model_server import calls, model_server, says

ITEMS: list[Any] = [
    {"role": "user", "content": "Where is the harbour office?"},
    {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": '{"place": "harbour"}', "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": "Pier 4, open until six"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
    {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It is at Pier 4.", "annotations": []}],
    },
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def storable(value: str) -> bool:
    return "\0" not in value and value.isprintable()


async def test_items_come_back_as_they_were_tool_calls_included(memory: memorist.Memorist) -> None:
    session = MemoristSession("s1", memory)

    await session.add_items(ITEMS)

    assert isinstance(session, Session)
    assert await session.get_items() == ITEMS


@given(
    content=JSON.filter(
        lambda value: storable(json.dumps(value, ensure_ascii=False)) and "\\u0000" not in json.dumps(value)
    )
)
def test_any_json_comes_back_as_it_was(content: Any) -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        session = MemoristSession("s1", memory)
        items: list[Any] = [{"type": "custom", "content": content}]

        async def write_and_read() -> list[Any]:
            await session.add_items(items)
            return list(await session.get_items())

        assert asyncio.run(write_and_read()) == items


async def test_a_limit_returns_the_latest_items_in_order(memory: memorist.Memorist) -> None:
    session = MemoristSession("s1", memory)
    await session.add_items(ITEMS[:3])
    await session.add_items(ITEMS[3:])

    assert await session.get_items(limit=2) == ITEMS[-2:]
    assert await session.get_items(limit=0) == []
    limited = MemoristSession("s1", memory, session_settings=SessionSettings(limit=1))
    assert await limited.get_items() == ITEMS[-1:]


async def test_calls_of_tools_are_found_by_their_name_and_input(memory: memorist.Memorist) -> None:
    calls: list[Any] = [
        ITEMS[1],
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tide"}},
        {"type": "custom_tool_call", "call_id": "c2", "name": "plot", "input": "depth over time"},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBORw0KGgo="},
    ]
    await MemoristSession("s1", memory).add_items(calls)

    assert [turn.content for turn in memory.list()][::-1] == [
        'lookup: {"place": "harbour"}',
        '{"type": "search", "query": "tide"}',
        "plot: depth over time",
        "image_generation_call",
    ]


async def test_the_same_words_twice_are_two_items(memory: memorist.Memorist) -> None:
    session = MemoristSession("s1", memory)
    yes: Any = {"role": "user", "content": "yes"}

    await session.add_items([yes, yes])
    await session.add_items([yes])

    assert await session.get_items() == [yes, yes, yes]


async def test_pop_takes_the_latest_item_and_each_caller_gets_another(memory: memorist.Memorist) -> None:
    session = MemoristSession("s1", memory)
    items: list[Any] = [{"role": "user", "content": f"message {number}"} for number in range(12)]
    await session.add_items(items)

    popped = await asyncio.gather(*(session.pop_item() for _ in range(12)))

    assert sorted(item["content"] for item in popped) == sorted(item["content"] for item in items)
    assert await session.pop_item() is None


async def test_sessions_and_projects_are_apart(memory: memorist.Memorist) -> None:
    sessions = [
        MemoristSession("s1", memory),
        MemoristSession("s10", memory),
        MemoristSession("s1", memory, project="ada"),
        MemoristSession("s1", memory, project="grace"),
    ]
    for number, session in enumerate(sessions):
        await session.add_items([{"role": "user", "content": f"conversation {number}"}])

    await sessions[0].clear_session()

    assert await sessions[0].get_items() == []
    for number, session in enumerate(sessions[1:], 1):
        assert await session.get_items() == [{"role": "user", "content": f"conversation {number}"}]


@pytest.mark.parametrize(("project", "name"), [("船" * 100, "s1"), ("ada", "s" * 300), ("a/b", "c"), (None, "s" * 129)])
async def test_names_of_any_length_can_be_used(memory: memorist.Memorist, project: str | None, name: str) -> None:
    await MemoristSession("b/c", memory, project="a").add_items([{"role": "user", "content": "of another session"}])
    session = MemoristSession(name, memory, project=project)

    await session.add_items(ITEMS[:1])

    assert await session.get_items() == ITEMS[:1]
    assert len(memory.sessions.list()) == 2


async def test_secrets_are_replaced_unless_redaction_is_off(memory: memorist.Memorist) -> None:
    secret: Any = {"role": "user", "content": "the key is AKIAIOSFODNN7EXAMPLQ"}
    session = MemoristSession("s1", memory)
    await session.add_items([secret])
    with memorist.open(":memory:", embedder="none", redact=False) as careless:
        keeping = MemoristSession("s1", careless)
        await keeping.add_items([secret])

        assert "AKIA" not in json.dumps(await session.get_items())
        assert await keeping.get_items() == [secret]


async def test_the_command_line_finds_what_a_session_stored(memory: memorist.Memorist, path: Path) -> None:
    await MemoristSession("s1", memory).add_items(ITEMS)

    command = [
        sys.executable,
        "-m",
        "memorist",
        "--db",
        str(path),
        "search",
        "harbour office",
        "--mode",
        "keyword",
        "--json",
    ]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert found["results"][0]["content"] == "Where is the harbour office?"
    assert found["results"][0]["session"]["id"] == "s1"


async def test_an_agent_has_its_history_and_searches_the_memory(memory: memorist.Memorist) -> None:
    memory.add("The harbour office is at Pier 4")
    with model_server() as server:
        client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none")
        agent = Agent(
            name="clerk",
            model=OpenAIChatCompletionsModel("gpt-test", client),
            tools=[memory_search_tool(memory)],
        )
        session = MemoristSession("s1", memory)
        server.script = [
            calls("memory_search", {"query": "harbour office"}),
            says("At Pier 4."),
            says("You asked before."),
        ]

        for question in ("Where is the harbour office?", "And again?"):
            result = Runner.run_streamed(agent, question, session=session)
            async for _ in result.stream_events():
                pass
        answer = result.final_output

    assert answer == "You asked before."
    results = [message for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert "Pier 4" in results[0]["content"]
    assert ("user", "Where is the harbour office?") in server.told(2)
    kinds = [item.get("type") for item in await session.get_items()]
    assert "function_call" in kinds
    assert "function_call_output" in kinds


async def test_the_search_tool_says_when_nothing_is_remembered(memory: memorist.Memorist) -> None:
    tool = memory_search_tool(memory)
    context: ToolContext[None] = ToolContext(
        context=None, tool_name="memory_search", tool_call_id="c1", tool_arguments='{"query": "anything"}'
    )

    assert await tool.on_invoke_tool(context, '{"query": "anything"}') == "Nothing is remembered about this."
    assert set(tool.params_json_schema["properties"]) == {"query", "limit"}


@pytest.mark.parametrize("limit", [None, 3])
async def test_an_empty_session_has_no_items(memory: memorist.Memorist, limit: int | None) -> None:
    assert await MemoristSession("s1", memory).get_items(limit) == []
