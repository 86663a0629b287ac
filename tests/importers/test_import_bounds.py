"""Imports are as careful as `index`: nothing outside the folder, nothing without an end, nothing that explodes."""

import gzip
import io
import json
import os
import sqlite3
import struct
import zipfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from answers import texts
from memorist import InvalidInput, Memorist
from memorist.importers import input_file

posix = pytest.mark.skipif(os.name != "posix", reason="needs links, pipes and devices")
TALK = [{"role": "user", "content": "the port is 8080"}, {"role": "assistant", "content": "noted"}]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text("the secret outside")
    (folder / "secret.json").write_text(json.dumps(TALK))
    return folder


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    return folder


def reasons(report: Any) -> dict[str, str]:
    return {Path(place).name: reason for place, reason in report.skipped}


@posix
def test_links_that_leave_a_folder_of_notes_are_skipped_and_reported(
    memory: Memorist, inside: Path, outside: Path
) -> None:
    (inside / "own.md").write_text("a note of this folder")
    (inside / "p.md").symlink_to(outside / "secret.md")
    (inside / "more").symlink_to(outside)
    (inside / "again.md").symlink_to(inside / "own.md")

    report = memory.transfer.import_(inside)

    assert texts(memory.list()) == ["a note of this folder"]
    assert reasons(report) == dict.fromkeys(("p.md", "more"), "a link that leads out of the folder")


@posix
def test_links_that_leave_a_folder_of_conversations_are_skipped_and_reported(
    memory: Memorist, inside: Path, outside: Path
) -> None:
    (inside / "own.json").write_text(json.dumps(TALK))
    (inside / "p.json").symlink_to(outside / "secret.json")

    report = memory.transfer.import_(inside)

    assert (report.added, report.sessions) == (2, 1)
    assert reasons(report) == {"p.json": "a link that leads out of the folder"}


def test_conversations_beside_notes_are_imported_too(memory: Memorist, inside: Path) -> None:
    (inside / "memory").mkdir()
    (inside / "memory" / "MEMORY.md").write_text("a note")
    (inside / "talk.jsonl").write_text("\n".join(map(json.dumps, TALK)))
    (inside / "package.json").write_text("{}")

    report = memory.transfer.import_(inside)

    assert sorted(texts(memory.list())) == ["a note", "noted", "the port is 8080"]
    assert (report.format, report.added, report.sessions) == ("markdown, jsonl", 3, 1)
    assert list(reasons(report)) == ["package.json"]


def test_other_files_beside_notes_are_passed_over(memory: Memorist, inside: Path) -> None:
    (inside / "own.md").write_text("a note")
    (inside / "package.json").write_text("{}")

    report = memory.transfer.import_(inside)

    assert (report.format, report.added, report.skipped) == ("markdown", 1, ())


def test_hidden_notes_do_not_hide_conversations(memory: Memorist, inside: Path) -> None:
    (inside / ".git").mkdir()
    (inside / ".git" / "description.md").write_text("no note")
    (inside / "talk.json").write_text(json.dumps(TALK))

    assert memory.transfer.import_(inside).added == 2


@posix
@pytest.mark.parametrize("suffix", ["md", "json"])
def test_pipes_and_devices_in_a_folder_are_never_opened(memory: Memorist, inside: Path, suffix: str) -> None:
    (inside / f"own.{suffix}").write_text("a note" if suffix == "md" else json.dumps(TALK))
    os.mkfifo(inside / f"pipe.{suffix}")
    (inside / f"zero.{suffix}").symlink_to("/dev/zero")

    report = memory.transfer.import_(inside)

    assert report.added
    assert set(reasons(report)) == {f"pipe.{suffix}", f"zero.{suffix}"}


@posix
@pytest.mark.parametrize("name", ["pipe", "pipe.md", "pipe.jsonl"])
def test_a_pipe_or_device_that_is_named_is_refused(memory: Memorist, inside: Path, name: str) -> None:
    os.mkfifo(inside / name)

    for path in (inside / name, "/dev/zero"):
        with pytest.raises(InvalidInput, match="it is a pipe or device, not a file"):
            memory.transfer.import_(path)


def test_binary_and_large_notes_are_skipped_and_reported(memory: Memorist, inside: Path) -> None:
    (inside / "binary.md").write_bytes(b"PNG\0\0\1\2")
    (inside / "own.md").write_text("a note")
    with (inside / "large.md").open("wb") as file:
        file.truncate(10_000_001)

    report = memory.transfer.import_(inside)

    assert texts(memory.list()) == ["a note"]
    assert reasons(report) == {"binary.md": "it is binary", "large.md": "larger than 10 MB"}


def test_a_large_note_that_is_named_itself_is_reported_by_its_name(memory: Memorist, inside: Path) -> None:
    with (inside / "large.md").open("wb") as file:
        file.truncate(10_000_001)

    assert memory.transfer.import_(inside / "large.md").skipped == (("large.md", "larger than 10 MB"),)


