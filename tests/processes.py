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

import pytest

from timeouts import MAX_WAIT_SECONDS

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
FORK_OPTIONS = ("-W", "ignore::DeprecationWarning")
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}


@contextmanager
def start_program(code: str, *arguments: object, options: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Start a Python program in a process of its own, which does not outlive the block."""
    command = [sys.executable, *options, "-c", textwrap.dedent(code), *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
    ) as process:
        watchdog = threading.Timer(MAX_WAIT_SECONDS, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def expect(text: str, processes: Sequence[subprocess.Popen[str]]) -> None:
    """Fail unless each process prints this as its next line; one that does not is shown with all it printed."""
    for process in processes:
        if (said := read_line(process)) != text:
            process.kill()
            pytest.fail(f"instead of {text!r} a process said:\n{said}\n{process.communicate()[0]}")


def send_line(process: subprocess.Popen[str], text: str = "go") -> None:
    """Send a waiting process its next line."""
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def wait_for_end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a process to end by itself, and return its exit code and what it printed."""
    printed, _ = process.communicate()
    return process.returncode, printed


def run_search(database: Path, *arguments: str) -> dict[str, Any]:
    """Run `memorist search` with these arguments, without a model; return what it prints as JSON."""
    command = [sys.executable, "-m", "memorist", "--db", str(database), "search", *arguments, "--json"]
    environ = ENVIRONMENT | {"MEMORIST_EMBEDDER": "none", "HOME": str(database.parent)}
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environ, cwd=database.parent, timeout=MAX_WAIT_SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer
