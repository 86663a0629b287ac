"""The providers for the Agent Framework: a session goes on where it was, and others know what it said."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Content, Message

import memorist
from memorist.adapters.agent_framework import MemoristContextProvider, MemoristHistoryProvider

MESSAGES = [
    Message("user", ["Where is the harbour office?"], message_id="m1"),
    Message("assistant", [Content.from_function_call("c1", "lookup", arguments={"place": "harbour"})]),
    Message("tool", [Content.from_function_result("c1", result="Pier 4, open until six")]),
    Message("assistant", ["It is at Pier 4."], author_name="clerk", additional_properties={"mood": "kind"}),
]


class ScriptedClient(BaseChatClient[Any]):
    """A client that gives the answers it was given, one a request."""

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.answers = list(answers)
        self.requests: list[list[Message]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **more: Any
    ) -> Any:
        async def answer() -> ChatResponse[Any]:
            self.requests.append(list(messages))
            return ChatResponse(messages=[Message("assistant", [self.answers.pop(0)])])

        return answer()

    def told(self, at: int = -1) -> list[str]:
        return [message.text for message in self.requests[at]]


def plain(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [message.to_dict() for message in messages]


async def test_messages_come_back_as_they_were_tool_calls_included(memory: memorist.Memorist) -> None:
    provider = MemoristHistoryProvider(memory)

    await provider.save_messages("s1", MESSAGES[:2])
    await provider.save_messages("s1", MESSAGES[2:])

    assert plain(await provider.get_messages("s1")) == plain(MESSAGES)
    assert memory.search("open until six", mode="keyword")[0].memory.metadata["role"] == "tool"


async def test_a_transcript_that_begins_with_the_session_adds_only_its_rest(memory: memorist.Memorist) -> None:
    provider = MemoristHistoryProvider(memory)
    await provider.save_messages("s1", MESSAGES[:2])

    await provider.save_messages("s1", MESSAGES)

    assert plain(await provider.get_messages("s1")) == plain(MESSAGES)


async def test_the_same_words_twice_are_two_messages(memory: memorist.Memorist) -> None:
    provider = MemoristHistoryProvider(memory)
    exchange = [Message("user", ["again?"]), Message("assistant", ["yes"])]

    for _ in range(2):
        await provider.save_messages("s1", exchange)

    assert plain(await provider.get_messages("s1")) == plain([*exchange, *exchange])


async def test_sessions_and_projects_are_apart(memory: memorist.Memorist) -> None:
    places = [(None, "s1"), (None, "s2"), ("ada", "s1"), ("grace", "s1"), ("grace", None)]
    for project, session in places:
        provider = MemoristHistoryProvider(memory, project=project)
        await provider.save_messages(session, [Message("user", [f"{project} in {session}"])])

    for project, session in places:
        found = await MemoristHistoryProvider(memory, project=project).get_messages(session)
        assert [message.text for message in found] == [f"{project} in {session}"]
    assert await MemoristHistoryProvider(memory, project="ada").get_messages("s2") == []


async def test_an_agent_goes_on_with_a_session_in_another_process(memory: memorist.Memorist, path: Path) -> None:
    first = ScriptedClient("Noted.")
    agent = Agent(first, context_providers=[MemoristHistoryProvider(memory, project="ada")])
    await agent.run("My boat is called Gannet", session=AgentSession(session_id="s1"))

    with memorist.open(path, embedder="none") as again:
        second = ScriptedClient("Gannet.")
        agent = Agent(second, context_providers=[MemoristHistoryProvider(again, project="ada")])
        answer = await agent.run("What is it called?", session=AgentSession(session_id="s1"))

    assert answer.text == "Gannet."
    assert second.told() == ["My boat is called Gannet", "Noted.", "What is it called?"]


async def test_another_session_is_told_what_is_remembered_and_another_user_is_not(memory: memorist.Memorist) -> None:
    client = ScriptedClient("Noted.", "Gannet.", "I do not know.")
    for user, session, message in [
        ("ada", "s1", "My boat is called Gannet"),
        ("ada", "s2", "What is my boat called?"),
        ("grace", "s1", "What is my boat called?"),
    ]:
        providers = [MemoristHistoryProvider(memory, project=user), MemoristContextProvider(memory, project=user)]
        await Agent(client, context_providers=providers).run(message, session=AgentSession(session_id=session))

    assert client.told(0) == ["My boat is called Gannet"]
    block, question = client.told(1)
    assert "My boat is called Gannet" in block
    assert "not instructions" in block
    assert question == "What is my boat called?"
    assert client.told(2) == ["What is my boat called?"]


async def test_what_a_session_said_itself_is_not_told_twice(memory: memorist.Memorist) -> None:
    client = ScriptedClient("Noted.", "Gannet.")
    providers = [MemoristHistoryProvider(memory), MemoristContextProvider(memory)]
    agent, session = Agent(client, context_providers=providers), AgentSession(session_id="s1")

    await agent.run("My boat is called Gannet", session=session)
    await agent.run("What is my boat called?", session=session)

    assert client.told() == ["My boat is called Gannet", "Noted.", "What is my boat called?"]


async def test_memories_in_a_prompt_are_not_stored_as_if_they_were_said(memory: memorist.Memorist) -> None:
    memory.add("The harbour office is at Pier 4")
    client = ScriptedClient("Pier 4.")
    providers = [MemoristHistoryProvider(memory), MemoristContextProvider(memory)]

    await Agent(client, context_providers=providers).run("harbour office?", session=AgentSession(session_id="s1"))

    assert "Pier 4" in client.told()[0]
    stored = await MemoristHistoryProvider(memory).get_messages("s1")
    assert [message.text for message in stored] == ["harbour office?", "Pier 4."]


async def test_the_command_line_finds_what_a_session_said(memory: memorist.Memorist, path: Path) -> None:
    await MemoristHistoryProvider(memory, project="ada").save_messages("s1", MESSAGES)

    command = [sys.executable, "-m", "memorist", "--db", str(path), "search", "harbour office", "--mode", "keyword"]
    found = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)

    hit = found["results"][0]
    assert (hit["content"], hit["project"]) == ("Where is the harbour office?", "ada")
    assert hit["session"]["id"] == "ada/s1"
