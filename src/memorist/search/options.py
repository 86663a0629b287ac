"""The options of one search: a profile with the caller's options applied and checked."""

from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from memorist import validation
from memorist.contract import argument_schema
from memorist.errors import InvalidInput
from memorist.profiles import PROFILES
from memorist.profiles.compat import MODE_ALIASES, SECTOR_DECAY
from memorist.profiles.profile import ALL_COLUMNS, FACT_DECAY, MatchLabels, Profile, ProfileOptions, Recency, Weights
from memorist.records import MODES, RECORD_MODES, SECTORS
from memorist.schemas import Schema

_RERANK = ("off", "auto")

_RECORDS: Mapping[str, type[Struct]] = {"weights": Weights, "recency": Recency, "match_labels": MatchLabels}
_PARTS: Mapping[tuple[type, str], tuple[str, ...]] = {
    (Recency, "form"): ("none", "add", "multiply", "tiers"),
    (Recency, "on"): ("created", "updated", "accessed", "imported"),
}
_NUMBERS_BY_NAME: Mapping[str, tuple[str, ...] | None] = {
    "columns": tuple(ALL_COLUMNS), "sector_boosts": SECTORS, "sector_decay": SECTORS, "fact_decay": None,
}  # fmt: skip
_PRESETS: Mapping[str, Mapping[str, Mapping[str, float]]] = {"sector_decay": SECTOR_DECAY, "fact_decay": FACT_DECAY}
_FIELDS = Profile.__struct_fields__


def find_profile(name: str) -> Profile:
    """Return a profile by its name."""
    return PROFILES[validation.choice(name, PROFILES, "profile")]


def apply_options(base: Profile, replaced: Mapping[str, Any]) -> Profile:
    """Return the profile with the given options replaced. None means not given; 0 is a value."""
    given = {option: value for option, value in replaced.items() if value is not None}
    for option in given:
        if option not in _FIELDS or option == "name":
            raise InvalidInput(f"a search has no option {option!r}; a profile has: {', '.join(_FIELDS[1:])}")
    if "alpha" in given:
        given.setdefault("weigh_by_clarity", False)  # a caller's alpha is the share itself
    return replace(base, **{option: _check_option(option, value, base) for option, value in given.items()})


def parse_mode(value: object, base: Profile, use_vector: bool | None = None) -> str:
    """Return the mode that a name or an alias means; without vectors, hybrid is keyword search."""
    name = MODE_ALIASES.get(value, value) if isinstance(value, str) else value
    if name not in MODES and base.unknown_mode and isinstance(name, str):
        name = base.unknown_mode
    mode = validation.choice(name, MODES, "mode")
    if use_vector is not None and mode == ("keyword" if use_vector else "semantic"):
        raise InvalidInput(f"use_vector={use_vector} and mode={mode!r} contradict each other; give one of them")
    return "keyword" if use_vector is False else mode


def with_leg_weights(settled: Profile, mode: str, *, degraded: bool) -> Profile:
    """Return the profile with the whole weight on one leg, where only that one ran."""
    if settled.alpha is None or (mode == "hybrid" and not degraded):
        return settled
    alpha = 1.0 if mode == "semantic" and not degraded else 0.0
    return replace(settled, alpha=alpha, weigh_by_clarity=False, expansion=0.0)


def _check_option(option: str, value: Any, base: Profile) -> Any:
    if option == "rerank":
        return validation.choice(value, _RERANK, option) if isinstance(value, str) else _check_depth(value)
    if option == "record":
        return validation.choice(value, RECORD_MODES, option)
    if option == "limit":
        return validation.limit(value)
    if option == "min_salience":
        return validation.number(value, option, 0, 1)
    if option in _RECORDS:
        return _check_record(option, value, getattr(base, option))
    if option in _NUMBERS_BY_NAME:
        return _check_number_table(option, value, getattr(base, option))
    return _check_declared(option, value)


def _check_declared(option: str, value: Any) -> Any:
    """Return a value of the type and within the limits that are declared for an option."""
    schema = _declared_schemas()[option]
    if "enum" in schema:
        return validation.choice(value, schema["enum"], option)
    if schema["type"] == "boolean":
        return validation.flag(value, option)
    check = validation.whole_number if schema["type"] == "integer" else validation.number
    return check(value, option, schema["minimum"], schema["maximum"])


@cache
def _declared_schemas() -> Mapping[str, Schema]:
    hints = get_type_hints(ProfileOptions, include_extras=True)
    return {name: argument_schema(hint) or {} for name, hint in hints.items()}


def _check_depth(value: object) -> int:
    return validation.whole_number(value, "rerank", 1, validation.MAX_LIMIT)


def _check_number_table(option: str, value: Any, old: Mapping[str, float]) -> dict[str, float]:
    """Return a table of numbers with the given ones replaced, none where none are given, or a preset by its name."""
    known = _NUMBERS_BY_NAME[option]
    if isinstance(value, str) and option in _PRESETS:
        return dict(_PRESETS[option][validation.choice(value, _PRESETS[option], option)])
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{option} must be a mapping, not {type(value).__name__}")
    given = {
        validation.required_name(name, option)
        if known is None
        else validation.choice(name, known, option): validation.number(part, f"{option}.{name}", 0, 100)
        for name, part in value.items()
    }
    return {**old, **given} if given or option == "columns" else {}


def _check_record(option: str, value: Any, old: Any) -> Any:
    """Return a nested record, given whole or as a mapping of the fields to replace."""
    kind = _RECORDS[option]
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{option} must be a mapping or a {kind.__name__}, not {type(value).__name__}")
    known = kind.__struct_fields__
    for part, given in value.items():
        validation.choice(part, known, f"{option}:")
        if (kind, part) in _PARTS:
            validation.choice(given, _PARTS[kind, part], f"{option}.{part}")
        elif kind is MatchLabels:
            validation.required_name(given, f"{option}.{part}")
        else:
            validation.number(given, f"{option}.{part}", 0, 100)
    if kind is MatchLabels and old is None and len(value) < len(known):
        raise InvalidInput(f"{option} needs all of: {', '.join(known)}")
    return replace(old, **value) if old is not None else kind(**value)
