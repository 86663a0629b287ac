"""Cursors of pages in the order of time: they name a memory, as its key would tell how much others have written."""

import json
import re
from typing import Any

from memorist.arguments import Filter
from memorist.errors import InvalidInput
from memorist.metadata_filter import UNSTORABLE
from memorist.records import Memory
from memorist.store.database import Connection
from memorist.store.filters import to_micros

_TIME = re.compile(r"-?[0-9]{1,17}")  # in microseconds


def cursor_after(memory: Memory) -> str:
    """Return the cursor of a page that ends with this memory: its time and its id."""
    return f"{to_micros(memory.created_at)}:{memory.id}"


def find_cursor(connection: Connection, namespace: str, cursor: object, filter: Filter) -> tuple[str, dict[str, Any]]:
    """
    Return the condition that a memory `m` comes after that of a cursor, from the newest on, and its values.

    Where that one was erased meanwhile, ids tell which others of the same time were shown: they grow with time, unless
    callers choose them.
    """
    time, _, id = cursor.partition(":") if isinstance(cursor, str) else ("", "", "")
    if not _TIME.fullmatch(time) or not id:
        raise InvalidInput(f"{cursor!r:.80} is not a cursor; use the one that the previous page gave")
    values: dict[str, Any] = {"cursor_time": int(time), "cursor_id": UNSTORABLE.sub("\ufffd", id)}
    wall = "and project in @texts(:wall)" if filter.restricted else ""  # an id of another project is as good as none
    rid = connection.fetch_value(
        f"""
        select rid from memories
        where namespace = :namespace and id = :cursor_id and created_at = :cursor_time {wall}
        """,
        values | {"namespace": namespace, "wall": json.dumps(filter.project)},
    )
    if rid is None:
        return "and (m.created_at, m.id) < (:cursor_time, :cursor_id)", values
    return "and (m.created_at, m.rid) < (:cursor_time, :cursor_rid)", values | {"cursor_rid": rid}
