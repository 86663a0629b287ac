"""Validation of arguments: each function returns a value in its one form, or raises InvalidInput."""

import json
import os
import re
import reprlib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput
from memorist.ids import new_id
from memorist.metadata_filter import UNSTORABLE, split_path
from memorist.nesting import refuse_excess
from memorist.records import DETAILS, FACETS, IF_EXISTS, SECTORS, SUPERSEDES, TIERS, FactDraft, MemoryDraft
from memorist.redact.allowances import compile_allowances, is_pattern
from memorist.text.dates import Period, parse_period
from memorist.text.normal_forms import normalize

MAX_CONTENT_CHARACTERS = 1_000_000
MAX_METADATA_CHARACTERS = 4_000_000  # as JSON
MAX_QUERY_CHARACTERS = 10_000  # a query is a question, not a document
MAX_ID_CHARACTERS = 512
MAX_NAME_CHARACTERS = 500
MAX_TAGS = 100
_MAX_INDEXED_KEYS = 3  # of a path of metadata, as the triggers of the databases follow it
_MAX_INDEXED_FIELDS = 20
MAX_LIMIT = 1000
CHAT_PROVIDERS = ("anthropic", "openai", "ollama")

_NOT_IN_ID = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of surrogate pairs, and ends of lines
_NUL_IN_JSON = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
MAX_SESSION_ID = 128
_SESSION_ID = re.compile(r"[^\s\x00-\x1f](?:[^\x00-\x1f]{0,126}[^\s\x00-\x1f])?")
# Sequences that another program may take for a step up or down, also encoded, and encoded twice.
_PATH_STEP = re.compile(r"\\|%(?:25)*(?:2e|2f|5c|00)", re.IGNORECASE)
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
MAX_FACTS = 1000
RECALL_DAYS, RECALL_MEGABYTES = (1, 36_500), (1, 1_000_000)  # that the log of recalls may be kept, from and to
IMAGE_MEGABYTES = (0, 1_000_000)  # that the image of a namespace may take; with 0 there is none
_MIN_TOKEN_CHARACTERS = 16
_TOKEN = re.compile("[!-~]+")


def clean(text: str) -> str:
    """Replace what no database can store (NUL, half of a surrogate pair) by U+FFFD."""
    if text.isascii() and "\0" not in text:
        return text  # most texts, at once
    return UNSTORABLE.sub("\ufffd", text)


def content(value: object, what: str = "content") -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, not {_type_name(value)}")
    text = clean(value)
    if not text.strip():
        raise InvalidInput(f"{what} is empty: there is nothing to remember")
    if len(text) > MAX_CONTENT_CHARACTERS:
        raise InvalidInput(
            f"{what} has {len(text):,} characters; at most {MAX_CONTENT_CHARACTERS:,} fit: split it into parts"
        )
    return text


def id_or_part(value: object) -> str:
    """An id, or the beginning or end of one."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"an id must be text, not {quote(value)}")
    return clean(value)


def name(value: object, what: str) -> str | None:
    """A short text such as a project, kind, source or title; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, not {_type_name(value)}")
    text = clean(value).strip()
    if not text:
        raise InvalidInput(f"{what} is empty: leave it out instead")
    if len(text) > MAX_NAME_CHARACTERS:
        raise InvalidInput(f"{what} has {len(text):,} characters; at most {MAX_NAME_CHARACTERS} fit")
    return text


def required_name(value: object, what: str) -> str:
    text = name(value, what)
    if text is None:
        raise InvalidInput(f"{what} is needed")
    return text


def token(value: object, what: str) -> str:
    """A secret that stands in an HTTP header."""
    if not isinstance(value, str) or len(value) < _MIN_TOKEN_CHARACTERS or not _TOKEN.fullmatch(value):
        raise InvalidInput(f"{what} must be {_MIN_TOKEN_CHARACTERS} or more ASCII characters without spaces")
    return value


def namespace(value: object) -> str:
    text = required_name(value, "namespace")
    if any(character < " " for character in text):  # one of them marks the namespaces of files
        raise InvalidInput("a namespace has no control characters")
    return text


