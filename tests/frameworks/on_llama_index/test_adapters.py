"""The memory block and the retriever for LlamaIndex: what was said long ago is in the prompt again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, CompletionResponse, LLMMetadata, TextBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.memory import Memory
from llama_index.core.query_engine import RetrieverQueryEngine
from pydantic import Field

import memorist
from memorist.adapters.llama_index import MemoristMemoryBlock, MemoristNodeRetriever


class ScriptedModel(CustomLLM):
    """A model that gives the answers it was given, one a prompt."""

    answers: list[str]
    prompts: list[str] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> CompletionResponse:
        self.prompts.append(prompt)
        return CompletionResponse(text=self.answers.pop(0))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        yield self.complete(prompt)


def chat(model: ScriptedModel, session: str, block: MemoristMemoryBlock, tokens: int = 60) -> SimpleChatEngine:
    history = Memory.from_defaults(
        session_id=session, token_limit=tokens, token_flush_size=10, chat_history_token_ratio=0.5, memory_blocks=[block]
    )
    return SimpleChatEngine.from_defaults(llm=model, memory=history)


async def test_a_chat_remembers_what_its_short_term_memory_lost(memory: memorist.Memorist) -> None:
    model = ScriptedModel(answers=["Noted.", "It rains a lot there.", "Still raining.", "Gannet."])
    engine = chat(model, "s1", MemoristMemoryBlock(memory=memory))
    talk = ["My boat is called Gannet", "How is the weather in Bergen these days?", "And in the week after that?"]
    for message in talk:
        await engine.achat(message)

    answer = await engine.achat("What is my boat called?")

    assert str(answer) == "Gannet."
    assert "My boat is called Gannet" in model.prompts[-1]
    assert "<relevant-context" in model.prompts[-1]
    (turn,) = memory.list(metadata={"role": "user"}, session="s1").memories[-1:]
    assert turn.content == "My boat is called Gannet"


async def test_another_session_remembers_and_another_project_does_not(memory: memorist.Memorist) -> None:
    ada, grace = (MemoristMemoryBlock(memory=memory, project=name) for name in ("ada", "grace"))
    await ada.aput([ChatMessage(role="user", content="My boat is called Gannet")], session_id="s1")
    question = [ChatMessage(role="user", content="What is my boat called?")]

    assert "Gannet" in await ada.aget(question, session_id="s2")
    assert await grace.aget(question, session_id="s1") == ""


async def test_sessions_of_the_same_name_in_two_projects_are_two(memory: memorist.Memorist) -> None:
    for name in ("ada", "grace"):
        block = MemoristMemoryBlock(memory=memory, project=name)
        await block.aput([ChatMessage(role="user", content=f"I am {name}")], session_id="s1")

    assert {each.project: each.content for each in memory.list()} == {"ada": "I am ada", "grace": "I am grace"}


async def test_messages_without_text_are_left_out(memory: memorist.Memorist) -> None:
    block = MemoristMemoryBlock(memory=memory)
    call = ToolCallBlock(tool_name="look", tool_kwargs={"at": "boat"})
    messages = [
        ChatMessage(role="assistant", blocks=[call]),
        ChatMessage(role="assistant", blocks=[TextBlock(text="The boat is"), TextBlock(text="blue"), call]),
        ChatMessage(role="user", content="  "),
    ]

    await block.aput(messages)

    assert [each.content for each in memory.list()] == ["The boat is\nblue"]


async def test_a_block_gives_nothing_without_a_question_and_keeps_to_its_budget(memory: memorist.Memorist) -> None:
    for number in range(40):
        memory.add(f"boat number {number} is moored at pier {number}")
    small = MemoristMemoryBlock(memory=memory, budget=120, limit=40)

    assert await small.aget() == ""
    assert await small.aget([ChatMessage(role="user", content="")]) == ""
    text = await small.aget([ChatMessage(role="user", content="boat pier")])
    assert text
    assert len(text) < 120 * 5


async def test_the_question_is_the_latest_of_the_user(memory: memorist.Memorist) -> None:
    memory.add("The harbour office is at Pier 4")
    memory.add("Herring is eaten with onions")
    messages = [
        ChatMessage(role="user", content="herring onions"),
        ChatMessage(role="user", content="harbour office"),
        ChatMessage(role="tool", content="herring onions"),
    ]

    text = await MemoristMemoryBlock(memory=memory, limit=1).aget(messages)

    assert "Pier 4" in text
    assert "onions" not in text


async def test_the_retriever_serves_a_query_engine(memory: memorist.Memorist) -> None:
    memory.add("The harbour office is at Pier 4", project="ada", metadata={"lang": "en"})
    memory.add("The harbour office is closed", project="grace")
    model = ScriptedModel(answers=["Pier 4.", "Pier 4."])
    engine = RetrieverQueryEngine.from_args(MemoristNodeRetriever(memory, project="ada"), llm=model)

    answers = [engine.query("Where is the harbour office?"), await engine.aquery("Where is the harbour office?")]

    for answer, prompt in zip(answers, model.prompts, strict=True):
        (found,) = answer.source_nodes
        assert (found.node.text, found.node.metadata) == ("The harbour office is at Pier 4", {"lang": "en"})
        assert memory.get([found.node.node_id])
        assert found.score > 0
        assert "at Pier 4" in prompt
        assert "closed" not in prompt


def test_the_retriever_takes_a_limit_and_the_filters_of_a_search(memory: memorist.Memorist) -> None:
    for number in range(9):
        memory.add(f"boat {number}", metadata={"n": number})

    limited = MemoristNodeRetriever(memory, similarity_top_k=3).retrieve("boat")
    filtered = MemoristNodeRetriever(memory, options={"metadata": {"n": {"$gte": 8}}}).retrieve("boat")

    assert len(limited) == 3
    assert [found.text for found in filtered] == ["boat 8"]


async def test_a_retrieved_turn_has_no_copy_of_its_message(memory: memorist.Memorist) -> None:
    await MemoristMemoryBlock(memory=memory).aput([ChatMessage(role="user", content="My boat is blue")], session_id="s")

    (found,) = await MemoristNodeRetriever(memory).aretrieve("boat")

    assert found.node.metadata == {"role": "user", "framework": "llama-index", "session": "s"}


async def test_the_command_line_finds_what_a_chat_said(memory: memorist.Memorist, path: Path) -> None:
    block = MemoristMemoryBlock(memory=memory, project="ada")
    await block.aput([ChatMessage(role="user", content="Ada likes pickled herring")], session_id="s1")

    command = [sys.executable, "-m", "memorist", "--db", str(path), "search", "herring", "--mode", "keyword", "--json"]
    (hit,) = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"]

    assert (hit["content"], hit["project"]) == ("Ada likes pickled herring", "ada")
    assert hit["session"]["id"] == "ada/s1"
