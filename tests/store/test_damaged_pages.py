"""A page of the file that is lost, whichever it is: it is told, and what can be made again or read is not lost with it."""

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from conftest import HashingEmbedder

import memorist
from memorist import Memorist, StoreError, salvage

MEMORIES = 120


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with something in every table, several pages in most of them."""
    folder = tmp_path_factory.mktemp("sound")
    path = folder / "memory.db"
    chance = random.Random(7)
    words = [f"word{number}" for number in range(400)]
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        session = memory.start_session(project="house")
        for number in range(MEMORIES):
            text = f"memory {number}: {' '.join(chance.choices(words, k=chance.choice([8, 60, 900])))}"
            memory.add(
                text,
                id=f"memory-{number:03}",
                tags=[f"tag{number % 7}", "all"],
                metadata={"number": number},
                facts=[f"fact {number} is {chance.choice(words)}"],
                session=session.id if number % 2 else None,
                near="off",
            )
        for number in range(0, 30, 3):
            memory.update(f"memory-{number:03}", title=f"title {number}")
            memory.relate(f"memory-{number:03}", f"memory-{number + 1:03}", "about")
        memory.supersede("memory-050", "memory-051")
        memory.search("word1", record="log")
        memory.feedback("memory-001", True, query="word1")
        memory.set_lens("mine", project="house")
        (folder / "notes").mkdir()
        for number in range(5):
            (folder / "notes" / f"{number}.md").write_text(f"# Note {number}\n\nSee [next](other.md).\n\nA note.\n")
        memory.index(folder / "notes")
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path / "memory.db"))


def list_pages(path: Path) -> dict[str, list[int]]:
    """Return the numbers of the pages of every table and index."""
    pages: dict[str, list[int]] = {}
    with closing(apsw.Connection(str(path))) as raw:
        for name, number in raw.execute("select name, pageno from dbstat order by name, pageno"):
            pages.setdefault(name, []).append(number)
    return pages


def overwrite_page(path: Path, number: int, kind: str) -> None:
    with path.open("r+b") as file:
        file.seek((number - 1) * 4096)
        file.write({"zeros": bytes(4096), "noise": random.Random(number).randbytes(4096)}[kind])


def list_ids(memory: Memorist) -> set[str]:
    return {one.id for one in memory.list(limit=1000)}


ALL = {f"memory-{number:03}" for number in range(MEMORIES)}


def survive(path: Path, new: Path) -> str:
    """Take a damaged file the way a user would, and tell how it came out."""
    try:
        with memorist.open(path, embedder=HashingEmbedder()) as memory:
            if memory.check().ok:
                assert list_ids(memory) == ALL
                return "unharmed"
            report = memory.check(repair=True)
            if report.ok:
                assert memory.check().problems == ()
                assert list_ids(memory) == ALL
                assert memory.search("word1")
                return "repaired"
            assert [problem for problem in report.problems if problem not in report.repaired]
            outcome = "salvaged"
    except StoreError as exc:
        assert str(exc)
        outcome = "not opened, salvaged"
    salvaged = salvage(path, new)
    with memorist.open(new, embedder=HashingEmbedder()) as memory:
        found = list_ids(memory)
        assert memory.check(repair=True).ok, memory.check().problems
        assert len(found) >= MEMORIES - 40
        assert found == ALL or salvaged.lost
    return outcome


@pytest.mark.parametrize("kind", ["zeros", "noise"])
def test_no_page_takes_the_rest_down(sound: Path, tmp_path: Path, kind: str) -> None:
    outcomes: dict[str, list[str]] = {}
    for name, pages in list_pages(sound).items():
        for number in sorted({pages[0], pages[len(pages) // 2], pages[-1]}):
            damaged = Path(shutil.copy(sound, tmp_path / f"{number}.db"))
            overwrite_page(damaged, number, kind)
            outcomes.setdefault(survive(damaged, tmp_path / f"{number}-new.db"), []).append(f"{name}:{number}")
    print(outcomes)
    primary = ("memories", "facts")
    assert not [name for name in outcomes.get("salvaged", []) if name.startswith("memories_")]
