"""Redact what callers hand in before it is compared, hashed or stored, and report each secret by its place."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memorist.nesting import refuse_excess
from memorist.records import FactDraft, MemoryDraft
from memorist.redact import redact

_METADATA_KEY = "redacted"  # a memory's metadata holds the report of its redaction here
_TEXT_FIELDS = ("content", "title", "summary", "source")
_FACT_FIELDS = ("text", "subject", "predicate", "object")

RedactionReport = list[dict[str, Any]]
"""Kind, line and column of each secret, and the field if it is not the content."""


class Redaction(Struct, frozen=True):
    """The treatment of secrets: none unless `on`. `allow` names exceptions, in the form that `redact` takes."""

    on: bool = False
    allow: tuple[str, ...] = ()

    def redact_text(self, text: str) -> str:
        return redact(text, self.allow)[0] if self.on else text

    def redact_optional(self, text: str | None) -> str | None:
        return None if text is None else self.redact_text(text)

    def redact_content(self, text: str) -> tuple[str, dict[str, Any]]:
        """Return the content of a memory without its secrets, and the metadata that reports them."""
        report: RedactionReport = []
        clean = self._redact(text, "content", report) if self.on else text
        return clean, dict(_add_report({}, report))

    def redact_fact(self, fact: FactDraft) -> FactDraft:
        return self._redact_fact(fact, []) if self.on else fact

    def redact_value(self, value: Any) -> tuple[Any, RedactionReport]:
        """Return a JSON value without the secrets in its texts and keys, and a report of them."""
        refuse_excess(value, "the value")
        report: RedactionReport = []
        return self._redact_value(value, "", report) if self.on else value, report

    def redact_draft(self, draft: MemoryDraft) -> MemoryDraft:
        """Return a memory without the secrets in its texts and tags, reported in its metadata."""
        if not self.on:
            return draft
        report: RedactionReport = []
        texts = self._redact_fields({field: getattr(draft, field) for field in _TEXT_FIELDS}, report)
        texts["tags"] = self._redact_tags(draft.tags, report)
        facts = tuple(self._redact_fact(fact, report) for fact in draft.facts)
        metadata, earlier = _split_metadata(draft.metadata)
        metadata = self._redact_value(metadata, "metadata", report)
        return draft._replace(**texts, facts=facts, metadata=_add_report(metadata, earlier + report))

    def redact_changes(self, changes: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """Redact the changes of an update; what the metadata `before` reports of other fields stays in the report."""
        if not self.on:
            return dict(changes)
        report: RedactionReport = []
        texts = self._redact_fields({field: changes[field] for field in _TEXT_FIELDS if field in changes}, report)
        if changes.get("tags"):
            texts["tags"] = self._redact_tags(changes["tags"], report)
        metadata, _ = _split_metadata(changes.get("metadata", before))
        if "metadata" in changes:
            metadata = self._redact_value(metadata, "metadata", report)
        earlier = [entry for entry in redaction_report(before) if reported_field(entry) not in changes]
        metadata = _add_report(metadata, earlier + report)
        return {**changes, **texts} | ({"metadata": metadata} if "metadata" in changes or metadata != before else {})

    def report_secrets(self, texts: Mapping[str, str | None]) -> RedactionReport:
        """Report the secrets of texts, given by field."""
        report: RedactionReport = []
        if self.on:
            self._redact_fields(texts, report)
        return report

    def _redact_fields(self, texts: Mapping[str, str | None], report: RedactionReport) -> dict[str, Any]:
        return {field: text and self._redact(text, field, report) for field, text in texts.items()}

    def _redact_tags(self, tags: Iterable[str], report: RedactionReport) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._redact(tag, "tags", report) for tag in tags))

    def _redact_fact(self, fact: FactDraft, report: RedactionReport) -> FactDraft:
        texts = {field: text for field in _FACT_FIELDS if (text := getattr(fact, field)) is not None}
        clean: dict[str, Any] = {field: self._redact(text, "facts", report) for field, text in texts.items()}
        return replace(fact, **clean)

    def _redact(self, text: str, field: str, report: RedactionReport, name: str = "") -> str:
        """Redact a text. If nothing is found, its name may tell that it is a secret, so it is read with the name."""
        (clean, found), before = redact(text, self.allow), ""
        if name and not found:
            plain = " ".join(name.split())
            is_quotable = not any(character in text for character in '"\\\n')
            before, after = (f'"{plain}": "', '"') if is_quotable else (f"{plain}: ", "")
            whole, found = redact(before + text + after, self.allow)
            if not (whole.startswith(before) and whole.endswith(after)):
                return text  # the name was taken for a secret, not the text
            clean = whole[len(before) : len(whole) - len(after)]
        for secret in found:
            place = {"line": secret.line, "column": secret.column - (len(before) if secret.line == 1 else 0)}
            report.append({"kind": secret.kind, **place} | ({} if field == "content" else {"field": field}))
        return clean

    def _redact_value(self, value: Any, field: str, report: RedactionReport, name: str = "") -> Any:
        """Redact the texts within a JSON value, and the keys of its objects."""
        if isinstance(value, str):
            return self._redact(value, field, report, name)
        if isinstance(value, int) and 10**5 <= value < 10**64:  # a PIN, or a password of digits
            digits = self._redact(str(value), field, report, name)
            return value if digits == str(value) else digits
        if isinstance(value, Mapping):
            clean: dict[str, Any] = {}
            numbers: dict[str, int] = {}
            for key, item in value.items():
                known = _unused_key(self._redact(str(key), field, report), clean, numbers)
                clean[known] = self._redact_value(item, f"{field}.{known}", report, str(key))
            return clean
        if isinstance(value, list):
            return [self._redact_value(item, f"{field}.{at}", report, name) for at, item in enumerate(value)]
        return value


def _unused_key(key: str, used: Mapping[str, Any], numbers: dict[str, int]) -> str:
    """
    Return the key with a number if it is used already, because two secrets may have become one placeholder.

    The last number of each key is kept, or many of them would be counted up from the first again and again.
    """
    known = key
    while known in used:
        numbers[key] = numbers.get(key, 1) + 1
        known = f"{key} {numbers[key]}"
    return known


def redaction_report(metadata: Mapping[str, Any]) -> RedactionReport:
    """Return the redaction report in the metadata of a memory."""
    return _split_metadata(metadata)[1]


def reported_field(entry: Mapping[str, Any]) -> str:
    """Return the field of the memory that an entry of its redaction report is about."""
    return str(entry.get("field", "content")).partition(".")[0]


def _split_metadata(metadata: Mapping[str, Any]) -> tuple[Mapping[str, Any], RedactionReport]:
    report = metadata.get(_METADATA_KEY)
    if not isinstance(report, list) or not all(isinstance(entry, dict) and "kind" in entry for entry in report):
        return metadata, []  # a value of the caller's under the same key
    return {key: value for key, value in metadata.items() if key != _METADATA_KEY}, report


def _add_report(metadata: Mapping[str, Any], report: RedactionReport) -> Mapping[str, Any]:
    return {**metadata, _METADATA_KEY: report} if report else metadata
