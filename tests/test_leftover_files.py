"""What killed processes leave half written is removed, and what Memorist writes can be read by its owner alone."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import memorist
from memorist import Memorist, restore_backup
from memorist.atomic_file import replace_atomically
from memorist.hooks import PendingNotes, UnsavedConversation
from processes import expect, send_line, start_program

kills = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a process is killed with a signal")
TEXT = "The harbour opens at nine"

# Works in a folder, and stops just before the first file that it wrote gets its name.
WORKER = """
    import sys
    from pathlib import Path
    import memorist
    rename = Path.replace
    def stop(part, target):
        print("written", flush=True)
        input()
        rename(part, target)
    Path.replace = stop
    folder, backup = Path(sys.argv[1]), Path(sys.argv[2])
    {work}
    print("done", flush=True)
"""
EXPORT = "memorist.open(folder / 'memory.db', embedder='none').transfer.export(folder / 'all.jsonl')"
BACKUP = "memorist.open(folder / 'memory.db', embedder='none').transfer.backup(folder / 'copy.db')"
RESTORE = "memorist.restore_backup(backup, folder / 'memory.db', overwrite=True)"
WORKS = pytest.mark.parametrize("work", [EXPORT, BACKUP, RESTORE], ids=["export", "backup", "restore"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a database; a backup of it is in another."""
    folder = tmp_path / "data"
    with memorist.open(folder / "memory.db", embedder="none") as memory:
        memory.add(TEXT)
        memory.transfer.backup(tmp_path / "backup.db")
    return folder


@contextmanager
def stopped_at_work(work: str, folder: Path) -> Iterator[list[Path]]:
    """Run a process that has written a file and not renamed it yet; it goes on and must succeed at the end."""
    code = WORKER.replace("{work}", work)
    with start_program(code, folder, folder.parent / "backup.db") as process:
        expect("written", [process])
        yield find_parts(folder)
        send_line(process)
        expect("done", [process])


def kill_at_work(work: str, folder: Path) -> None:
    code = WORKER.replace("{work}", work)
    with start_program(code, folder, folder.parent / "backup.db") as process:
        expect("written", [process])
        process.kill()
        process.wait()
    assert any(TEXT.encode() in part.read_bytes() for part in find_parts(folder))


def find_parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.part*"))


@kills
@WORKS
@pytest.mark.parametrize("next_work", ["export", "backup", "restore", "purge"])
def test_what_a_killed_process_left_is_removed_by_the_next_that_works_in_the_folder(
    folder: Path, work: str, next_work: str
) -> None:
    kill_at_work(work, folder)

    if next_work == "restore":
        restore_backup(folder.parent / "backup.db", folder / "memory.db", overwrite=True)
    else:
        with memorist.open(folder / "memory.db", embedder="none") as memory:
            match next_work:
                case "export":
                    memory.transfer.export(folder / "other.jsonl")
                case "backup":
                    memory.transfer.backup(folder / "other.db")
                case "purge":
                    memory.purge()

    assert find_parts(folder) == []


@WORKS
def test_what_a_process_is_still_writing_is_left_to_it(folder: Path, work: str) -> None:
    with stopped_at_work(work, folder) as parts:
        with memorist.open(folder / "memory.db", embedder="none") as memory:
            memory.transfer.export(folder / "other.jsonl")
            memory.transfer.backup(folder / "other.db")

        assert parts
        assert find_parts(folder) == parts

    assert find_parts(folder) == []


def test_a_purge_leaves_an_export_that_is_being_written_alone(folder: Path) -> None:
    with stopped_at_work(EXPORT, folder), memorist.open(folder / "memory.db", embedder="none") as memory:
        memory.purge()

    assert TEXT.encode() in (folder / "all.jsonl").read_bytes()


def test_files_of_others_that_are_named_alike_stay(memory: Memorist, tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("film.part", "film.0123456789ab.part", "film.part.lock")]
    for other in others:
        other.write_bytes(b"mine")

    memory.transfer.export(tmp_path / "all.jsonl")
    memory.purge()

    assert all(other.exists() for other in others)


def test_two_parts_of_one_process_do_not_remove_each_other(tmp_path: Path) -> None:
    with replace_atomically(tmp_path / "one") as one, replace_atomically(tmp_path / "two") as two:
        one.write(b"1")
        two.write(b"2")

    assert sorted(file.name for file in tmp_path.iterdir()) == ["one", "two"]


# Permissions


@pytest.fixture
def permissive() -> Iterator[None]:
    """Let files be readable by all, unless whoever makes them says otherwise."""
    old = os.umask(0o022)
    yield
    os.umask(old)


def find_readable_by_others(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.stat().st_mode & 0o077)


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX systems")
@pytest.mark.usefixtures("permissive")
def test_whatever_holds_memories_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with memorist.open(home / "made" / "for it" / "memory.db", embedder="none") as memory:
        memory.add(TEXT, project="harbour")
        memory.transfer.export(home / "all.jsonl")
        memory.transfer.export(home / "notes" / "of today", format="markdown")
        memory.transfer.backup(home / "backup.db")
        restore_backup(home / "backup.db", home / "other" / "place" / "memory.db")
        restore_backup(home / "backup.db", home / "other" / "place" / "memory.db", overwrite=True)

        assert find_readable_by_others(home) == []


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX systems")
@pytest.mark.usefixtures("permissive")
def test_the_state_of_the_hooks_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    notes = PendingNotes(tmp_path / "state" / "memorist")
    notes.add(UnsavedConversation("transcript.jsonl", None, None, {}))

    assert find_readable_by_others(tmp_path) == []
