"""Adding and updating memories. Triggers keep full text, tags and the queue of texts without vectors in step."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from memorist.errors import InvalidInput
from memorist.records import FILE, TURN, ConversationBatch, Memory, MemoryDraft
from memorist.store.database import Conflict, Connection, Row
from memorist.store.erasure import is_quoted
from memorist.store.filters import to_micros
from memorist.store.records import ConversationResult, EmbeddingJob
from memorist.store.relations import save_strength, unsupersede
from memorist.store.rows import load_memory, memory_columns, read_keyed
from memorist.store.sessions import link_created
from memorist.store.tombstones import Tombstones
from memorist.text.tokenizer import unspaced_bigrams
from memorist.validation import UPDATABLE

_COLUMNS = (
    "id", "namespace", "project", "content", "content_hash", "title", "summary", "kind", "source", "tags", "segments",
    "facts", "sector", "tier", "salience", "metadata", "expires_at", "created_at", "updated_at", "reinforced_at",
    "recorded_at",
)  # fmt: skip


def insert_memory(connection: Connection, namespace: str, draft: MemoryDraft, hash: bytes) -> int | None:
    """Insert a memory and return its key; None if its id, or its hash within the project, is taken."""
    return insert_memories(connection, namespace, [draft], [hash])[0]


def insert_memories(
    connection: Connection, namespace: str, drafts: Sequence[MemoryDraft], hashes: Sequence[bytes]
) -> list[int | None]:
    """Insert memories and return their keys; None for each whose id, or hash within the project, is taken."""
    rows = [_to_row(namespace, draft, hash) for draft, hash in zip(drafts, hashes, strict=True)]
    return insert_memory_rows(connection, _COLUMNS, rows)


def insert_memory_rows(connection: Connection, columns: Sequence[str], rows: Sequence[Row]) -> list[int | None]:
    """Insert rows of memories and return their keys; None for each whose id, or hash within the project, is taken."""
    ending = "on conflict do nothing returning id, content_hash, rid"
    keys = {(id, hash): rid for id, hash, rid in connection.insert_rows("memories", columns, rows, ending)}
    id_and_hash = itemgetter(columns.index("id"), columns.index("content_hash"))
    return [keys.pop(id_and_hash(row), None) for row in rows]  # of two that are the same, the first was inserted


def _to_row(namespace: str, draft: MemoryDraft, hash: bytes) -> tuple[Any, ...]:
    """Return the columns of a memory, also those that follow from its texts."""
    facts = list(dict.fromkeys(fact.text for fact in draft.facts)) if draft.facts else []
    recorded_at = to_micros(draft.recorded_at)
    created_at = recorded_at if draft.created_at is draft.recorded_at else to_micros(draft.created_at)
    return (
        draft.id, namespace, draft.project, draft.content, hash, draft.title, draft.summary, draft.kind, draft.source,
        as_json(draft.tags) if draft.tags else "[]", unspaced_bigrams(draft.title, draft.content, *draft.tags, *facts),
        "\n".join(facts) or None, draft.sector, draft.tier, draft.salience,
        as_json(draft.metadata) if draft.metadata else "{}",
        to_micros(draft.expires_at) if draft.expires_at else None, created_at, recorded_at, recorded_at, recorded_at,
    )  # fmt: skip


def find_same_text(connection: Connection, namespace: str, project: str | None, hash: bytes) -> tuple[int, str] | None:
    """Return the key and the id of the live memory with a hash in a project."""
    found: tuple[int, str] | None = connection.fetch_value(
        """
        select rid, id from memories
        where namespace = ? and coalesce(project, '') = coalesce(?, '') and content_hash = ? and deleted_at is null
        """,
        (namespace, project, hash),
    )
    return found


HASH_BYTES = 32  # of SHA-256


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


def is_unhashed(hash: object) -> bool:
    """Tell if plain SQL has written a text: it has no function for a hash, and leaves a mark of another length."""
    return isinstance(hash, bytes) and len(hash) != HASH_BYTES


def hash_texts(connection: Connection, where: str, values: Mapping[str, Any]) -> None:
    """Hash the texts of those memories that plain SQL has written, and whose columns meet a condition."""
    rows = connection.fetch(
        f"select rid, id, content, kind from memories where length(content_hash) <> {HASH_BYTES} and {where}", values
    )
    for rid, id, content, kind in rows:
        hashes = [content_hash(content)] if kind not in (TURN, FILE) else []
        for hash in (*hashes, identity_hash(id, content)):  # by its id where another memory has the same text
            connection.execute(_SET_HASH, {"hash": hash, "rid": rid})
            if connection.changes():
                break


_SET_HASH = """
    update memories set content_hash = :hash
    where rid = :rid and not exists (
        select 1 from memories o
        where o.namespace = memories.namespace and coalesce(o.project, '') = coalesce(memories.project, '')
          and o.content_hash = :hash and o.deleted_at is null)
