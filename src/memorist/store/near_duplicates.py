"""Near duplicates of a text, looked up by the words that both share."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from memorist.arguments import Filter
from memorist.store.backend import KeywordIndex
from memorist.store.database import Connection
from memorist.store.filters import filter_conditions

_MAX_FIRST_SHARING, _MAX_SHARING = 100, 200  # memories with words of a text, looked for at first, and more closely


def list_sharing(
    connection: Connection, namespace: str, index: KeywordIndex, words: Mapping[str, str], least: int, filter: Filter
) -> list[tuple[str, str | None, str]]:
    """
    Return the id, project and text of memories that pass a filter, in the order of writing.

    All those are among them that have at least so many of these words, given by their stems, unless there are many.
    """
    where, values = filter_conditions(replace(filter, hide_expired=True))
    rows: list[tuple[Any, ...]] = []
    for closely in (False, True):
        sharing, more, is_closest = index.select_sharing(connection, words, least, closely=closely)
        most = _MAX_SHARING if is_closest else _MAX_FIRST_SHARING
        sql = f"""
            select m.id, m.project, m.content
            from ({sharing}) found @then memories m on m.rid = found.rid
            where @plain(m.namespace) = :namespace and m.deleted_at is null {where}
            order by m.rid
            limit {most}
        """
        rows = connection.fetch(sql, values | more | {"namespace": namespace})
        if is_closest or len(rows) < most:
            break
    return [(id, project, content) for id, project, content in rows]


def write_sharing(rarest_first: Sequence[str], least: int, most: int | None = None) -> str:
    """
    Return an expression that matches every text with at least so many of these words.

    Such a text lacks few of them. Dealt into one group more than that, the words of one group are all there. With the
    `most` rarest words of each group, more texts are found, but sooner.
    """
    groups = len(rarest_first) - least + 1
    dealt = (rarest_first[number::groups][:most] for number in range(groups))
    return " OR ".join("(" + " AND ".join(f'"{word}"' for word in group) + ")" for group in dealt)
