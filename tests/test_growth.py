"""What reading and writing take as one memory, chain or session grows: counted in steps of the database, not in time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

import memorist
from memorist import InvalidInput, Memorist
from statements import counted_steps

START = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def measured() -> Iterator[tuple[Memorist, Callable[[Callable[[], object]], int]]]:
    """A memory, and a function that returns how many steps of SQLite's a call takes."""
    with counted_steps() as steps, memorist.open(":memory:", embedder="none") as memory:

        def measure(call: Callable[[], object]) -> int:
            steps.clear()
            call()
            return sum(steps)

        yield memory, measure


def add_chain(memory: Memorist, length: int) -> list[str]:
    """Add memories of which each supersedes the one before."""
    ids = [memory.add(f"The deploy is number {n}", created_at=START + timedelta(hours=n)).id for n in range(length)]
    for old, new in zip(ids, ids[1:], strict=False):
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
