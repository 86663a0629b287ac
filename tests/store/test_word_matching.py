"""How much of a question a text holds."""

import pytest

from memorist.store.word_matching import QueryToken, QueryWords, measure_coverage

FILLER = "nothing of that kind stands here at all and so it goes on and on "


def asked(*words: str) -> list[QueryWords]:
    return [QueryWords.from_atom(QueryToken(word), 1.0, ()) for word in words]


def test_it_is_the_share_of_the_words() -> None:
    assert measure_coverage(asked("ship", "code", "friday", "noon"), "we ship the code") == 0.5


def test_of_a_long_text_it_is_what_stands_together() -> None:
    apart = f"ship {FILLER * 5} code"
    together = f"{FILLER * 5} ship the code {FILLER * 5}"

    assert measure_coverage(asked("ship", "code"), apart) == 0.5
    assert measure_coverage(asked("ship", "code"), together) == 1.0


def test_a_word_that_comes_again_is_counted_once_and_leaves_when_its_last_place_does() -> None:
    text = f"ship ship ship {FILLER * 5} code ship {FILLER * 5} friday"

    assert measure_coverage(asked("ship", "code", "friday"), text) == pytest.approx(2 / 3)


def test_rare_words_count_for_more() -> None:
    rare, common = QueryWords.from_atom(QueryToken("quark"), 3.0, ()), QueryWords.from_atom(QueryToken("code"), 1.0, ())

    assert measure_coverage([rare, common], f"quark {FILLER * 5} code") == 0.75


def test_what_is_no_word_of_its_own_stands_everywhere() -> None:
    beginning = QueryWords.from_atom(QueryToken("depl", prefix=True), 1.0, ())

    assert measure_coverage([beginning, *asked("code")], f"deployed {FILLER * 5} code") == 1.0
