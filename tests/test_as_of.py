"""`as_of`: every answer as it would have been given then."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memorist
from answers import ids, texts
from clock import days_ago, days_ahead, now
from cosine_embedder import CosineEmbedder
from memorist import InvalidInput, Memorist, Memory, NotFound
from statements import read_rows


class TestWhatItSaid:
    @pytest.fixture
    def reworded(self, memory: Memorist) -> tuple[Memory, datetime]:
        """A memory, and a time before its text was changed."""
        added = memory.add("the badger lives in Kassel")
        then = now()
        memory.update(added.id, content="the otter lives in Bremen")
        return added, then

    def test_get_gives_the_text_of_then(self, memory: Memorist, reworded: tuple[Memory, datetime]) -> None:
        added, then = reworded

        assert memory.get(added.id, as_of=then) == added
        assert memory.get(added.short_id, as_of=then) == added
        assert memory.get([added.id], as_of=then).memories == (added,)
        assert memory.get(added.id, as_of=now()) == memory.get(added.id)
        assert memory.get(added.id).content == "the otter lives in Bremen"

    def test_list_and_timeline_give_the_text_of_then(self, memory: Memorist, reworded: tuple[Memory, datetime]) -> None:
        added, then = reworded

        assert memory.list(as_of=then).memories == (added,)
        assert memory.timeline(as_of=then, detail="full").memories == (added,)
        assert memory.timeline(anchor=added.id, as_of=then, detail="full").memories == (added,)
        assert memory.timeline(query="badger", as_of=then, detail="full").memories == (added,)

    @pytest.mark.parametrize("grammar", ["auto", "and", "or", "fts5"])
    def test_the_words_of_then_find_it_and_those_of_now_do_not(
        self, memory: Memorist, reworded: tuple[Memory, datetime], grammar: str
    ) -> None:
        _, then = reworded

        assert texts(memory.search("badger", grammar=grammar, as_of=then)) == ["the badger lives in Kassel"]
        assert texts(memory.search("otter", grammar=grammar, as_of=then)) == []
        assert texts(memory.search("badger", grammar=grammar)) == []
        assert texts(memory.search("otter", grammar=grammar)) == ["the otter lives in Bremen"]

    def test_the_passage_and_its_marks_are_of_then(self, memory: Memorist, reworded: tuple[Memory, datetime]) -> None:
        (hit,) = memory.search("badger", as_of=reworded[1])

        assert "<mark>badger</mark>" in hit.snippet
        assert [hit.memory.content[start:end] for start, end in hit.highlights] == ["badger"]
        assert hit.keyword_score
        assert hit.match == ("keyword",)

    @pytest.mark.parametrize("query", ["authentication", "authenticating", "the authentication module"])
    def test_other_forms_of_a_word_of_then_find_it(self, memory: Memorist, query: str) -> None:
        added = memory.add("the authentication module")
        then = now()
        memory.update(added.id, content="something else")

        assert ids(memory.search(query, as_of=then)) == [added.id]

    @pytest.mark.parametrize(
        "beginning",
        [
            "auth",
            "authenti",
            "authenticat",
            "authentication",
        ],
    )
    @pytest.mark.parametrize("grammar", ["auto", "or_prefix"])
    def test_beginnings_of_words_of_then_find_it(self, memory: Memorist, beginning: str, grammar: str) -> None:
        """Porter stemming breaks prefixes: `authentication` has the stem `authent`."""
        added = memory.add("the authentication module")
        then = now()
        memory.update(added.id, content="something else")

        query = beginning + "*" if grammar == "auto" else beginning
        assert ids(memory.search(query, grammar=grammar, as_of=then)) == [added.id]

    def test_a_phrase_of_then_finds_it_and_its_words_apart_do_not(self, memory: Memorist) -> None:
        together, apart = memory.add("the red fox runs"), memory.add("the fox in red runs")
        then = now()
        for one in (together, apart):
            memory.update(one.id, content=f"something else {one.short_id}")

        assert ids(memory.search('"red fox"', as_of=then)) == [together.id]

    def test_a_word_of_unspaced_script_of_then_finds_it(self, memory: Memorist) -> None:
        added = memory.add("我们用脚本部署到生产环境")
        then = now()
        memory.update(added.id, content="我们不再这样做")

        assert ids(memory.search("部署", as_of=then)) == [added.id]
        assert ids(memory.search("不再", as_of=then)) == []
        assert ids(memory.search("部", as_of=then)) == [added.id]

    def test_what_has_all_words_of_then_comes_first(self, memory: Memorist) -> None:
        some = memory.add("the fox is red")
        every = memory.add("the red fox jumps")
        then = now()
        memory.update(every.id, content="it changed")

        assert ids(memory.search("red fox jumps", as_of=then)) == [every.id, some.id]

    @pytest.mark.parametrize("query", ["fox NOT red", "fox AND wolf", "red wolf", "fox NOT r*"])
    def test_operators_mean_the_same_then(self, memory: Memorist, query: str) -> None:
        added = memory.add("the red fox")
        before = texts(memory.search(query, grammar="fts5"))
        then = now()
        memory.update(added.id, content="it changed")

        assert texts(memory.search(query, grammar="fts5", as_of=then)) == before == []

    @pytest.mark.parametrize(
        ("content", "query"), [("foobarbaz", "obarb"), ("what is this about", "what is the zebra")],
        ids=["inside of a word", "only common words"],
    )  # fmt: skip
    def test_what_fills_a_page_now_fills_it_then(self, memory: Memorist, content: str, query: str) -> None:
        added = memory.add(content)
        assert ids(memory.search(query)) == [added.id]
        then = now()
        memory.update(added.id, content="it changed")

        assert ids(memory.search(query, as_of=then)) == [added.id]

    def test_every_version_is_found_in_its_own_time(self, memory: Memorist) -> None:
        added = memory.add("version alpha")
        moments = {"alpha": now()}
        for word in ("beta", "gamma", "delta"):
            memory.update(added.id, content=f"version {word}")
            moments[word] = now()

        for word, then in moments.items():
            assert memory.get(added.id, as_of=then).content == f"version {word}"
            assert [texts(memory.search(other, as_of=then)) for other in moments] == [
                [f"version {word}"] if other == word else [] for other in moments
            ]

    @pytest.mark.parametrize(
        ("field", "old", "new"),
        [
            ("title", "Old title", None),
            ("summary", "old summary", "new summary"),
            ("tags", ["a", "b"], ["c"]),
            ("metadata", {"n": [1, {"x": None}]}, {}),
            ("kind", "howto", "note"),
            ("source", "README.md", "CHANGES.md"),
            ("sector", "reflective", "episodic"),
            ("tier", "global", "session"),
            ("project", "api", "web"),
            ("salience", 0.9, 0.1),
        ],
    )
    def test_every_field_is_as_it_was(self, memory: Memorist, field: str, old: Any, new: Any) -> None:
        added = memory.add("a memory", **{field: old})
        then = now()
        memory.update(added.id, **{field: new})

        assert memory.get(added.id, as_of=then) == added
        assert memory.list(as_of=then).memories == (added,)

    def test_a_title_of_then_is_searched_and_shown(self, memory: Memorist) -> None:
        added = memory.add("a memory", title="Badgers at night")
        then = now()
        memory.update(added.id, title="Otters by day")

        assert ids(memory.search("badgers", as_of=then)) == [added.id]
        assert ids(memory.search("otters", as_of=then)) == []


class TestMeaning:
    def test_the_vector_of_then_is_compared(self, path: Path) -> None:
        with memorist.open(path, embedder=CosineEmbedder(), on_near_duplicate="off") as memory:
            added = memory.add("@0.9 badger")
            other = memory.add("@0.5 weasel")
            then = now()
            memory.update(added.id, content="@0.1 otter")

            before = memory.search("anything", mode="semantic", as_of=then)
            after = memory.search("anything", mode="semantic")

        assert ids(before) == [added.id, other.id]
        assert before[0].similarity == pytest.approx(0.9, abs=1e-3)
        assert ids(after) == [other.id, added.id]
        assert after[1].similarity == pytest.approx(0.1, abs=1e-3)

    def test_the_vector_is_its_own_where_only_a_tag_changed_since(self, path: Path) -> None:
        with memorist.open(path, embedder=CosineEmbedder(), on_near_duplicate="off") as memory:
            added = memory.add("@0.9 badger")
            first = now()
            memory.update(added.id, tags=["x"])
            second = now()
            memory.update(added.id, content="@0.1 otter")
            memory.update(added.id, tags=["y"])
            third = now()

            for then, similarity in ((first, 0.9), (second, 0.9), (third, 0.1)):
                (hit,) = memory.search("anything", mode="semantic", as_of=then)
                assert hit.similarity == pytest.approx(similarity, abs=1e-3)

    def test_a_text_that_came_back_has_the_vector_of_each_time(self, path: Path) -> None:
        with memorist.open(path, embedder=CosineEmbedder(), on_near_duplicate="off") as memory:
            added = memory.add("@0.9 badger")
            moments = [(now(), 0.9)]
            for text, similarity in (("@0.1 otter", 0.1), ("@0.9 badger", 0.9), ("@0.4 weasel", 0.4)):
                memory.update(added.id, content=text)
                moments.append((now(), similarity))

            for then, similarity in moments:
                (hit,) = memory.search("anything", mode="semantic", as_of=then)
                assert hit.similarity == pytest.approx(similarity, abs=1e-3)

    def test_hybrid_search_finds_it_by_both(self, hashed: Memorist) -> None:
        added = hashed.add("the badger lives in Kassel", on_near_duplicate="off")
        hashed.add("nobody else has such words", on_near_duplicate="off")
        then = now()
        hashed.update(added.id, content="the otter swims through Bremen")

        best = hashed.search("badger Kassel", as_of=then)[0]

        assert best.memory == added
        assert best.match == ("keyword", "vector")
        assert best.similarity
        assert hashed.search("badger Kassel")[0].match != ("keyword", "vector")

    def test_the_real_model_finds_what_was_meant_then(self, understanding: Memorist) -> None:
        added = understanding.add("We release on Fridays", on_near_duplicate="off")
        then = now()
        understanding.update(added.id, content="Lunch is at noon")

        before = understanding.search("when do we ship a new version?", as_of=then)
        after = understanding.search("when do we ship a new version?")

        assert before[0].memory.content == "We release on Fridays"
        assert before[0].relevance > (after[0].relevance if after else 0.0)

    def test_related_compares_what_was_similar_then(self, path: Path) -> None:
        with memorist.open(path, embedder=CosineEmbedder(), on_near_duplicate="off") as memory:
            one = memory.add("@0.9 one")
            near = memory.add("@0.88 near")
            far = memory.add("@0.1 far")
            then = now()
            memory.update(near.id, content="@0.0 moved away")

            assert ids(memory.related(one.id, as_of=then)) == [near.id, far.id]
            assert ids(memory.related(one.id)) == [far.id, near.id]

    def test_related_compares_the_words_of_then(self, memory: Memorist) -> None:
        one = memory.add("apples grow on trees", on_near_duplicate="off")
        apples = memory.add("apples make a pie", on_near_duplicate="off")
        oranges = memory.add("oranges make juice", on_near_duplicate="off")
        then = now()
        memory.update(one.id, content="oranges grow in Spain")

        assert ids(memory.related(one.id)) == [oranges.id]
        assert ids(memory.related(one.id, as_of=then)) == [apples.id]


class TestFilters:
    @pytest.mark.parametrize("model", ["memory", "hashed"])
    @pytest.mark.parametrize(
        ("field", "old", "new"),
        [
            ("project", "api", "web"),
            ("kind", "howto", "note"),
            ("sector", "reflective", "episodic"),
            ("tier", "global", "session"),
            ("source", "README.md", "CHANGES.md"),
            ("tags", "old", "new"),
        ],
    )
    def test_each_filter_is_of_then(
        self, request: pytest.FixtureRequest, model: str, field: str, old: str, new: str
    ) -> None:
        memory: Memorist = request.getfixturevalue(model)
        added = memory.add("the badger", **{field: old})
        then = now()
        memory.update(added.id, **{field: new})

        for value, moment, found in ((old, then, True), (new, then, False), (old, now(), False), (new, now(), True)):
            wanted = {field: value, "as_of": moment}
            expected = [added.id] if found else []
            assert ids(memory.search("badger", **wanted)) == expected
            assert ids(memory.list(**wanted)) == expected
            facet = "tag" if field == "tags" else field
            assert memory.facets("badger", [facet], **wanted) == {facet: {value: 1} if found else {}}
            assert memory.facets(None, [facet], **wanted) == {facet: {value: 1} if found else {}}
        assert ids(memory.timeline(as_of=then, project="api")) == ([added.id] if field == "project" else [])

    def test_salience_is_of_then(self, memory: Memorist) -> None:
        added = memory.add("the badger", salience=0.4)
        then = now()
        memory.reinforce(added.id, 0.5)
        between = now()
        memory.deemphasize(added.id, 0.5)

        assert memory.get(added.id, as_of=then) == added
        assert memory.get(added.id, as_of=between).salience == pytest.approx(0.7)
        assert memory.get(added.id).salience == pytest.approx(0.35)
        for moment, found in ((then, False), (between, True), (now(), False)):
            assert ids(memory.list(min_salience=0.5, as_of=moment)) == [added.id] * found
            assert ids(memory.search("badger", min_salience=0.5, as_of=moment)) == [added.id] * found

    def test_salience_is_of_then_in_the_score(self, path: Path) -> None:
        with memorist.open(path, embedder="none", profile="salience") as memory:
            added = memory.add("the badger", salience=0.4)
            then = now()
            memory.reinforce(added.id, 0.5)

            (hit,) = memory.search("badger", as_of=then, record="off")

            assert hit.trace["salience"] == pytest.approx(0.2 * 0.4)

    def test_pinned_is_of_then(self, memory: Memorist) -> None:
        added = memory.add("the badger")
        before = now()
        memory.pin(added.id)
        pinned = now()
        memory.unpin(added.id)

        assert [memory.get(added.id, as_of=moment).pinned for moment in (before, pinned, now())] == [False, True, False]
        assert [len(memory.list(pinned=True, as_of=moment)) for moment in (before, pinned, now())] == [0, 1, 0]
        assert [len(memory.search("badger", pinned=True, as_of=moment)) for moment in (before, pinned)] == [0, 1]

    def test_the_session_filter_is_of_then(self, memory: Memorist) -> None:
        """`as_of asks what was so at that time; all other fields then hold for that time`."""
        memory.sessions.start(id="sess1")
        added = memory.add("the badger")
        then = now()
        memory.reinforce(added.id, session="sess1")

        assert ids(memory.list(session="sess1")) == [added.id]
        assert ids(memory.list(session="sess1", as_of=then)) == []

    def test_recalls_are_of_then(self, memory: Memorist) -> None:
        added = memory.add("the badger")
        then = now()
        memory.search("badger", record="log")
        memory.searches.list()

        assert memory.get(added.id).access_count == 1
        assert memory.get(added.id, as_of=then).access_count == 0
        assert ids(memory.list(recalled=False, as_of=then)) == [added.id]

    def test_facets_count_the_tags_months_and_kinds_of_then(self, memory: Memorist) -> None:
        first = memory.add("badger one", tags=["a"], kind="x", created_at="2026-03-15T12:00Z")
        memory.add("badger two", tags=["a", "b"], kind="x", created_at="2026-04-15T12:00Z")
        then = now()
        memory.update(first.id, tags=["c"], kind="y", content="otter one")

        counted = memory.search("badger", as_of=then, facets=["tag", "kind", "month"]).facets

        assert counted == {"tag": {"a": 2, "b": 1}, "kind": {"x": 2}, "month": {"2026-03": 1, "2026-04": 1}}
        assert memory.facets("badger", ["tag"]) == {"tag": {"a": 1, "b": 1}}


class TestFacts:
    def test_facts_added_later_were_not_there(self, memory: Memorist) -> None:
        added = memory.add("a memory", facts=["the sky is blue"])
        then = now()
        memory.facts.add(added.id, "the badger digs", kind="habit")

        assert [fact.text for fact in memory.get(added.id, as_of=then).facts] == ["the sky is blue"]
        assert [fact.text for fact in memory.list(as_of=then)[0].facts] == ["the sky is blue"]
        assert ids(memory.search("badger", as_of=then)) == []
        assert ids(memory.search("badger", as_of=now())) == [added.id]
        assert ids(memory.search("sky", as_of=then)) == [added.id]
        assert [fact.text for fact in memory.search("sky", as_of=then)[0].facts] == ["the sky is blue"]
        assert ids(memory.list(fact_kind="habit", as_of=then)) == []
        assert memory.facets(None, ["fact_kind"], as_of=then) == {"fact_kind": {}}
        assert memory.facets(None, ["fact_kind"], as_of=now()) == {"fact_kind": {"habit": 1}}

    def test_confidence_is_of_then(self, memory: Memorist) -> None:
        added = memory.add("the badger digs")
        fact = memory.facts.add(added.id, "badgers dig", confidence=0.4, decay_rate=0)
        then = now()
        memory.facts.reinforce(fact.id, 0.5)

        (before,) = memory.get(added.id, as_of=then).facts
        (after,) = memory.get(added.id).facts
        assert (before.confidence, before.effective) == (0.4, 0.4)
        assert before.reinforced_at == fact.reinforced_at
        assert after.confidence == pytest.approx(0.7)
        assert memory.search("badger", as_of=then)[0].confidence == pytest.approx(0.4)
        assert memory.search("badger")[0].confidence == pytest.approx(0.7)

    def test_several_changes_of_confidence_each_hold_in_their_time(self, memory: Memorist) -> None:
        added = memory.add("the badger digs")
        moments = []
        for confidence in (0.2, 0.9, 0.5, 0.7):
            memory.facts.add(added.id, "badgers dig", confidence=confidence, decay_rate=0)
            moments.append((now(), confidence))

        for then, confidence in moments:
            assert memory.search("badger", as_of=then)[0].confidence == pytest.approx(confidence)

    def test_decay_is_counted_up_to_that_time(self, memory: Memorist) -> None:
        added = memory.add(
            "the badger digs", created_at=days_ago(100), facts=[{"text": "badgers dig", "decay_rate": 0.01}]
        )

        for age in (0, 10, 50, 100, 200):
            then = added.created_at + timedelta(days=age)
            left = math.exp(-0.01 * age)
            assert memory.search("badger", as_of=then)[0].confidence == pytest.approx(left)
            assert memory.get(added.id, as_of=then).facts[0].effective == pytest.approx(left)
            assert memory.list(as_of=then)[0].facts[0].effective == pytest.approx(left)
            assert memory.timeline(as_of=then)[0].facts[0].effective == pytest.approx(left)

    def test_min_confidence_is_of_then(self, memory: Memorist) -> None:
        memory.add("the badger digs", facts=[{"text": "badgers dig", "decay_rate": 0.1}])

        assert len(memory.search("badger", min_confidence=0.5, as_of=days_ahead(6))) == 1
        assert len(memory.search("badger", min_confidence=0.5, as_of=days_ahead(8))) == 0


class TestScores:
    def test_recency_is_counted_from_that_time(self, path: Path) -> None:
        with memorist.open(path, embedder="none", profile="salience") as memory:
            added = memory.add("the badger", created_at=days_ago(100))

            (hit,) = memory.search("badger", as_of=added.created_at + timedelta(days=10), record="off")

            assert hit.trace["recency"] == pytest.approx(0.15 * math.exp(-0.5))

    def test_sector_decay_is_counted_from_that_time(self, path: Path) -> None:
        with memorist.open(path, embedder="none", profile="salience") as memory:
            added = memory.add("the badger", salience=0.8)
            then = added.reinforced_at + timedelta(days=30)

            (hit,) = memory.search("badger", as_of=then, sector_decay={"semantic": 0.01}, record="off")

            assert hit.trace["salience"] == pytest.approx(0.2 * 0.8 * math.exp(-0.3))


class TestWhatWasThere:
    def test_what_did_not_exist_yet_is_nowhere(self, hashed: Memorist) -> None:
        then = now()
        added = hashed.add("the badger")

        for mode in ("keyword", "semantic", "hybrid"):
            assert ids(hashed.search("badger", mode=mode, as_of=then)) == []
        assert ids(hashed.list(as_of=then)) == []
        assert ids(hashed.timeline(as_of=then)) == []
        assert ids(hashed.timeline(query="badger", as_of=then)) == []
        assert hashed.get([added.id], as_of=then).missing == (added.id,)
        assert hashed.facets("badger", ["sector"], as_of=then) == {"sector": {}}
        with pytest.raises(NotFound, match="did not exist yet"):
            hashed.get(added.id, as_of=then)
        assert hashed.search("badger", mode="keyword", as_of=then).hidden == {"as_of": 1}

    def test_a_memory_that_was_dated_back_counts_from_the_time_it_tells_of(self, memory: Memorist) -> None:
        added = memory.add("the badger", created_at="2026-01-10T12:00Z")

        assert ids(memory.search("badger", as_of="2026-01-10T12:00Z")) == [added.id]
        assert ids(memory.list(as_of="2026-01-11")) == [added.id]
        assert memory.get(added.id, as_of="2026-01-10T12:00:01Z").id == added.id
        assert ids(memory.search("badger", as_of="2026-01-10T11:59:59Z")) == []
        assert ids(memory.list(as_of="2026-01-09")) == []

    def test_a_memory_of_something_ahead_counts_from_when_it_was_written_down(self, memory: Memorist) -> None:
        added = memory.add("the conference", created_at=days_ahead(30))

        assert ids(memory.list(as_of=now())) == [added.id]
        assert ids(memory.search("conference", as_of=now())) == [added.id]

    def test_a_text_dated_back_and_changed_today_says_the_first_text_until_today(self, memory: Memorist) -> None:
        added = memory.add("the badger", created_at=days_ago(50))
        memory.update(added.id, content="the otter")

        assert memory.get(added.id, as_of=days_ago(10)).content == "the badger"
        assert ids(memory.search("badger", as_of=days_ago(10))) == [added.id]

    @pytest.mark.parametrize("hard", [False, True])
    def test_a_forgotten_memory_never_comes_back(self, hashed: Memorist, hard: bool) -> None:
        added = hashed.add("the badger", tags=["x"])
        hashed.update(added.id, tags=["y"])
        then = now()
        hashed.update(added.id, content="the otter")
        hashed.forget(added.id, hard=hard)

        for mode in ("keyword", "semantic", "hybrid"):
            assert ids(hashed.search("badger", mode=mode, as_of=then)) == []
        assert ids(hashed.list(as_of=then)) == []
        assert ids(hashed.timeline(as_of=then)) == []
        assert hashed.get([added.id], as_of=then).missing == (added.id,)
        assert hashed.facets(None, ["tag"], as_of=then) == {"tag": {}}

    def test_a_restored_memory_has_its_past_again(self, memory: Memorist) -> None:
        added = memory.add("the badger")
        then = now()
        memory.update(added.id, content="the otter")
        memory.forget(added.id)
        memory.restore(added.id)

        assert ids(memory.search("badger", as_of=then)) == [added.id]

    def test_no_text_of_then_is_left_in_the_file_after_a_purge(self, memory: Memorist, path: Path) -> None:
        added = memory.add("the unmistakable badger")
        memory.update(added.id, content="the otter")
        memory.forget(added.id, hard=True)
        memory.purge()

        files = [path, path.with_name(path.name + "-wal")]
        assert not any(b"unmistakable" in file.read_bytes() for file in files if file.exists())

    def test_pages_of_then_cover_everything_once(self, memory: Memorist) -> None:
        added = memory.add_many(f"memory {number}" for number in range(10))
        then = now()
        for id in added[::2]:
            memory.update(id, content=f"changed {id}")
        memory.add("later")

        first = memory.list(limit=4, as_of=then)
        second = memory.list(limit=4, as_of=then, cursor=first.cursor)
        third = memory.list(limit=4, as_of=then, cursor=second.cursor)

        assert [*texts(first), *texts(second), *texts(third)] == [f"memory {number}" for number in reversed(range(10))]
        assert third.cursor is None

    def test_a_page_is_full_where_changed_and_unchanged_ones_are_mixed(self, hashed: Memorist) -> None:
        added = hashed.add_many(f"badger number {number}" for number in range(40))
        then = now()
        for id in added[::2]:
            hashed.update(id, content=f"otter {id}")

        for mode in ("keyword", "hybrid"):
            results = hashed.search("badger", mode=mode, limit=40, as_of=then)
            assert set(ids(results)) == set(added)
            assert all(hit.memory.content.startswith("badger") for hit in results)


class TestSuperseding:
    def test_what_was_superseded_later_held_then(self, hashed: Memorist) -> None:
        old, new = hashed.add("badger old", on_near_duplicate="off"), hashed.add("badger new", on_near_duplicate="off")
        then = now()
        hashed.supersede(old.id, new.id)

        for mode in ("keyword", "semantic", "hybrid"):
            assert set(ids(hashed.search("badger", mode=mode, as_of=then))) == {old.id, new.id}
            assert ids(hashed.search("badger", mode=mode, as_of=now())) == [new.id]
        shown = hashed.get(old.id, as_of=then)
        assert (shown.valid_until, shown.superseded_by) == (None, None)
        assert hashed.list(as_of=then)[1].superseded_by is None
        assert hashed.facets("badger", ["sector"], as_of=then) == {"sector": {"semantic": 2}}

    def test_the_newest_of_a_chain_is_that_of_then(self, memory: Memorist) -> None:
        a, b, c = memory.add_many(["badger a", "badger b", "badger c"])
        memory.supersede(a, b)
        then = now()
        memory.supersede(b, c)

        before, after = memory.get(a, as_of=then).superseded_by, memory.get(a).superseded_by
        assert before is not None
        assert after is not None
        assert (before.id, after.id) == (b, c)

    def test_no_successor_is_named_before_it_existed(self, memory: Memorist) -> None:
        a, b = memory.add_many(["badger a", "badger b"])
        memory.supersede(a, b)
        then = now()
        c = memory.add("badger c", on_near_duplicate="off")
        memory.supersede(b, c.id)
        memory.forget(b, hard=True)

        successor = memory.get(a, as_of=then).superseded_by
        assert successor is None

    def test_the_text_of_the_successor_is_that_of_then(self, memory: Memorist) -> None:
        a, b = memory.add_many(["badger a", "badger b"])
        memory.supersede(a, b)
        then = now()
        memory.update(b, content="badger changed")

        successor = memory.get(a, as_of=then).superseded_by
        assert successor is not None
        assert successor.content == "badger b"


class TestRelations:
    def test_related_gives_the_links_of_then(self, memory: Memorist) -> None:
        a, b, c = memory.add_many(["one", "two", "three"])
        before = now()
        memory.links.add(a, b, "causes", confidence=0.5)
        first = now()
        memory.links.add(a, b, "causes", confidence=0.9)
        second = now()
        memory.links.remove(a, b, "causes")
        memory.links.add(c, a, "explains")

        assert [one.relation.confidence for one in memory.related(a, as_of=first) if one.relation] == [0.5]
        assert [one.relation.confidence for one in memory.related(a, as_of=second) if one.relation] == [0.9]
        assert memory.related(a, as_of=before) == []
        assert ids(memory.related(a)) == [c]
        assert [memory.get(a, as_of=then).related_count for then in (before, first, second, now())] == [0, 1, 1, 1]

    def test_a_linked_memory_shows_what_it_said_then(self, memory: Memorist) -> None:
        a, b = memory.add_many(["one", "two"])
        memory.links.add(a, b, "causes")
        then = now()
        memory.update(b, content="changed")

        assert texts(memory.related(a, as_of=then)) == ["two"]

    def test_what_was_superseded_later_was_linked_then(self, memory: Memorist) -> None:
        a, b, c = memory.add_many(["one", "two", "three"])
        memory.links.add(a, b, "causes")
        then = now()
        memory.supersede(b, c)

        assert ids(memory.related(a, as_of=then)) == [b]
        assert ids(memory.related(a)) == []

    def test_what_was_superseded_later_counted_then(self, memory: Memorist) -> None:
        a, b, c = memory.add_many(["one", "two", "three"])
        memory.links.add(a, b, "causes")
        then = now()
        memory.supersede(b, c)

        assert memory.get(a).related_count == 0
        assert memory.get(a, as_of=then).related_count == 1


class TestTimes:
    @pytest.mark.parametrize("phrase", ["yesterday", "2 days ago", "last week", "an hour ago"])
    def test_a_phrase_will_do(self, memory: Memorist, phrase: str) -> None:
        old = memory.add("badger of long ago", created_at=days_ago(30))
        memory.add("badger of today", on_near_duplicate="off")

        assert ids(memory.search("badger", as_of=phrase)) == [old.id]
        assert ids(memory.list(as_of=phrase)) == [old.id]
        assert ids(memory.timeline(as_of=phrase)) == [old.id]
        assert memory.get(old.id, as_of=phrase) == memory.get(old.id)
        assert memory.facets("badger", ["sector"], as_of=phrase) == {"sector": {"semantic": 1}}

    def test_a_day_or_a_month_has_seen_all_of_itself(self, memory: Memorist) -> None:
        added = memory.add("the badger", created_at=datetime(2026, 3, 31, 23, 59).astimezone(UTC))

        for said, found in (("2026-03-31", True), ("2026-03", True), ("2026-03-30", False), ("2026-02", False)):
            assert ids(memory.search("badger", as_of=said)) == [added.id] * found
            assert ids(memory.list(as_of=said)) == [added.id] * found

    @pytest.mark.parametrize("form", [str, datetime.isoformat, datetime.timestamp])
    def test_every_form_of_a_time_will_do(self, memory: Memorist, form: Any) -> None:
        added = memory.add("the badger", created_at=days_ago(2))

        assert ids(memory.list(as_of=form(days_ago(1)))) == [added.id]
        assert ids(memory.list(as_of=form(days_ago(3)))) == []

    @pytest.mark.parametrize("call", ["search", "get", "list", "timeline", "related", "facets"])
    def test_what_is_no_time_is_refused(self, memory: Memorist, call: str) -> None:
        added = memory.add("the badger")
        given = {"get": (added.id,), "related": (added.id,), "search": ("badger",), "facets": ("badger",)}

        with pytest.raises(InvalidInput, match="as_of 'soonish' is not a time"):
            getattr(memory, call)(*given.get(call, ()), as_of="soonish")

    def test_nothing_is_written_by_looking_back(self, memory: Memorist, path: Path) -> None:
        added = memory.add("the badger", facts=["badgers dig"])
        memory.update(added.id, content="the otter")
        before = read_rows(path, "select * from memories"), read_rows(path, "select * from facts")

        memory.search("badger", as_of=days_ago(-1))
        memory.get(added.id, as_of=days_ahead(30))

        assert (read_rows(path, "select * from memories"), read_rows(path, "select * from facts")) == before
