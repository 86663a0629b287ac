"""Near duplicates: exactly those that comparing every text with every other finds, in a fraction of the time."""

import time
from itertools import combinations
from string import ascii_lowercase

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from complexity import grows_at_most
from memorist import InvalidInput
from memorist.search import duplicates
from memorist.search.duplicates import find_near_duplicates, jaccard

Texts = list[tuple[int, frozenset[str]]]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def numbered(*texts: str) -> Texts:
    return list(enumerate(map(words, texts)))


def all_pairs(texts: Texts, threshold: float) -> list[tuple[int, ...]]:
    """The specification: every text compared with every other."""
    group = {key: {key} for key, _ in texts}
    for (a, some), (b, others) in combinations(texts, 2):
        if jaccard(some, others) >= threshold and group[a] is not group[b]:
            group[a] |= group[b]
            for key in group[a]:
                group[key] = group[a]
    return sorted({tuple(sorted(keys)) for keys in group.values() if len(keys) > 1})


# Few words, so that texts resemble each other; some are rare and some in almost every text.
TEXT = st.frozensets(st.sampled_from("aaaa bb c d e f g h i j k l m n o p".split() + [f"w{n}" for n in range(9)]))
VARIANT = st.tuples(st.integers(0, 3), st.frozensets(st.integers(0, 24), max_size=4)).map(
    lambda drawn: frozenset(f"t{drawn[0]} {n}" for n in range(20)) ^ frozenset(f"t{drawn[0]} {n}" for n in drawn[1])
)
TEXTS = st.lists(TEXT | VARIANT, max_size=40).map(lambda texts: list(enumerate(texts)))
THRESHOLD = st.sampled_from([0.05, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 1.0]) | st.floats(0.01, 1.0)


@settings(max_examples=300)
@given(TEXTS, THRESHOLD)
@example(list(enumerate(map(frozenset, [ascii_lowercase[:14], ascii_lowercase[:25]]))), 0.56)  # 0.56 * 25 > 14, it says
def test_the_groups_are_those_of_comparing_all_pairs(texts: Texts, threshold: float) -> None:
    assert find_near_duplicates(texts, threshold) == all_pairs(texts, threshold)


@settings(max_examples=200)
@given(TEXTS, THRESHOLD)
def test_skipping_large_groups_loses_none(texts: Texts, threshold: float) -> None:
    kept, duplicates.LARGE_GROUP = duplicates.LARGE_GROUP, 2
    try:
        assert find_near_duplicates(texts, threshold) == all_pairs(texts, threshold)
    finally:
        duplicates.LARGE_GROUP = kept


def test_resemblance_is_the_share_of_words_in_common() -> None:
    assert jaccard(words("a b c d"), words("b c d e")) == 3 / 5
    assert jaccard(words("a b"), words("b a")) == 1.0
    assert jaccard(words("a"), words("b")) == 0.0


def test_texts_without_words_resemble_nothing() -> None:
    assert jaccard(frozenset(), frozenset()) == 0.0
    assert find_near_duplicates(numbered("", "", "a", "")) == []


def test_a_text_can_bring_two_together_that_are_not_alike() -> None:
    texts = numbered("a b c d e f g h i", "a b c d e f g h i j", "b c d e f g h i j k", "c d e f g h i j k")

    assert jaccard(texts[0][1], texts[3][1]) < 0.8
    assert find_near_duplicates(texts) == [(0, 1, 2, 3)]


def test_groups_come_by_their_first_key_and_the_keys_in_order() -> None:
    texts = list(zip([9, 3, 7, 1, 5], map(words, ["x y", "p q", "p q", "x y", "lonely"]), strict=True))

    assert find_near_duplicates(texts) == [(1, 9), (3, 7)]
    assert find_near_duplicates(reversed(texts)) == [(1, 9), (3, 7)]


def test_nothing_has_no_groups() -> None:
    assert find_near_duplicates([]) == []


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.01, float("nan")])
def test_a_threshold_that_means_nothing_is_refused(threshold: float) -> None:
    with pytest.raises(InvalidInput, match="above 0 and is at most 1"):
        find_near_duplicates(numbered("a", "b"), threshold)


def test_ten_thousand_texts_that_are_all_alike_are_not_compared_with_each_other() -> None:
    alike = [(number, frozenset([f"number {number}", *map(str, range(19))])) for number in range(10_000)]
    few = alike[:1000]

    def seconds(texts: Texts) -> float:
        started = time.process_time()
        assert find_near_duplicates(texts) == [tuple(range(len(texts)))]
        return time.process_time() - started

    # Ten times as many: all pairs would take a hundred times as long.
    assert grows_at_most(40, seconds, few, alike)
