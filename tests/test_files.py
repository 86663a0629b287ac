"""Full disks, damaged files, files that are not ours, folders that may not be written: said clearly, nothing lost."""

import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import memorist
from conftest import HashingEmbedder
from memorist import Memorist, MemoristError, StoreCorrupt, StoreError
from processes import ENVIRONMENT, start_program, wait_for_end
from statements import read_column
from timeouts import MAX_WAIT_SECONDS


def open_hashed(path: Path) -> Memorist:
    return memorist.open(path, embedder=HashingEmbedder())


# A full disk


FILLING = """
    import resource, sys, memorist
    from conftest import HashingEmbedder
    from pathlib import Path
    path, limit = Path(sys.argv[1]), int(sys.argv[2])
    options = dict(embedder=HashingEmbedder() if sys.argv[3] == "vectors" else "none")
    memory = memorist.open(path, **options)
    added = {memory.add("an early memory").content}
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        for number in range(100_000):
            added.add(memory.add(f"memory {number} {'of many words ' * 50}").content)
    except memorist.MemoristError as exc:
        print(type(exc).__name__, exc)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        (path.parent / "ballast").unlink()

    for memory in (memory, memorist.open(path, **options)):
        assert {one.content for one in memory.list(limit=100_000)} == added
        assert memory.check().problems == (), memory.check()
        added.add(memory.add(f"room again {len(added)}").content)
        memory.close()
    with memorist.open(path, **options) as memory:
        assert memory.stats().pending == 0
    print("intact", len(added) > 10)
"""


