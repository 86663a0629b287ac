"""Lenses: named views of a memory, with filters, a profile, and boosts."""

import builtins
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Unpack

from msgspec.structs import asdict

from memorist import validation
from memorist.arguments import Filters, check_filters
from memorist.contract import operation
from memorist.engine.room import Room
from memorist.errors import InvalidInput
from memorist.records import Lens
from memorist.schemas import Meta
from memorist.search.options import apply_options, find_profile

_BOOSTED_FIELDS = ("sector", "kind", "tag", "source")


class Lenses(Room):
    """Stores lenses."""

    _name = "lenses"

    @operation("GET /lenses")
    def list(self) -> builtins.list[Lens]:
        """List the lenses, by name."""
        return [Lens(name, **definition) for name, definition in self._store.lenses.load_all().items()]

    @operation("GET /lenses/{name}")
    def get(self, name: str) -> Lens:
        """Return a lens by its name."""
        return self._resources.find_lens(name)

    @operation("PUT /lenses/{name}", nested="filters")
    def set(
        self,
        name: str,
        *,
        boosts: Mapping[str, Mapping[str, Any]] | None = None,
        recency: Annotated[Mapping[str, Any] | None, Meta(nullable=True)] = None,
        profile: Annotated[str | None, Meta(nullable=True)] = None,
        **filters: Unpack[Filters],
    ) -> Lens:
        """
        Save a view under a name: filters (those of `search`), a profile, and boosts: factors by field (sector, kind,
        tag, source) and value, as {"tag": {"decision": 1.5}}.
        """
        for value, what in ((boosts, "boosts"), (recency, "recency")):
            if value is not None and not isinstance(value, Mapping):
                raise InvalidInput(f"{what} must be a mapping, not {type(value).__name__}")
        plain = {field: _as_json_value(value) for field, value in filters.items() if value is not None}
        check_filters(plain)
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
        self._store.lenses.put(lens.name, validation.metadata(definition))
        return lens

    @operation("DELETE /lenses/{name}")
    def remove(self, name: str) -> None:
        """Remove a lens; memories stay as they are."""
        if not self._store.lenses.remove(validation.required_name(name, "name")):
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
