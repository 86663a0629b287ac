"""Inserting and updating memories. Triggers keep full text, tags and the queue of texts without vectors in step."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import apsw

from memorist.errors import InvalidInput
from memorist.records import Memory, MemoryDraft
from memorist.store.records import EmbeddingJob
from memorist.store.sqlite.connections import fetch_value
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.rows import load_memory
from memorist.store.sqlite.strength import save_strength
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


def insert_memory(connection: apsw.Connection, namespace: str, draft: MemoryDraft, hash: bytes) -> int | None:
    """Insert a memory and return its key; None if its id, or its hash within the project, is taken."""
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
    rid: int | None = fetch_value(connection, _INSERT, values)
    return rid


def content_hash(content: str) -> bytes:
    """Return the hash by which a text is known to be in a project already."""
    return hashlib.sha256(content.encode()).digest()


def identity_hash(id: str, content: str) -> bytes:
    """
    Return the hash of a memory known by its id: a turn, a file or a chunk.

    The hash of the text alone, which keeps a note from being stored twice, would drop every second "yes" of a
    conversation, and a passage that two files share.
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


def update_memory(
    connection: apsw.Connection, rid: int, memory: Memory, changes: Mapping[str, Any], now: int
) -> tuple[Memory, EmbeddingJob | None]:
    """Change a memory and save the old version; return the new one, and an embedding job if its text has changed."""
    new = {field: changes.get(field, getattr(memory, field)) for field in UPDATABLE}
    if all(new[field] == getattr(memory, field) for field in UPDATABLE):
        return memory, None
    _save_version(connection, rid, memory, now)
    if new["salience"] != memory.salience:
        save_strength(connection, [rid], now)
    facts = [fact.text for fact in memory.facts]
    text = new["content"]
    hash = fetch_value(connection, "select content_hash from memories where rid = ?", (rid,))
    known_by_text = hash == content_hash(memory.content)
    try:
        connection.execute(
            _UPDATE,
            new
            | {
                "rid": rid,
                "now": now,
                "same_salience": new["salience"] == memory.salience,
                "content_hash": content_hash(text) if known_by_text else identity_hash(memory.id, text),
                "tags": as_json(new["tags"]),
                "metadata": as_json(new["metadata"]),
                "segments": unspaced_bigrams(new["title"], text, *new["tags"], *facts),
            },
        )
    except apsw.ConstraintError as exc:
        raise InvalidInput("another memory of that project has exactly this text; nothing was changed") from exc
    same_text = (text, new["title"]) == (memory.content, memory.title)
    changed = load_memory(connection, rid)
    return changed, None if same_text else EmbeddingJob(rid, new["title"], text)


def _save_version(connection: apsw.Connection, rid: int, memory: Memory, now: int) -> None:
    snapshot = {field: getattr(memory, field) for field in UPDATABLE} | {"updated_at": to_micros(memory.updated_at)}
    connection.execute(
        """
        insert into memory_history(rid, version, replaced_at, snapshot)
        select :rid, coalesce(max(version), 0) + 1, :now, :snapshot from memory_history where rid = :rid
        """,
        {"rid": rid, "now": now, "snapshot": as_json(snapshot)},
    )
