"""Sessions, and which memories were made, changed and used in them."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw

from memorist.errors import InvalidInput, NotFound
from memorist.records import Session, SessionContext
from memorist.store.sqlite.connections import ConnectionPool, fetch, value
from memorist.store.sqlite.filters import from_micros, to_micros
from memorist.store.sqlite.ids import PART, SHORTEST_ID, MemoryIds, several

UUID = "-".join("?" * length for length in (8, 4, 4, 4, 12))  # the form of the ids we make, for glob

_COLUMNS = """
    s.id, s.namespace, s.project, s.started_at, s.ended_at, s.summary,
    (select count(distinct u.rid) from session_memories u join memories m on m.rid = u.rid
     where u.sid = s.sid and m.deleted_at is null)
"""


class SqliteSessions:
    """The sessions of one namespace."""

    def __init__(self, pool: ConnectionPool, ids: MemoryIds) -> None:
        self._pool, self._ids = pool, ids

    def start(self, id: str, project: str | None, summary: str | None, now: datetime) -> Session:
        with self._pool.writing() as connection:
            made = value(
                connection,
                """
                insert into sessions(id, namespace, project, started_at, summary)
                values (:id, :namespace, :project, :now, :summary)
                on conflict do nothing
                returning sid
                """,
                {"id": id, "namespace": self._ids.namespace, "project": project, "now": to_micros(now),
                 "summary": summary},
            )  # fmt: skip
            if made is None:
                raise InvalidInput(f"there is a session {id!r} already; choose another id, or leave it out")
            return self._row(connection, made)

    def end(self, id: str, summary: str | None, now: datetime) -> Session:
        with self._pool.writing() as connection:
            sid = open_session(connection, self._ids.namespace, id)
            connection.execute(
                "update sessions set ended_at = max(?, started_at), summary = coalesce(?, summary) where sid = ?",
                (to_micros(now), summary, sid),
            )
            return self._row(connection, sid)

    def summarise(self, id: str, summary: str | None) -> Session:
        with self._pool.writing() as connection:
            sid = _find(connection, self._ids.namespace, id)[0]
            connection.execute("update sessions set summary = ? where sid = ?", (summary, sid))
            return self._row(connection, sid)

    def page(self, project: str | None, active: bool | None, limit: int) -> list[Session]:
        state = {None: "", True: "and s.ended_at is null", False: "and s.ended_at is not null"}[active]
        sql = f"""
            select {_COLUMNS}
            from sessions s
            where s.namespace = :namespace and (:project is null or s.project = :project) {state}
            order by s.started_at desc, s.sid desc
            limit :limit
        """
        values = {"namespace": self._ids.namespace, "project": project, "limit": limit}
        with self._pool.reading() as connection:
            return [_session(row) for row in fetch(connection, sql, values)]

    def whole_id(self, id: str, *, open: bool = False) -> str:
        """The id that a part of it names; an error where there is none, or it has to be open."""
        with self._pool.reading() as connection:
            _, whole, ended_at = _find(connection, self._ids.namespace, id)
        if open and ended_at is not None:
            raise _ended(whole, from_micros(ended_at))
        return whole

    def require(self, id: str) -> Session:
        """The session with this id, or a unique part of it."""
        with self._pool.reading() as connection:
            return self._row(connection, _find(connection, self._ids.namespace, id)[0])

    def context(self, id: str) -> SessionContext | None:
        """The session that used a memory last."""
        with self._pool.reading() as connection:
            rid, _ = self._ids.require(connection, id)
            row = value(
                connection,
                f"""
                select {_COLUMNS}, u.usage, u.latest
                from session_memories u
                join sessions s on s.sid = u.sid
                where u.rid = ?
                order by u.latest desc, s.sid desc, u.usage = 'created'
                limit 1
                """,
                (rid,),
            )
        return SessionContext(_session(row[:7]), row[7], from_micros(row[8])) if row else None

    def of(self, ids: Sequence[str]) -> list[Session]:
        """These sessions, in the order they began."""
        sql = f"""
            select {_COLUMNS} from sessions s
            where s.namespace = ? and s.id in (select value from json_each(?))
            order by s.started_at, s.sid
        """
        with self._pool.reading() as connection:
            return [_session(row) for row in fetch(connection, sql, (self._ids.namespace, json.dumps(ids)))]

    def _row(self, connection: apsw.Connection, sid: int) -> Session:
        return _session(value(connection, f"select {_COLUMNS} from sessions s where s.sid = ?", (sid,)))


def open_session(connection: apsw.Connection, namespace: str, id: str) -> int:
    """The key of a session in which something is about to happen: it has to exist, and not be over."""
    # Of an id of one's own a part will not do here: what is written into session-1 may not end up in session-10.
    sid, whole, ended_at = _find(connection, namespace, id, parts_of=UUID)
    if ended_at is not None:
        raise _ended(whole, from_micros(ended_at))
    return sid


def _find(connection: apsw.Connection, namespace: str, id: str, *, parts_of: str = "*") -> tuple[int, str, int | None]:
    """A session by its id, or by a part that only one has: its key, its id, and when it ended."""
    select = "select sid, id, ended_at from sessions where namespace = :namespace and"
    values = {"namespace": namespace, "id": id, "parts_of": parts_of}
    rows = fetch(connection, f"{select} id = :id", values)
    if not rows and len(id) >= SHORTEST_ID:
        rows = fetch(connection, f"{select} id glob :parts_of and {PART.format('id')} limit 5", values)
    if len(rows) > 1:
        raise several(id, [row[1] for row in rows])
    if not rows:
        raise NotFound(f"no session has the id {id!r}; `memorist session list` shows them, `session start` begins one")
    sid, whole, ended_at = rows[0]
    return sid, whole, ended_at


def link(connection: apsw.Connection, sid: int, keys: Sequence[int], usage: str, now: int) -> None:
    """Say what a session did with memories."""
    connection.execute(
        """
        insert into session_memories(rid, sid, usage, at, latest)
        select value, :sid, :usage, :now, :now from json_each(:keys) where true
        on conflict do update set latest = max(latest, excluded.latest)
        """,
        {"sid": sid, "usage": usage, "now": now, "keys": json.dumps(keys)},
    )


def _ended(id: str, at: datetime) -> InvalidInput:
    return InvalidInput(f"session {id} ended on {at:%Y-%m-%d at %H:%M} UTC; start a new one to go on")


def _session(row: Sequence[Any]) -> Session:
    id, namespace, project, started_at, ended_at, summary, memories = row
    return Session(
        id, namespace, project, from_micros(started_at), None if ended_at is None else from_micros(ended_at), summary,
        memories,
    )  # fmt: skip
