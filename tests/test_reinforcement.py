"""What matters more and what less: salience, its decay at read time, pins, and what was of use."""

import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import ids, texts
from clock import days_ago, days_ahead, now, to_microseconds
from memorist import InvalidInput, Memorist, NotFound
from memorist.records import SECTORS
from memorist.store.relations import MAX_STRENGTH_CHANGES
from statements import read_rows

PUBLISHED = {
    "ccmemory": {"emotional": 0.003, "semantic": 0.005, "reflective": 0.008, "procedural": 0.01, "episodic": 0.02},
    "openmemory": {"reflective": 0.001, "semantic": 0.005, "procedural": 0.008, "episodic": 0.015, "emotional": 0.02},
}


@pytest.fixture
def salient(path: Path) -> Iterator[Memorist]:
    """With the profile whose score has a part for salience."""
    with memorist.open(path, embedder="none", profile="salience", on_near_duplicate="off") as memory:
        yield memory


class TestReinforcing:
    @pytest.mark.parametrize("amount", [0.0, 0.02, 0.1, 1.0])
    def test_salience_rises_by_a_share_of_what_is_missing(self, memory: Memorist, amount: float) -> None:
        for salience in (0.0, 0.3, 0.5, 1.0):
            added = memory.add(f"a memory of {salience}", salience=salience, on_near_duplicate="off")

            reinforced = memory.reinforce(added.id, amount)

            assert reinforced.salience == pytest.approx(salience + amount * (1 - salience))
            assert memory.get(added.id) == reinforced

    @pytest.mark.parametrize("amount", [0.0, 0.2, 1.0])
    def test_salience_falls_by_a_share_of_itself(self, memory: Memorist, amount: float) -> None:
        for salience in (0.0, 0.3, 1.0):
            added = memory.add(f"a memory of {salience}", salience=salience, on_near_duplicate="off")

            assert memory.deemphasize(added.id, amount).salience == pytest.approx(salience - amount * salience)

    def test_a_tenth_up_and_a_fifth_down_unless_told(self, memory: Memorist) -> None:
        added = memory.add("a memory", salience=0.5)

        assert memory.reinforce(added.id).salience == pytest.approx(0.55)
        assert memory.deemphasize(added.id).salience == pytest.approx(0.44)

    def test_however_often_it_stays_within_zero_and_one(self, memory: Memorist) -> None:
        up, down = memory.add("up"), memory.add("down")
        for _ in range(50):
            memory.reinforce(up.id, 0.5)
            memory.deemphasize(down.id, 0.5)

        assert 0.999 < memory.get(up.id).salience <= 1
        assert 0 <= memory.get(down.id).salience < 0.001

    def test_the_last_changes_are_kept_for_earlier_times(self, memory: Memorist, path: Path) -> None:
        id, other = memory.add("often", salience=0.1).id, memory.add("seldom", salience=0.1).id
        memory.reinforce(other)
        moments = []
        for _ in range(MAX_STRENGTH_CHANGES + 20):
            moments.append((now(), memory.get(id).salience))
            memory.reinforce(id, 0.01)

        assert read_rows(path, "select count(*) from strength_history group by rid order by rid") == [
            (MAX_STRENGTH_CHANGES,), (1,),
        ]  # fmt: skip
        kept = moments[-MAX_STRENGTH_CHANGES:]
        assert [memory.get(id, as_of=at).salience for at, _ in kept] == [salience for _, salience in kept]
        assert memory.get(id, as_of=moments[0][0]).salience == kept[0][1]
        assert memory.get(other, as_of=moments[0][0]).salience > 0.1

    def test_the_time_of_it_is_kept(self, memory: Memorist) -> None:
        added = memory.add("a memory")
        before = now()

        reinforced = memory.reinforce(added.id)

        assert before <= reinforced.reinforced_at <= now()
        assert (reinforced.updated_at, reinforced.created_at) == (added.updated_at, added.created_at)

    def test_an_exact_duplicate_reinforces(self, memory: Memorist) -> None:
        first = memory.add("the same words", salience=0.4, project="api")

        second = memory.add("the same words", project="api", salience=0.9)

        assert second.id == first.id
        assert second.salience == pytest.approx(0.4 + 0.1 * 0.6)

    def test_duplicates_among_many_reinforce(self, memory: Memorist) -> None:
        one, other, again = memory.add_many(["the same words", "other words", "the same words"])

        assert one == again
        assert memory.get(one).salience == pytest.approx(0.55)
        assert memory.get(other).salience == pytest.approx(0.5)

    def test_what_was_reinforced_comes_first(self, salient: Memorist) -> None:
        first, second = salient.add("badger one", created_at=days_ago(1)), salient.add("badger two")
        assert ids(salient.search("badger", record="off")) == [second.id, first.id]

        salient.reinforce(first.id, 0.9)

        assert ids(salient.search("badger", record="off")) == [first.id, second.id]
        salient.deemphasize(first.id, 0.9)
        assert ids(salient.search("badger", record="off")) == [second.id, first.id]

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize("amount", [-0.1, 1.1, "much", None, True, float("nan")])
    def test_an_amount_that_is_no_share_is_refused(self, memory: Memorist, amount: Any) -> None:
        added = memory.add("a memory")

        for call in (memory.reinforce, memory.deemphasize):
            with pytest.raises(InvalidInput, match="amount"):
                call(added.id, amount)

        assert memory.get(added.id) == added

    @pytest.mark.parametrize("call", ["reinforce", "deemphasize", "pin", "unpin"])
    def test_unknown_and_forgotten_memories_are_not_found(self, memory: Memorist, call: str) -> None:
        gone = memory.add("gone")
        memory.forget(gone.id)

        for id in ("nobody-has-this", gone.id):
            with pytest.raises(NotFound):
                getattr(memory, call)(id)

    def test_it_leaves_the_indexes_and_vectors_alone(self, hashed: Memorist, path: Path) -> None:
        added = hashed.add("the badger")
        logged = read_rows(path, "select count(*) from changes where what & 4")

        hashed.reinforce(added.id)
        hashed.pin(added.id)

        assert read_rows(path, "select count(*) from changes where what & 4") == logged
        assert hashed.check().problems == ()
        assert ids(hashed.search("badger")) == [added.id]


