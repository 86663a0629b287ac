"""
Tombstones of what was erased: digests of ids, by which an import leaves the same turns out.

The id of a turn may be derived from its text, so that whoever guesses the text could compute the id. Digests are keyed
by a random salt of the namespace: they tell nothing without it, and two databases have no digest in common. Whoever has
the salt, too, can only ask if a turn that they know word by word was erased.
"""

import json
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b

from msgspec import Struct

from memorist.records import ConversationBatch, MemoryDraft
from memorist.store.database import Connection
from memorist.store.filters import to_micros

_SALT_BYTES = _DIGEST_BYTES = 16
_DERIVED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")  # a UUID of version 5
# What a tombstone is of: the same text may be the id of a turn and of a session.
_TURN, _SESSION, _NAME = "turn", "session", "name"
_Subject = tuple[str, str]


def record_erased_turns(connection: Connection, namespace: str, ids: Iterable[str]) -> None:
    """Remember turns that are erased. Only ids that were derived from those of another program can come again."""
    _record(connection, namespace, [(_TURN, id) for id in ids if _DERIVED_ID.fullmatch(id)])


def record_erased_session(connection: Connection, namespace: str, id: str) -> None:
    """Remember a session that is erased."""
    _record(connection, namespace, [(_SESSION, id)])


def record_erased_names(connection: Connection, namespace: str, ids: Iterable[str]) -> None:
    """Remember sessions whose summaries are erased, as they quote what is."""
    _record(connection, namespace, [(_NAME, id) for id in ids])


def _record(connection: Connection, namespace: str, subjects: Collection[_Subject]) -> None:
    if subjects:
        salts = _list_salts(connection, namespace)
        salt = salts[0] if salts else secrets.token_hex(_SALT_BYTES)
        now = connection.fetch_value("select @now")
        rows = [(namespace, salt, _digest(salt, subject), now) for subject in subjects]
        columns = ("namespace", "salt", "digest", "erased_at")
        connection.insert_rows("erased", columns, rows, "on conflict do nothing")


class Tombstones(Struct, frozen=True):
    """The tombstones of the turns and sessions of some conversations, each with the time of the erasure."""

    _erased_at: Mapping[_Subject, int]

    @classmethod
    def find(cls, connection: Connection, namespace: str, batches: Iterable[ConversationBatch]) -> "Tombstones":
        subjects = {(_TURN, turn.id) for batch in batches for turn in batch.turns}
        subjects |= {(kind, batch.id) for batch in batches for kind in (_SESSION, _NAME)}
        return cls(_find(connection, namespace, subjects))

    def is_erased(self, batch: ConversationBatch, turn: MemoryDraft) -> bool:
        """Tell if a turn was erased, by itself or as a part of its session: all that was said there until then."""
        if (_TURN, turn.id) in self._erased_at:
            return True
        erased_at = self._erased_at.get((_SESSION, batch.id))
        return erased_at is not None and to_micros(turn.created_at) <= erased_at

    def is_name_erased(self, batch: ConversationBatch) -> bool:
        """Tell if the summary of a session was erased, by itself or with the session."""
        return any((kind, batch.id) in self._erased_at for kind in (_SESSION, _NAME))


def _find(connection: Connection, namespace: str, subjects: Collection[_Subject]) -> dict[_Subject, int]:
    found: dict[_Subject, int] = {}
    for salt in _list_salts(connection, namespace):
        by_digest = {_digest(salt, subject): subject for subject in subjects}
        rows = connection.fetch(
            """
            select digest, erased_at from erased
            where namespace = :namespace and salt = :salt and digest in @texts(:digests)
            """,
            {"namespace": namespace, "salt": salt, "digests": json.dumps(list(by_digest))},
        )
        for digest, erased_at in rows:
            subject = by_digest[digest]
            found[subject] = max(erased_at, found.get(subject, erased_at))
    return found


def _list_salts(connection: Connection, namespace: str) -> list[str]:
    """Return the salts of a namespace: one, and those of imported erasures. Each is one step in the index."""
    salts: list[str] = []
    sql = "select min(salt) from erased where namespace = ? and salt > ?"
    while salt := connection.fetch_value(sql, (namespace, salts[-1] if salts else "")):
        salts.append(salt)
    return salts


def _digest(salt: str, subject: _Subject) -> str:
    kind, id = subject
    return blake2b(f"{kind}\0{id}".encode(), key=salt.encode(), digest_size=_DIGEST_BYTES).hexdigest()
