"""The documentation as a website: it builds without a warning, holds every page and loads nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_it_has_every_page_of_the_documentation(site: Path) -> None:
    pages = {path.parent.name for path in site.rglob("index.html")}

    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= pages
    assert {"architecture", "changelog", "contributing", "security"} <= pages


def test_it_begins_with_the_readme(site: Path) -> None:
    home = (site / "index.html").read_text("utf-8")

    assert 'src="images/terminal.svg"' in home
    assert 'href="search/"' in home
    assert (site / "images" / "terminal.svg").is_file()


def test_files_that_are_no_pages_are_linked_in_the_repository(site: Path) -> None:
    speed = (site / "speed" / "index.html").read_text("utf-8")

    assert 'href="https://github.com/memorist-memory/memorist/blob/main/bench/README.md"' in speed


def test_its_pages_load_nothing_from_elsewhere(site: Path) -> None:
    elsewhere = r"(?:https?:)?//"
    html = re.compile(rf'<(?:script|img|iframe|source)\b[^>]* src="{elsewhere}|<link\b[^>]* href="{elsewhere}')
    css = re.compile(rf"url\(['\"]?{elsewhere}")

    assert [path for path in site.rglob("*.html") if html.search(path.read_text("utf-8"))] == []
    assert [path for path in site.rglob("*.css") if css.search(path.read_text("utf-8"))] == []
