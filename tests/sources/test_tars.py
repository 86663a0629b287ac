"""tars' hybrid search plan: its key test cases, with profile="notes" (quoted AND, normalised RRF)."""

import math
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import memorist
from answers import texts
from conftest import FailingEmbedder
from cosine_embedder import CosineEmbedder
from memorist import Memorist
from memorist.mcp_server.calls import ToolContext, memory_search

ROSES = "Roses are pruned in February"
TOMATOES = "Tomatoes need a pruned stem and a lot of sun"
COMPOST = "The compost heap is behind the shed"


@pytest.fixture
def placed(path: Path) -> Iterator[Memorist]:
    with memorist.open(path, embedder=CosineEmbedder(steps=True), profile="notes") as memory:
        yield memory


@pytest.fixture
def notes(memory: Memorist) -> Memorist:
    memory.add_many([ROSES, TOMATOES, COMPOST])
    return memory


class TestSanitizeFtsQuery:
    @pytest.mark.parametrize(
        "query",
        [
            'roses"', '"roses', "roses:", "(roses", "roses)", "roses^", "roses*", "-roses", "+roses", "{roses}",
            "roses;", "'roses'", "roses,", "ROSES", "roses\x00", "`roses`",
        ],
    )  # fmt: skip
    def test_handles_special_characters(self, notes: Memorist, query: str) -> None:
        assert texts(notes.search(query, profile="notes")) == [ROSES]

    @pytest.mark.parametrize("query", ["", "  ", '""', "-", "+", "( )", "*", "^", ":", "\x00", "\ud800"])
    def test_handles_empty_input(self, notes: Memorist, query: str) -> None:
        assert list(notes.search(query, profile="notes")) == []

    @pytest.mark.parametrize(
        "query", ["roses AND", "roses OR compost", "NOT roses", "roses NEAR compost", "content:roses", "roses AND stem"]
    )
    def test_operators_are_words_like_any_other(self, notes: Memorist, query: str) -> None:
        assert list(notes.search(query, profile="notes")) == []

    def test_an_operator_is_found_where_it_is_written(self, notes: Memorist) -> None:
        notes.add("the truth table of AND, OR and NOT")

        assert texts(notes.search("truth AND NOT", profile="notes")) == ["the truth table of AND, OR and NOT"]

    def test_all_words_must_be_there(self, notes: Memorist) -> None:
        assert texts(notes.search("pruned stem", profile="notes")) == [TOMATOES]
        assert texts(notes.search("pruned compost", profile="notes")) == []

    def test_its_later_behaviour_is_any_word_by_grammar_or(self, notes: Memorist) -> None:
        found = texts(notes.search("pruned compost", profile="notes", grammar="or"))

        assert set(found) == {ROSES, TOMATOES, COMPOST}

    def test_porter_finds_other_forms_of_a_word(self, notes: Memorist) -> None:
        assert set(texts(notes.search("pruning", profile="notes"))) == {ROSES, TOMATOES}


class TestReciprocalRankFusion:
    def test_merges_overlapping_lists(self, placed: Memorist) -> None:
        placed.add("@2 heron")
        placed.add("@1 stork")

        first, second = placed.search("heron")

        assert (first.memory.content, second.memory.content) == ("@2 heron", "@1 stork")
        assert first.raw["rrf"] == pytest.approx(1 / 61 + 1 / 62)
        assert second.raw["rrf"] == pytest.approx(1 / 61)

    def test_scores_are_normalised_by_the_number_of_lists(self, placed: Memorist) -> None:
        placed.add("@1 heron")
        placed.add("@2 stork")

        first, second = placed.search("heron")

        assert first.score == pytest.approx(1.0)
        assert second.score == pytest.approx((1 / 62) / (2 / 61))

    @pytest.mark.parametrize("mode", ["vec", "fts"])
    def test_a_single_list_is_normalised_too(self, placed: Memorist, mode: str) -> None:
        placed.add("@1 heron heron")
        placed.add("@2 heron and a long tail of other words")

        assert [hit.score for hit in placed.search("heron", mode=mode)] == pytest.approx([1.0, 61 / 62])

    def test_every_score_is_within_zero_and_one(self, placed: Memorist) -> None:
        placed.add_many(f"@{n} heron {n}" for n in range(30))

        assert all(0 < hit.score <= 1 for hit in placed.search("heron", limit=30))


class TestSearchVec:
    def test_returns_rows_in_distance_order(self, placed: Memorist) -> None:
        placed.add_many(f"@{n} bird" for n in (7, 2, 9, 4))

        results = placed.search("anything", mode="vec")

        assert texts(results) == ["@2 bird", "@4 bird", "@7 bird", "@9 bird"]
        assert [hit.similarity for hit in results] == pytest.approx(
            [math.cos(0.2), math.cos(0.4), math.cos(0.7), math.cos(0.9)], abs=1e-3
        )


class TestSearchFts:
    def test_returns_rows_matching_the_keywords(self, notes: Memorist) -> None:
        assert texts(notes.search("compost", profile="notes", mode="fts")) == [COMPOST]


