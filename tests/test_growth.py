"""What reading and writing take as one memory, chain or session grows: counted in steps of the database, not timed."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import memorist
from memorist import InvalidInput, Memorist
from memorist.store.relations import MAX_FACT_CHANGES
from memorist.validation import MAX_FACTS
from statements import count_steps

START = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def measured() -> Iterator[tuple[Memorist, Callable[[Callable[[], object]], int]]]:
    """A memory, and a function that returns how many steps of SQLite's a call takes."""
    with count_steps() as steps, memorist.open(":memory:", embedder="none") as memory:

        def measure(call: Callable[[], object]) -> int:
            steps.clear()
            call()
            return sum(steps)

        yield memory, measure


def add_chain(memory: Memorist, length: int) -> list[str]:
    """Add memories of which each supersedes the one before."""
    ids = [memory.add(f"The deploy is number {n}", created_at=START + timedelta(hours=n)).id for n in range(length)]
    for old, new in pairwise(ids):
        memory.supersede(old, new)
    return ids


@pytest.mark.parametrize("read", ["timeline", "list", "get"])
def test_a_chain_of_supersessions_is_walked_once_for_a_whole_page(read: str) -> None:
    taken = []
    for length in (100, 400):
        with measured() as (memory, measure):
            ids = add_chain(memory, length)
            calls: dict[str, Callable[[], object]] = {
                "timeline": lambda: memory.timeline(start="2025", end="2027"),
                "list": lambda: memory.list(limit=1000),
                "get": lambda: memory.get(ids),  # noqa: B023  (called at once)
            }
            taken.append(measure(calls[read]))

    assert taken[1] < 6 * taken[0]  # four times as many memories, each with four times as long a chain before it


def test_each_memory_of_a_chain_names_the_last_one_that_lives(memory: Memorist) -> None:
    first, second, third, last = add_chain(memory, 4)
    memory.forget(last)

    successors = {each.id: each.superseded_by for each in memory.list(limit=10)}

    assert {id: successor and successor.id for id, successor in successors.items()} == {
        first: third, second: third, third: None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda memory, id, other: memory.links.add(id, other, "about"), id="relate"),
        pytest.param(lambda memory, id, other: memory.facts.add(id, "fact 1", confidence=0.5), id="change a fact"),
        pytest.param(lambda memory, id, other: memory.searches.add_feedback(id, True, query="what?"), id="feedback"),
        pytest.param(lambda memory, id, other: memory.searches.list(memory=id), id="recalls"),
        pytest.param(lambda memory, id, other: memory.history(id), id="history"),
    ],
)
def test_what_is_said_of_a_memory_does_not_read_its_facts(write: Callable[[Memorist, str, str], Any]) -> None:
    taken = []
    for count in (10, 500):
        with measured() as (memory, measure):
            id = memory.add("The server", facts=[f"fact {n}" for n in range(count)]).id
            other = memory.add("Another server").id
            taken.append(measure(lambda: write(memory, id, other)))  # noqa: B023  (called at once)

    assert taken[1] < 1.5 * taken[0]


class TestFactsOfOneMemory:
    FULL = tuple(f"fact {n}" for n in range(MAX_FACTS))

    def test_a_memory_has_at_most_a_thousand_facts_however_they_come(self, memory: Memorist) -> None:
        full = memory.add("The server", facts=self.FULL)

        for add in (lambda: memory.facts.add(full.id, "another"), lambda: memory.add("The server", facts=["another"])):
            with pytest.raises(InvalidInput, match="has 1,000 facts already, and at most 1,000 fit: remove some"):
                add()

        assert len(memory.get(full.id).facts) == MAX_FACTS
        assert memory.count() == 1

    def test_a_fact_that_is_known_is_changed_in_a_full_memory(self, memory: Memorist) -> None:
        full = memory.add("The server", facts=self.FULL)

        assert memory.facts.add(full.id, "fact 7", confidence=0.5).confidence == 0.5

    def test_a_merge_takes_over_as_many_facts_as_fit(self, memory: Memorist) -> None:
        full = memory.add("The server", facts=self.FULL[1:])
        other = memory.add("That server", facts=["fact 7", "a new one", "one too many"])

        merged = memory.review.merge(full.id, [other.id])

        assert [fact.text for fact in merged.facts] == [*self.FULL[1:], "a new one"]
        assert len(memory.get(other.id).facts) == 3

    def test_of_the_changes_of_a_fact_the_latest_are_kept(self, memory: Memorist, tmp_path: Path) -> None:
        fact = memory.add("The server", facts=[{"text": "it listens", "confidence": 0.1}]).facts[0]
        for _ in range(MAX_FACT_CHANGES + 5):
            last = memory.facts.reinforce(fact.id, 0.01)

        memory.transfer.export(tmp_path / "all.jsonl")
        records = map(json.loads, (tmp_path / "all.jsonl").read_text().splitlines())
        (versions,) = (fact["versions"] for record in records for fact in record.get("facts", ()))
        assert len(versions) == MAX_FACT_CHANGES
        assert fact.confidence < versions[0]["confidence"] < versions[-1]["confidence"] < last.confidence


class TestThresholds:
    """Relevance falls along a ranking: where its second half is not relevant enough, nothing behind it is."""

    @pytest.fixture
    def alike(self) -> Iterator[tuple[Memorist, Callable[[Callable[[], object]], int]]]:
        with measured() as (memory, measure):
            memory.add_many([f"The deploy of server {n} was done by Anna on a Monday" for n in range(3000)])
            yield memory, measure

    QUESTION = "the* depl* of* serv* was* don* by* ann* on* mond* zeb*"

    def test_a_threshold_that_nothing_passes_does_not_rank_everything(self, alike: Any) -> None:
        memory, _ = alike

        assert memory.search(self.QUESTION, min_relevance=0.99).hidden["min_relevance"] == 64

    def test_where_all_pass_but_their_confidence_does_not_it_looks_on(self, memory: Memorist) -> None:
        memory.add_many(
            {
                "content": f"The deploy of server {n}",
                "facts": [{"text": f"it is {n}", "confidence": 0.1 + 0.8 * (n < 1)}],
            }
            for n in range(300)
        )

        assert len(memory.search("deploy server", min_confidence=0.5)) == 1

    def test_where_no_file_is_indexed_none_is_searched(self, alike: Any) -> None:
        memory, measure = alike
        without = measure(lambda: memory.context(self.QUESTION, documents=False))

        assert measure(lambda: memory.context(self.QUESTION)) < 1.1 * without
