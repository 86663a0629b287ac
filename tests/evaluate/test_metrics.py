"""Measures of a ranking: worked examples, values of other tools, and properties of any ranking."""

import json
from math import log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.evaluate.metrics import MEASURES, hit, measure_ranking, ndcg, recall, reciprocal_rank

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "measures.json").read_text("utf-8"))

ids = st.sampled_from([f"d{number}" for number in range(20)])
rankings = st.lists(ids, unique=True, max_size=15)
judgements = st.dictionaries(ids, st.integers(-1, 4), max_size=10)


class TestByHand:
    def test_the_only_answer_in_the_first_place_is_perfect(self) -> None:
        assert measure_ranking(["a", "b"], {"a": 1}) == dict.fromkeys(MEASURES, 1.0)

    def test_in_the_third_place_it_is_worth_half(self) -> None:
        measures = measure_ranking(["x", "y", "a"], {"a": 1})

        assert measures["ndcg@10"] == pytest.approx(0.5)  # 1 / log2(4)
        assert measures["mrr@10"] == pytest.approx(1 / 3)
        assert (measures["recall@5"], measures["hit@5"]) == (1.0, 1.0)

    def test_gains_are_the_grades_themselves(self) -> None:
        worse_first = (1 + 3 / log2(3)) / (3 + 1 / log2(3))

        assert ndcg(["low", "high"], {"low": 1, "high": 3}, 10) == pytest.approx(worse_first)

    def test_recall_is_the_share_of_all_that_is_relevant(self) -> None:
        judged = dict.fromkeys("abcd", 1)

        assert recall(["a", "x", "b", "y", "z", "c"], judged, 5) == 0.5
        assert recall(["a", "x", "b", "y", "z", "c"], judged, 10) == 0.75

    def test_the_best_ranking_is_no_longer_than_the_places_counted(self) -> None:
        judged = {f"d{number}": 1 for number in range(30)}

        assert ndcg([f"d{number}" for number in range(10)], judged, 10) == pytest.approx(1.0)

    def test_what_comes_after_the_last_place_does_not_count(self) -> None:
        ranking = [*"abcdefghij", "answer"]

        assert measure_ranking(ranking, {"answer": 1}) == dict.fromkeys(MEASURES, 0.0)
        assert hit([*"abcde", "answer"], {"answer": 1}, 5) == 0.0

    def test_what_was_judged_to_be_irrelevant_counts_as_little_as_what_was_not_judged(self) -> None:
        assert measure_ranking(["bad", "none"], {"bad": 0, "none": -1, "a": 1}) == dict.fromkeys(MEASURES, 0.0)
        assert reciprocal_rank(["bad", "a"], {"bad": 0, "a": 1}, 10) == 0.5

    def test_nothing_found_and_nothing_judged_are_zero(self) -> None:
        assert measure_ranking([], {"a": 1}) == measure_ranking(["a"], {}) == dict.fromkeys(MEASURES, 0.0)


@pytest.mark.parametrize("case", REFERENCE["cases"])
def test_the_values_are_those_of_ir_measures_and_pytrec_eval(case: dict[str, object]) -> None:
    ranking, judged = case["ranking"], case["judged"]

    assert list(measure_ranking(ranking, judged).values()) == pytest.approx(case["figures"])  # type: ignore[arg-type]


@given(rankings, judgements)
def test_every_measure_is_between_nothing_and_all(ranking: list[str], judged: dict[str, int]) -> None:
    assert all(0.0 <= figure <= 1.0 + 1e-9 for figure in measure_ranking(ranking, judged).values())


@given(rankings, judgements, st.data())
def test_a_relevant_one_that_moves_up_never_lowers_a_measure(
    ranking: list[str], judged: dict[str, int], data: st.DataObject
) -> None:
    better = [place for place in range(1, len(ranking)) if judged.get(ranking[place], 0) > 0]
    above = [place for place in better if judged.get(ranking[place - 1], 0) <= 0]
    if not above:
        return
    place = data.draw(st.sampled_from(above))
    moved = ranking[:]
    moved[place - 1], moved[place] = moved[place], moved[place - 1]

    before, after = measure_ranking(ranking, judged), measure_ranking(moved, judged)

    assert all(after[name] >= before[name] - 1e-9 for name in MEASURES)


@given(judgements)
def test_the_ranking_by_grade_is_perfect(judged: dict[str, int]) -> None:
    by_grade = sorted(judged, key=lambda id: -judged[id])
    expected = 1.0 if any(grade > 0 for grade in judged.values()) else 0.0

    assert ndcg(by_grade, judged, 10) == pytest.approx(expected)