class TestDecay:
    """Computed when read, from the value and the time it was last reinforced; nothing is written back."""

    def test_salience_does_not_decay_unless_asked(self, salient: Memorist) -> None:
        salient.add("badger", salience=0.8)

        (hit,) = salient.search("badger", as_of=days_ahead(1000), record="off")

        assert hit.trace["salience"] == pytest.approx(0.2 * 0.8)

    @pytest.mark.parametrize("preset", sorted(PUBLISHED))
    def test_each_sector_decays_at_its_rate_of_the_preset(self, salient: Memorist, preset: str) -> None:
        for sector in SECTORS:
            salient.add(f"badger {sector}", salience=0.8, sector=sector)
        then = days_ahead(40)

        results = salient.search("badger", as_of=then, sector_decay=preset, record="off")

        left = {hit.memory.sector: hit.trace["salience"] / 0.2 for hit in results}
        rates = PUBLISHED[preset]
        assert left == pytest.approx({sector: 0.8 * math.exp(-rates[sector] * 40) for sector in SECTORS}, rel=1e-5)

    def test_a_table_of_ones_own_will_do(self, salient: Memorist) -> None:
        added = salient.add("badger", salience=0.8, sector="episodic")
        then = added.reinforced_at + timedelta(days=10)

        (hit,) = salient.search("badger", as_of=then, sector_decay={"episodic": 0.1}, record="off")

        assert hit.trace["salience"] == pytest.approx(0.2 * 0.8 * math.exp(-1))

    @pytest.mark.parametrize("table", ["nobodys", {"dreams": 0.1}, {"semantic": -1}, {"semantic": "fast"}, 5])
    def test_a_table_that_is_none_is_refused(self, salient: Memorist, table: Any) -> None:
        with pytest.raises(InvalidInput, match="sector_decay"):
            salient.search("badger", sector_decay=table)

    def test_reading_does_not_write_it_back(self, salient: Memorist, path: Path) -> None:
        added = salient.add("badger", salience=0.8)
        read_rows(path, "update memories set reinforced_at = ?", to_microseconds(days_ago(100)))
        before = read_rows(path, "select * from memories")

        scores = {
            salient.search("badger", as_of=added.created_at, sector_decay="ccmemory", record="off")[0].score
            for _ in range(3)
        }
        salient.get(added.id)
        salient.list()

        assert len(scores) == 1
        assert read_rows(path, "select * from memories") == before

    def test_since_the_last_reinforcement_only(self, salient: Memorist, path: Path) -> None:
        added = salient.add("badger", salience=0.5)
        read_rows(path, "update memories set reinforced_at = ?", to_microseconds(days_ago(100)))
        reinforced = salient.reinforce(added.id, 0.2)

        then = reinforced.reinforced_at + timedelta(days=10)
        (hit,) = salient.search("badger", as_of=then, sector_decay={"semantic": 0.01}, record="off")

        assert hit.trace["salience"] == pytest.approx(0.2 * reinforced.salience * math.exp(-0.1))


