"""An argument that a method does not have is named, with those it has."""

from collections.abc import Callable
from typing import Any

import pytest

from memorist import InvalidInput, Memorist

CALLS: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    "add": (lambda memory, **more: memory.add("x", **more), "a memory has no field 'colour'", ("content", "tags")),
    "update": (lambda memory, **more: memory.update("known", **more), "a memory has no field 'colour'", ("tags",)),
    "search": (lambda memory, **more: memory.search("x", **more), "search has no option 'colour'", ("tags", "alpha")),
    "list": (lambda memory, **more: memory.list(**more), "there is no filter 'colour'", ("project", "tags")),
    "facts.add": (lambda memory, **more: memory.facts.add("known", "x", **more), "a fact has no field", ("kind",)),
    "sessions.start": (
        lambda memory, **more: memory.sessions.start(**more),
        "sessions.start has no argument 'colour'",
        ("project", "id", "summary"),
    ),
    "context": (lambda memory, **more: memory.context("x", **more), "context has no argument 'colour'", ("budget",)),
    "links.add": (lambda memory, **more: memory.links.add("a", "b", "c", **more), "links.add has no", ("said_by",)),
    "timeline": (lambda memory, **more: memory.timeline(**more), "timeline has no argument 'colour'", ("anchor",)),
}


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
@pytest.mark.parametrize("name", CALLS)
def test_an_argument_that_is_unknown_is_named_with_those_there_are(memory: Memorist, name: str) -> None:
    call, message, there_are = CALLS[name]
    memory.add("known", id="known")

    with pytest.raises(InvalidInput) as refused:
        call(memory, colour="blue")

    said, _, listed = str(refused.value).partition(";")
    assert message in said
    assert set(there_are) <= set(listed.replace(",", " ").split())
