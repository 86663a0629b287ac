"""What callers hand in, checked and brought into one form. Whatever cannot be used is an InvalidInput."""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from datetime import time as clock
from typing import Any

from recollect.errors import InvalidInput
from recollect.records import SECTORS, TIERS, Draft, Filter, new_id

MAX_CONTENT = 1_000_000
MAX_NAME = 500
MAX_TAGS = 100
MAX_LIMIT = 1000
EMBEDDER_FORMS = (
    "'local', 'none', 'openai:MODEL', 'ollama:MODEL', or an object with model_id, dimensions and embed(texts)"
)
PROVIDERS = {"openai": "openai:text-embedding-3-small", "ollama": "ollama:nomic-embed-text"}  # with an example

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{5,127}")
_EPOCH_SECONDS = re.compile(r"\d{9,11}(\.\d+)?")
_BARE_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def clean(text: str) -> str:
    """The text with what no database can store (NUL, half a surrogate pair) replaced by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def content(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"content must be text, not {_type(value)}")
    text = clean(value)
    if not text.strip():
        raise InvalidInput("content is empty: there is nothing to remember")
    if len(text) > MAX_CONTENT:
        raise InvalidInput(f"content has {len(text):,} characters; at most {MAX_CONTENT:,} fit: split it into parts")
    return text


def name(value: object, what: str) -> str | None:
    """A short text such as a project, kind, source or title; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, not {_type(value)}")
    text = clean(value).strip()
    if not text:
        raise InvalidInput(f"{what} is empty: leave it out instead")
    if len(text) > MAX_NAME:
        raise InvalidInput(f"{what} has {len(text):,} characters; at most {MAX_NAME} fit")
    return text


def required_name(value: object, what: str) -> str:
    text = name(value, what)
    if text is None:
        raise InvalidInput(f"{what} is needed")
    return text


def text_or_none(value: object, what: str) -> str | None:
    """A longer text that may be missing, such as a summary."""
    return None if value is None else content(_text(value, what))


def choice(value: object, allowed: Iterable[str], what: str) -> str:
    options = tuple(allowed)
    if value not in options:
        raise InvalidInput(f"{what} {value!r} is unknown; it can be one of: {', '.join(options)}")
    return str(value)


def tag_names(value: object) -> tuple[str, ...]:
    """Tags in the order given, each once."""
    if value is None:
        return ()
    given = _several(value, "tags")
    if len(given) > MAX_TAGS:
        raise InvalidInput(f"{len(given)} tags; at most {MAX_TAGS} fit")
    return tuple(dict.fromkeys(required_name(tag, "a tag") for tag in given))


