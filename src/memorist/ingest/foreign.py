"""What other programs, or people, wrote down: made into the records that an import takes."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from memorist import inputs
from memorist.records import Draft, FactDraft
from memorist.redact import redact
from memorist.store.carried import Line

_SAID = ("kind", "subject", "predicate", "object", "decay_rate")
_HELD_APART = ("id", "facts", "session", "created_at", "recorded_at", "tags")


class Redactor:
    """Takes secrets out of texts, wherever in a value they stand, and counts them by kind."""

    def __init__(self, allow: Collection[str] | None) -> None:
        self._allow = allow  # None: nothing is redacted
        self.found: Counter[str] = Counter()

    def __call__(self, value: Any) -> Any:
        if self._allow is None:
            return value
        if isinstance(value, str):
            text, found = redact(value, self._allow)
            self.found.update(one.kind for one in found)
            return text
        if isinstance(value, Mapping):
            return {name: self(one) for name, one in value.items()}
        return [self(one) for one in value] if isinstance(value, list) else value


def derived_id(*parts: str | None) -> str:
    """The same id for the same thing, however often it is read."""
    return str(uuid5(NAMESPACE_URL, inputs.clean("\n".join(["memorist", *(part or "" for part in parts)]))))


def memory_line(place: str, given: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Line:
    """A record from the fields of `add`, checked like those; `more` are fields of the record that `add` has not."""
    draft = inputs.draft(given, datetime.now(UTC))
    record = {each.name: getattr(draft, each.name) for each in fields(Draft) if each.name not in _HELD_APART}
    record |= {
        "id": draft.id,
        "tags": list(draft.tags),
        "created_at": draft.created_at,
        "updated_at": draft.recorded_at,
        "reinforced_at": draft.recorded_at,
        "recorded_at": draft.recorded_at,
        "pinned": False,
        "access_count": 0,
        "facts": [_fact(fact, min(draft.created_at, draft.recorded_at)) for fact in _once(draft.facts)],
    }
    return Line(place, "memory", record | dict(more or {}))


def relation_line(place: str, source: str, kind: str, target: str, since: datetime, said: Mapping[str, Any]) -> Line:
    """A record of what one memory says of another."""
    about = {"source": source, "target": target, "kind": inputs.required_name(kind, "kind"), "valid_from": since}
    return Line(place, "relation", {"confidence": 1.0, **said, **about})


def _once(facts: Collection[FactDraft]) -> Collection[FactDraft]:
    """Each fact once, in the order they stand there."""
    first: dict[str, FactDraft] = {}
    for fact in facts:
        first.setdefault(fact.text, fact)
    return first.values()


def _fact(fact: FactDraft, since: datetime) -> dict[str, Any]:
    said = {name: getattr(fact, name) for name in _SAID}
    confidence = 1.0 if fact.confidence is None else fact.confidence
    return {"id": fact.id, "text": fact.text, **said, "confidence": confidence, "created_at": since,
            "reinforced_at": since}  # fmt: skip
