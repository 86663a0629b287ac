"""Evaluation runs: results of all systems, calibration, comparison, the HTML page and saved runs."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sets import harbours

from conftest import HashingEmbedder
from memorist import InvalidInput, NotFound
from memorist.evaluate import report
from memorist.evaluate.dataset import Dataset, Question, load_dataset
from memorist.evaluate.evaluation import (
    QuestionResult,
    RetrievalResult,
    SearchConfig,
    evaluate_dataset,
    make_unanswerable_questions,
    measure_calibration,
    parse_configs,
    run_system,
)
from memorist.evaluate.html_report import render_page
from memorist.evaluate.indexing import IndexedDataset, index_dataset
from memorist.evaluate.metrics import MEASURES
from memorist.evaluate.report import (
    build_run,
    choose_system,
    compare_runs,
    drop_answers,
    format_comparisons,
    format_run,
)

JsonObject = dict[str, Any]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return load_dataset(harbours(tmp_path / "harbours"))


@pytest.fixture
def indexed(dataset: Dataset, tmp_path: Path) -> Iterator[IndexedDataset]:
    indexed = index_dataset(dataset, HashingEmbedder(), tmp_path)
    with closing(indexed.memory):
        yield indexed


def measure(dataset: Dataset, indexed: IndexedDataset, *specs: str, relevance: bool = False) -> JsonObject:
    chosen: list[SearchConfig] = parse_configs(["hybrid"], specs or ["balanced"], {})
    result = evaluate_dataset(dataset, chosen, indexed.memory, indexed, relevance=relevance)
    return build_run([result], version="0", embedder="hashing-64", seed=0)


def systems(run: JsonObject) -> dict[str, JsonObject]:
    return {system["name"]: system for system in run["sets"][0]["ways"]}


class Parrot:
    """A system that gives prepared answers."""

    name = "parrot"

    def __init__(self, *answers: RetrievalResult) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def retrieve(self, question: Question) -> RetrievalResult:
        self.asked.append(question.id)
        return self._answers[int(question.id) % len(self._answers)]


def question(number: int, **fields: Any) -> Question:
    return Question(str(number), f"question {number}", {"a": 1}, **fields)


class TestRunner:
    def test_every_question_is_asked_in_order_after_a_first_one_that_is_not_timed(self) -> None:
        parrot = Parrot(RetrievalResult(["a"]), RetrievalResult(["b", "a"]))
        result = run_system(parrot, [question(0), question(1)])

        assert parrot.asked == ["0", "0", "1"]
        assert [answer.measures["mrr@10"] for answer in result.answers] == [1.0, 0.5]
        assert all(answer.ms >= 0 for answer in result.answers)

    def test_a_reason_for_degraded_answers_is_given_once(self) -> None:
        result = run_system(Parrot(RetrievalResult([], degraded="no model")), [question(0), question(1)])

        assert result.degraded == ("no model",)


class TestReport:
    def test_grep_and_both_legs_are_measured_with_what_was_chosen(
        self, dataset: Dataset, indexed: IndexedDataset
    ) -> None:
        run = measure(dataset, indexed)

        assert list(systems(run)) == ["grep", "balanced keyword", "balanced semantic", "balanced"]
        assert run["sets"][0]["chosen"] == ["balanced"]

    def test_a_question_sees_its_own_scope_only(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        for system in systems(measure(dataset, indexed)).values():
            for answer in system["answers"]:
                assert {id.partition("/")[0] for id in answer["found"]} <= {answer["scope"]}
                assert answer["hit@5"] == 1.0

    def test_means_are_those_of_the_answers_with_an_interval_around_them(
        self, dataset: Dataset, indexed: IndexedDataset
    ) -> None:
        for system in systems(measure(dataset, indexed)).values():
            for name in MEASURES:
                estimate = system["measures"][name]
                assert estimate["mean"] == pytest.approx(sum(answer[name] for answer in system["answers"]) / 4)
                assert estimate["low"] <= estimate["mean"] <= estimate["high"]

    def test_categories_and_what_was_left_out_are_counted(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        run = measure(dataset, indexed)
        (one,) = run["sets"]

        assert (one["documents"], one["questions"], one["left_out"]) == (6, 4, 1)
        assert {name: about["questions"] for name, about in systems(run)["balanced"]["categories"].items()} == {
            "what": 2,
            "when": 2,
        }

    def test_the_same_run_again_has_the_same_measures(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        first, second = (drop_answers(measure(dataset, indexed)) for _ in range(2))
        for one in (first, second):
            for system in one["sets"][0]["ways"]:
                assert system.pop("latency_ms")["p50"] >= 0

        assert first == second

    def test_the_table_has_a_line_for_each_system_and_marks_the_chosen(
        self, dataset: Dataset, indexed: IndexedDataset
    ) -> None:
        lines = format_run(measure(dataset, indexed))

        assert lines[0] == "harbours: 6 documents, 4 questions (1 more without a judged answer left out)"
        assert [line[:2] for line in lines[2:6]] == ["  ", "  ", "  ", "* "]
        assert "  what: 2 questions" in lines

    def test_single_answers_are_dropped(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        (one,) = drop_answers(measure(dataset, indexed))["sets"]

        assert "texts" not in one
        assert all("answers" not in system for system in one["ways"])


class TestCalibration:
    def test_the_same_questions_in_another_scope_have_no_answer(self, dataset: Dataset) -> None:
        elsewhere = make_unanswerable_questions(dataset)

        assert [one.text for one in elsewhere] == [one.text for one in dataset.questions]
        assert all(one.scope != own.scope for one, own in zip(elsewhere, dataset.questions, strict=True))
        assert all(not one.judgements for one in elsewhere)

    def test_without_scopes_they_are_those_the_set_has_no_answer_to(self, dataset: Dataset) -> None:
        unscoped = Dataset("one", (), (question(1),), (question(2),))

        assert make_unanswerable_questions(unscoped) == (question(2),)

    def test_perfect_and_useless_relevance(self) -> None:
        def answers(*relevances: float) -> list[QuestionResult]:
            return [QuestionResult(question(0), (), {}, 0.0, relevance) for relevance in relevances]

        told_apart = measure_calibration(answers(0.9, 0.8), answers(0.1, 0.2))
        no_better_than_chance = measure_calibration(answers(0.9, 0.3), answers(0.9, 0.3))

        assert (told_apart.auc, told_apart.false_answers, told_apart.missed) == (1.0, 0.0, 0.0)
        chance = no_better_than_chance
        assert (chance.auc, chance.false_answers, chance.missed) == (0.5, 0.5, 0.5)

    def test_it_is_measured_for_the_chosen_systems(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        run = measure(dataset, indexed, relevance=True)

        assert systems(run)["balanced"]["certainty"]["without_answer"] == 4
        assert systems(run)["grep"]["certainty"] is None
        assert any("AUC" in line for line in format_run(run))


def altered(run: JsonObject, found: dict[str, list[str]], name: str = "balanced") -> JsonObject:
    """Return the run with other answers to some questions."""
    from memorist.evaluate.metrics import measure_ranking

    copy: JsonObject = json.loads(json.dumps(run))
    for answer in systems(copy)[name]["answers"]:
        if answer["id"] in found:
            answer["found"] = found[answer["id"]]
            answer |= measure_ranking(answer["found"], answer["relevant"])
    return copy


class TestComparing:
    def test_what_got_worse_is_shown_with_what_was_missed(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        run = measure(dataset, indexed)
        worse = altered(run, {"north/when": ["north/1"]})

        (change,) = compare_runs(run, "balanced", worse, "balanced", seed=0)

        assert [one["id"] for one in change["worse"]] == ["north/when"]
        assert change["better"] == []
        assert change["worse"][0]["missed_after"] == ["north/0"]
        assert change["measures"]["ndcg@10"]["difference"] == pytest.approx(-0.25)
        shown = "\n".join(format_comparisons([change], max_questions=5))
        assert "4 questions: 0 better, 1 worse, 3 unchanged" in shown
        assert "relevant, 1 -> missed: The ferry leaves at nine" in shown
        assert "instead, at 1: Fish is sold on the quay" in shown
        assert "not significant" in shown

    def test_a_run_of_an_earlier_version_says_less_of_its_relevance(
        self, dataset: Dataset, indexed: IndexedDataset
    ) -> None:
        run = measure(dataset, indexed, relevance=True)
        earlier: JsonObject = json.loads(json.dumps(run))
        for name in ("missed_first", "categories"):
            del systems(earlier)["balanced"]["certainty"][name]

        (change,) = compare_runs(earlier, "balanced", run, "balanced", seed=0)

        assert ["found first" in note for note in change["notes"] if "AUC" in note][:2] == [False, True]

    def test_the_other_way_round_it_got_better(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        run = measure(dataset, indexed)

        (change,) = compare_runs(altered(run, {"north/when": []}), "balanced", run, "balanced", seed=0)

        assert [one["id"] for one in change["better"]] == ["north/when"]
        assert "better 0.00 -> 1.00: When does the ferry leave? (when)" in "\n".join(
            format_comparisons([change], max_questions=1)
        )

    def test_two_systems_of_one_run(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        run = measure(dataset, indexed, "balanced", "rank")

        (change,) = compare_runs(run, "balanced", run, "rank", seed=0)

        assert (change["before"], change["after"], change["questions"]) == ("balanced", "rank", 4)

    def test_only_questions_that_both_have_are_compared(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        run = measure(dataset, indexed)
        fewer = measure(dataset.select_questions(["south"], None, 0), indexed)

        (change,) = compare_runs(run, "balanced", fewer, "balanced", seed=0)

        assert change["questions"] == 2

    def test_what_cannot_be_compared_is_said(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        run = measure(dataset, indexed, "balanced", "rank")
        other = {**run, "sets": [{**run["sets"][0], "name": "elsewhere"}]}

        with pytest.raises(NotFound, match="share no set"):
            compare_runs(run, "balanced", other, "balanced", seed=0)
        with pytest.raises(NotFound, match="'notes' was not measured on harbours"):
            compare_runs(run, "balanced", run, "notes", seed=0)
        with pytest.raises(InvalidInput, match="balanced, rank"):
            choose_system(run)
        assert choose_system(run, "rank") == "rank"


class TestPage:
    def test_it_needs_nothing_from_anywhere(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        html = render_page(measure(dataset, indexed, relevance=True))

        assert html.startswith("<!doctype html>")
        assert html.count("<svg") == 4  # two, and one for each category
        assert not re.search(r"<(script|link|img|iframe)|https?://|url\(|@import", html)

    def test_the_measures_are_on_it(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        run = measure(dataset, indexed)
        html = render_page(run, compare_runs(run, "balanced keyword", run, "balanced", seed=0))

        for system in run["sets"][0]["ways"]:
            assert f"<td>{system['name']}</td><td>{system['measures']['ndcg@10']['mean']:.4f}</td>" in html
        assert "balanced keyword → balanced" in html

    def test_text_of_a_set_stays_text(self, dataset: Dataset, indexed: IndexedDataset) -> None:
        run = measure(dataset, indexed)
        worse = altered(run, {"north/when": []})
        for answer in systems(run)["balanced"]["answers"]:
            answer["query"] = "<script>alert(1)</script>"
        run["sets"][0]["name"] = worse["sets"][0]["name"] = "<b>"

        html = render_page(run, compare_runs(run, "balanced", worse, "balanced", seed=0))

        assert "<script" not in html
        assert "<b>" not in html
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


class TestSavedRuns:
    def test_a_run_is_saved_by_name_or_as_a_file(
        self, dataset: Dataset, indexed: IndexedDataset, tmp_path: Path
    ) -> None:
        run = measure(dataset, indexed)

        for name in ("before", str(tmp_path / "somewhere" / "run.json")):
            assert not report.is_saved_run(name, tmp_path)
            assert report.save_run(run, name, tmp_path).is_file()
            assert report.load_run(name, tmp_path) == json.loads(json.dumps(run))

    @pytest.mark.parametrize("name", ["", "../up", "a/b"])
    def test_a_name_leads_nowhere_else(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="cannot be the name of a run"):
            report.save_run({}, name, tmp_path)

    @pytest.mark.parametrize("text", ["{", "[]", '{"memorist_eval": 99}'])
    def test_what_is_no_run_is_refused(self, text: str, tmp_path: Path) -> None:
        file = tmp_path / "run.json"
        file.write_text(text)

        with pytest.raises(InvalidInput, match=r"run\.json is"):
            report.load_run(str(file), tmp_path)

    def test_a_run_that_was_not_saved_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="--save never"):
            report.load_run("never", tmp_path)