def test_ignored_notes_stay_out_as_in_an_index(memory: Memorist, inside: Path) -> None:
    (inside / ".memoristignore").write_text("drafts/\n")
    (inside / "drafts").mkdir()
    (inside / "drafts" / "note.md").write_text("a draft")
    (inside / "OWN.MD").write_text("a note")

    memory.transfer.import_(inside)

    assert texts(memory.list()) == ["a note"]


def bomb(size: int) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return packed.getvalue()


def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(memory: Memorist, inside: Path) -> None:
    (inside / "bomb.jsonl.gz").write_bytes(bomb(32 << 20))

    with pytest.raises(InvalidInput, match=r"bomb\.jsonl\.gz unpacks to more than 200 times its size"):
        memory.transfer.import_(inside / "bomb.jsonl.gz")
    with pytest.raises(InvalidInput, match="standard input unpacks to more than 200 times its size"):
        memory.transfer.import_(io.BytesIO(bomb(32 << 20)))


def test_no_more_is_unpacked_than_the_limit(memory: Memorist, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_file, "MAX_INPUT_BYTES", 2_000_000)
    read = []

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            read.append(size)
            return b"x" * size

    with pytest.raises(InvalidInput, match="standard input has more than"):
        memory.transfer.import_(Endless())
    assert sum(read) < 4_000_000

    (inside / "long.jsonl.gz").write_bytes(gzip.compress(os.urandom(3_000_000)))
    with pytest.raises(InvalidInput, match="unpacks to more than"):
        memory.transfer.import_(inside / "long.jsonl.gz")


def test_a_zip_that_unpacks_to_far_more_than_its_size_is_refused(memory: Memorist, inside: Path) -> None:
    with zipfile.ZipFile(inside / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", "[" + " " * 32_000_000 + "]")

    with pytest.raises(InvalidInput, match=r"conversations\.json unpacks to more than 200 times its size"):
        memory.transfer.import_(inside / "export.zip")


def test_what_else_is_in_such_a_zip_is_imported(memory: Memorist, inside: Path) -> None:
    with zipfile.ZipFile(inside / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations-000.json", "[" + " " * 32_000_000 + "]")
        archive.writestr("conversations-001.json", json.dumps(TALK))

    report = memory.transfer.import_(inside / "export.zip")

    assert report.added == 2
    assert "conversations-000.json unpacks to more than 200 times its size" in report.skipped[0][1]


def test_a_text_that_repeats_itself_is_no_bomb(memory: Memorist, inside: Path) -> None:
    (inside / "talk.json.gz").write_bytes(
        gzip.compress(json.dumps([TALK[0] | {"content": "again and " * 3000}] * 50).encode())
    )

    assert memory.transfer.import_(inside / "talk.json.gz").added == 50


def share_pages(file: Path, table: str, levels: int = 10, children: int = 70) -> None:
    """Let every page of a table lead to the one below it many times: the row of its last page is there for ever."""
    with closing(sqlite3.connect(file)) as database:
        database.execute("create table filler(x)")
        database.executemany("insert into filler values (?)", [("x" * 400,)] * 60)
        database.commit()
        root = database.execute("select rootpage from sqlite_master where name = ?", (table,)).fetchone()[0]
        pages = database.execute("pragma page_count").fetchone()[0]
    content = bytearray(file.read_bytes())
    chain = [root, *range(pages - levels, pages + 1)]
    for above, below in pairwise(chain):
        at, last = (above - 1) * 512, (below - 1) * 512
        content[last : last + 512] = content[at : at + 512]
        page = bytearray(512)
        struct.pack_into(">BHHHBI", page, 0, 5, 0, children, 512 - 5 * children, 0, below)
        for cell in range(children):
            struct.pack_into(">H", page, 12 + 2 * cell, 512 - 5 * (cell + 1))
            struct.pack_into(">IB", page, 512 - 5 * (cell + 1), below, 1)
        content[at : at + 512] = page
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("cursorDiskKV", "key, value"),
        ("threads", "id, summary, updated_at, data_type, data"),
        ("observations", "id, memory_session_id, project, text, type, title, created_at, created_at_epoch"),
    ],
)
def test_a_database_of_rows_without_end_is_refused(memory: Memorist, inside: Path, table: str, columns: str) -> None:
    file = inside / "other.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("pragma page_size = 512")
        database.execute(f"create table {table}({columns})")
        marks = ", ".join("?" * len(columns.split(", ")))
        database.execute(f"insert into {table} values ({marks})", ["composerData:a"] * marks.count("?"))
        if table == "observations":
            database.execute("create table session_summaries(id, project, request)")
        database.commit()
    share_pages(file, table)

    with pytest.raises(InvalidInput, match=r"it is damaged \("):
        memory.transfer.import_(file)


def test_a_table_with_computed_columns_is_not_read(memory: Memorist, inside: Path) -> None:
    file = inside / "state.vscdb"
    with closing(sqlite3.connect(file)) as database:
        database.execute("create table cursorDiskKV(key, value, x not null as (hex(zeroblob(400000000))))")

    with pytest.raises(InvalidInput, match="holds no conversation"):
        memory.transfer.import_(file)
