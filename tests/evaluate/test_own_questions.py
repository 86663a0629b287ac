"""Datasets of a user's own memories: golden files and recorded feedback."""

import json
from pathlib import Path
from typing import Any

import pytest

from memorist import InvalidInput, Memorist
from memorist.evaluate.dataset import load_golden_file, load_recalls


def golden(folder: Path, *lines: dict[str, Any] | str) -> Path:
    file = folder / "golden.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return file


class TestGolden:
    def test_a_line_is_a_question_with_its_answers(self, memory: Memorist, tmp_path: Path) -> None:
        ship, test = memory.add("We ship with make", project="api"), memory.add("We test with pytest")
        file = golden(
            tmp_path,
            {"query": "how do we ship?", "relevant": [ship.id], "category": "how", "project": "api"},
            "",
            {"query": "which tools?", "relevant": {ship.id: 1, test.short_id: 2}},
        )

        dataset, missing = load_golden_file(memory, file)

        first, second = dataset.questions
        assert (first.text, first.judgements, first.category, first.scope) == (
            "how do we ship?",
            {ship.id: 1},
            "how",
            "api",
        )
        assert second.judgements == {ship.id: 1, test.id: 2}
        assert (dataset.name, missing, len(dataset.documents)) == ("golden", [], 2)

    def test_an_id_that_no_memory_has_does_not_count_and_is_told(self, memory: Memorist, tmp_path: Path) -> None:
        kept, gone = memory.add("We ship with make"), memory.add("We shipped by hand")
        memory.forget(gone.id)
        file = golden(
            tmp_path,
            {"query": "how do we ship?", "relevant": [kept.id, gone.id]},
            {"query": "by hand?", "relevant": [gone.id]},
        )

        dataset, missing = load_golden_file(memory, file)

        assert missing == [gone.id, gone.id]
        assert dataset.questions[0].judgements == {kept.id: 1}
        assert [question.text for question in dataset.unanswered] == ["by hand?"]

    @pytest.mark.parametrize(
        ("line", "about"),
        [
            ({"relevant": []}, "there is no query"),
            ({"query": " ", "relevant": []}, "there is no query"),
            ({"query": "a"}, "relevant must be"),
            ({"query": "a", "relevant": "id"}, "relevant must be"),
            ({"query": "a", "relevant": [1]}, "relevant must be"),
            ({"query": "a", "relevant": [{"id": 1}]}, "relevant must be"),
            ({"query": "a", "relevant": {"id": "1"}}, "relevant must be"),
            ({"query": "a", "relevant": [], "category": 1}, "category must be text"),
            ("{", "not valid JSON"),
        ],
    )
    def test_a_line_that_cannot_be_used_is_named(
        self, line: dict[str, Any] | str, about: str, memory: Memorist, tmp_path: Path
    ) -> None:
        with pytest.raises(InvalidInput, match=rf"golden\.jsonl, line 1: {about}"):
            load_golden_file(memory, golden(tmp_path, line))

    def test_a_line_that_is_no_text_is_named(self, memory: Memorist, tmp_path: Path) -> None:
        file = tmp_path / "golden.jsonl"
        file.write_bytes('{"query": "grüße", "relevant": []}'.encode("latin-1"))

        with pytest.raises(InvalidInput, match=r"golden\.jsonl, line 1: not valid UTF-8"):
            load_golden_file(memory, file)


class TestRecalls:
    def test_a_question_with_a_good_answer_is_measured(self, memory: Memorist) -> None:
        good, bad = memory.add("We ship with make"), memory.add("We ship on Mondays")
        memory.search("how do we ship?", record="log")
        memory.searches.add_feedback(good.id, True)
        memory.searches.add_feedback(bad.id, False)

        (question,) = load_recalls(memory).questions

        assert (question.text, question.judgements) == ("how do we ship?", {good.id: 1, bad.id: 0})
        assert question.asked_at == memory.searches.list_feedback()[-1].at

    def test_a_recorded_question_of_which_nothing_good_was_said_is_counted(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")
        memory.search("make", record="log")
        memory.search("ship", record="log")
        memory.searches.add_feedback(one.id, False)

        dataset = load_recalls(memory)

        assert dataset.questions == ()
        assert {question.text for question in dataset.unanswered} == {"make", "ship"}

    def test_a_question_asked_in_other_letters_is_the_same(self, memory: Memorist) -> None:
        one, other = memory.add("We ship with make"), memory.add("We ship on Mondays")
        memory.searches.add_feedback(one.id, True, query="How do we ship?")
        memory.searches.add_feedback(other.id, True, query="how do  we ship?")

        (question,) = load_recalls(memory).questions

        assert question.judgements == {one.id: 1, other.id: 1}

    def test_the_latest_word_counts(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")
        memory.searches.add_feedback(one.id, True, query="ship?")
        memory.searches.add_feedback(one.id, False, query="SHIP?")

        assert load_recalls(memory).questions == ()