class TestSearch:
    def test_hybrid_end_to_end(self, understanding: Memorist) -> None:
        understanding.add_many([ROSES, TOMATOES, COMPOST])

        by_words = understanding.search("compost heap", profile="notes")
        by_meaning = understanding.search("where do kitchen scraps go?", profile="notes")

        assert by_words[0].memory.content == COMPOST
        assert by_meaning[0].memory.content == COMPOST
        assert "keyword" not in by_meaning[0].match

    @pytest.mark.parametrize(("alias", "mode"), [("vec", "semantic"), ("fts", "keyword")])
    def test_single_source_modes(self, placed: Memorist, alias: str, mode: str) -> None:
        placed.add("@1 heron")
        placed.add("@2 stork")

        results = placed.search("stork", mode=alias)

        assert results.mode == mode
        assert texts(results) == (["@1 heron", "@2 stork"] if mode == "semantic" else ["@2 stork"])

    def test_min_score_excludes_low_scoring_results_and_counts_them(self, placed: Memorist) -> None:
        placed.add("@1 heron")
        placed.add("@2 stork")
        placed.add("@3 crane")

        results = placed.search("heron", min_score=0.6)

        assert texts(results) == ["@1 heron"]
        assert results.hidden == {"min_score": 2}

    def test_a_min_score_of_zero_is_a_value_that_excludes_nothing(self, placed: Memorist) -> None:
        placed.add_many(["@1 heron", "@30 stork"])

        assert len(placed.search("heron", min_score=0.0)) == 2

    def test_min_score_comes_before_the_limit(self, placed: Memorist) -> None:
        placed.add_many(f"@{n} heron {n}" for n in range(20))

        assert len(placed.search("heron", min_score=0.1, limit=5)) == 5

    def test_ten_results_by_default(self, placed: Memorist) -> None:
        placed.add_many(f"@{n} heron {n}" for n in range(20))

        assert len(placed.search("heron")) == 10

    def test_an_empty_database_gives_an_empty_list(self, placed: Memorist) -> None:
        assert list(placed.search("heron")) == []
        assert list(placed.search("heron", mode="vec")) == []

    def test_a_missing_database_gives_an_empty_list_and_stays_missing(self, tmp_path: Path) -> None:
        missing = tmp_path / "no" / "such" / "memory.db"

        with memorist.open(missing, read_only=True, embedder=CosineEmbedder(steps=True)) as memory:
            assert list(memory.search("heron", profile="notes")) == []
        assert list(tmp_path.iterdir()) == []

    def test_a_model_that_is_away_leaves_keyword_search_and_says_so(self, path: Path) -> None:
        with memorist.open(path, embedder=FailingEmbedder()) as memory:
            memory.add(COMPOST)
            results = memory.search("compost", profile="notes")

        assert texts(results) == [COMPOST]
        assert results.degraded is not None
        assert "the model is away" in results.degraded

    def test_results_are_frozen(self, notes: Memorist) -> None:
        (hit,) = notes.search("compost", profile="notes")

        with pytest.raises(AttributeError):
            hit.score = 2.0  # type: ignore[misc]

    def test_the_file_is_let_go_of_when_the_memory_is_closed(self, path: Path) -> None:
        with memorist.open(path, embedder=CosineEmbedder(steps=True)) as memory:
            memory.add("@1 heron")
            memory.search("heron")

        assert [file.name for file in path.parent.iterdir()] == [path.name]


class TestMemorySearchTool:
    def test_five_results_by_default(self, memory: Memorist) -> None:
        memory.add_many(f"heron number {n}" for n in range(20))
        context = ToolContext(memory, limit=6000, is_ready=True)

        assert len(memory_search(context, "heron")["results"]) == 5
        assert len(memory_search(context, "heron", limit=7)["results"]) == 7


class TestFtsSync:
    @staticmethod
    def words(path: Path) -> set[str]:
        """Every word the full-text index holds."""
        connection = apsw.Connection(str(path))
        connection.execute("create virtual table temp.vocabulary using fts5vocab('main', 'memories_words', 'row')")
        found = {word for (word,) in connection.execute("select term from temp.vocabulary")}
        connection.close()
        return found

    def test_after_a_hard_delete_the_index_is_clean_too(self, placed: Memorist, path: Path) -> None:
        heron = placed.add("@1 heron")
        placed.add("@2 stork")
        placed.forget(heron.id, hard=True)

        assert self.words(path) == {"2", "stork"}
        assert texts(placed.search("heron")) == ["@2 stork"]
        assert placed.stats().vectors == 1

    def test_after_a_soft_delete_the_index_is_clean_too_and_a_restore_brings_it_back(
        self, placed: Memorist, path: Path
    ) -> None:
        heron = placed.add("@1 heron")
        placed.forget(heron.id)
        forgotten = self.words(path)
        placed.restore(heron.id)

        assert forgotten == set()
        assert self.words(path) == {"1", "heron"}
        assert placed.search("heron")[0].match == ("keyword", "vector")

    def test_backfill_an_index_that_lost_its_rows_is_made_again_from_the_text(
        self, notes: Memorist, path: Path
    ) -> None:
        connection = apsw.Connection(str(path))
        for index in ("memories_stems", "memories_words"):
            connection.execute(f"insert into {index}({index}) values ('delete-all')")
        connection.close()
        assert texts(notes.search("pruned stem", profile="notes")) == []

        before = notes.check()
        notes.check(repair=True)

        assert not before.ok
        assert notes.check().ok
        assert texts(notes.search("pruned stem", profile="notes")) == [TOMATOES]
