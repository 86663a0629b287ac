"""A file is written whole or not at all, whoever looks at it meanwhile."""

import os
from pathlib import Path

import pytest

from memorist.atomic_file import replace_atomically, write_atomically


def test_a_new_file_and_its_folder_are_made(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b.txt"

    write_atomically(target, b"new")

    assert target.read_bytes() == b"new"


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    with replace_atomically(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"

    assert target.read_bytes() == b"new"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def write_half() -> None:
        with replace_atomically(target) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX systems")
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    target.chmod(0o640)

    write_atomically(target, b"new")

    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX systems")
def test_a_new_file_can_be_made_for_its_owner_alone(tmp_path: Path) -> None:
    with replace_atomically(tmp_path / "secret", new_mode=0o600) as file:
        file.write(b"new")

    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
