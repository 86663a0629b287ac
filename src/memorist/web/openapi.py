"""The OpenAPI document (3.1) of the API, made of the table of operations."""

from functools import cache
from typing import Any

from memorist import __version__
from memorist.contract import EVENTS, JSON, Operation
from memorist.present.codec import schema_of
from memorist.records import Memory
from memorist.schemas import Schema
from memorist.web.operations import OPERATIONS
from memorist.web.problems import BASE, PROBLEM_JSON
from memorist.web.requests import body_schema

_PROBLEM: Schema = {
    "type": "object",
    "description": "What went wrong (RFC 9457): what happened, why, and what to do",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}
_IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key with the same request again gets the first answer, and does nothing",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "The ETag of the memory as it was read, or * for whatever it is now",
    "schema": {"type": "string", "maxLength": 255, "pattern": '^(\\*|"[!-~]*")$'},
}
_LAST_EVENT = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event that was seen: what came since is sent first",
    "schema": {"type": "string", "maxLength": 255, "pattern": "^[0-9-]*$"},
}


@cache
def build_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    definitions: dict[str, Schema] = {"Problem": _PROBLEM}
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, definitions)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Memorist",
            "version": __version__,
            "description": "The memory an AI agent can trust: stored, found, corrected and forgotten over HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": BASE}],
        "security": [{"bearer": []}, {"cookie": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(map(_tag_of, OPERATIONS))],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "responses": {
                "Problem": {
                    "description": "A problem",
                    "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "memorist"},
            },
        },
    }


def _tag_of(operation: Operation) -> str:
    return operation.room or "memories"


def _describe(operation: Operation, definitions: dict[str, Schema]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [_tag_of(operation)],
        "parameters": _describe_parameters(operation),
        "responses": _describe_answers(operation, definitions),
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": bool(body_schema(operation)["required"]),
            "content": {operation.takes: {"schema": body_schema(operation)}},
        }
    return described


def _describe_parameters(operation: Operation) -> list[dict[str, Any]]:
    path = [
        {"name": name, "in": "path", "required": True, "schema": {**operation.arguments[name].schema, "minLength": 1}}
        for name in operation.path_parameters
    ]
    query = [
        {"name": name, "in": "query", "required": name in operation.required, **_as_parameter(schema)}
        for name, schema in operation.query.items()
    ]
    headers: list[dict[str, Any]] = [_IDEMPOTENCY] if operation.writes else []
    headers += [_IF_MATCH | {"required": operation.must_match}] if operation.conditional else []
    return [*path, *query, *headers, *([_LAST_EVENT] if operation.gives == EVENTS else [])]


def _as_parameter(schema: Schema) -> Schema:
    """
    Return the description of a value in a URL, in which everything is text: a time is a string, several names repeat
    the name, and an object is written as JSON.
    """
    if schema.get("type") == "object":
        return {"content": {JSON: {"schema": schema}}}
    if schema.get("type") == ["string", "number"]:
        return {"schema": {**schema, "type": "string"}}
    if schema.get("type") == ["string", "array"]:
        return {"schema": {**schema, "type": "array"}}
    return {"schema": schema}


def _describe_answers(operation: Operation, definitions: dict[str, Schema]) -> dict[str, Any]:
    if operation.gives == JSON:
        content: dict[str, Any] = {JSON: {"schema": answer_schema(operation, definitions)}}
    else:
        content = {operation.gives: {"schema": {"type": "string"}}}
    good: dict[str, Any] = {"description": "Done", "content": content}
    if operation.returns is Memory:
        good["headers"] = {"ETag": {"description": "The version of the memory", "schema": {"type": "string"}}}
    problem = {"$ref": "#/components/responses/Problem"}
    return {str(operation.status): good, "4XX": problem, "5XX": problem}


def answer_schema(operation: Operation, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of an answer; a bare value or a list is a member of an object."""
    schema: Schema = (
        {"type": "string"} if operation.returns is type(None) else schema_of(operation.returns, definitions)
    )
    if operation.member is None:
        return schema
    return {"type": "object", "properties": {operation.member: schema}, "required": [operation.member]}
