"""Erasing: memories deleted with everything that was derived from their texts and would tell what they said."""

import json
from collections.abc import Iterable, Sequence

from memorist.records import RECORDED_CHARACTERS, SUPERSEDES
from memorist.store.database import Connection, Row
from memorist.store.rows import SNAPSHOT
from memorist.store.tombstones import record_erased_names, record_erased_turns
from memorist.text.snippet import ELLIPSIS

_FIELDS = ("content", "title", "summary")
_MIN_QUOTED_CHARACTERS = 20  # of a summary that stands in a text, or a text in it; fewer may be there by chance

# What memories say, and said earlier: their texts, titles and summaries, and their facts.
_TEXTS = " union all ".join(
    [f"select m.rid, m.{field} as text from @keys(:keys) k join memories m on m.rid = k.value" for field in _FIELDS]
    + [
        f"select h.rid, {SNAPSHOT} ->> '{field}' from @keys(:keys) k join memory_history h on h.rid = k.value"
        for field in _FIELDS
    ]
    + ["select f.rid, f.text from @keys(:keys) k join facts f on f.rid = k.value"]
)


def erase_memories(connection: Connection, keys: Sequence[int]) -> None:
    """Delete memories with everything that belongs to them. Of turns, it is remembered that they were there."""
    _record_turns(connection, keys)
    _erase_questions(connection, keys)
    _erase_session_names(connection, keys)
    for key in keys:
        _bypass(connection, key)
    connection.execute("delete from memories where rid in @keys(:keys)", {"keys": json.dumps(keys)})


def _record_turns(connection: Connection, keys: Sequence[int]) -> None:
    sql = "select m.namespace, m.id from @keys(:keys) k join memories m on m.rid = k.value"
    for namespace, ids in _group(connection.fetch(sql, {"keys": json.dumps(keys)})).items():
        record_erased_turns(connection, namespace, ids)


def _group(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Return ids by their namespaces; mostly, there is one."""
    grouped: dict[str, list[str]] = {}
    for namespace, id in rows:
        grouped.setdefault(namespace, []).append(id)
    return grouped


def _erase_questions(connection: Connection, keys: Sequence[int]) -> None:
    """Delete the queries that found memories to be erased, and may repeat their texts, or that are their texts."""
    values = {"keys": json.dumps(keys)}
    beginning = f"substr({{}}, 1, {RECORDED_CHARACTERS})"
    texts = f"""
        select {beginning.format("m.content")}
        from @keys(:keys) k join memories m on m.rid = k.value
        union
        select {beginning.format(f"{SNAPSHOT} ->> 'content'")}
        from @keys(:keys) k join memory_history h on h.rid = k.value
    """
    namespaces = "select m.namespace from @keys(:keys) k join memories m on m.rid = k.value"
    connection.execute(
        f"""
        delete from feedback
        where (query in (
              select r.query from @keys(:keys) k join recalled h on h.rid = k.value join recalls r using (recall)
              union
              select f.query from @keys(:keys) k join feedback f on f.rid = k.value)
            or {beginning.format("query")} in ({texts}))
          and (select namespace from memories m where m.rid = feedback.rid) in ({namespaces})
        """,
        values,
    )
    connection.execute(
        f"""
        update recalls
        set query = null
        where recall in (select h.recall from @keys(:keys) k join recalled h on h.rid = k.value)
          or (query is not null and namespace in ({namespaces}) and {beginning.format("query")} in ({texts}))
        """,
        values,
    )


def _erase_session_names(connection: Connection, keys: Sequence[int]) -> None:
    """Remove the summaries of sessions that are a part of a text, or quote it or one of its facts."""
    named = connection.fetch(
        f"""
        select s.sid, s.summary, t.text
        from ({_TEXTS}) t
        join session_memories u on u.rid = t.rid
        join sessions s on s.sid = u.sid
        where s.summary is not null and t.text is not null
        """,
        {"keys": json.dumps(keys)},
    )
    sessions = {sid for sid, summary, text in named if is_quoted(summary, text)}
    if sessions:
        values = {"keys": json.dumps(sorted(sessions))}
        connection.execute("update sessions set summary = null where sid in @keys(:keys)", values)
        sql = "select s.namespace, s.id from @keys(:keys) k join sessions s on s.sid = k.value"
        for namespace, ids in _group(connection.fetch(sql, values)).items():
            record_erased_names(connection, namespace, ids)


def is_quoted(summary: str, text: str) -> bool:
    """Tell if a summary was taken from a text, or holds it, whatever its spaces and its end became."""
    quote, whole = (" ".join(each.split()).casefold() for each in (summary.rstrip(ELLIPSIS), text))
    if not quote or not whole:
        return False
    shorter, longer = sorted((quote, whole), key=len)
    return whole.startswith(quote) or (len(shorter) >= _MIN_QUOTED_CHARACTERS and shorter in longer)


def _bypass(connection: Connection, rid: int) -> None:
    """Let the successor of a memory to be erased supersede, from that time on, the memories it superseded."""
    connection.execute(
        f"""
        update relations
        set source = up.source, valid_from = @later(relations.valid_from, up.valid_from)
        from (
            select source, valid_from from relations
            where target = :rid and kind = '{SUPERSEDES}' and valid_until is null) up
        where relations.source = :rid and relations.kind = '{SUPERSEDES}' and relations.valid_until is null
        """,
        {"rid": rid},
    )
