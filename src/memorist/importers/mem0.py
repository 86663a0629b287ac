"""Import memories of mem0: a JSON list of objects, each with a text."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memorist import validation
from memorist.errors import InvalidInput
from memorist.importers.export_records import Redactor, derive_id, memory_record
from memorist.importers.input_file import describe_too_large, max_document_bytes
from memorist.importers.json_limits import load_json
from memorist.store.export import ExportRecord

_TEXT_KEYS = ("memory", "text", "data")
_LIST_KEYS = ("results", "memories")
_KNOWN_KEYS = ("created_at", "categories", "metadata", "id", *_TEXT_KEYS)
_MIN_ID_CHARACTERS = 6  # a shorter id is a number in a list, and other lists have it as well
_HEAD_BYTES = 1 << 16
_CONVERSATION_KEYS = ("role", "speaker", "messages", "chat_messages", "mapping", "author")  # of other formats


def is_mem0(file: Path) -> bool:
    """Return True if a file is such a list. Only a file that begins like one is read as a whole."""
    with file.open("rb") as raw:
        head = raw.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    named = re.search(rb'"(?:%s)"\s*:' % "|".join(_LIST_KEYS).encode(), head)
    if not head.startswith(b"[") and not (head.startswith(b"{") and named):
        return False
    try:
        entries = _load_entries(file)
    except InvalidInput:
        return False
    if not entries or not isinstance(entries[0], dict) or any(name in entries[0] for name in _CONVERSATION_KEYS):
        return False
    return isinstance(entries[0].get("memory"), str) or (
        _find_text(entries[0]) is not None and any(name in entries[0] for name in ("id", "user_id", "hash"))
    )


def read_mem0(file: Path, project: str | None, redactor: Redactor) -> Iterator[ExportRecord]:
    """Yield the memories of a file as records. Unknown fields of a memory go to its metadata."""
    for number, entry in enumerate(_load_entries(file), 1):
        place = f"{file}, entry {number}"
        try:
            yield _read_entry(place, entry, project, redactor)
        except (InvalidInput, RecursionError) as exc:  # the latter from an id of lists within lists
            raise InvalidInput(f"{place}: {exc}") from exc


def _read_entry(place: str, entry: Any, project: str | None, redactor: Redactor) -> ExportRecord:
    if not isinstance(entry, dict):
        raise InvalidInput("it is not a JSON object")
    text = _find_text(entry)
    if text is None:
        raise InvalidInput(f"it has no text; one of {', '.join(_TEXT_KEYS)} is needed")
    metadata = entry.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"metadata must be an object, not {validation.quote(metadata)}")
    rest = {name: value for name, value in entry.items() if name not in _KNOWN_KEYS and value is not None}
    id, original_id = _choose_id(entry.get("id"), text)
    values = {
        "id": id,
        "content": redactor(text),
        "project": project,
        "created_at": entry.get("created_at"),
        "tags": redactor(list(validation.tag_names(entry.get("categories")))),
        "metadata": redactor({**metadata, **rest, **original_id}),
    }
    return memory_record(place, values)


def _choose_id(id: Any, text: str) -> tuple[str, dict[str, Any]]:
    """Return the id if it is valid and long enough; otherwise a derived one, with the original as metadata."""
    if id is None:
        return derive_id("mem0", text), {}
    try:
        if len(validation.memory_id(id)) >= _MIN_ID_CHARACTERS:
            return id, {}
    except InvalidInput:
        pass
    return derive_id("mem0", str(id), text), {"mem0_id": id}


def _find_text(entry: Mapping[str, Any]) -> str | None:
    return next((value for name in _TEXT_KEYS if isinstance(value := entry.get(name), str)), None)


def _load_entries(file: Path) -> list[Any]:
    if file.stat().st_size > max_document_bytes():
        raise InvalidInput(describe_too_large(str(file)))
    try:
        document = load_json(file.read_bytes().decode("utf-8-sig"), str(file))
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"{file} is not UTF-8 (byte {exc.start + 1})") from exc
    except json.JSONDecodeError as exc:
        what = exc.msg.removesuffix(" at")
        raise InvalidInput(f"{file}, line {exc.lineno}: it is not JSON ({what} at column {exc.colno})") from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"{file} is not JSON that can be read ({exc})") from exc
    if isinstance(document, dict):
        document = next((document[name] for name in _LIST_KEYS if isinstance(document.get(name), list)), None)
    if not isinstance(document, list):
        raise InvalidInput(
            f"{file} is not a list of memories; expected [...], or an object with {' or '.join(_LIST_KEYS)}"
        )
    return document
