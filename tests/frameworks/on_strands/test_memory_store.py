"""The memory store for Strands Agents: an agent is told what it once noted, and what was said is kept."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from strands import Agent
from strands.memory import AddMessagesContext, ExtractionConfig, InvocationTrigger, MemoryManager
from strands.models.openai import OpenAIModel

import memorist
from memorist.adapters.strands import MemoristMemoryStore
from model_server import ModelServer, calls, model_server, says


def message(role: str, *texts: str) -> Any:
    return {"role": role, "content": [{"text": text} for text in texts]}


def make_agent(server: ModelServer, store: MemoristMemoryStore, **options: Any) -> Agent:
    model = OpenAIModel(client_args={"base_url": f"{server.url}/v1", "api_key": "none"}, model_id="gpt-test")
    manager = MemoryManager(stores=[store], **options)
    return Agent(model=model, memory_manager=manager, callback_handler=None, load_tools_from_directory=False)


def told(server: ModelServer, at: int) -> str:
    return json.dumps(server.bodies[at]["messages"], ensure_ascii=False)


async def test_what_is_added_is_found_with_its_metadata(memory: memorist.Memorist) -> None:
    store = MemoristMemoryStore(memory, project="ada")

    first = await store.add("The boat is called Gannet", {"topic": "boat"})
    again = await store.add("The boat is called Gannet", {"topic": "boat"})

    (entry,) = await store.search("What is the boat called?")
    assert first == again
    assert entry.content == "The boat is called Gannet"
    assert entry.metadata is not None
    assert (entry.metadata["topic"], entry.metadata["id"]) == ("boat", first)


async def test_projects_are_apart(memory: memorist.Memorist) -> None:
    ada, grace = (MemoristMemoryStore(memory, project=name) for name in ("ada", "grace"))
    await ada.add("The boat is blue")
    await grace.add("The boat is red")

    assert [entry.content for entry in await ada.search("boat")] == ["The boat is blue"]
    assert [entry.content for entry in await grace.search("boat")] == ["The boat is red"]


async def test_a_search_has_a_limit_and_takes_any_query(memory: memorist.Memorist) -> None:
    store = MemoristMemoryStore(memory, max_search_results=3)
    for number in range(9):
        await store.add(f"boat {number}")

    assert len(await store.search("boat")) == 3
    assert len(await store.search("boat", {"max_search_results": 2})) == 2
    assert await store.search("  ") == []


async def test_a_batch_of_messages_that_is_tried_again_adds_nothing(memory: memorist.Memorist) -> None:
    store = MemoristMemoryStore(memory, session="s1")
    batch = [message("user", "ok"), message("assistant", "Which boat?"), message("user", "ok")]

    for _ in range(2):
        await store.add_messages(batch, AddMessagesContext(sequence_numbers=[0, 1, 3]))

    turns = [(turn.metadata["role"], turn.content) for turn in reversed(memory.list(session="s1").memories)]
    assert turns == [("user", "ok"), ("assistant", "Which boat?"), ("user", "ok")]


async def test_calls_of_tools_and_their_results_are_left_out(memory: memorist.Memorist) -> None:
    use = {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"at": "boat"}}}
    result = {"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"text": "a blue boat"}]}}
    batch: list[Any] = [
        {"role": "assistant", "content": [{"text": "I look"}, use]},
        {"role": "user", "content": [result]},
    ]

    await MemoristMemoryStore(memory).add_messages(batch)

    (turn,) = memory.list()
    assert turn.content == "I look"
    (entry,) = await MemoristMemoryStore(memory).search("look")
    assert entry.metadata is not None
    assert "item" not in entry.metadata


async def test_a_store_that_is_not_writable_refuses_to_add(memory: memorist.Memorist) -> None:
    store = MemoristMemoryStore(memory, writable=False)

    with pytest.raises(memorist.InvalidInput, match="read-only"):
        await store.add("The boat is blue")
    with pytest.raises(memorist.InvalidInput, match="read-only"):
        await store.add_messages([message("user", "The boat is blue")])
    assert memory.count() == 0


async def test_an_agent_notes_searches_and_is_told_what_it_noted(memory: memorist.Memorist) -> None:
    with model_server() as server:
        server.script = [
            calls("add_memory", {"entries": ["The boat of Ada is called Gannet"]}),
            says("Noted."),
            calls("search_memory", {"query": "boat"}),
            says("Gannet."),
        ]
        first = make_agent(server, MemoristMemoryStore(memory, project="ada"), add_tool_config=True)
        await first.invoke_async("My boat is called Gannet")
        second = make_agent(server, MemoristMemoryStore(memory, project="ada"))
        answer = await second.invoke_async("What is my boat called?")

    (stored,) = memory.list()
    assert (stored.content, stored.project) == ("The boat of Ada is called Gannet", "ada")
    assert str(answer).strip() == "Gannet."
    assert "The boat of Ada is called Gannet" in told(server, 2)
    results = [each for each in server.bodies[3]["messages"] if each["role"] == "tool"]
    assert "The boat of Ada is called Gannet" in json.dumps(results)


async def test_what_is_said_is_kept_without_asking_a_model(memory: memorist.Memorist, path: Path) -> None:
    every_run: ExtractionConfig = ExtractionConfig(trigger=InvocationTrigger())
    store = MemoristMemoryStore(memory, project="ada", session="s1", extraction=every_run)
    with model_server() as server:
        server.script = [says("Noted.")]
        agent = make_agent(server, store)
        await agent.invoke_async("Ada likes pickled herring")
        assert agent.memory_manager is not None
        await agent.memory_manager.flush()

    assert len(server.requests) == 1
    command = [sys.executable, "-m", "memorist", "--db", str(path), "search", "herring", "--mode", "keyword", "--json"]
    (hit,) = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"]
    assert (hit["content"], hit["project"]) == ("Ada likes pickled herring", "ada")
    assert hit["session"]["id"] == "ada/s1"