class TestPins:
    def test_the_pinned_ones_are_listed(self, memory: Memorist) -> None:
        first, second, third = memory.add_many(["one", "two", "three"])
        assert not memory.get(first).pinned

        assert memory.pin(first).pinned
        memory.pin(third)

        assert ids(memory.list(pinned=True)) == [third, first]
        assert ids(memory.list(pinned=False)) == [second]
        assert memory.stats().pinned == 2
        assert not memory.unpin(first).pinned
        assert ids(memory.list(pinned=True)) == [third]

    def test_pinning_twice_is_pinning_once(self, memory: Memorist) -> None:
        added = memory.add("one")

        assert memory.pin(added.id) == memory.pin(added.short_id)
        memory.unpin(added.id)
        assert memory.unpin(added.id) == memory.get(added.id) == added

    def test_search_can_be_narrowed_to_them(self, memory: Memorist) -> None:
        pinned, other = (
            memory.add("badger one", on_near_duplicate="off"),
            memory.add("badger two", on_near_duplicate="off"),
        )
        memory.pin(pinned.id)

        assert ids(memory.search("badger", pinned=True)) == [pinned.id]
        assert ids(memory.search("badger", pinned=False)) == [other.id]
        assert len(memory.search("badger")) == 2

    def test_an_update_keeps_the_pin(self, memory: Memorist) -> None:
        added = memory.add("badger one")
        memory.pin(added.id)

        assert memory.update(added.id, content="otter one").pinned
        assert memory.reinforce(added.id).pinned

    def test_a_forgotten_memory_is_not_listed_and_pinned_when_it_comes_back(self, memory: Memorist) -> None:
        added = memory.add("badger one")
        memory.pin(added.id)
        memory.forget(added.id)

        assert texts(memory.list(pinned=True)) == []
        assert memory.stats().pinned == 0
        assert memory.restore(added.id).pinned

    @pytest.mark.local_only("a server refuses it in other words")
    def test_something_else_than_yes_or_no_is_refused(self, memory: Memorist) -> None:
        with pytest.raises(InvalidInput, match="pinned must be True or False"):
            memory.list(pinned="yes")


class TestUse:
    def test_every_recorded_recall_is_counted(self, memory: Memorist) -> None:
        added = memory.add("the badger")
        other = memory.add("the otter")
        assert (added.access_count, added.accessed_at) == (0, None)
        before = now()

        for _ in range(3):
            memory.search("badger", record="log")
        memory.searches.list()

        used = memory.get(added.id)
        assert used.access_count == 3
        assert used.accessed_at is not None
        assert before <= used.accessed_at <= now()
        assert used.salience == added.salience
        assert memory.get(other.id) == other

    def test_what_is_only_read_is_not_counted(self, memory: Memorist) -> None:
        added = memory.add("the badger")
        memory.search("badger")
        memory.get(added.id)
        memory.list()
        memory.related(added.id)
        memory.timeline(query="badger")

        assert memory.get(added.id) == added

    def test_recency_can_be_that_of_the_last_recall(self, memory: Memorist, path: Path) -> None:
        used = memory.add("badger used", created_at=days_ago(60), on_near_duplicate="off")
        fresh = memory.add("badger fresh", created_at=days_ago(10), on_near_duplicate="off")
        recency = {"form": "multiply", "weight": 1.0, "on": "accessed"}
        assert ids(memory.search("badger", recency=recency)) == [fresh.id, used.id]

        memory.search("badger used", grammar="and", record="log")
        memory.searches.list()

        results = memory.search("badger", recency=recency)
        assert ids(results) == [used.id, fresh.id]
        factor = {
            hit.memory.id: 1 + hit.trace["recency"] / hit.trace["keyword"] for hit in results if "recency" in hit.trace
        }
        assert factor[fresh.id] == pytest.approx((1 + 1 / 11) / 2, rel=1e-4)
        assert factor.get(used.id, 1.0) == pytest.approx(1.0, abs=1e-3)
        assert ids(memory.search("badger", recency={**recency, "on": "created"})) == [fresh.id, used.id]

    def test_recency_can_be_that_of_the_import(self, memory: Memorist, path: Path) -> None:
        earlier = memory.add("badger of today", on_near_duplicate="off")
        read_rows(path, "update memories set recorded_at = ?", to_microseconds(days_ago(9)))
        later = memory.add("badger of long ago", created_at=days_ago(600), on_near_duplicate="off")

        results = memory.search("badger", recency={"form": "multiply", "weight": 1.0, "on": "imported"})

        assert ids(results) == [later.id, earlier.id]
        assert results[1].trace["recency"] / results[1].trace["keyword"] == pytest.approx(
            (1 + 1 / 10) / 2 - 1, rel=1e-4
        )

    def test_recency_can_be_that_of_the_text(self, memory: Memorist, path: Path) -> None:
        old = memory.add("badger old", created_at=days_ago(60), on_near_duplicate="off")
        memory.add("badger fresh", created_at=days_ago(10), on_near_duplicate="off")
        read_rows(path, "update memories set updated_at = ?", to_microseconds(days_ago(30)))
        recency = {"form": "multiply", "weight": 1.0, "on": "updated"}

        memory.update(old.id, tags=["seen today"])

        assert ids(memory.search("badger", recency=recency))[0] == old.id
