"""Older databases are brought up to date, newer ones refused, and a copy is kept."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

import memorist
from answers import all_texts
from memorist import StoreError
from memorist.store.migrations import load_migrations
from memorist.store.sqlite.backend import SqliteBackend
from memorist.store.store import Store
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
    drop trigger vectors_log_update;
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

        assert "vectors_log_update" not in read_column(path, "select name from sqlite_master")

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
