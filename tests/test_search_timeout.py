"""Searches that take too long, or that nobody waits for any more, are stopped while the database works on them."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memorist
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist, SearchTimeout
from memorist.time_limit import call_within, cancel_with

SEARCHES: dict[str, Callable[[Memorist], Any]] = {
    "by word": lambda memory: memory.search("live well", mode="keyword"),
    "by word and by meaning": lambda memory: memory.search("live and well"),
    "with a filter": lambda memory: memory.search("live well", mode="keyword", kind="note", as_of="tomorrow"),
    "in the index's own syntax": lambda memory: memory.search("live AND well", grammar="fts5"),
    "facets": lambda memory: memory.facets("live well"),
}


@pytest.fixture
def filled_memory(copy: Callable[[], Path]) -> Iterator[Memorist]:
    with memorist.open(copy(), embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_a_search_stops_when_its_time_is_up(filled_memory: Memorist, search: Callable[[Memorist], Any]) -> None:
    with pytest.raises(SearchTimeout, match="took too long and was stopped"):
        call_within(0, search, filled_memory)

    search(filled_memory)  # the connection is as good as new


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_a_search_stops_when_its_caller_cancels_it(filled_memory: Memorist, search: Callable[[Memorist], Any]) -> None:
    cancelled = threading.Event()
    with cancel_with(cancelled):
        search(filled_memory)
        cancelled.set()
        with pytest.raises(SearchTimeout):
            search(filled_memory)


def test_the_time_is_a_setting(copy: Callable[[], Path]) -> None:
    with (
        memorist.open(copy(), embedder="none", search_timeout=0.001) as memory,
        pytest.raises(SearchTimeout, match="search_timeout"),
    ):
        memory.search("live and well", limit=1000)

    with pytest.raises(InvalidInput, match="search_timeout must be from"):
        memorist.open(":memory:", search_timeout=0)
