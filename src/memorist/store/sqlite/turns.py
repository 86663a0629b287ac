"""The turns of conversations. A turn is known by its id: the same words, said again, are another turn."""

import json
from collections.abc import Sequence

import apsw

from memorist.records import ConversationBatch
from memorist.store.base import ConversationResult, EmbeddingJob
from memorist.store.sqlite.connections import fetch, value
from memorist.store.sqlite.filters import to_micros
from memorist.store.sqlite.sessions import link
from memorist.store.sqlite.writes import hash_by_id, insert


def take(connection: apsw.Connection, namespace: str, told: Sequence[ConversationBatch]) -> ConversationResult:
    """Write down what is not there yet; what is there, or was and is forgotten, stays as it is."""
    known = _known(connection, namespace, [turn.id for one in told for turn in one.turns])
    new: list[EmbeddingJob] = []
    added: list[str] = []
    started = repeated = 0
    for one in told:
        sid, is_new = _session(connection, namespace, one, known)
        started += is_new
        _recall(connection, sid, [known[turn.id] for turn in one.turns if turn.id in known])
        for turn in one.turns:
            hash = hash_by_id(turn.id, turn.content)
            rid = None if turn.id in known else insert(connection, namespace, turn, hash)
            if rid is None:
                repeated += 1
                continue
            link(connection, sid, [rid], "created", to_micros(turn.created_at))
            known[turn.id] = rid
            new.append(EmbeddingJob(rid, turn.title, turn.content))
            added.append(turn.id)
    return ConversationResult(tuple(added), tuple(new), repeated, started)


def _known(connection: apsw.Connection, namespace: str, ids: Sequence[str]) -> dict[str, int]:
    sql = "select id, rid from memories where namespace = ? and id in (select value from json_each(?))"
    return dict(fetch(connection, sql, (namespace, json.dumps(ids))))


def _session(
    connection: apsw.Connection, namespace: str, told: ConversationBatch, known: dict[str, int]
) -> tuple[int, bool]:
    """
    The key of the session, made where there is none, and whether it is new.

    One that is there grows by the time of new turns. A summary that it has may be somebody's own, and stays.
    """
    values = {"id": told.id, "namespace": namespace, "project": told.project, "summary": told.summary}
    times = [to_micros(turn.created_at) for turn in told.turns]
    sid = value(
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
    sid = value(connection, "select sid from sessions where namespace = :namespace and id = :id", values)
    new = [time for turn, time in zip(told.turns, times, strict=True) if turn.id not in known]
    if new or told.summary is not None:
        # One that has not ended was begun by somebody else, who will end it: max() of nothing is nothing.
        connection.execute(
            """
            update sessions
            set started_at = min(started_at, coalesce(:first, started_at)),
                ended_at = max(ended_at, coalesce(:last, ended_at)),
                summary = coalesce(summary, :summary)
            where sid = :sid
              and (started_at > :first or ended_at < :last or (summary is null and :summary is not null))
            """,
            {"sid": sid, "first": min(new, default=None), "last": max(new, default=None), "summary": told.summary},
        )
    return sid, False


def _recall(connection: apsw.Connection, sid: int, keys: Sequence[int]) -> None:
    """Turns of an earlier session that a resumed one goes on from: it used them, but they were not made in it."""
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
