"""Backups: whole whatever happens meanwhile, checked before they count, and put back without a half of anything."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import apsw
import pytest

import memorist
from answers import all_texts, texts
from before_release import place_old_database
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist, MemoristError, StoreBusy, StoreCorrupt, StoreError, restore_backup
from memorist.store.sqlite import copies
from processes import expect, read_line, send_line, start_program
from statements import read_rows
from test_export import exported, full_life

kills = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")


def sound(path: Path) -> set[str]:
    """What a database holds; it has to be sound."""
    with memorist.open(path, embedder="none") as memory:
        assert memory.check().problems == ()
        return all_texts(memory)


def test_a_backup_is_the_whole_database_in_one_file(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        full_life(memory, tmp_path / "docs")
        first = exported(memory, vectors=True)
        with memorist.open(path, namespace="other", embedder="none") as other:
            other.add("of another namespace")
        memory.transfer.backup(tmp_path / "copy.db")

    assert sorted(file.name for file in tmp_path.glob("copy.db*")) == ["copy.db"]
    assert read_rows(tmp_path / "copy.db", "pragma journal_mode") == [("delete",)]
    with memorist.open(tmp_path / "copy.db", embedder=HashingEmbedder()) as copy:
        assert exported(copy, vectors=True) == first
        assert copy.check().problems == ()
        assert copy.search("retries")
    with memorist.open(tmp_path / "copy.db", namespace="other", embedder="none") as other:
        assert texts(other.list()) == ["of another namespace"]


def test_a_database_in_memory_can_be_backed_up_too(tmp_path: Path) -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        memory.add("only here")
        memory.transfer.backup(tmp_path / "copy.db")

    assert sound(tmp_path / "copy.db") == {"only here"}


WRITER = """
    import sys, memorist
    with memorist.open(sys.argv[1], embedder="none", synchronous="normal") as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(1_000_000):
            memory.add_many(f"{sys.argv[2]} {number} part {part} " + "and more " * 50 for part in range(4))
            print(number, flush=True)
