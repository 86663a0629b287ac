"""Errors of the store come with the command that helps."""

from pathlib import Path

import pytest

import memorist
from memorist.cli.app import HINTS
from memorist.cli.app import describe_error as for_people
from memorist.errors import EmbedderUnavailable, Hint, InvalidInput, NotFound, StoreCorrupt
from memorist.present.framing import describe_error as for_agents


def test_an_error_without_a_hint_is_its_message() -> None:
    assert for_people(NotFound("gone")) == for_agents(NotFound("gone")) == "gone"


def test_each_surface_says_it_in_its_own_words() -> None:
    error = NotFound("memory 1234 was forgotten; restore it first", hint=Hint("restore_memory", "1234"))

    assert for_people(error) == "memory 1234 was forgotten; restore it first (`memorist restore 1234`)"
    assert for_agents(error) == f"{error}; only the user can bring it back, with `memorist restore 1234`"
    assert str(error) == "memory 1234 was forgotten; restore it first"


def test_what_an_agent_cannot_do_is_not_said_to_it() -> None:
    assert for_agents(InvalidInput("copy.db exists", hint=Hint("overwrite"))) == "copy.db exists"


def test_the_hint_of_a_cause_counts() -> None:
    error = StoreCorrupt("keyword search: damaged")
    error.__cause__ = StoreCorrupt("damaged", hint=Hint("repair"))

    assert for_people(error) == f"keyword search: damaged{HINTS['repair']}"


def test_a_model_that_fails_ends_with_its_message() -> None:
    class Broken:
        model_id, dimensions = "broken", 3

        def embed(self, texts: object) -> list[list[float]]:
            raise EmbedderUnavailable("it is not installed")

    with memorist.open(":memory:", embedder=Broken()) as memory:
        memory.add("the ferry leaves at nine")
        with pytest.raises(EmbedderUnavailable) as failed:
            memory.reembed()

    assert for_people(failed.value) == for_agents(failed.value) == "it is not installed"


def test_an_error_raised_from_itself_has_no_hint() -> None:
    error = NotFound("gone")
    error.__cause__ = error

    assert for_people(error) == "gone"


def test_a_file_that_cannot_be_opened_comes_with_the_way_out(tmp_path: Path) -> None:
    (file := tmp_path / "memory.db").write_bytes(b"no database" * 1000)

    with pytest.raises(StoreCorrupt) as failed:
        memorist.open(file, embedder="none")

    assert f"`memorist salvage {file} NEW`" in for_people(failed.value)
    assert "`memorist salvage`" in for_agents(failed.value)
