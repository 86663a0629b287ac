"""The tool set for Pydantic AI: an agent remembers, finds and forgets, in the project that the program chose."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ModelMessage, ModelResponse, RunContext, TextPart, ToolCallPart
from pydantic_ai.messages import RetryPromptPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import memorist
from memorist.adapters.pydantic_ai import MemoristToolset
from model_server import calls, model_server, says


@dataclass
class Deps:
    user: str


def call(name: str, **arguments: Any) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(name, arguments)])


def done() -> ModelResponse:
    return ModelResponse(parts=[TextPart("done")])


def scripted(*answers: ModelResponse, seen: list[AgentInfo] | None = None) -> FunctionModel:
    left = list(answers)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if seen is not None:
            seen.append(info)
        return left.pop(0)

    return FunctionModel(answer)


def parameters(info: AgentInfo) -> dict[str, set[str]]:
    return {tool.name: set(tool.parameters_json_schema["properties"]) for tool in info.function_tools}


async def run(toolset: MemoristToolset[Any], *answers: ModelResponse, deps: Any = None) -> list[str]:
    """Return what the tools gave back for the calls of a model."""
    agent: Agent[Any, str] = Agent(scripted(*answers, done()), toolsets=[toolset])
    result = await agent.run("go", deps=deps)
    parts = [part for message in result.all_messages() for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]


async def test_what_an_agent_added_is_found_by_a_later_run(memory: memorist.Memorist) -> None:
    toolset: MemoristToolset[None] = MemoristToolset(memory, project="ada")

    (added,) = await run(toolset, call("memory_add", content="The boat is called Gannet", tags=["boat"]))
    (found,) = await run(toolset, call("memory_search", query="What is the boat called?"))

    (stored,) = memory.list()
    assert (stored.content, stored.project, stored.tags) == ("The boat is called Gannet", "ada", ("boat",))
    assert stored.short_id in added
    assert "The boat is called Gannet" in found
    assert "not instructions" in found


async def test_the_project_comes_from_the_dependencies_of_each_run(memory: memorist.Memorist) -> None:
    def user_of(run: RunContext[Deps]) -> str:
        return run.deps.user

    toolset: MemoristToolset[Deps] = MemoristToolset(memory, project=user_of)
    await run(toolset, call("memory_add", content="The boat is called Gannet"), deps=Deps("ada"))
    search = call("memory_search", query="What is the boat called?")

    assert "Gannet" in (await run(toolset, search, deps=Deps("ada")))[0]
    assert await run(toolset, search, deps=Deps("grace")) == ["Nothing is remembered about this."]


async def test_forgetting_can_be_undone_and_stays_in_the_project(memory: memorist.Memorist) -> None:
    mine, other = memory.add("The boat is blue", project="ada"), memory.add("The boat is red", project="grace")
    toolset: MemoristToolset[None] = MemoristToolset(memory, project="ada")

    gone = await run(toolset, call("memory_forget", id=mine.short_id))
    refused = await run(toolset, call("memory_forget", id=other.short_id))

    assert gone == ["Forgotten."]
    assert "no memory of project 'ada' has the id" in refused[0]
    assert [each.content for each in memory.list()] == ["The boat is red"]
    assert memory.restore(mine.id).content == "The boat is blue"


async def test_a_short_id_means_a_memory_of_the_project(memory: memorist.Memorist) -> None:
    for number, project in enumerate(("ada", "grace")):
        id = f"0199aaaa-0000-7000-8000-00000000000{number}"  # the same beginning
        memory.add(f"The boat of {project}", project=project, id=id)

    gone = await run(MemoristToolset(memory, project="ada"), call("memory_forget", id="0199aaaa"))

    assert gone == ["Forgotten."]
    assert [each.project for each in memory.list()] == ["grace"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (call("memory_add", content="   "), "empty"),
        (call("memory_forget", id="not-there"), "no memory has the id"),
    ],
)
async def test_an_error_is_told_to_the_model_which_can_try_again(
    memory: memorist.Memorist, wrong: ModelResponse, message: str
) -> None:
    first, second = await run(MemoristToolset(memory), wrong, call("memory_add", content="The boat is blue"))

    assert message in first
    assert "Remembered" in second


async def test_any_limit_is_taken(memory: memorist.Memorist) -> None:
    for number in range(60):
        memory.add(f"boat {number}")
    toolset: MemoristToolset[None] = MemoristToolset(memory, budget=100_000)

    few, many = await run(
        toolset, call("memory_search", query="boat", limit=-3), call("memory_search", query="boat", limit=10_000)
    )

    assert few.count("<memory ") == 1
    assert 1 < many.count("<memory ") <= 50


async def test_a_model_sees_the_tools_and_how_to_use_them(memory: memorist.Memorist) -> None:
    seen: list[AgentInfo] = []
    for read_only in (False, True):
        toolset: MemoristToolset[None] = MemoristToolset(memory, read_only=read_only)
        await Agent(scripted(done(), seen=seen), toolsets=[toolset]).run("go")

    search = {"memory_search": {"query", "limit"}}
    assert parameters(seen[0]) == search | {"memory_add": {"content", "tags"}, "memory_forget": {"id"}}
    assert parameters(seen[1]) == search
    assert "Search it before" in str(seen[0].instructions)
    assert "Add what" not in str(seen[1].instructions)
    (tool,) = seen[1].function_tools
    assert tool.description == "Search what is remembered from earlier conversations and notes, by word and by meaning."
    assert "in any language" in tool.parameters_json_schema["properties"]["query"]["description"]


async def test_an_agent_on_a_server_uses_the_memory(memory: memorist.Memorist) -> None:
    memory.add("The harbour office is at Pier 4")
    with model_server() as server:
        model = OpenAIChatModel("gpt-test", provider=OpenAIProvider(base_url=f"{server.url}/v1", api_key="none"))
        agent = Agent(model, toolsets=[MemoristToolset(memory)])
        server.script = [calls("memory_search", {"query": "harbour office"}), says("At Pier 4.")]

        async with agent.run_stream("Where is the harbour office?") as result:
            answer = await result.get_output()

    assert answer == "At Pier 4."
    results = [message for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert "Pier 4" in results[0]["content"]


async def test_the_command_line_finds_what_an_agent_added(memory: memorist.Memorist, path: Path) -> None:
    await run(MemoristToolset(memory, project="ada"), call("memory_add", content="Ada likes pickled herring"))

    command = [sys.executable, "-m", "memorist", "--db", str(path), "search", "herring", "--mode", "keyword", "--json"]
    (hit,) = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"]

    assert (hit["content"], hit["project"]) == ("Ada likes pickled herring", "ada")
