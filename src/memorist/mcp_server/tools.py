"""
The tools, as a client lists them. What is written here is paid for in every conversation, so every word counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool, ToolAnnotations

from memorist.mcp_server.outputs import OUTPUTS
from memorist.records import DETAILS, SECTORS

MOST_HITS, MOST_IDS, MOST_ROWS = 100, 20, 100

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool: what it is for, what it takes, and what it does to what is remembered."""

    purpose: str
    properties: Mapping[str, Schema]
    required: tuple[str, ...] = ()
    writes: bool = False
    destroys: bool = False
    idempotent: bool = False

    def tool(self, name: str, *, bound: bool) -> Tool:
        """As it is listed; a server that serves one project does not ask for any."""
        properties = {key: value for key, value in self.properties.items() if not (bound and key == "project")}
        schema: Schema = {"type": "object", "properties": properties}
        if self.required:
            schema["required"] = list(self.required)
        annotations = ToolAnnotations(read_only_hint=not self.writes, open_world_hint=False)
        if self.writes:
            annotations.destructive_hint, annotations.idempotent_hint = self.destroys, self.idempotent
        return Tool(
            name=name,
            description=self.purpose,
            input_schema=schema,
            output_schema=OUTPUTS[name],
            annotations=annotations,
        )


def _text(about: str = "") -> Schema:
    return {"type": "string", "description": about} if about else {"type": "string"}


def _texts(about: str = "", **limits: int) -> Schema:
    schema: Schema = {"type": "array", "items": {"type": "string"}, **limits}
    return schema | {"description": about} if about else schema


def _whole(least: int, most: int | None = None, default: int | None = None, about: str = "") -> Schema:
    schema: Schema = {"type": "integer", "minimum": least}
    schema |= {} if most is None else {"maximum": most}
    schema |= {} if default is None else {"default": default}
    return schema | {"description": about} if about else schema


def _share(about: str) -> Schema:
    return {"type": "number", "minimum": 0, "maximum": 1, "description": about}


_SWITCH: Schema = {"type": "boolean", "default": False}
_TIME = _text("ISO 8601, yesterday, 3 weeks ago")
_AS_OF = _text("As things stood at this time")
_ID = _text("Id, or 6+ characters of its end")
_FIELDS: Mapping[str, Schema] = {
    "title": _text(),
    "summary": _text("One line, shown in indexes"),
    "kind": _text("One word: decision, bug, preference, howto"),
    "tags": _texts(),
    "source": _text("Where it comes from"),
    "salience": _share("How much it matters (0.5)"),
}

OFFERS: Mapping[str, Offer] = {
    "memory_search": Offer(
        "Find memories by word and by meaning, best first. Start here. Gives snippets; then memory_get for the full "
        "text of the few ids that matter.",
        {
            "query": _text('Plain words; "phrases" and identifiers match as written'),
            "limit": _whole(1, MOST_HITS, 10),
            "detail": {"type": "string", "enum": list(DETAILS), "default": "snippet"},
            "project": _text(),
            "session": _text("Only what this session made or used"),
            "kind": _text(),
            "tags": _texts("All of them"),
            "since": _TIME,
            "until": _TIME,
            "as_of": _AS_OF,
            "min_relevance": _share("0.5: rather about it than not"),
            "include_superseded": _SWITCH,
            "include_documents": {**_SWITCH, "description": "Places in indexed files, too"},
        },
        ("query",),
    ),
    "memory_get": Offer(
        "The full text of memories, by ids from a search or timeline. A long one comes in parts: see offset.",
        {
            "ids": _texts("Ids, or 6+ characters of their ends", minItems=1, maxItems=MOST_IDS),
            "offset": _whole(0, default=0, about="Where in the content to begin"),
            "as_of": _AS_OF,
        },
        ("ids",),
    ),
    "memory_timeline": Offer(
        "What happened, in order, one line each: the latest, between two times, or around a memory (anchor) or the "
        "best match of a query.",
        {
            "start": _TIME,
            "end": _text("Included: 2026-03 takes in all of March"),
            "anchor": _ID,
            "query": _text(),
            "before": _whole(0, MOST_ROWS, 5, "Rows before the anchor"),
            "after": _whole(0, MOST_ROWS, 5),
            "project": _text(),
            "as_of": _AS_OF,
        },
    ),
    "memory_add": Offer(
        "Remember one thing worth knowing next time: a decision and why, a cause, a preference, how something is done. "
        "Self-contained, no secrets. The same text again reinforces the memory that is there.",
        {
            "content": _text("What to remember, in full sentences"),
            **_FIELDS,
            "project": _text(),
            "session": _text("A session that is open"),
            "sector": {"type": "string", "enum": list(SECTORS), "default": "semantic"},
            "facts": _texts("Single statements it makes"),
            "created_at": _text("When it happened, if not now"),
        },
        ("content",),
        writes=True,
        idempotent=False,
    ),
    "memory_update": Offer(
        'Correct a memory; what it said before is kept in its history. Only given fields change; "" empties one. If '
        "things have changed since, add a new memory and use memory_supersede instead.",
        {"id": _ID, "content": _text(), **_FIELDS},
        ("id",),
        writes=True,
        idempotent=True,
    ),
    "memory_supersede": Offer(
        "Say that a newer memory replaces an older one, which searches then leave out.",
        {"old_id": _ID, "new_id": _ID},
        ("old_id", "new_id"),
        writes=True,
        idempotent=True,
    ),
    "memory_forget": Offer(
        "Take a memory out of every search. Only if it is wrong or unwanted; the user can restore it.",
        {"id": _ID},
        ("id",),
        writes=True,
        destroys=True,
    ),
    "memory_context": Offer(
        "The memories that matter for a message, packed into one block: the short way when a task begins.",
        {
            "message": _text("The task or question"),
            "budget": _whole(100, about="Tokens"),
            "project": _text(),
        },
        ("message",),
    ),
}


def listed(*, bound: bool, read_only: bool) -> list[Tool]:
    """The tools of a server; one that only reads has none that write."""
    return [offer.tool(name, bound=bound) for name, offer in OFFERS.items() if not (read_only and offer.writes)]