"""


def test_a_backup_while_others_write_is_sound_and_of_one_moment(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "PAGES_AT_ONCE", 5)  # so that there is time to write between two of them
    with memorist.open(path, embedder="none") as memory:
        memory.add_many(f"before {number} {'and well ' * 50}" for number in range(1000))
        with ExitStack() as stack:
            writers = [stack.enter_context(start_program(WRITER, path, f"writer{name}")) for name in range(2)]
            expect("ready", writers)
            for writer in writers:
                send_line(writer)
            for round in range(3):
                done = {index: int(read_line(writer)) for index, writer in enumerate(writers)}
                memory.transfer.backup(tmp_path / f"copy{round}.db")
                found = sound(tmp_path / f"copy{round}.db")
                assert {f"before {number} {'and well ' * 50}".strip() for number in range(1000)} <= {
                    text.strip() for text in found
                }
                for index, last in done.items():
                    of_writer = [text for text in found if text.startswith(f"writer{index} ")]
                    assert len(of_writer) % 4 == 0  # whole transactions
                    assert len(of_writer) >= 4 * (last + 1)  # with all that was acknowledged before
    assert not list(tmp_path.glob("*.part*"))


def test_a_backup_does_not_overwrite_unless_told(memory: Memorist, path: Path, tmp_path: Path) -> None:
    memory.add("one")
    memory.transfer.backup(tmp_path / "copy.db")
    memory.add("two")

    with pytest.raises(InvalidInput, match="exists; choose another name"):
        memory.transfer.backup(tmp_path / "copy.db")
    assert sound(tmp_path / "copy.db") == {"one"}
    memory.transfer.backup(tmp_path / "copy.db", overwrite=True)
    assert sound(tmp_path / "copy.db") == {"one", "two"}


@pytest.mark.sqlite_only("a server is backed up by its own tools")
@pytest.mark.parametrize(
    ("wrong", "about"),
    [
        (lambda memory, folder: memory.transfer.backup(folder / "memory.db", overwrite=True), "the database itself"),
        (lambda memory, folder: memory.transfer.backup(folder), "is a directory"),
        (lambda memory, folder: memory.transfer.backup(folder / "no" / "copy.db"), "does not exist"),
        (lambda memory, folder: memory.transfer.backup(folder / "copy.db", overwrite=1), "must be True or False"),
        (lambda memory, folder: memory.transfer.backup(None), "by its path"),
    ],
)
def test_a_place_that_cannot_be_backed_up_to_is_refused(
    memory: Memorist, tmp_path: Path, wrong: Callable[[Memorist, Path], object], about: str
) -> None:
    memory.add("one")

    with pytest.raises(InvalidInput, match=about):
        wrong(memory, tmp_path)

    assert texts(memory.list()) == ["one"]
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.sqlite_only("a server is backed up by its own tools")
def test_a_database_that_somebody_has_open_is_not_overwritten_by_a_backup(memory: Memorist, tmp_path: Path) -> None:
    memory.add("one")
    with memorist.open(tmp_path / "other.db", embedder="none") as other:
        other.add("two")
        with pytest.raises(InvalidInput, match="is open, or was not closed"):
            memory.transfer.backup(tmp_path / "other.db", overwrite=True)
        assert texts(other.list()) == ["two"]


def test_a_damaged_database_gives_no_backup(copy: Callable[[], Path], tmp_path: Path) -> None:
    path = copy()
    size = path.stat().st_size
    with path.open("r+b") as file:
        for offset in range(size // 2 // 4096 * 4096, size, 4 * 4096):
            file.seek(offset)
            file.write(b"\xff" * 512)

    with memorist.open(path, embedder="none") as memory, pytest.raises(StoreCorrupt):
        memory.transfer.backup(tmp_path / "copy.db")

    assert not list(tmp_path.glob("copy.db*"))


# Putting it back


def test_a_backup_is_restored_where_there_is_nothing(memory: Memorist, path: Path, tmp_path: Path) -> None:
    memory.add("one")
    memory.transfer.backup(tmp_path / "copy.db")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "memory.db-wal").write_bytes(b"left behind by a database that is gone")

    restore_backup(tmp_path / "copy.db", tmp_path / "new" / "memory.db")

    assert sound(tmp_path / "new" / "memory.db") == {"one"}
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["memory.db"]


def test_a_restore_does_not_overwrite_unless_told_and_keeps_what_was_there(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("one")
        memory.transfer.backup(tmp_path / "copy.db")
        memory.add("two")
    with pytest.raises(InvalidInput, match="exists; overwriting it keeps a copy"):
        restore_backup(tmp_path / "copy.db", path)
    assert sound(path) == {"one", "two"}

    restore_backup(tmp_path / "copy.db", path, overwrite=True)

    assert sound(path) == {"one"}
    assert sound(Path(f"{path}.before-restore")) == {"one", "two"}
    assert not list(tmp_path.glob("*.part*"))


def test_a_second_restore_keeps_what_the_first_one_kept(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("one")
        memory.transfer.backup(tmp_path / "copy.db")
        memory.add("two")

    first, second = (restore_backup(tmp_path / "copy.db", path, overwrite=True) for _ in range(2))

    assert (first, second) == (Path(f"{path}.before-restore"), Path(f"{path}.before-restore-2"))
    assert (sound(Path(f"{path}.before-restore")), sound(Path(f"{path}.before-restore-2"))) == ({"one", "two"}, {"one"})
    with memorist.open(path, embedder="none") as memory:
        memory.purge()
    assert not list(path.parent.glob("*.before-*"))


def test_whoever_has_the_database_open_goes_on_with_what_was_restored(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder=HashingEmbedder()) as memory:
        memory.add("red fox")
        memory.transfer.backup(tmp_path / "copy.db")
        for number in range(50):
            memory.add(f"blue whale {number}")
        assert len(memory.search("blue whale", mode="semantic", limit=100)) == 51

        restore_backup(tmp_path / "copy.db", path, overwrite=True)

        assert texts(memory.list()) == ["red fox"]
        assert texts(memory.search("whale fox", mode="semantic", limit=100)) == ["red fox"]
        memory.add("green frog")
        assert texts(memory.search("frog", mode="semantic", limit=1)) == ["green frog"]
        assert memory.check().problems == ()


def test_what_others_write_during_a_restore_is_in_the_kept_copy_or_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.replace
    kept = {"one"}

    def write_and_rename(part: Path, target: Path) -> Path:
        with suppress(StoreBusy):
            kept.add(memory.add("said during the restore").content)
        return rename(part, target)

    with memorist.open(path, embedder="none", busy_timeout=0.1) as memory:
        memory.add("one")
        memory.transfer.backup(tmp_path / "copy.db")
        monkeypatch.setattr(Path, "replace", write_and_rename)
        restore_backup(tmp_path / "copy.db", path, overwrite=True)

    assert sound(Path(f"{path}.before-restore")) == kept


def test_a_backup_of_an_older_version_is_brought_up_to_date_before_anybody_sees_it(path: Path, tmp_path: Path) -> None:
    place_old_database(tmp_path / "old.db")
    with memorist.open(path, embedder="none") as memory:
        memory.add("blue whale")

        restore_backup(tmp_path / "old.db", path, overwrite=True)

        assert "The port is 9090" in texts(memory.list())
        assert "blue whale" not in texts(memory.list())
        assert len(list(memory.documents.list())) == 2
        assert memory.stats().schema == "001-schema"
        assert memory.check().problems == ()
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.sqlite_only("a server is backed up by its own tools")
def test_an_empty_database_is_no_obstacle(memory: Memorist, tmp_path: Path) -> None:
    memory.add("one")
    memory.transfer.backup(tmp_path / "copy.db")
    connection = apsw.Connection(str(tmp_path / "empty.db"))
    connection.execute("create table t(x); drop table t")
    connection.close()

    restore_backup(tmp_path / "copy.db", tmp_path / "empty.db", overwrite=True)

    assert sound(tmp_path / "empty.db") == {"one"}


def test_a_restore_after_one_of_a_damaged_database_keeps_what_was_there(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("one")
        memory.transfer.backup(tmp_path / "copy.db")
    path.write_bytes(b"damaged" * 1000)
    Path(f"{path}-wal").write_bytes(b"left behind")
    restore_backup(tmp_path / "copy.db", path, overwrite=True)
    with memorist.open(path, embedder="none") as memory:
        memory.add("two")

    restore_backup(tmp_path / "copy.db", path, overwrite=True)

    assert sound(path) == {"one"}
    assert sound(Path(f"{path}.before-restore-2")) == {"one", "two"}


def test_a_purge_takes_the_copy_of_before_a_restore_with_it(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("one")
        memory.transfer.backup(tmp_path / "copy.db")
        restore_backup(tmp_path / "copy.db", path, overwrite=True)
        assert Path(f"{path}.before-restore").exists()
        memory.purge()
        assert not Path(f"{path}.before-restore").exists()


def other_program(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("create table notes(text)")
    connection.close()


def newer(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("from the future")
    read_rows(path, "insert into _migrations values ('999-future', 'x')")


def damaged(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add_many(f"note {number} {'long ' * 100}" for number in range(500))
        memory.transfer.backup(f"{path}.whole")
    data = bytearray(Path(f"{path}.whole").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 8192] = b"\xff" * 8192
    path.unlink()
    path.write_bytes(data)


NO_BACKUPS: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda path: None, "no such file"),
    "a folder": (lambda path: path.mkdir(), "is not a file"),
    "an empty file": (lambda path: path.touch(), "it is empty"),
    "a text": (lambda path: path.write_text("dear diary\n" * 100), "not a database"),
    "a database of another program": (other_program, "of another program"),
    "a database of a newer version": (newer, "newer version"),
    "a damaged one": (damaged, "damaged"),
}


@pytest.mark.parametrize("what", NO_BACKUPS)
def test_what_is_no_sound_backup_is_refused_and_the_database_left_alone(path: Path, tmp_path: Path, what: str) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("safe")
    make, about = NO_BACKUPS[what]
    make(tmp_path / "wrong.db")

    with pytest.raises(MemoristError, match=about):
        restore_backup(tmp_path / "wrong.db", path, overwrite=True)

    assert sound(path) == {"safe"}
    assert not Path(f"{path}.before-restore").exists()


def test_a_database_cannot_be_restored_from_itself(path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("safe")

    with pytest.raises(InvalidInput, match="the database itself"):
        restore_backup(path, path, overwrite=True)

    assert sound(path) == {"safe"}


def test_a_damaged_database_is_moved_aside_and_replaced(path: Path, tmp_path: Path) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("one")
        memory.transfer.backup(tmp_path / "copy.db")
    path.write_bytes(b"no database at all" * 1000)

    restore_backup(tmp_path / "copy.db", path, overwrite=True)

    assert sound(path) == {"one"}
    assert Path(f"{path}.before-restore").read_bytes().startswith(b"no database at all")


@pytest.mark.sqlite_only("a server is backed up by its own tools")
def test_a_database_of_another_program_is_not_replaced(memory: Memorist, tmp_path: Path) -> None:
    memory.add("one")
    memory.transfer.backup(tmp_path / "copy.db")
    other_program(tmp_path / "other.db")

    with pytest.raises(StoreCorrupt, match="of another program"):
        restore_backup(tmp_path / "copy.db", tmp_path / "other.db", overwrite=True)

    assert read_rows(tmp_path / "other.db", "select count(*) from notes") == [(0,)]
    assert not (tmp_path / "other.db.before-restore").exists()


def test_a_folder_that_cannot_be_written_is_refused(memory: Memorist, tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("permissions do not hold for this user")
        with pytest.raises(StoreError, match="cannot write beside"):
            memory.transfer.backup(folder / "copy.db")
    finally:
        folder.chmod(0o700)


RESTORER = """
    import sys
    from memorist.engine.transfer import restore_backup
    print("ready", flush=True)
    for _ in range(1000):
        restore_backup(sys.argv[1], sys.argv[2], overwrite=True)
        print("done", flush=True)
"""


@kills
def test_a_restore_that_is_killed_leaves_one_or_the_other_database(copy: Callable[[], Path], tmp_path: Path) -> None:
    path = copy()
    with memorist.open(tmp_path / "small.db", embedder="none") as memory:
        memory.add("small")
        memory.transfer.backup(tmp_path / "backup.db")
    before = sound(path)
    seen = set()
    for pause in (0.0, 0.01, 0.03, 0.06, 0.1):
        path = copy()
        with start_program(RESTORER, tmp_path / "backup.db", path) as process:
            expect("ready", [process])
            time.sleep(pause)
            process.kill()
            process.wait()
        found = sound(path)
        assert found in (before, {"small"})
        seen.add(len(found))
    assert seen
