"""Lenses: named ways of looking, kept with the memories."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import ids, texts
from clock import days_ago
from cosine_embedder import CosineEmbedder
from memorist import InvalidInput, Memorist, NotFound


@pytest.fixture
def placed(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=CosineEmbedder(), on_near_duplicate="off") as memory:
        yield memory


class TestKeeping:
    def test_a_lens_comes_back_as_it_was_set(self, memory: Memorist, path: Path) -> None:
        lens = memory.lenses.set(
            "decisions",
            project=["api", "web"],
            sector="reflective",
            tags=["adr"],
            min_salience=0.2,
            boosts={"tag": {"decision": 1.5}, "kind": {"adr": 2}, "sector": {"episodic": 0.5}, "source": {"a.md": 3}},
            recency={"form": "multiply", "weight": 0.3},
            profile="rank",
        )

        assert lens.name == "decisions"
        assert lens.profile == "rank"
        assert lens.boosts["tag"] == {"decision": 1.5}
        with memorist.open(path, embedder="none") as again:
            (stored,) = again.lenses.list()
            assert stored == again.lenses.get("decisions")
            assert stored == lens

    def test_they_are_listed_by_name(self, memory: Memorist) -> None:
        for name in ("zebra", "apple", "mouse"):
            memory.lenses.set(name)

        assert [lens.name for lens in memory.lenses.list()] == ["apple", "mouse", "zebra"]

    def test_set_again_it_is_replaced_whole(self, memory: Memorist) -> None:
        memory.lenses.set("mine", project="api", profile="rank")

        memory.lenses.set("mine", sector="semantic")

        lens = memory.lenses.get("mine")
        assert (lens.filters, lens.profile) == ({"sector": "semantic"}, None)

    def test_removed_it_is_gone(self, memory: Memorist) -> None:
        memory.lenses.set("mine")
        memory.lenses.remove("mine")

        assert memory.lenses.list() == []
        with pytest.raises(NotFound, match="there is no lens 'mine'; none is set yet"):
            memory.lenses.remove("mine")

    @pytest.mark.parametrize("call", ["get", "remove", "search"])
    def test_an_unknown_lens_is_named_with_those_there_are(self, memory: Memorist, call: str) -> None:
        memory.lenses.set("one")
        memory.lenses.set("two")

        with pytest.raises(NotFound, match="there is no lens 'three'; there are: one, two"):
            memory.search("x", lens="three") if call == "search" else getattr(memory.lenses, call)("three")

    def test_those_of_another_namespace_are_behind_the_wall(self, memory: Memorist, path: Path) -> None:
        memory.lenses.set("mine")
        with memorist.open(path, embedder="none", namespace="other") as other:
            assert other.lenses.list() == []
            with pytest.raises(NotFound):
                other.search("x", lens="mine")
            with pytest.raises(NotFound):
                other.lenses.remove("mine")
        assert memory.lenses.get("mine").name == "mine"

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize(
        ("definition", "complaint"),
        [
            ({"colour": "red"}, "there is no filter 'colour'"),
            ({"sector": "dreams"}, "sector 'dreams' is unknown"),
            ({"min_salience": 2}, "min_salience must be from 0 to 1"),
            ({"since": "soonish"}, "since 'soonish' is not a time"),
            ({"boosts": {"colour": {"red": 2}}}, "'colour' is unknown"),
            ({"boosts": {"tag": {"x": -1}}}, "boosts.tag.x must be from 0"),
            ({"boosts": {"tag": {"x": "much"}}}, "boosts.tag.x must be a number"),
            ({"boosts": {"tag": "decision"}}, "boosts.tag must be a mapping"),
            ({"profile": "nobodys"}, "profile 'nobodys' is unknown"),
            ({"recency": {"form": "sideways"}}, "sideways"),
            ({"recency": {"speed": 1}}, "speed"),
            ({"name": ""}, "name is empty"),
            ({"name": None}, "name is needed"),
        ],
    )
    def test_what_cannot_be_used_is_refused_when_it_is_set(
        self, memory: Memorist, definition: dict[str, Any], complaint: str
    ) -> None:
        with pytest.raises(InvalidInput, match=complaint):
            memory.lenses.set(**{"name": "mine", **definition})

        assert memory.lenses.list() == []

    def test_a_time_in_any_form_will_do(self, memory: Memorist) -> None:
        """`every time a caller gives may be an ISO 8601 string, a datetime or epoch seconds`."""
        new = memory.add("badger new", created_at="2026-04-10T12:00Z")
        memory.add("badger old", created_at="2026-03-10T12:00Z")

        memory.lenses.set("april", since=datetime(2026, 4, 1, tzinfo=UTC))

        assert ids(memory.search("badger", lens="april")) == [new.id]


class TestFilters:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("project", "api"),
            ("sector", "reflective"),
            ("tier", "global"),
            ("kind", "adr"),
            ("source", "README.md"),
            ("tags", ["decision"]),
            ("min_salience", 0.9),
            ("fact_kind", "state"),
            ("month", "2026-03"),
            ("since", "2026-03-15"),
            ("until", "2026-04-15"),
            ("pinned", True),
        ],
    )
    def test_each_filter_can_be_in_a_lens(self, memory: Memorist, field: str, value: Any) -> None:
        inside = memory.add(
            "badger inside",
            project="api",
            sector="reflective",
            tier="global",
            kind="adr",
            source="README.md",
            tags=["decision", "x"],
            salience=0.95,
            facts=[{"text": "digs", "kind": "state"}],
            created_at="2026-03-20T12:00Z",
            on_near_duplicate="off",
        )
        memory.pin(inside.id)
        outside = memory.add(
            "badger outside", created_at="2026-03-05T12:00Z" if field == "since" else "2026-05-05T12:00Z"
        )

        memory.lenses.set("narrow", **{field: value})

        assert ids(memory.search("badger", lens="narrow")) == [inside.id]
        assert set(ids(memory.search("badger"))) == {inside.id, outside.id}

    def test_a_session_can_be_in_a_lens(self, memory: Memorist) -> None:
        memory.sessions.start(id="sess1")
        inside = memory.add("badger inside", session="sess1", on_near_duplicate="off")
        memory.add("badger outside", on_near_duplicate="off")
        memory.lenses.set("narrow", session="sess1")

        assert ids(memory.search("badger", lens="narrow")) == [inside.id]

    def test_a_phrase_means_the_time_it_is_used(self, memory: Memorist) -> None:
        memory.add("badger of long ago", created_at=days_ago(60), on_near_duplicate="off")
        recent = memory.add("badger of today", on_near_duplicate="off")
        memory.lenses.set("recent", since="3 weeks ago")

        assert memory.lenses.get("recent").filters == {"since": "3 weeks ago"}
        assert ids(memory.search("badger", lens="recent")) == [recent.id]

    def test_a_filter_given_explicitly_wins_and_the_others_stay(self, memory: Memorist) -> None:
        api, web, other = (
            memory.add(f"badger {project} {kind}", project=project, kind=kind, on_near_duplicate="off").id
            for project, kind in (("api", "adr"), ("web", "adr"), ("web", "note"))
        )
        memory.lenses.set("api", project="api", kind="adr")

        assert ids(memory.search("badger", lens="api")) == [api]
        assert ids(memory.search("badger", lens="api", project="web")) == [web]
        assert ids(memory.search("badger", lens="api", project="web", kind="note")) == [other]

    def test_zero_is_an_explicit_value(self, memory: Memorist) -> None:
        low = memory.add("badger low", salience=0.1, on_near_duplicate="off")
        memory.lenses.set("salient", min_salience=0.5)

        assert ids(memory.search("badger", lens="salient")) == []
        assert ids(memory.search("badger", lens="salient", min_salience=0)) == [low.id]

    def test_what_a_lens_holds_back_is_counted(self, memory: Memorist) -> None:
        memory.add("badger", project="web")
        memory.lenses.set("api", project="api")

        assert memory.search("badger", lens="api").hidden == {"project": 1}

    def test_facets_are_counted_through_it(self, memory: Memorist) -> None:
        memory.add("badger one", project="web", kind="a", on_near_duplicate="off")
        memory.add("badger two", project="api", kind="b", on_near_duplicate="off")
        memory.lenses.set("api", project="api")

        assert memory.search("badger", lens="api", facets=["kind"]).facets == {"kind": {"b": 1}}


class TestBoosts:
    @pytest.mark.parametrize(
        ("field", "fields"),
        [
            ("sector", {"sector": "episodic"}),
            ("kind", {"kind": "wanted"}),
            ("tag", {"tags": ["other", "wanted"]}),
            ("source", {"source": "wanted"}),
        ],
    )
    def test_each_field_can_be_boosted(self, placed: Memorist, field: str, fields: dict[str, Any]) -> None:
        first = placed.add("@0.9 first")
        second = placed.add("@0.8 second", **fields)
        assert ids(placed.search("anything")) == [first.id, second.id]

        placed.lenses.set("boosting", boosts={field: {"episodic" if field == "sector" else "wanted": 1.5}})

        plain = {hit.memory.id: hit.score for hit in placed.search("anything")}
        results = placed.search("anything", lens="boosting")
        assert ids(results) == [second.id, first.id]
        assert results.lens == "boosting"
        assert [hit.score for hit in results] == pytest.approx([plain[second.id], plain[first.id] / 1.5])
        assert results[1].trace["lens"] == pytest.approx(plain[first.id] * (1 / 1.5 - 1))
        assert all(0 <= hit.score <= 1 for hit in results)

    def test_tags_is_as_good_as_tag(self, memory: Memorist) -> None:
        assert memory.lenses.set("mine", boosts={"tags": {"x": 2}}).boosts == {"tag": {"x": 2.0}}

    def test_less_than_one_puts_behind(self, placed: Memorist) -> None:
        events = placed.add("@0.9 event", sector="episodic")
        other = placed.add("@0.8 other")
        placed.lenses.set("no-events", boosts={"sector": {"episodic": 0.5}})

        results = placed.search("anything", lens="no-events")

        assert ids(results) == [other.id, events.id]
        plain = {hit.memory.id: hit.score for hit in placed.search("anything")}
        assert [hit.score for hit in results] == pytest.approx([plain[other.id], plain[events.id] / 2])

    def test_zero_puts_last_but_loses_nothing(self, placed: Memorist) -> None:
        muted = placed.add("@0.9 muted", kind="muted")
        other = placed.add("@0.1 other")
        placed.lenses.set("quiet", boosts={"kind": {"muted": 0}})

        results = placed.search("anything", lens="quiet")

        assert ids(results) == [other.id, muted.id]
        assert results[1].score == 0

    def test_of_several_boosted_tags_the_strongest_counts(self, placed: Memorist) -> None:
        both = placed.add("@0.8 both", tags=["a", "b"])
        strong = placed.add("@0.8 strong", tags=["b"])
        weak = placed.add("@0.8 weak", tags=["a"])
        placed.lenses.set("tagged", boosts={"tag": {"a": 1.2, "b": 2.0}})

        scores = {hit.memory.id: hit.score for hit in placed.search("anything", lens="tagged")}

        assert scores[both.id] == pytest.approx(scores[strong.id])
        assert scores[weak.id] == pytest.approx(scores[strong.id] * 1.2 / 2.0)

    def test_boosts_of_several_fields_multiply(self, placed: Memorist) -> None:
        both = placed.add("@0.8 both", tags=["a"], kind="k")
        one = placed.add("@0.8 one", tags=["a"])
        none = placed.add("@0.8 none")
        placed.lenses.set("two", boosts={"tag": {"a": 2}, "kind": {"k": 1.5}})

        scores = {hit.memory.id: hit.score for hit in placed.search("anything", lens="two")}

        assert scores[one.id] == pytest.approx(scores[both.id] / 1.5)
        assert scores[none.id] == pytest.approx(scores[both.id] / 3)

    @pytest.mark.parametrize("profile", ["balanced", "rank", "salience", "semantic-first", "confidence", "notes"])
    def test_scores_stay_within_zero_and_one_and_in_order(self, placed: Memorist, profile: str) -> None:
        for number in range(12):
            placed.add(f"@0.{75 + number} badger {number}", kind=("a", "b", "c")[number % 3])
        placed.lenses.set("strong", boosts={"kind": {"a": 10, "b": 3}})

        scores = [hit.score for hit in placed.search("badger", profile=profile, lens="strong", record="off")]

        assert len(scores) >= 10
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)

    def test_vector_first_keeps_the_order_of_its_scores_under_a_boost(self, placed: Memorist) -> None:
        """`score orders`; the tail's are scaled so that `the order is also the order of the scores`."""
        placed.add("@0.8 otter")
        placed.add("@0.1 badger", kind="wanted")
        placed.lenses.set("strong", boosts={"kind": {"wanted": 4}})

        scores = [
            hit.score for hit in placed.search("badger", profile="semantic-first", lens="strong", bm25_norm="max")
        ]

        assert len(scores) == 2
        assert scores == sorted(scores, reverse=True)


