"""The query grammar: what is typed is data, and is found as it was written."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memorist
from memorist import InvalidInput, Memorist
from memorist.records import GRAMMARS, MAX_PHRASE_WORDS
from memorist.search.query import MAX_QUERY_WORDS, MAX_TERMS, parse_query
from memorist.text.tokenizer import list_tokens
from memorist.validation import MAX_QUERY_CHARACTERS
from statements import record_statements

HOSTILE = [
    "co-founder", "what's", "a.b.c", "C++", "foo: bar", "(test", "NOT", "AND", "user AND", "src/auth", '"unbalanced',
    '""', '"-"', "+", "*", "**", "a*b", '"*', "NEAR(", "NEAR(a b, 5)", "{content} : x", "content:", "^start", "-minus",
    "col:val OR", "') --", "'; drop table memories; --", "\x00", "a\x00b", "\ud800", "half \udfff pair", "😀", "👩‍👩‍👧",
    "\u202e reversed", "部署", "🈁部", "ไทย", "x" * 10_000, "a " * 5_000, '" ' * 500, "(" * 1000, "\\", "%", "_",
    "\t\n", "ﬁ ligature", "İstanbul", "ẞ", "e\u0301", "\ufeff", "0", "5", "C", "é",
]  # fmt: skip


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:20]))
def test_no_text_raises_in_any_grammar(memory: Memorist, grammar: str, text: str) -> None:
    memory.add("The co-founder said what's in src/auth is a.b.c in C++")

    assert len(memory.search(text, grammar=grammar)) <= 1


@settings(max_examples=150)
@given(st.text(st.characters(exclude_categories=[]), max_size=60), st.sampled_from(GRAMMARS))
def test_arbitrary_text_never_raises(memory: Memorist, text: str, grammar: str) -> None:
    memory.search(text, grammar=grammar)


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("text", ["", "   ", "\t\n", "?!", '"', "***"])
def test_a_query_with_no_word_in_it_finds_nothing(memory: Memorist, grammar: str, text: str) -> None:
    memory.add("anything at all")

    assert list(memory.search(text, grammar=grammar)) == []


@pytest.mark.parametrize(
    ("identifier", "decoy"),
    [
        ("ADR-016", "ADR-017 was about 016 other things"),
        ("src/auth.py", "auth lives in src, the py one"),
        ("C++", "the vitamin C in oranges"),
        ("C#", "plain C is older"),
        ("user_id", "the id of a user"),
        ("what's", "what is this"),
        ("test_checkout_timeout", "a test at the checkout ran into a timeout"),
        ("v2.1.0-rc1", "rc1 of v2, not 1.0"),
        ("@anna", "banana"),
    ],
)
def test_identifiers_are_found_as_written(memory: Memorist, identifier: str, decoy: str) -> None:
    memory.add(decoy)
    wanted = memory.add(f"Remember {identifier} for later")

    assert memory.search(identifier, mode="keyword")[0].memory.id == wanted.id


class TestAuto:
    def test_memories_with_all_words_come_before_memories_with_some(self, memory: Memorist) -> None:
        memory.add("retries retries retries retries")
        both = memory.add("The billing service, which is long and has many other words in it, uses retries at times")
        memory.add("billing billing billing")

        hits = memory.search("billing retries", mode="keyword")

        assert hits[0].memory.id == both.id
        assert len(hits) == 3

    def test_common_words_do_not_drown_a_question(self, memory: Memorist) -> None:
        for number in range(30):
            memory.add(f"What did we do about the thing with the number {number}? We did it.")
        wanted = memory.add("Deployment happens from the release branch")

        assert memory.search("what did we do about the deployment", mode="keyword")[0].memory.id == wanted.id

    def test_words_left_out_come_back_when_the_page_is_not_full(self, memory: Memorist) -> None:
        memory.add("Deployment happens on Friday")
        memory.add("This is what we are")

        assert len(memory.search("what is deployment", mode="keyword")) == 2

    def test_a_question_of_nothing_but_common_words_still_finds_them(self, memory: Memorist) -> None:
        wanted = memory.add("To be or not to be")
        memory.add("Something else entirely")

        assert memory.search("to be or not", mode="keyword")[0].memory.id == wanted.id

    def test_a_phrase_in_quotes_is_found_as_a_phrase(self, memory: Memorist) -> None:
        wanted = memory.add("We saw a red fox today")
        memory.add("A fox, red with anger")

        assert memory.search('"red fox"', mode="keyword")[0].memory.id == wanted.id
        assert len(memory.search('"red fox"', grammar="and", mode="keyword")) == 2

    def test_an_unbalanced_quote_is_only_punctuation(self, memory: Memorist) -> None:
        wanted = memory.add("We saw a red fox today")

        assert memory.search('"red fox', mode="keyword")[0].memory.id == wanted.id

    @pytest.mark.parametrize("beginning", ["auth*", "authenti*", "authenticat*", "authentication*"])
    def test_a_beginning_with_a_star_finds_every_longer_word(self, memory: Memorist, beginning: str) -> None:
        wanted = memory.add("The authentication module")

        assert [hit.memory.id for hit in memory.search(beginning, mode="keyword")] == [wanted.id]

    def test_beginnings_and_stemmed_words_work_together(self, memory: Memorist) -> None:
        wanted = memory.add("The deployment runs every night")
        memory.add("The deployment is over")

        assert memory.search("deploy* running", mode="keyword")[0].memory.id == wanted.id

    def test_operators_are_only_words(self, memory: Memorist) -> None:
        memory.add("deployment of staging")

        assert len(memory.search("deployment NOT staging", mode="keyword")) == 1

    def test_a_part_of_a_word_is_found_when_no_word_is_it(self, memory: Memorist) -> None:
        wanted = memory.add("Call selectUserById before anything else")

        assert [hit.memory.id for hit in memory.search("UserBy", mode="keyword")] == [wanted.id]

    def test_stems_and_accents_do_not_matter(self, memory: Memorist) -> None:
        wanted = memory.add("Müller deployed the crème brûlée service")

        for query in ("muller", "deploying", "creme", "Brulee"):
            assert [hit.memory.id for hit in memory.search(query, mode="keyword")] == [wanted.id]


class TestUnspacedScripts:
    @pytest.mark.parametrize("query", ["部署", "流程", "周五部署", "署", "部署流程 周五"])
    def test_words_inside_a_run_of_chinese_are_found(self, memory: Memorist, query: str) -> None:
        wanted = memory.add("我们在周五部署流程")
        memory.add("完全不同的内容")

        assert memory.search(query, mode="keyword")[0].memory.id == wanted.id

    def test_a_question_without_spaces_finds_what_shares_words_with_it(self, memory: Memorist) -> None:
        memory.add("完全不同的内容")
        wanted = memory.add("我们在周五部署流程")

        assert memory.search("什么时候部署流程", mode="keyword")[0].memory.id == wanted.id

    def test_mixed_scripts_are_found_by_either(self, memory: Memorist) -> None:
        wanted = memory.add("使用Python部署サーバー")

        for query in ("python", "部署", "サーバー", "サー"):
            assert [hit.memory.id for hit in memory.search(query, mode="keyword")] == [wanted.id]

    def test_the_match_is_marked(self, memory: Memorist) -> None:
        memory.add("我们在周五部署流程")

        hit = memory.search("部署", mode="keyword")[0]

        assert hit.snippet == "我们在周五<mark>部署</mark>流程"
        assert hit.highlights == ((5, 7),)


class TestOtherGrammars:
    def test_and_needs_every_word(self, memory: Memorist) -> None:
        memory.add("red fox")
        memory.add("red dog")

        assert len(memory.search("red fox", grammar="and", mode="keyword")) == 1

    def test_or_takes_any_word(self, memory: Memorist) -> None:
        memory.add("red fox")
        memory.add("red dog")

        assert len(memory.search("fox dog", grammar="or", mode="keyword")) == 2

    def test_or_prefix_takes_any_beginning_and_drops_single_letters(self, memory: Memorist) -> None:
        memory.add("authentication")
        memory.add("xylophone")

        assert len(memory.search("auth x", grammar="or_prefix", mode="keyword")) == 1
        assert len(memory.search("x", grammar="or_prefix", mode="keyword")) == 1

    def test_fts5_passes_operators_through(self, memory: Memorist) -> None:
        memory.add("deployment of staging")
        memory.add("deployment of production")

        assert len(memory.search("deployment NOT staging", grammar="fts5", mode="keyword")) == 1
        assert len(memory.search("staging OR production", grammar="fts5", mode="keyword")) == 2
        assert len(memory.search('"deployment of" AND prod*', grammar="fts5", mode="keyword")) == 1

    def test_fts5_takes_what_it_cannot_read_as_plain_words(self, memory: Memorist) -> None:
        wanted = memory.add("see ADR-016: the co-founder's note")

        for query in ("ADR-016:", "co-founder", "(note", 'note "'):
            assert [hit.memory.id for hit in memory.search(query, grammar="fts5", mode="keyword")] == [wanted.id]


def test_a_very_long_query_is_cut_to_a_bounded_number_of_terms() -> None:
    assert len(parse_query(" ".join(f"word{number}" for number in range(100_000)), "auto").terms) == MAX_TERMS


def test_a_word_said_twice_is_one_term() -> None:
    assert [term.text for term in parse_query("fox fox fox", "auto").terms] == ["fox"]


ENDLESS = {
    "an identifier of many dots": "a." * 3000,
    "a quoted page": '"' + "all work and no play " * 200 + '"',
    "many long phrases": " ".join('"' + f"a{number} b c d " * 10 + '"' for number in range(80)),
    "many long identifiers": " ".join(".".join(f"a{number}b{part}" for part in range(20)) for number in range(50)),
    "a page without a space": "部署用的端口" * 500,
    "a quoted page without a space": '"' + "部署用的端口" * 500 + '"',
    "the index's own syntax": " OR ".join(f"word{number}" for number in range(900)),
    "a phrase in the index's own syntax": '"' + "a " * 1500 + '" AND b',
}


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
def test_the_index_is_never_asked_for_more_words_than_the_limit(text: str, grammar: str) -> None:
    with record_statements() as statements, memorist.open(":memory:", embedder="none") as memory:
        memory.add("All work and no play makes a.a.a.a dull. 部署用的端口")
        del statements[:]

        memory.search(text, grammar=grammar, facets=["kind"], project="other")

    expressions = {
        value
        for sql, values in statements
        if " match " in sql and isinstance(values, dict)
        for name, value in values.items()
        if isinstance(value, str)
        and name.startswith(("atom", "wanted", "all", "pruning", "stopwords", "found", "missed"))
    }
    words = [len(list_tokens(value)) for value in expressions if value != "[]"]
    phrases = [len(list_tokens(phrase)) for value in expressions for phrase in value.split('"')[1::2]]
    assert words
    assert max(words) <= 2 * MAX_QUERY_WORDS
    assert max(phrases, default=0) <= MAX_TERMS
    assert grammar == "fts5" or max(phrases) <= MAX_PHRASE_WORDS


def test_a_long_phrase_is_found_by_its_first_words(memory: Memorist) -> None:
    page = " ".join(f"word{number}" for number in range(200))
    wanted = memory.add(f"Before it. {page}. After it.")
    memory.add(" ".join(reversed(page.split())))

    assert next(hit.memory.id for hit in memory.search(f'"{page}"', grammar="fts5")) == wanted.id
    assert next(hit.memory.id for hit in memory.search(f'"{page}"')) == wanted.id


@pytest.mark.parametrize(
    "ask",
    [
        lambda memory, text: memory.search(text),
        lambda memory, text: memory.documents.search(text),
        lambda memory, text: memory.suggest(text),
        lambda memory, text: memory.facets(text),
        lambda memory, text: memory.timeline(query=text),
    ],
    ids=["search", "search_documents", "suggest", "facets", "timeline"],
)
def test_a_query_of_more_characters_than_a_question_has_is_refused(memory: Memorist, ask: Any) -> None:
    memory.add("a note")
    ask(memory, "a " * (MAX_QUERY_CHARACTERS // 2))

    with pytest.raises(InvalidInput, match="the query has 10,001 characters; at most 10,000"):
        ask(memory, "a" * (MAX_QUERY_CHARACTERS + 1))


def test_a_message_with_a_pasted_file_still_has_a_context(memory: Memorist) -> None:
    memory.add("The port of the billing service is 8443")

    assert "8443" in memory.context("the port of the billing service?\n" + "pasted " * 50_000)
