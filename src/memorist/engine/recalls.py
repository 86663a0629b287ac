"""The record of past searches, feedback on them, and lenses."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from memorist import validation
from memorist.engine.resources import Resources
from memorist.errors import InvalidInput, NotFound
from memorist.records import Feedback, Lens, Recall
from memorist.search.options import apply_options, find_profile
from memorist.validation import TimeLike

_BOOSTED_FIELDS = ("sector", "kind", "tag", "source")
_MAX_RECALLS_SEARCHED = 1000  # for the last question that found a memory


class Recalls:
    """Lists recorded searches, and keeps feedback on their hits."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store

    def list_recalls(
        self, memory: str | None, session: str | None, since: TimeLike | None, limit: int, before: str | None = None
    ) -> list[Recall]:
        self._resources.recorder.settle()
        validation.whole_number(limit, "limit", 1, 1_000_000)
        return self._store.recalls.list_recalls(
            None if memory is None else validation.id_or_part(memory),
            None if session is None else self._store.sessions.resolve_id(validation.session_id(session)),
            validation.moment_or_none(since, "since"),
            limit,
            before,
        )

    def clear(self, before: TimeLike | None) -> int:
        self._resources.recorder.flush()
        return self._store.recalls.clear(validation.moment_or_none(before, "before"))

    def add_feedback(self, id: str, good: bool, query: str | None) -> Feedback:
        self._resources.recorder.settle()
        id, good = validation.id_or_part(id), validation.flag(good, "good")
        text = self._last_query(id) if query is None else validation.query_text(query)
        if not text.strip():
            raise InvalidInput("the query is empty; say which question the memory answers, or does not")
        return self._store.feedback.put(id, self._resources.redaction.redact_text(text), good, datetime.now(UTC))

    def list_feedback(self, memory: str | None, limit: int) -> list[Feedback]:
        validation.whole_number(limit, "limit", 1, 1_000_000)
        return self._store.feedback.list_feedback(None if memory is None else validation.id_or_part(memory), limit)

    def _last_query(self, id: str) -> str:
        """Return the query of the last recorded search that found a memory."""
        for recall in self._store.recalls.list_recalls(id, None, None, _MAX_RECALLS_SEARCHED):
            if recall.query and recall.query.strip():
                return recall.query
        raise NotFound(f"no recorded search found memory {id}; say which question it answers, with a query")


class Lenses:
    """Stores named views: filters, a profile, and boosts."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store.lenses

    def list_lenses(self) -> list[Lens]:
        return [Lens(name, **definition) for name, definition in self._store.load_all().items()]

    def set(
        self,
        name: str,
        boosts: Mapping[str, Mapping[str, float]] | None,
        recency: Mapping[str, Any] | None,
        profile: str | None,
        filters: Mapping[str, Any],
    ) -> Lens:
        for value, what in ((boosts, "boosts"), (recency, "recency")):
            if value is not None and not isinstance(value, Mapping):
                raise InvalidInput(f"{what} must be a mapping, not {type(value).__name__}")
        plain = {field: _as_json_value(value) for field, value in filters.items() if value is not None}
        validation.search_filter(plain)
        redaction = self._resources.redaction
        lens = Lens(
            validation.required_name(name, "name"),
            redaction.redact_value(plain)[0],
            redaction.redact_value(_check_boosts(boosts or {}))[0],
            None if recency is None else dict(recency),
            None if profile is None else find_profile(profile).name,
        )
        apply_options(self._resources.profile, {"recency": lens.recency})
        definition = {field: value for field, value in asdict(lens).items() if field != "name"}
        self._store.put(lens.name, validation.metadata(definition))
        return lens

    def remove(self, name: str) -> None:
        if not self._store.remove(validation.required_name(name, "name")):
            self._resources.find_lens(name)


def _as_json_value(value: Any) -> Any:
    """Return a filter's value as JSON knows it; a phrase such as "last week" stays one, and counts from each search."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else value


def _check_boosts(boosts: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    checked: dict[str, dict[str, float]] = {}
    for field, factors in boosts.items():
        name = "tag" if field == "tags" else validation.choice(field, _BOOSTED_FIELDS, "boosts:")
        if not isinstance(factors, Mapping):
            raise InvalidInput(f"boosts.{name} must be a mapping of values to factors, not {type(factors).__name__}")
        checked[name] = {
            validation.required_name(value, name): validation.number(factor, f"boosts.{name}.{value}", 0, 100)
            for value, factor in factors.items()
        }
    return checked
