"""
The items of a session as frameworks keep them: a list that is read back as it was written.

Each item is a turn of a session. Its text is found by searches; the item itself is JSON in the metadata.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from memorist.engine import Memorist
from memorist.errors import InvalidInput, NotFound
from memorist.records import TURN, Memory, new_id


@dataclass(frozen=True, slots=True)
class SessionItem:
    """An item of a conversation: who said it, its text for searches, and itself."""

    role: str
    text: str
    item: Mapping[str, Any]
    id: str | None = None  # of the memory: adding the same id again changes nothing


class SessionItems:
    """
    The items of one session, written by one framework.

    Sessions of the same name in different projects are different conversations.
    """

    def __init__(self, memory: Memorist, framework: str, session: str, *, project: str | None = None) -> None:
        self._memory, self._framework, self._session, self._project = memory, framework, session, project
        # A session of Memorist belongs to one project, and an id to one session.
        self.session_id = session if project is None else f"{project}/{session}"

    def items(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the items in the order they were added: all, or the latest ones."""
        if limit is not None and limit < 1:
            return []
        turns = self._list(1_000_000_000 if limit is None else limit)
        return [turn.metadata["item"] for turn in reversed(turns)]

    def add(self, items: Sequence[SessionItem]) -> None:
        if not items:
            return
        self._start_session()
        now = datetime.now(UTC)
        self._memory.add_many(
            {
                "id": item.id or new_id(),
                "if_exists": "keep",
                "content": item.text.strip() or f"({item.role})",
                "kind": TURN,
                "session": self.session_id,
                "project": self._project,
                "source": self._framework,
                "metadata": {
                    "role": item.role,
                    "framework": self._framework,
                    "session": self._session,
                    "item": item.item,
                },
                # Turns are read back by time: those of one call stay together, in their order.
                "created_at": now + timedelta(microseconds=number),
            }
            for number, item in enumerate(items)
        )

    def pop(self) -> dict[str, Any] | None:
        """Forget the latest item and return it. Of several callers at once, each gets another item."""
        while latest := self._list(1):
            try:
                self._memory.forget(latest[0].id)
            except NotFound:  # another caller was first
                continue
            item: dict[str, Any] = latest[0].metadata["item"]
            return item
        return None

    def clear(self) -> None:
        with suppress(NotFound):  # nothing was said yet
            self._memory.forget_many(**self._filters())

    def _list(self, limit: int) -> Sequence[Memory]:
        try:
            return tuple(self._memory.list(limit=limit, **self._filters()))
        except NotFound:  # there is no such session yet
            return ()

    def _filters(self) -> dict[str, Any]:
        mine = {"framework": self._framework, "session": self._session}
        return {"project": self._project, "session": self.session_id, "kind": TURN, "metadata": mine}

    def _start_session(self) -> None:
        try:
            self._memory.start_session(self._project, id=self.session_id)
        except InvalidInput:  # it is there already; a name that cannot be used is refused when turns are added
            return