def path(value: object) -> Path:
    """One path, of a file or folder that may be there or not; ~ is the home folder."""
    if not isinstance(value, str | os.PathLike) or not str(value).strip() or not _is_encodable(str(value)):
        raise InvalidInput(f"a file or folder must be named by its path, not {value!r}")
    return Path(os.path.expanduser(value))  # Path.expanduser() fails where there is no such user


def _is_encodable(path: str) -> bool:
    """Return whether a file system can have such a name: no NUL, and no half of a surrogate pair."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def paths(value: object, what: str) -> list[str]:
    """One path, or several."""
    given = [value] if isinstance(value, str | Path) else value
    if not isinstance(given, list | tuple) or not all(isinstance(one, str | Path) for one in given):
        raise InvalidInput(f"{what} takes a path or a list of paths, not {_type_name(value)}")
    if not given or not all(str(one).strip() for one in given):
        raise InvalidInput(f"{what} needs a file or a folder")
    return [str(one) for one in given]


def file_path(value: object, *, folder: bool = False) -> str:
    """
    The path of an agent's file: absolute, and made of plain names. It is only a label here, but other programs may use
    it as a path. A `folder` may be the root itself.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"a path must be text, not {_type_name(value)}")
    if folder and value == "/":
        return value
    if not value.startswith("/") or any(part.strip() in ("", ".", "..") for part in value[1:].split("/")):
        raise InvalidInput(f"{value!r} is not a path; write it like /notes/today.md, without . or ..")
    if _PATH_STEP.search(value) or value != value.strip() or any(map(_is_invisible, value)):
        raise InvalidInput(
            f"{value!r} is not a path: it has a backslash, an encoded slash or dot, or hidden characters"
        )
    if len(value) > MAX_NAME_CHARACTERS:
        raise InvalidInput(f"the path has {len(value):,} characters; at most {MAX_NAME_CHARACTERS} fit")
    return value


def _is_invisible(character: str) -> bool:
    """Return whether it is invisible: control, direction mark, half a surrogate, or a selector that can hide text."""
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") or "\U000e0000" <= character <= "\U000e0fff"
    )


def quote(value: object) -> str:
    """Return a value as a message shows it: cut short before all of it is written, and however deep it is."""
    if isinstance(value, float):
        return f"{value:g}"
    quoted = repr(value[: _QUOTED_CHARACTERS + 1]) if isinstance(value, str) else _REPR.repr(value)
    return quoted if len(quoted) <= _QUOTED_CHARACTERS else f"{quoted[:_QUOTED_CHARACTERS]}…"


class _ShortRepr(reprlib.Repr):
    """Writes a number of more digits than Python writes as a decimal in hexadecimal."""

    def repr_int(self, number: int, level: int) -> str:
        return hex(number) if number.bit_length() > _MAX_DECIMAL_BITS else super().repr_int(number, level)


_MAX_DECIMAL_BITS = 2_000
_QUOTED_CHARACTERS = 60
_REPR = _ShortRepr()
_REPR.maxlist = _REPR.maxdict = _REPR.maxlong = _REPR.maxother = _QUOTED_CHARACTERS


def text_or_none(value: object, what: str) -> str | None:
    """A longer text that may be missing, such as a summary."""
    return None if value is None else content(value, what)


def choice(value: object, allowed: Iterable[str], what: str) -> str:
    options = tuple(allowed)
    if value not in options:
        raise InvalidInput(f"{what} {quote(value)} is unknown; it can be one of: {', '.join(options)}")
    return str(value)


def choices(value: object, allowed: Iterable[str], what: str) -> list[str]:
    options = tuple(allowed)
    return [choice(one, options, what) for one in _as_tuple(value, what)]


def tag_names(value: object) -> tuple[str, ...]:
    """Tags in the order given, each once."""
    if value is None:
        return ()
    given = _as_tuple(value, "tags")
    if len(given) > MAX_TAGS:
        raise InvalidInput(f"{len(given)} tags; at most {MAX_TAGS} fit")
    return tuple(dict.fromkeys(required_name(tag, "a tag") for tag in given))


