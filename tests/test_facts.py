"""Facts: what a memory says piece by piece, and how sure it still is."""

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import ids
from clock import days_ago, days_ahead, now, to_microseconds
from memorist import InvalidInput, Memorist, NotFound
from statements import read_rows

# As Cortex published them: its first table, and the one it has now.
SLOW = {
    "identity": 0.001, "decision": 0.002, "relationship": 0.003, "location": 0.005, "preference": 0.01, "kv": 0.01,
    "state": 0.05, "temporal": 0.1,
}  # fmt: skip
FAST = {
    "identity": 0.01, "preference": 0.02, "relationship": 0.02, "config": 0.03, "location": 0.03, "decision": 0.05,
    "kv": 0.05, "state": 0.1, "temporal": 0.15,
}  # fmt: skip


class TestAdding:
    def test_a_memory_comes_with_its_facts(self, memory: Memorist) -> None:
        added = memory.add(
            "Anna moved to Berlin and likes tea",
            facts=[
                "Anna likes tea",
                {
                    "text": "Anna lives in Berlin",
                    "kind": "location",
                    "confidence": 0.8,
                    "decay_rate": 0.02,
                    "subject": "Anna",
                    "predicate": "lives in",
                    "object": "Berlin",
                },
            ],
        )

        tea, berlin = memory.get(added.id).facts
        assert (tea.text, tea.kind, tea.confidence) == ("Anna likes tea", None, 1.0)
        assert (berlin.text, berlin.kind, berlin.confidence) == ("Anna lives in Berlin", "location", 0.8)
        assert (berlin.subject, berlin.predicate, berlin.object) == ("Anna", "lives in", "Berlin")
        assert berlin.decay_rate == 0.02
        assert berlin.memory_id == added.id
        assert berlin["text"] == berlin.text
        assert [fact.id for fact in added.facts] == [tea.id, berlin.id]
        assert memory.stats().facts == 2

    def test_one_fact_need_not_be_a_list(self, memory: Memorist) -> None:
        assert [fact.text for fact in memory.add("one", facts="a fact").facts] == ["a fact"]
        assert [fact.text for fact in memory.add("two", facts={"text": "a fact"}).facts] == ["a fact"]

    def test_a_fact_is_added_later_with_all_its_fields(self, memory: Memorist) -> None:
        added = memory.add("Anna moved to Berlin")
        before = now()

        fact = memory.facts.add(
            added.short_id,
            "Anna lives in Berlin",
            kind="location",
            confidence=0.8,
            decay_rate=0.02,
            subject="Anna",
            predicate="lives in",
            object="Berlin",
        )

        assert (fact.text, fact.kind, fact.confidence, fact.decay_rate) == (
            "Anna lives in Berlin",
            "location",
            0.8,
            0.02,
        )
        assert (fact.subject, fact.predicate, fact.object) == ("Anna", "lives in", "Berlin")
        assert before <= fact.created_at == fact.reinforced_at <= now()
        (stored,) = memory.get(added.id).facts
        assert stored.id == fact.id
        assert stored.effective == pytest.approx(0.8)

    def test_many_come_with_facts(self, memory: Memorist) -> None:
        (id,) = memory.add_many([{"content": "one", "facts": ["a", "b"]}])

        assert [fact.text for fact in memory.get(id).facts] == ["a", "b"]

    def test_a_duplicate_brings_its_facts(self, memory: Memorist) -> None:
        memory.add("one", facts=["a"])

        again = memory.add("one", facts=["b"])

        assert [fact.text for fact in again.facts] == ["a", "b"]
        assert ids(memory.search("b")) == [again.id]

    def test_the_same_text_again_is_the_same_fact_with_the_new_confidence(self, memory: Memorist) -> None:
        added = memory.add("one")
        first = memory.facts.add(added.id, "a fact", kind="state", confidence=0.4)

        second = memory.facts.add(added.id, "a fact", confidence=0.7)

        assert second.id == first.id
        assert (second.confidence, second.kind) == (0.7, "state")
        assert second.reinforced_at > first.reinforced_at
        assert second.created_at == first.created_at
        assert len(memory.get(added.id).facts) == 1

    def test_two_memories_can_say_the_same(self, memory: Memorist) -> None:
        one, other = memory.add("one", facts=["a fact"]), memory.add("two", facts=["a fact"])

        assert one.facts[0].id != other.facts[0].id

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize(
        ("fact", "complaint"),
        [
            ("", "empty"),
            ({"text": " "}, "empty"),
            ({"kind": "state"}, "a fact needs a text"),
            ({"text": "x", "confidence": 1.5}, "confidence must be from 0 to 1"),
            ({"text": "x", "confidence": -1}, "confidence must be from 0 to 1"),
            ({"text": "x", "confidence": "sure"}, "confidence must be a number"),
            ({"text": "x", "decay_rate": -0.1}, "decay_rate must be from 0"),
            ({"text": "x", "kind": ""}, "kind is empty"),
            ({"text": "x", "colour": "red"}, "a fact has no field 'colour'"),
            (5, "a fact must be text or a mapping"),
        ],
    )
    def test_what_cannot_be_used_is_refused_and_nothing_is_written(
        self, memory: Memorist, fact: Any, complaint: str
    ) -> None:
        with pytest.raises(InvalidInput, match=complaint):
            memory.add("a memory", facts=[fact])

        assert len(memory.list()) == 0

    def test_an_unknown_memory_is_not_found(self, memory: Memorist) -> None:
        with pytest.raises(NotFound):
            memory.facts.add("nobody-has-this", "a fact")


