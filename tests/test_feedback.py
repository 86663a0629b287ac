"""What people say of answers: kept with the memory, and gone with it."""

import random
import string
from pathlib import Path

import pytest

import memorist
from memorist import InvalidInput, Memorist, NotFound
from statements import read_rows


def said(memory: Memorist) -> list[tuple[str, str, bool]]:
    return [(one.memory, one.query, one.good) for one in memory.searches.list_feedback()]


class TestSaying:
    def test_a_memory_was_a_good_answer_to_a_question(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")
        kept = memory.searches.add_feedback(one.short_id, True, query="how do we ship?")

        assert (kept.memory, kept.query, kept.good) == (one.id, "how do we ship?", True)
        assert memory.searches.list_feedback() == [kept]

    def test_without_a_question_it_is_that_of_the_last_recorded_search_that_found_it(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")
        memory.search("make", record="log")
        memory.search("ship", record="log")
        memory.search("unicorn", record="log")

        assert memory.searches.add_feedback(one.id, False).query == "ship"

    def test_without_a_question_that_found_it_nothing_is_guessed(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")
        memory.search("unicorn", record="log")

        with pytest.raises(NotFound, match="no recorded search found memory"):
            memory.searches.add_feedback(one.id, True)
        assert memory.searches.list_feedback() == []

    def test_said_again_the_latest_word_counts(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")
        memory.searches.add_feedback(one.id, True, query="ship?")
        memory.searches.add_feedback(one.id, True, query="make?")
        memory.searches.add_feedback(one.id, False, query="ship?")

        assert said(memory) == [(one.id, "ship?", False), (one.id, "make?", True)]

    def test_of_one_memory_alone(self, memory: Memorist) -> None:
        one, other = memory.add("We ship with make"), memory.add("We test with pytest")
        for each in (one, other):
            memory.searches.add_feedback(each.id, True, query="tools?")

        assert [kept.memory for kept in memory.searches.list_feedback(memory=other.id)] == [other.id]
        assert len(memory.searches.list_feedback(limit=1)) == 1

    def test_it_changes_no_ranking(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")
        before = memory.search("ship")[0]
        memory.searches.add_feedback(one.id, False, query="ship")

        assert memory.search("ship")[0].score == before.score
        assert memory.get(one.id) == one

    @pytest.mark.parametrize("query", ["", "  ", 7])
    def test_a_question_has_to_say_something(self, query: object, memory: Memorist) -> None:
        one = memory.add("We ship with make")

        with pytest.raises(InvalidInput, match="query"):
            memory.searches.add_feedback(one.id, True, query=query)  # type: ignore[arg-type]

    @pytest.mark.local_only("a server refuses it in other words")
    def test_good_is_true_or_false(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")

        with pytest.raises(InvalidInput, match="good must be True or False"):
            memory.searches.add_feedback(one.id, "good", query="ship?")  # type: ignore[arg-type]

    def test_a_memory_that_is_not_there_has_none(self, memory: Memorist) -> None:
        with pytest.raises(NotFound):
            memory.searches.add_feedback("01234567", True, query="ship?")

    def test_secrets_of_a_question_are_not_written_down(self, path: Path) -> None:
        secret = "ghp_" + "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=36))
        with memorist.open(path, embedder="none", redact=True) as memory:
            one = memory.add("We ship with make")
            kept = memory.searches.add_feedback(one.id, True, query=f"is {secret} still good?")

        assert secret not in kept.query
        assert secret.encode() not in path.read_bytes()


class TestGoing:
    def test_a_forgotten_memory_takes_it_along_and_brings_it_back(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")
        memory.searches.add_feedback(one.id, True, query="ship?")

        memory.forget(one.id)
        assert memory.searches.list_feedback() == []

        memory.restore(one.id)
        assert said(memory) == [(one.id, "ship?", True)]

    def test_an_erased_memory_takes_every_word_of_its_questions_along(self, memory: Memorist, path: Path) -> None:
        gone, kept = memory.add("The quillfeather contract"), memory.add("Another contract")
        for one in (gone, kept):
            memory.searches.add_feedback(one.id, True, query="what of the quillfeather?")
        memory.searches.add_feedback(kept.id, True, query="another?")

        memory.forget(gone.id, hard=True)
        memory.purge()

        assert said(memory) == [(kept.id, "another?", True)]
        assert b"quillfeather" not in path.read_bytes()

    def test_a_recorded_question_that_found_an_erased_memory_goes_from_here_too(self, memory: Memorist) -> None:
        gone, kept = memory.add("The quillfeather contract"), memory.add("Another contract")
        memory.search("contract quillfeather", record="log")
        memory.searches.add_feedback(kept.id, True)

        memory.forget(gone.id, hard=True)

        assert memory.searches.list_feedback() == []

    def test_another_namespace_keeps_its_own(self, path: Path) -> None:
        with (
            memorist.open(path, embedder="none", namespace="mine") as mine,
            memorist.open(path, embedder="none", namespace="yours") as yours,
        ):
            for memory in (mine, yours):
                memory.searches.add_feedback(
                    memory.add("The contract", id="the-contract").id, True, query="which contract?"
                )
            mine.forget("the-contract", hard=True)

            assert mine.searches.list_feedback() == []
            assert said(yours) == [("the-contract", "which contract?", True)]
        assert read_rows(path, "select count(*) from feedback") == [(1,)]

    def test_clearing_the_recall_log_leaves_what_was_said(self, memory: Memorist) -> None:
        one = memory.add("We ship with make")
        memory.search("ship", record="log")
        memory.searches.add_feedback(one.id, True)

        memory.searches.clear()

        assert said(memory) == [(one.id, "ship", True)]
