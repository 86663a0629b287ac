"""What commands write about memories can be read by the owner alone, and so can the folders that they make."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine

from conftest import MODELS

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX systems")
REMEMBERED = Path(__file__).parents[1] / "data" / "remembered"


@pytest.fixture
def cli(
    elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """A machine on which files can be read by all, unless whoever makes them says otherwise."""
    old = os.umask(0o022)
    yield CommandLine(tmp_path, monkeypatch, capsys)
    os.umask(old)


def is_private(file: Path) -> bool:
    return not file.stat().st_mode & 0o077


def test_reports_and_the_databases_behind_them(cli: CommandLine) -> None:
    options = ("--mode", "keyword", "--cache", "cache", "--save", "run", "--html", "page.html")

    assert cli("eval", str(REMEMBERED), *options).code == 0

    written = [Path("cache"), *Path("cache").glob("*"), *Path("cache").glob("*/*.json"), Path("page.html")]
    assert len(written) > 4
    assert [file for file in written if not is_private(file)] == []


def test_the_folder_of_the_settings(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    file = cli.home / "config" / "memorist" / "config.toml"
    monkeypatch.setenv("MEMORIST_CONFIG", str(file))

    assert cli("config", "set", "profile", "rank").code == 0

    assert is_private(file.parent)
    assert is_private(file.parent.parent)


def test_the_data_folder_where_a_model_comes_first(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(cli.home))
    monkeypatch.setenv("XDG_DATA_HOME", str(cli.home / "data"))

    assert cli("models", "add", str(MODELS / "reranker" / "src" / "memorist_reranker")).code == 0

    folders = [file for file in cli.home.rglob("*") if file.is_dir()]
    assert folders
    assert [folder for folder in folders if not is_private(folder)] == []
