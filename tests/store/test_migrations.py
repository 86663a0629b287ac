"""Older databases are brought up to date, newer ones refused, and a copy is kept."""

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

import memorist
from answers import all_texts
from memorist import StoreError
from memorist.store.migrations import load_migrations
from memorist.store.sqlite.backend import SqliteBackend
from memorist.store.store import Store
from memorist.store.writes import content_hash
from statements import read_column

SQLITE = load_migrations("sqlite")  # the migrations of this version


def migrated(path: Path, migrations: Mapping[str, str]) -> SqliteBackend:
    return SqliteBackend(str(path), migrations=SQLITE | migrations)


def test_an_older_database_is_migrated_after_a_copy_of_it_was_kept(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("from before")

    migrated(path, {"900-one": "create table one(x)", "901-two": "update memories set content = 'changed'"}).close()

    assert read_column(path, "select content from memories") == ["changed"]
    assert read_column(path, "select name from _migrations order by name") == [*SQLITE, "900-one", "901-two"]
    kept = Path(f"{path}.before-900-one")
    assert read_column(kept, "select content from memories") == ["from before"]
    with memorist.open(kept, embedder="none") as memory:
        assert all_texts(memory) == {"from before"}
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, kept.name]


def test_a_database_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    memorist.open(path, embedder="none").close()
    migrated(path, {"999-future": "create table future(x)"}).close()
    before = path.read_bytes()

    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"newer version of Memorist \(it has 999-future.*upgrade Memorist"):
            memorist.open(path, embedder="none", read_only=read_only)

    assert path.read_bytes() == before


NEWER = """
    drop trigger vectors_log_insert;
    create table extra(rid integer);
    create trigger extra_insert after insert on memories begin insert into extra values (new.rid); end;
"""


