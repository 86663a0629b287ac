"""
Tools: functions that a model may call, described to it by their signatures and by the operations behind them.

A tool names its operation and the arguments of it that it offers, whose types, limits and meaning are declared there.
Its own signature has what differs, and its docstring is what a model is told. Every conversation pays for the tokens of
the list, so every word counts: what an argument means is told once, and the protocol's defaults are left out.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from mcp_types import Tool, ToolAnnotations
from msgspec import Struct

from memorist.contract import Operation, describe_arguments, describe_call, operation_of
from memorist.nesting import refuse_excess
from memorist.schemas import Schema, validate_object

Fields = Mapping[str, type]

_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", list: "array", dict: "object"}


class ToolSpec(Struct, frozen=True, dict=True):
    """A tool: the function that answers, the operation behind it, and what it takes and gives beside its signature."""

    call: Callable[..., dict[str, Any]]
    operation: Operation
    offers: tuple[str, ...]
    answers: Fields
    may_answer: Fields
    self_evident: frozenset[str]
    destroys: bool
    is_idempotent: bool

    def __call__(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        return self.call(*arguments, **keywords)

    @property
    def name(self) -> str:
        return self.call.__name__

    @cached_property
    def input_schema(self) -> Schema:
        schema = describe_arguments(self.call, self.operation, self.offers)
        for name in self.self_evident:
            del schema["properties"][name]["description"]
        return schema

    @property
    def output_schema(self) -> Schema:
        given = {**self.answers, **self.may_answer, "next": str}
        properties = {name: {"type": _TYPES[kind]} for name, kind in given.items()}
        return {"type": "object", "properties": properties, "required": [*self.answers, "next"]}

    @property
    def annotations(self) -> ToolAnnotations:
        """The hints that differ from the protocol's defaults: it may write and destroy, and should not be repeated."""
        if self.operation.reads:
            return ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return ToolAnnotations(
            destructive_hint=self.destroys, idempotent_hint=self.is_idempotent or None, open_world_hint=False
        )


def tool(
    method: Callable[..., Any],
    offers: str = "",
    *,
    answers: Fields,
    may_answer: Fields | None = None,
    self_evident: str = "",
    destroys: bool = False,
    is_idempotent: bool = False,
) -> Callable[[Callable[..., dict[str, Any]]], ToolSpec]:
    """
    Make a tool of a function, in front of a method that is an operation.

    It gets its own arguments by name, and those that it `offers` (names of the operation's) as keywords; what the
    `self_evident` ones mean is not told. Its answer has the fields `answers` and `next`, and those of `may_answer`
    where they have a value.
    """

    def make(call: Callable[..., dict[str, Any]]) -> ToolSpec:
        return ToolSpec(
            call, operation_of(method), tuple(offers.split()), answers, may_answer or {},
            frozenset(self_evident.split()), destroys, is_idempotent,
        )  # fmt: skip

    return make


def list_tools(tools: Iterable[ToolSpec], *, one_project: bool, read_only: bool) -> list[Tool]:
    """
    Return the tools of a server: if it is read-only, those that read; if it has one project, those of operations that
    one project has, without the argument `project`.
    """
    told: set[str] = set()
    return [
        Tool(
            name=spec.name,
            description=describe_call(spec.call),
            input_schema=_shorten(spec.input_schema, {"project"} if one_project else set(), told),
            output_schema=spec.output_schema,
            annotations=spec.annotations,
        )
        for spec in tools
        if (spec.operation.reads or not read_only) and (spec.operation.one_project or not one_project)
    ]


def _shorten(schema: Schema, hidden: set[str], told: set[str]) -> Schema:
    """Return a schema without some arguments, and without meanings that were told before."""
    properties = {}
    for name, argument in schema["properties"].items():
        if name not in hidden:
            meaning = argument.get("description")
            if meaning in told:
                argument = {key: value for key, value in argument.items() if key != "description"}
            properties[name] = argument
            told.add(meaning)
    return {**schema, "properties": properties}


def validate_arguments(tool: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call without nulls, which many clients send for what they do not use."""
    refuse_excess(arguments, f"the call of {tool}")
    given = {name: value for name, value in arguments.items() if value is not None or name not in schema["properties"]}
    return validate_object(tool, {**schema, "additionalProperties": False}, given)
