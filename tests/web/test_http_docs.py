"""docs/http.md: every example runs against a real server, and every claim about limits is the code's."""

import contextlib
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from memorist.cli.web import DEFAULT_PORT
from memorist.web import events, memories, requests, server, streams
from memorist.web.operations import OPERATIONS
from web_server import TOKEN, web_server

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
ADDRESS = f"http://127.0.0.1:{DEFAULT_PORT}"


def test_the_examples_in_python_print_what_the_page_says(path: Path) -> None:
    code = "\n".join(re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL))
    said = [line[3:] for line in code.splitlines() if line.startswith("#> ")]
    printed = io.StringIO()

    with web_server(path) as server, contextlib.redirect_stdout(printed):
        exec(compile(code.replace(ADDRESS, server.url), "http.md", "exec"), {"TOKEN": TOKEN})

    assert printed.getvalue().splitlines() == said


def test_the_example_with_curl_is_answered(path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    (command,) = re.findall(r"```sh\n(curl.*?)```", PAGE, re.DOTALL)

    with web_server(path) as server:
        done = subprocess.run(
            ["bash", "-c", command.replace(ADDRESS, server.url).replace("curl ", "curl -fsS ")],
            capture_output=True, text=True, check=False, env={"TOKEN": TOKEN, "PATH": "/usr/bin:/bin"},
        )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert '"relevant":false' in done.stdout


def test_every_path_is_named() -> None:
    named = {f"/{part}" for part in re.findall(r"/([a-z-]+)", PAGE)}

    assert {"/" + re.split("[/:]", operation.path)[1] for operation in OPERATIONS} - named <= {"/document"}


def test_the_limits_are_those_of_the_code() -> None:
    assert f"| connections | {server.MAX_CONNECTIONS};" in PAGE
    assert f"within {server.HEADER_SECONDS:g} seconds" in PAGE
    assert f"| a body | {requests.MAX_BODY_BYTES >> 20} MiB within {requests.BODY_SECONDS:g} seconds" in PAGE
    assert f"an import {streams.MAX_UPLOAD_BYTES >> 30} GiB" in PAGE
    assert f"| listeners for events | {events.MAX_LISTENERS} |" in PAGE
    assert f"| namespaces open at once | {memories.MAX_NAMESPACES};" in PAGE
    assert f"port {DEFAULT_PORT}" in PAGE