class TestRecencyAndProfile:
    def test_recency_of_the_lens_counts(self, placed: Memorist) -> None:
        old = placed.add("@0.9 old", created_at=days_ago(400))
        new = placed.add("@0.8 new")
        placed.lenses.set("fresh", recency={"form": "multiply", "weight": 1.0})

        assert ids(placed.search("anything")) == [old.id, new.id]
        results = placed.search("anything", lens="fresh")
        assert ids(results) == [new.id, old.id]
        assert results[1].trace["recency"] < 0

    def test_recency_given_explicitly_wins(self, placed: Memorist) -> None:
        old = placed.add("@0.9 old", created_at=days_ago(400))
        new = placed.add("@0.8 new")
        placed.lenses.set("fresh", recency={"form": "multiply", "weight": 1.0})

        assert ids(placed.search("anything", lens="fresh", recency={"form": "none"})) == [old.id, new.id]

    def test_none_is_not_given(self, placed: Memorist) -> None:
        """`None is "not given"; 0 is a value`."""
        placed.add("@0.9 old", created_at=days_ago(400))
        placed.lenses.set("fresh", recency={"form": "multiply", "weight": 1.0})

        (hit,) = placed.search("anything", lens="fresh", recency=None, profile=None, project=None)

        assert "recency" in hit.trace

    def test_the_profile_of_the_lens_is_used(self, placed: Memorist) -> None:
        placed.add("@0.9 badger")
        placed.lenses.set("ranks", profile="rank")

        results = placed.search("badger", lens="ranks")

        assert results.profile == "rank"
        assert "rrf" in results[0].raw

    def test_a_profile_given_explicitly_wins(self, placed: Memorist) -> None:
        placed.add("@0.9 badger")
        placed.lenses.set("ranks", profile="rank")

        assert placed.search("badger", lens="ranks", profile="notes").profile == "notes"

    def test_options_given_explicitly_win_over_the_profile_of_the_lens(self, placed: Memorist) -> None:
        placed.add_many(f"@0.9 badger {number}" for number in range(30))
        placed.lenses.set("sure", profile="confidence")

        assert len(placed.search("badger", lens="sure")) == 20
        assert len(placed.search("badger", lens="sure", limit=3)) == 3

    def test_an_empty_lens_changes_nothing(self, placed: Memorist) -> None:
        placed.add_many(f"@0.{number} badger" for number in range(1, 9))
        placed.lenses.set("clear")

        plain, through = placed.search("badger"), placed.search("badger", lens="clear")

        assert [(hit.memory.id, hit.score) for hit in through] == [(hit.memory.id, hit.score) for hit in plain]
        assert texts(through)
        assert (plain.lens, through.lens) == (None, "clear")
