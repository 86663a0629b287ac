"""A whole measurement: figures, categories, certainty, comparison, page, and what is kept of it."""

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
from memorist.evaluate.calibration import certainty, unanswerable
from memorist.evaluate.compare import compared, text, way_of
from memorist.evaluate.dataset import Dataset, Question, load
from memorist.evaluate.evaluation import evaluate_dataset
from memorist.evaluate.html_report import page
from memorist.evaluate.indexing import Indexed, indexed
from memorist.evaluate.metrics import MEASURES
from memorist.evaluate.report import data, figures, table
from memorist.evaluate.runner import QuestionResult, run
from memorist.evaluate.systems import Retrieved, SearchConfig, choices

Data = dict[str, Any]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return load(harbours(tmp_path / "harbours"))


@pytest.fixture
def made(dataset: Dataset, tmp_path: Path) -> Iterator[Indexed]:
    one = indexed(dataset, HashingEmbedder(), tmp_path)
    with closing(one.memory):
        yield one


def measure(dataset: Dataset, made: Indexed, *specs: str, relevance: bool = False) -> Data:
    chosen: list[SearchConfig] = choices(["hybrid"], specs or ["balanced"], {})
    one = evaluate_dataset(dataset, chosen, made.memory, made, relevance=relevance)
    return data([one], version="0", embedder="hashing-64", seed=0)


def ways(run: Data) -> dict[str, Data]:
    return {way["name"]: way for way in run["sets"][0]["ways"]}


class Parrot:
    """Answers as it was told to."""

    name = "parrot"

    def __init__(self, *answers: Retrieved) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def answer(self, question: Question) -> Retrieved:
        self.asked.append(question.id)
        return self._answers[int(question.id) % len(self._answers)]


def question(number: int, **fields: Any) -> Question:
    return Question(str(number), f"question {number}", {"a": 1}, **fields)


class TestRunning:
    def test_every_question_is_asked_in_order_after_a_first_one_that_is_not_timed(self) -> None:
        parrot = Parrot(Retrieved(["a"]), Retrieved(["b", "a"]))
        outcome = run(parrot, [question(0), question(1)])

        assert parrot.asked == ["0", "0", "1"]
        assert [answer.figures["mrr@10"] for answer in outcome.answers] == [1.0, 0.5]
        assert all(answer.ms >= 0 for answer in outcome.answers)

    def test_what_was_missing_is_told_once(self) -> None:
        outcome = run(Parrot(Retrieved([], degraded="no model")), [question(0), question(1)])

        assert outcome.degraded == ("no model",)


class TestReport:
    def test_grep_and_both_legs_stand_beside_what_was_chosen(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made)

        assert list(ways(run)) == ["grep", "balanced keyword", "balanced semantic", "balanced"]
        assert run["sets"][0]["chosen"] == ["balanced"]

    def test_a_question_sees_its_own_scope_only(self, dataset: Dataset, made: Indexed) -> None:
        for way in ways(measure(dataset, made)).values():
            for answer in way["answers"]:
                assert {id.partition("/")[0] for id in answer["found"]} <= {answer["scope"]}
                assert answer["hit@5"] == 1.0

    def test_means_are_those_of_the_answers_with_an_interval_around_them(self, dataset: Dataset, made: Indexed) -> None:
        for way in ways(measure(dataset, made)).values():
            for name in MEASURES:
                figure = way["measures"][name]
                assert figure["mean"] == pytest.approx(sum(answer[name] for answer in way["answers"]) / 4)
                assert figure["low"] <= figure["mean"] <= figure["high"]

    def test_categories_and_what_was_left_out_are_counted(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made)
        (one,) = run["sets"]

        assert (one["documents"], one["questions"], one["left_out"]) == (6, 4, 1)
        assert {name: about["questions"] for name, about in ways(run)["balanced"]["categories"].items()} == {
            "what": 2,
            "when": 2,
        }

    def test_the_same_run_again_has_the_same_figures(self, dataset: Dataset, made: Indexed) -> None:
        first, second = (figures(measure(dataset, made)) for _ in range(2))
        for one in (first, second):
            for way in one["sets"][0]["ways"]:
                assert way.pop("latency_ms")["p50"] >= 0

        assert first == second

    def test_the_table_has_a_line_a_way_and_marks_the_chosen(self, dataset: Dataset, made: Indexed) -> None:
        lines = table(measure(dataset, made))

        assert lines[0] == "harbours: 6 documents, 4 questions (1 more without a judged answer left out)"
        assert [line[:2] for line in lines[2:6]] == ["  ", "  ", "  ", "* "]
        assert "  what: 2 questions" in lines

    def test_figures_leave_out_single_answers(self, dataset: Dataset, made: Indexed) -> None:
        (one,) = figures(measure(dataset, made))["sets"]

        assert "texts" not in one
        assert all("answers" not in way for way in one["ways"])


class TestCertainty:
    def test_the_same_questions_in_another_scope_have_no_answer(self, dataset: Dataset) -> None:
        elsewhere = unanswerable(dataset)

        assert [one.text for one in elsewhere] == [one.text for one in dataset.questions]
        assert all(one.scope != own.scope for one, own in zip(elsewhere, dataset.questions, strict=True))
        assert all(not one.judged for one in elsewhere)

    def test_without_scopes_they_are_those_the_set_has_no_answer_to(self, dataset: Dataset) -> None:
        unscoped = Dataset("one", (), (question(1),), (question(2),))

        assert unanswerable(unscoped) == (question(2),)

    def test_perfect_and_useless_relevance(self) -> None:
        def answers(*relevances: float) -> list[QuestionResult]:
            return [QuestionResult(question(0), (), {}, 0.0, relevance) for relevance in relevances]

        told_apart = certainty(answers(0.9, 0.8), answers(0.1, 0.2))
        no_better_than_chance = certainty(answers(0.9, 0.3), answers(0.9, 0.3))

        assert (told_apart.auc, told_apart.false_answers, told_apart.missed) == (1.0, 0.0, 0.0)
        chance = no_better_than_chance
        assert (chance.auc, chance.false_answers, chance.missed) == (0.5, 0.5, 0.5)

    def test_it_is_told_of_what_was_chosen(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made, relevance=True)

        assert ways(run)["balanced"]["certainty"]["without_answer"] == 4
        assert ways(run)["grep"]["certainty"] is None
        assert any("AUC" in line for line in table(run))


