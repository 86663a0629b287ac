"""The TypeScript client: it is what the OpenAPI document says, compiles strictly, and calls every operation."""

import shutil
import subprocess
from pathlib import Path

import pytest

import typescript_client
from memorist.web.operations import OPERATIONS
from node_packages import fetch_package, find_node
from timeouts import MAX_WAIT_SECONDS
from web_server import TOKEN, WebServer

VERSION = "5.9.3"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client and the program that uses it, compiled by `tsc --strict`."""
    node, _ = find_node()
    compiler = fetch_package("typescript", VERSION) / "bin" / "tsc"
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "src").mkdir()
    shutil.copy(typescript_client.FOLDER / "tsconfig.json", folder)
    shutil.copy(typescript_client.FOLDER / "src" / "client.ts", folder / "src")
    shutil.copy(Path(__file__).parent / "every_operation.ts", folder / "src")
    (folder / "package.json").write_text('{"type": "module"}')
    done = subprocess.run([*node, str(compiler), "--strict"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return folder / "dist" / "every_operation.js"


def test_it_is_up_to_date() -> None:
    written = (typescript_client.FOLDER / "src" / "client.ts").read_text("utf-8")

    assert written == typescript_client.generate(), "run scripts/typescript_client.py"


def test_every_operation_of_the_api_through_it(compiled: Path, server: WebServer) -> None:
    node, _ = find_node()

    done = subprocess.run(
        [*node, str(compiled), server.url, TOKEN], capture_output=True, text=True, check=False, timeout=MAX_WAIT_SECONDS
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{len(OPERATIONS)} operations\n"