class TestFinding:
    @pytest.mark.parametrize("profile", ["balanced", "confidence"])
    def test_a_memory_is_found_by_the_words_of_its_facts(self, memory: Memorist, profile: str) -> None:
        added = memory.add("she moved last spring", facts=["Anna lives in Berlin"])
        memory.add("something else")

        (hit,) = memory.search("Berlin", profile=profile)

        assert hit.memory.id == added.id
        assert hit.keyword_score

    def test_a_fact_in_unspaced_script_is_found(self, memory: Memorist) -> None:
        added = memory.add("how we ship", facts=["我们用脚本部署到生产环境"])
        later = memory.add("where we ship")
        memory.facts.add(later.id, "サーバーは東京にある")

        assert ids(memory.search("部署")) == [added.id]
        assert ids(memory.search("东京")) == []
        assert ids(memory.search("東京")) == [later.id]

    def test_a_fact_added_later_is_found_and_a_removed_one_is_not(self, memory: Memorist) -> None:
        added = memory.add("she moved", facts=["Anna lives in Berlin"])
        fact = memory.facts.add(added.id, "Anna likes oolong 烏龍")
        assert ids(memory.search("oolong")) == ids(memory.search("烏龍")) == [added.id]

        assert memory.facts.remove(fact.id[-8:]).text == "Anna likes oolong 烏龍"

        assert ids(memory.search("oolong")) == ids(memory.search("烏龍")) == []
        assert ids(memory.search("Berlin")) == [added.id]
        assert memory.check().problems == ()

    def test_an_update_of_the_text_keeps_the_facts_findable(self, memory: Memorist) -> None:
        added = memory.add("she moved", facts=["Anna lives in Berlin 柏林"])
        memory.update(added.id, content="he stayed")

        assert ids(memory.search("Berlin")) == ids(memory.search("柏林")) == [added.id]

    def test_a_forgotten_memory_is_not_found_by_its_facts(self, memory: Memorist) -> None:
        added = memory.add("she moved", facts=["Anna lives in Berlin"])
        memory.forget(added.id)
        assert ids(memory.search("Berlin")) == []

        memory.restore(added.id)
        assert ids(memory.search("Berlin")) == [added.id]

    def test_hits_show_the_facts_with_what_is_left_of_them(self, memory: Memorist) -> None:
        memory.add("she moved", facts=[{"text": "Anna lives in Berlin", "confidence": 0.8}, "Anna likes tea"])

        (hit,) = memory.search("moved")

        assert [fact.text for fact in hit.facts] == ["Anna lives in Berlin", "Anna likes tea"]
        assert [fact.effective for fact in hit.facts] == pytest.approx([0.8, 1.0])
        assert hit.memory.facts == hit.facts

    def test_facts_can_be_left_out_of_the_answer_but_not_of_the_confidence(self, memory: Memorist) -> None:
        memory.add("she moved", facts=[{"text": "Anna lives in Berlin", "confidence": 0.8}])

        (hit,) = memory.search("Berlin", include_facts=False)

        assert (hit.facts, hit.memory.facts) == ((), ())
        assert hit.confidence == pytest.approx(0.8)

    def test_a_kind_of_fact_can_be_asked_for(self, memory: Memorist) -> None:
        place = memory.add("badger one", facts=[{"text": "lives here", "kind": "location"}], on_near_duplicate="off")
        mood = memory.add("badger two", facts=[{"text": "is glad", "kind": "state"}], on_near_duplicate="off")
        memory.add("badger three", on_near_duplicate="off")

        assert ids(memory.search("badger", fact_kind="location")) == [place.id]
        assert set(ids(memory.list(fact_kind=["location", "state"]))) == {place.id, mood.id}

    def test_erasing_a_memory_erases_its_facts(self, memory: Memorist, path: Path) -> None:
        added = memory.add("she moved", facts=["Anna lives in Berlin"])
        memory.reinforce(added.id)

        memory.forget(added.id, hard=True)

        assert (
            read_rows(path, "select count(*) from facts")
            == read_rows(path, "select count(*) from fact_history")
            == [(0,)]
        )

    def test_a_fact_of_another_namespace_cannot_be_touched(self, memory: Memorist, path: Path) -> None:
        fact = memory.add("she moved", facts=["Anna lives in Berlin"]).facts[0]
        with memorist.open(path, embedder="none", namespace="other") as other:
            for call in (other.facts.remove, other.facts.reinforce):
                with pytest.raises(NotFound, match="no fact has the id"):
                    call(fact.id)


