"""
The items of a session as frameworks keep them: a list that is read back as it was written.

Each item is a turn of a session. Its text is found by searches; the item itself is JSON in the metadata.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from msgspec import Struct

from memorist.adapters.project_documents import check_project, quote_project
from memorist.engine import Memorist
from memorist.errors import InvalidInput, NotFound
from memorist.ids import new_id
from memorist.nesting import refuse_excess
from memorist.records import TURN, Memory
from memorist.validation import MAX_SESSION_ID

_DATA_KEYS = ("arguments", "action", "result")  # of a tool, which may be any JSON


class SessionItem(Struct, frozen=True):
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
        if not isinstance(session, str):
            raise InvalidInput(f"the id of a session must be text, not {type(session).__name__}")
        self._memory, self._framework, self._session = memory, framework, session
        self._project = check_project(project)
        self.session_id = session_id_of(session, project)

    def items(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the items in the order they were added: all, or the latest ones."""
        if limit is not None and limit < 1:
            return []
        turns = self._list(1_000_000_000 if limit is None else limit)
        return [turn.metadata["item"] for turn in reversed(turns)]

    def add(self, items: Sequence[SessionItem]) -> None:
        now = datetime.now(UTC)
        turns = [
            {
                "id": item.id,
                "content": item.text.strip() or f"({item.role})",
                "metadata": {"role": item.role, "session": self._session, "item": item.item},
                # Turns are read back by time: those of one call stay together, in their order.
                "created_at": now + timedelta(microseconds=number),
            }
            for number, item in enumerate(items)
        ]
        add_turns(self._memory, self._framework, turns, session=self.session_id, project=self._project)

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


def session_id_of(session: str, project: str | None) -> str:
    """Return the id of a framework's session: one of Memorist belongs to one project, and an id to one session."""
    id = session if project is None else f"{quote_project(project)}/{session}"
    return id if len(id) <= MAX_SESSION_ID else sha256(id.encode("utf-8", "surrogatepass")).hexdigest()


def add_turns(
    memory: Memorist,
    framework: str,
    turns: Sequence[Mapping[str, Any]],
    *,
    session: str | None = None,
    project: str | None = None,
) -> None:
    """Add turns, each the fields of a memory. One whose id is there, or was forgotten, changes nothing."""
    if not turns:
        return
    if session is not None:
        with suppress(InvalidInput):  # it is there already; a name that cannot be used is refused below
            memory.sessions.start(project, id=session)
    shared: dict[str, Any] = {"kind": TURN, "source": framework, "project": project}
    forgotten: set[str] = set()
    if any(turn["id"] for turn in turns):
        listed = memory.list(limit=1_000_000_000, deleted=True, session=session, **shared)
        forgotten = {turn.id for turn in listed}
    memory.add_many(
        {
            **turn,
            **shared,
            "id": turn["id"] or new_id(),
            "if_exists": "keep",
            "session": session,
            "metadata": {**turn["metadata"], "framework": framework},
        }
        for turn in turns
        if turn["id"] not in forgotten
    )


def copy_item(item: object) -> dict[str, Any]:
    """Return a copy of an item as JSON has it: the framework goes on using its own."""
    refuse_excess(item, "the item")
    copied: dict[str, Any] = json.loads(json.dumps(item))
    return copied


def find_texts(value: object, keys: Sequence[str]) -> Iterator[str]:
    """Yield the texts at some keys of an item, and of what is in it; those of a tool's call follow its name."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from find_texts(part, keys)
    elif isinstance(value, Mapping):
        found = (text for key in keys if value.get(key) is not None for text in _find_texts_at(value, key, keys))
        if isinstance(name := value.get("name"), str):
            yield f"{name}: " + "\n".join(found)
        else:
            yield from found


def _find_texts_at(value: Mapping[str, Any], key: str, keys: Sequence[str]) -> Iterator[str]:
    if key in _DATA_KEYS and not isinstance(value[key], str):
        yield json.dumps(value[key], ensure_ascii=False)
    else:
        yield from find_texts(value[key], keys)
