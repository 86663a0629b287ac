"""A memory into its table. What is written in full text, tags and queues follows by triggers."""

import hashlib
import json
from typing import Any

import apsw

from memorist.records import Draft
from memorist.store.sqlite_filter import to_micros
from memorist.store.sqlite_pool import value
from memorist.store.words import segments

_INSERT = """
    insert into memories(
        id, namespace, project, content, content_hash, title, summary, kind, source, tags, segments, facts, sector,
        tier, salience, metadata, created_at, updated_at, reinforced_at, recorded_at)
    values (
        :id, :namespace, :project, :content, :content_hash, :title, :summary, :kind, :source, :tags, :segments, :facts,
        :sector, :tier, :salience, :metadata, :created_at, :recorded_at, :recorded_at, :recorded_at)
    on conflict do nothing
    returning rid
"""


def insert(connection: apsw.Connection, namespace: str, draft: Draft, hash: bytes) -> int | None:
    """The key of the new memory; None where its id is taken, or its hash by another of the project."""
    facts = list(dict.fromkeys(fact.text for fact in draft.facts))
    values = {field: getattr(draft, field) for field in draft.__slots__ if field != "session"} | {
        "facts": "\n".join(facts) or None,
        "namespace": namespace,
        "content_hash": hash,
        "tags": as_json(draft.tags),
        "segments": segments(draft.title, draft.content, *draft.tags, *facts),
        "metadata": as_json(draft.metadata),
        "created_at": to_micros(draft.created_at),
        "recorded_at": to_micros(draft.recorded_at),
    }
    rid: int | None = value(connection, _INSERT, values)
    return rid


def content_hash(content: str) -> bytes:
    """What tells that a text is in a project already."""
    return hashlib.sha256(content.encode()).digest()


def hash_by_id(id: str, content: str) -> bytes:
    """
    The same of what is known by its id, a turn, a file or a chunk: what keeps a note from being kept twice would
    swallow every second "yes", and what stands in two files.
    """
    return content_hash(f"{id}\0{content}")


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