@pytest.mark.parametrize("kind", ["texts", "vectors"])
def test_a_file_that_may_not_grow_gives_a_clear_error_and_nothing_is_half_written(path: Path, kind: str) -> None:
    pytest.importorskip("resource", reason="this system has no resource limits")
    with start_program(FILLING, path, 3_000_000, kind) as process:
        code, printed = wait_for_end(process)

    error, said = printed.splitlines()
    assert (code, said) == (0, "intact True")
    assert error.startswith("StoreError ")
    assert str(path) in error


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("unshare"), reason="needs Linux and unshare")
@pytest.mark.parametrize("kind", ["texts", "vectors"])
def test_a_full_disk_gives_a_clear_error_and_nothing_is_half_written(tmp_path: Path, kind: str) -> None:
    # The mount is seen by this process alone, and ends with it.
    mount = 'mount -t tmpfs -o size=3m tmpfs "$0" && head -c 500000 /dev/zero > "$0/ballast" || exit 99; exec "$@"'
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    script = [sys.executable, "-c", textwrap.dedent(FILLING), str(tmp_path / "memory.db"), "0", kind]
    done = subprocess.run(
        [*unshare, "sh", "-c", mount, str(tmp_path), *script],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=MAX_WAIT_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode == 99 or done.stderr.startswith("unshare:"):
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")

    assert (done.returncode, done.stderr) == (0, "")
    error, said = done.stdout.splitlines()
    assert said == "intact True"
    assert error.startswith("StoreError ")
    assert f"the disk of {tmp_path / 'memory.db'} is full" in error


# Files that are no sound database


def foreign_database(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("create table notes(text); insert into notes values ('not ours')")
    connection.close()


NO_DATABASES: dict[str, Callable[[Path], object]] = {
    "a line of text": lambda path: path.write_text("dear diary\n"),
    "random bytes": lambda path: path.write_bytes(random.Random(1).randbytes(50_000)),
    "a beginning like SQLite's": lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40),
    "a database of another program": foreign_database,
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("what", NO_DATABASES)
def test_a_file_that_is_not_ours_is_refused_and_left_alone(path: Path, what: str, read_only: bool) -> None:
    NO_DATABASES[what](path)
    before = path.read_bytes()

    with pytest.raises(StoreCorrupt, match=r"memory\.db is (damaged or not a database|a database of another program)"):
        memorist.open(path, embedder="none", read_only=read_only)

    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("share", [0.00001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99])
def test_a_truncated_database_is_called_damaged_and_never_taken_for_sound(
    copy: Callable[[], Path], share: float
) -> None:
    path = copy()
    os.truncate(path, int(path.stat().st_size * share))
    before = path.read_bytes()

    try:
        with memorist.open(path, embedder="none") as memory:
            problems = memory.check().problems
    except StoreCorrupt as exc:
        problems = (str(exc),)

    assert problems
    assert path.read_bytes() == before


def test_a_directory_is_refused_with_advice(tmp_path: Path) -> None:
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"is a directory; name a file in it, such as .*memory\.db"):
            memorist.open(tmp_path, embedder="none", read_only=read_only)

    assert list(tmp_path.iterdir()) == []


# What may not be written


# Root may write anything; without its capabilities it is held to the permissions like everybody else.
UNPRIVILEGED = """
    import ctypes, os, sys, memorist
    if os.geteuid() == 0:
        ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    path, *protected = sys.argv[1:]
    if any(os.access(one, os.W_OK) for one in protected):
        sys.exit(99)
    for options in (dict(read_only=True), {}):
        try:
            with memorist.open(path, embedder="none", **options) as memory:
                print([one.content for one in memory.list()])
                memory.add("new")
        except memorist.MemoristError as exc:
            print(type(exc).__name__, exc)
"""


def unprivileged(path: Path, *protected: Path) -> list[str]:
    """What somebody is told who reads and then writes a database, but may not write these."""
    modes = [one.stat().st_mode for one in protected]
    for one in protected:
        one.chmod(0o500)
    try:
        with start_program(UNPRIVILEGED, path, *protected) as process:
            code, printed = wait_for_end(process)
    finally:
        for one, mode in zip(protected, modes, strict=True):
            one.chmod(mode)
    if code == 99:
        pytest.skip("permissions do not hold for this user")
    assert code == 0, printed
    return printed.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are other ones there")
@pytest.mark.parametrize("protected", [["memory.db"], ["."], ["memory.db", "."]], ids=" and ".join)
def test_a_database_that_may_only_be_read_is_read_and_a_write_is_refused_clearly(
    path: Path, protected: list[str]
) -> None:
    with memorist.open(path, embedder="none") as memory:
        memory.add("red fox")

    read, refused, *written = unprivileged(path, *(path.parent / name for name in protected))

    assert read == "['red fox']"
    assert refused == f"StoreError {path} was opened read-only; nothing can be written to it"
    assert written[-1].startswith(f"StoreError {path} cannot be")
    assert written[-1].endswith("check the permissions of the file and its folder")
    assert read_column(path, "select content from memories") == ["red fox"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are other ones there")
@pytest.mark.parametrize("name", ["memory.db", "below/memory.db"])
def test_a_folder_that_may_not_be_written_gets_no_database_and_a_clear_error(tmp_path: Path, name: str) -> None:
    refused = unprivileged(tmp_path / name, tmp_path)[-1]

    assert refused.startswith("StoreError ")
    assert str(tmp_path) in refused
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_page_gives_clear_errors_whatever_is_asked(copy: Callable[[], Path]) -> None:
    path = copy()
    size = path.stat().st_size
    with path.open("r+b") as file:
        for offset in range(size // 2 // 4_096 * 4_096, size, 4 * 4_096):
            file.seek(offset)
            file.write(b"\xff" * 512)

    met = []
    asked: list[Callable[[Memorist], object]] = [
        lambda memory: memory.search("live", mode="keyword"),
        lambda memory: memory.search("live", mode="semantic"),
        lambda memory: memory.list(limit=5000),
        lambda memory: memory.stats(),
        lambda memory: memory.add("new"),
        lambda memory: memory.purge(),
        lambda memory: memory.check(),
        lambda memory: memory.check(repair=True),
    ]
    for ask in asked:
        try:
            with open_hashed(path) as memory:
                ask(memory)
        except MemoristError as exc:
            met.append(exc)

    assert met
    assert all(isinstance(exc, StoreCorrupt) for exc in met)


def test_a_path_below_a_file_is_refused(path: Path) -> None:
    path.write_text("a file")

    with pytest.raises(StoreError, match="cannot create the folder"):
        memorist.open(path / "memory.db", embedder="none")
