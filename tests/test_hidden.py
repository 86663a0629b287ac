"""An empty page is explained: what each filter and threshold held back, and whether anything is relevant."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memorist
from clock import days_ago, days_ahead, now
from cosine_embedder import CosineEmbedder
from memorist import Memorist


@pytest.fixture
def placed(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=CosineEmbedder(), on_near_duplicate="off") as memory:
        yield memory


class TestFilters:
    @pytest.fixture(autouse=True)
    def _three_badgers(self, memory: Memorist) -> None:
        """Three that match, one of which passes each filter below; and one that does not match at all."""
        for id in ("sess1", "sess2"):
            memory.sessions.start(id=id)
        memory.add(
            "badger one",
            project="api",
            sector="reflective",
            tier="global",
            kind="adr",
            source="README.md",
            tags=["a", "b"],
            session="sess1",
            salience=0.9,
            facts=[{"text": "digs", "kind": "state"}],
            created_at="2026-03-15T12:00Z",
            on_near_duplicate="off",
            id="badger-one",
        )
        memory.pin("badger-one")
        memory.add("badger two", project="web", tags=["a"], created_at="2026-05-15T12:00Z", on_near_duplicate="off")
        memory.add("badger three", created_at="2026-06-15T12:00Z", on_near_duplicate="off")
        memory.add("otter", project="web", created_at="2026-05-15T12:00Z", on_near_duplicate="off")

    @pytest.mark.parametrize(
        ("filters", "count"),
        [
            ({"project": "api"}, 2),
            ({"project": ["api", "web"]}, 1),
            ({"project": "nobodys"}, 3),
            ({"sector": "reflective"}, 2),
            ({"tier": "global"}, 2),
            ({"kind": "adr"}, 2),
            ({"source": "README.md"}, 2),
            ({"tags": "a"}, 1),
            ({"tags": ["a", "b"]}, 2),
            ({"session": "sess1"}, 2),
            ({"session": "sess2"}, 3),
            ({"min_salience": 0.8}, 2),
            ({"fact_kind": "state"}, 2),
            ({"month": "2026-03"}, 2),
            ({"since": "2026-05"}, 1),
            ({"until": "2026-06"}, 1),
            ({"pinned": True}, 2),
            ({"pinned": False}, 1),
            ({"recalled": True}, 3),
            ({"as_of": "2026-04-01"}, 2),
        ],
    )
    def test_each_filter_is_named_with_what_it_held_back(
        self, memory: Memorist, filters: dict[str, Any], count: int
    ) -> None:
        (name,) = filters
        results = memory.search("badger", **filters)

        assert len(results) == 3 - count
        assert results.hidden == {name: count}

    def test_without_a_filter_nothing_is_hidden(self, memory: Memorist) -> None:
        assert memory.search("badger").hidden == {}
        assert memory.search("zebra", project="api").hidden == {}

    def test_a_filter_that_holds_nothing_back_is_not_named(self, memory: Memorist) -> None:
        assert memory.search("badger", since="2026-01").hidden == {}

    def test_one_that_fails_several_counts_for_each(self, memory: Memorist) -> None:
        assert memory.search("badger", project="api", since="2026-04").hidden == {"project": 2, "since": 1}

    def test_what_is_superseded_is_counted_beside_the_filters(self, memory: Memorist) -> None:
        new = memory.add("a new badger", on_near_duplicate="off")
        memory.supersede("badger-one", new.id)

        assert memory.search("badger").hidden == {"superseded": 1}
        assert memory.search("badger", project="api").hidden == {"superseded": 1, "project": 3}
        assert memory.search("badger", project="api", include_superseded=True).hidden == {"project": 3}

    def test_forgotten_ones_are_not_told_of(self, memory: Memorist) -> None:
        memory.forget("badger-one")

        assert memory.search("badger", project="nobodys").hidden == {"project": 2}

    def test_those_of_another_namespace_are_not_told_of(self, path: Path) -> None:
        with memorist.open(path, embedder="none", namespace="other") as other:
            results = other.search("badger", project="api")

            assert (len(results), results.hidden) == (0, {})

    def test_a_full_page_is_not_explained(self, memory: Memorist) -> None:
        assert memory.search("badger", project=["api", "web"], limit=2).hidden == {}
        assert memory.search("badger", project=["api", "web"], limit=3).hidden == {"project": 1}

    def test_a_full_page_is_not_explained_where_one_is_superseded(self, memory: Memorist) -> None:
        memory.supersede("badger-one", memory.add("a new badger", on_near_duplicate="off").id)

        assert memory.search("badger", limit=3).hidden == {}
        assert memory.search("badger", limit=4).hidden == {"superseded": 1}

    def test_an_empty_query_hides_nothing(self, memory: Memorist) -> None:
        assert memory.search("", project="api").hidden == {}

    @pytest.mark.parametrize(
        ("grammar", "query"),
        [("and", "badger one"), ("fts5", "badger one"), ("fts5", "badger NOT two")],
    )
    def test_only_what_would_be_found_without_the_filter_is_counted(
        self, memory: Memorist, grammar: str, query: str
    ) -> None:
        without = memory.search(query, grammar=grammar)

        within = memory.search(query, grammar=grammar, project="nobodys")

        assert within.hidden == ({"project": len(without)} if without else {})

    @pytest.mark.parametrize(
        ("grammar", "query"), [("auto", "badger one"), ("or", "badger one"), ("or_prefix", "badg")]
    )
    def test_what_would_be_found_without_the_filter_is_counted(
        self, memory: Memorist, grammar: str, query: str
    ) -> None:
        without = memory.search(query, grammar=grammar)

        assert memory.search(query, grammar=grammar, project="nobodys").hidden == {"project": len(without)}

    def test_what_would_be_found_inside_of_words_is_counted(self, memory: Memorist) -> None:
        assert len(memory.search("adge")) == 3

        assert memory.search("adge", project="nobodys").hidden == {"project": 3}


class TestThresholds:
    @pytest.mark.parametrize(
        ("options", "count"),
        [
            ({"min_confidence": 0.5}, 1),
            ({"min_score": 0.9}, 1),
            ({"min_relevance": 0.6}, 1),
            ({"min_similarity": 0.5}, 1),
        ],
    )
    def test_each_threshold_is_named_with_what_it_held_back(
        self, placed: Memorist, options: dict[str, float], count: int
    ) -> None:
        placed.add("@1.0 badger")
        placed.add("@0.1 otter", facts=[{"text": "swims", "confidence": 0.2, "decay_rate": 0}])
        (name,) = options

        results = placed.search("badger", mode="semantic", **options)

        assert [hit.memory.content for hit in results] == ["@1.0 badger"]
        assert results.hidden == {name: count}

    def test_a_threshold_that_empties_the_page_says_so(self, memory: Memorist) -> None:
        memory.add("badger", facts=[{"text": "digs", "confidence": 0.05, "decay_rate": 0}])

        results = memory.search("badger", profile="confidence")

        assert (len(results), results.hidden) == (0, {"min_confidence": 1})

    def test_filters_and_thresholds_are_told_together(self, memory: Memorist) -> None:
        memory.add("badger one", project="api", facts=[{"text": "digs", "confidence": 0.2}], on_near_duplicate="off")
        memory.add("badger two", project="web", on_near_duplicate="off")

        results = memory.search("badger", project="api", min_confidence=0.5)

        assert results.hidden == {"project": 1, "min_confidence": 1}

    def test_what_is_on_the_page_is_not_held_back(self, placed: Memorist) -> None:
        placed.add("@0.1 badger")
        placed.add("@0.2 otter")

        results = placed.search("badger", min_similarity=0.5)

        assert [hit.memory.content for hit in results] == ["@0.1 badger"]
        assert results.hidden == {"min_similarity": 1}

    def test_what_has_decayed_by_then_is_counted(self, memory: Memorist) -> None:
        memory.add("badger", facts=[{"text": "digs", "decay_rate": 0.1}])

        assert memory.search("badger", min_confidence=0.5, as_of=days_ahead(30)).hidden == {"min_confidence": 1}
        assert memory.search("badger", min_confidence=0.5, as_of=now()).hidden == {}


class TestMeaning:
    def test_what_is_near_but_filtered_out_is_counted(self, placed: Memorist) -> None:
        placed.add("@0.9 otter", project="web")
        placed.add("@0.8 weasel", project="web")

        for mode in ("semantic", "hybrid"):
            results = placed.search("anything", mode=mode, project="api")
            assert (len(results), results.hidden) == (0, {"project": 2})

    def test_what_is_near_and_holds_the_words_is_counted_once(self, placed: Memorist) -> None:
        placed.add("@0.9 badger", project="web")

        assert placed.search("badger", project="api").hidden == {"project": 1}

    def test_what_is_too_far_away_is_not_held_back_by_a_filter(self, placed: Memorist) -> None:
        placed.add("@0.9 otter", project="web")
        placed.add("@0.1 weasel", project="web")

        assert placed.search("anything", project="api", min_similarity=0.5).hidden == {"project": 1}

    def test_words_alone_do_not_count_in_a_semantic_search(self, placed: Memorist) -> None:
        placed.add("@0.1 badger", project="web")

        assert placed.search("badger", mode="semantic", project="api", min_similarity=0.5).hidden == {}

    def test_superseded_ones_are_counted_by_meaning(self, placed: Memorist) -> None:
        old, new = placed.add("@0.9 otter"), placed.add("@0.8 weasel")
        placed.supersede(old.id, new.id)

        assert placed.search("anything", mode="semantic").hidden == {"superseded": 1}


class TestThePast:
    def test_what_was_not_there_yet_is_told_as_such(self, memory: Memorist) -> None:
        memory.add("badger", created_at=days_ago(5))

        assert memory.search("badger", as_of=days_ago(10)).hidden == {"as_of": 1}
        assert memory.search("badger", as_of=days_ago(1)).hidden == {}

    def test_what_was_superseded_later_was_not_hidden_then(self, memory: Memorist) -> None:
        old, new = memory.add("badger old", on_near_duplicate="off"), memory.add("something new")
        then = now()
        memory.supersede(old.id, new.id)

        assert memory.search("badger", as_of=then).hidden == {}
        assert memory.search("badger", as_of=now()).hidden == {"superseded": 1}

    @pytest.mark.parametrize(("field", "old", "new"), [("project", "web", "api"), ("tags", "old", "new")])
    def test_a_filter_that_held_it_back_then_is_named(self, memory: Memorist, field: str, old: str, new: str) -> None:
        added = memory.add("badger", **{field: old})
        then = now()
        memory.update(added.id, **{field: new})

        results = memory.search("badger", as_of=then, **{field: new})

        assert len(results) == 0
        assert results.hidden == {field: 1}

    def test_what_matched_then_is_counted(self, memory: Memorist) -> None:
        added = memory.add("badger", project="web")
        then = now()
        memory.update(added.id, content="otter")

        assert memory.search("badger", as_of=then, project="api").hidden == {"project": 1}


class TestRelevant:
    def test_where_something_answers_it_says_so(self, understanding: Memorist) -> None:
        understanding.add("We deploy with make ship from the release branch")

        assert understanding.search("how do we deploy?").relevant

    def test_where_nothing_answers_it_says_so_and_keeps_the_hits(self, understanding: Memorist) -> None:
        understanding.add("We deploy with make ship from the release branch")
        understanding.add("Lunch is at noon")

        results = understanding.search("recipes for a chocolate cake", noise_floor=False)

        assert len(results) == 2
        assert not results.relevant

    def test_an_empty_answer_is_not_relevant(self, memory: Memorist) -> None:
        assert not memory.search("badger").relevant

    def test_the_best_hit_decides(self, memory: Memorist) -> None:
        memory.add("the badger digs")
        memory.add("the otter swims in the river all day long, as otters do")

        results = memory.search("badger digs otter")

        assert results.relevant == (max(hit.relevance for hit in results) >= 0.5)
        assert results.relevant
