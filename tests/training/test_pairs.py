"""The data that the embedding model is trained on: what is left out, and how questions are varied."""

import gzip
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "training"))

from pairs import MAX_QUESTIONS_PER_TEXT, as_keywords, as_of_the_user, read_pairs

SENTENCE = "the quick brown fox jumps over the lazy dog every single morning"


def write_groups(path: Path, *groups: dict[str, object]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(group) + "\n" for group in groups)
    return path


def group(text: str, *questions: str, set: str = "friendsqa") -> dict[str, object]:
    return {"set": set, "texts": [text], "qa": [[question, [0]] for question in questions]}


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    folder = tmp_path / "evaluated"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "1", "text": f"Well, {SENTENCE.title()}!"}) + "\n")
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "1", "text": "who jumps?"}) + "\n")
    return folder


def test_a_text_that_an_evaluation_set_has_is_not_trained_on(tmp_path: Path, evaluation: Path) -> None:
    groups = write_groups(tmp_path / "groups.gz", group(f"so {SENTENCE}", "who?"), group("another text", "which?"))
    training, held_out = read_pairs(groups, [evaluation])
    assert [*training.texts, *held_out.texts] == ["another text"]


def test_a_text_of_a_few_of_the_same_words_is_trained_on(tmp_path: Path, evaluation: Path) -> None:
    groups = write_groups(tmp_path / "groups.gz", group("the quick brown fox jumps over the fence", "who?"))
    training, held_out = read_pairs(groups, [evaluation])
    assert len(training.texts) + len(held_out.texts) == 1


def test_only_some_questions_about_one_text_are_asked(tmp_path: Path) -> None:
    questions = [f"question {number}?" for number in range(MAX_QUESTIONS_PER_TEXT + 3)]
    training, held_out = read_pairs(write_groups(tmp_path / "groups.gz", group("a text", *questions)), [])
    assert len(training.pairs) + len(held_out.pairs) == MAX_QUESTIONS_PER_TEXT


def test_a_set_near_an_evaluation_set_is_left_out(tmp_path: Path) -> None:
    training, held_out = read_pairs(write_groups(tmp_path / "groups.gz", group("a", "b?", set="pubmedqa")), [])
    assert not training.pairs
    assert not held_out.pairs


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("When did Anna go to Rome?", "Anna: I went in May.", ("When did I go to Rome?", "I went in May.")),
        ("What is Anna's job?", "Anna Berg: I teach.", ("What is my job?", "I teach.")),
        ("Does Anna like tea?", "Anna: I do.", ("do I like tea?", "I do.")),
        ("What did Ben say?", "Anna: He said no.", None),
        ("Who teaches?", "A text without a speaker.", None),
    ],
)
def test_a_speaker_becomes_the_user(question: str, text: str, expected: tuple[str, str] | None) -> None:
    assert as_of_the_user(question, text) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [("When did Anna go to Rome?", "Anna go Rome"), ("Who am I?", "Who am I?"), ("deploy steps", "deploy steps")],
)
def test_a_question_becomes_keywords_where_enough_are_left(question: str, expected: str) -> None:
    assert as_keywords(question) == expected
