"""SECURITY.md promises no network: nothing opens a connection unless a model behind HTTP is chosen."""

import os
import socket
from pathlib import Path
from typing import NoReturn

import pytest

import memorist
from memorist.cli.app import main


def refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a connection was opened")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_the_library_opens_no_connection(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# Retries\n\nRetries are capped at 5.\n", "utf-8")

    with memorist.open(tmp_path / "memory.db") as memory:
        memory.add("We deploy with `make ship` from the release branch")
        memory.documents.index([tmp_path / "note.md"])
        assert memory.search("releasing software")
        assert memory.documents.search("how are retries capped?")
        assert memory.context("how do we deploy?")
        memory.transfer.export(tmp_path / "memories.jsonl")
        memory.transfer.backup(tmp_path / "copy.db")


@pytest.mark.parametrize("command", ["add something", "search something", "list", "stats", "check"])
def test_the_command_line_opens_no_connection(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORIST_CONFIG", os.devnull)
    monkeypatch.setenv("MEMORIST_DB", str(tmp_path / "memory.db"))
    with memorist.open(tmp_path / "memory.db") as memory:
        memory.add("something")

    with pytest.raises(SystemExit) as ended:
        main(command.split())

    assert ended.value.code == 0
