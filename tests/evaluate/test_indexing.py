"""Indexing of datasets: built once, and again only where the result would differ."""

from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from sets import harbours

from conftest import FailingEmbedder, HashingEmbedder
from memorist import EmbedderError
from memorist.evaluate.dataset import CorpusDocument, Dataset, load_dataset
from memorist.evaluate.indexing import IndexedDataset, index_dataset
from memorist.store.records import EmbeddingJob


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return load_dataset(harbours(tmp_path / "harbours"))


def databases(cache: Path) -> list[str]:
    return sorted(folder.name for folder in (cache / "sets").iterdir())


def test_documents_become_memories_with_scope_session_and_time(dataset: Dataset, tmp_path: Path) -> None:
    with closing(index_dataset(dataset, HashingEmbedder(), tmp_path).memory) as memory:
        found = memory.list(project="south")

        assert {one.metadata["_id"] for one in found} == {"south/0", "south/1", "south/2"}
        assert {one.session.id for one in found if one.session} == {"south/1"}
        assert [f"{one.created_at:%Y-%m-%d %H:%M:%S}" for one in found][-1] == "2023-05-08 13:56:03"
        assert memory.stats().pending == 0


def test_it_is_made_once(dataset: Dataset, tmp_path: Path) -> None:
    model = HashingEmbedder()
    index_dataset(dataset, model, tmp_path).memory.close()
    calls = model.calls

    with closing(index_dataset(dataset, model, tmp_path).memory) as memory:
        assert len(memory.list()) == 6

    assert model.calls == calls
    assert len(databases(tmp_path)) == 1


def test_other_documents_or_another_model_are_another_database(dataset: Dataset, tmp_path: Path) -> None:
    fewer = replace(dataset, documents=dataset.documents[:-1])
    for one, model in (
        (dataset, HashingEmbedder()), (fewer, HashingEmbedder()), (dataset, HashingEmbedder("other")), (dataset, None),
    ):  # fmt: skip
        index_dataset(one, model, tmp_path).memory.close()

    assert len(databases(tmp_path)) == 4


def test_other_questions_are_the_same_database(dataset: Dataset, tmp_path: Path) -> None:
    for one in (dataset, replace(dataset, questions=dataset.questions[:1], split="dev")):
        index_dataset(one, HashingEmbedder(), tmp_path).memory.close()

    assert len(databases(tmp_path)) == 1


def test_where_something_else_of_a_document_is_embedded_it_is_another_database(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_dataset(dataset, HashingEmbedder(), tmp_path).memory.close()
    monkeypatch.setattr(EmbeddingJob, "text", property(lambda one: f"passage: {one.content}"))
    index_dataset(dataset, HashingEmbedder(), tmp_path).memory.close()

    assert len(databases(tmp_path)) == 2


def test_it_is_made_anew_where_that_is_asked_for(dataset: Dataset, tmp_path: Path) -> None:
    with closing(index_dataset(dataset, HashingEmbedder(), tmp_path).memory) as memory:
        memory.add("something that is not of the set")

    with closing(index_dataset(dataset, HashingEmbedder(), tmp_path, rebuild=True).memory) as memory:
        assert len(memory.list()) == 6


def test_an_index_that_was_not_finished_is_not_taken_for_one(dataset: Dataset, tmp_path: Path) -> None:
    def interrupted(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_dataset(dataset, HashingEmbedder(), tmp_path, progress=interrupted)

    assert databases(tmp_path) == []


def test_an_index_that_was_not_wholly_taken_away_is_made_anew(dataset: Dataset, tmp_path: Path) -> None:
    index_dataset(dataset, HashingEmbedder(), tmp_path).memory.close()
    (name,) = databases(tmp_path)
    (tmp_path / "sets" / name / "ids.json").unlink()

    for _ in range(2):
        with closing(index_dataset(dataset, HashingEmbedder(), tmp_path).memory) as memory:
            assert len(memory.list()) == 6
    assert databases(tmp_path) == [name]


def test_a_model_that_fails_leaves_nothing_that_would_be_taken_for_whole(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="the model is away"):
        index_dataset(dataset, FailingEmbedder(), tmp_path)

    assert databases(tmp_path) == []


def test_a_text_said_twice_is_one_memory_and_counts_as_both_documents(tmp_path: Path) -> None:
    documents = tuple(
        CorpusDocument(id, text, None, None, {}) for id, text in (("a", "yes"), ("b", "no"), ("c", "yes"))
    )
    indexed = index_dataset(Dataset("said", documents, ()), None, tmp_path)

    with closing(indexed.memory) as memory:
        found = [hit.memory.id for hit in memory.search("yes", mode="keyword")]

    assert len(found) == 1
    assert indexed.document_ids(found) == ["a", "c"]


def test_documents_come_in_the_order_of_their_memories(memory: object) -> None:
    documents = [CorpusDocument(id, id, None, None, {}) for id in "abc"]

    assert IndexedDataset(memory, documents, ["x", "y", "x"]).document_ids(["y", "x"]) == ["b", "a", "c"]  # type: ignore[arg-type]
