"""The memory service for Google's ADK: what a user said is found again, by that user alone."""

import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import load_memory, preload_memory
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

import memorist
from memorist.adapters.google_adk import MemoristMemoryService, project_of

ADA: dict[str, Any] = {"app_name": "harbour", "user_id": "ada"}


class ScriptedModel(BaseLlm):
    """A model that gives the answers it was given, one a request."""

    model: str = "scripted"
    answers: list[types.Part]
    requests: list[LlmRequest] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(llm_request.model_copy(deep=True))
        yield LlmResponse(content=types.Content(role="model", parts=[self.answers.pop(0)]))


def event(text: str, id: str, author: str = "user", timestamp: float = 1_780_000_000.0) -> Event:
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(id=id, author=author, content=content, timestamp=timestamp, invocation_id="i1")


def session(*events: Event, id: str = "s1", app: str = "harbour", user: str = "ada") -> Session:
    return Session(id=id, app_name=app, user_id=user, events=list(events))


async def texts(service: MemoristMemoryService, query: str, **who: str) -> list[str]:
    found = await service.search_memory(query=query, **(ADA | who))
    return [entry.content.parts[0].text for entry in found.memories]


async def test_what_was_said_in_a_session_is_found_with_author_and_time(memory: memorist.Memorist) -> None:
    service = MemoristMemoryService(memory)
    await service.add_session_to_memory(
        session(event("Where is the harbour office?", "e1"), event("At Pier 4", "e2", "clerk", 1_780_000_001.5))
    )

    entry = (await service.search_memory(query="Pier", **ADA)).memories[0]

    assert entry.content == types.Content(role="model", parts=[types.Part(text="At Pier 4")])
    assert (entry.id, entry.author, entry.timestamp) == ("e2", "clerk", "2026-05-28T20:26:41.500000+00:00")
    assert entry.custom_metadata == {}


async def test_a_session_that_grows_can_be_added_again(memory: memorist.Memorist) -> None:
    service = MemoristMemoryService(memory)
    first, second = event("The boat is called Gannet", "e1"), event("The boat is blue", "e2", "clerk")

    await service.add_session_to_memory(session(first))
    await service.add_session_to_memory(session(first, second))
    await service.add_events_to_memory(events=[second, event("The boat is old", "e3")], session_id="s1", **ADA)

    assert sorted(await texts(service, "boat")) == ["The boat is blue", "The boat is called Gannet", "The boat is old"]


async def test_thoughts_tool_calls_and_their_results_are_not_memories(memory: memorist.Memorist) -> None:
    service = MemoristMemoryService(memory)
    parts = [
        types.Part(text="the boat may be secret", thought=True),
        types.Part(function_call=types.FunctionCall(name="find", args={"what": "boat"})),
        types.Part(function_response=types.FunctionResponse(name="find", response={"found": "boat"})),
    ]
    events = [Event(id=f"e{n}", author="clerk", content=types.Content(parts=[part])) for n, part in enumerate(parts)]

    await service.add_session_to_memory(session(*events, Event(id="e9", author="clerk")))

    assert memory.count() == 0


async def test_users_and_apps_are_apart_even_for_the_same_ids(memory: memorist.Memorist) -> None:
    service = MemoristMemoryService(memory)
    owners = [("harbour", "ada"), ("harbour", "grace"), ("shop", "ada"), ("shop/ada", ""), ("shop", " ada")]
    for app, user in owners:
        said = event(f"The secret word of {user} in {app} is gannet", "e1")
        await service.add_session_to_memory(session(said, app=app, user=user))

    await service.delete_memory(app_name="harbour", user_id="ada", memory_id="e1")

    assert await texts(service, "secret word gannet") == []
    for app, user in owners[1:]:
        found = await texts(service, "secret word gannet", app_name=app, user_id=user)
        assert found == [f"The secret word of {user} in {app} is gannet"]


@given(names=st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=2, max_size=2, unique=True))
def test_no_two_users_share_a_project(names: list[tuple[str, str]]) -> None:
    try:
        first, second = (project_of(app, user) for app, user in names)
    except UnicodeEncodeError:  # no text that can be stored
        return

    assert first != second