class TestMigratedByANewerVersionWhileItIsOpen:
    def test_what_is_written_meanwhile_is_there_for_both(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("before")
            migrated(path, {"900-newer": NEWER}).close()
            memory.add("after")
            memory.forget(memory.add("forgotten").id)

            assert all_texts(memory) == {"before", "after"}
            assert len(memory.search("after")) == 1
        assert read_column(path, "select count(*) from extra") == [2]
        with closing(Store(migrated(path, {"900-newer": NEWER}))) as store:
            assert store.stats(None).memories == 2

    def test_it_is_not_repaired_into_the_older_schema(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("before")
            migrated(path, {"900-newer": NEWER}).close()

            for repair in (False, True):
                with pytest.raises(StoreError, match="newer version of Memorist"):
                    memory.check(repair=repair)

        assert "vectors_log_insert" not in read_column(path, "select name from sqlite_master")

    def test_a_purge_of_the_older_one_leaves_no_copy_of_the_newer(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("a secret heron")
            migrated(path, {"900-newer": NEWER}).close()
            memory.forget(memory.list()[0].id, hard=True)
            memory.purge()

        assert not [file for file in path.parent.iterdir() if b"heron" in file.read_bytes()]


def test_a_database_whose_migration_was_another_one_is_refused(path: Path) -> None:
    migrated(path, {"900-one": "create table one(x)"}).close()

    with pytest.raises(StoreError, match="migration 900-one of this database is not the one"):
        migrated(path, {"900-one": "create table one(x, y)"})


def test_a_database_that_needs_no_migration_is_not_copied(path: Path) -> None:
    memorist.open(path, embedder="none").close()
    memorist.open(path, embedder="none").close()

    assert not list(path.parent.glob("*.before-*"))


def test_an_older_database_opened_read_only_asks_to_be_opened_for_writing_once(path: Path) -> None:
    memorist.open(path, embedder="none").close()

    with pytest.raises(StoreError, match="older schema; open it once for writing"):
        SqliteBackend(str(path), read_only=True, migrations=SQLITE | {"900-extra": "create table extra(x)"})

    assert not list(path.parent.glob("*.before-*"))


def test_a_migration_that_fails_leaves_the_database_as_it_was(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("from before")

    with pytest.raises(StoreError, match="no such table"):
        migrated(path, {"900-bad": "create table half(x); insert into missing values (1)"})

    assert "half" not in read_column(path, "select name from sqlite_master")
    with memorist.open(path, embedder="none") as memory:
        assert all_texts(memory) == {"from before"}


class TestFromTheFirstVersion:
    """A database as the first version left it: memories whose two times were read one after the other."""

    @pytest.fixture
    def old(self, path: Path) -> Path:
        first = dict(list(SQLITE.items())[:1])
        SqliteBackend(str(path), migrations=first).close()
        database = apsw.Connection(str(path))
        for id, content, created in (
            ("first-one", "The port is 8080", 1_000_000_000),
            ("second-one", "The port is 9090", 2_000_000_000),
        ):
            database.execute(
                """
                insert into memories(
                    id, namespace, content, content_hash, sector, tier, salience, created_at, updated_at, reinforced_at)
                values (?, 'default', ?, ?, 'semantic', 'project', 0.5, ?, ?, ?)
                """,
                (id, content, content_hash(content), created, created + 120, created + 120),
            )
        snapshot = {
            "content": "The port is 8080",
            "salience": 0.2,
            "title": None,
            "tags": [],
            "updated_at": 1_000_000_120,
        }
        snapshot |= {"project": None, "sector": "semantic", "tier": "project", "kind": None, "source": None}
        database.execute(
            "insert into memory_history(rid, version, replaced_at, snapshot) values (1, 1, ?, ?)",
            (3_000_000_000, json.dumps(snapshot | {"summary": None, "metadata": {}})),
        )
        database.close()
        return path

    @pytest.mark.parametrize("word", ["port", "po*", "por*", "is"])
    def test_it_is_sound_and_found_by_every_word_and_its_beginning(self, old: Path, word: str) -> None:
        with memorist.open(old, embedder="none") as memory:
            assert memory.check().ok
            assert {hit.memory.id for hit in memory.search(word)} == {"first-one", "second-one"}

    def test_its_full_text_index_is_filled_from_the_text_once(self, old: Path) -> None:
        database = apsw.Connection(str(old))
        for index in ("memories_stems", "memories_words"):
            database.execute(f"insert into {index}({index}) values ('delete-all')")
        database.close()

        with memorist.open(old, embedder="none") as memory:
            assert {hit.memory.id for hit in memory.search("port")} == {"first-one", "second-one"}
            assert memory.check().ok
        before = old.read_bytes()
        with memorist.open(old, embedder="none") as memory:
            assert len(memory.search("port")) == 2

        assert old.read_bytes() == before

    def test_what_was_not_dated_back_is_superseded_from_now_on(self, old: Path) -> None:
        with memorist.open(old, embedder="none") as memory:
            before = datetime.now(UTC)
            memory.supersede("first-one", "second-one")

            assert (memory.get("first-one").valid_until or before) > before
            assert len(memory.search("port", as_of=before)) == 2

    def test_the_salience_of_then_is_known(self, old: Path) -> None:
        with memorist.open(old, embedder="none") as memory:
            assert memory.get("first-one", as_of=2_500).salience == 0.2
            assert memory.get("first-one").salience == 0.5

    def test_what_a_process_of_that_version_still_adds_has_its_time(self, old: Path) -> None:
        with memorist.open(old, embedder="none") as memory:
            database = apsw.Connection(str(old))
            database.execute(
                """
                insert into memories(
                    id, namespace, content, content_hash, sector, tier, salience, created_at, updated_at, reinforced_at)
                values ('late-one', 'default', 'late', x'09', 'semantic', 'project', 0.5, 5000000000, 5000000000, 0)
                """
            )
            database.close()

            assert len(memory.list(as_of=4_000)) == 2
            assert len(memory.list(as_of=6_000)) == 3
