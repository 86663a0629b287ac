"""The recall log, feedback on answers, and lenses."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from memorist.records import Feedback, Recall, RecalledMemory, Reinforcement
from memorist.store.database import Connection
from memorist.store.filters import ASKED_FOR, END_OF_TIME, from_micros, is_unexpired, to_micros
from memorist.store.records import RecallLimits
from memorist.store.relations import adjust_salience
from memorist.store.rows import StorePart
from memorist.store.sessions import link_memories

_FIELDS = ("id", "query", "mode", "profile", "lens", "session", "surface", "tokens")
# A memory that is forgotten, or has expired, is hidden in the prompts as well.
_SHOWN_PROMPT = f"case when m.deleted_at is null and {is_unexpired('m')} then h.prompt end"


class RecallStore(StorePart):
    """The recall log of one namespace."""

    def record(self, recalls: Sequence[tuple[Recall, Reinforcement]]) -> list[int]:
        """Log answers, each with the reinforcement of its memories, in one transaction; return their numbers."""
        with self._pool.writing() as connection:
            return [self._record(connection, recall, reinforcement) for recall, reinforcement in recalls]

    def _record(self, connection: Connection, recall: Recall, reinforcement: Reinforcement) -> int:
        stamp = to_micros(datetime.now(UTC))  # the time of writing, after any reinforcement since the search
        values = {name: getattr(recall, name) for name in _FIELDS}
        values |= {"namespace": self.namespace, "at": to_micros(recall.at)}
        open_then = "namespace = :namespace and id = :session and coalesce(ended_at, :at) >= :at"
        sid = connection.fetch_value(f"select sid from sessions where {open_then}", values) if recall.session else None
        number: int = connection.fetch_value(
            """
            insert into recalls(id, namespace, at, query, mode, profile, lens, sid, surface, tokens)
            values (:id, :namespace, :at, :query, :mode, :profile, :lens, :sid, :surface, :tokens)
            returning recall
            """,
            values | {"sid": sid},
        )
        connection.executemany(
            """
            insert into recalled(recall, place, rid, score, relevance, facts, prompt)
            select :recall, :place, rid, :score, :relevance, :facts, :prompt
            from memories where namespace = :namespace and id = :id
            """,
            [
                {name: getattr(hit, name) for name in ("place", "id", "score", "relevance", "prompt")}
                | {"recall": number, "facts": json.dumps(hit.facts), "namespace": self.namespace}
                for hit in recall.memories
            ],
        )
        kept = connection.fetch(f"select h.rid, {ASKED_FOR} from recalled h where h.recall = ?", (number,))
        keys = [rid for rid, asked_for in kept if asked_for]
        if len(kept) < len(recall.memories):  # one was erased meanwhile, and the query may repeat it
            connection.execute("update recalls set query = null where recall = ?", (number,))
        connection.execute(
            """
            update memories set access_count = access_count + 1, accessed_at = @later(coalesce(accessed_at, 0), :at)
            where rid in @keys(:keys)
            """,
            {"at": to_micros(recall.at), "keys": json.dumps(keys)},
        )
        if reinforcement.share:
            adjust_salience(connection, keys, reinforcement.share, stamp, reinforcement.decay.sectors)
        if sid is not None:
            link_memories(connection, sid, keys, "recalled", stamp)
        return number

    def list_recalls(
        self, memory: str | None, session: str | None, since: datetime | None, limit: int, before: str | None = None
    ) -> list[Recall]:
        """Return the recalls, newest first, or only those of one memory or one session; `before` is the id of one."""
        where, values = "", {"namespace": self.namespace, "limit": limit}
        with self._pool.reading() as connection:
            if memory is not None:
                values["rid"] = self._require_key(connection, memory)[0]
                where += " and r.recall in (select recall from recalled where rid = :rid)"
            if session is not None:
                values["session"] = session
                where += " and s.id = :session"
            if since is not None:
                values["since"] = to_micros(since)
                where += " and r.at >= :since"
            if before is not None:
                values["before"] = before
                where += """
                    and (r.at, r.recall) < (
                        select at, recall from recalls where namespace = :namespace and id = :before)
                """
            rows = connection.fetch(
                f"""
                select r.id, r.query, r.at, r.mode, r.profile, r.lens, s.id, r.surface, r.tokens, (
                    select @list(@array(m.id, h.place, h.score, h.relevance, h.facts, {_SHOWN_PROMPT}))
                    from recalled h
                    join memories m on m.rid = h.rid
                    where h.recall = r.recall)
                from recalls r
                left join sessions s on s.sid = r.sid
                where r.namespace = :namespace {where}
                order by r.at desc, r.recall desc
                limit :limit
                """,
                values,
            )
        return [_to_recall(row) for row in rows]

    def clear(self, before: datetime | None) -> int:
        """Delete the recalls from before a time, or all of them."""
        with self._pool.writing() as connection:
            connection.execute(
                "delete from recalls where namespace = ? and at < ?",
                (self.namespace, END_OF_TIME if before is None else to_micros(before)),
            )
            return connection.changes()

    def trim(self, limits: RecallLimits, now: datetime, *, most: int, by_size: bool) -> int:
        """
        Delete the earliest recalls that are beyond the limits, up to `most` of them; return how many.

        The size is measured only if asked for: every recall is read for it.
        """
        before = to_micros(now - timedelta(days=limits.days))
        values = {"namespace": self.namespace, "most": most, "before": END_OF_TIME if by_size else before}
        with self._pool.reading() as connection:
            earliest = connection.fetch(
                f"{_SELECT_SIZES} and r.at < :before order by r.at, r.recall limit :most", values
            )
            excess = 0
            if by_size and earliest:
                total = connection.fetch_value(f"select sum(s.bytes) from ({_SELECT_SIZES}) s", values) or 0
                excess = total - limits.bytes
        beyond = []
        for number, at, size in earliest:
            if at >= before and excess <= 0:
                break
            beyond.append(number)
            excess -= size
        if beyond:
            with self._pool.writing() as connection:
                connection.execute("delete from recalls where recall in @keys(:keys)", {"keys": json.dumps(beyond)})
        return len(beyond)


_ROW_BYTES = 100  # of a row beside its texts, with its entries in indexes
_SELECT_SIZES = f"""
    select r.recall, r.at, {_ROW_BYTES} + coalesce(octet_length(r.query), 0) + (
        select coalesce(sum({_ROW_BYTES} + octet_length(h.facts) + coalesce(octet_length(h.prompt), 0)), 0)
        from recalled h where h.recall = r.recall) as bytes
    from recalls r
    where r.namespace = :namespace
