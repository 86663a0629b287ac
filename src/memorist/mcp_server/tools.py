"""The tools as a client lists them. Every conversation pays for the tokens of this list, so every word counts."""

from collections.abc import Mapping
from dataclasses import dataclass

from mcp_types import Tool, ToolAnnotations

from memorist.mcp_server.schemas import (
    ANSWER_SCHEMAS,
    Schema,
    boolean_schema,
    fraction_schema,
    integer_schema,
    text_schema,
    texts_schema,
)
from memorist.records import DETAILS, SECTORS

_MAX_HITS, _MAX_IDS, _MAX_ROWS = 100, 20, 100


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool: its description, its arguments, and its effect on memories."""

    description: str
    arguments: Mapping[str, Schema]
    required: tuple[str, ...] = ()
    writes: bool = False
    destroys: bool = False
    is_idempotent: bool = False

    def to_tool(self, name: str, *, one_project: bool) -> Tool:
        """Return the tool as it is listed; a server of one project takes no argument `project`."""
        properties = {key: schema for key, schema in self.arguments.items() if not (one_project and key == "project")}
        input_schema: Schema = {"type": "object", "properties": properties}
        if self.required:
            input_schema["required"] = list(self.required)
        annotations = ToolAnnotations(read_only_hint=not self.writes, open_world_hint=False)
        if self.writes:
            annotations.destructive_hint, annotations.idempotent_hint = self.destroys, self.is_idempotent
        return Tool(
            name=name,
            description=self.description,
            input_schema=input_schema,
            output_schema=ANSWER_SCHEMAS[name],
            annotations=annotations,
        )


def list_tools(*, one_project: bool, read_only: bool) -> list[Tool]:
    """Return the tools of a server; one that is read-only has none that write."""
    return [
        spec.to_tool(name, one_project=one_project) for name, spec in TOOLS.items() if not (read_only and spec.writes)
    ]


_PROJECT = text_schema()
_TIME = text_schema("ISO 8601, yesterday, 3 weeks ago")
_AS_OF = text_schema("As things stood at this time")
_ID = text_schema("Id, or its last 6+ characters")
_FIELDS: Mapping[str, Schema] = {
    "title": text_schema(),
    "summary": text_schema("One line, shown in indexes"),
    "kind": text_schema("One word: decision, bug, preference, howto"),
    "tags": texts_schema(),
    "source": text_schema("Where it comes from"),
    "salience": fraction_schema("How much it matters (0.5)"),
}

TOOLS: Mapping[str, ToolSpec] = {
    "memory_search": ToolSpec(
        "Search memories by keyword and by meaning, best first. Start here. Returns snippets; then use memory_get for "
        "the full text of the few ids that matter.",
        {
            "query": text_schema('Plain words; "phrases" and identifiers match as written'),
            "limit": integer_schema(1, _MAX_HITS, default=10),
            "detail": {"type": "string", "enum": list(DETAILS), "default": "snippet"},
            "project": _PROJECT,
            "session": text_schema("Only memories made or used in this session"),
            "kind": text_schema(),
            "tags": texts_schema("Must have all of them"),
            "since": _TIME,
            "until": _TIME,
            "as_of": _AS_OF,
            "min_relevance": fraction_schema("0.5: more likely relevant than not"),
            "include_superseded": {**boolean_schema(), "default": False},
            "include_documents": {**boolean_schema("Also search indexed files"), "default": False},
        },
        ("query",),
    ),
    "memory_get": ToolSpec(
        "Get the full text of memories by the ids from a search or timeline. Long ones come in parts: see offset.",
        {
            "ids": texts_schema("Ids, or their last 6+ characters", minItems=1, maxItems=_MAX_IDS),
            "offset": integer_schema(0, default=0, description="Character to start at"),
            "as_of": _AS_OF,
        },
        ("ids",),
    ),
    "memory_timeline": ToolSpec(
        "List what happened, in order, one line each: the latest, between two times, or around a memory (anchor) or "
        "the best match for a query.",
        {
            "start": _TIME,
            "end": text_schema("Inclusive: 2026-03 covers all of March"),
            "anchor": _ID,
            "query": text_schema(),
            "before": integer_schema(0, _MAX_ROWS, default=5, description="Rows before the anchor"),
            "after": integer_schema(0, _MAX_ROWS, default=5),
            "project": _PROJECT,
            "as_of": _AS_OF,
        },
    ),
    "memory_add": ToolSpec(
        "Remember one thing worth knowing next time: a decision and its reason, a cause, a preference, how something "
        "is done. Self-contained, no secrets. Adding the same text again reinforces the memory.",
        {
            "content": text_schema("What to remember, in full sentences"),
            **_FIELDS,
            "project": _PROJECT,
            "session": text_schema("An open session"),
            "sector": {"type": "string", "enum": list(SECTORS), "default": "semantic"},
            "facts": texts_schema("Single statements it makes"),
            "created_at": text_schema("When it happened, if not now"),
        },
        ("content",),
        writes=True,
    ),
    "memory_update": ToolSpec(
        'Correct a memory; its history keeps the old text. Only the given fields change; "" clears one. If things '
        "have changed since, add a new memory and use memory_supersede instead.",
        {"id": _ID, "content": text_schema(), **_FIELDS},
        ("id",),
        writes=True,
        is_idempotent=True,
    ),
    "memory_supersede": ToolSpec(
        "Mark an older memory as replaced by a newer one; searches then leave out the older one.",
        {"old_id": _ID, "new_id": _ID},
        ("old_id", "new_id"),
        writes=True,
        is_idempotent=True,
    ),
    "memory_forget": ToolSpec(
        "Remove a memory from all searches. Only if it is wrong or unwanted; the user can restore it.",
        {"id": _ID},
        ("id",),
        writes=True,
        destroys=True,
    ),
    "memory_context": ToolSpec(
        "Get the memories that matter for a message, packed into one block: the quickest start for a task.",
        {
            "message": text_schema("The task or question"),
            "budget": integer_schema(100, description="Tokens"),
            "project": _PROJECT,
        },
        ("message",),
    ),
}
