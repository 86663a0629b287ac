"""The public methods of a memory, with their parameters: changed on purpose only."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memorist

PINNED = Path(__file__).parent / "data" / "interface.txt"


def interface() -> list[str]:
    """Return a line for each public name of a memory, and for `open`."""
    lines = [f"open{parameters(memorist.open)}"]
    for name, member in inspect.getmembers(memorist.Memorist):
        if not name.startswith("_"):
            lines.append(f"{name}{parameters(member)}" if inspect.isfunction(member) else f"{name}: property")
    return lines


def parameters(function: Callable[..., Any]) -> inspect.Signature:
    """Return a signature without its types, which mypy checks and each Python writes in its own way."""
    bare = [one.replace(annotation=one.empty) for one in inspect.signature(function).parameters.values()]
    return inspect.Signature(bare)


def test_names_and_signatures_are_those_that_are_pinned() -> None:
    assert interface() == PINNED.read_text("utf-8").splitlines()


def test_every_public_method_is_documented() -> None:
    methods = [member for name, member in inspect.getmembers(memorist.Memorist) if not name.startswith("_")]

    assert all(inspect.getdoc(method) for method in methods)
