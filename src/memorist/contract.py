"""
The contract: a method of `Memorist` is an operation, wherever it is called from.

Its signature, type hints and docstring say what it takes, answers and does. Here that becomes data, of which the HTTP
API, its OpenAPI document, the clients and the remote memory are made. A memory on a server is the same class: there, a
call is handed to a transport with its arguments, instead of being run.
"""

import inspect
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from datetime import datetime
from functools import cached_property, wraps
from pathlib import Path
from typing import (
    Annotated,
    Any,
    BinaryIO,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from msgspec import Struct
from msgspec.structs import replace

from memorist.errors import InvalidInput, MemoristError
from memorist.profiles.profile import ProfileOptions
from memorist.schemas import Meta, Schema, nullable
from memorist.validation import quote

JSON, MULTIPART = "application/json", "multipart/form-data"
LINES, EVENTS = "application/x-ndjson", "text/event-stream"
_IN_URL = ("GET", "DELETE")  # methods whose arguments are in the URL
_MEMBERS: Mapping[Any, str] = {int: "count", type(None): "id"}  # of the object that JSON has instead of a bare value

_PROFILE_PARAMETERS = {"limit", "record"}  # options of a profile that the signature of a search names itself

F = TypeVar("F", bound=Callable[..., Any])


class Transport(ABC):
    """The way to a memory on a server."""

    @abstractmethod
    def call(self, operation: "Operation", arguments: dict[str, Any]) -> Any:
        """Have the server run an operation, and return its answer."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""


class Operation(Struct, frozen=True, dict=True):
    """
    An operation: a method of a memory, or of one of its rooms, and how it is called over HTTP.

    `reads` is False where it changes something. `one_project` operations are offered to tokens of one project, too; one
    that tells of the `machine` is not even offered to tokens of one namespace. A `conditional` one takes the version
    that it may change as If-Match; where it `must_match`, it is not called without. A `slow` one reads everything, and
    may take minutes.
    """

    function: Callable[..., Any]
    method: str
    path: str
    reads: bool
    status: int = 200
    answer: str | None = None  # the member of the object that JSON has instead of a bare value
    nested: str | None = None  # the object that holds the arguments which the signature takes as **keywords
    renamed: tuple[tuple[str, str], ...] = ()  # arguments that HTTP has under another name
    local: tuple[str, ...] = ()  # arguments that HTTP does not have
    one_project: bool = False
    machine: bool = False
    conditional: bool = False
    must_match: bool = False
    slow: bool = False
    takes: str = JSON
    gives: str = JSON
    called: str = ""  # its name, where that is not the name of the method
    room: str = ""

    @property
    def attribute(self) -> str:
        return self.function.__name__

    @property
    def name(self) -> str:
        """The name of the operation: that of the method, after the room it is in."""
        name = self.called or self.attribute.rstrip("_")
        return f"{self.room}.{name}" if self.room else name

    @cached_property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        text = " ".join((inspect.getdoc(self.function) or "").partition("\n\n")[0].split())
        first, end, _ = text.partition(". ")
        return first if end else text.rstrip(".")

    @property
    def writes(self) -> bool:
        return not self.reads

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @cached_property
    def returns(self) -> Any:
        return get_type_hints(self.function)["return"]

    @cached_property
    def path_parameters(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    @cached_property
    def arguments(self) -> "Mapping[str, Parameter]":
        """The arguments that can be sent, by their names in the signature."""
        return {argument.name: argument for argument in self._list_arguments()}

    @cached_property
    def parameters(self) -> "Mapping[str, Parameter]":
        """The arguments that a request has beside those in its path, by their names in the signature."""
        return {name: argument for name, argument in self.arguments.items() if name not in self.path_parameters}

    def _list_arguments(self) -> "Iterator[Parameter]":
        hints = get_type_hints(self.function, include_extras=True)
        names = dict(self.renamed)
        hidden = {*self.local, *(["if_version"] if self.conditional else [])}
        for found in list(self.signature.parameters.values())[1:]:
            if found.kind is found.VAR_KEYWORD:
                (keywords,) = get_args(hints[found.name])
                yield from self._list_keywords(keywords)
            elif found.name not in hidden:
                schema = argument_schema(hints[found.name])
                if schema is not None:
                    wire = names.get(found.name, found.name)
                    is_open = found.default is None or _allows_none(hints[found.name])
                    yield Parameter(found.name, wire, schema, found.default is found.empty, is_open=is_open)

    def _list_keywords(self, keywords: Any) -> "Iterator[Parameter]":
        options = get_type_hints(ProfileOptions)
        for name, hint in get_type_hints(keywords, include_extras=True).items():
            nested = self.nested if self.nested != "options" or name in options else None
            yield Parameter(name, name, argument_schema(hint) or {}, False, nested, _allows_none(hint))

    @cached_property
    def _unsent(self) -> set[str]:
        """The arguments that are no part of a query or a body: those in the path, in a header, and functions."""
        named = self.signature.parameters.values()
        return {one.name for one in named if one.kind is not one.VAR_KEYWORD and one.name not in self.parameters}

    @cached_property
    def schemas(self) -> Mapping[str, Schema]:
        """The schemas of what a request says, by name; of arguments in an object, that of the object."""
        flat = {one.wire: one.schema for one in self.parameters.values() if one.nested is None}
        return flat if self.nested is None else {**flat, self.nested: _FREE_OBJECT}

    @property
    def query(self) -> Mapping[str, Schema]:
        """The parameters of the URL."""
        return self.schemas if self.method in _IN_URL else {}

    @property
    def body(self) -> Mapping[str, Schema] | None:
        """The members of the JSON object that is sent, if one is."""
        return None if self.method in _IN_URL or not self.schemas else self.schemas

    @cached_property
    def required(self) -> tuple[str, ...]:
        return tuple(one.wire for one in self.parameters.values() if one.required)

    @property
    def member(self) -> str | None:
        """The member of the object that JSON has instead of a bare value or a list."""
        if get_origin(self.returns) is list:
            return self.answer or "items"
        return self.answer or _MEMBERS.get(self.returns)

    def read_arguments(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a request says as the arguments of the method."""
        names = {one.wire: one.name for one in self.parameters.values() if one.nested is None}
        flat = {names.get(wire, wire): value for wire, value in sent.items() if wire != self.nested}
        inner = sent.get(self.nested, {}) if self.nested else {}
        known = {one.name for one in self.parameters.values() if one.nested}
        known |= _PROFILE_PARAMETERS if self.nested == "options" else set()
        for name in inner:
            if name in flat or (name in names.values() and name not in known):
                raise InvalidInput(f"{name} does not belong in `{self.nested}`; give it beside `{self.nested}`")
            if name not in known:
                there_are = ", ".join(sorted(known))
                raise InvalidInput(f"`{self.nested}` has no member {quote(name)}; it can have: {there_are}")
        return {**flat, **inner}

    def write_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of the method as a request says them, without what was left open."""
        sent: dict[str, Any] = {}
        for name, value in arguments.items():
            parameter = self.parameters.get(name)
            if parameter is None and name not in self._unsent:
                raise InvalidInput(f"{self.name} has no argument {name!r}; it has: {', '.join(self.parameters)}")
            if parameter is None or (value is None and parameter.drops_none):
                continue
            target = sent.setdefault(parameter.nested, {}) if parameter.nested else sent
            target[parameter.wire] = value
        return sent

    def run(self, room: object, arguments: Mapping[str, Any]) -> Any:
        """Call the method of a room, or of a view of one, with arguments by name."""
        method = getattr(room, self.attribute)
        named = dict(arguments)
        positional = [
            named.pop(found.name)
            for found in self.signature.parameters.values()
            if found.kind is found.POSITIONAL_ONLY and found.name in named
        ]
        return method(*positional, **named)

    def bind(self, room: object, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by their names."""
        bound = self.signature.bind(room, *arguments, **keywords).arguments
        _, *given = bound.items()
        last = list(self.signature.parameters.values())[-1]
        flat: dict[str, Any] = {}
        for name, value in given:
            flat |= value if name == last.name and last.kind is last.VAR_KEYWORD else {name: value}
        return flat


class Parameter(Struct, frozen=True):
    """An argument of an operation: its name in the signature and in a request, and its schema."""

    name: str
    wire: str
    schema: Schema
    required: bool
    nested: str | None = None
    is_open: bool = False  # None means that it was left open

    @property
    def drops_none(self) -> bool:
        """True if None is the same as nothing, and not a value that empties a field."""
        return self.is_open and "null" not in self.schema.get("type", ())


def operation(route: str, *, reads: bool | None = None, **details: Any) -> Callable[[F], F]:
    """
    Mark a method as an operation with a route, such as "GET /memories/{id}".

    What is not a GET changes something, unless it says that it `reads`. The details are those of `Operation`.
    """
    method, path = route.split()
    is_reading = method == "GET" if reads is None else reads
    if "renamed" in details:
        details["renamed"] = tuple(details["renamed"].items())

    def mark(function: F) -> F:
        described = Operation(function, method, path, is_reading, **details)
        known = _list_arguments(function)

        @wraps(function)
        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            if known is not None and not keywords.keys() <= known:
                raise _unknown_argument(replace(described, room=self._name).name, keywords, known)
            if self._remote is None:
                return function(self, *arguments, **keywords)
            return self._remote.call(described, described.bind(self, arguments, keywords))

        call.operation = described  # type: ignore[attr-defined]
        call.__signature__ = _name_keywords(function)  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return mark


def names_unknown(function: F) -> F:
    """Have a method that is no operation itself name an argument that it does not have, as operations do."""
    known = _list_arguments(function)
    assert known is not None, "a method with **keywords checks them itself"

    @wraps(function)
    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if not keywords.keys() <= known:
            name = function.__name__.rstrip("_")
            raise _unknown_argument(f"{self._name}.{name}" if self._name else name, keywords, known)
        return function(self, *arguments, **keywords)

    return call  # type: ignore[return-value]


def _unknown_argument(name: str, keywords: Mapping[str, Any], known: KeysView[str]) -> InvalidInput:
    unknown = next(keyword for keyword in keywords if keyword not in known)
    return InvalidInput(f"{name} has no argument {unknown!r}; it has{': ' if known else ' none'}{', '.join(known)}")


def _list_arguments(function: Callable[..., Any]) -> KeysView[str] | None:
    """Return the names of the arguments; None where there are **keywords, which the method checks itself."""
    _, *parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return dict.fromkeys(parameter.name for parameter in parameters).keys()


def _name_keywords(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature with the names of its **keywords, for help and completion."""
    signature = inspect.signature(function)
    *others, last = signature.parameters.values()
    if last.kind is not last.VAR_KEYWORD:
        return signature
    (keywords,) = get_args(last.annotation)
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in keywords.__annotations__.items()
    ]
    return signature.replace(parameters=[*others, *named])


def local_only(reason: str) -> Callable[[F], F]:
    """Mark a method that only the machine of the memory can do; over HTTP, it raises an error with the reason."""

    def mark(function: F) -> F:
        @names_unknown
        @wraps(function)
        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            if self._remote is not None:
                raise MemoristError(f"{function.__name__} cannot be called over HTTP: it {reason}")
            return function(self, *arguments, **keywords)

        return call  # type: ignore[return-value]

    return mark


def list_operations(*rooms: type) -> tuple[Operation, ...]:
    """Return the operations of rooms, in the order of their methods."""
    found = []
    for room in rooms:
        members = {name: member for kind in reversed(room.__mro__) for name, member in vars(kind).items()}
        marked = (getattr(member, "operation", None) for member in members.values())
        found += [replace(one, room=room._name) for one in marked if one is not None]  # type: ignore[attr-defined]
    return tuple(found)


# Tools: functions that a model may call


def operation_of(method: Callable[..., Any]) -> Operation:
    """Return the operation that a method of a memory is."""
    found: Operation = getattr(method, "operation")  # noqa: B009
    return found


def describe_call(call: Callable[..., Any]) -> str:
    """Return what a model is told of a tool: its docstring, as one line."""
    return " ".join((inspect.getdoc(call) or "").split())


def describe_arguments(call: Callable[..., Any], operation: Operation, offers: Sequence[str] = ()) -> Schema:
    """
    Return the schema of the arguments of a tool in front of an operation, as a model needs it.

    The tool offers arguments of the operation under their names. Its own signature tells what differs from those, and
    what it needs; its first parameter is its own affair.
    """
    hints = get_type_hints(call, include_extras=True)
    _, *parameters = inspect.signature(call).parameters.values()
    own = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
    properties: dict[str, Schema] = {}
    for one in own:
        inherited = operation.arguments.get(one.name)
        schema = {**(inherited.schema if inherited else {}), **(argument_schema(hints[one.name]) or {})}
        default = {} if one.default in (None, one.empty) else {"default": one.default}
        properties[one.name] = _simplify(schema) | default
    properties |= {name: _simplify(operation.arguments[name].schema) for name in offers}
    required = [one.name for one in own if one.default is one.empty]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _simplify(schema: Schema) -> Schema:
    """Return a schema with the first of several types alone, and without what a method says better than a schema."""
    kinds = schema.get("type", [])
    kind = kinds[0] if isinstance(kinds, list) else kinds
    kept = {name: schema[name] for name in _SHOWN_LIMITS.get(kind, ()) if name in schema}
    items = {"items": _simplify(schema["items"])} if kind == "array" else {}
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"type": kind, **kept, **items, **described}


_NUMBER_LIMITS = ("minimum", "maximum")
_SHOWN_LIMITS: Mapping[str, Sequence[str]] = {
    "string": ("enum", "maxLength"),
    "array": ("minItems", "maxItems"),
    "integer": _NUMBER_LIMITS,
    "number": _NUMBER_LIMITS,
}


# Schemas of arguments

_FREE_OBJECT: Schema = {"type": "object", "additionalProperties": True}
_SIMPLE: Mapping[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", datetime: "string", Path: "string",
}  # fmt: skip


def argument_schema(annotation: Any) -> Schema | None:
    """
    Return the JSON Schema of an argument, or None if it cannot be sent, as a function or an open file.

    None as a value means that an argument was left open, so it is no part of a schema, unless it empties a field.
    """
    if get_origin(annotation) is Annotated:
        inner, meta = get_args(annotation)[:2]
        schema = argument_schema(inner)
        if schema is None or not isinstance(meta, Meta):
            return schema
        described = {**schema, **meta.schema}
        return nullable(described) if meta.nullable else described
    if get_origin(annotation) in (Union, types.UnionType):
        return _union_schema([one for one in get_args(annotation) if one is not type(None)])
    return _plain_schema(annotation)


def _union_schema(choices: Sequence[Any]) -> Schema | None:
    joined: Schema = {}
    kinds: dict[str, None] = {}
    for choice in choices:
        schema = argument_schema(choice)
        if schema is None:
            return None
        kind = schema.get("type", [])
        kinds |= dict.fromkeys(kind if isinstance(kind, list) else [kind])
        joined |= schema
    return {**joined, "type": [*kinds] if len(kinds) > 1 else next(iter(kinds))} if kinds else joined


def _allows_none(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _allows_none(get_args(annotation)[0])
    return annotation is Any or type(None) in get_args(annotation)


def _member_schema(hint: Any) -> Schema:
    """Return the schema of a member of an object, in which null leaves it open."""
    schema = argument_schema(hint) or {}
    return nullable(schema) if _allows_none(hint) and "null" not in schema.get("type", ["null"]) else schema


def _plain_schema(annotation: Any) -> Schema | None:
    if annotation in _SIMPLE:
        return {"type": _SIMPLE[annotation]}
    if annotation is Any:
        return {}
    if annotation is BinaryIO:
        return {"type": "string", "format": "binary"}
    if is_typeddict(annotation):
        members = {name: _member_schema(hint) for name, hint in get_type_hints(annotation, include_extras=True).items()}
        required = [name for name in ("content", "text") if name in members]
        return {"type": "object", "properties": members, "required": required, "additionalProperties": False}
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        (_, values) = get_args(annotation)
        inner = argument_schema(values) or True
        return {"type": "object", "additionalProperties": inner}
    if origin is Callable or annotation is Callable or not isinstance(origin, type):
        return None
    if issubclass(origin, Sequence):
        items = argument_schema(get_args(annotation)[0])
        return {"type": "array", "items": items}
    return None
