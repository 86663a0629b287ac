"""Datasets read from folders."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sets import harbours, write_set

from memorist import InvalidInput, NotFound
from memorist.evaluate.dataset import CorpusDocument, assign_times, fingerprint, load_dataset

ONE = [{"_id": "d1", "title": "Title", "text": "Text"}]
ASKED = [{"_id": "q1", "text": "What?"}]


class TestLoading:
    def test_documents_questions_and_grades(self, tmp_path: Path) -> None:
        dataset = load_dataset(write_set(tmp_path / "small", ONE, ASKED, [("q1", "d1", 2)]))

        assert dataset.name == "small"
        assert dataset.documents == (CorpusDocument("d1", "Text", "Title", None, {}),)
        (question,) = dataset.questions
        assert (question.id, question.text, question.judgements) == ("q1", "What?", {"d1": 2})

    def test_scopes_and_categories_come_from_the_metadata(self, tmp_path: Path) -> None:
        dataset = load_dataset(harbours(tmp_path))

        assert {question.scope for question in dataset.questions} == {"north", "south"}
        assert {question.category for question in dataset.questions} == {"when", "what"}

    @pytest.mark.parametrize("name", ["category_name", "question_type", "category", "type"])
    def test_every_usual_name_of_a_category_is_known(self, name: str, tmp_path: Path) -> None:
        asked = [{"_id": "q1", "text": "What?", "metadata": {name: 4}}]

        assert load_dataset(write_set(tmp_path, ONE, asked, [("q1", "d1", 1)])).questions[0].category == "4"

    def test_a_question_without_an_answer_is_set_aside(self, tmp_path: Path) -> None:
        dataset = load_dataset(harbours(tmp_path))

        assert len(dataset.questions) == 4
        assert [question.id for question in dataset.unanswered] == ["nobody"]

    def test_a_judgement_of_nothing_is_no_answer(self, tmp_path: Path) -> None:
        asked = [*ASKED, {"_id": "q2", "text": "And?"}]
        dataset = load_dataset(write_set(tmp_path, ONE, asked, [("q1", "d1", 1), ("q2", "d1", 0)]))

        assert [question.id for question in dataset.unanswered] == ["q2"]

    def test_an_empty_text_is_its_title_or_a_dash(self, tmp_path: Path) -> None:
        documents = [{"_id": "d1", "title": "Title", "text": ""}, {"_id": "d2", "title": "", "text": " "}]
        dataset = load_dataset(write_set(tmp_path, documents, ASKED, [("q1", "d1", 1)]))

        assert [document.text for document in dataset.documents] == ["Title", "-"]


class TestSplits:
    @pytest.mark.parametrize(
        ("qrels", "queries"),
        [
            ("qrels/train.tsv", "queries.jsonl"),
            ("train_qrels.tsv", "train_queries.jsonl"),
            ("qrels_train.tsv", "queries_train.jsonl"),
        ],
    )
    def test_a_split_is_found_by_its_name(self, qrels: str, queries: str, tmp_path: Path) -> None:
        write_set(tmp_path, ONE, [{"_id": "q1", "text": "Test?"}], [("q1", "d1", 1)])
        write_set(tmp_path, ONE, [{"_id": "q1", "text": "Train?"}], [("q1", "d1", 3)], qrels, queries)

        split = load_dataset(tmp_path, "train")

        assert (split.split, split.questions[0].text, split.questions[0].judgements) == ("train", "Train?", {"d1": 3})

    def test_qrels_without_a_name_are_the_test_split(self, tmp_path: Path) -> None:
        write_set(tmp_path, ONE, ASKED, [("q1", "d1", 1)])

        assert load_dataset(tmp_path, "test").questions == load_dataset(tmp_path).questions

    def test_of_several_splits_test_is_the_default(self, tmp_path: Path) -> None:
        write_set(tmp_path, ONE, ASKED, [("q1", "d1", 1)], "qrels/test.tsv")

        assert load_dataset(tmp_path).questions[0].judgements == {"d1": 1}

    def test_an_unknown_split_is_an_error_that_names_the_others(self, tmp_path: Path) -> None:
        write_set(tmp_path, ONE, ASKED, [("q1", "d1", 1)], "qrels/train.tsv")

        with pytest.raises(NotFound, match=r"qrels/dev\.tsv.*there is: qrels/train\.tsv"):
            load_dataset(tmp_path, "dev")


class TestSelecting:
    def test_scopes_choose_questions_and_leave_the_documents(self, tmp_path: Path) -> None:
        selected = load_dataset(harbours(tmp_path)).select_questions(["south"], None, 0)

        assert {question.scope for question in selected.questions} == {"south"}
        assert (len(selected.documents), selected.unanswered) == (6, ())

    def test_an_unknown_scope_is_an_error_that_names_the_others(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="north, south"):
            load_dataset(harbours(tmp_path)).select_questions(["west"], None, 0)

    def test_a_sample_is_the_same_each_time_and_in_order(self, tmp_path: Path) -> None:
        asked = [{"_id": f"q{number:02}", "text": "What?"} for number in range(40)]
        dataset = load_dataset(write_set(tmp_path, ONE, asked, [(one["_id"], "d1", 1) for one in asked]))

        first, again, other = (dataset.select_questions([], 10, seed).questions for seed in (1, 1, 2))

        assert first == again != other
        assert [question.id for question in first] == sorted(question.id for question in first)
        assert len(first) == 10


class TestRefusing:
    @pytest.mark.parametrize(
        ("file", "text", "about"),
        [
            ("corpus.jsonl", "{", "line 1: not valid JSON"),
            ("corpus.jsonl", "[]", "line 1: not a JSON object"),
            ("corpus.jsonl", '{"text": "x"}', "line 1: there is no _id"),
            ("queries.jsonl", '{"_id": "q1"}', "line 1: a question needs a text"),
            ("qrels.tsv", "a\tb\tc\nq1\td1", "line 2: three columns are needed"),
            ("qrels.tsv", "a\tb\tc\nq1\td1\tyes", "line 2: three columns are needed"),
            ("qrels.tsv", "a\tb\tc\nq1\td1\tinf", "line 2: three columns are needed"),
            ("qrels.tsv", "a\tb\tc\nq1\telsewhere\t1", "judges no document of the corpus"),
            ("corpus.jsonl", '{"_id": "d1"}\n{"_id": "d2"}\n{"_id": "d1"}', "line 3: the _id 'd1' is used twice"),
            ("corpus.jsonl", '{"_id": 1}\n{"_id": "1"}', "line 2: the _id '1' is used twice"),
            ("queries.jsonl", '{"_id": "q1", "text": "a"}\n' * 2, "line 2: the _id 'q1' is used twice"),
            ("corpus.jsonl", '{"_id": "d1", "metadata": "text"}', "line 1: metadata must be an object"),
            ("queries.jsonl", '{"_id": "q1", "text": "a", "metadata": [1]}', "line 1: metadata must be an object"),
        ],
    )
    def test_a_broken_file_is_named_with_its_line(self, file: str, text: str, about: str, tmp_path: Path) -> None:
        write_set(tmp_path, ONE, ASKED, [("q1", "d1", 1)])
        (tmp_path / file).write_text(text, "utf-8")

        with pytest.raises(InvalidInput, match=about):
            load_dataset(tmp_path)

    @pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
    def test_a_line_that_is_no_text_is_named(self, file: str, tmp_path: Path) -> None:
        write_set(tmp_path, ONE, ASKED, [("q1", "d1", 1)])
        with (tmp_path / file).open("ab") as opened:
            opened.write(b"gr\xfc\xdfe\n")

        with pytest.raises(InvalidInput, match=rf"{file}, line \d: not valid UTF-8"):
            load_dataset(tmp_path)

    def test_a_folder_without_a_corpus_is_no_set(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match=r"has no corpus\.jsonl"):
            load_dataset(tmp_path)


class TestTimes:
    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
            ("2023/04/10 (Mon) 17:50", datetime(2023, 4, 10, 17, 50, tzinfo=UTC)),
            ("2026-03-09T12:00:00+02:00", datetime(2026, 3, 9, 10, 0, tzinfo=UTC)),
            ("2026-03-09", datetime(2026, 3, 9, tzinfo=UTC)),
            ("some day", datetime(2000, 1, 1, tzinfo=UTC)),
            (None, datetime(2000, 1, 1, tzinfo=UTC)),
        ],
    )
    def test_a_date_is_understood_as_the_usual_sets_write_it(self, written: str | None, meant: datetime) -> None:
        assert list(assign_times([CorpusDocument("d", "t", None, None, {"date": written})])) == [meant]

    def test_what_has_one_date_keeps_its_order(self) -> None:
        three = [CorpusDocument(id, "t", None, None, {}) for id in "abc"]

        assert [moment.second for moment in assign_times(three)] == [0, 1, 2]

    @pytest.mark.parametrize("field", ["date", "question_date"])
    def test_a_question_may_say_when_it_was_asked(self, tmp_path: Path, field: str) -> None:
        asked = [{"_id": "q", "text": "which tea?", "metadata": {field: "2023/04/10 (Mon) 23:07"}}]
        asked.append({"_id": "r", "text": "which tea?"})
        folder = write_set(tmp_path, [{"_id": "d", "text": "green tea"}], asked, [("q", "d", 1), ("r", "d", 1)])

        assert [one.asked_at for one in load_dataset(folder).questions] == [
            datetime(2023, 4, 10, 23, 7, tzinfo=UTC),
            None,
        ]


def test_another_document_is_another_corpus(tmp_path: Path) -> None:
    documents = load_dataset(harbours(tmp_path)).documents

    assert fingerprint(documents) == fingerprint(documents)
    assert fingerprint(documents) != fingerprint(documents[:-1])
