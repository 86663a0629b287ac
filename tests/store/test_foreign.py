"""Databases of other programs: read while they are in use, and neither locked nor changed."""

from pathlib import Path

import apsw
import pytest

from memorist.errors import InvalidInput
from memorist.store.sqlite import foreign
from memorist.store.sqlite.foreign import ForeignDatabase, has_tables, open_foreign


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "program" / "state.db"


def create(file: Path, mode: str) -> apsw.Connection:
    """Open a database as a program does that is running."""
    file.parent.mkdir(parents=True)
    connection = apsw.Connection(str(file))
    connection.execute(f"pragma journal_mode = {mode}")
    connection.execute("create table notes (id integer primary key, text text)")
    connection.execute("insert into notes values (1, 'one'), (2, 'two')")
    return connection


def texts(database: ForeignDatabase) -> list[str]:
    return [row["text"] for row in database.read("notes", ("text",), order=("id",))]


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_in_use_is_read_as_it_is_now(file: Path, mode: str) -> None:
    program = create(file, mode)

    with open_foreign(file) as database:
        assert texts(database) == ["one", "two"]
        assert has_tables(file, {"notes": ("id", "text")})
    program.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_reading_changes_no_file_and_adds_none(file: Path, mode: str) -> None:
    program = create(file, mode)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in file.parent.iterdir()}

    with open_foreign(file) as database:
        texts(database)
    has_tables(file, {"notes": ()})

    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in file.parent.iterdir()} == before
    program.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_the_program_can_write_meanwhile(file: Path, mode: str) -> None:
    program = create(file, mode)

    with open_foreign(file) as database:
        rows = database.read("notes", ("text",), order=("id",))
        assert next(rows)["text"] == "one"
        program.execute("update notes set text = 'changed'")
        assert next(rows)["text"] == "two"
    program.close()


def test_a_transaction_that_is_not_committed_is_not_read(file: Path) -> None:
    program = create(file, "wal")
    program.execute("begin; update notes set text = 'changed'")

    with open_foreign(file) as database:
        assert texts(database) == ["one", "two"]
    program.close()


def test_a_transaction_that_writes_to_the_file_itself_is_waited_for(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = create(file, "delete")
    program.execute("pragma cache_size = 1; begin immediate; update notes set text = 'changed'")
    program.executemany("insert into notes values (?, hex(zeroblob(2000)))", [(number,) for number in range(10, 200)])
    assert file.with_name("state.db-journal").read_bytes().startswith(foreign._JOURNAL_MAGIC)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            program.execute("commit")

    monkeypatch.setattr(foreign.time, "sleep", pause)

    with open_foreign(file) as database:
        assert texts(database)[:2] == ["changed", "changed"]
    program.close()


def test_what_a_stopped_program_left_undone_is_not_read_and_its_journal_never_followed(file: Path) -> None:
    create(file, "delete").close()
    file.with_name("state.db-journal").write_bytes(foreign._JOURNAL_MAGIC + bytes(600))

    with pytest.raises(InvalidInput, match="open it once and close it"), open_foreign(file):
        pass


def test_a_copy_during_which_the_file_changed_is_made_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = create(file, "delete")
    copied: list[Path] = []

    def copy(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes())
        if source == file and not copied:
            program.execute("insert into notes values (3, 'three')")
        copied.append(source)

    monkeypatch.setattr(foreign.shutil, "copyfile", copy)

    with open_foreign(file) as database:
        assert texts(database) == ["one", "two", "three"]
    assert copied.count(file) == 2
    program.close()


def test_columns_that_are_missing_are_none_and_names_are_only_names(file: Path) -> None:
    program = create(file, "delete")
    program.execute('create table "odd"" name" ("a b" text)')
    program.execute('insert into "odd"" name" values (?)', ("x",))

    with open_foreign(file) as database:
        assert list(database.read('odd" name', ("a b", "other"))) == [{"a b": "x", "other": None}]
        assert not database.has({"notes": ("nothing",)})
    program.close()


def test_text_that_is_not_text_is_read_with_replacements(file: Path) -> None:
    program = create(file, "delete")
    program.execute("update notes set text = cast(x'ff61' as text) where id = 1")

    with open_foreign(file) as database:
        assert texts(database) == ["\ufffda", "two"]
    program.close()


def test_a_damaged_database_is_refused_with_its_name(file: Path) -> None:
    create(file, "delete").close()
    file.write_bytes(file.read_bytes()[:100] + b"\xff" * 4000)

    with (
        pytest.raises(InvalidInput, match=r"state\.db is a SQLite database that cannot be read"),
        open_foreign(file) as database,
    ):
        texts(database)


def test_a_database_too_large_for_the_disk_says_where_there_is_no_room(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(file, "delete").close()
    monkeypatch.setattr(foreign, "_SPARE_DISK_BYTES", 10**18)

    with pytest.raises(InvalidInput, match="TMPDIR"), open_foreign(file):
        pass