def number(value: object, what: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{what} must be a number, not {_type_name(value)}")
    if not low <= value <= high:  # NaN is in no range
        raise InvalidInput(f"{what} must be from {low:g} to {high:g}, not {quote(value)}")
    return float(value)


def whole_number(value: object, what: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} must be a whole number, not {_type_name(value)}")
    if not low <= value <= high:
        raise InvalidInput(f"{what} must be from {low} to {high}, not {quote(value)}")
    return value


def limit(value: object) -> int:
    return whole_number(value, "limit", 1, MAX_LIMIT)


def metadata(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"metadata must be a mapping, not {_type_name(value)}")
    refuse_excess(value, "metadata")
    try:
        # A copy by way of JSON: the caller gets back what was stored, and cannot change it afterwards.
        text = _NUL_IN_JSON.sub(r"\1\\ufffd", json.dumps(dict(value), ensure_ascii=False, allow_nan=False))
        copied: dict[str, Any] = json.loads(clean(text))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(f"metadata must be made of what JSON knows: {exc}") from exc
    if len(text) > MAX_METADATA_CHARACTERS:
        raise InvalidInput(f"the metadata have {len(text):,} characters; at most {MAX_METADATA_CHARACTERS:,} fit")
    return copied


def mapping(value: object) -> Mapping[str, Any]:
    """The fields of a memory."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"it must be a text or a mapping with the fields of a memory, not {_type_name(value)}")
    return value


def moment(value: object, what: str) -> datetime:
    """A point in time, in UTC; the beginning of a day, a month or a "last week". No zone means the local one."""
    return _period(value, what).start


def moment_or_none(value: object, what: str) -> datetime | None:
    return None if value is None else moment(value, what)


def as_of(value: object) -> datetime | None:
    """A point in time to look back at; None is now."""
    return None if value is None else _last_moment(value, "as_of")


def _last_moment(value: object, what: str) -> datetime:
    """The last moment of a period: "as of yesterday" includes all of that day."""
    stretch = _period(value, what)
    return stretch.end - timedelta(microseconds=1) if stretch.end > stretch.start else stretch.start


def end(value: object, what: str) -> datetime:
    """The first moment after a point in time or a period."""
    last = _last_moment(value, what)
    return last if last == datetime.max.replace(tzinfo=UTC) else last + timedelta(microseconds=1)


def _period(value: object, what: str) -> Period:
    found = parse_period(value)
    if found is None:
        raise InvalidInput(
            f"{what} {quote(value)} is not a time; write it like 2026-03-31, 2026-03, 2026-03-31T18:00Z, yesterday, "
            "last tuesday or 3 weeks ago"
        )
    return found


def memory_id(value: object) -> str:
    """An id that a caller chose for a new memory. It is stored and compared as it is."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID_CHARACTERS:
        raise InvalidInput(f"id {quote(value)} cannot be used; take text of 1 to {MAX_ID_CHARACTERS} characters")
    if not value.strip() or (not _is_printable_ascii(value) and any(map(_is_unfit_for_id, value))):
        raise InvalidInput(f"id {quote(value)} cannot be used; it may have no control characters and no ends of lines")
    return value


def _is_printable_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _is_unfit_for_id(character: str) -> bool:
    return unicodedata.category(character) in _NOT_IN_ID


def session_id(value: object) -> str:
    """The id of a session, often chosen by another program."""
    if not isinstance(value, str) or not _SESSION_ID.fullmatch(value):
        raise InvalidInput(f"session id {quote(value)} cannot be used; take 1 to 128 characters on one line")
    return clean(value)


def relation_kind(value: object) -> str:
    kind = required_name(value, "kind")
    if kind.lower() == SUPERSEDES:
        raise InvalidInput(f"{kind!r} is no relation like others: `supersede` says that one memory replaces another")
    return kind


def fact(value: object) -> FactDraft:
    """A fact from a text or from a mapping with its fields."""
    fields = {"text": value} if isinstance(value, str) else value
    if not isinstance(fields, Mapping):
        raise InvalidInput(f"a fact must be text or a mapping, not {_type_name(value)}")
    _refuse_unknown(fields, _FACT_FIELDS, "a fact")
    checked: dict[str, Any] = {
        key: check(fields[key]) for key, check in _FACT_FIELDS.items() if fields.get(key) is not None
    }
    if "text" not in checked:
        raise InvalidInput("a fact needs a text")
    defaults: dict[str, Any] = dict.fromkeys(_FACT_FIELDS)
    return FactDraft(id=new_id(), **defaults | checked)


_FACT_FIELDS: dict[str, Callable[[object], Any]] = {
    "text": lambda value: content(value, "a fact"),
    **{key: partial(name, what=key) for key in ("kind", "subject", "predicate", "object")},
    "confidence": lambda value: number(value, "confidence", 0, 1),
    "decay_rate": lambda value: number(value, "decay_rate", 0, 1000),
    "reinforced_at": lambda value: moment(value, "reinforced_at"),
}


def facts(value: object) -> tuple[FactDraft, ...]:
    if value is None:
        return ()
    given = (value,) if isinstance(value, str | Mapping) else _as_tuple(value, "facts")
    if len(given) > MAX_FACTS:
        raise InvalidInput(f"{len(given)} facts; at most {MAX_FACTS} fit")
    return tuple(fact(one) for one in given)


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
    "expires_at": lambda value: moment_or_none(value, "expires_at"),
    "created_at": lambda value: moment(value, "created_at"),
    "id": memory_id,
}
DEFAULTS: Mapping[str, Any] = {"sector": "semantic", "tier": "project", "salience": 0.5}
UPDATABLE = tuple(field for field in _FIELDS if field not in ("id", "created_at"))
_DRAFT_FIELDS: Mapping[str, Callable[[object], Any]] = {
    **_FIELDS,
    "session": session_id,
    "facts": facts,
    "if_exists": lambda value: choice(value, IF_EXISTS, "if_exists"),
}
# In the order of a draft's fields, and with all of them.
_EMPTY_DRAFT: Mapping[str, Any] = {
    **dict.fromkeys(MemoryDraft._fields), **MemoryDraft._field_defaults, "tags": (), **DEFAULTS
}  # fmt: skip