def number(value: object, what: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{what} must be a number, not {_type(value)}")
    if not low <= value <= high:  # NaN is in no range
        raise InvalidInput(f"{what} must be from {low:g} to {high:g}, not {value:g}")
    return float(value)


def optional_number(value: object, what: str, low: float = 0.0, high: float = 1.0) -> float | None:
    """None means "not asked for"; 0 is a value like any other."""
    return None if value is None else number(value, what, low, high)


def whole_number(value: object, what: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} must be a whole number, not {_type(value)}")
    if not low <= value <= high:
        raise InvalidInput(f"{what} must be from {low} to {high}, not {value}")
    return value


def limit(value: object) -> int:
    return whole_number(value, "limit", 1, MAX_LIMIT)


def metadata(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"metadata must be a mapping, not {_type(value)}")
    try:
        # A copy by way of JSON: what is stored is what comes back, and nothing changes it from outside.
        copied: dict[str, Any] = json.loads(clean(json.dumps(dict(value), ensure_ascii=False, allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(f"metadata must be made of what JSON knows: {exc}") from exc
    return copied


def mapping(value: object) -> Mapping[str, Any]:
    """The fields of a memory."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"it must be a text or a mapping with the fields of a memory, not {_type(value)}")
    return value


def moment(value: object, what: str) -> datetime:
    """A point in time, in UTC, from an ISO 8601 text, a datetime or epoch seconds; no zone means the local one."""
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            text = value.strip()
            if _EPOCH_SECONDS.fullmatch(text):
                return datetime.fromtimestamp(float(text), UTC)
            if _BARE_DATE.fullmatch(text):
                return datetime.combine(datetime.fromisoformat(text), clock()).astimezone(UTC)
            return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidInput(f"{what} {value!r} is no time; write it like 2026-03-31, 2026-03-31T18:00 or 2026-03-31T18:00Z")


def memory_id(value: object) -> str:
    """An id a caller chose for a new memory."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise InvalidInput(
            f"id {value!r} cannot be used; take 6 to 128 of A-Z a-z 0-9 . _ : @ - and begin with a letter or digit"
        )
    return value


_FIELDS: dict[str, Callable[[object], Any]] = {
    "content": content,
    "project": lambda value: name(value, "project"),
    "sector": lambda value: choice(value, SECTORS, "sector"),
    "tier": lambda value: choice(value, TIERS, "tier"),
    "kind": lambda value: name(value, "kind"),
    "tags": tag_names,
    "salience": lambda value: number(value, "salience", 0, 1),
    "source": lambda value: name(value, "source"),
    "title": lambda value: name(value, "title"),
    "summary": lambda value: text_or_none(value, "summary"),
    "metadata": metadata,
    "created_at": lambda value: moment(value, "created_at"),
    "id": memory_id,
}
DEFAULTS: Mapping[str, Any] = {"sector": "semantic", "tier": "project", "salience": 0.5}
UPDATABLE = tuple(field for field in _FIELDS if field not in ("id", "created_at"))


def draft(fields: Mapping[str, Any], now: datetime) -> Draft:
    """A new memory from the arguments of `add`; None means the default."""
    _refuse_unknown(fields, _FIELDS)
    given = {key: value for key, value in fields.items() if value is not None}
    values = {key: check(given.get(key, DEFAULTS.get(key))) for key, check in _FIELDS.items() if key in _ALWAYS}
    for key in ("id", "created_at"):
        if key in given:
            values[key] = _FIELDS[key](given[key])
    return Draft(**{"id": new_id(), "created_at": now, **values})


_ALWAYS = frozenset(UPDATABLE)


def changes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an update; here None means "empty it"."""
    _refuse_unknown(fields, UPDATABLE)
    if not fields:
        raise InvalidInput(f"nothing to change; give one of: {', '.join(UPDATABLE)}")
    return {key: _FIELDS[key](value) for key, value in fields.items()}


def search_filter(
    *,
    project: object = None,
    sector: object = None,
    tier: object = None,
    kind: object = None,
    tags: object = None,
    source: object = None,
    since: object = None,
    until: object = None,
    min_salience: object = None,
) -> Filter:
    for field, values in (("project", project), ("sector", sector), ("tier", tier), ("kind", kind), ("source", source)):
        if values is not None and not _several(values, field):
            raise InvalidInput(f"{field} is an empty list, which nothing can match: leave it out to search in all")
    return Filter(
        project=_names(project, "project"),
        sector=tuple(choice(value, SECTORS, "sector") for value in _several(sector, "sector")),
        tier=tuple(choice(value, TIERS, "tier") for value in _several(tier, "tier")),
        kind=_names(kind, "kind"),
        source=_names(source, "source"),
        tags=tag_names(tags),
        since=None if since is None else moment(since, "since"),
        until=None if until is None else moment(until, "until"),
        min_salience=optional_number(min_salience, "min_salience"),
    )


def embedder_name(value: str) -> tuple[str, str]:
    """What a setting names as the embedder: its kind and, for a provider, the model."""
    name = value.strip()
    if name in ("local", "none"):
        return name, ""
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS:
        raise InvalidInput(f"{value!r} is not an embedder: use {EMBEDDER_FORMS}")
    if not model.strip():
        raise InvalidInput(f"{value!r} names no model: write {provider}:MODEL, as in {PROVIDERS[provider]!r}")
    return provider, model.strip()


def query_text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"a query must be text, not {_type(value)}")
    # One form for what looks the same: an "é" of one or of two code points.
    return unicodedata.normalize("NFC", clean(value[:MAX_CONTENT]))


def _several(value: object, what: str) -> tuple[object, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        return tuple(value)
    raise InvalidInput(f"{what} must be text or a list of texts, not {_type(value)}")


def _names(value: object, what: str) -> tuple[str, ...]:
    return tuple(required_name(one, what) for one in _several(value, what))


def _refuse_unknown(fields: Mapping[str, Any], known: Iterable[str]) -> None:
    known = tuple(known)
    for field in fields:
        if field not in known:
            raise InvalidInput(f"a memory has no field {field!r}; it has: {', '.join(known)}")


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, not {_type(value)}")
    return value


def _type(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__}"