class TestDecay:
    """effective = confidence * exp(-rate * days since it was reinforced)."""

    @pytest.mark.parametrize("days", [0, 1, 7, 69.3, 365])
    def test_a_rate_of_its_own(self, memory: Memorist, days: float) -> None:
        added = memory.add("badger")
        fact = memory.facts.add(added.id, "badgers dig", confidence=0.9, decay_rate=0.01)
        then = fact.reinforced_at + timedelta(days=days)

        expected = 0.9 * math.exp(-0.01 * days)
        assert memory.get(added.id, as_of=then).facts[0].effective == pytest.approx(expected)
        assert memory.search("badger", as_of=then)[0].confidence == pytest.approx(expected)

    def test_old_facts_have_decayed_by_now(self, memory: Memorist, path: Path) -> None:
        added = memory.add("badger", facts=[{"text": "badgers dig", "decay_rate": 0.05}])
        read_rows(path, "update facts set reinforced_at = ?", to_microseconds(days_ago(20)))

        assert memory.get(added.id).facts[0].effective == pytest.approx(math.exp(-1), rel=1e-4)
        assert memory.list()[0].facts[0].effective == pytest.approx(math.exp(-1), rel=1e-4)
        assert memory.search("badger")[0].confidence == pytest.approx(math.exp(-1), rel=1e-4)

    def test_facts_of_a_memory_that_was_dated_back_are_as_old_as_it(self, memory: Memorist) -> None:
        added = memory.add("badger", created_at=days_ago(20), facts=[{"text": "badgers dig", "decay_rate": 0.05}])

        assert added.facts[0].effective == pytest.approx(math.exp(-1), rel=1e-4)

    @pytest.mark.parametrize("kind", sorted(SLOW))
    def test_different_kinds_decay_at_different_rates(self, memory: Memorist, kind: str) -> None:
        added = memory.add("badger", facts=[{"text": "badgers dig", "kind": kind}])
        then = added.facts[0].reinforced_at + timedelta(days=30)

        (fact,) = memory.get(added.id, as_of=then).facts
        assert fact.effective == pytest.approx(math.exp(-SLOW[kind] * 30))
        assert fact.decay_rate == SLOW[kind]

    @pytest.mark.parametrize(("preset", "table"), [("slow", SLOW), ("fast", FAST)])
    def test_both_published_tables_are_there_by_name(
        self, memory: Memorist, preset: str, table: dict[str, float]
    ) -> None:
        for kind in table:
            memory.add(f"badger of {kind}", facts=[{"text": "badgers dig", "kind": kind}], on_near_duplicate="off")
        then = days_ahead(30)

        results = memory.search("badger", limit=20, fact_decay=preset, as_of=then)

        found = {hit.facts[0].kind: hit.confidence for hit in results}
        assert found == pytest.approx({kind: math.exp(-rate * 30) for kind, rate in table.items()}, rel=1e-4)

    @pytest.mark.local_only("a server refuses it in other words")
    @pytest.mark.parametrize("kind", [None, "unheard-of"])
    def test_a_kind_nobody_listed_decays_like_kv(self, memory: Memorist, kind: str | None) -> None:
        added = memory.add("badger", facts=[{"text": "badgers dig", "kind": kind}])
        then = added.facts[0].reinforced_at + timedelta(days=30)

        assert memory.search("badger", as_of=then)[0].confidence == pytest.approx(math.exp(-0.01 * 30))
        assert memory.search("badger", as_of=then, fact_decay="fast")[0].confidence == pytest.approx(
            math.exp(-0.05 * 30)
        )

    def test_a_table_of_ones_own_replaces_what_it_names(self, memory: Memorist) -> None:
        added = memory.add("badger", facts=[{"text": "glad", "kind": "mood"}, {"text": "sett", "kind": "location"}])
        then = added.facts[0].reinforced_at + timedelta(days=10)

        (hit,) = memory.search("badger", as_of=then, fact_decay={"mood": 0.2})

        assert [fact.effective for fact in hit.facts] == pytest.approx([math.exp(-2), math.exp(-0.05)])

    def test_a_rate_of_its_own_counts_more_than_any_table(self, memory: Memorist) -> None:
        added = memory.add("badger", facts=[{"text": "badgers dig", "kind": "temporal", "decay_rate": 0}])

        (hit,) = memory.search("badger", as_of=days_ahead(1000), fact_decay="fast")

        assert hit.confidence == 1.0
        assert added.facts[0].decay_rate == 0.0

    @pytest.mark.parametrize("table", ["nobodys", {"mood": -1}, {"mood": "fast"}, {"": 1}, 5])
    def test_a_table_that_is_none_is_refused(self, memory: Memorist, table: Any) -> None:
        with pytest.raises(InvalidInput, match="fact_decay"):
            memory.search("badger", fact_decay=table)

    def test_a_time_before_the_fact_takes_nothing_off(self, memory: Memorist, path: Path) -> None:
        """A clock that was set back must not make anybody surer than sure."""
        memory.add("badger", facts=[{"text": "badgers dig", "confidence": 0.8, "decay_rate": 1}])
        read_rows(path, "update facts set reinforced_at = ?", to_microseconds(days_ahead(5)))

        assert memory.search("badger")[0].confidence == pytest.approx(0.8)

    def test_decay_is_never_written_back(self, memory: Memorist, path: Path) -> None:
        added = memory.add("badger", facts=[{"text": "badgers dig", "decay_rate": 0.1}])
        read_rows(path, "update facts set reinforced_at = ?", to_microseconds(days_ago(5)))
        before = read_rows(path, "select * from facts"), read_rows(path, "select * from memories")

        for _ in range(3):
            memory.search("badger", profile="confidence")
            memory.search("badger", as_of=days_ahead(10))
            memory.get(added.id)
            memory.list()
            memory.timeline(anchor=added.id)
            memory.related(added.id)

        assert (read_rows(path, "select * from facts"), read_rows(path, "select * from memories")) == before
        assert memory.get(added.id).facts[0].effective == pytest.approx(math.exp(-0.5), rel=1e-4)


