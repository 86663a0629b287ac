"""Counting and forgetting by filters, pages of a search, and the namespaces of a database."""

from pathlib import Path
from typing import Any

import pytest

import memorist
from memorist import InvalidInput, Memorist
from memorist.profiles import PROFILES
from memorist.store import forgetting
from memorist.store.forgetting import list_versions


@pytest.fixture
def notes(hashed: Memorist) -> Memorist:
    hashed.add_many(
        {"content": f"a note on trains, number {number}", "project": f"p{number % 2}", "metadata": {"n": number % 3}}
        for number in range(30)
    )
    return hashed


def test_counts_take_the_filters_of_a_listing(notes: Memorist) -> None:
    assert notes.count() == 30
    assert notes.count(project="p1", metadata={"n": 2}) == len(notes.list(project="p1", metadata={"n": 2})) == 5


def test_what_passes_is_forgotten_and_can_be_restored(notes: Memorist) -> None:
    assert notes.forget_many(project="p1", metadata={"n": 2}) == 5

    assert (notes.count(), notes.count(deleted=True)) == (25, 5)
    for memory in notes.list(deleted=True, metadata={"n": 2}):
        notes.restore(memory.id)
    assert notes.count() == 30


def test_hard_erases(notes: Memorist) -> None:
    assert notes.forget_many(hard=True, metadata={"n": 0}) == 10
    assert (notes.count(), notes.count(deleted=True)) == (20, 0)


def test_what_is_changed_before_it_is_forgotten_is_tested_again(
    notes: Memorist, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata are tested while others write; what is forgotten passes the filter at that moment all the same."""
    first, second, third, fourth, fifth = notes.list(project="p1", metadata={"n": 2})
    rounds = 0

    def list_then_change(*arguments: Any) -> list[tuple[int, int]]:
        nonlocal rounds
        found, rounds = list_versions(*arguments), rounds + 1
        if rounds == 1:
            notes.update(first.id, metadata={"n": 7})
            notes.update(second.id, project="p0")
            notes.update(third.id, title="another title")
            notes.pin(fourth.id)
            notes.forget(fifth.id, hard=True)
            notes.add("a new one", project="p1", metadata={"n": 2})
        return found

    monkeypatch.setattr(forgetting, "list_versions", list_then_change)

    assert notes.forget_many(project="p1", metadata={"n": 2}, pinned=False) == 2
    assert {one.id for one in notes.list(deleted=True)} >= {third.id}
    assert notes.get([first.id, second.id, fourth.id]).missing == ()
    assert (notes.count(project="p1", metadata={"n": 2}), notes.count(), notes.count(deleted=True)) == (1, 28, 2)


def test_more_are_forgotten_than_one_transaction_takes(notes: Memorist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_FORGOTTEN_AT_ONCE", 4)
    monkeypatch.setattr(forgetting, "_LISTED_AT_ONCE", 11)

    assert notes.forget_many(project=["p0", "p1"], metadata={"n": {"$gt": 0}}) == 20
    assert (notes.count(), notes.count(deleted=True)) == (10, 20)


@pytest.mark.parametrize("filters", [{}, {"project": None}, {"metadata": {}}, {"project": "p1", "as_of": "now"}])
def test_without_a_filter_nothing_is_forgotten(notes: Memorist, filters: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        notes.forget_many(**filters)
    assert notes.count() == 30


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
@pytest.mark.parametrize("limit", [1, 4, 7])
def test_pages_hold_every_hit_once_and_the_first_is_the_plain_search(notes: Memorist, mode: str, limit: int) -> None:
    pages = [notes.search("note on trains 7", mode=mode, limit=limit, offset=start) for start in range(0, 33, limit)]
    ids = [hit.memory.id for page in pages for hit in page]

    assert sorted(ids) == sorted(memory.id for memory in notes.list())
    assert [h.memory.id for h in pages[0]] == [
        h.memory.id for h in notes.search("note on trains 7", mode=mode, limit=limit)
    ]


@pytest.mark.parametrize("offset", [-1, 991, 1.5, "1"])
def test_an_offset_beyond_the_thousandth_hit_is_refused(notes: Memorist, offset: int) -> None:
    with pytest.raises(InvalidInput, match="offset"):
        notes.search("note", limit=10, offset=offset)


def test_namespaces_are_listed_by_their_beginning(target: Path | str) -> None:
    for name in ("team a", "team b", "other"):
        with memorist.open(target, namespace=name, embedder="none") as memory:
            memory.add("a note")

    assert memorist.namespaces(target, prefix="team ") == ["team a", "team b"]
    assert {"team a", "team b", "other"} <= set(memorist.namespaces(target))


def test_hits_less_similar_than_nothing_keep_their_order(tmp_path: Path) -> None:
    class Opposite:
        model_id, dimensions = "opposite-2", 2

        def embed(self, texts: list[str]) -> list[list[float]]:
            vectors = {"query": [1.0, 0.0], "far": [-1.0, 0.1], "near": [-0.2, 1.0], "middle": [-0.6, 0.8]}
            return [vectors[text] for text in texts]

    with memorist.open(tmp_path / "memory.db", embedder=Opposite()) as memory:
        memory.add_many(["middle", "near", "far"])
        for profile in PROFILES:
            found = memory.search(
                "query", mode="semantic", profile=profile, rerank="off", min_similarity=-1, min_score=0
            )
            assert [hit.memory.content for hit in found] == ["near", "middle", "far"], profile
