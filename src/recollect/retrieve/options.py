"""The options of one search: a profile, with what the caller replaced."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from recollect import inputs
from recollect.errors import InvalidInput
from recollect.profiles import PROFILES, MatchWords, Profile, Recency, Weights
from recollect.records import FUSIONS, GRAMMARS, MODES

MODE_ALIASES: Mapping[str, str] = {
    "fts": "keyword", "bm25": "keyword", "text": "keyword", "vec": "semantic", "vector": "semantic", "both": "hybrid",
}  # fmt: skip

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "grammar": GRAMMARS,
    "fusion": FUSIONS,
    "missing": ("zero", "penalty"),
    "bm25_norm": ("max", "abs10", "tanh10"),
    "on_no_vector": ("keyword", "error"),
    "unknown_mode": MODES,
}
_RANGES: Mapping[str, tuple[float, float]] = {
    "alpha": (0, 1),
    "min_similarity": (-1, 1),
    "min_score": (0, 1),
    "min_salience": (0, 1),
    "min_confidence": (0, 1),
    "min_relevance": (0, 1),
    "superseded_factor": (0, 1),
}
_COUNTS: Mapping[str, tuple[int, int]] = {
    "k": (1, 100_000), "overfetch": (1, 100), "least_candidates": (0, 10_000), "snippet_words": (1, 1000),
}  # fmt: skip
_RECORDS: Mapping[str, type] = {"weights": Weights, "recency": Recency, "match_words": MatchWords}
_FIELDS = tuple(field.name for field in dataclasses.fields(Profile))


def profile(name: str) -> Profile:
    return PROFILES[inputs.choice(name, PROFILES, "profile")]


def settle(base: Profile, replaced: Mapping[str, Any]) -> Profile:
    """The profile with every given option in place of its own. None is "not given"; 0 is a value."""
    given = {option: value for option, value in replaced.items() if value is not None}
    for option in given:
        if option not in _FIELDS or option == "name":
            raise InvalidInput(f"a search has no option {option!r}; a profile has: {', '.join(_FIELDS[1:])}")
    return dataclasses.replace(base, **{option: _checked(option, value, base) for option, value in given.items()})


def mode(value: object, base: Profile) -> str:
    name = MODE_ALIASES.get(value, value) if isinstance(value, str) else value
    if name not in MODES and base.unknown_mode and isinstance(name, str):
        return base.unknown_mode
    return inputs.choice(name, MODES, "mode")


def for_legs(settled: Profile, mode: str, *, degraded: bool) -> Profile:
    """The profile where only one leg ran: that leg has the whole score."""
    if settled.alpha is None or (mode == "hybrid" and not degraded):
        return settled
    return dataclasses.replace(settled, alpha=1.0 if mode == "semantic" and not degraded else 0.0)


def _checked(option: str, value: Any, base: Profile) -> Any:
    if option in _CHOICES:
        return inputs.choice(value, _CHOICES[option], option)
    if option in _RANGES:
        return inputs.number(value, option, *_RANGES[option])
    if option in _COUNTS:
        low, high = _COUNTS[option]
        return int(inputs.number(value, option, low, high))
    if option == "limit":
        return inputs.limit(value)
    if option in _RECORDS:
        return _record(option, value, getattr(base, option))
    if option in ("columns", "sector_boosts"):
        return {
            **getattr(base, option),
            **{k: inputs.number(v, f"{option}.{k}", 0, 100) for k, v in dict(value).items()},
        }
    return value


def _record(option: str, value: Any, old: Any) -> Any:
    """A nested record, given whole or as a mapping of the parts to replace."""
    kind = _RECORDS[option]
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{option} must be a mapping or a {kind.__name__}, not {type(value).__name__}")
    known = [field.name for field in dataclasses.fields(kind)]
    for part, number in value.items():
        if part not in known:
            raise InvalidInput(f"{option} has no part {part!r}; it has: {', '.join(known)}")
        if kind is Weights:
            inputs.number(number, f"{option}.{part}", 0, 100)
    return dataclasses.replace(old, **value) if old is not None else kind(**value)
