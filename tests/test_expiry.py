"""Memories that expire: nothing finds them from that time on, and writes erase them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memorist
from memorist import Memorist, NotFound
from memorist.arguments import Filter

PAST, FUTURE = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(days=1)
READS: dict[str, Callable[[Memorist], Any]] = {
    "list": lambda memory: [one.id for one in memory.list()],
    "count": lambda memory: memory.count(),
    "get several": lambda memory: memory.get(["gone", "kept"]).missing,
    "keyword": lambda memory: [hit.memory.id for hit in memory.search("note", mode="keyword")],
    "semantic": lambda memory: [hit.memory.id for hit in memory.search("note", mode="semantic")],
    "hybrid": lambda memory: [hit.memory.id for hit in memory.search("note", project="p")],
    "hidden": lambda memory: memory.search("note", kind="none").hidden,
    "facets": lambda memory: memory.facets(None, ["project"]),
    "facets of a query": lambda memory: memory.facets("note", ["project"]),
    "timeline": lambda memory: [one.id for one in memory.timeline()],
    "around": lambda memory: [one.id for one in memory.timeline(anchor="kept")],
    "context": lambda memory: "gone" in memory.context("note", min_relevance=0),
    "briefing": lambda memory: "gone" in memory.briefing(),
    "related": lambda memory: [one.memory.id for one in memory.related("kept")],
    "links": lambda memory: memory.get("kept").related_count,
    "duplicates": lambda memory: memory.review.duplicates(),
    "stats": lambda memory: (memory.stats().memories, memory.stats().pinned, memory.stats().facts),
    "session": lambda memory: memory.sessions.get("a session").memories,
    "growth": lambda memory: memory.review.growth(since=PAST).days,
    "facts by age": lambda memory: [fact.text for fact in memory._resources.store.inspection.list_facts(None, 0, 10)],
    "projects": lambda memory: memory.review.projects("left"),
}


@pytest.fixture
def half(hashed: Memorist) -> Memorist:
    """A memory that stays, and one that is linked with it and expires later."""
    hashed.sessions.start("p", id="a session")
    for id in ("kept", "gone"):
        hashed.add(
            f"a note of the {id}",
            id=id,
            project="p",
            session="a session",
            on_near_duplicate="off",
            facts=[f"fact of {id}"],
        )
        hashed.pin(id)
    hashed.update("gone", kind="left")
    hashed.links.add("kept", "gone", "mentions")
    return hashed


def expire(memory: Memorist, id: str = "gone") -> None:
    memory.update(id, expires_at=PAST)


@pytest.mark.parametrize("read", READS)
def test_every_read_answers_as_if_it_were_erased(half: Memorist, read: str) -> None:
    expire(half)
    hidden = READS[read](half)
    with half._resources.store._pool.writing() as connection:
        half._resources.store._sweep(connection)

    assert hidden == READS[read](half)


def test_it_is_found_until_then(half: Memorist) -> None:
    half.update("gone", expires_at=FUTURE)

    assert half.count() == len(half.search("note")) == 2
    assert half.get("gone").expires_at == FUTURE


def test_by_its_id_it_is_not_found(half: Memorist) -> None:
    expire(half)

    for call in (half.get, half.pin, half.forget, half.history, lambda id: half.update(id, kind="x")):
        with pytest.raises(NotFound):
            call("gone")


def test_the_next_write_erases_it(half: Memorist) -> None:
    expire(half)
    half.add("another")

    store = half._resources.store
    with store._pool.reading() as connection:
        assert connection.fetch_value("select count(*) from memories where id = 'gone'") == 0
    assert half.check().ok


def test_the_past_shows_it_as_long_as_it_is_not_erased(half: Memorist) -> None:
    then = half.get("gone").recorded_at
    expire(half)

    assert half.get("gone", as_of=then).expires_at is None
    assert "gone" in [one.id for one in half.list(as_of=then)]
    assert "gone" in [hit.memory.id for hit in half.search("note", as_of=then)]


def test_its_id_and_its_text_are_free_again(memory: Memorist) -> None:
    memory.add("a note", id="k", expires_at=PAST)
    first = memory.add("a text", expires_at=PAST)

    assert memory.add("a note", id="k", if_exists="error").expires_at is None
    assert memory.history("k") == []
    assert memory.add("a text").id != first.id


def test_pages_stay_full(hashed: Memorist) -> None:
    hashed.add_many({"content": f"note {n}", "expires_at": PAST if n % 2 else FUTURE} for n in range(60))
    for number in range(30):
        hashed.add(f"note again {number}", on_near_duplicate="off")
        if number < 10:
            expire(hashed, hashed.add(f"note {number} to go", on_near_duplicate="off").id)

    for mode in ("keyword", "semantic", "hybrid"):
        assert len(hashed.search("note", limit=50, mode=mode)) == 50


@pytest.mark.local_only("it reads a file of its own machine")
def test_exports_keep_the_time(memory: Memorist, tmp_path: Path) -> None:
    memory.add("a note", id="k", expires_at=FUTURE)
    memory.update("k", expires_at=FUTURE + timedelta(days=1))
    memory.add("expired", id="x", expires_at=PAST)
    memory.transfer.export(tmp_path / "all.jsonl")
    memory.transfer.export(tmp_path / "notes", format="markdown")

    for source in ("all.jsonl", "notes"):
        with memorist.open(":memory:", embedder="none") as copy:
            copy.transfer.import_(tmp_path / source)
            assert [one.id for one in copy.list()] == ["k"]
            assert copy.get("k").expires_at == FUTURE + timedelta(days=1)


def test_a_later_end_is_no_new_version(memory: Memorist) -> None:
    added = memory.add("A note", id="k", expires_at=FUTURE + timedelta(hours=1))

    for hours in (2, 3):
        memory.update("k", expires_at=FUTURE + timedelta(hours=hours))
        memory.add("A note", id="k", expires_at=FUTURE + timedelta(hours=hours, minutes=1))

    found = memory.get("k")
    assert found.expires_at == FUTURE + timedelta(hours=3, minutes=1)
    assert memory.history("k") == []
    assert memory.update("k", expires_at=None).expires_at is None
    assert memory.get("k", as_of=added.created_at).content == "A note"
    memory.update("k", content="Another note", expires_at=FUTURE + timedelta(hours=4))
    assert [version.content for version in memory.history("k")] == ["A note"]


@pytest.mark.local_only("it reads a file of its own machine")
def test_a_purge_erases_all_that_has_expired(memory: Memorist) -> None:
    memory.add_many({"content": f"note {n}", "id": f"n{n}"} for n in range(250))
    for number in range(250):
        expire(memory, f"n{number}")
    memory.purge()

    with memory._resources.store._pool.reading() as connection:
        assert connection.fetch_value("select count(*) from memories") == 0


def test_a_near_duplicate_that_has_expired_is_not_reported(memory: Memorist) -> None:
    text = "The staging server is called heron and stands in the cellar of the old house"
    memory.add_many({"content": f"note {number}", "expires_at": PAST} for number in range(150))
    memory.add(text, expires_at=PAST, on_near_duplicate="off")

    assert memory.add(f"{text} now", on_near_duplicate="report").near is None


def test_what_passes_a_filter_is_listed_anew_for_each_search_while_a_memory_may_expire(path: Path) -> None:
    with memorist.open(path) as memory:
        memory.add("the fox sleeps", project="den")
        store, den = memory._resources.store, Filter(project=("den",))
        store._backend.images.follow("default").build()
        assert store.resolve_scope(den).passing is store.resolve_scope(den).passing is not None

        memory.add("the fox sleeps for a day", project="den", expires_at=FUTURE)

        assert store.resolve_scope(den).passing is not store.resolve_scope(den).passing
        assert store.resolve_scope(den).keys is not None
