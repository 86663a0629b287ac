"""Run commands in the tests of this folder: in this process, or in one of their own if that matters."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from empty_memory import place_empty_memory
from memorist.cli.app import main
from timeouts import MAX_WAIT_SECONDS

SOURCE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def assert_failed(self, code: int, about: str) -> None:
        """Check that one line on stderr names the error, and that stdout is empty."""
        assert (self.code, self.out) == (code, "")
        assert self.err.splitlines()[-1].startswith("Error: ")
        assert about in self.err
        if code == 1:
            assert self.err.count("\n") == 1


class CommandLine:
    """
    The command line with a database, a home and a working folder of its own, and keyword search only.

    Called, it runs a command of `memorist` in this process.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.database, self.settings = folder / "memory.db", folder / "config.toml"
        self._monkeypatch, self._capsys = monkeypatch, capsys
        for place in (self.home, self.work):
            place.mkdir()
        for name in os.environ:
            if name.startswith(("MEMORIST_", "XDG_")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("MEMORIST_EMBEDDER", "none")
        monkeypatch.setenv("MEMORIST_DB", str(self.database))
        self.settings.touch()
        monkeypatch.setenv("MEMORIST_CONFIG", str(self.settings))
        monkeypatch.setenv("PYTHONPATH", str(SOURCE))
        monkeypatch.chdir(self.work)

    def __call__(self, *arguments: str, stdin: str | bytes = b"") -> CommandResult:
        given = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
        self._capsys.readouterr()
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
            with pytest.raises(SystemExit) as ended:
                main(list(arguments))
        printed = self._capsys.readouterr()
        return CommandResult(int(ended.value.code or 0), printed.out, printed.err)

    def add(self, content: str, *options: str) -> str:
        """Add a memory and return its id."""
        place_empty_memory(self.database)
        id: str = self("add", content, "--json", *options).json["id"]
        return id

    def contents(self, *options: str) -> list[str]:
        """Return the texts of `memorist list`, newest first."""
        return [memory["content"] for memory in self("list", "--json", "--limit", "10000", *options).json["memories"]]

    def start(self, *arguments: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
        """Start a command in a process of its own, with pipes for all it reads and writes."""
        pipe = subprocess.PIPE
        settings: Mapping[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": pipe} | options
        return subprocess.Popen([sys.executable, "-m", "memorist", *arguments], **settings)

    def spawn(
        self, *arguments: str | bytes, stdin: bytes = b"", environment: Sequence[tuple[str, str]] = ()
    ) -> CommandResult:
        """Run a command in a process of its own, to its end."""
        with self.start(*arguments, env=os.environ | dict(environment)) as process:
            out, err = process.communicate(stdin, timeout=MAX_WAIT_SECONDS)
        return CommandResult(process.returncode, out.decode("utf-8"), err.decode("utf-8"))
