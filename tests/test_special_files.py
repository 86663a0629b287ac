"""Pipes, devices and links that a user names as a target: they are written to, or refused, and never replaced."""

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import memorist
from memorist import ConfigError, InvalidInput, Memorist, StoreError, restore_backup
from memorist.atomic_file import write_atomically
from memorist.config import write_setting
from processes import ENVIRONMENT
from timeouts import MAX_WAIT_SECONDS

pytestmark = pytest.mark.skipif(os.name == "nt", reason="special files of POSIX systems")
EXPORT = b'{"memorist"'  # the first bytes of every export
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
# Root would replace /dev/stdout if the test failed; nobody can replace what is in /proc.
STANDARD_OUTPUT = ["/dev/fd/1"] if IS_ROOT else ["/dev/fd/1", "/dev/stdout"]


def make_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def make_device(folder: Path) -> Path:
    """Make a null device of our own: the system's must not be put at risk."""
    try:
        os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        (folder / "null").write_bytes(b"")
    except OSError:
        pytest.skip("devices can be made by root only")
    return folder / "null"


SPECIAL = pytest.mark.parametrize("make", [make_pipe, make_device])


@pytest.fixture
def noted(memory: Memorist) -> Memorist:
    memory.add("The harbour opens at nine")
    return memory


def start_reading(pipe: Path) -> Callable[[], bytes]:
    """Read a pipe to its end in a thread; what is returned waits for the bytes."""
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    thread.start()

    def wait() -> bytes:
        thread.join(MAX_WAIT_SECONDS)
        return found[0]

    return wait


def test_an_export_to_a_pipe_reaches_its_reader(noted: Memorist, tmp_path: Path) -> None:
    pipe = make_pipe(tmp_path)
    read = start_reading(pipe)

    assert noted.transfer.export(pipe) == 1

    assert pipe.is_fifo()
    assert read().startswith(EXPORT)


def test_an_export_to_a_device_leaves_it_a_device(noted: Memorist, tmp_path: Path) -> None:
    device = make_device(tmp_path)

    assert noted.transfer.export(device) == 1

    assert device.is_char_device()


@pytest.mark.parametrize("name", STANDARD_OUTPUT)
def test_an_export_to_standard_output_by_its_path_is_printed(noted: Memorist, path: Path, name: str) -> None:
    assert export_in_a_process(path, name, subprocess.PIPE).startswith(EXPORT)


def test_an_export_to_standard_output_goes_on_where_a_file_behind_it_ends(
    noted: Memorist, path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "log"
    with file.open("wb", buffering=0) as out:
        out.write(b"before\n")
        export_in_a_process(path, "/dev/fd/1", out.fileno())
        out.write(b"after\n")

    lines = file.read_bytes().splitlines()
    assert (lines[0], lines[-1]) == (b"before", b"after")
    assert lines[1].startswith(EXPORT)


def export_in_a_process(path: Path, target: str, out: int) -> bytes:
    code = "import memorist, sys; memorist.open(sys.argv[1], embedder='none').transfer.export(sys.argv[2])"
    command = [sys.executable, "-c", code, str(path), target]
    return subprocess.run(command, stdout=out, check=True, env=ENVIRONMENT, timeout=MAX_WAIT_SECONDS).stdout


@pytest.mark.sqlite_only("a server is backed up by its own tools")
@SPECIAL
def test_a_backup_is_not_written_to_a_special_file(
    noted: Memorist, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    target = make(tmp_path)

    with pytest.raises(InvalidInput, match="is not a regular file"):
        noted.transfer.backup(target, overwrite=True)

    assert not target.is_file()


@pytest.mark.sqlite_only("a server is backed up by its own tools")
@SPECIAL
def test_a_backup_is_not_restored_to_a_special_file(
    noted: Memorist, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    target = make(tmp_path)
    noted.transfer.backup(tmp_path / "backup.db")

    with pytest.raises(InvalidInput, match="is not a regular file"):
        restore_backup(tmp_path / "backup.db", target, overwrite=True)

    assert not target.is_file()


@SPECIAL
def test_a_special_file_is_no_database(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    target = make(tmp_path)

    with pytest.raises(StoreError, match="is not a regular file"):
        memorist.open(target, embedder="none")

    assert [file.name for file in tmp_path.iterdir()] == [target.name]


def test_a_device_is_no_place_for_settings(tmp_path: Path) -> None:
    device = make_device(tmp_path)

    with pytest.raises(ConfigError, match="is not a regular file"):
        write_setting(device, "profile", "rank", in_project=False)

    assert device.is_char_device()


@pytest.mark.local_only("it reads a file of its own machine")
def test_a_markdown_export_needs_a_folder(noted: Memorist, tmp_path: Path) -> None:
    pipe = make_pipe(tmp_path)

    with pytest.raises(InvalidInput, match="not an empty folder"):
        noted.transfer.export(pipe, format="markdown")

    assert pipe.is_fifo()


@pytest.mark.sqlite_only("a server is backed up by its own tools")
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_what_it_points_to_is_written(noted: Memorist, tmp_path: Path, there: bool) -> None:
    export, backup, text = (tmp_path / "elsewhere" / name for name in ("all.jsonl", "backup.db", "text"))
    export.parent.mkdir()
    for file in (export, backup, text):
        if there:
            file.touch()
        (tmp_path / file.name).symlink_to(file)

    noted.transfer.export(tmp_path / "all.jsonl")
    noted.transfer.backup(tmp_path / "backup.db", overwrite=True)
    write_atomically(tmp_path / "text", b"new")

    assert all((tmp_path / file.name).is_symlink() for file in (export, backup, text))
    assert export.read_bytes().startswith(EXPORT)
    assert backup.read_bytes().startswith(b"SQLite format 3")
    assert text.read_bytes() == b"new"


@pytest.mark.parametrize("name", ["/dev/fd/987654321", f"/dev/fd/{9 * 10**30}"])
def test_an_export_to_a_descriptor_that_is_not_open_is_refused(noted: Memorist, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot write"):
        noted.transfer.export(name)
