"""
The records of an export, and the fields of each.

A record is complete in itself: a memory comes with its history, its facts and its sessions, a document with its chunks.
So it is either known already or written whole, and an import that was interrupted can be run again. Records refer to
each other by ids. Whatever follows from the rest is left out: indexes, tags, positions in sessions, the time from which
a memory is superseded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = 1  # the version of this format
NORM_TOLERANCE = 0.01  # float16 leaves a unit vector of some thousand dimensions within this of length 1


@dataclass(frozen=True, slots=True)
class RecordList:
    """A list of records within a record; an empty one is left out."""

    shape: Mapping[str, "Kind"]


# The kind of a field's value; with a ? the field may be missing. A share is a number from 0 to 1, a time is in UTC.
Kind = str | RecordList
Shape = Mapping[str, Kind]

VECTOR: Shape = {"model": "text", "vector": "vector"}
VERSION: Shape = {"version": "whole", "replaced_at": "time", "was": "snapshot"}
STRENGTH: Shape = {"replaced_at": "time", "salience": "share", "reinforced_at": "time", "pinned": "flag"}
USAGE: Shape = {"session": "session", "usage": "usage", "at": "time", "latest": "time"}
_SAID: Shape = {
    "kind": "any?", "subject": "any?", "predicate": "any?", "object": "any?", "confidence": "share",
    "decay_rate": "positive?",
}  # fmt: skip
FACT_VERSION: Shape = {"replaced_at": "time", **_SAID, "reinforced_at": "time"}
FACT: Shape = {
    "id": "id", "text": "content", **_SAID, "created_at": "time", "reinforced_at": "time",
    "versions": RecordList(FACT_VERSION),
}  # fmt: skip
MEMORY: Shape = {
    "id": "id", "project": "any?", "content": "content", "title": "any?", "summary": "any?", "kind": "any?",
    "source": "any?", "tags": "texts", "sector": "sector", "tier": "tier", "salience": "share", "metadata": "object",
    "created_at": "time", "updated_at": "time", "reinforced_at": "time", "recorded_at": "time", "deleted_at": "time?",
    "pinned": "flag", "access_count": "whole", "accessed_at": "time?",
    "versions": RecordList(VERSION),
    "strength": RecordList(STRENGTH),
    "facts": RecordList(FACT),
    "sessions": RecordList(USAGE),
    "vectors": RecordList(VECTOR),
    "old_vectors": RecordList({"version": "whole", **VECTOR}),
    "part_vectors": RecordList({"first": "whole", "last": "whole", **VECTOR}),
}  # fmt: skip
CHUNK: Shape = {"ordinal": "whole", "start_line": "whole", "end_line": "whole", "breadcrumb": "texts", **MEMORY}
RECALLED: Shape = {"memory": "id", "place": "whole", "score": "number", "relevance": "number", "facts": "texts"}

# In the order of an export: a record refers only to records before it.
SHAPES: Mapping[str, Shape] = {
    "model": {"name": "text", "dimensions": "whole", "metric": "text"},
    "session": {"id": "session", "project": "any?", "started_at": "time", "ended_at": "time?", "summary": "any?"},
    "memory": MEMORY,
    "relation": {
        "source": "id", "target": "id", "kind": "text", "confidence": "share", "said_by": "any?",
        "valid_from": "time", "valid_until": "time?",
    },
    "recall": {
        "id": "id", "at": "time", "query": "any?", "mode": "text", "profile": "text", "lens": "any?",
        "session": "session?", "memories": RecordList(RECALLED),
    },
    "feedback": {"memory": "id", "query": "text", "good": "flag", "at": "time"},
    "lens": {"name": "text", "definition": "lens"},
    "document": {
        "id": "id", "path": "text", "root": "text", "project": "any?", "title": "any?", "sector": "sector",
        "tags": "texts", "front_matter": "object", "size": "whole", "modified_at": "whole", "hash": "bytes",
        "redacted": "flag", "indexed_at": "time",
        "links": RecordList({"line": "whole", "target": "any", "text": "any"}),
        "chunks": RecordList(CHUNK),
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """A checked record to be imported, and its place in the file. Its times are datetimes, its bytes bytes."""

    place: str
    type: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The numbers of new and of known memories and documents, and of new sessions, in a batch of records."""

    added: int = 0
    known: int = 0
    sessions: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # place, reason


def scalar_fields(shape: Shape) -> dict[str, str]:
    """Return the fields of a record that are columns of its own table, with their kinds."""
    return {name: kind.removesuffix("?") for name, kind in shape.items() if isinstance(kind, str)}
