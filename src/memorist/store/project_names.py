"""
Names that callers of one project choose for memories, and the ids that stand for them.

An id is unique in its namespace, so a name that another project uses cannot be one. A memory gets an id of its own,
which begins with the name and a digest of project and name, and ends at random: a memory that was moved to another
project keeps its id, and the next one of that name must not tell so by having to differ from what can be foreseen.
"""

import hashlib
import secrets

from memorist.store.database import Connection
from memorist.store.rows import is_whole_id
from memorist.validation import MAX_ID_CHARACTERS

_DIGEST_DIGITS, _RANDOM_BYTES = 16, 6
_MAX_NAME_CHARACTERS = MAX_ID_CHARACTERS - 1 - _DIGEST_DIGITS - 2 * _RANDOM_BYTES


def choose_id(connection: Connection, namespace: str, project: str, name: str) -> str:
    """Return the id of the memory of a project, live or forgotten, that a name stands for, or else a new one."""
    if is_whole_id(connection, {"namespace": namespace, "project": project, "id": name}):
        return name
    return find_named(connection, namespace, project, name, deleted=None) or _begin_id(
        project, name
    ) + secrets.token_hex(_RANDOM_BYTES)


def find_named(
    connection: Connection, namespace: str, project: str, name: str, *, deleted: bool | None = False
) -> str | None:
    """Return the id of the latest memory of a project that was added under a name, a live one before others."""
    beginning = _begin_id(project, name)
    state = {None: "", False: "and deleted_at is null", True: "and deleted_at is not null"}[deleted]
    # Earlier versions chose ids without a random end.
    sql = f"""
        select id from memories
        where namespace = :namespace and id >= :beginning and id < :end and project = :project
          and length(id) in ({len(beginning)}, {len(beginning) + 2 * _RANDOM_BYTES}) {state}
        order by deleted_at is not null, rid desc limit 1
    """
    values = {"namespace": namespace, "project": project, "beginning": beginning, "end": f"{beginning}\U0010ffff"}
    rows = connection.fetch(sql, values)
    return rows[0][0] if rows else None


def _begin_id(project: str, name: str) -> str:
    """Return how the ids for a name in a project begin; those of no other project or name do, if they are as long."""
    digest = hashlib.sha256(f"{project}\0{name}".encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{name[:_MAX_NAME_CHARACTERS]}~{digest}"
