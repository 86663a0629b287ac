"""A namespace on a server that is held in memory: what a search of it costs, and that it follows every writer."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import numpy as np
import psycopg
import pytest

import memorist
from conftest import HashingEmbedder
from memorist import Memorist
from memorist.records import Model
from memorist.store.postgres.backend import PostgresBackend
from memorist.store.postgres.vectors import PostgresVectors
from memorist.store.store import Store
from statements import count_round_trips

MODEL = Model("hashing-64", 64)


def hold(store: Store) -> None:
    """Have a store hold its namespace in memory, as it does once searches have cost enough."""
    store._images.build()
    assert isinstance(store.vectors, PostgresVectors)
    store.vectors.load_mirror(MODEL)
    assert store._images.image is not None


@pytest.fixture
def memory(postgres_url: str) -> Iterator[Memorist]:
    with memorist.open(postgres_url, embedder=HashingEmbedder()) as memory:
        yield memory


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
@pytest.mark.parametrize("filters", [{}, {"project": "api"}, {"tags": "rare"}, {"project": "api", "min_salience": 0.1}])
def test_a_search_asks_the_server_for_the_end_of_the_log_and_for_the_page(
    memory: Memorist, mode: str, filters: dict[str, Any]
) -> None:
    memory.add_many(
        {"content": f"note {n} about foxes", "project": ["api", "web"][n % 2], "tags": ["rare"] * (n % 20 == 0)}
        for n in range(300)
    )
    hold(memory._resources.store)
    memory.search("warm up")
    with count_round_trips() as trips:
        found = memory.search("what about the foxes note", mode=mode, **filters)

    assert len(found) == 10
    assert trips == ["MainThread"] * 2


def test_the_passage_of_a_long_memory_comes_with_the_page(memory: Memorist) -> None:
    memory.add_many([f"{'herons ' * 3000} {'foxes ' * 3000}", *(f"note {n} about owls" for n in range(20))])
    hold(memory._resources.store)
    memory.search("warm up")
    with count_round_trips() as trips:
        found = memory.search("foxes", mode="semantic", noise_floor=False)

    assert "foxes" in found[0].snippet
    assert len(trips) == 2


def test_what_was_written_since_is_taken_in_by_a_few_more(memory: Memorist) -> None:
    memory.add_many(f"note {n} about foxes" for n in range(300))
    hold(memory._resources.store)
    memory.search("warm up")
    memory.add("a note about herons")
    with count_round_trips() as trips:
        assert memory.search("herons")[0].memory.content == "a note about herons"

    assert len(trips) <= 6  # the end of the log, the rows, the vectors and those of their parts, the page


def test_vectors_that_do_not_fit_beside_the_image_stay_on_the_server(memory: Memorist) -> None:
    memory.add_many(f"note {n} about foxes" for n in range(300))
    vectors, images = memory._resources.store.vectors, memory._resources.store._images
    hold(memory._resources.store)
    assert isinstance(vectors, PostgresVectors)
    assert images.image is not None
    vectors._most_bytes = images.image.nbytes + 10_000
    assert memory.search("note 70 about foxes")[0].memory.content == "note 70 about foxes"
    assert not vectors._mirrors

    vectors.load_mirror(MODEL, images.image.nbytes)
    assert not vectors._mirrors
    assert memory.search("note 70 about foxes")[0].memory.content == "note 70 about foxes"


def test_the_vectors_are_read_beside_the_searches(memory: Memorist) -> None:
    memory.add_many(f"note {n} about foxes" for n in range(300))
    store = memory._resources.store
    store._images.build()
    assert memory.search("note 7 about foxes")[0].memory.content == "note 7 about foxes"
    for thread in threading.enumerate():
        if thread.name == "memorist-vectors":
            thread.join()

    assert len(store.vectors._mirrors["hashing-64"].scan) == 300  # type: ignore[attr-defined]
    assert memory.search("note 7 about foxes")[0].memory.content == "note 7 about foxes"


def test_parts_of_memories_are_read_in_blocks_that_part_none_of_them(
    memory: Memorist, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = memory.add_many(f"{word} " * 3000 for word in ("foxes", "herons", "owls"))
    store = memory._resources.store
    hold(store)
    whole = store.vectors._mirrors["hashing-64"]  # type: ignore[attr-defined]
    monkeypatch.setattr("memorist.store.postgres.vector_blocks._BLOCK_ROWS", 2)
    hold(store)
    pieces = store.vectors._mirrors["hashing-64"]  # type: ignore[attr-defined]

    assert len(whole.parts) > len(ids)
    for one, other in ((whole.scan, pieces.scan), (whole.parts, pieces.parts)):
        assert np.array_equal(one.keys, other.keys)
        assert np.array_equal(one._state.codes[: len(one)], other._state.codes[: len(other)])


def test_writers_at_once_leave_no_gap_in_the_log_and_nothing_that_is_not_followed(postgres_url: str) -> None:
    def write(number: int) -> None:
        with memorist.open(postgres_url, embedder=HashingEmbedder()) as memory:
            for place in range(12):
                stored = memory.add(f"note {number} {place} about foxes", session=f"talk {number}")
                with suppress(memorist.MemoristError):
                    memory.update(stored.id, content=f"note {number} {place} about herons")
                if place % 3 == 0:
                    memory.forget(stored.id, hard=place % 2 == 0)

    with memorist.open(postgres_url, embedder=HashingEmbedder()) as first:
        for number in range(4):
            first.sessions.start(id=f"talk {number}")
        first.add("the first note about foxes")
    with closing(Store(PostgresBackend(postgres_url, namespace="default"))) as reader, ThreadPoolExecutor(4) as threads:
        hold(reader)
        writers = [threads.submit(write, number) for number in range(4)]
        while not all(writer.done() for writer in writers):
            reader._images.refresh()
        for writer in writers:
            writer.result()
        if (image := reader._images.refresh()) is None:  # too much at once
            reader._images.build()
            image = reader._images.refresh()
        assert image is not None
        mirror = reader.vectors._find_in_memory(MODEL, image)  # type: ignore[attr-defined]
    with psycopg.connect(postgres_url) as admin:
        live = admin.execute("select rid, content from memories where deleted_at is null order by rid").fetchall()
        embedded = admin.execute(
            "select v.rid from vectors v join memories m using (rid) where m.deleted_at is null order by 1"
        ).fetchall()
        first_seq, last_seq, count = admin.execute("select min(seq), max(seq), count(*) from changes").fetchone()  # type: ignore[misc]

    assert (first_seq, last_seq) == (1, count)
    assert image.list_keys(image.alive).tolist() == [rid for rid, _ in live]
    herons = [rid for rid, content in live if content.endswith("herons")]
    assert np.sort(image.index.keys[image.index.find(["heron"]).distinct_rows]).tolist() == herons
    assert mirror.scan.keys.tolist() == [rid for (rid,) in embedded]


def test_the_log_is_shortened(memory: Memorist) -> None:
    stored = memory.add("a note about foxes")
    with memory._resources.store._pool.writing() as connection:
        connection.execute("update changes set seq = 40998 where seq = (select max(seq) from changes)")
    hold(memory._resources.store)
    memory.pin(stored.id)
    memory.unpin(stored.id)

    with memory._resources.store._pool.reading() as connection:
        assert connection.fetch("select seq from changes order by seq") == [(40998,), (40999,), (41000,)]
    assert memory.search("foxes")[0].memory.id == stored.id
