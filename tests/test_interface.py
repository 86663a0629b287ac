"""The public methods of a memory, with their parameters: changed on purpose only."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memorist
from memorist.engine.memory import ROOMS

PINNED = Path(__file__).parent / "data" / "interface.txt"


def interface() -> list[str]:
    """Return a line for each public name of a memory and of its rooms, and for `open`."""
    lines = [f"open{parameters(memorist.open)}"]
    for room, name, member in members():
        shown = f"{room}.{name}" if room else name
        lines.append(f"{shown}{parameters(member)}" if inspect.isfunction(member) else f"{shown}: property")
    return lines


def members() -> list[tuple[str, str, Any]]:
    """Return the public methods of a memory and of its rooms: room, name, member."""
    return [
        (room._name, name, member)
        for room in ROOMS
        for name, member in inspect.getmembers(room)
        if not name.startswith("_")
    ]


def parameters(function: Callable[..., Any]) -> inspect.Signature:
    """Return a signature without its types, which mypy checks and each Python writes in its own way."""
    bare = [one.replace(annotation=one.empty) for one in inspect.signature(function).parameters.values()]
    return inspect.Signature(bare)


def test_names_and_signatures_are_those_that_are_pinned() -> None:
    assert interface() == PINNED.read_text("utf-8").splitlines()


def test_every_public_method_is_documented() -> None:
    assert [(room, name) for room, name, member in members() if not inspect.getdoc(member)] == []
