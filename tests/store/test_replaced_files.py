"""A database that is deleted or replaced under a running process, and who may read the files that are made."""

import os
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

import memorist
from memorist import Memorist, StoreError, restore_backup
from memorist.store.sqlite.connections import ConnectionPool
from memorist.store.sqlite.generations import (
    FileIdentity,
    belongs_to,
    draw_generation,
    next_generation,
    read_generation,
    see_generation,
)
from processes import forks, read_line, start_program

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


WRITER = """
    import sys, memorist
    memory = memorist.open(sys.argv[1], embedder="none")
    for number in range(30):
        memory.add(f"said today, number {number}")
    print("written", flush=True)
    sys.stdin.readline()
    memory.close()
    print("closed", flush=True)
"""


def make_yesterday(folder: Path) -> Path:
    """Make a database of 900 memories that nobody has open."""
    path = folder / "yesterday.db"
    with memorist.open(path, embedder="none") as memory:
        memory.add_many(f"said yesterday, number {number}" for number in range(900))
    return path


def count_sound(path: Path) -> int:
    """Return the number of memories in a database in which nothing is wrong."""
    with memorist.open(path, embedder="none") as memory:
        report = memory.check()
        assert report.problems == (), report
        return memory.count()


def finish(process: "subprocess.Popen[str]", ending: str) -> None:
    """Have a process that runs WRITER close its database, or kill it, or let it go on."""
    if ending == "closed":
        process.stdin.write("\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        assert read_line(process) == "closed"
    if ending == "killed":
        process.kill()
        process.wait()


def make_twins(folder: Path) -> tuple[Path, Path]:
    """Make a database and a copy of it, to both of which something else was added."""
    path, copy = folder / "memory.db", folder / "copy.db"
    with memorist.open(path, embedder="none") as memory:
        memory.add("said before")
    shutil.copy(path, copy)
    for file, text in ((path, "said here"), (copy, "said elsewhere")):
        with memorist.open(file, embedder="none") as memory:
            memory.add(text)
    return path, copy


REPLACING: dict[str, Callable[[Path, Path], object]] = {
    "moved": lambda source, target: source.replace(target),
    "copied": lambda source, target: target.write_bytes(source.read_bytes()),
}


@pytest.mark.skipif(os.name == "nt", reason="Windows replaces no file that is open")
class TestAFileThatTakesThePlaceOfAnOpenDatabase:
    @pytest.mark.parametrize("way", REPLACING)
    def test_it_is_not_mixed_with_the_log_of_a_process_that_was_killed(self, way: str, tmp_path: Path) -> None:
        path, yesterday = tmp_path / "memory.db", make_yesterday(tmp_path)
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
        REPLACING[way](yesterday, path)
        assert count_sound(path) == 900
        (log,) = tmp_path.glob("*.before-replacement-wal")
        assert b"said today, number 29" in log.read_bytes()

    @pytest.mark.parametrize("way", REPLACING)
    def test_it_is_not_mixed_with_the_log_of_a_process_that_goes_on(self, way: str, tmp_path: Path) -> None:
        path, yesterday = tmp_path / "memory.db", make_yesterday(tmp_path)
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
            REPLACING[way](yesterday, path)
            assert count_sound(path) == 900
            process.stdin.write("\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            assert read_line(process) == "closed"
        assert count_sound(path) == 900

    @pytest.mark.parametrize("way", REPLACING)
    def test_whoever_closes_the_database_without_noticing_leaves_it_whole(self, way: str, tmp_path: Path) -> None:
        path, yesterday = tmp_path / "memory.db", make_yesterday(tmp_path)
        with memorist.open(path, embedder="none") as memory:
            memory.add_many(f"said today, number {number}" for number in range(30))
            REPLACING[way](yesterday, path)
        assert count_sound(path) == 900

    @pytest.mark.parametrize("way", REPLACING)
    def test_whoever_has_the_database_open_is_told(self, way: str, tmp_path: Path) -> None:
        path, yesterday = tmp_path / "memory.db", make_yesterday(tmp_path)
        with memorist.open(path, embedder="none") as memory:
            memory.add_many(f"said today, number {number}" for number in range(30))
            REPLACING[way](yesterday, path)
            with pytest.raises(StoreError, match=r"deleted or replaced.*is kept as .*memory\.db\.before-replacement"):
                memory.add("said after")
            assert count_sound(path) == 900

    def test_what_was_open_when_it_was_moved_there_is_kept_whole(self, tmp_path: Path) -> None:
        path, yesterday = tmp_path / "memory.db", make_yesterday(tmp_path)
        with (
            memorist.open(path, embedder="none") as memory,
            memorist.open(path, embedder="none") as second,
        ):
            memory.add_many(f"said today, number {number}" for number in range(30))
            yesterday.replace(path)
            for each in (memory, second):
                with pytest.raises(StoreError, match="before-replacement"):
                    each.stats()
        assert [file.name for file in tmp_path.glob("*before*")] == ["memory.db.before-replacement"]
        assert count_sound(tmp_path / "memory.db.before-replacement") == 30

    @pytest.mark.parametrize("way", REPLACING)
    def test_a_copy_from_before_the_log_is_taken_as_it_is(self, way: str, tmp_path: Path) -> None:
        path, copy = tmp_path / "memory.db", tmp_path / "copy.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
        shutil.copy(path, copy)
        with memorist.open(path, embedder="none") as memory:
            memory.add("said later")
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
        REPLACING[way](copy, path)
        assert count_sound(path) == 1

    def test_a_backup_moved_there_is_taken_as_it_is(self, tmp_path: Path) -> None:
        path, copy = tmp_path / "memory.db", tmp_path / "copy.db"
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
            with memorist.open(path, embedder="none") as memory:
                memory.transfer.backup(copy)
                memory.add("said later")
        copy.replace(path)
        assert count_sound(path) == 30

    def test_a_database_that_is_renamed_while_it_is_open_has_all_that_was_acknowledged(self, tmp_path: Path) -> None:
        path, renamed = tmp_path / "memory.db", tmp_path / "renamed.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add_many(f"said today, number {number}" for number in range(30))
            path.rename(renamed)
        assert count_sound(renamed) == 30
        assert count_sound(path) == 0

    def test_what_was_open_is_kept_where_a_transaction_has_the_only_connection(self, tmp_path: Path) -> None:
        path, yesterday = tmp_path / "memory.db", make_yesterday(tmp_path)
        with memorist.open(path, embedder="none") as memory:
            memory.add_many(f"said today, number {number}" for number in range(30))

        def write(pool: ConnectionPool) -> None:
            with pool.writing() as connection:
                connection.execute("delete from memories")
                yesterday.replace(path)

        pool = ConnectionPool(str(path), read_only=False, busy_timeout=1, synchronous="full")
        with closing(pool), pytest.raises(StoreError, match="deleted or replaced"):
            write(pool)
        assert count_sound(tmp_path / "memory.db.before-replacement") == 30
        assert count_sound(path) == 900

    def test_the_log_of_a_third_file_is_not_removed_by_whoever_had_the_first_one_open(self, tmp_path: Path) -> None:
        path, yesterday, other = tmp_path / "memory.db", make_yesterday(tmp_path), tmp_path / "other.db"
        memorist.open(other, embedder="none").close()
        with memorist.open(path, embedder="none") as memory:
            memory.add("said first")
            yesterday.replace(path)
            with start_program(WRITER, path) as process:
                assert read_line(process) == "written"
            other.replace(path)
            with pytest.raises(StoreError, match="before-replacement"):
                memory.stats()
        assert any(b"said today, number 29" in file.read_bytes() for file in tmp_path.glob("*-wal"))

    @pytest.mark.parametrize("way", REPLACING)
    def test_a_copy_that_went_its_own_way_is_not_mixed_with_a_log(self, way: str, tmp_path: Path) -> None:
        base = tmp_path / "base.db"
        with memorist.open(base, embedder="none") as memory:
            memory.add("said before")
        whole = 0
        for number in range(6):
            path, copy = tmp_path / f"memory-{number}.db", tmp_path / "copy.db"
            shutil.copy(base, path)
            shutil.copy(base, copy)
            with memorist.open(copy, embedder="none") as memory:
                for text in ("one", "two", "three"):
                    memory.add(f"said elsewhere, number {text}")
            with start_program(WRITER, path) as process:
                assert read_line(process) == "written"
            REPLACING[way](copy, path)
            with suppress(StoreError), memorist.open(path, embedder="none") as memory:
                whole += {each.content.split(",")[0] for each in memory.list()} == {"said before", "said elsewhere"}
        assert whole == 6

    @pytest.mark.parametrize("way", REPLACING)
    def test_a_copy_with_as_many_commits_as_the_file_is_not_mixed_with_its_log(self, way: str, tmp_path: Path) -> None:
        path, copy = make_twins(tmp_path)
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
        REPLACING[way](copy, path)
        with memorist.open(path, embedder="none") as memory:
            assert {each.content for each in memory.list()} == {"said before", "said elsewhere"}
        (log,) = tmp_path.glob("*.before-replacement-wal")
        assert b"said today, number 29" in log.read_bytes()

    def test_a_copy_with_as_many_commits_is_noticed_by_whoever_has_written_nothing(self, tmp_path: Path) -> None:
        path, copy = make_twins(tmp_path)
        with memorist.open(path, embedder="none") as memory:
            assert memory.count() == 2
            path.write_bytes(copy.read_bytes())
            with pytest.raises(StoreError, match="deleted or replaced"):
                memory.add("said after")
        with memorist.open(path, embedder="none") as memory:
            assert {each.content for each in memory.list()} == {"said before", "said elsewhere"}

    def test_a_copy_that_went_its_own_way_is_noticed_by_whoever_has_the_file_open(self, tmp_path: Path) -> None:
        path, copy = tmp_path / "memory.db", tmp_path / "copy.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
        shutil.copy(path, copy)
        with memorist.open(copy, embedder="none") as memory:
            for number in range(50):
                memory.add(f"said elsewhere, number {number}")
        with memorist.open(path, embedder="none") as memory:
            memory.add("said here")
            path.write_bytes(copy.read_bytes())
            with pytest.raises(StoreError, match="deleted or replaced"):
                memory.add("said after")
        assert count_sound(path) == 51

    @pytest.mark.parametrize("count", [1, 50])
    def test_a_copy_that_went_on_is_noticed_by_whoever_has_written_nothing(self, count: int, tmp_path: Path) -> None:
        path, copy = tmp_path / "memory.db", tmp_path / "copy.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
        shutil.copy(path, copy)
        with memorist.open(copy, embedder="none") as memory:
            for number in range(count):
                memory.add(f"said elsewhere, number {number} {'word ' * 200}")
        with memorist.open(path, embedder="none") as memory:
            assert memory.count() == 1
            path.write_bytes(copy.read_bytes())
            with pytest.raises(StoreError, match="deleted or replaced"):
                memory.add("said after")
        assert count_sound(path) == 1 + count

    @pytest.mark.parametrize("ending", ["closed", "killed", "open"])
    def test_a_copy_that_another_process_has_opened_first_is_noticed(self, ending: str, tmp_path: Path) -> None:
        path, copy = tmp_path / "memory.db", tmp_path / "copy.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
        shutil.copy(path, copy)
        with memorist.open(copy, embedder="none") as memory:
            memory.add_many(f"said elsewhere, number {number}" for number in range(50))
            memory.add("said elsewhere, at last")
        with memorist.open(path, embedder="none") as memory:
            memory.add("said here")
            path.write_bytes(copy.read_bytes())
            with start_program(WRITER, path) as process:
                assert read_line(process) == "written"
                finish(process, ending)
                with pytest.raises(StoreError, match=r"deleted or replaced.*is kept as .*before-replacement-wal"):
                    memory.add("said after")
                with pytest.raises(StoreError, match="deleted or replaced"):
                    memory.stats()
        (log,) = tmp_path.glob("*.before-replacement-wal")
        assert b"said here" in log.read_bytes()
        assert count_sound(path) == 1 + 51 + 30

    @pytest.mark.parametrize("ending", ["closed", "killed", "open"])
    def test_what_others_wrote_under_a_new_name_is_not_overwritten(self, ending: str, tmp_path: Path) -> None:
        path, renamed = tmp_path / "memory.db", tmp_path / "renamed.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
        with memorist.open(path, embedder="none") as memory:
            memory.add_many(f"said first, number {number} {'word ' * 100}" for number in range(100))
            path.rename(renamed)
            with start_program(WRITER, renamed) as process:
                assert read_line(process) == "written"
                finish(process, ending)
                with pytest.raises(StoreError, match="deleted or replaced"):
                    memory.stats()
        assert count_sound(renamed) == 31
        assert any(b"said first, number 99" in file.read_bytes() for file in tmp_path.glob("memory.db*"))

    def test_a_log_that_cannot_be_told_apart_by_reading_alone_is_said(self, tmp_path: Path) -> None:
        path, yesterday = tmp_path / "memory.db", make_yesterday(tmp_path)
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
        yesterday.replace(path)
        with pytest.raises(StoreError, match=r"the log beside .* belongs to another file"):
            memorist.open(path, embedder="none", read_only=True)

    @pytest.mark.parametrize("read_only", [True, False])
    def test_a_log_that_cannot_be_read_is_named(self, read_only: bool, path: Path) -> None:
        memorist.open(path, embedder="none").close()
        path.with_name("memory.db-wal").mkdir()
        with pytest.raises(StoreError, match=r"memory\.db-wal cannot be read"):
            memorist.open(path, embedder="none", read_only=read_only)


def test_the_generations_that_follow_one_differ() -> None:
    first = draw_generation()
    assert len({next_generation(first) for _ in range(64)}) > 48  # of 4096
    second = [next_generation(next_generation(first)) for _ in range(2000)]
    assert len(set(second)) >= 1995  # of 16 million


class TestALogOfTheFileItself:
    def test_it_is_taken_in_after_a_kill_however_much_of_it_the_file_has(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        for number in range(3):  # some are checkpointed in part, as the reader holds the rest
            with memorist.open(path, embedder="none") as memory:
                reader = iter(memory.list(limit=1))
                with start_program(WRITER.replace("said today", f"said {number}"), path) as process:
                    assert read_line(process) == "written"
                next(reader, None)
        assert count_sound(path) == 90
        assert not list(tmp_path.glob("*before*"))

    @forks
    def test_one_that_cannot_be_read_any_more_keeps_no_process_from_forking(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
            os.utime(path)
            Path(f"{path}-wal").rename(tmp_path / "log")
            Path(f"{path}-wal").mkdir()
            child = os.fork()
            if not child:
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            Path(f"{path}-wal").rmdir()
            (tmp_path / "log").rename(f"{path}-wal")

    @forks
    def test_one_that_another_process_began_anew_while_nothing_was_open_is_no_replacement(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
            child = os.fork()  # for which all connections are closed, and the log is removed
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            with start_program(WRITER, path) as process:
                assert read_line(process) == "written"
                memory.add("said after")
                finish(process, "closed")
            memory.add("said at last")
        assert count_sound(path) == 33

    def test_one_that_was_removed_as_the_locks_had_ended_takes_nothing_with_it(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
            with start_program(WRITER, path) as process:
                assert read_line(process) == "written"
                for file in tmp_path.iterdir():
                    file.read_bytes()  # ends the locks of this process
                finish(process, "closed")
            assert not Path(f"{path}-wal").exists()
            memory.add("said after")
            with start_program(WRITER.replace("today", "later"), path) as process:
                assert read_line(process) == "written"
                memory.add("said at last")
        assert count_sound(path) == 63
        assert not list(tmp_path.glob("*before*"))

    def test_what_stood_only_in_one_that_was_removed_is_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
            Path(f"{path}-wal").unlink()
            os.utime(path)
            with pytest.raises(StoreError, match=r"is kept as .*before-replacement;"):
                memory.add("said after")
        assert count_sound(tmp_path / "memory.db.before-replacement") == 1

    def test_it_is_taken_in_where_both_were_moved(self, tmp_path: Path) -> None:
        path, folder = tmp_path / "memory.db", tmp_path / "elsewhere"
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
        folder.mkdir()
        for file in tmp_path.glob("memory.db*"):
            shutil.copy(file, folder / file.name)
        assert count_sound(folder / "memory.db") == 30

    def test_it_is_taken_in_after_a_restore_that_it_holds(self, tmp_path: Path) -> None:
        path, yesterday = tmp_path / "memory.db", make_yesterday(tmp_path)
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
            restore_backup(yesterday, path, overwrite=True)
        assert Path(f"{path}-wal").stat().st_size > 0
        assert count_sound(path) == 900

    def test_it_is_taken_in_though_a_kill_has_cut_the_first_page_of_it(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        log = Path(f"{path}-wal")
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
            with closing(apsw.Connection(str(path))) as connection:
                connection.execute("select * from memories").fetchone()  # whoever has read nothing has no log
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        begun = bytearray(log.read_bytes())  # a new log over it: its header and that of its first page
        for salts in (slice(16, 24), slice(32 + 8, 32 + 16)):
            begun[salts] = b"new salt"
        log.write_bytes(begun)
        with memorist.open(path, embedder="none", read_only=True) as memory:
            assert memory.count() == 30
        assert count_sound(path) == 30
        assert not list(tmp_path.glob("*before*"))

    def test_a_file_that_is_deleted_at_that_moment_is_no_error(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
        path.unlink()
        assert belongs_to(Path(f"{path}-wal"), str(path))

    def test_the_log_of_an_earlier_version_is_taken_in(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        unlinked = "import memorist.store.sqlite.generations as g; g._write_generation = {}\n"
        write = "lambda connection, generation: connection.pragma('user_version', generation >> 16)"
        with start_program(unlinked.format(write) + textwrap.dedent(WRITER), path) as process:
            assert read_line(process) == "written"
            finish(process, "closed")
        with start_program(unlinked.format(write) + textwrap.dedent(WRITER.replace("today", "later")), path) as process:
            assert read_line(process) == "written"
        assert Path(f"{path}-wal").stat().st_size > 0
        assert path.read_bytes()[68:72] == b"RCLT"
        assert count_sound(path) == 60
        assert path.read_bytes()[68:70] == b"RC"

    def test_a_database_of_an_earlier_version_has_any_log(self, tmp_path: Path) -> None:
        path = tmp_path / "memory.db"
        with memorist.open(path, embedder="none") as memory:
            memory.add("said before")
        with closing(apsw.Connection(str(path))) as connection:
            connection.pragma("user_version", 0)
        with start_program(WRITER, path) as process:
            assert read_line(process) == "written"
        assert count_sound(path) == 31


@pytest.mark.parametrize("checkpoints", [True, False])
def test_a_generation_is_read_whole_while_another_process_writes(
    path: Path, checkpoints: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in two fields of the header: read one after the other, they were of two commits, and of no file."""
    with memorist.open(path, embedder="none") as other, closing(apsw.Connection(str(path))) as checkpointer:
        other.add("said before")
        checkpointer.pragma("wal_checkpoint", "truncate")
        identity, interrupted = FileIdentity(str(path)), []

        def write_between(cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
            if statement == "pragma application_id" and not interrupted:
                interrupted.append(statement)
                other.add("said between the two reads")
                if checkpoints:
                    checkpointer.pragma("wal_checkpoint", "passive")
            return True

        reader = apsw.Connection(str(path))
        reader.exec_trace = write_between
        monkeypatch.setattr(apsw, "connection_hooks", [lambda each: setattr(each, "exec_trace", write_between)])
        seen = read_generation(str(path)) if checkpoints else see_generation(reader)
        reader.close()

        assert interrupted
        assert identity.may_become(seen)
