"""Secrets taken out of whatever comes in, before it is compared, hashed or stored; what was taken is told by place."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memorist.records import FactDraft, MemoryDraft
from memorist.redact import redact

REPORT = "redacted"  # where a memory's metadata tells what was taken out of it
_TEXTS = ("content", "title", "summary", "source")
_OF_A_FACT = ("text", "subject", "predicate", "object")

Report = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is done about secrets: nothing, unless it is `on`. `allow` names what is none, as `redact` takes it."""

    on: bool = False
    allow: tuple[str, ...] = ()

    def shown(self, text: str) -> str:
        return redact(text, self.allow)[0] if self.on else text

    def shown_or_none(self, text: str | None) -> str | None:
        return None if text is None else self.shown(text)

    def content(self, text: str) -> tuple[str, dict[str, Any]]:
        """The content of a memory without its secrets, and what its metadata says of them."""
        report: Report = []
        clean = self._text(text, "content", report) if self.on else text
        return clean, dict(_with_report({}, report))

    def fact(self, fact: FactDraft) -> FactDraft:
        return self._fact(fact, []) if self.on else fact

    def draft(self, draft: MemoryDraft) -> MemoryDraft:
        """A memory without the secrets in its texts; its metadata says which there were. Names of things stay."""
        if not self.on:
            return draft
        report: Report = []
        texts = self._texts({field: getattr(draft, field) for field in _TEXTS}, report)
        facts = tuple(self._fact(fact, report) for fact in draft.facts)
        given, before = _apart(draft.metadata)
        metadata = self._values(given, "metadata", report)
        return replace(draft, **texts, facts=facts, metadata=_with_report(metadata, before + report))

    def changes(self, changes: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """The same for an update; `before` is the metadata that is there, and what it tells of other fields stays."""
        if not self.on:
            return dict(changes)
        report: Report = []
        texts = self._texts({field: changes[field] for field in _TEXTS if field in changes}, report)
        given, _ = _apart(changes.get("metadata", before))
        metadata = self._values(given, "metadata", report) if "metadata" in changes else given
        kept = [entry for entry in _apart(before)[1] if field_of(entry) not in changes]
        told = _with_report(metadata, kept + report)
        return {**changes, **texts} | ({"metadata": told} if "metadata" in changes or told != before else {})

    def report(self, texts: Mapping[str, str | None]) -> Report:
        """What is taken out of texts, by the name of each."""
        report: Report = []
        if self.on:
            self._texts(texts, report)
        return report

    def _texts(self, texts: Mapping[str, str | None], report: Report) -> dict[str, Any]:
        return {field: text and self._text(text, field, report) for field, text in texts.items()}

    def _fact(self, fact: FactDraft, report: Report) -> FactDraft:
        texts = {part: text for part in _OF_A_FACT if (text := getattr(fact, part)) is not None}
        clean: dict[str, Any] = {part: self._text(text, "facts", report) for part, text in texts.items()}
        return replace(fact, **clean)

    def _text(self, text: str, field: str, report: Report, name: str = "") -> str:
        """A text without its secrets. What it is called may tell that it is one: it is read as if it stood before."""
        before = f"{' '.join(name.split())}: " if name else ""
        clean, found = redact(before + text, self.allow)
        if not clean.startswith(before):
            return self._text(text, field, report)
        for one in found:
            place = {"line": one.line, "column": one.column - (len(before) if one.line == 1 else 0)}
            report.append({"kind": one.kind, **place} | ({} if field == "content" else {"field": field}))
        return clean[len(before) :]

    def _values(self, value: Any, field: str, report: Report, name: str = "") -> Any:
        """What JSON knows, with the texts in it redacted."""
        if isinstance(value, str):
            return self._text(value, field, report, name)
        if isinstance(value, Mapping):
            return {key: self._values(each, f"{field}.{key}", report, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self._values(each, f"{field}.{at}", report, name) for at, each in enumerate(value)]
        return value


def reported(metadata: Mapping[str, Any]) -> Report:
    """What was taken out of a memory with this metadata: kind, line, column, and the field if it is not the content."""
    return _apart(metadata)[1]


def _apart(metadata: Mapping[str, Any]) -> tuple[Mapping[str, Any], Report]:
    told = metadata.get(REPORT)
    if not isinstance(told, list) or not all(isinstance(entry, dict) and "kind" in entry for entry in told):
        return metadata, []  # the caller's own, whatever it means
    return {key: value for key, value in metadata.items() if key != REPORT}, told


def _with_report(metadata: Mapping[str, Any], report: Report) -> Mapping[str, Any]:
    return {**metadata, REPORT: report} if report else metadata


def field_of(entry: Mapping[str, Any]) -> str:
    """Which field of a memory an entry of its report is about."""
    return str(entry.get("field", "content")).partition(".")[0]
