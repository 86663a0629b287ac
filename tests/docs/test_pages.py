"""Every page of the documentation does what it says."""

import os
import re
from pathlib import Path

import pytest

from doc_pages import run_examples
from memorist.cli.app import COMMANDS
from memorist.config import TYPES
from memorist.profiles import PROFILES
from memorist.profiles.profile import Profile

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
# Their examples need a framework: scripts/test-adapters runs them.
FRAMEWORKS = {path.name.removeprefix("on_").replace("_", "-") for path in (ROOT / "tests/frameworks").glob("on_*")}


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in FRAMEWORKS], ids=lambda page: page.name)
def test_the_examples_of_a_page_print_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    printed, said = run_examples(page)

    assert printed == said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text("utf-8")):
        name, _, anchor = target.partition("#")
        linked = page.parent / name
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text("utf-8"), re.MULTILINE)
            assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, target


def test_every_command_is_documented() -> None:
    documented = set(re.findall(r"memorist (\w+)", (ROOT / "docs" / "command-line.md").read_text("utf-8")))

    assert set(COMMANDS) <= documented


def test_every_setting_and_profile_is_documented() -> None:
    settings = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    searching = (ROOT / "docs" / "search.md").read_text("utf-8")

    assert all(f"`{name}`" in settings for name in TYPES)
    assert all(f"`{name}`" in searching for name in PROFILES)


def test_every_option_of_a_profile_is_in_the_table_of_options() -> None:
    table = (ROOT / "docs" / "search.md").read_text("utf-8").partition("### Options of a profile\n")[2]
    cells = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}

    assert named == set(Profile.__struct_fields__) - {"name"}


def test_the_readme_names_the_two_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")

    for script in ("scripts/demo", "scripts/test"):
        assert script in readme
        assert os.access(ROOT / script, os.X_OK)


def test_the_files_and_names_in_contributing_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    text = re.sub(r"\s+", " ", text)
    paths = set(re.findall(r"`((?:src|tests|docs|scripts)/[\w/.]+)`", text))
    names = re.findall(r"`(\w+)` in `(src/[\w/.]+\.py)`", text)

    assert paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert names
    for name, path in names:
        source = (ROOT / path).read_text("utf-8")
        assert re.search(rf"^(?:def|class) {name}\b|^{name}\b.*=", source, re.MULTILINE), f"{name} in {path}"
