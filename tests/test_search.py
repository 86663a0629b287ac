"""Searching: modes, filters, thresholds, what a hit tells, and what it costs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memorist
from answers import texts
from conftest import FailingEmbedder, HashingEmbedder
from cosine_embedder import CosineEmbedder
from memorist import EmbedderUnavailable, InvalidInput, Memorist
from memorist.arguments import Filter
from memorist.profiles import PROFILES
from memorist.store import filters
from memorist.store.sqlite import vectors
from statements import Statement, record_statements

PROJECT = (
    ("We deploy with `make ship` from the release branch", {"tags": ["deploy"], "sector": "procedural"}),
    ("ADR-016: retries are capped at 5 with exponential back-off", {"tags": ["decision"], "sector": "reflective"}),
    ("The mobile app caches images for a week", {"tags": ["mobile"], "kind": "fact"}),
    ("Login was slow on Mondays because password hashes are checked on two small machines", {"tags": ["auth"]}),
    ("We chose PostgreSQL over DynamoDB since reporting needs joins", {"tags": ["decision"], "source": "notes.md"}),
)


@pytest.fixture
def project(understanding: Memorist) -> Memorist:
    understanding.add_many({"content": content, **fields} for content, fields in PROJECT)
    return understanding


class TestModes:
    def test_meaning_finds_what_no_word_would(self, project: Memorist) -> None:
        hit = project.search("pictures look outdated on phones")[0]

        assert hit.memory.content.startswith("The mobile app caches images")
        assert hit.match == ("vector",)
        assert hit.keyword_score is None

    def test_an_exact_identifier_is_found_by_its_word(self, project: Memorist) -> None:
        hit = project.search("ADR-016")[0]

        assert hit.memory.content.startswith("ADR-016")
        assert "keyword" in hit.match

    def test_both_legs_find_one_memory_once(self, project: Memorist) -> None:
        hits = project.search("how slow is the login")

        assert hits[0].match == ("keyword", "vector")
        assert len({hit.memory.id for hit in hits}) == len(hits)

    @pytest.mark.parametrize(
        ("alias", "mode"), [("fts", "keyword"), ("bm25", "keyword"), ("vec", "semantic"), ("vector", "semantic")]
    )
    def test_other_systems_names_for_the_modes_are_understood(self, project: Memorist, alias: str, mode: str) -> None:
        assert project.search("login", mode=alias).mode == mode

    def test_alpha_0_and_1_are_the_single_modes(self, project: Memorist) -> None:
        for profile in ("balanced", "confidence"):
            for alpha, mode in ((0, "keyword"), (1, "semantic")):
                mixed = [hit.memory.id for hit in project.search("slow login decision", profile=profile, alpha=alpha)]
                single = [hit.memory.id for hit in project.search("slow login decision", profile=profile, mode=mode)]
                assert mixed == single

    def test_the_same_question_gives_the_same_answer(self, project: Memorist) -> None:
        first, second = (project.search("why postgres") for _ in range(2))

        assert [(h.memory.id, h.score) for h in first] == [(h.memory.id, h.score) for h in second]


class TestHits:
    def test_the_trace_adds_up_to_the_score_in_every_profile(self, project: Memorist) -> None:
        for profile in PROFILES:
            for hit in project.search("slow login on the release branch", profile=profile):
                assert 0 <= hit.score <= 1
                assert 0 <= hit.relevance <= 1
                assert sum(hit.trace.values()) == pytest.approx(hit.score)

    def test_scores_never_rise_down_the_list(self, project: Memorist) -> None:
        for profile in PROFILES:
            scores = [hit.score for hit in project.search("slow login on the release branch", profile=profile)]
            assert scores == sorted(scores, reverse=True)

    def test_a_near_perfect_match_is_relevant_and_an_unrelated_one_is_not(self, project: Memorist) -> None:
        related = project.search("We chose PostgreSQL since reporting needs joins")[0]
        unrelated = project.search("the weather in Lisbon tomorrow")

        assert related.relevance > 0.9
        assert all(hit.relevance < 0.3 for hit in unrelated)

    def test_a_match_is_as_relevant_in_a_store_of_one_as_in_a_large_one(self, memory: Memorist) -> None:
        memory.add("the zebra is striped")
        alone = memory.search("zebra")[0].relevance
        memory.add_many(f"filler number {number}" for number in range(500))

        assert memory.search("zebra")[0].relevance == pytest.approx(alone)

    def test_highlights_are_the_places_of_the_words_in_the_content(self, memory: Memorist) -> None:
        memory.add("Über deploying: we deploy daily. " * 3)

        hit = memory.search("deploy")[0]

        assert [hit.memory.content[start:end] for start, end in hit.highlights] == ["deploying", "deploy"] * 3
        assert hit.snippet.count("<mark>") == 6

    def test_what_only_meaning_found_has_a_snippet_and_no_highlights(self, project: Memorist) -> None:
        hit = project.search("pictures look outdated on phones")[0]

        assert hit.snippet
        assert hit.highlights == ()

    def test_explain_tells_how_the_question_was_understood(self, project: Memorist) -> None:
        plan = project.search("how do we ship code", explain=True).plan

        assert plan is not None
        assert plan["terms"] == ["ship", "code"]
        assert plan["left_out"] == ["how", "do", "we"]
        assert project.search("x").plan is None


class TestTies:
    def test_equal_scores_go_to_the_newer_then_to_the_first_added(self, memory: Memorist) -> None:
        old = memory.add("fox one", created_at="2020-01-01T00:00Z")
        same = [memory.add(f"fox {word}", created_at="2026-01-01T00:00Z") for word in ("two", "six", "ten")]

        hits = memory.search("fox", mode="keyword")

        assert [hit.memory.id for hit in hits] == [m.id for m in same] + [old.id]

    @pytest.mark.parametrize("profile", sorted(PROFILES.keys() - {"precise"}))  # the reranker has scores of its own
    @pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
    def test_they_do_in_every_profile(self, profile: str, mode: str) -> None:
        with memorist.open(":memory:", embedder=CosineEmbedder(), profile=profile, on_near_duplicate="off") as memory:
            for year in (2021, 2019, 2023, 2020):
                memory.add(f"@0.9 fox {year}", created_at=f"{year}-01-01T00:00Z")

            hits = memory.search("fox", mode=mode, recency={"form": "none"})

        assert [hit.memory.created_at.year for hit in hits] == [2023, 2021, 2020, 2019]

    @pytest.mark.parametrize("profile", ["balanced", "rank"])
    def test_the_newest_are_found_where_more_are_equal_than_a_search_looks_at(
        self, memory: Memorist, profile: str
    ) -> None:
        memory.add_many({"content": f"fox n{n}", "created_at": f"20{n}-01-01T00:00Z"} for n in range(10, 99))

        hits = memory.search("fox", mode="keyword", profile=profile, limit=3)

        assert [hit.memory.content for hit in hits] == ["fox n98", "fox n97", "fox n96"]


class TestFilters:
    @pytest.fixture
    def varied(self, hashed: Memorist) -> Memorist:
        hashed.add_many(
            {
                "content": f"note {number} about foxes",
                "project": ["api", "web"][number % 2],
                "sector": ["semantic", "episodic"][number % 3 == 0],
                "tier": ["project", "global"][number % 5 == 0],
                "kind": ["fact", "bug"][number % 2],
                "tags": ["even"] * (number % 2 == 0) + ["three"] * (number % 3 == 0),
                "source": f"file{number % 4}.md",
                "salience": number / 100,
                "created_at": f"2026-01-{number % 28 + 1:02}T12:00Z",
            }
            for number in range(60)
        )
        return hashed

    @pytest.mark.parametrize(
        ("filters", "passes"),
        [
            ({"project": "api"}, lambda m: m.project == "api"),
            ({"project": ["api", "web"]}, lambda m: True),
            ({"sector": "episodic"}, lambda m: m.sector == "episodic"),
            ({"tier": "global"}, lambda m: m.tier == "global"),
            ({"kind": "bug"}, lambda m: m.kind == "bug"),
            ({"tags": "even"}, lambda m: "even" in m.tags),
            ({"tags": ["even", "three"]}, lambda m: {"even", "three"} <= set(m.tags)),
            ({"source": ["file1.md", "file2.md"]}, lambda m: m.source in ("file1.md", "file2.md")),
            ({"min_salience": 0.5}, lambda m: m.salience >= 0.5),
            ({"since": "2026-01-20T00:00Z"}, lambda m: m.created_at.day >= 20),
            ({"until": "2026-01-20T00:00Z"}, lambda m: m.created_at.day < 20),
            (
                {"project": "web", "sector": "episodic", "min_salience": 0.3},
                lambda m: (m.project, m.sector) == ("web", "episodic") and m.salience >= 0.3,
            ),
            ({"project": "' or 1=1 --"}, lambda m: False),
            ({"tags": "%"}, lambda m: False),
        ],
    )
    @pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
    def test_a_filter_lets_exactly_its_memories_through(
        self, varied: Memorist, filters: dict[str, Any], passes: Any, mode: str
    ) -> None:
        everything = list(varied.list(limit=100))

        found = varied.search("foxes", mode=mode, limit=100, noise_floor=False, **filters)

        assert {hit.memory.id for hit in found} == {m.id for m in everything if passes(m)}

    @pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
    def test_a_page_is_full_when_enough_memories_pass(self, hashed: Memorist, mode: str) -> None:
        hashed.add_many({"content": f"fox fox fox number {n}", "project": "loud"} for n in range(500))
        hashed.add_many({"content": f"once upon a time a fox met animal {n}", "project": "quiet"} for n in range(12))

        hits = hashed.search("fox", project="quiet", mode=mode, limit=10, noise_floor=False)

        assert len(hits) == 10

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            ({"limit": 0}, "limit must be from 1 to 1000"),
            ({"limit": 1001}, "limit must be from 1 to 1000"),
            ({"limit": "5"}, "limit must be a whole number"),
            ({"limit": True}, "limit must be a whole number"),
            ({"mode": "psychic"}, "mode 'psychic' is unknown"),
            ({"mode": None}, "mode None is unknown"),
            ({"profile": "best"}, "profile 'best' is unknown"),
            ({"grammar": "sql"}, "grammar 'sql' is unknown"),
            ({"fusion": "cold"}, "fusion 'cold' is unknown"),
            ({"alpha": 2}, "alpha must be from 0 to 1"),
            ({"alpha": float("nan")}, "alpha must be from 0 to 1"),
            ({"weights": {"luck": 1}}, "weights: 'luck' is unknown"),
            ({"weights": 3}, "weights must be a mapping"),
            ({"sector": "dreams"}, "sector 'dreams' is unknown"),
            ({"since": "soonish"}, "is not a time"),
            ({"min_salience": 7}, "min_salience must be from 0 to 1"),
            ({"colour": "red"}, "no option 'colour'"),
            ({"tags": {"a": 1}}, "tags must be text or a list"),
        ],
    )
    def test_arguments_that_cannot_be_used_are_refused(
        self, memory: Memorist, arguments: dict[str, Any], complaint: str
    ) -> None:
        with pytest.raises(InvalidInput, match=complaint):
            memory.search("x", **arguments)

    @pytest.mark.local_only("it reads a file of its own machine")
    def test_a_query_that_is_no_text_is_refused(self, memory: Memorist) -> None:
        with pytest.raises(InvalidInput, match="a query must be text"):
            memory.search(None)  # type: ignore[arg-type]


class TestThresholds:
    def test_min_similarity_cuts_what_only_meaning_found(self, project: Memorist) -> None:
        assert len(project.search("slow login", mode="semantic", min_similarity=0.99)) == 0
        assert len(project.search("slow login", min_similarity=0.99)) > 0  # the words are still there

    def test_min_score_and_min_relevance_count_what_they_held_back(self, project: Memorist) -> None:
        everything = project.search("slow login release")
        some = project.search("slow login release", min_score=0.3)

        assert 0 < len(some) < len(everything)
        assert some.hidden["min_score"] == len(everything) - len(some)
        assert project.search("slow login release", min_relevance=1).hidden["min_relevance"] > 0

    def test_min_confidence_is_met_by_memories_without_facts(self, project: Memorist) -> None:
        assert len(project.search("slow login", min_confidence=1)) > 0

    def test_zero_is_a_value_and_not_unset(self, project: Memorist) -> None:
        assert len(project.search("slow login", profile="semantic-first", min_similarity=0)) > len(
            project.search("slow login", profile="semantic-first", mode="semantic")
        )

    def test_the_defaults_never_empty_a_list_that_has_keyword_hits(self, understanding: Memorist) -> None:
        understanding.add("zebra")
        understanding.add("something else")

        assert understanding.search("zebra")[0].memory.content == "zebra"


class TestDegradation:
    def test_without_a_model_words_still_find_and_degraded_says_why(self, memory: Memorist) -> None:
        memory.add("the zebra is striped")

        results = memory.search("zebra")

        assert len(results) == 1
        assert "no embedding model" in (results.degraded or "")

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_semantic_search_without_a_model_is_an_error_unless_words_are_allowed(self, memory: Memorist) -> None:
        memory.add("the zebra is striped")

        with pytest.raises(EmbedderUnavailable, match="semantic search"):
            memory.search("zebra", mode="semantic")
        assert len(memory.search("zebra", mode="semantic", on_no_vector="keyword")) == 1

    @pytest.mark.parametrize("question", ["我们什么时候部署？", "когда мы выпускаем релиз?", "デプロイはいつ"])
    def test_a_question_the_model_cannot_read_is_searched_by_its_words(
        self, understanding: Memorist, question: str
    ) -> None:
        wanted = understanding.add(question)
        understanding.add("An English sentence of no concern")

        results = understanding.search(question)

        assert [hit.memory.id for hit in results] == [wanted.id]
        assert "Latin script" in (results.degraded or "")
        assert understanding.search("où est le café ?").degraded is None

    @pytest.mark.parametrize(
        ("question", "text"),
        [
            ('who said "the otters sleep all day"', "The otters of the zoo sleep while people are there"),
            ('"水獭白天睡觉"', "动物园的水獭在白天睡觉"),
        ],
    )
    def test_a_phrase_that_no_memory_has_falls_back_to_its_words_and_says_so(
        self, memory: Memorist, question: str, text: str
    ) -> None:
        memory.add("Something else altogether")
        wanted = memory.add(text)

        results = memory.search(question)

        assert [hit.memory.id for hit in results] == [wanted.id]
        phrase = question[question.index('"') :]
        assert f"no memory has {phrase}: searched for its words" in (results.degraded or "")

    def test_a_phrase_that_a_memory_has_is_found_as_a_phrase_alone(self, memory: Memorist) -> None:
        memory.add("a day that otters sleep")
        wanted = memory.add("otters sleep all day")

        results = memory.search('"otters sleep all day"')

        assert [hit.memory.id for hit in results] == [wanted.id]
        assert "searched for its words" not in (results.degraded or "")

    @pytest.mark.local_only("it needs the process of the memory, its files or its words")
    def test_a_phrase_that_a_file_has_is_not_loosened_for_memories_beside_it(
        self, memory: Memorist, tmp_path: Any
    ) -> None:
        memory.add("a day that all otters sleep")
        (tmp_path / "zoo.md").write_text("It is known of many that otters sleep all day.", "utf-8")
        memory.documents.index([tmp_path / "zoo.md"])

        results = memory.search('"otters sleep all day"', include_documents=True)

        assert [hit.memory.content for hit in results] == ["It is known of many that otters sleep all day."]
        assert "searched for its words" not in (results.degraded or "")

    def test_what_is_counted_for_a_loosened_phrase_is_what_its_words_match(self, memory: Memorist) -> None:
        memory.add_many({"content": f"otters of river {number} sleep", "project": "zoo"} for number in range(200))

        for tags in (None, "none has this"):
            by_phrase = memory.search('"sleep otters"', facets=["project"], tags=tags)
            by_words = memory.search("sleep otters", facets=["project"], tags=tags)

            assert (by_phrase.facets, by_phrase.hidden) == (by_words.facets, by_words.hidden)

    def test_a_phrase_of_a_memory_that_a_filter_hides_falls_back_as_well(self, memory: Memorist) -> None:
        memory.add("otters sleep all day", project="zoo")
        wanted = memory.add("all the otters of that river sleep by day", project="river")

        results = memory.search('"otters sleep all day"', project="river")

        assert [hit.memory.id for hit in results] == [wanted.id]
        assert "searched for its words" in (results.degraded or "")

    def test_a_memory_is_kept_though_the_model_fails_and_gets_its_vector_later(self, path: Any) -> None:
        model = FailingEmbedder()
        with memorist.open(path, embedder=model) as memory:
            memory.add("the zebra is striped")
            results = memory.search("zebra")
            assert len(results) == 1
            assert "the model is away" in (results.degraded or "")
            assert memory.stats().pending == 1

            model.broken = False
            assert "no vector" in (memory.search("zebra").degraded or "")
            memory.add("another memory")
            assert memory.stats().pending == 0
            assert memory.search("zebra").degraded is None

    def test_vectors_missing_since_an_earlier_process_are_made_at_the_next_write(self, path: Any) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add_many(f"memory {number}" for number in range(20))
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            assert "20 of 20 memories have no vector" in (memory.search("memory").degraded or "")
            memory.add("one more")
            assert memory.stats().vectors == 21

    def test_only_vectors_of_the_active_model_are_compared(self, path: Any) -> None:
        with memorist.open(path, embedder=HashingEmbedder("first", 64)) as memory:
            memory.add("the zebra is striped")
        with memorist.open(path, embedder=HashingEmbedder("second", 32)) as memory:
            assert len(memory.search("zebra is striped", mode="semantic")) == 0
            assert memory.reembed() == 1
            assert len(memory.search("zebra is striped", mode="semantic")) == 1
            assert memory.stats().models == {"first": 1, "second": 1}
            memory.reembed(prune=True)
            assert memory.stats().models == {"second": 1}

    def test_a_model_that_changed_its_dimensions_is_refused_with_advice(self, path: Any) -> None:
        with memorist.open(path, embedder=HashingEmbedder("same", 64)) as memory:
            memory.add("the zebra")
        with memorist.open(path, embedder=HashingEmbedder("same", 32)) as memory:
            memory.add("kept all the same")
            assert "it is another model" in (memory.search("zebra").degraded or "")
            assert memory.stats().memories == 2

    @pytest.mark.parametrize(
        "answer",
        [
            lambda texts: [[float("nan")] * 4 for _ in texts],
            lambda texts: [[0.0] * 4 for _ in texts],
            lambda texts: [[1.0] * 5 for _ in texts],
            lambda texts: [],
            lambda texts: "vectors",
            lambda texts: None,
        ],
        ids=["nan", "zero", "wrong dimension", "too few", "text", "nothing"],
    )
    def test_a_vector_that_makes_no_sense_is_never_stored(self, path: Any, answer: Any) -> None:
        class Odd:
            model_id = "odd"
            dimensions = 4
            embed = staticmethod(answer)

        with memorist.open(path, embedder=Odd()) as memory:
            memory.add("kept all the same")

            assert memory.stats().vectors == 0
            assert len(memory.search("kept")) == 1
            assert memory.check().ok

    def test_an_object_with_a_way_of_its_own_for_questions_is_asked_that_way(self, path: Any) -> None:
        class Instructed(HashingEmbedder):
            def embed_query(self, text: str) -> list[float]:
                return self.embed([f"striped {text}"])[0]

        with memorist.open(path, embedder=Instructed()) as memory:
            memory.add("striped")
            memory.add("plain")

            assert memory.search("unknown", mode="semantic")[0].memory.content == "striped"


class TestCost:
    @pytest.fixture
    def statements(self) -> Iterator[list[Statement]]:
        with record_statements() as seen:
            yield seen

    @pytest.mark.parametrize(
        "filters", [{}, {"project": "api"}, {"tags": "rare"}, {"project": "api", "min_salience": 0.1}]
    )
    def test_a_search_takes_at_most_six_statements_whatever_the_limit(
        self, statements: list[Statement], path: Any, filters: dict[str, Any]
    ) -> None:
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            memory.add_many(
                {"content": f"note {n} about foxes", "project": ["api", "web"][n % 2], "tags": ["rare"] * (n % 50 == 0)}
                for n in range(3000)
            )
            memory.search("warm up")
            counts = []
            for limit in (1, 10, 100, 1000):
                statements.clear()
                memory.search("what about the foxes note", limit=limit, **filters)
                counts.append(len(statements))

        assert max(counts) <= 6

    @pytest.mark.parametrize("filters", [{}, {"project": "api"}, {"tags": "rare"}, {"sector": "semantic"}])
    def test_no_statement_of_a_search_walks_through_every_memory(self, path: Any, filters: dict[str, Any]) -> None:
        with record_statements() as seen, memorist.open(path, embedder=HashingEmbedder()) as memory:
            memory.add_many({"content": f"note {n} on foxes", "project": ["api", "web"][n % 2]} for n in range(2500))
            memory.search("warm up")
            seen.clear()
            memory.search("what about the foxes note", **filters)

        plain = apsw.Connection(str(path))
        plans = [row[3] for sql, values in seen for row in plain.execute(f"explain query plan {sql}", values)]
        plain.close()
        assert plans
        assert [
            plan for plan in plans if "memories_by_time" in plan or plan.startswith(("SCAN m ", "SCAN memories "))
        ] == []

    def test_searching_writes_nothing(self, path: Any) -> None:
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            memory.add("the zebra is striped")
        before = path.read_bytes()
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            memory.search("zebra")

        assert path.read_bytes() == before


@settings(max_examples=40)
@given(st.data())
def test_indexes_and_vectors_agree_with_the_text_after_any_sequence_of_changes(data: st.DataObject) -> None:
    words = st.lists(st.sampled_from(["fox", "dog", "red", "部署", "C++", "deploying", "ünï"]), min_size=1, max_size=4)
    with memorist.open(":memory:", embedder=HashingEmbedder()) as memory:
        known: dict[str, str] = {}
        forgotten: dict[str, str] = {}
        for step in range(data.draw(st.integers(1, 12))):
            action = data.draw(st.sampled_from(["add", "update", "retag", "forget", "restore", "erase", "purge"]))
            if action == "add":
                text = f"{step} {' '.join(data.draw(words))}"
                known[memory.add(text).id] = text
            elif action in ("update", "retag", "forget", "erase") and known:
                id = data.draw(st.sampled_from(sorted(known)))
                if action == "update":
                    known[id] = f"{step} {' '.join(data.draw(words))}"
                    memory.update(id, content=known[id])
                elif action == "retag":
                    memory.update(id, tags=data.draw(words))
                elif action == "forget":
                    memory.forget(id)
                    forgotten[id] = known.pop(id)
                else:
                    memory.forget(id, hard=True)
                    del known[id]
            elif action == "restore" and forgotten:
                id = data.draw(st.sampled_from(sorted(forgotten)))
                memory.restore(id)
                known[id] = forgotten.pop(id)
            elif action == "purge":
                memory.purge()
                forgotten.clear()
        assert memory.check().problems == ()
        assert {m.id: m.content for m in memory.list(limit=100)} == known
        for word in ("fox", "部署", "deploying"):
            found = {hit.memory.id for hit in memory.search(word, mode="keyword", limit=100, columns={"tags": 0})}
            assert {id for id, text in known.items() if word in text} <= found
            semantic = memory.search(word, mode="semantic", limit=100, noise_floor=False)
            assert {hit.memory.id for hit in semantic} == set(known)


class TestRoles:
    """Who said it counts, in a conversation with an assistant."""

    @pytest.fixture
    def talk(self, understanding: Memorist) -> Memorist:
        session = understanding.sessions.start()
        for role, text in (
            ("user", "I have booked the Lake hotel for our holiday"),
            ("assistant", "You could book the Lake hotel for your holiday"),
        ):
            understanding.add(text, session=session.id, kind="turn", metadata={"role": role})
        return understanding

    def test_what_the_user_said_comes_first(self, talk: Memorist) -> None:
        assert talk.search("which hotel for the holiday?")[0].memory.metadata["role"] == "user"

    def test_unless_the_question_is_what_the_assistant_said(self, talk: Memorist) -> None:
        asked, plain = (
            {hit.memory.metadata["role"]: "assistant" in hit.trace for hit in talk.search(question)}
            for question in ("which hotel did you recommend for the holiday?", "which hotel for the holiday?")
        )

        assert asked == {"user": False, "assistant": False}
        assert plain == {"user": False, "assistant": True}

    def test_a_weight_of_one_switches_it_off(self, talk: Memorist) -> None:
        hits = talk.search("which hotel for the holiday?", assistant_factor=1.0)

        assert not any("assistant" in hit.trace for hit in hits)

    @pytest.mark.parametrize("metadata", [{"role": "assistant"}, {"author": {"name": "Ada", "role": "assistant"}}])
    def test_a_note_is_no_turn_whatever_role_its_metadata_has(self, understanding: Memorist, metadata: Any) -> None:
        understanding.add("We build with ninja and clang", metadata=metadata)

        assert "assistant" not in understanding.search("what do we build with?")[0].trace


class TestSessionContext:
    """What is said is understood by what was said beside it; a note stands for itself."""

    TALK = (
        "how do we ship the code to production",
        "It is make ship, as far as I can tell you from memory right now.",
        "thanks",
        "see you",
        "bye",
        "the ship",
    )

    @pytest.fixture(params=["kept as notes", "of a kind", "by a speaker"])
    def saying(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        fields: dict[str, dict[str, Any]] = {
            "kept as notes": {"metadata": {"topic": "role"}},
            "of a kind": {"kind": "turn"},
            "by a speaker": {"metadata": {"speaker": "Ann"}},
        }
        return fields[request.param]

    def test_only_what_was_said_is_ranked_by_its_neighbours(self, memory: Memorist, saying: dict[str, Any]) -> None:
        session = memory.sessions.start()
        for text in self.TALK:
            memory.add(text, session=session.id, on_near_duplicate="off", **saying)

        second = memory.search("ship code to production", mode="keyword")[1].memory.content

        assert second == ("the ship" if "topic" in saying.get("metadata", {}) else self.TALK[1])


def test_a_filter_that_lets_much_through_follows_what_others_write(path: Path) -> None:
    model = CosineEmbedder()
    with memorist.open(path, embedder=model) as reader, memorist.open(path, embedder=model) as other:
        other.add_many({"content": f"@{0.5 + n / 10_000} mine {n}", "source": "mine"} for n in range(2_100))
        other.add_many({"content": f"@{0.9 + n / 10_000} other {n}", "source": "other"} for n in range(600))

        def nearest() -> list[str]:
            return texts(reader.search("a question", mode="semantic", source="mine", limit=1))

        before = nearest()
        assert nearest() == before == ["@0.7099 mine 2099"]
        added = other.add("@0.99 the newest of mine", source="mine")
        assert nearest() == ["@0.99 the newest of mine"]
        other.forget(added.id)
        assert nearest() == before


@pytest.mark.parametrize("most", [20, 30_000])
def test_where_too_many_pass_a_filter_to_be_listed_the_same_is_found_among_the_nearest(
    path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MAX_SCOPE_KEYS", 20)
    monkeypatch.setattr(vectors, "MAX_LISTED_KEYS", most)
    sources = ["mine" if n % 10 == 0 else "other" for n in range(2_000)]
    with memorist.open(path, embedder=CosineEmbedder()) as memory:
        memory.add_many({"content": f"@{n / 2_000} note {n}", "source": source} for n, source in enumerate(sources))
        found = texts(memory.search("a question", mode="semantic", source="mine", limit=5))

    assert [text.split()[-1] for text in found] == ["1990", "1980", "1970", "1960", "1950"]


def test_a_filter_that_the_image_knows_answers_by_what_is_written_since(path: Any) -> None:
    foxes = [{"content": f"note {n} on foxes", "project": "foxes"} for n in range(2500)]
    bears = [{"content": f"note {n} on bears", "project": "bears"} for n in range(2100)]
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        memory.add_many([*foxes, *bears])
        store, inside = memory._resources.store, Filter(project=("bears",))

        def search() -> list[str]:
            return [hit.memory.content for hit in memory.search("note 7 on foxes", project="bears", limit=20)]

        first = search()
        store._backend.images.follow("default").build()
        assert store.resolve_scope(inside).passing is store.resolve_scope(inside).passing
        assert store.resolve_scope(inside).passing is not None
        assert search() == first
        moved = memory.search("note 7 on bears", project="bears")[0].memory
        memory.update(moved.id, project="foxes")
        memory.add("another note 7 on foxes", project="bears")

        found = search()
        assert moved.content not in found
        assert found[0] == "another note 7 on foxes"
        assert search() == found


def test_a_filter_that_is_asked_for_again_sees_what_another_process_has_written(path: Any) -> None:
    with (
        memorist.open(path, embedder=HashingEmbedder()) as memory,
        memorist.open(path, embedder=HashingEmbedder()) as other,
    ):
        memory.add("the fox sleeps", project="den")

        def search() -> set[str]:
            return {hit.memory.content for hit in memory.search("fox", project="den")}

        assert search() == search() == {"the fox sleeps"}
        added = other.add("the fox hunts", project="den")
        assert search() == search() == {"the fox sleeps", "the fox hunts"}
        other.update(added.id, project="field")
        assert search() == search() == {"the fox sleeps"}