"""


class FeedbackStore(StorePart):
    """The feedback on answers in one namespace."""

    def put(self, id: str, query: str, good: bool, now: datetime) -> Feedback:
        with self._pool.writing() as connection:
            key, full_id = self._require_key(connection, id)
            connection.execute(
                """
                insert into feedback(rid, query, good, at)
                values (?, ?, ?, ?)
                on conflict @unique(rid, query) do update set good = excluded.good, at = excluded.at
                """,
                (key, query, int(good), to_micros(now)),
            )
        return Feedback(full_id, query, good, now)

    def list_feedback(self, memory: str | None, limit: int) -> list[Feedback]:
        """Return the feedback, newest first, or only that on one memory."""
        where, values = "", {"namespace": self.namespace, "limit": limit}
        with self._pool.reading() as connection:
            if memory is not None:
                values["rid"] = self._require_key(connection, memory)[0]
                where = " and f.rid = :rid"
            rows = connection.fetch(
                f"""
                select m.id, f.query, f.good, f.at
                from feedback f
                join memories m on m.rid = f.rid
                where m.namespace = :namespace and m.deleted_at is null and {is_unexpired("m")} {where}
                order by f.at desc, f.feedback desc
                limit :limit
                """,
                values,
            )
        return [Feedback(id, query, bool(good), from_micros(at)) for id, query, good, at in rows]


class LensStore(StorePart):
    """The lenses of one namespace, as plain data."""

    def put(self, name: str, definition: Mapping[str, Any]) -> None:
        with self._pool.writing() as connection:
            connection.execute(
                """
                insert into lenses(namespace, name, definition)
                values (?, ?, ?)
                on conflict @unique(namespace, name) do update set definition = excluded.definition
                """,
                (self.namespace, name, json.dumps(definition, ensure_ascii=False)),
            )

    def remove(self, name: str) -> bool:
        with self._pool.writing() as connection:
            connection.execute("delete from lenses where namespace = ? and name = ?", (self.namespace, name))
            return bool(connection.changes())

    def load_all(self) -> dict[str, dict[str, Any]]:
        sql = "select name, definition from lenses where namespace = ? order by name"
        with self._pool.reading() as connection:
            return {name: json.loads(definition) for name, definition in connection.fetch(sql, (self.namespace,))}


def _to_recall(row: Sequence[Any]) -> Recall:
    id, query, at, mode, profile, lens, session, surface, tokens, memories = row
    found = tuple(
        RecalledMemory(id, place, score, relevance, tuple(json.loads(facts)), prompt)
        # Sorted here: PostgreSQL joins in any order.
        for id, place, score, relevance, facts, prompt in sorted(json.loads(memories), key=itemgetter(1))
    )
    return Recall(id, query, from_micros(at), mode, profile, lens, session, found, surface, tokens)
