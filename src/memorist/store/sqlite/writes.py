"""A memory into its table. What is written in full text, tags and queues follows by triggers.

A memory changed: what it said before goes into its history, and whatever follows its text follows by triggers.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import apsw

from memorist.errors import InvalidInput
from memorist.records import Memory, MemoryDraft
from memorist.store.base import EmbeddingJob
from memorist.store.sqlite.connections import value
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.rows import columns, memory_of
from memorist.store.sqlite.strength import keep_strength
from memorist.text.tokenizer import unspaced_bigrams
from memorist.validation import UPDATABLE

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


def insert(connection: apsw.Connection, namespace: str, draft: MemoryDraft, hash: bytes) -> int | None:
    """The key of the new memory; None where its id is taken, or its hash by another of the project."""
    facts = list(dict.fromkeys(fact.text for fact in draft.facts))
    values = {field: getattr(draft, field) for field in draft.__slots__ if field != "session"} | {
        "facts": "\n".join(facts) or None,
        "namespace": namespace,
        "content_hash": hash,
        "tags": as_json(draft.tags),
        "segments": unspaced_bigrams(draft.title, draft.content, *draft.tags, *facts),
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


_UPDATE = f"""
    update memories
    set {", ".join(f"{field} = :{field}" for field in UPDATABLE)},
        content_hash = :content_hash, segments = :segments, updated_at = :now,
        reinforced_at = iif(:same_salience, reinforced_at, :now)
    where rid = :rid
"""


def update(
    connection: apsw.Connection, rid: int, memory: Memory, changes: Mapping[str, Any], now: int
) -> tuple[Memory, EmbeddingJob | None]:
    """The memory as it is then, and its text if it needs a new vector. `memory` is what it is before."""
    new = {field: changes.get(field, getattr(memory, field)) for field in UPDATABLE}
    if all(new[field] == getattr(memory, field) for field in UPDATABLE):
        return memory, None
    _keep_history(connection, rid, memory, now)
    if new["salience"] != memory.salience:
        keep_strength(connection, [rid], now)
    facts = [fact.text for fact in memory.facts]
    text = new["content"]
    hash = value(connection, "select content_hash from memories where rid = ?", (rid,))
    known_by_text = hash == content_hash(memory.content)
    try:
        connection.execute(
            _UPDATE,
            new
            | {
                "rid": rid,
                "now": now,
                "same_salience": new["salience"] == memory.salience,
                "content_hash": content_hash(text) if known_by_text else hash_by_id(memory.id, text),
                "tags": as_json(new["tags"]),
                "metadata": as_json(new["metadata"]),
                "segments": unspaced_bigrams(new["title"], text, *new["tags"], *facts),
            },
        )
    except apsw.ConstraintError as exc:
        raise InvalidInput("another memory of that project says exactly this already; nothing was changed") from exc
    same_text = (text, new["title"]) == (memory.content, memory.title)
    changed = memory_of(value(connection, f"select {columns()} from memories m where m.rid = ?", (rid,)))
    return changed, None if same_text else EmbeddingJob(rid, new["title"], text)


def _keep_history(connection: apsw.Connection, rid: int, memory: Memory, now: int) -> None:
    snapshot = {field: getattr(memory, field) for field in UPDATABLE} | {"updated_at": to_micros(memory.updated_at)}
    connection.execute(
        """
        insert into memory_history(rid, version, replaced_at, snapshot)
        select :rid, coalesce(max(version), 0) + 1, :now, :snapshot from memory_history where rid = :rid
        """,
        {"rid": rid, "now": now, "snapshot": as_json(snapshot)},
    )
