"""The profile `precise`: the best read a second time, and what is said where that cannot be."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import memorist
from memorist import InvalidInput, Memorist
from memorist.embed import onnx_models

QUESTION = "how long do we keep backups?"
ANSWER = "Backups are kept for thirty days, then they are deleted."
OTHERS = [
    "How long the backups take: we keep asking that.",
    "Do keep the backups small, they take long.",
    "We keep the keys in the safe.",
]


@pytest.fixture
def memory() -> Iterator[Memorist]:
    with memorist.open(":memory:") as opened:
        for text in (*OTHERS, ANSWER):
            opened.add(text)
        yield opened


def contents(memory: Memorist, **options: object) -> list[str]:
    return [hit.memory.content for hit in memory.search(QUESTION, **options)]


def test_the_answer_comes_first_though_other_memories_share_more_words(memory: Memorist) -> None:
    assert contents(memory)[0] != ANSWER
    assert contents(memory, profile="precise")[0] == ANSWER
    assert contents(memory, rerank=10)[0] == ANSWER


def test_the_trace_tells_what_reading_again_changed(memory: Memorist) -> None:
    for hit in memory.search(QUESTION, profile="precise"):
        assert "rerank" in hit.trace
        assert sum(hit.trace.values()) == pytest.approx(hit.score)


def test_one_candidate_read_again_stays_the_first(memory: Memorist) -> None:
    assert contents(memory, rerank=1) == contents(memory)


def test_a_question_in_another_script_is_answered_as_without_reading_again(memory: Memorist) -> None:
    for text in ("备份保存三十天，然后删除", "我们每天晚上做备份", "钥匙放在保险箱里"):
        memory.add(text)

    results = memory.search("备份保存多少天？", profile="precise")

    plain = memory.search("备份保存多少天？")
    assert [hit.score for hit in results] == [hit.score for hit in plain]
    assert results.degraded == f"{plain.degraded}; not reranked: memorist-reranker reads Latin script"


def test_without_the_model_the_answer_is_that_of_balanced_and_says_how_to_get_it(
    memory: Memorist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_models.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    results = memory.search(QUESTION, profile="precise")

    assert [hit.memory.content for hit in results] == contents(memory)
    assert results.degraded == (
        "not reranked: memorist-reranker is not installed; `pip install memorist-reranker` adds it "
        "(from a checkout: `pip install ./models/reranker`)"
    )


def test_it_works_by_words_alone(memory: Memorist) -> None:
    by_words, read = contents(memory, mode="keyword"), contents(memory, profile="precise", mode="keyword")

    assert read.index(ANSWER) < by_words.index(ANSWER)


def test_nothing_found_is_nothing_read(memory: Memorist) -> None:
    assert contents(memory, profile="precise", mode="keyword", project="none") == []


def test_a_place_in_a_file_is_read_again_too(memory: Memorist, tmp_path: Path) -> None:
    for number, text in enumerate((*OTHERS, ANSWER)):
        (tmp_path / f"{number}.md").write_text(f"{text}\n", "utf-8")
    memory.documents.index(tmp_path)

    assert memory.documents.search(QUESTION, profile="precise")[0].path.endswith("3.md")


class Shortest:
    """A reranker that likes what is short."""

    def score_passages(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]:
        return [1 / len(passage) for passage in passages]


def test_a_reranker_of_ones_own_reads_in_place_of_ours() -> None:
    with memorist.open(":memory:", reranker=Shortest()) as memory:
        memory.add_many([*OTHERS, ANSWER])

        assert contents(memory, profile="precise", rerank_weight=1.0)[0] == min(OTHERS, key=len)


class OutOfTime:
    """A reranker that gets to read the first three, and thinks little of them."""

    def score_passages(self, question: str, passages: Sequence[str], seconds: float) -> list[float | None]:
        return [0.1 if number < 3 else None for number, _ in enumerate(passages)]


def test_what_was_not_read_stays_behind_also_where_it_is_from_the_time_that_was_asked_for() -> None:
    long_ago, last_week = "2025-05-01T12:00:00+00:00", "2026-11-05T12:00:00+00:00"
    with memorist.open(":memory:", embedder="none", reranker=OutOfTime()) as memory:
        for number in range(3):
            memory.add(f"The deploy of the billing service failed again, case {number}", created_at=long_ago)
        for number in range(3):
            memory.add(f"A deploy was quick, run {number} of many others on that day", created_at=last_week)

        found = memory.search("why did the deploy of billing fail last week?", profile="precise", now="2026-11-12")

    assert [hit.memory.created_at.year for hit in found[:3]] == [2025, 2025, 2025]
    assert min(hit.score for hit in found[:3]) >= max(hit.score for hit in found[3:])


@pytest.mark.parametrize("wrong", [0, -1, 1001, 2.5, True, "always"])
def test_a_wrong_number_is_refused(memory: Memorist, wrong: object) -> None:
    with pytest.raises(InvalidInput, match="rerank"):
        memory.search(QUESTION, rerank=wrong)


def test_a_turn_beside_the_answer_is_found_before_one_that_stands_alone(tmp_path: Path) -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        talk, other = memory.sessions.start("api"), memory.sessions.start("api")
        memory.add("Which command ships the code?", session=talk.id)
        memory.add("It is make ship.", session=talk.id)
        memory.add("The parcels ship on Mondays.", session=other.id)

        found = [hit.memory.content for hit in memory.search("which command ships the code")]
        alone = [hit.memory.content for hit in memory.search("which command ships the code", session_smoothing=0)]

    assert found.index("It is make ship.") < found.index("The parcels ship on Mondays.")
    assert alone[0] == found[0]


class TestFast:
    def test_a_question_is_answered_by_words_and_loads_no_model(self, memory: Memorist) -> None:
        results = memory.search("how long are copies retained?", profile="fast")

        assert all(hit.match == ("keyword",) for hit in results)
        assert results.degraded is None

    def test_a_question_gets_the_same_answer_whatever_was_asked_before(self, memory: Memorist) -> None:
        first = memory.search(QUESTION, profile="fast").hits
        memory.search(QUESTION)

        assert memory.search(QUESTION, profile="fast").hits == first

    def test_it_works_without_a_model(self) -> None:
        with memorist.open(":memory:", embedder="none", profile="fast") as memory:
            memory.add(ANSWER)

            assert [hit.memory.content for hit in memory.search("backups")] == [ANSWER]
