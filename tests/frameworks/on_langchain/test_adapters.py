"""LangChain's interfaces over a memory, beyond what its standard tests look at."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory

import memorist
from conftest import HashedWords
from memorist.adapters.langchain import (
    MemoristByteStore,
    MemoristChatMessageHistory,
    MemoristEmbeddings,
    MemoristRetriever,
    MemoristVectorStore,
)

MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief"),
    HumanMessage("Where is the harbour office?", id="h1"),
    AIMessage("", tool_calls=[{"name": "lookup", "args": {"place": "harbour"}, "id": "c1"}]),
    ToolMessage("Pier 4", tool_call_id="c1"),
    AIMessage([{"type": "text", "text": "It is at Pier 4."}]),
]


def test_messages_come_back_as_they_were_tool_calls_included(memory: memorist.Memorist) -> None:
    history = MemoristChatMessageHistory(memory, "s1")

    history.add_messages(MESSAGES[:2])
    history.add_messages(MESSAGES[2:])

    assert history.messages == MESSAGES
    history.clear()
    assert history.messages == []


def test_histories_of_sessions_and_projects_are_apart(memory: memorist.Memorist) -> None:
    histories = [
        MemoristChatMessageHistory(memory, "s1"),
        MemoristChatMessageHistory(memory, "s1", project="ada"),
        MemoristChatMessageHistory(memory, "s2"),
    ]
    for number, history in enumerate(histories):
        history.add_user_message(f"message {number}")

    histories[0].clear()

    assert [[message.content for message in history.messages] for history in histories] == [
        [],
        ["message 1"],
        ["message 2"],
    ]


def test_a_chain_has_its_history(memory: memorist.Memorist) -> None:
    chain = RunnableWithMessageHistory(
        RunnableLambda(lambda messages: AIMessage(f"you said {len(messages)} things")),
        lambda session_id: MemoristChatMessageHistory(memory, session_id),
    )
    config = {"configurable": {"session_id": "s1"}}
    chain.invoke([HumanMessage("one")], config)

    answer = chain.invoke([HumanMessage("two")], config)

    assert answer.content == "you said 3 things"


def test_the_command_line_finds_a_message(memory: memorist.Memorist, path: Path) -> None:
    MemoristChatMessageHistory(memory, "s1").add_messages(MESSAGES)

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


def test_the_same_id_in_two_projects_is_two_documents(memory: memorist.Memorist) -> None:
    ada, grace = (MemoristVectorStore(memory, project=name) for name in ("ada", "grace"))
    ada.add_documents([Document("likes herring", id="1")])
    grace.add_documents([Document("likes tulips", id="1")])

    grace.delete(["1"])

    assert [document.page_content for document in ada.get_by_ids(["1"])] == ["likes herring"]
    assert [document.page_content for document in ada.similarity_search("likes")] == ["likes herring"]
    assert grace.similarity_search("likes") == []


def test_documents_of_the_same_text_are_all_kept(memory: memorist.Memorist) -> None:
    store = MemoristVectorStore(memory)

    store.add_documents([Document("same", metadata={"n": 1}), Document("same", metadata={"n": 2})])

    assert sorted(document.metadata["n"] for document in store.similarity_search("same")) == [1, 2]


def test_searches_filter_by_metadata_and_score(memory: memorist.Memorist) -> None:
    store = MemoristVectorStore(memory)
    store.add_texts([f"price of item {n}" for n in range(10)], [{"price": n} for n in range(10)])

    found = store.similarity_search("price", k=3, filter={"price": {"$gte": 7}})

    assert {document.metadata["price"] for document in found} == {7, 8, 9}
    scores = [score for _, score in store.similarity_search_with_score("price of item 3", k=5)]
    assert scores == sorted(scores, reverse=True)
    relevant = store.similarity_search_with_relevance_scores("price", k=5, filter={"price": {"$lt": 2}})
    assert {document.metadata["price"] for document, _ in relevant} == {0, 1}
    assert all(0 <= score <= 1 for _, score in relevant)


def test_deleting_everything_needs_a_project(memory: memorist.Memorist) -> None:
    memory.add("a note of another program")
    store = MemoristVectorStore(memory, project="docs")
    store.add_texts(["one", "two"])

    store.delete()

    assert memory.count() == 1
    with pytest.raises(ValueError, match="every memory"):
        MemoristVectorStore(memory).delete()


def test_a_retriever_finds_what_others_added(memory: memorist.Memorist) -> None:
    memory.add("We deploy with make ship", tags=["deploy"])
    memory.add("Lunch is at noon")
    retriever = MemoristRetriever(memory=memory, k=1, options={"tags": ["deploy"]})
    chain = {"documents": retriever, "question": RunnablePassthrough()} | RunnableLambda(
        lambda given: given["documents"]
    )

    (document,) = chain.invoke("how do we deploy?")

    assert document.page_content == "We deploy with make ship"
    assert 0 <= document.metadata["relevance"] <= 1


def test_mmr_prefers_documents_that_differ(memory: memorist.Memorist) -> None:
    store = MemoristVectorStore(memory)
    store.add_texts(["the boat is red", "the boat is red!", "the harbour opens at six"])

    found = store.max_marginal_relevance_search("boat", k=2, fetch_k=3, lambda_mult=0.1)

    assert "the harbour opens at six" in [document.page_content for document in found]


def test_a_store_is_made_from_texts_with_a_model_of_langchain() -> None:
    store = MemoristVectorStore.from_texts(["one", "two"], MemoristEmbeddings(HashedWords()), ids=["1", "2"])

    assert store.similarity_search("two", k=1)[0].id == "2"
    store.memory.close()


def test_byte_stores_of_projects_are_apart_and_list_keys_by_prefix(memory: memorist.Memorist) -> None:
    store, other = MemoristByteStore(memory, project="a"), MemoristByteStore(memory, project="b")
    store.mset([("cache/1", b"one"), ("cache/2", b"two"), ("x", b"three")])

    assert other.mget(["cache/1"]) == [None]
    assert list(other.yield_keys()) == []
    assert sorted(store.yield_keys(prefix="cache/")) == ["cache/1", "cache/2"]


def test_the_nearest_are_returned_however_far_away_they_are() -> None:
    with memorist.open(":memory:") as memory:
        store = MemoristVectorStore(memory)
        store.add_texts(["Ada does not eat fish", "The harbour opens at six", "Refunds take two weeks"])

        assert len(store.similarity_search("quarterly tax returns", k=3)) == 3
        assert len(MemoristRetriever(memory=memory, k=3).invoke("quarterly tax returns")) == 3
