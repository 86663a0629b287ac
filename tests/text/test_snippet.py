"""Snippets: as many words as asked for, around the matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.search.query import parse_query
from memorist.text import snippet
from memorist.text.snippet import ELLIPSIS, HighlightTerms, best_passage, strip_marks


def passage(content: str, query: str, width: int, nearest: tuple[int, int] | None = None) -> str:
    return best_passage(content, HighlightTerms.of(parse_query(query, "auto")), width, nearest).text


def words(shown: str) -> list[str]:
    return strip_marks(shown).strip(ELLIPSIS).split()


SHORT, LONG = "in a day or so we go to the sea ", "extraordinarily international representatives "


@pytest.mark.parametrize("width", [1, 5, 32, 64, 400])
@pytest.mark.parametrize("around", [SHORT, LONG], ids=["short words", "long words"])
@pytest.mark.parametrize("place", [0, 3, 150, 299])
def test_it_has_as_many_words_as_asked_for_wherever_the_match_is(width: int, around: str, place: int) -> None:
    text = (around * 300).split()[:600]
    text[place * 2] = "walrus"

    shown = passage(" ".join(text), "walrus", width)

    assert "<mark>walrus</mark>" in shown
    assert len(words(shown)) == width


def test_a_text_of_fewer_words_is_shown_whole() -> None:
    assert passage("  a walrus, at last!\n", "walrus", 32) == "a <mark>walrus</mark>, at last!"


def test_words_before_the_match_are_shown_and_matches_that_are_near_come_together() -> None:
    text = "walrus " + "filler " * 50 + "the walrus met one seal" + " filler" * 50

    shown = passage(text, "walrus seal", 8)

    assert words(shown) == ["filler", "the", "walrus", "met", "one", "seal", "filler", "filler"]


@pytest.mark.parametrize("nearest", [(0, 40), (1500, 1540), (2950, 3000)])
def test_what_is_found_by_meaning_alone_has_as_many_words_too(nearest: tuple[int, int]) -> None:
    content = "in a day or so we go to sea. " * 104

    shown = passage(content, "walrus", 32, nearest)

    assert len(words(shown)) == 32
    assert words(shown)[0] in content[nearest[0] : nearest[1] + 1].split() or nearest[0] > 2900


def test_four_characters_of_a_script_without_spaces_count_as_a_word() -> None:
    shown = passage("部署" * 400 + "海象" + "部署" * 400, "海象", 10)

    assert "<mark>海象</mark>" in shown
    assert len(strip_marks(shown).strip(ELLIPSIS)) == 40


@pytest.mark.parametrize("filler", ["x" * 5000, " " * 5000, "-" * 5000, "\n" * 5000])
def test_a_snippet_stays_short_whatever_is_in_the_text(filler: str) -> None:
    shown = passage(f"{filler} a walrus {filler}", "walrus", 8)

    assert "<mark>walrus</mark>" in shown
    assert len(shown) < 8 * 45


@given(
    st.lists(st.sampled_from(["a", "bc" * 10, " ", "\n", " " * 18, " " * 20, "語", "é"]), max_size=40).map("".join),
    st.integers(1, 12),
)
def test_a_text_that_is_taken_for_short_has_no_more_words_than_a_snippet(text: str, width: int) -> None:
    if snippet._is_short(text, width):
        assert len(snippet._SNIPPET_WORD.findall(text)) <= width
