"""Sessions, and the memories made, changed and used in them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from memorist.errors import Hint, InvalidInput, NotFound
from memorist.records import CHAT, TURN, MemoryDraft, Session, SessionContext
from memorist.store.database import Connection
from memorist.store.erasure import erase_memories
from memorist.store.filters import END_OF_TIME, from_micros, is_unexpired, to_micros
from memorist.store.rows import HAS_ID_PART, MIN_ID_LENGTH, StorePart, ambiguous_id
from memorist.store.tombstones import record_erased_session
from memorist.text.snippet import preview

_UUID_PATTERN = "-".join("_" * length for length in (8, 4, 4, 4, 12))  # of generated ids, for `like`

_NAME_CHARACTERS = 100  # of a session that is named by its first turn
_SHORTENED_CHARACTERS = 4 * _NAME_CHARACTERS  # of that turn, which may have many spaces

# A conversation that is recorded has no title. Its name is read from its first turn, so that it is gone with it.
_FIRST_TURN = f"""
    select substr(m.content, 1, {_SHORTENED_CHARACTERS})
    from session_memories u join memories m on m.rid = u.rid
    where u.sid = s.sid and u.position is not null and m.kind = '{TURN}' and m.project is not distinct from s.project
      and (m.deleted_at is null or m.deleted_at = s.deleted_at) and {is_unexpired("m")}
    order by u.position
    limit 1
"""
_COLUMNS = f"""
    s.id, s.namespace, s.project, s.started_at, s.ended_at, s.summary,
    (select count(distinct u.rid) from session_memories u join memories m on m.rid = u.rid
     where u.sid = s.sid and (m.deleted_at is null or m.deleted_at = s.deleted_at) and {is_unexpired("m")}),
    case when s.summary is null and s.id like '{CHAT}:%' then ({_FIRST_TURN}) end
