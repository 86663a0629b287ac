"""Reading requests: their parameters and their bodies, within limits of size and time, checked against the table."""

import asyncio
import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request

from memorist.contract import JSON, Operation
from memorist.errors import InvalidInput
from memorist.nesting import MAX_LEVELS, count_values, find_excess
from memorist.schemas import Schema, validate_object
from memorist.validation import quote
from memorist.web.problems import Refusal

MAX_BODY_BYTES = 16 << 20
BODY_SECONDS = 30.0
_MAX_BODY_LEVELS = MAX_LEVELS + 4  # metadata of an item of a list, and the body around them
_MAX_BODY_CONTAINERS, _MAX_BODY_VALUES = 250_000, 2_000_000  # objects and lists; both are far beyond any batch
_CHECKED_BY_ENGINE = {"minimum", "minLength", "maxLength", "minItems", "enum"}
_LARGE_BODY_BYTES = 100_000  # it is parsed in a thread, so that others need not wait for it


class Form(Protocol):
    """The body that a request may have: the schemas of its members, if it has one, and those that it needs."""

    @property
    def name(self) -> str: ...
    @property
    def body(self) -> Mapping[str, Schema] | None: ...
    @property
    def required(self) -> tuple[str, ...]: ...


def body_schema(form: Form) -> Schema:
    """Return the schema of the body of an operation."""
    return {
        "type": "object",
        "properties": dict(form.body or {}),
        "required": [name for name in form.required if name in (form.body or {})],
        "additionalProperties": False,
    }


def read_query(operation: Operation, request: Request) -> dict[str, Any]:
    """Return the parameters of the path and of the URL, checked."""
    values: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        schema = operation.query.get(name)
        if schema is None:
            taken = ", ".join(operation.query) or "none"
            raise InvalidInput(f"{operation.name} takes no parameter {quote(name)}; it takes: {taken}")
        if "array" in schema["type"]:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise InvalidInput(f"the parameter {name} is given more than once")
        else:
            values[name] = _parse_text(name, schema, value)
    required = [name for name in operation.required if name in operation.query]
    schema = {
        "properties": _checked_here(f"{operation.name} query", operation.query),
        "required": required,
        "additionalProperties": False,
    }
    # The path is routed as it was sent, so that an encoded slash is a part of an id and not of the path.
    path = {name: unquote(value) for name, value in request.path_params.items()}
    return {**path, **validate_object(operation.name, schema, values)}


def _parse_text(name: str, schema: Schema, value: str) -> Any:
    """Return a parameter's value, which a URL has as text."""
    kind = schema["type"]
    try:
        if kind == "integer":
            return int(value) if len(value) < 20 else math.inf
        if kind == "number":
            return float(value)
    except ValueError:
        raise InvalidInput(f"{name} must be a number, not {quote(value)}") from None
    if kind == "object":
        return _parse_json(value, f"the parameter {name}")
    if kind == "boolean":
        if value not in ("true", "false"):
            raise InvalidInput(f"{name} must be true or false, not {quote(value)}")
        return value == "true"
    return value


async def read_body(operation: Form, request: Request, limit: int = MAX_BODY_BYTES) -> tuple[bytes, dict[str, Any]]:
    """Return the body of a request, and its members, checked."""
    refuse_large(request, limit)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            raw = await _read_all(request, limit)
    except TimeoutError:
        raise _close(408, "too-slow", f"the body did not arrive within {BODY_SECONDS:g} s") from None
    except ClientDisconnect:
        raise Refusal(400, "incomplete", "the body ended early") from None
    if operation.body is None:
        if raw:
            raise InvalidInput(f"{operation.name} takes no body")
        return raw, {}
    if not raw and not body_schema(operation)["required"]:
        return raw, {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Refusal(415, "unsupported-media-type", f"send the body as {JSON}")
    parse = partial(_parse_body, operation, raw)
    return raw, parse() if len(raw) <= _LARGE_BODY_BYTES else await anyio.to_thread.run_sync(parse)


def _parse_body(operation: Form, raw: bytes) -> dict[str, Any]:
    schema = body_schema(operation)
    schema["properties"] = _checked_here(f"{operation.name} body", schema["properties"])
    return validate_object(operation.name, schema, _parse_json(raw, "the body"))


def _checked_here(place: str, properties: Mapping[str, Schema]) -> Mapping[str, Schema]:
    """Return the schemas of what an operation takes, as far as they are checked here; made once for each."""
    if place not in _known_schemas:
        _known_schemas[place] = {key: _without_limits(schema) for key, schema in properties.items()}
    return _known_schemas[place]


_known_schemas: dict[str, Mapping[str, Schema]] = {}


def _without_limits(schema: Schema) -> Schema:
    """Return a schema without the limits that the engine checks as well: its messages are those of the library."""
    kept = {name: value for name, value in schema.items() if name not in _CHECKED_BY_ENGINE}
    if schema.get("type") != "integer":
        kept.pop("maximum", None)
    if isinstance(items := kept.get("items"), dict):
        kept["items"] = _without_limits(items)
    if "properties" in kept:
        kept["properties"] = {name: _without_limits(member) for name, member in kept["properties"].items()}
    return kept


def refuse_large(request: Request, limit: int) -> None:
    """Refuse a body by its declared length, before any of it is read."""
    length = request.headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or len(length) > 18 or int(length) > limit:
        raise _close(413, "too-large", f"a body can have {limit:,} bytes at most")


async def _read_all(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise _close(413, "too-large", f"a body can have {limit:,} bytes at most")
    return bytes(body)


def _close(status: int, name: str, detail: str) -> Refusal:
    """Return a refusal that ends the connection: the rest of the body is not read."""
    return Refusal(status, name, detail, {"Connection": "close"})


def _parse_json(raw: bytes | str, what: str) -> Mapping[str, Any]:
    try:
        text = raw if isinstance(raw, str) else raw.decode(json.detect_encoding(raw), "surrogatepass")
        _refuse_many_values(text, what)
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:  # UnicodeDecodeError is one, too
        reason = "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        raise Refusal(400, "not-json", f"{what} is not JSON: {reason}") from None
    if excess := find_excess(value, _MAX_BODY_LEVELS, math.inf):
        raise Refusal(400, "not-json", f"{what} is too much: {excess}")
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} must be an object, not {quote(value)}")
    return value


def _refuse_many_values(text: str, what: str) -> None:
    """Refuse a text before it is parsed that would fill the memory: each value takes up to a hundred times its size."""
    if len(text) <= _MAX_BODY_CONTAINERS:
        return
    containers, values = count_values(text)
    for count, limit, things in (
        (containers, _MAX_BODY_CONTAINERS, "objects and lists"),
        (values, _MAX_BODY_VALUES, "values"),
    ):
        if count > limit:
            raise Refusal(413, "too-large", f"{what} has more than {limit:,} {things}: send it in several requests")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