class TestReinforcing:
    def test_value_and_time_are_set_together(self, memory: Memorist, path: Path) -> None:
        added = memory.add("badger", facts=[{"text": "badgers dig", "decay_rate": 0.1}])
        read_rows(path, "update facts set reinforced_at = ?", to_microseconds(days_ago(10)))
        left = math.exp(-1)
        before = now()

        fact = memory.facts.reinforce(added.facts[0].id, 0.2)

        assert fact.confidence == pytest.approx(left + 0.2 * (1 - left), rel=1e-4)
        assert fact.effective == pytest.approx(fact.confidence, rel=1e-6)
        assert before <= fact.reinforced_at <= now()
        ((stored, at),) = read_rows(path, "select confidence, reinforced_at from facts")
        assert (stored, at) == (fact.confidence, to_microseconds(fact.reinforced_at))

    def test_what_is_left_decays_from_then_on(self, memory: Memorist, path: Path) -> None:
        added = memory.add("badger", facts=[{"text": "badgers dig", "decay_rate": 0.1}])
        read_rows(path, "update facts set reinforced_at = ?", to_microseconds(days_ago(10)))
        fact = memory.facts.reinforce(added.facts[0].id, 0.2)

        (later,) = memory.get(added.id, as_of=fact.reinforced_at + timedelta(days=3)).facts

        assert later.effective == pytest.approx(fact.confidence * math.exp(-0.3))

    def test_nothing_added_changes_nothing_of_what_is_left(self, memory: Memorist, path: Path) -> None:
        """Re-basing is not decaying again: over and over, the curve stays the same."""
        added = memory.add("badger", facts=[{"text": "badgers dig", "decay_rate": 0.1}])
        start = days_ago(10)
        read_rows(path, "update facts set reinforced_at = ?", to_microseconds(start))

        for _ in range(5):
            memory.facts.reinforce(added.facts[0].id, 0)

        then = days_ahead(5)
        (fact,) = memory.get(added.id, as_of=then).facts
        assert fact.effective == pytest.approx(math.exp(-0.1 * (then - start).total_seconds() / 86_400), rel=1e-6)

    def test_reinforcing_a_memory_reinforces_its_facts(self, memory: Memorist, path: Path) -> None:
        added = memory.add(
            "badger", facts=[{"text": "badgers dig", "decay_rate": 0.1}, {"text": "at night", "confidence": 0.5}]
        )
        read_rows(path, "update facts set reinforced_at = ? where text = 'badgers dig'", to_microseconds(days_ago(10)))
        left = math.exp(-1)

        one, other = memory.reinforce(added.id, 0.5).facts

        assert one.effective == pytest.approx(left + 0.5 * (1 - left), rel=1e-4)
        assert other.effective == pytest.approx(0.75, rel=1e-4)

    def test_deemphasizing_a_memory_leaves_its_facts(self, memory: Memorist) -> None:
        added = memory.add("badger", facts=[{"text": "badgers dig", "confidence": 0.5, "decay_rate": 0}])

        assert memory.deemphasize(added.id).facts == added.facts

    def test_it_never_goes_beyond_one(self, memory: Memorist) -> None:
        fact = memory.add("badger", facts=["badgers dig"]).facts[0]
        for _ in range(20):
            fact = memory.facts.reinforce(fact.id, 0.9)

        assert fact.confidence <= 1.0
        assert memory.facts.reinforce(fact.id, 1.0).confidence == 1.0

    def test_a_kind_rebases_by_its_own_rate(self, memory: Memorist, path: Path) -> None:
        added = memory.add("badger", facts=[{"text": "digs today", "kind": "temporal"}])
        read_rows(path, "update facts set reinforced_at = ?", to_microseconds(days_ago(10)))
        left = math.exp(-1)

        assert memory.facts.reinforce(added.facts[0].id, 0.5).confidence == pytest.approx(left + 0.5 * (1 - left), 1e-4)

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize("amount", [-0.1, 1.1, "much", None])
    def test_an_amount_that_is_no_share_is_refused(self, memory: Memorist, amount: Any) -> None:
        fact = memory.add("badger", facts=["badgers dig"]).facts[0]

        with pytest.raises(InvalidInput, match="amount"):
            memory.facts.reinforce(fact.id, amount)

    def test_an_unknown_fact_is_not_found(self, memory: Memorist) -> None:
        added = memory.add("badger", facts=["badgers dig"])

        for id in ("nobody-has-this", added.id):
            with pytest.raises(NotFound, match="no fact has the id"):
                memory.facts.reinforce(id)
            with pytest.raises(NotFound, match="no fact has the id"):
                memory.facts.remove(id)


