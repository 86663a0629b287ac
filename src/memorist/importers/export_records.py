"""Make export records from memories of other programs, without their secrets."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from memorist import validation
from memorist.errors import InvalidInput
from memorist.ingest.redaction import Redaction
from memorist.records import FactDraft
from memorist.store.export import ExportRecord

_FACT_FIELDS = ("kind", "subject", "predicate", "object", "decay_rate")
_NOT_COPIED = ("id", "facts", "session", "created_at", "recorded_at", "tags", "if_exists", "keeps_salience")


class Redactor:
    """Redacts the texts within a value, and counts the secrets by kind."""

    def __init__(self, allow: Collection[str] | None) -> None:
        self._redaction = Redaction(allow is not None, tuple(allow or ()))  # None: nothing is redacted
        self.counts: Counter[str] = Counter()

    def __call__(self, value: Any) -> Any:
        try:
            size = _count_characters(value)
            if size > validation.MAX_CONTENT_CHARACTERS:  # before it is read for secrets, which takes a while
                raise InvalidInput(
                    f"it has a text of {size:,} characters; at most {validation.MAX_CONTENT_CHARACTERS:,} fit: "
                    "split it into parts"
                )
            clean, report = self._redaction.redact_value(value)
        except RecursionError as exc:
            raise InvalidInput("it holds lists or objects within each other, too many to be read") from exc
        self.counts.update(entry["kind"] for entry in report)
        return clean


def _count_characters(value: Any) -> int:
    """Return the number of characters in the texts and keys of a JSON value."""
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            count += len(one)
        elif isinstance(one, Mapping):
            waiting += [*map(str, one), *one.values()]
        elif isinstance(one, list):
            waiting += one
    return count


def derive_id(*parts: str | None) -> str:
    """Return an id that is always the same for the same parts."""
    return str(uuid5(NAMESPACE_URL, validation.clean("\n".join(["memorist", *(part or "" for part in parts)]))))


def memory_record(place: str, values: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> ExportRecord:
    """Return a record from the arguments of `add`, validated likewise; `extra` are fields that `add` does not have."""
    draft = validation.draft(values, datetime.now(UTC))
    record = {name: value for name, value in draft._asdict().items() if name not in _NOT_COPIED}
    record |= {
        "id": draft.id,
        "tags": list(draft.tags),
        "created_at": draft.created_at,
        "updated_at": draft.recorded_at,
        "reinforced_at": draft.recorded_at,
        "recorded_at": draft.recorded_at,
        "pinned": False,
        "access_count": 0,
        "facts": _fact_records(draft.facts, min(draft.created_at, draft.recorded_at)),
    }
    return ExportRecord(place, "memory", record | dict(extra or {}))


def _fact_records(facts: Iterable[FactDraft], since: datetime) -> list[dict[str, Any]]:
    """Return a record for each fact, and only the first of those with the same text."""
    unique: dict[str, FactDraft] = {}
    for fact in facts:
        unique.setdefault(fact.text, fact)
    return [
        {"id": fact.id, "text": fact.text, **{name: getattr(fact, name) for name in _FACT_FIELDS},
         "confidence": 1.0 if fact.confidence is None else fact.confidence,
         "created_at": since, "reinforced_at": fact.reinforced_at or since}
        for fact in unique.values()
    ]  # fmt: skip


def relation_record(
    place: str, source: str, kind: str, target: str, since: datetime, extra: Mapping[str, Any]
) -> ExportRecord:
    """Return a record of a relation; `extra` are its other fields."""
    required = {"source": source, "target": target, "kind": validation.required_name(kind, "kind"), "valid_from": since}
    return ExportRecord(place, "relation", {"confidence": 1.0, **extra, **required})
