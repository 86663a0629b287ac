"""MemoristStore beside InMemoryStore: the same operations give the same items."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.graph import StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import Item, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import memorist
from conftest import HashedWords
from memorist.adapters.langgraph import MemoristStore

LABELS = st.sampled_from(["a", "b", "ab", "a/b", "A", "%2F;", "*x", "ü", "a ", "\u3000a"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "K", "k/1", "", " ", "é"])
SCALARS = (
    st.none() | st.integers(2, 9) | st.sampled_from(["x", "y", "2", ""]) | st.floats(2, 9).map(lambda x: round(x, 1))
)
FIELDS = st.sampled_from(["n", "m", "with-hyphen", "dollar$", "ü"])
VALUES = st.dictionaries(
    FIELDS, SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(FIELDS, SCALARS, max_size=2), max_size=3
)
TESTS = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from(["$eq", "$ne"]), SCALARS, min_size=1)
FILTERS = st.dictionaries(FIELDS, TESTS | st.dictionaries(FIELDS, SCALARS, min_size=1, max_size=2), max_size=2)
PUTS = st.tuples(NAMESPACES, KEYS, st.none() | VALUES).map(lambda fields: PutOp(*fields))
PATTERNS = st.lists(LABELS | st.just("*"), min_size=1, max_size=2).map(tuple)
CONDITIONS = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PATTERNS)
LISTINGS = st.builds(
    ListNamespacesOp,
    st.lists(CONDITIONS, max_size=2).map(tuple),
    st.none() | st.integers(1, 3),
    st.just(100),
    st.just(0),
)


def contents(items: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((item.namespace, item.key, json.dumps(item.value, sort_keys=True)) for item in items)


@settings(max_examples=100)
@given(
    puts=st.lists(PUTS, max_size=6),
    prefixes=st.lists(st.just(()) | NAMESPACES, min_size=1, max_size=2),
    filters=st.lists(FILTERS, min_size=1, max_size=2),
    listings=st.lists(LISTINGS, max_size=3),
)
def test_it_holds_what_the_store_in_memory_holds(
    puts: list[PutOp], prefixes: list[tuple[str, ...]], filters: list[dict[str, Any]], listings: list[ListNamespacesOp]
) -> None:
    reference = InMemoryStore()
    with memorist.open(":memory:", embedder="none") as memory:
        store = MemoristStore(memory)
        for put in puts:
            reference.batch([put])
            store.batch([put])

        for put in puts:
            expected, found = reference.get(put.namespace, put.key), store.get(put.namespace, put.key)
            assert (expected and expected.value) == (found and found.value)
        for prefix in prefixes:
            for filter in filters:
                op = SearchOp(prefix, filter, limit=100)
                assert contents(store.batch([op])[0]) == contents(reference.batch([op])[0]), op
        emptied = {put.namespace for put in puts} - {item.namespace for item in reference.search((), limit=100)}
        for listing in listings:
            # A store in memory also lists namespaces from which the last item was deleted.
            expected_names = reference.batch([listing])[0]
            if not emptied:
                assert store.batch([listing])[0] == expected_names, listing


def test_pages_of_a_filtered_listing_are_full_and_do_not_overlap(memory: memorist.Memorist) -> None:
    store = MemoristStore(memory)
    store.batch([PutOp(("a",), str(number), {"tags": [number % 2], "number": number}) for number in range(40)])

    pages = [store.search(("a",), filter={"tags": [1]}, limit=6, offset=offset) for offset in range(0, 24, 6)]

    assert [len(page) for page in pages] == [6, 6, 6, 2]
    assert len({item.key for page in pages for item in page}) == 20


def test_users_do_not_see_each_other(memory: memorist.Memorist) -> None:
    store = MemoristStore(memory)
    store.put(("users", "1"), "likes", {"text": "strawberries"})
    store.put(("users", "12"), "likes", {"text": "strawberries"})
    store.put(("users", "1", "old"), "likes", {"text": "strawberries"})

    found = store.search(("users", "1"), query="strawberries")

    assert {item.namespace for item in found} == {("users", "1"), ("users", "1", "old")}


def test_a_filter_key_with_sql_in_it_matches_nothing(memory: memorist.Memorist) -> None:
    store = MemoristStore(memory)
    store.put(("docs",), "private", {"access": "private"})

    assert store.search(("docs",), filter={"access') = 'public' OR '1'='1' OR json_extract(value, '$.": "dummy"}) == []


def test_reading_an_item_extends_its_time_to_live_but_does_not_update_it(memory: memorist.Memorist) -> None:
    store = MemoristStore(memory, ttl={"default_ttl": 5})
    store.put(("a",), "k", {"text": "one"})
    first = store.get(("a",), "k", refresh_ttl=False)
    (before,) = memory.list()

    second = store.get(("a",), "k", refresh_ttl=True)
    (after,) = memory.list()

    assert isinstance(first, Item)
    assert first == second
    assert before.expires_at is not None
    assert after.expires_at is not None
    assert after.expires_at > before.expires_at


def test_an_item_of_several_fields_is_found_by_each_and_returned_once(memory: memorist.Memorist) -> None:
    store = MemoristStore(memory, index={"fields": ["title", "notes[*]"]})
    store.put(("a",), "k", {"title": "harbour", "notes": ["paint the boat", "buy rope"], "secret": "tulip"})
    store.put(("a",), "other", {"title": "garden", "notes": ["water the roses"]})

    assert [item.key for item in store.search(("a",), query="buy rope", limit=1)] == ["k"]
    assert len(store.search(("a",), query="boat rope harbour", limit=10)) == 2
    store.put(("a",), "k", {"title": "harbour"})
    assert memory.count(kind="langgraph-passage") == 2  # of the other item
    store.delete(("a",), "k")
    assert [item.key for item in store.search(("a",), query="harbour")] == ["other"]


def test_the_command_line_finds_an_item(memory: memorist.Memorist, path: Path) -> None:
    MemoristStore(memory).put(("users", "ada"), "food", {"text": "Ada likes pickled herring"})

    command = [sys.executable, "-m", "memorist", "--db", str(path), "search", "herring", "--mode", "keyword", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert [(hit["content"], hit["project"]) for hit in found["results"]] == [
        ("Ada likes pickled herring", "users/ada")
    ]


async def test_many_async_calls_at_once_lose_nothing(memory: memorist.Memorist) -> None:
    store = MemoristStore(memory)

    await asyncio.gather(*(store.aput(("a",), str(number), {"number": number}) for number in range(30)))

    assert len(await store.asearch(("a",), limit=100)) == 30


def test_a_graph_remembers_across_threads(memory: memorist.Memorist) -> None:
    class State(TypedDict):
        user: str
        said: str
        known: str

    def remember(state: State, runtime: Runtime[None]) -> dict[str, Any]:
        assert runtime.store is not None
        found = runtime.store.search(("users", state["user"]), query=state["said"])
        runtime.store.put(("users", state["user"]), str(len(found)), {"text": state["said"]})
        return {"known": found[0].value["text"] if found else ""}

    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.set_entry_point("remember")
    graph = builder.compile(store=MemoristStore(memory))

    graph.invoke({"user": "ada", "said": "I keep bees", "known": ""})

    assert graph.invoke({"user": "ada", "said": "what do I keep?", "known": ""})["known"] == "I keep bees"
    assert graph.invoke({"user": "bob", "said": "what do I keep?", "known": ""})["known"] == ""


def test_a_store_opened_with_a_model_of_langchain_uses_it(path: Path) -> None:
    calls: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        calls.extend(texts)
        return HashedWords().embed(texts)

    with MemoristStore.open(path, index={"dims": 64, "embed": embed}) as store:
        store.put(("a",), "k", {"text": "one two"})
        assert store.search(("a",), query="two")[0].key == "k"

    assert "one two" in calls


@pytest.mark.parametrize("operator", ["$in", "$regex"])
def test_an_operator_that_langgraph_does_not_know_is_refused(memory: memorist.Memorist, operator: str) -> None:
    store = MemoristStore(memory)
    store.put(("a",), "k", {"n": 1})

    with pytest.raises(ValueError, match="no operator"):
        store.search(("a",), filter={"n": {operator: [1]}})
