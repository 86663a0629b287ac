"""A database that is deleted or replaced under a running process, and who may read the files that are made."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import memorist
from memorist import Memorist, StoreError

DELETING: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "replaced by a copy": lambda path: shutil.copy(path, path.with_suffix(".new")) and replace(path),
    "replaced by another": lambda path: path.with_suffix(".new").write_bytes(b"") or replace(path),
}


def replace(path: Path) -> Path:
    return path.with_suffix(".new").replace(path)


@pytest.mark.parametrize("way", DELETING)
def test_nothing_is_acknowledged_into_a_file_that_is_gone(way: str, memory: Memorist, path: Path) -> None:
    memory.add("said before")
    DELETING[way](path)
    with pytest.raises(StoreError, match="deleted or replaced"):
        memory.add("said after")
    with pytest.raises(StoreError, match="deleted or replaced"):
        memory.search("said")


def test_a_file_that_vanishes_during_a_write_is_noticed_before_it_is_acknowledged(memory: Memorist, path: Path) -> None:
    memory.add("said before")

    def texts() -> object:
        yield "one text"
        path.unlink()
        yield "another text"

    with pytest.raises(StoreError, match="deleted or replaced"):
        memory.add_many(texts())


def test_a_database_opened_again_uses_the_file_that_is_there(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("said before")
    path.unlink()
    with memorist.open(path, embedder="none") as memory:
        assert memory.stats().memories == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_owner_may_read_a_new_database_wherever_it_is(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with memorist.open(tmp_path / "shared" / "memory.db", embedder="none") as memory:
            memory.add("a private text")
            modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "shared").iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}, modes


@pytest.mark.skipif(os.name == "nt", reason="Windows needs a right of its own for links")
def test_a_link_that_leads_to_another_database_meanwhile_is_noticed(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    for name in ("one.db", "two.db"):
        memorist.open(tmp_path / name, embedder="none").close()
    link.symlink_to("one.db")
    with memorist.open(link, embedder="none") as memory:
        memory.add("said before")
        link.unlink()
        link.symlink_to("two.db")
        with pytest.raises(StoreError, match="deleted or replaced"):
            memory.add("said after")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_owner_may_read_a_new_database_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    before = os.umask(0o022)
    try:
        memorist.open(tmp_path / "link.db", embedder="none").close()
    finally:
        os.umask(before)
    assert (tmp_path / "real.db").stat().st_mode & 0o777 == 0o600
