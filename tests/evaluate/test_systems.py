"""Systems to compare: parsing of configurations, their legs, searches and grep."""

from datetime import UTC, datetime

import pytest

from memorist import InvalidInput, Memorist
from memorist.evaluate.dataset import CorpusDocument, Question
from memorist.evaluate.evaluation import (
    GrepSystem,
    MemoristSystem,
    SearchConfig,
    add_legs,
    parse_config,
    parse_configs,
    parse_options,
)


def found(grep: GrepSystem, text: str, scope: str | None = None) -> list[str]:
    return list(grep.retrieve(Question("q", text, {}, scope=scope)).ids)


class TestParsing:
    def test_a_profile_by_its_name_is_hybrid(self) -> None:
        assert parse_config("rank", "hybrid") == SearchConfig("hybrid", "rank")
        assert parse_config("rank", "hybrid").name == "rank"

    def test_options_follow_a_colon(self) -> None:
        config = parse_config("balanced:alpha=.3,fusion=rrf,noise_floor=false", "hybrid")

        assert config.options == {"alpha": 0.3, "fusion": "rrf", "noise_floor": False}
        assert config.name == "balanced:alpha=0.3,fusion=rrf,noise_floor=false"

    def test_a_mode_alone_will_do(self) -> None:
        assert parse_config("keyword", "hybrid") == SearchConfig("keyword", "balanced")

    def test_what_a_profile_says_itself_counts_more_than_what_is_set_for_all(self) -> None:
        assert parse_config("balanced:alpha=.3", "hybrid", {"alpha": 0.9, "k": 10}).options == {"alpha": 0.3, "k": 10}

    def test_every_profile_in_every_mode_once(self) -> None:
        configs = parse_configs(["hybrid", "keyword"], ["balanced", "rank", "balanced"], {})

        assert [one.name for one in configs] == ["balanced", "balanced keyword", "rank", "rank keyword"]

    def test_a_part_of_an_option_is_set_by_its_name(self) -> None:
        assert parse_options(["weights.semantic=.5", "weights.recency=0", "k=7"]) == {
            "weights": {"semantic": 0.5, "recency": 0},
            "k": 7,
        }

    @pytest.mark.parametrize("pair", ["alpha", "beta=1", "limit=3", "record=log", "name=x", "=1"])
    def test_what_is_no_option_is_refused(self, pair: str) -> None:
        with pytest.raises(InvalidInput, match="does not set an option"):
            parse_options([pair])

    @pytest.mark.parametrize(
        ("spec", "about"), [("swift", "no profile"), ("balanced:alpha=2", "alpha"), ("balanced:fusion=x", "fusion")]
    )
    def test_what_cannot_be_searched_with_is_refused_before_anything_is_asked(self, spec: str, about: str) -> None:
        with pytest.raises(InvalidInput, match=about):
            parse_config(spec, "hybrid")


class TestLegs:
    def test_both_legs_are_added_to_a_profile(self) -> None:
        names = [one.name for one in add_legs(parse_configs(["hybrid"], ["balanced"], {}))]

        assert names == ["balanced keyword", "balanced semantic", "balanced"]

    def test_a_leg_has_no_fusion_options_so_two_weights_have_the_same_legs(self) -> None:
        configs = parse_configs(
            ["hybrid"], ["balanced:alpha=.3", "balanced:weigh_by_clarity=false"], {"stemmed": False}
        )
        names = [one.name for one in add_legs(configs)]

        assert names[:2] == ["balanced:stemmed=false keyword", "balanced:stemmed=false semantic"]
        assert len(names) == 4

    def test_a_leg_is_not_reranked(self) -> None:
        names = [one.name for one in add_legs(parse_configs(["hybrid"], ["balanced:rerank=30", "precise"], {}))]

        assert names == [
            "balanced keyword", "balanced semantic", "precise:rerank=off keyword", "precise:rerank=off semantic",
            "balanced:rerank=30", "precise",
        ]  # fmt: skip

    def test_a_leg_that_was_chosen_is_listed_once(self) -> None:
        names = [one.name for one in add_legs(parse_configs(["keyword"], ["balanced"], {}))]

        assert names == ["balanced keyword", "balanced semantic"]


class TestGrep:
    @pytest.fixture
    def grep(self) -> GrepSystem:
        texts = {
            "a": "the ferry leaves at nine", "b": "the ferry, the ferry", "c": "Ferry at NINE sharp", "d": "x",
        }  # fmt: skip
        return GrepSystem(
            CorpusDocument(id, text, None, "north" if id < "c" else "south", {}) for id, text in texts.items()
        )

    def test_the_text_with_most_words_of_the_question_comes_first(self, grep: GrepSystem) -> None:
        assert found(grep, "nine ferry leaves")[0] == "a"

    def test_of_those_with_as_many_the_one_that_says_them_most_often(self, grep: GrepSystem) -> None:
        assert found(grep, "ferry ferry") == ["b", "a", "c"]

    def test_case_and_punctuation_do_not_matter(self, grep: GrepSystem) -> None:
        assert found(grep, "Nine, sharp?") == ["c", "a"]

    def test_a_part_of_a_word_is_not_the_word(self, grep: GrepSystem) -> None:
        assert found(grep, "fer leave") == []

    def test_a_scope_holds(self, grep: GrepSystem) -> None:
        assert found(grep, "ferry", "south") == ["c"]

    def test_titles_are_read_too(self) -> None:
        assert found(GrepSystem([CorpusDocument("a", "text", "Title", None, {})]), "title") == ["a"]


class TestMemorist:
    def test_a_question_is_asked_within_its_scope_and_leaves_nothing_behind(self, memory: Memorist) -> None:
        north, south = (memory.add("the ferry leaves at nine", project=name) for name in ("north", "south"))
        search = MemoristSystem(SearchConfig("keyword", "salience"), memory)  # a profile that reinforces what it finds

        assert search.retrieve(Question("q", "ferry", {}, scope="south")).ids == [south.id]
        assert set(search.retrieve(Question("q", "ferry", {})).ids) == {north.id, south.id}
        assert list(memory.searches.list()) == []

    def test_a_leg_that_cannot_answer_has_found_nothing_and_says_why(self, memory: Memorist) -> None:
        memory.add("the ferry leaves at nine")
        found = MemoristSystem(SearchConfig("semantic", "balanced"), memory).retrieve(Question("q", "ferry", {}))

        assert found.ids == ()
        assert "no embedding model" in (found.degraded or "")

    def test_last_month_is_the_one_before_the_question_was_asked(self, memory: Memorist) -> None:
        ids = {
            month: memory.add(f"In {name} the ferry was repaired", created_at=datetime(2023, month, 15, tzinfo=UTC)).id
            for month, name in ((2, "Porto"), (3, "Lisbon"), (4, "Faro"))
        }
        search = MemoristSystem(SearchConfig("keyword", "balanced"), memory)

        for month, id in ids.items():
            asked = datetime(2023, month + 1, 10, tzinfo=UTC)
            assert (
                search.retrieve(Question("q", "where was the ferry repaired last month?", {}, asked_at=asked)).ids[0]
                == id
            )
