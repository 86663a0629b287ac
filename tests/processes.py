"""Processes for tests: started, spoken to, and always ended."""

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from memorist import Memorist
from patience import LONGEST

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
FORK_OPTIONS = ("-W", "ignore::DeprecationWarning")
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}


@contextmanager
def running(code: str, *arguments: object, options: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """A Python program in a process of its own, which does not outlive the block."""
    command = [sys.executable, *options, "-c", textwrap.dedent(code), *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
    ) as process:
        watchdog = threading.Timer(LONGEST, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    """The next line a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def expect(text: str, processes: Sequence[subprocess.Popen[str]]) -> None:
    """Each process prints this as its next line; one that does not is shown with all it printed."""
    for process in processes:
        if (said := line(process)) != text:
            process.kill()
            pytest.fail(f"instead of {text!r} a process said:\n{said}\n{process.communicate()[0]}")


def tell(process: subprocess.Popen[str], text: str = "go") -> None:
    """Give a waiting process its next line."""
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def ending(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a process to end by itself; its exit code and what it printed."""
    printed, _ = process.communicate()
    return process.returncode, printed


def run_search(database: Path, *arguments: str) -> dict[str, Any]:
    """Run `memorist search` with these arguments, without a model; return what it prints as JSON."""
    command = [sys.executable, "-m", "memorist", "--db", str(database), "search", *arguments, "--json"]
    environ = ENVIRONMENT | {"MEMORIST_EMBEDDER": "none", "HOME": str(database.parent)}
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environ, cwd=database.parent, timeout=LONGEST, check=False
    )
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def everything(memory: Memorist) -> set[str]:
    return {one.content for one in memory.list(limit=100_000)}


def contents(path: Path, sql: str) -> list[object]:
    """What a database says without Memorist between."""
    connection = apsw.Connection(str(path))
    try:
        return [row[0] for row in connection.execute(sql)]
    finally:
        connection.close()