"""
_COUNT = 8  # of these columns


class SessionStore(StorePart):
    """The sessions of one namespace."""

    def start(self, id: str, project: str | None, summary: str | None, now: datetime) -> Session:
        with self._pool.writing() as connection:
            sid = connection.fetch_value("""
                insert into sessions(id, namespace, project, started_at, summary)
                values (:id, :namespace, :project, :now, :summary)
                on conflict do nothing
                returning sid
                """,
                {"id": id, "namespace": self.namespace, "project": project, "now": to_micros(now),
                 "summary": summary},
            )  # fmt: skip
            if sid is None:
                raise InvalidInput(f"there is a session {id!r} already; choose another id, or leave it out")
            return self._load(connection, sid)

    def end(self, id: str, summary: str | None, now: datetime) -> Session:
        with self._pool.writing() as connection:
            sid = require_open_session(connection, self.namespace, id)
            connection.execute(
                "update sessions set ended_at = @later(?, started_at), summary = coalesce(?, summary) where sid = ?",
                (to_micros(now), summary, sid),
            )
            return self._load(connection, sid)

    def set_summary(self, id: str, summary: str | None) -> Session:
        with self._pool.writing() as connection:
            sid = _require_session(connection, self.namespace, id)[0]
            connection.execute("update sessions set summary = ? where sid = ?", (summary, sid))
            return self._load(connection, sid)

    def list_sessions(
        self, project: str | None, active: bool | None, limit: int, before: str | None = None, *, deleted: bool = False
    ) -> list[Session]:
        """Return sessions, or forgotten ones, the latest first; `before` is the last id of the page before."""
        state = {None: "", True: "and s.ended_at is null", False: "and s.ended_at is not null"}[active]
        sql = f"""
            select {_COLUMNS}
            from sessions s
            where s.namespace = :namespace and s.deleted_at is {"not null" if deleted else "null"}
              and (cast(:project as text) is null or s.project = :project) {state}
              and (cast(:before as text) is null or (s.started_at, s.sid) < (
                select started_at, sid from sessions where namespace = :namespace and id = :before))
            order by s.started_at desc, s.sid desc
            limit :limit
        """
        values = {"namespace": self.namespace, "project": project, "limit": limit, "before": before}
        with self._pool.reading() as connection:
            return [_to_session(row) for row in connection.fetch(sql, values)]

    def resolve_id(self, id: str, *, open: bool = False) -> str:
        """Return the full id of a session; with `open`, raise if the session has ended."""
        with self._pool.reading() as connection:
            _, full_id, ended_at = _require_session(connection, self.namespace, id)
        if open and ended_at is not None:
            raise _session_ended(full_id, from_micros(ended_at))
        return full_id

    def require(self, id: str, project: str | None = None) -> Session:
        """Return the session with this id, or a unique part of it; of a project, if one is given."""
        with self._pool.reading() as connection:
            return self._load(connection, _require_session(connection, self.namespace, id, project=project)[0])

    def find_context(self, id: str) -> SessionContext | None:
        """Return the session that used a memory last."""
        with self._pool.reading() as connection:
            rid, _ = self._require_key(connection, id)
            row = connection.fetch_value(
                f"""
                select {_COLUMNS}, u.usage, u.latest
                from session_memories u
                join sessions s on s.sid = u.sid
                where u.rid = ? and s.deleted_at is null
                order by u.latest desc, s.sid desc, u.usage = 'created'
                limit 1
                """,
                (rid,),
            )
        return SessionContext(_to_session(row[:_COUNT]), row[_COUNT], from_micros(row[_COUNT + 1])) if row else None

    def list_by_ids(self, ids: Sequence[str]) -> list[Session]:
        """Return these sessions, in the order they began."""
        sql = f"""
            select {_COLUMNS} from sessions s
            where s.namespace = :namespace and s.id in @texts(:ids) and s.deleted_at is null
            order by s.started_at, s.sid
        """
        with self._pool.reading() as connection:
            return [
                _to_session(row) for row in connection.fetch(sql, {"namespace": self.namespace, "ids": json.dumps(ids)})
            ]

    def forget(self, id: str, now: datetime) -> Session:
        """Hide a session with the memories that were made in it."""
        with self._pool.writing() as connection:
            sid = _require_session(connection, self.namespace, id)[0]
            session = self._load(connection, sid)
            values = {"sid": sid, "now": to_micros(now)}
            connection.execute(
                f"update memories set deleted_at = :now where {_MADE_THERE} and deleted_at is null", values
            )
            connection.execute("update sessions set deleted_at = :now where sid = :sid", values)
            return session

    def restore(self, id: str) -> Session:
        """Show a forgotten session again, with the memories that were forgotten with it."""
        with self._pool.writing() as connection:
            sid = _require_session(connection, self.namespace, id, deleted=True)[0]
            connection.execute(f"update memories set deleted_at = null where {_FORGOTTEN_WITH_IT}", {"sid": sid})
            connection.execute("update sessions set deleted_at = null where sid = ?", (sid,))
            return self._load(connection, sid)

    def erase(self, id: str) -> Session:
        """Delete a session with the memories that were made in it, and what was asked in it."""
        with self._pool.writing() as connection:
            sid = _require_session(connection, self.namespace, id, deleted=None)[0]
            session = self._load(connection, sid)
            self._erase(connection, [sid])
            return session

    def erase_forgotten(self, connection: Connection, before: datetime | None) -> None:
        """Delete the sessions that were forgotten before a time, or all of them."""
        sql = "select sid from sessions where namespace = :namespace and deleted_at < :before"
        time = END_OF_TIME if before is None else to_micros(before)
        forgotten = connection.fetch(sql, {"namespace": self.namespace, "before": time})
        self._erase(connection, [sid for (sid,) in forgotten])

    def _erase(self, connection: Connection, sessions: Sequence[int]) -> None:
        for sid in sessions:
            made = connection.fetch(f"select rid from memories where {_MADE_THERE}", {"sid": sid})
            erase_memories(connection, [rid for (rid,) in made])
            connection.execute("update recalls set query = null where sid = ?", (sid,))
            id = connection.fetch_value("delete from sessions where sid = ? returning id", (sid,))
            record_erased_session(connection, self.namespace, id)

    def _load(self, connection: Connection, sid: int) -> Session:
        return _to_session(connection.fetch_value(f"select {_COLUMNS} from sessions s where s.sid = ?", (sid,)))


_MADE_THERE = "rid in (select rid from session_memories where sid = :sid and usage = 'created')"
# Not what has been stored anew meanwhile, or was forgotten before.
_FORGOTTEN_WITH_IT = f"""
    {_MADE_THERE} and deleted_at = (select deleted_at from sessions where sid = :sid)
    and not exists (
      select 1 from memories n
      where n.namespace = memories.namespace and n.project is not distinct from memories.project
        and n.content_hash = memories.content_hash and n.deleted_at is null)
