"""Words a few slips apart, against the textbook's definition."""

from hypothesis import given
from hypothesis import strategies as st

from memorist.text.spelling import Lexicon, edit_distances, max_typos

LETTERS = st.text("abcé1", min_size=1, max_size=9)


def slips(a: str, b: str) -> int:
    """Optimal string alignment, cell by cell."""
    table = {(-1, column): column + 1 for column in range(-1, len(b))} | {(row, -1): row + 1 for row in range(len(a))}
    for row, here in enumerate(a):
        for column, there in enumerate(b):
            table[row, column] = min(
                table[row - 1, column] + 1,
                table[row, column - 1] + 1,
                table[row - 1, column - 1] + (here != there),
            )
            if row and column and (here, a[row - 1]) == (b[column - 1], there):
                table[row, column] = min(table[row, column], table[row - 2, column - 2] + 1)
    return table[len(a) - 1, len(b) - 1]


def digits(word: str) -> list[str]:
    return [character for character in word if character.isdigit()]


@given(LETTERS, st.lists(LETTERS))
def test_distances_are_those_of_the_definition(word: str, others: list[str]) -> None:
    assert edit_distances(word, others) == [slips(word, other) for other in others]


@given(LETTERS, st.lists(LETTERS, unique=True), st.integers(1, 2))
def test_no_word_within_reach_is_missed(word: str, others: list[str], most: int) -> None:
    near = {other: slips(word, other) for other in others if digits(other) == digits(word)}

    assert Lexicon(others).find_near(word, most) == {
        other: number for other, number in near.items() if 0 < number <= most
    }


def test_a_swap_of_neighbours_is_one_slip() -> None:
    assert edit_distances("recieve", ["receive"]) == [1]
    assert edit_distances("acb", ["abc", "cba"]) == [1, 2]


def test_a_word_is_not_near_itself() -> None:
    assert Lexicon(["checkout"]).find_near("checkout", 2) == {}


def test_long_words_may_have_two_slips() -> None:
    assert [max_typos(word) for word in ("id", "deploys", "deployed")] == [1, 1, 2]
