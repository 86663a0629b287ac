"""Every field that an answer of a tool may have. The schemas that clients get leave out what is in rows."""

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

Schema = dict[str, Any]

TEXT, FLAG, COUNT = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "minimum": 0}
FRACTION = {"type": "number", "minimum": 0, "maximum": 1}


def of(properties: Mapping[str, Schema], *required: str) -> Schema:
    return {
        "type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False,
    }  # fmt: skip


def some(items: Schema) -> Schema:
    return {"type": "array", "items": items}


MEMORY_FIELDS: Mapping[str, Schema] = {
    **dict.fromkeys(("id", "created_at", "updated_at", "project", "session", "sector", "kind"), TEXT),
    **dict.fromkeys(("title", "summary", "source", "snippet", "content"), TEXT),
    **dict.fromkeys(("expires_at", "valid_until", "superseded_by"), TEXT),
    **dict.fromkeys(("tags", "cut"), some(TEXT)),
    **dict.fromkeys(("content_length", "more_from"), COUNT),
    "salience": FRACTION,
    "pinned": FLAG,
    "facts": some(of({"text": TEXT, "confidence": FRACTION}, "text", "confidence")),
    "metadata": {"type": "object"},
}
FILE_FIELDS: Mapping[str, Schema] = {
    "path": TEXT, "start_line": COUNT, "end_line": COUNT, "breadcrumb": some(TEXT),
}  # fmt: skip
MEMORY = of(MEMORY_FIELDS, "id", "created_at")
HIT = of(
    {**MEMORY_FIELDS, **FILE_FIELDS, "score": FRACTION, "relevance": FRACTION, "match": some(TEXT)},
    "score",
    "relevance",
)
SESSION = of({"id": TEXT, "started_at": TEXT, "summary": TEXT}, "id")
NEAR = of({"id": TEXT, "snippet": TEXT, "resemblance": FRACTION, "merged": FLAG}, "id")
REDACTED = some(of({"kind": TEXT, "line": COUNT, "column": COUNT, "field": TEXT}, "kind"))
COMMON: Mapping[str, Schema] = {
    "caution": TEXT,
    "left_out": of({"count": COUNT, "ids": some(TEXT), "how": TEXT}, "count", "how"),
    "next": TEXT,
}


def answer(properties: Mapping[str, Schema], *required: str) -> Schema:
    return of({**properties, **COMMON}, *required, "next")


ANSWERS: Mapping[str, Schema] = {
    "memory_search": answer(
        {
            "results": some(HIT), "relevant": FLAG, "degraded": TEXT, "suggestion": TEXT,
            "hidden": {"type": "object", "additionalProperties": COUNT},
        },
        "results",
        "relevant",
    ),
    "memory_get": answer({"memories": some(MEMORY), "missing": some(TEXT)}, "memories"),
    "memory_timeline": answer({"memories": some(MEMORY), "anchor": TEXT, "sessions": some(SESSION)}, "memories"),
    "memory_add": answer(
        {"id": TEXT, "known": FLAG, "near": NEAR, "redacted": REDACTED, "degraded": TEXT}, "id", "known"
    ),
    "memory_update": answer({"id": TEXT, "updated_at": TEXT, "redacted": REDACTED, "degraded": TEXT}, "id"),
    "memory_supersede": of({"id": TEXT, "superseded_by": TEXT, "next": TEXT}, "id", "next"),
    "memory_forget": of({"id": TEXT, "next": TEXT}, "id", "next"),
    "memory_context": answer({"context": TEXT}, "context"),
}  # fmt: skip


def check_answer(tool: str, given: Mapping[str, Any]) -> None:
    Draft202012Validator(ANSWERS[tool]).validate(given)
