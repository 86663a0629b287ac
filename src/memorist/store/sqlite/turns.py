"""Adding the turns of conversations. A turn is known by its id: the same words said again are another turn."""

import json
from collections.abc import Sequence

import apsw

from memorist.records import ConversationBatch
from memorist.store.records import ConversationResult, EmbeddingJob
from memorist.store.sqlite.connections import fetch, fetch_value
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.sessions import link_memories
from memorist.store.sqlite.writes import identity_hash, insert_memory


def add_conversations(
    connection: apsw.Connection, namespace: str, batches: Sequence[ConversationBatch]
) -> ConversationResult:
    """Add the turns that are not stored yet; stored ones, and forgotten ones, stay as they are."""
    keys = _find_keys(connection, namespace, [turn.id for batch in batches for turn in batch.turns])
    jobs: list[EmbeddingJob] = []
    added: list[str] = []
    new_sessions = known = 0
    for batch in batches:
        sid, is_new = _put_session(connection, namespace, batch, keys)
        new_sessions += is_new
        _link_recalled(connection, sid, [keys[turn.id] for turn in batch.turns if turn.id in keys])
        for turn in batch.turns:
            hash = identity_hash(turn.id, turn.content)
            rid = None if turn.id in keys else insert_memory(connection, namespace, turn, hash)
            if rid is None:
                known += 1
                continue
            link_memories(connection, sid, [rid], "created", to_micros(turn.created_at))
            keys[turn.id] = rid
            jobs.append(EmbeddingJob(rid, turn.title, turn.content))
            added.append(turn.id)
    return ConversationResult(tuple(added), tuple(jobs), known, new_sessions)


def _find_keys(connection: apsw.Connection, namespace: str, ids: Sequence[str]) -> dict[str, int]:
    sql = "select id, rid from memories where namespace = ? and id in (select value from json_each(?))"
    return dict(fetch(connection, sql, (namespace, json.dumps(ids))))


def _put_session(
    connection: apsw.Connection, namespace: str, batch: ConversationBatch, keys: dict[str, int]
) -> tuple[int, bool]:
    """
    Return the key of a session, made if there is none, and if it is new.

    An existing one is extended to the times of new turns. A summary that it has may be the user's own, and stays.
    """
    values = {"id": batch.id, "namespace": namespace, "project": batch.project, "summary": batch.summary}
    times = [to_micros(turn.created_at) for turn in batch.turns]
    sid = fetch_value(
        connection,
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
    sid = fetch_value(connection, "select sid from sessions where namespace = :namespace and id = :id", values)
    new = [time for turn, time in zip(batch.turns, times, strict=True) if turn.id not in keys]
    if new or batch.summary is not None:
        # A session still open stays so, for whoever started it to end it: max(null, ...) is null.
        connection.execute(
            """
            update sessions
            set started_at = min(started_at, coalesce(:first, started_at)),
                ended_at = max(ended_at, coalesce(:last, ended_at)),
                summary = coalesce(summary, :summary)
            where sid = :sid
              and (started_at > :first or ended_at < :last or (summary is null and :summary is not null))
            """,
            {"sid": sid, "first": min(new, default=None), "last": max(new, default=None), "summary": batch.summary},
        )
    return sid, False


def _link_recalled(connection: apsw.Connection, sid: int, keys: Sequence[int]) -> None:
    """Link the turns of an earlier session that a resumed one continues: recalled in it, but not created in it."""
    if keys:
        connection.execute(
            """
            insert into session_memories(rid, sid, usage, at, latest)
            select value, s.sid, 'recalled', s.started_at, s.started_at
            from json_each(:keys), sessions s
            where s.sid = :sid
              and not exists (select 1 from session_memories u where u.rid = value and u.sid = s.sid)
            """,
            {"keys": json.dumps(keys), "sid": sid},
        )
