"""Places ranked as documents: further places lend their best one a share."""

import pytest

from candidates import Found, Ranked, apply, keys
from memorist.search.rerank import group_by_document


def place(key: int, score: float) -> Ranked:
    return Ranked(Found(key), score, {"keyword": score / 2, "vector": score / 2})


def test_a_page_with_several_good_places_comes_before_one_with_a_single_slightly_better_place() -> None:
    ranked = [place(1, 0.5), place(2, 0.48), place(3, 0.47), place(4, 0.2)]

    assert keys(apply(group_by_document, ranked, {1: "a", 2: "b", 3: "b", 4: "a"})) == [2, 1]


def test_each_further_place_counts_less_and_the_trace_adds_up() -> None:
    (whole,) = apply(
        group_by_document, [place(1, 0.5), place(2, 0.4), place(3, 0.3)], dict.fromkeys((1, 2, 3), "a"), 0.5
    )

    assert whole.key == 1
    assert whole.score == pytest.approx(1 - (1 - 0.5) * (1 - 0.5 * 0.4) * (1 - 0.25 * 0.3))
    assert sum(whole.trace.values()) == pytest.approx(whole.score)


def test_no_score_leaves_the_range_from_0_to_1() -> None:
    (whole,) = apply(group_by_document, [place(number, 1.0) for number in range(100)], dict.fromkeys(range(100), "a"))

    assert whole.score == pytest.approx(1.0)


def test_a_document_of_one_place_keeps_its_score() -> None:
    assert apply(group_by_document, [place(1, 0.3)], {1: "a"}) == [place(1, 0.3)]


def test_without_a_share_only_the_best_place_counts_and_scores_stay_as_they_are() -> None:
    ranked = [place(1, 0.5), place(2, 0.45), place(3, 0.44)]

    assert apply(group_by_document, ranked, {2: "a", 3: "a"}, 0.0) == ranked[:2]


def test_what_is_in_no_document_stays() -> None:
    assert keys(apply(group_by_document, [place(1, 0.5), place(2, 0.4)], {}, 0.0)) == [1, 2]
