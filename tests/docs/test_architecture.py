"""ARCHITECTURE.md names modules and functions that exist, and leaves no module out."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
PATH_OF_A_SEARCH = PAGE.partition("## The path of one search")[2].partition("\n## ")[0]
NAMED = re.findall(r"`(memorist(?:\.\w+)+)`", PATH_OF_A_SEARCH)


def resolve(name: str) -> Any:
    """Return the module, class, function or method of a dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("name", NAMED)
def test_every_step_of_a_search_exists(name: str) -> None:
    assert resolve(name) is not None


def test_the_path_is_told_in_order_and_whole() -> None:
    steps = re.findall(r"^(\d+)\. ", PATH_OF_A_SEARCH, re.MULTILINE)

    assert steps == [str(number) for number in range(1, len(steps) + 1)]
    assert len(NAMED) >= len(steps) >= 10


def test_the_layout_has_a_line_for_every_module() -> None:
    source = ROOT / "src" / "memorist"
    modules = {
        path.relative_to(source).with_suffix("").as_posix()
        for path in source.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    listed = re.findall(r"^\| `([\w/]+)` \|", PAGE, re.MULTILINE)

    assert sorted(listed) == sorted(modules)
