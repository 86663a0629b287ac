"""Reading requests: their parameters and their bodies, within limits of size and time, checked against the table."""

import asyncio
import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn
from urllib.parse import unquote

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request

from memorist.errors import InvalidInput
from memorist.nesting import MAX_LEVELS, find_excess
from memorist.schemas import Schema, validate_object
from memorist.validation import quote
from memorist.web.openapi import body_schema
from memorist.web.operations import JSON, Operation
from memorist.web.problems import Refusal

MAX_BODY_BYTES = 16 << 20
BODY_SECONDS = 30.0
_MAX_BODY_LEVELS = MAX_LEVELS + 4  # metadata of an item of a list, and the body around them
_LARGE_BODY_BYTES = 100_000  # it is parsed in a thread, so that others need not wait for it


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
    schema = {"properties": dict(operation.query), "required": required, "additionalProperties": False}
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


async def read_body(
    operation: Operation, request: Request, limit: int = MAX_BODY_BYTES
) -> tuple[bytes, dict[str, Any]]:
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


def _parse_body(operation: Operation, raw: bytes) -> dict[str, Any]:
    return validate_object(operation.name, body_schema(operation), _parse_json(raw, "the body"))


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
        value = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:  # UnicodeDecodeError is one, too
        reason = "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        raise Refusal(400, "not-json", f"{what} is not JSON: {reason}") from None
    if excess := find_excess(value, _MAX_BODY_LEVELS, math.inf):
        raise Refusal(400, "not-json", f"{what} is too much: {excess}")
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} must be an object, not {quote(value)}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
