"""Recalls that went into the prompt of an agent: by which surface, with which text, and what forgetting leaves."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import memorist
from memorist import Memorist
from memorist.embed.wordpiece import count_tokens
from memorist.engine.context import record_last
from memorist.engine.project_view import ProjectView

QUESTION = "how do we deploy?"


@pytest.fixture
def told(target: Path | str) -> Iterator[Memorist]:
    """A memory that hooks use, with a pinned memory and one that answers the question."""
    with memorist.open(target, embedder="none", surface="hook") as memory:
        memory.pin(memory.add("Answer in German").id)
        memory.add("We deploy with make ship")
        yield memory


def test_a_context_is_recorded_with_the_text_of_each_memory_and_its_tokens(told: Memorist) -> None:
    block = told.context(QUESTION)

    (recall,) = told.searches.list()
    assert (recall.query, recall.surface, recall.tokens) == (QUESTION, "hook", count_tokens(block))
    assert [memory.place for memory in recall.memories] == [1, 2]
    for memory in recall.memories:
        assert str(memory.prompt) in block
    assert "Answer in German" in str(recall.memories[0].prompt)
    assert "make ship" in str(recall.memories[1].prompt)
    assert recall.memories[1].relevance > 0


def test_a_briefing_and_a_context_of_nothing_are_recorded_too(told: Memorist) -> None:
    told.context("zebra crossing", core=False)
    told.briefing()

    briefing, nothing = told.searches.list()
    assert (nothing.memories, nothing.tokens) == ((), 0)
    assert (briefing.query, briefing.mode, len(briefing.memories)) == ("", "briefing", 2)


@pytest.mark.parametrize("options", [{}, {"surface": "http"}, {"surface": "hook", "log_recalls": False}])
def test_elsewhere_a_context_is_not_recorded_and_a_search_only_on_request(path: Path, options: dict[str, Any]) -> None:
    with memorist.open(path, embedder="none", **options) as memory:
        memory.add("We deploy with make ship")
        memory.context(QUESTION)
        assert list(memory.searches.list()) == []
        memory.search(QUESTION, record="log")
        (recall,) = memory.searches.list()
        assert (recall.surface, recall.tokens) == (options.get("surface", "library"), None)
        assert recall.memories[0].prompt is None


def test_nothing_is_recorded_in_a_memory_that_is_only_read(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("We deploy with make ship")
    with memorist.open(path, embedder="none", surface="mcp", read_only=True) as memory:
        assert memory.context(QUESTION)
        assert (list(memory.searches.list()), memory.searches.lost) == ([], 0)


def test_of_contexts_that_did_not_fit_only_the_last_is_recorded(told: Memorist) -> None:
    with record_last(ProjectView(told, "none")):
        told.context(QUESTION)
        told.context(QUESTION, core=False)

    (recall,) = told.searches.list()
    assert len(recall.memories) == 1


def test_a_forgotten_memory_is_hidden_in_prompts_and_an_erased_one_is_gone_from_them(told: Memorist) -> None:
    session = told.sessions.start().id
    for text in ("we deploy swordfish before noon", "after the deploy comes marlin", "then the deploy is done"):
        told.add(text, session=session, kind="turn")
    told.context(f"{QUESTION} swordfish")

    def prompts() -> str:
        return "\n".join(memory.prompt or "" for recall in told.searches.list() for memory in recall.memories)

    marlin = next(memory.id for memory in told.list() if "marlin" in memory.content)
    assert all(word in prompts() for word in ("swordfish", "marlin"))
    told.forget(marlin)
    assert "marlin" not in prompts()
    assert "swordfish" in prompts()
    told.restore(marlin)
    assert "marlin" in prompts()
    told.forget(marlin)
    told.purge()
    assert "marlin" not in prompts()
    assert "swordfish" in prompts()
    exported = io.BytesIO()
    told.transfer.export(exported)
    assert b"marlin" not in exported.getvalue()


def test_what_was_told_survives_an_export(told: Memorist, tmp_path: Path) -> None:
    told.context(QUESTION)
    file = tmp_path / "memories.jsonl"
    told.transfer.export(file)

    with memorist.open(tmp_path / "copy.db", embedder="none") as copy:
        copy.transfer.import_(file)
        assert list(copy.searches.list()) == list(told.searches.list())


def test_an_erased_memory_is_gone_from_the_file(path: Path) -> None:
    with memorist.open(path, embedder="none", surface="chat") as memory:
        id = memory.add("we deploy marlin " * 200).id
        memory.context(QUESTION)
        assert len(memory.searches.list()) == 1
        memory.forget(id)
        memory.purge()

    assert b"marlin" not in path.read_bytes()


def test_an_agent_gets_its_answer_while_another_process_writes(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("We deploy with make ship")
    writer = apsw.Connection(str(path))
    writer.execute("begin immediate")
    environ = {**os.environ, "MEMORIST_EMBEDDER": "none", "XDG_STATE_HOME": str(tmp_path)}

    hook = subprocess.run(
        [sys.executable, "-m", "memorist", "--db", str(path), "hook", "UserPromptSubmit"],
        input=json.dumps({"prompt": QUESTION, "cwd": str(tmp_path)}), env=environ, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    writer.execute("rollback")
    writer.close()

    assert "make ship" in hook.stdout


def test_a_secret_in_a_question_is_masked_also_where_the_record_is_cut(told: Memorist) -> None:
    token = "ghp_a8Kd93LmQz71XvBnTy52RcWe04UiPsFgHj67"
    told.context(f"my token is {token}")
    told.context(f"{'deploy ' * 140} my token is {token}")  # the record ends within it

    assert not any("ghp_" in str(recall.query) for recall in told.searches.list())


def test_only_what_a_question_found_counts_as_recalled(told: Memorist) -> None:
    told.briefing()
    told.context(QUESTION)

    assert {memory.content: memory.access_count for memory in told.list(recalled=True)} == {
        "We deploy with make ship": 1
    }
    assert [memory.content for memory in told.list(recalled=False)] == ["Answer in German"]


def test_a_context_that_no_budget_fits_is_not_recorded(told: Memorist) -> None:
    with record_last(told) as record_none:
        told.context(QUESTION)
        record_none()

    assert list(told.searches.list()) == []
