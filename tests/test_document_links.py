"""Links between files: where they lead, and from where."""

from collections.abc import Callable
from pathlib import Path

import pytest

import memorist
from memorist import Memorist, NotFound

Write = Callable[[str, str], Path]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def write(notes: Path) -> Write:
    def write(name: str, text: str) -> Path:
        file = notes / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    return write


@pytest.fixture
def memory(path: Path) -> Memorist:
    return memorist.open(path, embedder="none")


@pytest.mark.parametrize(
    ("link", "leads_to"),
    [
        ("[the plan](plan.md)", "plan.md"),
        ("[the plan](plan)", "plan.md"),
        ("[[plan]]", "plan.md"),
        ("[[Plan|what we do]]", "plan.md"),
        ("[deep](deep/note.md#there)", "deep/note.md"),
        ("[from the root](/deep/note.md)", "deep/note.md"),
        ("[[note]]", "deep/note.md"),
        ("[a folder](deep)", "deep/index.md"),
        ("[gone](gone.md)", None),
        ("[[nobody]]", None),
        ("[out](../outside.md)", None),
    ],
)
def test_a_link_leads_to_the_file_it_names(
    memory: Memorist, notes: Path, write: Write, link: str, leads_to: str | None
) -> None:
    source = write("start.md", f"# Start\n\nRead {link} first.\n")
    write("plan.md", "# Plan\n\nWe plan.\n")
    write("deep/note.md", "# Note\n\nFar down.\n")
    write("deep/index.md", "# Deep\n\nAll of it.\n")
    (notes.parent / "outside.md").write_text("# Outside\n\nNot ours.\n", "utf-8")
    memory.documents.index(notes)

    (found,) = memory.documents.find(source).links

    assert found.line == 3
    assert found.path == (str(notes / leads_to) if leads_to else None)


def test_a_file_knows_which_files_link_to_it(memory: Memorist, notes: Path, write: Write) -> None:
    target = write("plan.md", "# Plan\n\nWe plan.\n")
    first = write("a.md", "See [[plan]], and again [[plan]].\n")
    second = write("deep/b.md", "See [it](../plan.md).\n")
    write("c.md", "See nothing.\n")
    memory.documents.index(notes)

    assert memory.documents.find(target).linked_from == (str(first), str(second))


def test_links_follow_a_changed_file(memory: Memorist, notes: Path, write: Write) -> None:
    target, source = write("plan.md", "# Plan\n\nWe plan.\n"), write("a.md", "See [[plan]].\n")
    memory.documents.index(notes)
    write("a.md", "See nothing any more, really nothing.\n")
    memory.documents.index(notes)

    assert memory.documents.find(source).links == ()
    assert memory.documents.find(target).linked_from == ()


def test_a_file_that_is_not_indexed_is_not_found(memory: Memorist, notes: Path) -> None:
    with pytest.raises(NotFound, match=r"other\.md is not indexed"):
        memory.documents.find(notes / "other.md")
