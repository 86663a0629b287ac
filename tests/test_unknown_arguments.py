"""An argument that a method does not have is named, with those it has."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from memorist import InvalidInput, Memorist
from memorist.engine.memory import ROOMS

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


METHODS = [
    (room, name)
    for room in ROOMS
    for name, method in inspect.getmembers(room, inspect.isfunction)
    if not name.startswith("_")
]


@pytest.mark.local_only("it needs the process of the memory, its files or its words")
@pytest.mark.parametrize(("room", "name"), METHODS, ids=lambda value: getattr(value, "__name__", value))
def test_every_method_names_an_argument_that_is_unknown(memory: Memorist, room: type, name: str) -> None:
    found = memory if isinstance(memory, room) else next(one for one in vars(memory).values() if type(one) is room)
    method = getattr(found, name)
    needed = [one for one in inspect.signature(method).parameters.values() if one.default is one.empty]
    positional = ["x" for one in needed if one.kind is one.POSITIONAL_ONLY]
    named: dict[str, Any] = {one.name: "x" for one in needed if one.kind is one.POSITIONAL_OR_KEYWORD}
    if name == "compare":
        named["profiles"] = ["balanced", "rank"]

    with pytest.raises(InvalidInput, match=r"\bno (argument|field|option|filter) 'colour'; (it has|there are)\b"):
        method(*positional, **named, colour="blue")


def test_a_method_without_arguments_says_so(memory: Memorist) -> None:
    with pytest.raises(InvalidInput, match=r"^stats has no argument 'colour'; it has none$"):
        memory.stats(colour="blue")  # type: ignore[call-arg]


def test_a_search_names_all_that_it_takes(memory: Memorist) -> None:
    with pytest.raises(InvalidInput, match=r"'limti'; it has: .*limit, offset, mode, profile,"):
        memory.search("x", limti=5)  # type: ignore[call-arg]
