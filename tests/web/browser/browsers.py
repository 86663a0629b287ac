"""
A browser for the tests: the one of the machine, or else one from npm that needs nothing of the machine.

The tests of the page run where a browser is found: the one that CHROMIUM names, one on the PATH, or on Linux with an
x86-64 processor the one inside npm's @sparticuz/chromium, which brings the libraries it needs and is fetched once.
"""

import os
import platform
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from node_packages import fetch_package, find_node
from shared_folders import cached_folder, make_once

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
HINT = "install one (Debian: apt-get install chromium), or name one in CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/usr/bin/chromium", "/snap/bin/chromium")
_CARRIED, _CARRIED_VERSION = "@sparticuz/chromium", "153.0.0"
_ARCHIVES = ("al2023.tar", "fonts.tar")  # the libraries and the fonts that it needs
_FONT_SETTINGS = Path("/etc/fonts/fonts.conf")
_OWN_FONTS = '<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>'
_UNPACK = """
const fs = require("fs"), zlib = require("zlib"), [source, target] = process.argv.slice(1);
fs.createReadStream(source).pipe(zlib.createBrotliDecompress()).pipe(fs.createWriteStream(target));
"""


@dataclass(frozen=True)
class BrowserProgram:
    """The path of a browser, and the variables of the environment that it needs."""

    path: str
    environ: dict[str, str] = field(default_factory=dict)


def find_browser() -> BrowserProgram:
    """Return a browser, or skip the test and say how to get one."""
    named = os.environ.get("CHROMIUM")
    if named:
        if not Path(named).is_file():
            pytest.fail(f"CHROMIUM names {named}, which is not a file")
        return BrowserProgram(named)
    for candidate in (*map(shutil.which, _NAMES), *_PLACES):
        if candidate and Path(candidate).is_file():
            return BrowserProgram(candidate)
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        pytest.skip(f"no Chromium or Chrome was found: {HINT}")
    return _fetch_browser()


def _fetch_browser() -> BrowserProgram:
    folder = make_once(cached_folder("chromium", _CARRIED_VERSION), _unpack_browser)
    environ = {"LD_LIBRARY_PATH": str(folder / "lib")}
    if not _FONT_SETTINGS.exists():  # it ends at the first letter to be drawn where it finds no font
        environ["FONTCONFIG_FILE"] = str(folder / "fonts.conf")
    return BrowserProgram(str(folder / "chromium"), environ)


def _unpack_browser(folder: Path) -> None:
    packed = fetch_package(_CARRIED, _CARRIED_VERSION) / "bin"
    node, _ = find_node()
    for name in ("chromium", *_ARCHIVES):
        subprocess.run([*node, "-e", _UNPACK, str(packed / f"{name}.br"), str(folder / name)], check=True)
    for name in _ARCHIVES:
        with tarfile.open(folder / name) as archive:
            archive.extractall(folder, filter="data")
        (folder / name).unlink()
    (folder / "fonts.conf").write_text(_OWN_FONTS)
    (folder / "chromium").chmod(0o755)
