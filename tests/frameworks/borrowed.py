"""Tests of a framework's own, taken from its source distribution, which scripts/test-adapters downloads."""

import importlib
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest


def borrow(distribution: str, module: str) -> ModuleType:
    """Import a module of the tests of the installed version of a distribution."""
    name = f"{distribution.replace('-', '_')}-{version(distribution)}"
    root = Path(sys.prefix, "borrowed", name)
    others = {key: sys.modules.pop(key) for key in list(sys.modules) if key.split(".")[0] == "tests"}
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(f"tests.{module}")
    finally:
        sys.path.remove(str(root))
        for key in [key for key in sys.modules if key.split(".")[0] == "tests"]:
            del sys.modules[key]
        sys.modules.update(others)


def tests_of(module: ModuleType, skipped: dict[str, str]) -> dict[str, object]:
    """Return the tests and fixtures of a module for a module of ours; those in `skipped` are skipped with a reason."""
    unknown = set(skipped) - set(vars(module))
    assert not unknown, f"{module.__name__} has no {unknown}"
    found = {}
    for name, value in vars(module).items():
        is_fixture = type(value).__name__ == "FixtureFunctionDefinition"
        if not (is_fixture or name.startswith(("test_", "Test"))):
            continue
        found[name] = pytest.mark.skip(reason=skipped[name])(value) if name in skipped else value
    return found
