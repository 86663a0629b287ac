"""What memories have to do with each other: typed, sure to a degree, said by somebody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import ids
from clock import now
from cosine_embedder import CosineEmbedder
from memorist import InvalidInput, Memorist, NotFound
from statements import read_rows


@pytest.fixture
def placed(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=CosineEmbedder(), on_near_duplicate="off") as memory:
        yield memory


@pytest.fixture
def three(memory: Memorist) -> list[str]:
    """Memories with no word in common."""
    return memory.add_many(["alpha", "beta", "gamma"])


class TestRelating:
    def test_a_relation_has_all_that_was_said(self, memory: Memorist, three: list[str]) -> None:
        a, b, _ = three
        before = now()

        relation = memory.links.add(a, b, "causes", confidence=0.7, said_by="anna")

        assert (relation.source, relation.target, relation.kind) == (a, b, "causes")
        assert (relation.confidence, relation.said_by) == (0.7, "anna")
        assert before <= relation.valid_from <= now()
        assert relation.valid_until is None

    def test_it_is_sure_and_said_by_nobody_unless_told(self, memory: Memorist, three: list[str]) -> None:
        relation = memory.links.add(three[0], three[1], "RELATED_TO")

        assert (relation.confidence, relation.said_by) == (1.0, None)

    def test_it_is_seen_from_both_ends_with_its_direction(self, memory: Memorist, three: list[str]) -> None:
        a, b, _ = three
        relation = memory.links.add(a, b, "causes", confidence=0.7, said_by="anna")

        assert [(one.memory.id, one.relation) for one in memory.related(a)] == [(b, relation)]
        assert [(one.memory.id, one.relation) for one in memory.related(b)] == [(a, relation)]

    def test_ids_may_be_short(self, memory: Memorist, three: list[str]) -> None:
        a, b, _ = three

        relation = memory.links.add(a[-8:], b[-8:], "causes")

        assert (relation.source, relation.target) == (a, b)
        assert ids(memory.related(a[-8:])) == [b]
        memory.links.remove(a[-8:], b[-8:], "causes")
        assert memory.related(a) == []

    def test_said_again_the_new_confidence_counts(self, memory: Memorist, three: list[str]) -> None:
        a, b, _ = three
        memory.links.add(a, b, "causes", confidence=0.3, said_by="anna")

        memory.links.add(a, b, "causes", confidence=0.9, said_by="ben")

        (one,) = memory.related(a)
        assert one.relation is not None
        assert (one.relation.confidence, one.relation.said_by) == (0.9, "ben")
        assert memory.get(a).related_count == 1

    def test_two_memories_can_have_several_relations(self, memory: Memorist, three: list[str]) -> None:
        a, b, _ = three
        memory.links.add(a, b, "causes")
        memory.links.add(b, a, "explains")

        assert memory.get(a).related_count == 2
        assert memory.search("alpha")[0].related_count == 2

    def test_a_memory_with_several_relations_is_listed_once_with_the_surest_first(
        self, memory: Memorist, three: list[str]
    ) -> None:
        a, b, c = three
        memory.links.add(a, b, "causes", confidence=0.3)
        sure = memory.links.add(b, a, "explains", confidence=0.9)
        memory.links.add(a, c, "sees", confidence=0.5)
        memory.links.add(a, b, "sees", confidence=0.4)

        first, second = memory.related(a, 2)

        assert (first.memory.id, first.relation) == (b, sure)
        assert [(one.kind, one.source, one.confidence) for one in first.further_relations] == [
            ("sees", a, 0.4),
            ("causes", a, 0.3),
        ]
        assert (second.memory.id, second.further_relations) == (c, ())

    @pytest.mark.parametrize("kind", ["supersedes", "SUPERSEDES", " Supersedes "])
    def test_supersession_is_no_relation_like_others(self, memory: Memorist, three: list[str], kind: str) -> None:
        with pytest.raises(InvalidInput, match="`supersede` says"):
            memory.links.add(three[0], three[1], kind)
        with pytest.raises(InvalidInput, match="`supersede` says"):
            memory.links.remove(three[0], three[1], kind)

        assert not memory.get(three[1]).superseded

    def test_a_memory_is_not_related_to_itself(self, memory: Memorist, three: list[str]) -> None:
        with pytest.raises(InvalidInput, match="cannot be related to itself"):
            memory.links.add(three[0], three[0], "causes")

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            ({"kind": ""}, "kind is empty"),
            ({"kind": None}, "kind is needed"),
            ({"kind": 5}, "kind must be text"),
            ({"kind": "x", "confidence": 1.1}, "confidence must be from 0 to 1"),
            ({"kind": "x", "confidence": -0.1}, "confidence must be from 0 to 1"),
            ({"kind": "x", "confidence": "sure"}, "confidence must be a number"),
            ({"kind": "x", "said_by": ""}, "said_by is empty"),
        ],
    )
    def test_what_cannot_be_used_is_refused(
        self, memory: Memorist, three: list[str], arguments: dict[str, Any], complaint: str
    ) -> None:
        with pytest.raises(InvalidInput, match=complaint):
            memory.links.add(three[0], three[1], **arguments)

        assert memory.related(three[0]) == []

    def test_an_unknown_memory_is_not_found(self, memory: Memorist, three: list[str]) -> None:
        for call in (
            lambda: memory.links.add(three[0], "nobody-has-this", "x"),
            lambda: memory.links.add("nobody-has-this", three[0], "x"),
            lambda: memory.related("nobody-has-this"),
        ):
            with pytest.raises(NotFound):
                call()

    def test_another_namespace_cannot_be_related_to(self, path: Path, memory: Memorist, three: list[str]) -> None:
        with memorist.open(path, embedder="none", namespace="other") as other:
            own = other.add("delta")
            with pytest.raises(NotFound):
                other.links.add(own.id, three[0], "causes")
            with pytest.raises(NotFound):
                other.related(three[0])
            assert other.related(own.id) == []


class TestTakingBack:
    def test_what_is_taken_back_is_no_longer_there(self, memory: Memorist, three: list[str]) -> None:
        a, b, _ = three
        memory.links.add(a, b, "causes")
        memory.links.add(a, b, "explains")

        memory.links.remove(a, b, "causes")

        assert [one.relation.kind for one in memory.related(a) if one.relation] == ["explains"]

    def test_what_nobody_said_cannot_be_taken_back(self, memory: Memorist, three: list[str]) -> None:
        a, b, _ = three
        memory.links.add(a, b, "causes")

        for source, target, kind in ((b, a, "causes"), (a, b, "explains")):
            with pytest.raises(NotFound, match="nothing to take back"):
                memory.links.remove(source, target, kind)
        memory.links.remove(a, b, "causes")
        with pytest.raises(NotFound, match="nothing to take back"):
            memory.links.remove(a, b, "causes")

    def test_what_was_taken_back_can_be_said_again(self, memory: Memorist, three: list[str]) -> None:
        a, b, _ = three
        memory.links.add(a, b, "causes", confidence=0.5)
        memory.links.remove(a, b, "causes")

        memory.links.add(a, b, "causes", confidence=0.6)

        assert [one.relation.confidence for one in memory.related(a) if one.relation] == [0.6]


class TestTheOrder:
    def test_linked_ones_first_the_surest_before_the_others_then_the_most_similar(self, placed: Memorist) -> None:
        one = placed.add("@0.9 one")
        near, nearer = placed.add("@0.6 near"), placed.add("@0.8 nearer")
        unsure, sure = placed.add("@0.1 unsure"), placed.add("@0.2 sure")
        placed.links.add(one.id, unsure.id, "see", confidence=0.4)
        placed.links.add(sure.id, one.id, "see", confidence=0.9)

        found = placed.related(one.id)

        assert ids(found) == [sure.id, unsure.id, nearer.id, near.id]
        assert [one.relation is not None for one in found] == [True, True, False, False]
        cosine = 0.9 * 0.8 + (1 - 0.81) ** 0.5 * 0.6
        assert found[2].similarity == pytest.approx(cosine, abs=2e-3)
        assert found[0].similarity is None

    def test_of_two_as_sure_the_later_said_is_first(self, memory: Memorist, three: list[str]) -> None:
        a, b, c = three
        memory.links.add(a, b, "see")
        memory.links.add(a, c, "see")

        assert ids(memory.related(a)) == [c, b]

    def test_a_linked_one_is_not_told_again_as_similar(self, placed: Memorist) -> None:
        one, twin = placed.add("@0.9 one"), placed.add("@0.9 twin")
        placed.links.add(one.id, twin.id, "see")

        assert ids(placed.related(one.id)) == [twin.id]

    def test_without_vectors_the_similar_ones_share_words(self, memory: Memorist) -> None:
        one = memory.add("the red fox jumps over the lazy dog", on_near_duplicate="off")
        close = memory.add("a red fox jumps", on_near_duplicate="off")
        memory.add("nothing in common")

        assert ids(memory.related(one.id)) == [close.id]

    def test_the_limit_counts_both(self, placed: Memorist) -> None:
        one = placed.add("@0.9 one")
        others = placed.add_many(f"@0.{number} other" for number in range(1, 9))
        for id in others[:3]:
            placed.links.add(one.id, id, "see")

        assert len(placed.related(one.id)) == 8
        assert len(placed.related(one.id, limit=5)) == 5
        assert [entry.relation is not None for entry in placed.related(one.id, limit=4)] == [True] * 3 + [False]
        assert len(placed.related(one.id, 2)) == 2

    @pytest.mark.local_only("a server refuses it in other words")
    @pytest.mark.parametrize("limit", [0, 1001, "5", None])
    def test_a_limit_that_is_none_is_refused(self, memory: Memorist, three: list[str], limit: Any) -> None:
        with pytest.raises(InvalidInput, match="limit"):
            memory.related(three[0], limit=limit)

    def test_a_memory_alone_has_none(self, memory: Memorist) -> None:
        assert memory.related(memory.add("alone").id) == []


class TestCounting:
    def test_the_count_is_on_hits_from_both_ends(self, memory: Memorist) -> None:
        one, other = memory.add("Memory 1", on_near_duplicate="off"), memory.add("Memory 2", on_near_duplicate="off")
        memory.links.add(one.id, other.id, "RELATED_TO", said_by="user")

        assert {hit.memory.id: hit.related_count for hit in memory.search("Memory")} == {one.id: 1, other.id: 1}
        assert memory.get(one.id).related_count == 1
        assert memory.list()[0].related_count == 1

    def test_only_live_and_valid_relations_count(self, memory: Memorist, three: list[str]) -> None:
        a, b, c = three
        d = memory.add("delta").id
        for other in (b, c, d):
            memory.links.add(a, other, "see")
        assert memory.search("alpha")[0].related_count == 3

        memory.links.remove(a, b, "see")
        assert memory.search("alpha")[0].related_count == 2
        memory.forget(c)
        assert memory.search("alpha")[0].related_count == 1
        memory.supersede(d, memory.add("epsilon").id)
        assert memory.search("alpha")[0].related_count == 0
        memory.restore(c)
        memory.unsupersede(d)
        assert memory.search("alpha")[0].related_count == 2

    def test_superseding_is_counted_from_both_ends_until_it_is_undone(self, memory: Memorist, three: list[str]) -> None:
        memory.supersede(three[0], three[1])
        assert [memory.get(id).related_count for id in three] == [1, 1, 0]

        memory.unsupersede(three[0])
        assert [memory.get(id).related_count for id in three] == [0, 0, 0]

    def test_stats_count_them(self, memory: Memorist, three: list[str]) -> None:
        a, b, c = three
        memory.links.add(a, b, "see")
        memory.links.add(b, c, "see")
        memory.links.remove(b, c, "see")

        assert memory.stats().relations == 1


class TestForgetting:
    def test_forgetting_hides_a_relation_and_restoring_shows_it(self, memory: Memorist, three: list[str]) -> None:
        a, b, _ = three
        memory.links.add(a, b, "causes")

        memory.forget(b)
        assert memory.related(a) == []
        memory.restore(b)
        assert ids(memory.related(a)) == [b]

    @pytest.mark.parametrize("end", [0, 1])
    def test_erasing_either_end_erases_the_relation(
        self, memory: Memorist, path: Path, three: list[str], end: int
    ) -> None:
        a, b, c = three
        memory.links.add(a, b, "causes")
        memory.links.remove(a, b, "causes")
        memory.links.add(a, b, "causes", said_by="anna")
        memory.links.add(b, c, "sees")
        memory.links.add(a, c, "sees")

        memory.forget((a, b)[end], hard=True)

        assert read_rows(path, "select count(*) from relations") == [(1,)]
        assert memory.get(c).related_count == 1
