"""What replaced what: superseded memories step back, are never lost, and can step forward again."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import ids, texts
from clock import days_ago, now
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist, Memory, NotFound
from statements import read_rows


@pytest.fixture
def endpoints(memory: Memorist) -> tuple[Memory, Memory]:
    """An old and a new memory, the one replaced by the other."""
    old = memory.add("Old API endpoint is /v1", on_near_duplicate="off")
    new = memory.add("New API endpoint is /v2", on_near_duplicate="off")
    return memory.supersede(old.id, new.id), new


class TestLeavingOut:
    def test_search_leaves_out_what_was_superseded(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        _, new = endpoints

        assert ids(memory.search("API endpoint")) == [new.id]

    @pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
    def test_every_mode_leaves_it_out(self, hashed: Memorist, mode: str) -> None:
        old, new = (
            hashed.add("the old fact", on_near_duplicate="off"),
            hashed.add("the new fact", on_near_duplicate="off"),
        )
        assert set(ids(hashed.search("fact", mode=mode))) == {old.id, new.id}  # the scan is warm from here on

        hashed.supersede(old.id, new.id)

        assert ids(hashed.search("fact", mode=mode)) == [new.id]
        hashed.unsupersede(old.id)
        assert set(ids(hashed.search("fact", mode=mode))) == {old.id, new.id}

    @pytest.mark.parametrize("grammar", ["auto", "and", "or", "or_prefix", "fts5"])
    def test_every_grammar_leaves_it_out(
        self, memory: Memorist, endpoints: tuple[Memory, Memory], grammar: str
    ) -> None:
        assert ids(memory.search("endpoint", grammar=grammar)) == [endpoints[1].id]

    def test_the_page_is_full_though_most_are_superseded(self, hashed: Memorist) -> None:
        new = hashed.add("the one badger that holds")
        for number in range(60):
            hashed.supersede(hashed.add(f"badger {number}", on_near_duplicate="off").id, new.id)
        holding = hashed.add_many(f"a badger that nobody replaced, number {number}" for number in range(9))

        assert set(ids(hashed.search("badger", limit=10))) == {new.id, *holding}

    def test_related_leaves_out_linked_and_similar_ones(self, hashed: Memorist) -> None:
        one = hashed.add("badger digs here", on_near_duplicate="off")
        linked, similar, new = (
            hashed.add(f"badger digs {n}", on_near_duplicate="off") for n in ("linked", "similar", "new")
        )
        hashed.links.add(one.id, linked.id, "see")
        hashed.supersede(linked.id, new.id)
        hashed.supersede(similar.id, new.id)

        assert ids(hashed.related(one.id)) == [new.id]

    def test_facets_count_only_what_holds(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        assert memory.facets("endpoint", ["sector"]) == {"sector": {"semantic": 1}}
        assert memory.search("endpoint", facets=["sector"]).facets == {"sector": {"semantic": 1}}

    def test_hidden_counts_it(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        assert memory.search("API endpoint").hidden == {"superseded": 1}
        assert memory.search("API endpoint", include_superseded=True).hidden == {}


class TestShowing:
    def test_asked_for_it_is_shown_with_half_its_score(
        self, memory: Memorist, endpoints: tuple[Memory, Memory]
    ) -> None:
        old, new = endpoints

        results = memory.search("API endpoint", include_superseded=True)

        assert ids(results) == [new.id, old.id]
        assert results[1].score == pytest.approx(results[0].score / 2)
        assert results[1].trace["superseded"] == pytest.approx(-results[0].score / 2)
        assert "superseded" not in results[0].trace

    @pytest.mark.parametrize("profile", ["balanced", "rank", "salience", "semantic-first", "confidence", "notes"])
    def test_half_the_score_in_every_profile(self, path: Path, profile: str) -> None:
        with memorist.open(path, embedder="none", profile=profile) as memory:
            old = memory.add("badger one", created_at=days_ago(5), on_near_duplicate="off")
            new = memory.add("replacement")
            before = memory.search("badger", record="off")[0].score
            memory.supersede(old.id, new.id)

            (hit,) = memory.search("badger", include_superseded=True, record="off")

            assert hit.score == pytest.approx(before / 2, rel=1e-4)

    @pytest.mark.parametrize("factor", [0.0, 0.7, 1.0])
    def test_the_factor_can_be_replaced(
        self, memory: Memorist, endpoints: tuple[Memory, Memory], factor: float
    ) -> None:
        old, new = endpoints

        results = memory.search("API endpoint", include_superseded=True, superseded_factor=factor)

        score = {hit.memory.id: hit.score for hit in results}
        assert score[old.id] == pytest.approx(factor * score[new.id])

    def test_it_says_what_replaced_it(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        old, new = endpoints

        hit = memory.search("API endpoint", include_superseded=True)[1]

        assert hit.memory.superseded
        assert hit.superseded_by is not None
        assert hit.superseded_by.id == hit.superseded_by["id"] == new.id
        assert hit.superseded_by.content == hit.superseded_by["content"] == new.content
        assert hit.superseded_by.created_at == hit.superseded_by["created_at"] == new.created_at
        assert set(hit.superseded_by.keys()) == {"id", "content", "created_at", "project"}
        assert old.superseded_by == hit.superseded_by
        assert old.valid_until is not None

    def test_what_holds_says_so(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        (hit,) = memory.search("API endpoint")

        assert hit.superseded_by is None
        assert not hit.memory.superseded
        assert hit.memory.valid_until is None

    @pytest.mark.parametrize("text", ["x" * 250, "部署" * 125, "\U0001f980" * 250])
    def test_a_long_successor_is_cut_at_200_characters(self, memory: Memorist, text: str) -> None:
        old = memory.supersede(memory.add("short").id, memory.add(text).id)

        assert old.superseded_by is not None
        assert old.superseded_by.content == text[:200]

    def test_get_list_and_timeline_are_history_and_show_it_marked(
        self, memory: Memorist, endpoints: tuple[Memory, Memory]
    ) -> None:
        old, new = endpoints
        shown: list[Any] = [memory.get(old.id), memory.list()[1], memory.timeline()[0]]

        assert ids(shown) == [old.id] * 3
        for one in shown:
            assert one.superseded
            assert one.valid_until == old.valid_until
            assert one.superseded_by is not None
            assert one.superseded_by.id == new.id
        assert ids(memory.list()) == [new.id, old.id]
        assert ids(memory.timeline(anchor=new.id).before) == [old.id]

    def test_a_list_can_leave_it_out(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        assert ids(memory.list(include_superseded=False)) == [endpoints[1].id]

    def test_stats_count_it(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        assert (memory.stats().memories, memory.stats().superseded) == (2, 1)

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_asking_for_it_with_something_else_than_yes_or_no_is_refused(self, memory: Memorist) -> None:
        with pytest.raises(InvalidInput, match="include_superseded must be True or False"):
            memory.search("x", include_superseded="yes")  # type: ignore[arg-type]


class TestChains:
    @pytest.fixture
    def chain(self, memory: Memorist) -> list[str]:
        """Four memories, each replaced by the next."""
        chain = memory.add_many(f"badger version {number}" for number in range(4))
        for old, new in pairwise(chain):
            memory.supersede(old, new)
        return chain

    def test_every_link_names_the_newest(self, memory: Memorist, chain: list[str]) -> None:
        assert [one.superseded_by and one.superseded_by.id for one in memory.get(chain)] == [chain[3]] * 3 + [None]
        assert ids(memory.search("badger")) == [chain[3]]
        assert memory.search("badger").hidden == {"superseded": 3}

    def test_a_chain_made_from_its_end_resolves_too(self, memory: Memorist) -> None:
        a, b, c = memory.add_many(["badger a", "badger b", "badger c"])
        memory.supersede(b, c)
        memory.supersede(a, b)

        assert [one.superseded_by and one.superseded_by.id for one in memory.get([a, b, c])] == [c, c, None]

    def test_several_can_be_replaced_by_one(self, memory: Memorist) -> None:
        a, b, c = memory.add_many(["badger a", "badger b", "badger c"])
        memory.supersede(a, c)
        memory.supersede(b, c)

        assert ids(memory.search("badger")) == [c]

    def test_cycles_are_refused(self, memory: Memorist, chain: list[str]) -> None:
        for first in chain[:3]:
            with pytest.raises(InvalidInput, match="itself supersedes"):
                memory.supersede(chain[3], first)

        assert memory.get(chain[3]).valid_until is None

    def test_a_memory_cannot_replace_itself(self, memory: Memorist) -> None:
        alone = memory.add("alone")

        with pytest.raises(InvalidInput):
            memory.supersede(alone.id, alone.id)

        assert not memory.get(alone.id).superseded

    def test_a_second_successor_is_refused_with_the_first_named(self, memory: Memorist, chain: list[str]) -> None:
        other = memory.add("another successor")

        with pytest.raises(InvalidInput, match=f"superseded already, by {chain[1][-8:]}"):
            memory.supersede(chain[0], other.id)

        assert memory.get(chain[0]).superseded_by == memory.get(chain[1]).superseded_by

    def test_saying_the_same_again_changes_nothing(self, memory: Memorist, path: Path) -> None:
        old, new = memory.add_many(["badger a", "badger b"])
        first = memory.supersede(old, new)
        before = read_rows(path, "select * from relations")

        again = memory.supersede(old, new)

        assert again == first
        assert read_rows(path, "select * from relations") == before

    @pytest.mark.parametrize("erased", [1, 2])
    def test_erasing_the_middle_of_a_chain_joins_its_ends(
        self, memory: Memorist, chain: list[str], erased: int
    ) -> None:
        memory.forget(chain[erased], hard=True)

        left = [id for id in chain if id != chain[erased]]
        assert [one.superseded_by and one.superseded_by.id for one in memory.get(left)] == [chain[3], chain[3], None]
        assert ids(memory.search("badger")) == [chain[3]]
        assert memory.check().problems == ()

    def test_erasing_all_of_the_middle_at_once_joins_the_ends(self, memory: Memorist, chain: list[str]) -> None:
        for id in chain[1:3]:
            memory.forget(id)
        memory.purge()

        first = memory.get(chain[0])
        assert first.superseded_by is not None
        assert first.superseded_by.id == chain[3]

    def test_erasing_the_newest_lets_the_one_before_it_hold_again(self, memory: Memorist, chain: list[str]) -> None:
        memory.forget(chain[3], hard=True)

        assert ids(memory.search("badger")) == [chain[2]]
        assert memory.get(chain[2]).valid_until is None
        assert memory.get(chain[0]).superseded_by is not None
        assert memory.get(chain[0]).superseded_by["id"] == chain[2]  # type: ignore[index]

    def test_a_forgotten_link_of_a_chain_is_passed_over(self, memory: Memorist, chain: list[str]) -> None:
        memory.forget(chain[3])

        first = memory.get(chain[0])
        assert first.superseded_by is not None
        assert first.superseded_by.id == chain[2]
        memory.restore(chain[3])
        assert memory.get(chain[0]).superseded_by["id"] == chain[3]  # type: ignore[index]

    def test_a_chain_of_hundreds_is_resolved(self) -> None:
        with memorist.open(":memory:", embedder="none") as memory:
            chain = memory.add_many(f"badger {number}" for number in range(300))
            for old, new in pairwise(chain):
                memory.supersede(old, new)

            assert memory.get(chain[0]).superseded_by["id"] == chain[-1]  # type: ignore[index]
            assert ids(memory.search("badger")) == [chain[-1]]


class TestUndoing:
    def test_undone_it_holds_again(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        old, new = endpoints

        undone = memory.unsupersede(old.id)

        assert (undone.valid_until, undone.superseded_by) == (None, None)
        assert set(ids(memory.search("API endpoint"))) == {old.id, new.id}

    def test_the_past_remembers_that_it_was_superseded(
        self, memory: Memorist, endpoints: tuple[Memory, Memory]
    ) -> None:
        old, new = endpoints
        then = now()
        memory.unsupersede(old.id)

        assert ids(memory.search("API endpoint", as_of=then)) == [new.id]
        assert memory.get(old.id, as_of=then).superseded
        assert not memory.get(old.id, as_of=now()).superseded

    def test_after_an_undo_another_can_replace_it(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        old, _ = endpoints
        other = memory.add("API endpoint is gone")
        memory.unsupersede(old.id)

        again = memory.supersede(old.id, other.id)

        assert again.superseded_by is not None
        assert again.superseded_by.id == other.id

    def test_after_an_undo_the_order_can_be_turned_round(
        self, memory: Memorist, endpoints: tuple[Memory, Memory]
    ) -> None:
        old, new = endpoints
        memory.unsupersede(old.id)

        memory.supersede(new.id, old.id)

        assert ids(memory.search("API endpoint")) == [old.id]

    def test_there_is_nothing_to_undo_for_what_holds(self, memory: Memorist, endpoints: tuple[Memory, Memory]) -> None:
        with pytest.raises(InvalidInput, match="is not superseded"):
            memory.unsupersede(endpoints[1].id)

    def test_adding_the_superseded_text_again_revives_it(
        self, memory: Memorist, endpoints: tuple[Memory, Memory]
    ) -> None:
        old, new = endpoints

        again = memory.add(old.content, on_near_duplicate="off")

        assert again.id == old.id
        assert (again.valid_until, again.superseded_by) == (None, None)
        assert again.salience > old.salience
        assert set(ids(memory.search("API endpoint"))) == {old.id, new.id}

    @pytest.mark.parametrize("call", ["supersede", "unsupersede"])
    def test_unknown_and_forgotten_memories_are_not_found(self, memory: Memorist, call: str) -> None:
        known, gone = memory.add("known"), memory.add("gone")
        memory.forget(gone.id)
        for id in ("nobody-has-this", gone.id):
            with pytest.raises(NotFound):
                memory.supersede(id, known.id) if call == "supersede" else memory.unsupersede(id)
            with pytest.raises(NotFound):
                memory.supersede(known.id, id)

    def test_ids_may_be_short(self, memory: Memorist) -> None:
        old, new = memory.add("one"), memory.add("two")

        assert memory.supersede(old.short_id, new.short_id).id == old.id
        assert memory.unsupersede(old.short_id).id == old.id


class TestSinceWhen:
    def test_it_is_since_now_when_both_are_of_today(self, memory: Memorist) -> None:
        old, new = memory.add("one"), memory.add("two")
        before = now()

        superseded = memory.supersede(old.id, new.id)

        assert superseded.valid_until is not None
        assert before <= superseded.valid_until <= now()

    def test_a_new_memory_that_was_dated_back_replaces_it_from_its_own_time(self, memory: Memorist) -> None:
        old = memory.add("we use Postgres 14", created_at="2026-01-10T12:00Z", on_near_duplicate="off")
        new = memory.add("we use Postgres 16", created_at="2026-03-10T12:00Z", on_near_duplicate="off")

        superseded = memory.supersede(old.id, new.id)

        assert superseded.valid_until == datetime(2026, 3, 10, 12, tzinfo=UTC)
        assert ids(memory.search("Postgres", as_of="2026-02-01")) == [old.id]
        assert ids(memory.search("Postgres", as_of="2026-04-01")) == [new.id]

    def test_it_does_not_end_before_it_began(self, memory: Memorist) -> None:
        """A tale of long ago that replaces something recent does so from now on."""
        recent = memory.add("told last week", created_at=days_ago(7))
        tale = memory.add("a tale of long ago", created_at=days_ago(1000))
        before = now()

        superseded = memory.supersede(recent.id, tale.id)

        assert superseded.valid_until is not None
        assert superseded.valid_until >= before

    def test_at_says_otherwise(self, memory: Memorist) -> None:
        old = memory.add("badger one", created_at="2026-01-10T12:00Z")
        new = memory.add("badger two", created_at="2026-01-20T12:00Z")

        superseded = memory.supersede(old.id, new.id, at="2026-02-01T00:00Z")

        assert superseded.valid_until == datetime(2026, 2, 1, tzinfo=UTC)
        assert set(ids(memory.search("badger", as_of="2026-01-25T00:00Z"))) == {old.id, new.id}
        assert ids(memory.search("badger", as_of="2026-02-01T00:00Z")) == [new.id]

    def test_a_time_before_it_began_is_refused(self, memory: Memorist) -> None:
        old = memory.add("badger one", created_at="2026-01-10T12:00Z")
        new = memory.add("badger two")

        with pytest.raises(InvalidInput, match="began on 2026-01-10 12:00 UTC"):
            memory.supersede(old.id, new.id, at="2026-01-10T11:59Z")
        with pytest.raises(InvalidInput, match="is not a time"):
            memory.supersede(old.id, new.id, at="soonish")

        assert not memory.get(old.id).superseded

    def test_a_time_ahead_is_refused(self, memory: Memorist) -> None:
        old, new = memory.add("badger one"), memory.add("badger two")

        with pytest.raises(InvalidInput, match="in the future"):
            memory.supersede(old.id, new.id, at=now() + timedelta(days=5))

        assert set(ids(memory.search("badger"))) == {old.id, new.id}

    def test_at_no_time_have_two_memories_replaced_each_other(self, memory: Memorist) -> None:
        one, other = (
            memory.add("badger one", on_near_duplicate="off"),
            memory.add("badger two", on_near_duplicate="off"),
        )
        start = now()
        memory.supersede(one.id, other.id)
        then = now()
        memory.unsupersede(one.id)
        with suppress(InvalidInput):  # to refuse it would do as well
            memory.supersede(other.id, one.id, at=start)

        assert len(memory.search("badger", as_of=then)) == 1

    def test_who_said_so_is_kept(self, memory: Memorist, path: Path) -> None:
        memory.supersede(memory.add("one").id, memory.add("two").id, said_by="anna")

        assert read_rows(path, "select kind, said_by from relations") == [("supersedes", "anna")]


class TestBeyondOneMemory:
    def test_no_other_namespace_can_replace_anything(self, path: Path) -> None:
        with memorist.open(path, embedder="none", namespace="mine") as mine:
            secret = mine.add("mine")
            with memorist.open(path, embedder="none", namespace="theirs") as theirs:
                own = theirs.add("theirs")
                for call in (
                    lambda: theirs.supersede(secret.id, own.id),
                    lambda: theirs.supersede(own.id, secret.id),
                    lambda: theirs.unsupersede(secret.id),
                ):
                    with pytest.raises(NotFound):
                        call()
            assert not mine.get(secret.id).superseded

    def test_another_memory_of_the_same_file_follows(self, path: Path) -> None:
        with (
            memorist.open(path, embedder=HashingEmbedder()) as one,
            memorist.open(path, embedder=HashingEmbedder()) as other,
        ):
            old, new = one.add("badger one", on_near_duplicate="off"), one.add("badger two", on_near_duplicate="off")
            assert len(other.search("badger")) == 2

            one.supersede(old.id, new.id)

            assert ids(other.search("badger")) == [new.id]

    def test_the_text_of_what_was_replaced_stays_readable(
        self, memory: Memorist, endpoints: tuple[Memory, Memory]
    ) -> None:
        assert texts(memory.get([endpoints[0].id])) == ["Old API endpoint is /v1"]