"""


def require_open_session(connection: Connection, namespace: str, id: str) -> int:
    """Return the key of a session to be written to; raise if it has ended."""
    # A part of an id that a caller chose will not do: a memory of session-1 may not end up in session-10.
    sid, full_id, ended_at = _require_session(connection, namespace, id, parts_of=_UUID_PATTERN)
    if ended_at is not None:
        raise _session_ended(full_id, from_micros(ended_at))
    return sid


def inherit_projects(
    connection: Connection, drafts: Sequence[MemoryDraft], sessions: Mapping[str, int]
) -> Sequence[MemoryDraft]:
    """Return memories with the projects of their sessions, given by id, where they name none themselves."""
    if not sessions:
        return drafts
    sql = "select project from sessions where sid = ?"
    projects = {id: connection.fetch_value(sql, (sid,)) for id, sid in sessions.items()}
    return [
        draft._replace(project=projects[draft.session]) if draft.session and draft.project is None else draft
        for draft in drafts
    ]


def _require_session(
    connection: Connection,
    namespace: str,
    id: str,
    *,
    parts_of: str = "%",
    project: str | None = None,
    deleted: bool | None = False,
) -> tuple[int, str, int | None]:
    """Return the key, the id and the end of a session, found by its id or by a part that only one has."""
    state = {None: "", True: "and deleted_at is not null", False: "and deleted_at is null"}[deleted]
    select = f"""
        select sid, id, ended_at from sessions
        where namespace = :namespace and (cast(:project as text) is null or project = :project) {state} and
    """
    values = {"namespace": namespace, "id": id, "parts_of": parts_of, "project": project}
    rows = connection.fetch(f"{select} id = :id", values)
    if not rows and len(id) >= MIN_ID_LENGTH:
        rows = connection.fetch(f"{select} id like :parts_of and {HAS_ID_PART.format('id')} limit 5", values)
    if len(rows) > 1:
        raise ambiguous_id(id, [row[1] for row in rows])
    if not rows and deleted is False and project is None and _is_forgotten_id(connection, namespace, id):
        raise NotFound(f"session {id!r} was forgotten, and can be restored")
    if not rows:
        raise NotFound(f"no {'forgotten ' if deleted else ''}session has the id {id!r}", hint=Hint("list_sessions"))
    sid, full_id, ended_at = rows[0]
    return sid, full_id, ended_at


def _is_forgotten_id(connection: Connection, namespace: str, id: str) -> bool:
    sql = "select 1 from sessions where namespace = ? and id = ? and deleted_at is not null"
    return connection.fetch_value(sql, (namespace, id)) is not None


def link_memories(connection: Connection, sid: int, keys: Sequence[int], usage: str, now: int) -> None:
    """Record that a session created, recalled, updated or reinforced memories; created ones get the next positions."""
    position = "null"
    if usage == "created":
        last = "select max(position) from session_memories where sid = :sid and position is not null"
        position = f"coalesce(({last}), 0) + 1 + k.place"
    connection.execute(
        f"""
        insert into session_memories(rid, sid, usage, at, latest, position)
        select k.value, :sid, :usage, :now, :now, {position} from @numbered(:keys) k where true
        on conflict @unique(rid, sid, usage)
        do update set latest = @later(session_memories.latest, excluded.latest)
        """,
        {"sid": sid, "usage": usage, "now": now, "keys": json.dumps(keys)},
    )


def link_created(connection: Connection, created: Sequence[tuple[int, int, int]]) -> None:
    """Record which sessions created new memories, given as memory, session and time; each gets the next position."""
    last: dict[int, int] = {}
    rows = []
    for rid, sid, at in created:
        if sid not in last:
            sql = "select coalesce(max(position), 0) from session_memories where sid = ? and position is not null"
            last[sid] = connection.fetch_value(sql, (sid,))
        last[sid] += 1
        rows.append((rid, sid, "created", at, at, last[sid]))
    connection.insert_rows("session_memories", ("rid", "sid", "usage", "at", "latest", "position"), rows)


def _session_ended(id: str, at: datetime) -> InvalidInput:
    return InvalidInput(f"session {id} ended on {at:%Y-%m-%d at %H:%M} UTC; start a new one to go on")


def _to_session(row: Sequence[Any]) -> Session:
    id, namespace, project, started_at, ended_at, summary, memories, first_turn = row
    if first_turn is not None:
        summary = preview(first_turn, _NAME_CHARACTERS)
    return Session(
        id, namespace, project, from_micros(started_at), None if ended_at is None else from_micros(ended_at), summary,
        memories,
    )  # fmt: skip
