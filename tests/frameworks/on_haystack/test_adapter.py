"""Haystack's document store over a memory, beyond what its own tests look at."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.types import DuplicatePolicy
from haystack.telemetry import _telemetry

import memorist
from memorist.adapters.haystack import MemoristDocumentStore, MemoristHybridRetriever


def test_every_part_of_a_document_comes_back(memory: memorist.Memorist) -> None:
    store = MemoristDocumentStore(memory)
    documents = [
        Document(content="text", meta={"a": {"b": [1, None]}}, embedding=[0.1, -0.2]),
        Document(content=None, blob=ByteStream(b"\x00\xff", mime_type="image/png")),
        Document(content="", meta={"empty": True}, sparse_embedding=SparseEmbedding([1, 5], [0.5, 0.25])),
    ]

    store.write_documents(documents)

    assert store.filter_documents() == documents


@pytest.mark.parametrize("value", ["x", 5, None, {"content": "y"}, {"blob": 1}, {"meta": [1]}])
def test_a_key_of_meta_may_have_any_name(memory: memorist.Memorist, value: object) -> None:
    store = MemoristDocumentStore(memory)
    documents = [
        Document(content="text", meta={"haystack": value, "n": 1}),
        Document(content=None, meta={"haystack": value}, embedding=[0.5]),
    ]
    store.write_documents(documents)
    memory.add("of another program", project="haystack", metadata={"haystack": {"meta": value}, "other": 1})

    filters = {"field": "meta.haystack", "operator": "==", "value": value}
    assert store.filter_documents(filters)[:2] == documents
    assert len(store.filter_documents()) == 3
    store.update_by_filter({"field": "meta.n", "operator": "==", "value": 1}, {"haystack": "new"})
    assert [each.meta["haystack"] for each in store.filter_documents()[:2]] == ["new", value]


def test_projects_are_apart_even_for_the_same_id(memory: memorist.Memorist) -> None:
    ada, grace = (MemoristDocumentStore(memory, project=name) for name in ("ada", "grace"))
    document = Document(content="the same")
    ada.write_documents([document])
    grace.write_documents([document])

    ada.delete_all_documents()

    assert ada.count_documents() == 0
    assert grace.filter_documents() == [document]
    assert MemoristHybridRetriever(ada).run("same")["documents"] == []


def test_a_project_may_have_a_long_name_in_any_language(memory: memorist.Memorist) -> None:
    store = MemoristDocumentStore(memory, project="船" * 200)
    document = Document(content="the same")

    store.write_documents([document])

    assert store.filter_documents() == [document]


def test_a_filtered_search_gives_full_pages(memory: memorist.Memorist) -> None:
    store = MemoristDocumentStore(memory)
    store.write_documents([Document(content=f"boat {n}", meta={"tags": [n % 3], "n": n}) for n in range(30)])
    conditions = [
        {"field": "meta.tags", "operator": "==", "value": [2]},
        {"field": "meta.n", "operator": "<", "value": 20},
    ]
    filters = {"operator": "AND", "conditions": conditions}

    found = store.search("boat", filters=filters, top_k=5)

    assert len(found) == 5
    assert all(document.meta["n"] % 3 == 2 and document.meta["n"] < 20 for document in found)


def test_a_pipeline_with_the_retriever_can_be_saved_and_loaded(path: Path) -> None:
    store = MemoristDocumentStore(target=str(path))
    store.write_documents([Document(content="The harbour opens at six", meta={"lang": "en"})], DuplicatePolicy.SKIP)
    pipeline = Pipeline()
    pipeline.add_component("retriever", MemoristHybridRetriever(store, top_k=1))

    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["memorist.adapters.haystack"])

    (document,) = loaded.run({"retriever": {"query": "when does the harbour open?"}})["retriever"]["documents"]
    assert document.content == "The harbour opens at six"
    assert document.score > 0
    store.close()


def test_a_store_of_an_open_memory_cannot_be_saved(memory: memorist.Memorist) -> None:
    with pytest.raises(memorist.InvalidInput, match="target"):
        MemoristDocumentStore(memory).to_dict()


def test_the_command_line_finds_a_document(memory: memorist.Memorist, path: Path) -> None:
    MemoristDocumentStore(memory).write_documents([Document(content="Ada likes pickled herring", meta={"who": "ada"})])

    command = [sys.executable, "-m", "memorist", "--db", str(path), "search", "herring", "--mode", "keyword", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert [(hit["content"], hit["project"]) for hit in found["results"]] == [("Ada likes pickled herring", "haystack")]


def test_the_telemetry_of_haystack_is_off_in_these_tests() -> None:
    assert _telemetry.telemetry is None
