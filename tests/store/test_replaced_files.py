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