def altered(run: Data, found: dict[str, list[str]], name: str = "balanced") -> Data:
    """The run, had some questions been answered otherwise."""
    from memorist.evaluate.metrics import measure_ranking as figures_of

    copy: Data = json.loads(json.dumps(run))
    for answer in ways(copy)[name]["answers"]:
        if answer["id"] in found:
            answer["found"] = found[answer["id"]]
            answer |= figures_of(answer["found"], answer["relevant"])
    return copy


class TestComparing:
    def test_what_got_worse_is_shown_with_what_was_missed(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made)
        worse = altered(run, {"north/when": ["north/1"]})

        (change,) = compared(run, "balanced", worse, "balanced", seed=0)

        assert [one["id"] for one in change["worse"]] == ["north/when"]
        assert change["better"] == []
        assert change["worse"][0]["missed_after"] == ["north/0"]
        assert change["measures"]["ndcg@10"]["difference"] == pytest.approx(-0.25)
        shown = "\n".join(text([change], show=5))
        assert "of 4 questions 0 got better, 1 worse, 3 stayed as good" in shown
        assert "relevant, 1 -> missed: The ferry leaves at nine" in shown
        assert "instead, at 1: Fish is sold on the quay" in shown
        assert "may be chance" in shown

    def test_the_other_way_round_it_got_better(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made)

        (change,) = compared(altered(run, {"north/when": []}), "balanced", run, "balanced", seed=0)

        assert [one["id"] for one in change["better"]] == ["north/when"]
        assert "better 0.00 -> 1.00: When does the ferry leave? (when)" in "\n".join(text([change], show=1))

    def test_two_ways_of_one_run(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made, "balanced", "rank")

        (change,) = compared(run, "balanced", run, "rank", seed=0)

        assert (change["before"], change["after"], change["questions"]) == ("balanced", "rank", 4)

    def test_only_questions_that_both_have_are_compared(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made)
        fewer = measure(dataset.narrowed(["south"], None, 0), made)

        (change,) = compared(run, "balanced", fewer, "balanced", seed=0)

        assert change["questions"] == 2

    def test_what_cannot_be_compared_is_said(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made, "balanced", "rank")
        other = {**run, "sets": [{**run["sets"][0], "name": "elsewhere"}]}

        with pytest.raises(NotFound, match="share no set"):
            compared(run, "balanced", other, "balanced", seed=0)
        with pytest.raises(NotFound, match="'notes' was not measured on harbours"):
            compared(run, "balanced", run, "notes", seed=0)
        with pytest.raises(InvalidInput, match="balanced, rank"):
            way_of(run)
        assert way_of(run, "rank") == "rank"


class TestPage:
    def test_it_needs_nothing_from_anywhere(self, dataset: Dataset, made: Indexed) -> None:
        html = page(measure(dataset, made, relevance=True))

        assert html.startswith("<!doctype html>")
        assert html.count("<svg") == 4  # two, and one for each category
        assert not re.search(r"<(script|link|img|iframe)|https?://|url\(|@import", html)

    def test_the_figures_are_on_it(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made)
        html = page(run, compared(run, "balanced keyword", run, "balanced", seed=0))

        for way in run["sets"][0]["ways"]:
            assert f"<td>{way['name']}</td><td>{way['measures']['ndcg@10']['mean']:.4f}</td>" in html
        assert "balanced keyword → balanced" in html

    def test_text_of_a_set_stays_text(self, dataset: Dataset, made: Indexed) -> None:
        run = measure(dataset, made)
        worse = altered(run, {"north/when": []})
        for answer in ways(run)["balanced"]["answers"]:
            answer["query"] = "<script>alert(1)</script>"
        run["sets"][0]["name"] = worse["sets"][0]["name"] = "<b>"

        html = page(run, compared(run, "balanced", worse, "balanced", seed=0))

        assert "<script" not in html
        assert "<b>" not in html
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


class TestKeeping:
    def test_a_run_is_kept_by_name_or_as_a_file(self, dataset: Dataset, made: Indexed, tmp_path: Path) -> None:
        run = measure(dataset, made)

        for name in ("before", str(tmp_path / "somewhere" / "run.json")):
            assert not report.is_saved(name, tmp_path)
            assert report.save(run, name, tmp_path).is_file()
            assert report.read(name, tmp_path) == json.loads(json.dumps(run))

    @pytest.mark.parametrize("name", ["", "../up", "a/b"])
    def test_a_name_leads_nowhere_else(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="no name for a run"):
            report.save({}, name, tmp_path)

    @pytest.mark.parametrize("text", ["{", "[]", '{"memorist_eval": 99}'])
    def test_what_is_no_run_is_refused(self, text: str, tmp_path: Path) -> None:
        file = tmp_path / "run.json"
        file.write_text(text)

        with pytest.raises(InvalidInput, match=r"run\.json is"):
            report.read(str(file), tmp_path)

    def test_one_that_was_not_kept_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="--save never"):
            report.read("never", tmp_path)
