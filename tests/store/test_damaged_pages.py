"""A lost page of the file, whichever it is: it is told, and takes nothing along that can be read or made again."""

import random
import shutil
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

import memorist
from before_release import place_old_database
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist, StoreBusy, StoreCorrupt, StoreError, salvage
from memorist.cli.app import describe_error as for_people
from memorist.present.framing import describe_error as for_agents
from memorist.store.sqlite.pages import Pages
from memorist.store.writes import content_hash

MEMORIES = 60


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with something in every table, several pages in most of them."""
    folder = tmp_path_factory.mktemp("sound")
    path = folder / "memory.db"
    chance = random.Random(7)
    words = [f"word{number}" for number in range(400)]
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        session = memory.sessions.start(project="house")
        for number in range(MEMORIES):
            text = f"memory {number}: {' '.join(chance.choices(words, k=chance.choice([8, 60, 900])))}"
            memory.add(
                text,
                id=f"memory-{number:03}",
                tags=[f"tag{number % 7}", "all"],
                metadata={"number": number},
                facts=[f"fact {number} is {chance.choice(words)}"],
                session=session.id if number % 2 else None,
                on_near_duplicate="off",
            )
        for number in range(0, 30, 3):
            memory.update(f"memory-{number:03}", title=f"title {number}")
            memory.links.add(f"memory-{number:03}", f"memory-{number + 1:03}", "about")
        memory.supersede("memory-050", "memory-051")
        memory.search("word1", record="log")
        memory.searches.add_feedback("memory-001", True, query="word1")
        memory.lenses.set("mine", project="house")
        (folder / "notes").mkdir()
        for number in range(5):
            (folder / "notes" / f"{number}.md").write_text(f"# Note {number}\n\nSee [next](other.md).\n\nA note.\n")
        memory.documents.index(folder / "notes")
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


def survive(path: Path) -> str:
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
    except StoreError as exc:
        if "salvage" not in str(exc):
            raise
    return salvage_all(path, path.with_suffix(".new"))


def salvage_all(path: Path, new: Path) -> str:
    report = salvage(path, new)
    with memorist.open(new, embedder=HashingEmbedder()) as memory:
        left = [problem for problem in memory.check(repair=True).problems if not problem.startswith("text:")]
        assert left == []
        assert len(list_ids(memory)) >= MEMORIES - 20
        assert report.lost or report.problems or list_ids(memory) == ALL
        assert {one.content for one in memory.list(limit=1000)}
    return "salvaged"


# What these hold follows from the memories; of all others, a page may be one that nothing can make again.
DERIVED = (
    "memories_", "memory_tags", "vector", "part_vectors", "old_vectors", "unembedded", "uncut", "sqlite_sequence",
    "sqlite_autoindex", "_by_",
)  # fmt: skip


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("share", [1, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_page_takes_the_rest_with_it(sound: Path, tmp_path: Path, share: int, part: int) -> None:
    chance = random.Random(11)
    for name, pages in list(list_pages(sound).items())[part::4]:
        for number in chance.sample(pages, min(share, len(pages))):
            damaged = Path(shutil.copy(sound, tmp_path / f"{number}.db"))
            overwrite_page(damaged, number, chance.choice(["zeros", "noise"]))
            outcome = survive(damaged)
            if any(mark in name for mark in DERIVED) and name != "sqlite_autoindex__migrations_1":
                assert outcome in ("repaired", "unharmed"), name


def test_memories_are_found_though_the_page_that_leads_to_them_is_gone(path: Path) -> None:
    overwrite_page(path, list_pages(path)["memories"][0], "zeros")

    with memorist.open(path, embedder="none") as memory:
        with pytest.raises(StoreCorrupt, match="salvage"):
            memory.list()
        assert memory.check(repair=True).ok
        assert list_ids(memory) == ALL
        assert path.with_name("memory.db.before-repair").exists()
        memory.purge()
    assert not path.with_name("memory.db.before-repair").exists()


def test_memories_are_found_though_the_first_page_is_gone(path: Path, tmp_path: Path) -> None:
    overwrite_page(path, 1, "noise")
    with pytest.raises(StoreCorrupt, match="salvage"):
        memorist.open(path, embedder="none")

    report = salvage(path, tmp_path / "new.db")

    assert any("everything but the memories" in line for line in report.lost)
    with memorist.open(tmp_path / "new.db", embedder="none") as memory:
        assert list_ids(memory) == ALL
        assert memory.check().ok


def test_a_repair_leaves_a_file_as_it_is_whose_memories_cannot_all_be_read(path: Path, tmp_path: Path) -> None:
    overwrite_page(path, list_pages(path)["memories"][3], "noise")

    with memorist.open(path, embedder="none") as memory:
        assert not memory.check(repair=True).ok
    report = salvage(path, tmp_path / "new.db")

    lost = {line.split()[1] for line in report.lost if line.startswith("memories:") and "in part" not in line}
    with memorist.open(tmp_path / "new.db", embedder="none") as memory:
        assert list_ids(memory) == ALL - lost
    assert not path.with_name("memory.db.before-repair").exists()


def test_what_was_erased_is_not_salvaged_from_free_pages(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        for number in range(30):
            memory.forget(f"memory-{number:03}", hard=True)
    overwrite_page(path, list_pages(path)["memories"][0], "zeros")

    salvage(path, tmp_path / "new.db")

    with memorist.open(tmp_path / "new.db", embedder="none") as memory:
        assert list_ids(memory) == ALL - {f"memory-{number:03}" for number in range(30)}


def test_files_are_read_again_if_their_chunks_are_lost(path: Path, sound: Path, tmp_path: Path) -> None:
    overwrite_page(path, list_pages(path)["chunks"][0], "zeros")

    salvage(path, tmp_path / "new.db")

    with memorist.open(tmp_path / "new.db", embedder="none") as memory:
        memory.documents.index(sound.parent / "notes")
        assert len(memory.documents.search("note", limit=10)) == 5
        assert memory.check().ok


@pytest.mark.parametrize("index", ["memories_stems", "memories_words"])
def test_a_full_text_index_that_is_gone_is_made_again_when_the_database_is_opened(path: Path, index: str) -> None:
    with closing(apsw.Connection(str(path))) as raw:
        raw.execute(f"drop table {index}")

    with memorist.open(path, embedder="none") as memory:
        assert memory.search("word1")
        memory.add("word1 again")
        assert memory.check().ok


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A database of before the first release."""
    path = tmp_path / "older.db"
    place_old_database(path, empty=True)
    with closing(apsw.Connection(str(path))) as raw:
        raw.executemany(
            """
            insert into memories(
                id, namespace, content, content_hash, sector, tier, salience, created_at, updated_at, reinforced_at)
            values (?, 'default', ?, ?, 'semantic', 'project', 0.5, 0, 0, 0)
            """,
            [(id, text := f"a word of {id}", content_hash(text)) for id in sorted(ALL)],
        )
    return path