class TestWeighting:
    """How sure a memory is: the mean over its facts; and what that does to its score."""

    @pytest.fixture(autouse=True)
    def _two_badgers(self, memory: Memorist) -> None:
        unsure = [
            {"text": text, "confidence": value, "decay_rate": 0} for text, value in (("digs", 0.2), ("naps", 0.6))
        ]
        memory.add("badger with facts", facts=unsure, on_near_duplicate="off")
        memory.add("badger without any", on_near_duplicate="off")

    def confidence(self, memory: Memorist, **options: Any) -> dict[int, Any]:
        """Hits by how many facts they have."""
        return {len(hit.memory.facts): hit for hit in memory.search("badger", **options)}

    def test_the_mean_over_the_facts_and_one_without(self, memory: Memorist) -> None:
        hits = self.confidence(memory)

        assert hits[2].confidence == pytest.approx(0.4)
        assert hits[0].confidence == 1.0

    def test_it_is_told_but_changes_no_score_unless_asked(self, memory: Memorist) -> None:
        hits = self.confidence(memory)

        assert "confidence" not in hits[2].trace
        assert hits[2].confidence == pytest.approx(0.4)

    @pytest.mark.parametrize(
        ("options", "factor"),
        [
            ({"confidence_mode": "multiply"}, 0.4),
            ({"confidence_mode": "blend"}, 0.8 + 0.2 * 0.4),
            ({"confidence_mode": "blend", "confidence_weight": 0.5}, 0.5 + 0.5 * 0.4),
            ({"confidence_mode": "blend", "confidence_weight": 0.0}, 1.0),
            ({"confidence_mode": "blend", "confidence_weight": 1.0}, 0.4),
            ({"confidence_mode": "off"}, 1.0),
        ],
    )
    def test_exact_scores(self, memory: Memorist, options: dict[str, Any], factor: float) -> None:
        plain = self.confidence(memory, confidence_mode="off")

        weighed = self.confidence(memory, **options)

        assert weighed[2].score == pytest.approx(plain[2].score * factor)
        assert weighed[0].score == pytest.approx(plain[0].score)
        assert math.fsum(weighed[2].trace.values()) == pytest.approx(weighed[2].score)

    def test_the_surer_of_two_comes_first(self, memory: Memorist) -> None:
        assert [len(hit.facts) for hit in memory.search("badger", confidence_mode="multiply")] == [0, 2]

    @pytest.mark.parametrize(("least", "found"), [(0.0, 2), (0.39, 2), (0.41, 1), (1.0, 1)])
    def test_what_is_less_sure_than_asked_for_is_dropped_and_counted(
        self, memory: Memorist, least: float, found: int
    ) -> None:
        results = memory.search("badger", min_confidence=least)

        assert len(results) == found
        assert results.hidden.get("min_confidence", 0) == 2 - found

    def test_the_profile_confidence_multiplies_and_drops_below_a_tenth(self, memory: Memorist) -> None:
        memory.add(
            "badger in doubt", facts=[{"text": "sings", "confidence": 0.09, "decay_rate": 0}], on_near_duplicate="off"
        )

        results = memory.search("badger", profile="confidence")

        assert sorted(len(hit.facts) for hit in results) == [0, 2]
        assert results.hidden == {"min_confidence": 1}
        by_facts = {len(hit.facts): hit for hit in results}
        assert by_facts[2].trace["confidence"] == pytest.approx(-0.6 * by_facts[2].score / 0.4)

    def test_a_sure_memory_fills_the_place_of_one_that_was_dropped(self, memory: Memorist) -> None:
        results = memory.search("badger", min_confidence=0.5, limit=1)

        assert [len(hit.facts) for hit in results] == [0]

    @pytest.mark.parametrize(
        "options", [{"confidence_mode": "double"}, {"confidence_weight": 2}, {"min_confidence": -1}]
    )
    def test_options_that_cannot_be_are_refused(self, memory: Memorist, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match=next(iter(options))):
            memory.search("badger", **options)