def draft(fields: Mapping[str, Any], now: datetime) -> MemoryDraft:
    """A new memory from the arguments of `add`; None means the default."""
    _refuse_unknown(fields, _DRAFT_FIELDS)
    checked = {key: _DRAFT_FIELDS[key](value) for key, value in fields.items() if value is not None}
    if "content" not in checked:
        content(None)
    if "id" in checked:
        checked = {"if_exists": IF_EXISTS[0], "keeps_salience": "salience" not in checked, **checked}
    else:
        checked |= {"id": new_id(), "if_exists": None}
    return MemoryDraft._make(
        {**_EMPTY_DRAFT, "metadata": {}, "created_at": now, "recorded_at": now, **checked}.values()
    )


def changes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an update, of which None empties one."""
    _refuse_unknown(fields, UPDATABLE)
    if not fields:
        raise InvalidInput(f"nothing to change; give one of: {', '.join(UPDATABLE)}")
    return {key: _FIELDS[key](value) for key, value in fields.items()}


def flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{what} must be True or False, not {quote(value)}")
    return value


def any_of(what: str, check: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    """Return a check of one value or several, of which any will do."""

    def values(value: object) -> tuple[str, ...]:
        several = tuple(check(one) for one in _as_tuple(value, what))
        if not several:
            raise InvalidInput(f"{what} is an empty list, which nothing can match: leave it out to search in all")
        return several

    return values


def month(value: object) -> str:
    """A month, as in 2026-03."""
    if isinstance(value, str) and _MONTH.fullmatch(value):
        return value
    raise InvalidInput(f"month {quote(value)} is not a month; write it like 2026-03")


def facets(value: object) -> tuple[str, ...]:
    """Fields to count by, each once; `tags` is accepted for `tag`."""
    named = ("tag" if one == "tags" else one for one in _as_tuple(value, "facets"))
    return tuple(dict.fromkeys(choice(one, FACETS, "facet") for one in named))


def detail(value: object) -> str:
    return choice(value, DETAILS, "detail")


def allowances(value: object, what: str) -> tuple[str, ...]:
    """Exceptions from redaction: texts, or patterns written as /regex/."""
    given = patterns(value, what)
    compile_allowances(given)  # raises if one of them is not valid
    return given


def literal_allowances(value: object, what: str) -> tuple[str, ...]:
    """Exceptions from redaction that a client of a server names: texts alone."""
    given = patterns(value, what)
    if pattern := next((one for one in given if is_pattern(one)), None):
        raise InvalidInput(
            f"{what} names the pattern {pattern!r:.80}; a server takes texts alone, because it would run a client's "
            "pattern for everyone: name a text that the secret contains, or set `redact_allow` where the server runs"
        )
    return given


def patterns(value: object, what: str) -> tuple[str, ...]:
    """Globs that choose files."""
    return tuple(required_name(one, what) for one in _as_tuple(value, what))


def folders(value: object, what: str) -> tuple[str, ...]:
    """Absolute paths of folders, or globs of them."""
    given = patterns(value, what)
    if relative := next((one for one in given if not os.path.isabs(os.path.expanduser(one))), None):
        raise InvalidInput(f"{what} names whole paths, as in '/home/ada/work' or '~/work/*'; {relative!r} is none")
    return given


def indexed_fields(value: object, what: str) -> tuple[tuple[str, ...], ...]:
    """Fields of metadata to be indexed, as the keys that lead to each."""
    paths = []
    for one in _as_tuple(value, what):
        field = required_name(one, what)
        if field.startswith("$"):
            raise InvalidInput(f"{what} names fields, not operators, as {field!r:.80} is; write \\$ for a name with $")
        path = split_path(field)
        if len(path) > _MAX_INDEXED_KEYS:
            raise InvalidInput(
                f"{what}: {field!r:.80} has more than {_MAX_INDEXED_KEYS} keys; name a field nearer the top"
            )
        paths.append(path)
    if len(paths) > _MAX_INDEXED_FIELDS:
        raise InvalidInput(f"{what} names {len(paths)} fields; at most {_MAX_INDEXED_FIELDS} are indexed")
    return tuple(dict.fromkeys(paths))


def chat_model(value: str) -> tuple[str, str]:
    """The provider of a chat model, and the name of the model there."""
    provider, _, model = (part.strip() for part in value.partition(":"))
    if provider not in CHAT_PROVIDERS or not model:
        forms = ", ".join(f"{one}:MODEL" for one in CHAT_PROVIDERS)
        raise InvalidInput(f"{value!r} is not a chat model: write one of {forms}")
    return provider, model


def query_text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"a query must be text, not {_type_name(value)}")
    if len(value) > MAX_QUERY_CHARACTERS:
        raise InvalidInput(
            f"the query has {len(value):,} characters; at most {MAX_QUERY_CHARACTERS:,} are searched for: shorten it"
        )
    return _normalize(value)


def message(value: object) -> str:
    """A text that memories are looked up for. It may be long, as a prompt with a pasted file is."""
    if not isinstance(value, str):
        raise InvalidInput(f"a message must be text, not {_type_name(value)}")
    return _normalize(value[:MAX_CONTENT_CHARACTERS])


def _normalize(text: str) -> str:
    """Return one form for equal text: an "é" of one or of two code points."""
    return normalize("NFC", clean(text))


def _as_tuple(value: object, what: str) -> tuple[object, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        return tuple(value)
    raise InvalidInput(f"{what} must be text or a list of texts, not {_type_name(value)}")


def _refuse_unknown(fields: Iterable[str], known: Collection[str], what: str = "a memory") -> None:
    for field in fields:
        if field not in known:
            raise InvalidInput(f"{what} has no field {field!r}; it has: {', '.join(known)}")


def _type_name(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
