"""Texts that once made a pattern of ours read them from each of their places: ten times the text takes ten times."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import memorist
from memorist import MemoristError
from memorist.install.jsonc import parse_object

NOTES = ["- [a] x{ *}y", "- [a] x{ #a*} y", "- x{ *}\x0c", "---\ntags: [{'*}\n---\nx", "---\ntags: [{''*}]\n---\nx"]
INDEXED = ["---\ntags: [{''*}]\n---\nx", "[a]: b\n\n[{\\[*}]: c", "{- *}"]
CONFIGS = ['{"\\*}', '{/**}', '{"*}', '{, *}', "{/* **}"]  # fmt: skip


def fill(text: str, size: int) -> str:
    """Repeat what stands in `{...*}` up to a size."""
    before, _, rest = text.partition("{")
    unit, _, after = rest.rpartition("*}")
    return before + unit * (size // len(unit)) + after


def check_growth(work: Callable[[str], object], text: str) -> None:
    costs = []
    for size in (8_000, 80_000):
        started = time.process_time()
        with suppress(MemoristError):
            work(fill(text, size))
        costs.append(time.process_time() - started)
    assert costs[1] < 40 * costs[0] + 0.5


@pytest.mark.parametrize("text", NOTES)
def test_notes_are_imported_in_linear_time(tmp_path: Path, text: str) -> None:
    def import_note(content: str) -> None:
        (tmp_path / "note.md").write_text(content)
        with memorist.open(":memory:", embedder="none") as memory:
            memory.import_(tmp_path / "note.md", redact=False)

    check_growth(import_note, text)


@pytest.mark.parametrize("text", INDEXED)
def test_files_are_indexed_in_linear_time(tmp_path: Path, text: str) -> None:
    def index(content: str) -> None:
        (tmp_path / "note.md").write_text(content)
        with memorist.open(":memory:", embedder="none") as memory:
            memory.index(tmp_path / "note.md", redact=False)

    check_growth(index, text)


@pytest.mark.parametrize("text", CONFIGS)
def test_settings_of_other_programs_are_read_in_linear_time(text: str) -> None:
    check_growth(lambda content: parse_object(content, comments=True), text)


def test_a_long_message_is_no_question_that_takes_long() -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        started = time.process_time()
        memory.context("everything about a" + "!" * 900_000 + "b")
        assert time.process_time() - started < 10
