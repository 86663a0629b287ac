"""
Conversations as sessions and memories: ids that are the same each time, times that keep the order, no secrets.

A turn is something that happened, not something that holds: the same words said again are another turn, so that a
conversation can be read as it was. What makes a second import add nothing is the id, made of the other program's own.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID, uuid5

from memorist import inputs
from memorist.errors import InvalidInput
from memorist.ingest.redaction import Redaction
from memorist.ingest.transcripts import Conversation, Problem, Turn
from memorist.records import TURN, Draft
from memorist.redact import redact

_TURNS = UUID("3d2b1d3e-7b0a-5c55-9d6f-5a1f6c1e8a42")  # a namespace of our own, for uuid5
_EVERYWHERE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)
_MICROSECOND = timedelta(microseconds=1)
_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


def session_of(conversation: Conversation) -> str:
    """The id of its session: with the format before it, nobody else's; its own id, being an ending of it, finds it."""
    id = f"{conversation.format}:{conversation.id}"
    return id if len(id) <= inputs.MAX_SESSION_ID else f"{conversation.format}:{_digest(conversation.id)}"


def drafts(
    conversation: Conversation, *, project: str | None, source: str, otherwise: datetime, redaction: Redaction
) -> Iterator[Draft | Problem]:
    """Its turns as memories, in order; `otherwise` is when it was, where the conversation itself does not say."""
    now = datetime.now(UTC)
    repeats: Counter[str] = Counter()
    begun = conversation.started_at or otherwise
    moment: datetime | None = None
    for number, turn in enumerate(conversation.turns, 1):
        moment = (turn.at or begun) if moment is None else _next(moment, turn.at)
        text, report = redaction.content(turn.text)
        about = {"role": turn.role, "format": conversation.format} | ({"tool": turn.tool} if turn.tool else {})
        fields = {
            "id": _turn_id(conversation, turn, repeats),
            "content": text,
            "project": project,
            "kind": TURN,
            "sector": "episodic",
            "tier": "session",
            "source": source,
            "metadata": about | report,
            "created_at": moment,
        }
        try:
            yield inputs.draft(fields, now)
        except InvalidInput as exc:
            yield Problem(None, f"turn {number} of {(conversation.title or conversation.id)!r} cannot be added: {exc}")


def _next(before: datetime, at: datetime | None) -> datetime:
    """When a turn was: as it says, but always after the one before it, for lists and timelines go by time."""
    if at is not None and at > before:
        return at
    return before if before == _LAST_MOMENT else before + _MICROSECOND


def _turn_id(conversation: Conversation, turn: Turn, repeats: Counter[str]) -> str:
    """
    A UUID of what names the turn. A message that has one of its own is the same in every session that repeats it, as
    resumed ones do.

    One without an id is known by who said what when, and how often before: so a conversation may grow, or be read with
    tools. Of its text, only what is no secret has a part in it, whatever is allowed: a digest can be guessed at.
    """
    named = [conversation.format, conversation.id]
    if turn.id is not None:
        named = [*named[: 1 if _EVERYWHERE.match(turn.id) else 2], turn.id]
    else:
        said = [turn.role, turn.tool, turn.at and turn.at.isoformat(), redact(turn.text)[0]]
        digest = _digest(json.dumps(said))
        repeats[digest] += 1
        named += [digest, str(repeats[digest])]
    return str(uuid5(_TURNS, json.dumps(named)))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
