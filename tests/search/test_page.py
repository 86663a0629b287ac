"""A page of hits is made of memories that are read last."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from candidates import Found, Ranked, to_ranking
from memorist import Memorist
from memorist.arguments import NO_FILTER, Filter
from memorist.profiles import PROFILES
from memorist.records import Memory as StoredMemory
from memorist.search.candidates import Places
from memorist.search.page import build_page
from memorist.search.query import parse_query
from memorist.search.rerank import ReadMemory
from memorist.search.signals import Evidence
from memorist.store.store import Store


def test_a_memory_that_was_forgotten_after_it_was_ranked_makes_room_for_the_next(memory: Memorist) -> None:
    ids = [memory.add(f"note {number} on foxes").id for number in range(12)]
    store = memory._resources.store
    query = parse_query("foxes", "auto")
    scope = store.resolve_scope(NO_FILTER)
    found = store.match_keywords(query, scope, limit=12, page=12, weights={"content": 1.0}).matches
    keys = sorted(match.key for match in found)
    ranking = to_ranking([Ranked(Found(key), 1.0 - place / 100) for place, key in enumerate(keys)])
    memory.forget(ids[3])

    def load_memories(chosen: Places) -> dict[int, ReadMemory]:
        memories = store.load_memories(ranking.candidates.keys[chosen].tolist(), NO_FILTER)
        return {key: ReadMemory(memory, None) for key, memory in memories.items()}

    page = build_page(
        ranking, load_memories, query, PROFILES["balanced"], None,
        Evidence.of(query, np.array([]), np.array([])), datetime.now(UTC), detail="full", include_facts=True,
    )  # fmt: skip

    assert [hit.memory.id for hit in page.hits] == [*ids[:3], *ids[4:11]]


@pytest.fixture
def before_the_page_is_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Have something happen once, after candidates were ranked and before their memories are read."""
    load = Store.load_memories

    def arrange(happens: Callable[[], object]) -> None:
        pending = [happens]

        def load_late(self: Store, keys: Sequence[int], filter: Filter) -> dict[int, StoredMemory]:
            while pending:
                pending.pop()()
            return load(self, keys, filter)

        monkeypatch.setattr(Store, "load_memories", load_late)

    return arrange


def test_a_memory_that_changes_before_it_is_read_is_not_found_by_what_it_said(
    memory: Memorist, before_the_page_is_read: Callable[[Callable[[], object]], None]
) -> None:
    id = memory.add("the fox sleeps in the den").id
    before_the_page_is_read(lambda: memory.update(id, content="nothing of that kind"))

    assert memory.search("fox", mode="keyword").hits == ()


def test_a_memory_that_changes_before_it_is_read_is_found_by_what_it_says_now(
    memory: Memorist, before_the_page_is_read: Callable[[Callable[[], object]], None]
) -> None:
    id = memory.add("the fox sleeps in the den").id
    before_the_page_is_read(lambda: memory.update(id, content="the fox has left"))

    assert [hit.memory.content for hit in memory.search("fox", mode="keyword")] == ["the fox has left"]


def test_a_file_that_is_indexed_anew_before_it_is_read_is_found(
    memory: Memorist, tmp_path: Path, before_the_page_is_read: Callable[[Callable[[], object]], None]
) -> None:
    file = tmp_path / "notes" / "ships.md"
    file.parent.mkdir()
    file.write_text("The fox ships code on Friday.\n")
    memory.documents.index(file.parent)

    def index_again() -> None:
        file.write_text("The fox ships code on Monday.\n")
        memory.documents.index(file.parent)

    before_the_page_is_read(index_again)
    found = memory.search("fox", mode="keyword", include_documents=True)

    assert [hit.memory.content for hit in found] == ["The fox ships code on Monday."]
