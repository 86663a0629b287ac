"""Memories as mem0 gives them away: a JSON list of objects, each with a text."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memorist import validation
from memorist.errors import InvalidInput
from memorist.importers.foreign import Redactor, derived_id, memory_line
from memorist.importers.transcripts import MAX_DOCUMENT
from memorist.store.export_schema import ExportRecord

TEXTS = ("memory", "text", "data")
LISTS = ("results", "memories")
_KEPT = ("created_at", "categories", "metadata", "id", *TEXTS)
_HEAD = 1 << 16
_TURNS = ("role", "speaker", "messages", "chat_messages", "mapping", "author")  # of conversations, in other formats


def is_mem0(file: Path) -> bool:
    """Whether a file is such a list. Only what begins like one is read whole."""
    with file.open("rb") as raw:
        head = raw.read(_HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    named = re.search(rb'"(?:%s)"\s*:' % "|".join(LISTS).encode(), head)
    if not head.startswith(b"[") and not (head.startswith(b"{") and named):
        return False
    try:
        entries = _entries(file)
    except InvalidInput:
        return False
    if not entries or not isinstance(entries[0], dict) or any(name in entries[0] for name in _TURNS):
        return False
    return isinstance(entries[0].get("memory"), str) or (
        _text(entries[0]) is not None and any(name in entries[0] for name in ("id", "user_id", "hash"))
    )


def read_mem0(file: Path, project: str | None, redactor: Redactor) -> Iterator[ExportRecord]:
    """Its memories as records. What is not understood of one is kept in its metadata."""
    for number, entry in enumerate(_entries(file), 1):
        place = f"{file}, entry {number}"
        try:
            yield _line(place, entry, project, redactor)
        except InvalidInput as exc:
            raise InvalidInput(f"{place}: {exc}") from exc


def _line(place: str, entry: Any, project: str | None, redactor: Redactor) -> ExportRecord:
    if not isinstance(entry, dict):
        raise InvalidInput("it is no JSON object")
    text = _text(entry)
    if text is None:
        raise InvalidInput(f"it has no text: one of {', '.join(TEXTS)} is needed")
    metadata = entry.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"metadata must be an object, not {metadata!r:.80}")
    rest = {name: value for name, value in entry.items() if name not in _KEPT and value is not None}
    id, own = _id(entry.get("id"), text)
    given = {
        "id": id,
        "content": redactor(text),
        "project": project,
        "created_at": entry.get("created_at"),
        "tags": validation.tag_names(entry.get("categories")),
        "metadata": redactor({**metadata, **rest, **own}),
    }
    return memory_line(place, given)


def _id(id: Any, text: str) -> tuple[str, dict[str, Any]]:
    """The id itself if it can be one of ours; else one that is the same each time, and the old one for the metadata."""
    if id is None:
        return derived_id("mem0", text), {}
    try:
        return validation.memory_id(id), {}
    except InvalidInput:
        return derived_id("mem0", str(id), text), {"mem0_id": id}


def _text(entry: Mapping[str, Any]) -> str | None:
    return next((value for name in TEXTS if isinstance(value := entry.get(name), str)), None)


def _entries(file: Path) -> list[Any]:
    if file.stat().st_size > MAX_DOCUMENT:
        raise InvalidInput(f"{file} has more than {MAX_DOCUMENT / 1e9:g} GB, too much for one JSON document")
    try:
        document = json.loads(file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"{file} is not UTF-8 (byte {exc.start + 1})") from exc
    except json.JSONDecodeError as exc:
        what = exc.msg.removesuffix(" at")
        raise InvalidInput(f"{file}, line {exc.lineno}: it is not JSON ({what} at column {exc.colno})") from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"{file} is not JSON that can be read ({exc})") from exc
    if isinstance(document, dict):
        document = next((document[name] for name in LISTS if isinstance(document.get(name), list)), None)
    if not isinstance(document, list):
        raise InvalidInput(f"{file} is no list of memories; expected [...], or an object with {' or '.join(LISTS)}")
    return document