async def test_a_memory_of_another_user_cannot_be_deleted(memory: memorist.Memorist) -> None:
    service = MemoristMemoryService(memory)
    await service.add_session_to_memory(session(event("The boat is blue", "e1")))
    (stored,) = memory.list()

    for id in ("e1", stored.id, "nothing", None):
        await service.delete_memory(app_name="harbour", user_id="grace", memory_id=id)

    assert await texts(service, "boat") == ["The boat is blue"]


async def test_what_was_deleted_does_not_come_back_with_its_session(memory: memorist.Memorist) -> None:
    service = MemoristMemoryService(memory)
    whole = session(event("The boat is blue", "e1"), event("The boat is old", "e2"))
    await service.add_session_to_memory(whole)

    await service.delete_memory(memory_id="e1", **ADA)
    await service.add_session_to_memory(whole)

    assert await texts(service, "boat") == ["The boat is old"]


async def test_memories_can_be_added_directly_with_metadata_of_their_own(memory: memorist.Memorist) -> None:
    service = MemoristMemoryService(memory)
    content = types.Content(role="user", parts=[types.Part(text="Ada does not eat fish")])
    entry = MemoryEntry(id="diet", content=content, author="clerk", custom_metadata={"topic": "food"})

    await service.add_memory(memories=[entry], custom_metadata={"by": "form"}, **ADA)
    await service.add_memory(memories=[entry], custom_metadata={"by": "form"}, **ADA)

    (found,) = (await service.search_memory(query="fish", **ADA)).memories
    assert (found.id, found.custom_metadata) == ("diet", {"topic": "food", "by": "form"})
    assert memory.count(metadata={"topic": "food"}) == 1
    with pytest.raises(memorist.InvalidInput, match="text"):
        await service.add_memory(memories=[MemoryEntry(content=types.Content(parts=[]))], **ADA)


async def test_a_search_has_a_limit_and_takes_any_query(memory: memorist.Memorist) -> None:
    service = MemoristMemoryService(memory, limit=3)
    await service.add_events_to_memory(events=[event(f"boat {n}", f"e{n}") for n in range(9)], **ADA)

    assert len(await texts(service, "boat")) == 3
    assert await texts(service, "  ") == []


async def test_the_command_line_finds_what_a_session_stored(memory: memorist.Memorist, path: Path) -> None:
    await MemoristMemoryService(memory).add_session_to_memory(session(event("Ada likes pickled herring", "e1")))

    command = [sys.executable, "-m", "memorist", "--db", str(path), "search", "herring", "--mode", "keyword", "--json"]
    (hit,) = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"]

    assert (hit["content"], hit["project"]) == ("Ada likes pickled herring", "harbour/ada")
    assert hit["session"]["id"] == "harbour%2Fada/s1"


async def test_an_agent_remembers_what_was_said_in_an_earlier_session(memory: memorist.Memorist) -> None:
    model = ScriptedModel(
        answers=[
            types.Part(text="Noted."),
            types.Part(function_call=types.FunctionCall(name="load_memory", args={"query": "boat"})),
            types.Part(text="Gannet."),
            types.Part(text="I do not know."),
        ]
    )

    async def remember(callback_context: Any) -> None:
        await callback_context.add_session_to_memory()

    agent = LlmAgent(name="clerk", model=model, tools=[load_memory, preload_memory], after_agent_callback=remember)
    sessions = InMemorySessionService()
    runner = Runner(
        app_name="harbour", agent=agent, session_service=sessions, memory_service=MemoristMemoryService(memory)
    )
    answers = []
    for user, question in [("ada", "My boat is Gannet"), ("ada", "Name my boat"), ("grace", "Name my boat")]:
        started = await sessions.create_session(app_name="harbour", user_id=user)
        message = types.Content(role="user", parts=[types.Part(text=question)])
        async for each in runner.run_async(user_id=user, session_id=started.id, new_message=message):
            if each.is_final_response():
                answers.append(each.content.parts[0].text)

    told = [request.model_dump_json() for request in model.requests]
    assert answers == ["Noted.", "Gannet.", "I do not know."]
    assert "PAST_CONVERSATIONS" in told[1]
    assert "My boat is Gannet" in told[1]
    results = [part.function_response for content in model.requests[2].contents for part in content.parts]
    assert "My boat is Gannet" in str([result.response for result in results if result])
    assert "Gannet" not in told[3]
