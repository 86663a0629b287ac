"""Did you mean: unknown words are corrected from the store's own, and nothing else of a question changes."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memorist
from memorist import Memorist
from memorist.arguments import NO_FILTER
from memorist.records import GRAMMARS, Term
from memorist.search.query import parse_query
from memorist.search.suggest import MAX_QUERY_CHARACTERS, MAX_UNKNOWN_WORDS, suggest_query
from memorist.store.sqlite.dialect import SqliteConnection
from memorist.store.sqlite.vocabulary import SqliteVocabulary

Ask = Callable[..., str | None]

NOTES = (
    "We deploy with `make ship` from the release branch",
    "ADR-016: retries are capped at 5 with exponential back-off",
    "orders join on user_id, invoices on account_id; the ide and the idea add little",
    "test_checkout_timeout fails on Mondays, test_login passes",
    "getUserName is called by the ProfilePage",
    "PostgreSQL is our database; the café in München has a box for email",
    "config.retry.maximum was raised, see docs/deployment.md",
    "which of them would they have chosen",
)


@pytest.fixture
def ask(path: Path, memory: Memorist) -> Iterator[Ask]:
    """What is suggested for a question to a store with these notes."""
    memory.add_many(NOTES)
    connection = SqliteConnection(str(path))
    vocabulary = SqliteVocabulary("default")

    def asked(text: str, grammar: str = "auto") -> str | None:
        return suggest_query(
            parse_query(text, grammar),
            partial(vocabulary.find_known, connection),
            partial(vocabulary.find_similar, connection),
        )

    yield asked
    connection.close()


class TestWords:
    @pytest.mark.parametrize(
        ("typed", "meant"),
        [
            ("relaese branch", "release branch"),
            ("how do we dpeloy the relese?", "how do we deploy the release?"),
            ("exponentail", "exponential"),
            ("Postgers", None),  # three slips from PostgreSQL
            ("postgreesql", "PostgreSQL"),
            ("kpostgresql", "PostgreSQL"),
            ("xelease", "release"),
            ("dploy dploy", "deploy deploy"),
        ],
    )
    def test_an_unknown_word_becomes_the_known_one_it_is_most_like(
        self, ask: Ask, typed: str, meant: str | None
    ) -> None:
        assert ask(typed) == meant

    @pytest.mark.parametrize(
        "text",
        ["release branch", "deploying releases", "depl", "postg*", '"release branch"', "RETRIES", "cafe Munchen"],
    )
    def test_words_that_are_found_as_they_are_stay(self, ask: Ask, text: str) -> None:
        assert ask(text) is None

    def test_words_that_stand_in_different_memories_are_known_all_the_same(self, ask: Ask) -> None:
        assert ask("release PostgreSQL Mondays branch_id") is None

    @pytest.mark.parametrize("text", ["zebra", "kangaroo giraffe", "", "?!", "relaese" * 20])
    def test_what_is_like_nothing_stays(self, ask: Ask, text: str) -> None:
        assert ask(text) is None

    def test_a_word_that_is_like_nothing_stays_beside_one_that_is_corrected(self, ask: Ask) -> None:
        assert ask("zebra relaese") == "zebra release"

    def test_short_words_numbers_and_stop_words_stay(self, ask: Ask) -> None:
        assert ask("sjip 2026 wher adr-061") == "ship 2026 wher adr-061"
        assert ask("cpa, shi, 61, would've, whose") is None

    def test_scripts_without_spaces_stay(self, ask: Ask, memory: Memorist) -> None:
        memory.add("東京都庁舎のデータベース")

        assert ask("東京都庁舍のデータペース") is None
        assert ask("relaese 東京都庁舍") == "release 東京都庁舍"


class TestIdentifiers:
    @pytest.mark.parametrize(
        ("typed", "meant"),
        [
            ("user_idd", "user_id"),
            ("acount_id", "account_id"),
            ("test_chekout_timeout", "test_checkout_timeout"),
            ("test_chekout_timeuot", "test_checkout_timeout"),
            ("why does Test_Chekout_Timeout fail?", "why does Test_Checkout_Timeout fail?"),
            ("config.rtery.maximum", "config.retry.maximum"),
            ("docs/deploymnet.md", "docs/deployment.md"),
            ("bakc-off", "back-off"),
            ("ADRR-016", "ADR-016"),
        ],
    )
    def test_the_wrong_part_is_corrected_and_the_rest_kept(self, ask: Ask, typed: str, meant: str) -> None:
        assert ask(typed) == meant

    @pytest.mark.parametrize("text", ["ADR-061", "ADR-017", "user_id_2", "idd", "ADRR-061"])
    def test_another_number_or_too_short_a_word_is_not_corrected(self, ask: Ask, text: str) -> None:
        assert ask(text) is None

    def test_a_correction_that_would_stand_nowhere_is_not_made(self, ask: Ask) -> None:
        assert ask("release_idd") is None
        assert ask('"relaese email"') is None
        assert ask("relaese email") == "release email"

    def test_a_phrase_is_corrected_within_its_quotation_marks(self, ask: Ask) -> None:
        assert ask('the "relaese branch" now') == 'the "release branch" now'


class TestDress:
    @pytest.mark.parametrize(
        ("typed", "meant"),
        [
            ("getUserNmae", "getUserName"),
            ("getsUerName", "getUserName"),
            ("getUserNme", "getUserName"),
            ("geetUserName", "getUserName"),
            ("Relaese", "Release"),
            ("Erlease", "Release"),
            ("RELAESE", "RELEASE"),
            ("PostgerSQL", "PostgreSQL"),
            ("Münhcen", "München"),
            ("«relaese»,", "«release»,"),
        ],
    )
    def test_capitals_accents_and_marks_are_kept_as_typed(self, ask: Ask, typed: str, meant: str) -> None:
        assert ask(typed) == meant

    @pytest.mark.parametrize(
        ("typed", "meant"),
        [("getusernmae", "getUserName"), ("munhcen", "München"), ("mondasy relaese", "Mondays release")],
    )
    def test_what_is_typed_without_capitals_is_suggested_as_it_is_stored(
        self, ask: Ask, typed: str, meant: str
    ) -> None:
        assert ask(typed) == meant

    def test_of_several_spellings_the_commonest_is_suggested(self, ask: Ask, memory: Memorist) -> None:
        memory.add_many(["Kubernetes it is", "KUBERNETES", "all about Kubernetes"])

        assert ask("kubernetse") == "Kubernetes"

    def test_alphabets_without_capitals_are_fine(self, ask: Ask, memory: Memorist) -> None:
        memory.add("مرحبا بالعالم")

        assert ask("مرحبا بالعلام") == "مرحبا بالعالم"

    def test_operators_are_kept_and_what_is_not_looked_for_too(self, ask: Ask) -> None:
        question = 'relaese AND (dploy OR "make shpi") NOT chekout'

        assert ask(question, "fts5") == 'release AND (deploy OR "make ship") NOT chekout'
        assert ask("content : dploy", "fts5") == "content : deploy"
        assert ask("{sauce content}: dploy OR NEAR(maek ship)", "fts5") == "{sauce content}: deploy OR NEAR(make ship)"
        assert ask("dplo* relaese*") == "dplo* release*"

    @pytest.mark.parametrize("grammar", GRAMMARS)
    def test_every_grammar_is_corrected(self, ask: Ask, grammar: str) -> None:
        assert ask("dploy relaese", grammar) == "deploy release"


class TestSpaces:
    def test_a_space_too_many(self, ask: Ask) -> None:
        assert ask("our data base") == "our database"
        assert ask("e mail box") == "email box"

    def test_a_space_too_few(self, ask: Ask) -> None:
        assert ask("how to makeship") == "how to make ship"
        assert ask("ReleaseBranch") == "Release Branch"
        assert ask("shipmake") is None

    def test_words_that_are_known_apart_are_not_joined(self, ask: Ask, memory: Memorist) -> None:
        memory.add("data at the base")

        assert ask("data base") is None


class TestLimits:
    def test_a_question_about_something_else_is_not_turned_into_one_about_what_is_there(self, ask: Ask) -> None:
        slips = ["relaese", "brnach", "exponentail", "retrise", "invocies", "databsae"]

        assert ask(" ".join(slips[:MAX_UNKNOWN_WORDS])) == "release branch exponential retries invoices"
        assert ask(" ".join(slips)) is None

    def test_a_long_text_is_no_question(self, ask: Ask) -> None:
        assert ask("relaese" + " " * MAX_QUERY_CHARACTERS) is None

    def test_a_word_of_another_namespace_is_neither_offered_nor_known(self, ask: Ask, path: Path) -> None:
        with memorist.open(path, embedder="none", namespace="neighbour") as neighbour:
            neighbour.add("the secret zebra, the relaese")

        assert ask("zebar") is None
        assert ask("relaese") == "release"

    def test_known_words_cost_no_more_than_to_see_that_they_are_known(self) -> None:
        looks: list[Sequence[Term]] = []

        def known(terms: Sequence[Term]) -> Sequence[Term]:
            looks.append(terms)
            return terms

        def similar(word: str) -> list[str]:
            raise AssertionError(f"{word} is known")

        assert suggest_query(parse_query("the release branch", "auto"), known, similar) is None
        assert len(looks) == 1
        assert Term("release") in looks[0]
        assert Term("branch") in looks[0]

    @settings(max_examples=150)
    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60))
    def test_no_text_raises(self, ask: Ask, text: str) -> None:
        for grammar in GRAMMARS:
            ask(text, grammar)
            ask(f"relaese {text}", grammar)

    @settings(max_examples=100)
    @given(st.data())
    def test_what_is_suggested_has_nothing_left_to_suggest(self, ask: Ask, data: st.DataObject) -> None:
        note = data.draw(st.sampled_from(NOTES))
        at = data.draw(st.integers(0, len(note) - 1))
        suggested = ask(note[:at] + data.draw(st.sampled_from(["", "e", "q"])) + note[at + 1 :])

        assert suggested is None or ask(suggested) is None


@pytest.mark.parametrize(
    "question",
    ["relaese branch", "how do we dpeloy the relese?", "test_chekout_timeout fails", '"make shp" branch', "ma ke ship"],
)
def test_only_doubtful_words_are_asked_for_where_they_are_known_and_the_suggestion_is_the_same(
    memory: Memorist, question: str
) -> None:
    memory.add_many(NOTES)
    store, query = memory._resources.store, parse_query(question, "auto")
    found = store.match_keywords(query, store.resolve_scope(NO_FILTER), limit=5, page=5, weights={"content": 1.0})
    asked: list[Term] = []

    def known(terms: Sequence[Term]) -> set[Term]:
        asked.extend(terms)
        return store.find_known_terms(terms)

    suggested = suggest_query(query, known, store.find_similar_words, found.unknown_words)

    assert suggested == suggest_query(query, store.find_known_terms, store.find_similar_words)
    assert not {"branch", "fails", "ship"} & {term.text for term in asked}


def test_a_word_that_was_forgotten_a_moment_ago_is_corrected(memory: Memorist) -> None:
    memory.add_many(f"note {number} about the harbour and its quota" for number in range(300))
    id = memory.add("a quotta lives here").id
    assert memory.search("quotta", mode="keyword").suggestion is None

    memory.forget(id)

    assert memory.search("quotta", mode="keyword").suggestion == "quota"
