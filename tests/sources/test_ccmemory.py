"""ccmemory's search specification: its own test lists and ranking formula, with profile="salience"."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

import memorist
from answers import texts
from conftest import HashingEmbedder
from memorist import Memorist
from memorist.profiles.compat import SECTOR_BOOSTS
from memorist.records import SECTORS, Hit, Results

AUTHENTICATION = "The authentication module handles user login and JWT tokens"
MIGRATIONS = "Database migrations are run with the migrate command"


class TestFTS5Search:
    @pytest.fixture(autouse=True)
    def _two_memories(self, memory: Memorist) -> None:
        memory.add(AUTHENTICATION, project="proj1")
        memory.add(MIGRATIONS, project="proj1")

    @staticmethod
    def search(memory: Memorist, query: str, **options: object) -> Results:
        return memory.search(query, mode="keyword", profile="salience", **options)

    def test_finds_memories_by_keyword(self, memory: Memorist) -> None:
        results = self.search(memory, "authentication", project="proj1")

        assert texts(results) == [AUTHENTICATION]
        assert "authentication" in results[0].snippet

    @pytest.mark.parametrize("beginning", ["auth", "authenti", "authenticat", "AUTH"])
    def test_supports_prefix_matching(self, memory: Memorist, beginning: str) -> None:
        assert texts(self.search(memory, beginning, project="proj1")) == [AUTHENTICATION]

    def test_returns_highlighted_snippets(self, memory: Memorist) -> None:
        (hit,) = self.search(memory, "authentication", project="proj1")

        assert "<mark>authentication</mark>" in hit.snippet
        assert [hit.memory.content[start:end] for start, end in hit.highlights] == ["authentication"]

    def test_filters_by_project(self, memory: Memorist) -> None:
        memory.add("authentication in another project", project="proj2")

        assert texts(self.search(memory, "authentication", project="proj1")) == [AUTHENTICATION]
        assert len(self.search(memory, "authentication")) == 2

    @pytest.mark.parametrize("query", ["", "   ", "\t\n"])
    def test_handles_empty_query(self, memory: Memorist, query: str) -> None:
        assert list(self.search(memory, query, project="proj1")) == []

    def test_any_of_the_words_will_do(self, memory: Memorist) -> None:
        assert set(texts(self.search(memory, "authentication migrations"))) == {AUTHENTICATION, MIGRATIONS}

    def test_words_of_one_letter_are_dropped_while_another_word_remains(self, memory: Memorist) -> None:
        xylophone = memory.add("xylophone").content

        assert texts(self.search(memory, "auth x")) == [AUTHENTICATION]
        assert texts(self.search(memory, "x")) == [xylophone]

    def test_a_forgotten_memory_is_not_found(self, memory: Memorist) -> None:
        memory.forget(self.search(memory, "authentication")[0].memory.id)

        assert list(self.search(memory, "authentication")) == []

    def test_a_keyword_hit_is_called_keyword(self, memory: Memorist) -> None:
        assert self.search(memory, "authentication")[0].match == ("keyword",)


class TestVectorSearch:
    @pytest.fixture(autouse=True)
    def _two_memories(self, understanding: Memorist) -> None:
        understanding.add("User authentication with JWT tokens and OAuth2", project="proj1")
        understanding.add("Database schema design with foreign keys", project="proj1")

    @staticmethod
    def search(memory: Memorist, query: str, **options: object) -> Results:
        return memory.search(query, mode="semantic", profile="salience", project="proj1", **options)

    def test_finds_semantically_similar_memories(self, understanding: Memorist) -> None:
        results = self.search(understanding, "login system security")

        assert results[0].memory.content == "User authentication with JWT tokens and OAuth2"
        assert results[0].match == ("semantic",)

    def test_returns_similarity_scores(self, understanding: Memorist) -> None:
        results = self.search(understanding, "authentication")

        assert 0 < (results[0].similarity or 0) <= 1
        assert results[0].similarity == max(hit.similarity or 0 for hit in results)

    def test_a_hit_of_meaning_alone_has_a_snippet_but_no_highlights(self, understanding: Memorist) -> None:
        (hit, *_) = self.search(understanding, "login system security")

        assert hit.highlights == ()
        assert hit.snippet == hit.memory.content

    def test_only_searches_current_model_vectors(self, tmp_path: Path) -> None:
        path = tmp_path / "models.db"
        with memorist.open(path, embedder=HashingEmbedder("old")) as memory:
            memory.add("a vector of the old model", project="proj1")
        with memorist.open(path, embedder=HashingEmbedder("new")) as memory:
            before = self.search(memory, "vector")
            memory.add("a vector of the new model", project="proj1")
            after = self.search(memory, "vector")

        assert texts(before) == []
        assert before.degraded is not None
        assert texts(after) == ["a vector of the new model"]


class TestHybridSearch:
    REACT = "Decided to use React with TypeScript for the frontend"
    DEPLOY = "To deploy, run npm build then upload to S3"
    ROUTES = "The API routes are defined in src/routes/api.ts"

    @pytest.fixture(autouse=True)
    def _diverse_memories(self, understanding: Memorist) -> None:
        understanding.add(self.REACT, project="proj1", sector="reflective", tier="global", salience=0.9)
        understanding.add(self.DEPLOY, project="proj1", sector="procedural", tier="project", salience=0.5)
        understanding.add(self.ROUTES, project="proj1", sector="semantic", tier="session", salience=0.1)

    @staticmethod
    def search(memory: Memorist, query: str, **options: object) -> Results:
        return memory.search(query, profile="salience", project="proj1", **options)

    def test_returns_results_from_both_fts_and_vector(self, understanding: Memorist) -> None:
        results = self.search(understanding, "React TypeScript")

        assert results[0].memory.content == self.REACT
        assert results[0].match == ("both",)
        assert {hit.match for hit in results[1:]} == {("semantic",)}

    def test_a_memory_found_by_both_appears_once(self, understanding: Memorist) -> None:
        found = texts(self.search(understanding, "React TypeScript"))

        assert sorted(found) == sorted(set(found))

    def test_filters_by_sector(self, understanding: Memorist) -> None:
        results = self.search(understanding, "build deploy", sector="procedural")

        assert texts(results) == [self.DEPLOY]

    def test_filters_by_tier(self, understanding: Memorist) -> None:
        assert texts(self.search(understanding, "frontend", tier="session")) == [self.ROUTES]

    def test_filters_by_min_salience(self, understanding: Memorist) -> None:
        results = self.search(understanding, "routes build React", min_salience=0.5)

        assert set(texts(results)) == {self.REACT, self.DEPLOY}
        assert len(self.search(understanding, "routes build React", min_salience=0)) == 3

    @pytest.mark.parametrize(
        ("mode", "words"), [("keyword", {"keyword"}), ("semantic", {"semantic"}), ("hybrid", {"both", "semantic"})]
    )
    def test_different_search_modes_work(self, understanding: Memorist, mode: str, words: set[str]) -> None:
        results = self.search(understanding, "deploy", mode=mode)

        assert results.mode == mode
        assert {word for hit in results for word in hit.match} == words
        assert self.DEPLOY in texts(results)

    def test_ten_results_by_default(self, understanding: Memorist) -> None:
        understanding.add_many({"content": f"deploy number {n}", "project": "proj1"} for n in range(30))

        assert len(self.search(understanding, "deploy")) == 10


class PlacedEmbedder:
    """Every text where the test puts it; four dimensions, so that halves are exact."""

    model_id, dimensions = "placed-4", 4
    PLACES: ClassVar = {"toward": [1, 0, 0, 0], "half": [1, 1, 1, 1], "across": [0, 1, 0, 0], "against": [-1, 0, 0, 0]}

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [next((place for word, place in self.PLACES.items() if word in text), [1, 0, 0, 0]) for text in texts]


class TestComputeScore:
    """score = (.4 semantic + .25 keyword + .2 salience + .15 recency) * sector boost, held within 0..1."""

    @pytest.fixture
    def placed(self, tmp_path: Path) -> Iterator[Memorist]:
        with memorist.open(tmp_path / "placed.db", embedder=PlacedEmbedder(), profile="salience") as memory:
            yield memory

    @staticmethod
    def days_ago(days: float) -> datetime:
        return datetime.now(UTC) - timedelta(days=days)

    def test_worked_example_of_all_four_parts_and_the_boost(self, placed: Memorist) -> None:
        placed.add_many(f"filler {n} across" for n in range(50))
        placed.add("zebra half", sector="reflective", salience=0.7, created_at=self.days_ago(10))

        hit = placed.search("zebra")[0]

        keyword = min(1, (hit.keyword_score or 0) / 10)
        total = 0.4 * 0.5 + 0.25 * keyword + 0.2 * 0.7 + 0.15 * math.exp(-0.5)
        assert 0 < keyword < 1
        assert hit.similarity == pytest.approx(0.5, abs=1e-6)
        assert hit.raw["sum"] == pytest.approx(total, abs=1e-5)
        assert hit.score == pytest.approx(1.2 * total, abs=1e-5)
        assert hit.match == ("both",)

    def test_the_trace_names_every_part_and_adds_up(self, placed: Memorist) -> None:
        placed.add("zebra half", sector="episodic", salience=0.25, created_at=self.days_ago(20))

        (hit,) = placed.search("zebra")

        assert math.fsum(hit.trace.values()) == pytest.approx(hit.score)
        assert hit.trace["vector"] == pytest.approx(0.4 * 0.5, abs=1e-6)
        assert hit.trace["salience"] == pytest.approx(0.2 * 0.25)
        assert hit.trace["recency"] == pytest.approx(0.15 * math.exp(-1), abs=1e-5)
        assert hit.trace["sector"] == pytest.approx((0.8 - 1) * hit.raw["sum"])

    def test_sector_specific_boosts_are_applied(self, placed: Memorist) -> None:
        for sector in SECTORS:
            placed.add(f"zebra in {sector} clothes", sector=sector)

        results = placed.search("zebra")

        assert [hit.memory.sector for hit in results] == [
            "reflective", "semantic", "procedural", "emotional", "episodic",
        ]  # fmt: skip
        for hit in results:
            assert hit.score == pytest.approx(hit.raw["sum"] * SECTOR_BOOSTS[hit.memory.sector])

    def test_no_boosts_and_no_decay_are_an_empty_table(self, placed: Memorist) -> None:
        for sector in SECTORS:
            placed.add(f"zebra in {sector} clothes", sector=sector)

        results = placed.search("zebra", sector_boosts={}, sector_decay={}, fact_decay={})

        for hit in results:
            assert "sector" not in hit.trace
            assert hit.score == pytest.approx(hit.raw["sum"])

    def test_newer_memories_rank_higher(self, placed: Memorist) -> None:
        placed.add("zebra of long ago", created_at=self.days_ago(60))
        placed.add("zebra of today")
        placed.add("zebra of last week", created_at=self.days_ago(7))

        assert texts(placed.search("zebra")) == ["zebra of today", "zebra of last week", "zebra of long ago"]

    def test_more_salient_memories_rank_higher(self, placed: Memorist) -> None:
        placed.add("zebra a", salience=0.1)
        placed.add("zebra b", salience=0.9)

        assert texts(placed.search("zebra")) == ["zebra b", "zebra a"]

    def test_the_score_is_held_at_one(self, placed: Memorist) -> None:
        placed.add("zebra toward", sector="reflective", salience=1.0)

        (hit,) = placed.search("zebra", weights={"semantic": 5.0})

        assert hit.score == 1.0
        assert hit.raw["sum"] > 1
        assert math.fsum(hit.trace.values()) == pytest.approx(1.0)

    def test_weights_can_be_replaced_per_call_and_zero_is_a_weight(self, placed: Memorist) -> None:
        placed.add("zebra toward", salience=0.2, sector="procedural")
        placed.add("zebra across", salience=0.8, sector="procedural", created_at=self.days_ago(100))

        results = placed.search("zebra", weights={"semantic": 0, "keyword": 0, "salience": 1, "recency": 0})

        assert [(hit.memory.content, hit.score) for hit in results] == [("zebra across", 0.8), ("zebra toward", 0.2)]

    def test_a_better_keyword_match_never_scores_lower(self, placed: Memorist) -> None:
        placed.add_many(f"filler {n}" for n in range(50))
        placed.add("zebra zebra zebra")
        placed.add("a zebra among many many other words that have nothing to do with it")

        hits = list(placed.search("zebra", mode="keyword"))

        assert [hit.trace["keyword"] for hit in hits] == sorted((h.trace["keyword"] for h in hits), reverse=True)
        assert hits[0].memory.content == "zebra zebra zebra"

    def test_a_keyword_hit_that_means_something_else_is_called_keyword(self, placed: Memorist) -> None:
        """`similarity > 0 && ftsRank !== 0 ? 'both' : ...` in the source: no similarity, no semantic match."""
        placed.add("zebra across")
        placed.add("zebra against")

        matches = {hit.memory.content: hit.match for hit in placed.search("zebra")}

        assert matches == {"zebra across": ("keyword",), "zebra against": ("keyword",)}

    def test_highlights_are_there_only_when_the_keyword_leg_hit(self, placed: Memorist) -> None:
        placed.add("zebra half")
        placed.add("something else toward")
        found: dict[tuple[str, ...], Hit] = {hit.match: hit for hit in placed.search("zebra")}

        assert found[("both",)].highlights == ((0, 5),)
        assert found[("semantic",)].highlights == ()


class TestSupersededStatus:
    @pytest.fixture
    def pair(self, memory: Memorist) -> tuple[str, str]:
        """Return an old memory and the new one that supersedes it."""
        old, new = memory.add("Old API endpoint is /v1").id, memory.add("New API endpoint is /v2").id
        memory.supersede(old, new)
        return old, new

    def test_a_hit_says_that_it_is_superseded(self, memory: Memorist, pair: tuple[str, str]) -> None:
        old, new = pair

        hits = memory.search("API endpoint", profile="salience", include_superseded=True)

        assert {hit.memory.id: hit.is_superseded for hit in hits} == {old: True, new: False}

    def test_supersession_counts_among_the_related_memories(self, memory: Memorist, pair: tuple[str, str]) -> None:
        """Both ends count a relationship: `WHERE source_memory_id = ? OR target_memory_id = ?`."""
        old, new = pair

        hits = memory.search("API endpoint", profile="salience", include_superseded=True)

        assert {hit.memory.id: hit.related_count for hit in hits} == {old: 1, new: 1}


def test_a_search_logs_its_question_cut_short_its_hits_and_its_time(
    memory: Memorist, caplog: pytest.LogCaptureFixture
) -> None:
    memory.add("walruses are large")

    with caplog.at_level("DEBUG", logger="memorist.search"):
        memory.search("walruses " + "and more " * 20)

    begun, ended = (record.getMessage() for record in caplog.records)
    assert begun.startswith("search 'walruses and more")
    assert len(begun) < 100
    assert "1 hits in" in ended
    assert "ms" in ended