def test_an_older_database_is_brought_up_to_date_though_its_full_text_index_is_gone(older: Path) -> None:
    with closing(apsw.Connection(str(older))) as raw:
        raw.execute("drop table memories_words")

    with memorist.open(older, embedder="none") as memory:
        assert memory.check().ok
        assert len(memory.search("word", limit=100)) == MEMORIES


def test_an_older_database_that_cannot_be_brought_up_to_date_is_salvaged(older: Path, tmp_path: Path) -> None:
    for number in list_pages(older)["sqlite_autoindex__migrations_1"]:
        overwrite_page(older, number, "noise")
    before = older.read_bytes()

    with pytest.raises(StoreCorrupt, match="cannot be brought up to date") as failed:
        memorist.open(older, embedder="none")

    assert older.read_bytes() == before
    for describe in (for_people, for_agents):
        assert "memorist salvage" in describe(failed.value)
        assert "repair" not in describe(failed.value)  # which opens the database, too
    assert not salvage(older, tmp_path / "new.db").lost
    with memorist.open(tmp_path / "new.db", embedder="none") as memory:
        assert memory.check().ok
        assert list_ids(memory) == ALL


@pytest.mark.parametrize("kind", ["trigger", "index", "view"])
def test_parts_of_the_schema_that_are_gone_are_made_again(path: Path, kind: str) -> None:
    with closing(apsw.Connection(str(path))) as raw:
        find = "select name from sqlite_master where type = ? and sql is not null and name not like 'memories_live'"
        for (name,) in list(raw.execute(find, (kind,))):
            raw.execute(f"drop {kind} {name}")

    with memorist.open(path, embedder="none") as memory:
        assert any(problem.startswith("schema:") for problem in memory.check().problems)
        assert memory.check(repair=True).ok
        assert memory.check().problems == ()


def test_lost_tags_positions_and_blocks_are_made_again(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as raw:
        raw.execute("delete from memory_tags where rid % 2")
        raw.execute("update session_memories set position = null where rid % 3 = 1")
        raw.execute("delete from vector_blocks")

    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        found = {problem.split(":")[0] for problem in memory.check().problems}
        assert {"tags", "sessions", "vectors"} <= found
        assert memory.check(repair=True).ok
        assert len(memory.list(tags=["tag1"], limit=100)) == len(range(1, MEMORIES, 7))


def test_a_salvage_replaces_no_file_and_needs_one(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="exists"):
        salvage(path, path)
    with pytest.raises(InvalidInput, match="no such file"):
        salvage(tmp_path / "none.db", tmp_path / "new.db")
    (tmp_path / "text.db").write_text("not a database " * 1000)
    with pytest.raises(StoreError, match="no memory can be read"):
        salvage(tmp_path / "text.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_what_is_opened_to_be_read_only_is_not_repaired(path: Path) -> None:
    overwrite_page(path, list_pages(path)["memories_stems_data"][1], "zeros")
    before = path.read_bytes()

    with memorist.open(path, embedder="none", read_only=True) as memory:
        assert not memory.check().ok
        with pytest.raises(StoreError, match="read-only"):
            memory.check(repair=True)
    assert path.read_bytes() == before


def test_what_others_write_during_a_repair_is_kept_or_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overwrite_page(path, list_pages(path)["changes"][0], "zeros")
    rename = Path.replace
    kept: list[str] = []

    def write_and_rename(part: Path, target: Path) -> Path:
        with suppress(StoreBusy):
            kept.append(other.add("said during the repair").id)
        return rename(part, target)

    with (
        memorist.open(path, embedder="none") as memory,
        memorist.open(path, embedder="none", busy_timeout=0.1) as other,
    ):
        monkeypatch.setattr(Path, "replace", write_and_rename)
        assert memory.check(repair=True).ok
        assert list_ids(memory) == ALL | set(kept)
    assert path.with_name("memory.db.before-repair").exists()


def test_noise_that_looks_like_a_row_of_enormous_length_is_none() -> None:
    text_of_petabytes, number = b"\xff" * 7 + b"\x7f", b"\x07"
    header = text_of_petabytes + number
    cell = bytes([len(header) + 1, 1, len(header) + 1]) + header
    page = bytearray(4096)
    page[:10] = b"\x0d\0\0\0\x01\0\0\0\0\x64"  # a leaf with one cell, at 100
    page[100 : 100 + len(cell)] = cell

    assert list(Pages(bytes(4096) + page).find_rows(25, 1)) == []