"""


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # made once: making it takes longest


def as_json(value: Any) -> str:
    return _encode(value)


_UPDATE = f"""
    update memories
    set {", ".join(f"{field} = :{field}" for field in UPDATABLE)},
        content_hash = :content_hash, segments = :segments, updated_at = :now,
        reinforced_at = :reinforced_at
    where rid = :rid
"""


def update_memory(
    connection: Connection, rid: int, memory: Memory, changes: Mapping[str, Any], now: int, *, by_id: bool = False
) -> tuple[Memory, EmbeddingJob | None]:
    """
    Change a memory and save the old version; return the new one, and an embedding job if its text has changed.

    An end that is still to come is no version by itself: programs extend it whenever they read a memory. Afterwards a
    memory is known by its text or its id, as it was before; or by its id, if `by_id`.
    """
    new = {field: changes.get(field, getattr(memory, field)) for field in UPDATABLE}
    changed_fields = [field for field in UPDATABLE if new[field] != getattr(memory, field)]
    if not changed_fields:
        return memory, None
    expires_at = to_micros(new["expires_at"]) if new["expires_at"] else None
    if changed_fields != ["expires_at"] or (expires_at is not None and expires_at <= now):
        _save_version(connection, rid, memory, now)
    elif not by_id:
        connection.execute("update memories set expires_at = ? where rid = ?", (expires_at, rid))
        return load_memory(connection, rid), None
    if new["salience"] != memory.salience:
        save_strength(connection, [rid], now)
    facts = [fact.text for fact in memory.facts]
    text = new["content"]
    hash = connection.fetch_value("select content_hash from memories where rid = ?", (rid,))
    known_by_text = not by_id and (
        hash == content_hash(memory.content)
        or (
            # Of a damaged text, the hash tells nothing.
            hash != identity_hash(memory.id, memory.content) and memory.kind not in (TURN, FILE)
        )
    )
    try:
        connection.execute(
            _UPDATE,
            new
            | {
                "rid": rid,
                "now": now,
                "reinforced_at": now if new["salience"] != memory.salience else to_micros(memory.reinforced_at),
                "content_hash": content_hash(text) if known_by_text else identity_hash(memory.id, text),
                "tags": as_json(new["tags"]),
                "metadata": as_json(new["metadata"]),
                "expires_at": expires_at,
                "segments": unspaced_bigrams(new["title"], text, *new["tags"], *facts),
            },
        )
    except Conflict as exc:
        raise InvalidInput("another memory of that project has exactly this text; nothing was changed") from exc
    same_text = (text, new["title"]) == (memory.content, memory.title)
    changed = load_memory(connection, rid)
    return changed, None if same_text else EmbeddingJob(rid, new["title"], text)


def find_by_id(connection: Connection, namespace: str, id: str) -> tuple[int, Memory] | None:
    """Return the key of the memory with exactly this id, live or forgotten, and the memory."""
    sql = f"select m.rid, {memory_columns()} from memories m where m.namespace = ? and m.id = ?"
    found = connection.fetch_value(sql, (namespace, id))
    return None if found is None else read_keyed(connection, [found])[0]


def replace_memory(
    connection: Connection, rid: int, memory: Memory, draft: MemoryDraft, now: int
) -> tuple[Memory, EmbeddingJob | None]:
    """Let a memory say what the draft with its id says, and save the old version; a forgotten one is live again."""
    fields = [field for field in UPDATABLE if field != "salience" or not draft.keeps_salience]
    if memory.deleted_at is not None:
        hash = identity_hash(memory.id, memory.content)
        connection.execute("update memories set deleted_at = null, content_hash = ? where rid = ?", (hash, rid))
    unsupersede(connection, rid, now)  # said again, it holds again
    changes = {field: getattr(draft, field) for field in fields}
    changed, job = update_memory(connection, rid, memory, changes, now, by_id=True)
    if memory.deleted_at is not None:
        job = EmbeddingJob(rid, draft.title, draft.content)  # forgotten texts may have waited for their vectors
    return changed, job


def _save_version(connection: Connection, rid: int, memory: Memory, now: int) -> None:
    snapshot = {field: getattr(memory, field) for field in UPDATABLE} | {
        "updated_at": to_micros(memory.updated_at),
        "expires_at": to_micros(memory.expires_at) if memory.expires_at else None,
    }
    connection.execute(
        """
        insert into memory_history(rid, version, replaced_at, snapshot)
        select :rid, coalesce(max(version), 0) + 1, :now, :snapshot from memory_history where rid = :rid
        """,
        {"rid": rid, "now": now, "snapshot": as_json(snapshot)},
    )


def add_conversations(
    connection: Connection, namespace: str, batches: Sequence[ConversationBatch]
) -> ConversationResult:
    """
    Add the turns that are not stored yet; stored ones, forgotten ones and forgotten sessions stay as they are.

    What was erased stays away.
    """
    keys = _find_keys(connection, namespace, [turn.id for batch in batches for turn in batch.turns])
    tombstones = Tombstones.find(connection, namespace, batches)
    jobs: list[EmbeddingJob] = []
    added: list[str] = []
    new_sessions = known = erased = 0
    for given in batches:
        batch = _leave_erased_out(given, keys, tombstones)
        erased += len(given.turns) - len(batch.turns)
        if not batch.turns:
            continue
        session = _put_session(connection, namespace, batch, keys)
        if session is None:
            known += len(batch.turns)
            continue
        sid, is_new = session
        new_sessions += is_new
        _link_recalled(connection, sid, [keys[turn.id] for turn in batch.turns if turn.id in keys])
        turns = [turn for turn in batch.turns if turn.id not in keys]
        hashes = [identity_hash(turn.id, turn.content) for turn in turns]
        rids = insert_memories(connection, namespace, turns, hashes)
        new = [(rid, turn) for rid, turn in zip(rids, turns, strict=True) if rid is not None]
        link_created(connection, [(rid, sid, to_micros(turn.created_at)) for rid, turn in new])
        keys |= {turn.id: rid for rid, turn in new}
        jobs += [EmbeddingJob(rid, turn.title, turn.content) for rid, turn in new]
        added += [turn.id for _, turn in new]
        known += len(batch.turns) - len(new)
    return ConversationResult(tuple(added), tuple(jobs), known + erased, new_sessions, erased)


def find_new_turns(connection: Connection, namespace: str, batches: Sequence[ConversationBatch]) -> set[str]:
    """Return the ids of the turns that were never stored, and would be by `add_conversations`."""
    keys = _find_keys(connection, namespace, [turn.id for batch in batches for turn in batch.turns])
    tombstones = Tombstones.find(connection, namespace, batches)
    kept = [_leave_erased_out(batch, keys, tombstones) for batch in batches]
    return {turn.id for batch in kept for turn in batch.turns if turn.id not in keys}


def _leave_erased_out(batch: ConversationBatch, keys: Mapping[str, int], tombstones: Tombstones) -> ConversationBatch:
    """Return a batch without what was erased, unless it is stored again, and without a summary that quotes it."""
    erased = [turn for turn in batch.turns if turn.id not in keys and tombstones.is_erased(batch, turn)]
    summary = batch.summary
    if tombstones.is_name_erased(batch) or any(is_quoted(summary or "", turn.content) for turn in erased):
        summary = None
    gone = {turn.id for turn in erased}
    return replace(batch, summary=summary, turns=tuple(turn for turn in batch.turns if turn.id not in gone))


def _find_keys(connection: Connection, namespace: str, ids: Sequence[str]) -> dict[str, int]:
    sql = "select id, rid from memories where namespace = :namespace and id in @texts(:ids)"
    return dict(connection.fetch(sql, {"namespace": namespace, "ids": json.dumps(ids)}))


def _put_session(
    connection: Connection, namespace: str, batch: ConversationBatch, keys: dict[str, int]
) -> tuple[int, bool] | None:
    """
    Return the key of a session, made if there is none, and if it is new; None if it was forgotten.

    An existing one is extended to the times of new turns. A summary that it has may be the user's own, and stays.
    """
    values = {"id": batch.id, "namespace": namespace, "project": batch.project, "summary": batch.summary}
    times = [to_micros(turn.created_at) for turn in batch.turns]
    sid = connection.fetch_value(
        """
        insert into sessions(id, namespace, project, started_at, ended_at, summary)
        values (:id, :namespace, :project, :first, :last, :summary)
        on conflict do nothing
        returning sid
        """,
        values | {"first": min(times), "last": max(times)},
    )
    if sid is not None:
        return sid, True
    sql = "select sid, deleted_at from sessions where namespace = :namespace and id = :id"
    sid, deleted_at = connection.fetch_value(sql, values)
    if deleted_at is not None:
        return None
    new = [time for turn, time in zip(batch.turns, times, strict=True) if turn.id not in keys]
    if new or batch.summary is not None:
        # A session still open stays so, for whoever started it to end it.
        connection.execute(
            """
            update sessions
            set started_at = @earlier(started_at, coalesce(:first, started_at)),
                ended_at = case when ended_at is not null then @later(ended_at, coalesce(:last, ended_at)) end,
                summary = coalesce(summary, :summary)
            where sid = :sid
              and (started_at > :first or ended_at < :last or (summary is null and cast(:summary as text) is not null))
            """,
            {"sid": sid, "first": min(new, default=None), "last": max(new, default=None), "summary": batch.summary},
        )
    return sid, False


def _link_recalled(connection: Connection, sid: int, keys: Sequence[int]) -> None:
    """Link the turns of an earlier session that a resumed one continues: recalled in it, but not created in it."""
    if keys:
        connection.execute(
            """
            insert into session_memories(rid, sid, usage, at, latest)
            select k.value, s.sid, 'recalled', s.started_at, s.started_at
            from @keys(:keys) k, sessions s
            where s.sid = :sid
              and not exists (select 1 from session_memories u where u.rid = k.value and u.sid = s.sid)
            """,
            {"keys": json.dumps(keys), "sid": sid},
        )
