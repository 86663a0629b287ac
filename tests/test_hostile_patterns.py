"""Texts that once made a pattern of ours read them from each of their places: ten times the text takes ten times."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import memorist
from memorist import MemoristError
from memorist.install.jsonc import parse_object
from memorist.install.toml import parse_document, patch_table

NOTES = ["- [a] x{ *}y", "- [a] x{ #a*} y", "- x{ *}\x0c", "---\ntags: [{'*}\n---\nx", "---\ntags: [{''*}]\n---\nx"]
INDEXED = ["---\ntags: [{''*}]\n---\nx", "[a]: b\n\n[{\\[*}]: c", "{- *}"]
TABLES = ["a = '''\n{[\n*}'''\n", "a = [\n{[],\n*}]\n", "{# [\n*}a = 1\n"]
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
            memory.transfer.import_(tmp_path / "note.md", redact=False)

    check_growth(import_note, text)


@pytest.mark.parametrize("text", INDEXED)
def test_files_are_indexed_in_linear_time(tmp_path: Path, text: str) -> None:
    def index(content: str) -> None:
        (tmp_path / "note.md").write_text(content)
        with memorist.open(":memory:", embedder="none") as memory:
            memory.documents.index(tmp_path / "note.md", redact=False)

    check_growth(index, text)


@pytest.mark.parametrize("text", CONFIGS)
def test_settings_of_other_programs_are_read_in_linear_time(text: str) -> None:
    check_growth(lambda content: parse_object(content, comments=True), text)


@pytest.mark.parametrize("text", TABLES)
def test_a_table_is_written_into_settings_in_linear_time(text: str) -> None:
    def install(content: str) -> None:
        entry = {"mcp_servers": {"memorist": {"command": "memorist"}}}
        assert patch_table(content, parse_document(content) | entry, "mcp_servers", "memorist").startswith(content)

    check_growth(install, text)


def test_metadata_with_many_secrets_for_keys_is_redacted_in_linear_time() -> None:
    def add(content: str) -> None:
        with memorist.open(":memory:", embedder="none", redact=True) as memory:
            memory.add("a note", metadata=dict.fromkeys(content.split("|"), 1))

    def make_keys(content: str) -> str:
        return "|".join(f"ghp_{number:05}{'aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1'}" for number in range(len(content) // 8))

    check_growth(lambda content: add(make_keys(content)), "{a*}")


def test_a_long_message_is_no_question_that_takes_long() -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        started = time.process_time()
        memory.context("everything about a" + "!" * 900_000 + "b")
        assert time.process_time() - started < 10
