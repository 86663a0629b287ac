"""ARCHITECTURE.md names modules and functions that exist, and leaves no module out."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
PATHS = {name: PAGE.partition(f"## The path of one {name}")[2].partition("\n## ")[0] for name in ("search", "add")}
NAMED = [name for path in PATHS.values() for name in re.findall(r"`(memorist(?:\.\w+)+)`", path)]
MAX_BYTES = 12_288  # a map, not a phone book


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
def test_every_step_exists(name: str) -> None:
    assert resolve(name) is not None


@pytest.mark.parametrize("name", PATHS)
def test_a_path_is_told_in_order_and_whole(name: str) -> None:
    steps = re.findall(r"^(\d+)\. ", PATHS[name], re.MULTILINE)

    assert steps == [str(number) for number in range(1, len(steps) + 1)]
    assert len(steps) >= 6


def test_every_package_and_module_at_the_top_has_its_layer() -> None:
    source = ROOT / "src" / "memorist"
    found = {path.stem for path in source.iterdir() if path.suffix in ("", ".py") and not path.name.startswith("_")}
    layers = PAGE.partition("## Layers")[2].partition("\n## ")[0]

    assert found == set(re.findall(r"`(\w+)`", layers))


def test_it_is_short_enough_to_be_read() -> None:
    assert len(PAGE.encode()) <= MAX_BYTES
