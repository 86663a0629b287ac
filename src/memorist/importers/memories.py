"""
Import memories of other programs, as export records without their secrets.

They come from a JSON list, as of mem0, or from the SQLite databases of claude-mem and of mcp-memory-service. Vectors
there are of other models, and are made anew. A memory that was deleted there is left out.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from msgspec import Struct, field

from memorist import validation
from memorist.errors import InvalidInput
from memorist.importers.formats.values import parse_label, parse_object, parse_time
from memorist.importers.input_file import describe_too_large, load_json, max_document_bytes
from memorist.records import FactDraft
from memorist.redact.redaction import Redaction
from memorist.store.export import ExportRecord
from memorist.store.sqlite.foreign import ForeignDatabase, has_tables, is_sqlite, open_foreign

_FACT_FIELDS = ("kind", "subject", "predicate", "object", "decay_rate")
_NOT_COPIED = ("id", "facts", "session", "created_at", "recorded_at", "tags", "if_exists", "keeps_salience")


class Redactor:
    """Redacts the texts within a value, and counts the secrets by kind."""

    def __init__(self, allow: Collection[str] | None) -> None:
        self._redaction = Redaction(allow is not None, tuple(allow or ()))  # None: nothing is redacted
        self.counts: Counter[str] = Counter()

    def __call__(self, value: Any) -> Any:
        try:
            size = _count_characters(value)
            if size > validation.MAX_CONTENT_CHARACTERS:  # before it is read for secrets, which takes a while
                raise InvalidInput(
                    f"it has a text of {size:,} characters; at most {validation.MAX_CONTENT_CHARACTERS:,} fit: "
                    "split it into parts"
                )
            clean, report = self._redaction.redact_value(value)
        except RecursionError as exc:
            raise InvalidInput("it holds lists or objects within each other, too many to be read") from exc
        self.counts.update(entry["kind"] for entry in report)
        return clean


def _count_characters(value: Any) -> int:
    """Return the number of characters in the texts and keys of a JSON value."""
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            count += len(one)
        elif isinstance(one, Mapping):
            waiting += [*map(str, one), *one.values()]
        elif isinstance(one, list):
            waiting += one
    return count


def derive_id(*parts: str | None) -> str:
    """Return an id that is always the same for the same parts."""
    return str(uuid5(NAMESPACE_URL, validation.clean("\n".join(["memorist", *(part or "" for part in parts)]))))


def memory_record(place: str, values: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> ExportRecord:
    """Return a record from the arguments of `add`, validated likewise; `extra` are fields that `add` does not have."""
    draft = validation.draft(values, datetime.now(UTC))
    record = {name: value for name, value in draft._asdict().items() if name not in _NOT_COPIED}
    record |= {
        "id": draft.id,
        "tags": list(draft.tags),
        "created_at": draft.created_at,
        "updated_at": draft.recorded_at,
        "reinforced_at": draft.recorded_at,
        "recorded_at": draft.recorded_at,
        "pinned": False,
        "access_count": 0,
        "facts": _fact_records(draft.facts, min(draft.created_at, draft.recorded_at)),
    }
    return ExportRecord(place, "memory", record | dict(extra or {}))


def _fact_records(facts: Iterable[FactDraft], since: datetime) -> list[dict[str, Any]]:
    """Return a record for each fact, and only the first of those with the same text."""
    unique: dict[str, FactDraft] = {}
    for fact in facts:
        unique.setdefault(fact.text, fact)
    return [
        {"id": fact.id, "text": fact.text, **{name: getattr(fact, name) for name in _FACT_FIELDS},
         "confidence": 1.0 if fact.confidence is None else fact.confidence,
         "created_at": since, "reinforced_at": fact.reinforced_at or since}
        for fact in unique.values()
    ]  # fmt: skip


def relation_record(
    place: str, source: str, kind: str, target: str, since: datetime, extra: Mapping[str, Any]
) -> ExportRecord:
    """Return a record of a relation; `extra` are its other fields."""
    required = {"source": source, "target": target, "kind": validation.required_name(kind, "kind"), "valid_from": since}
    return ExportRecord(place, "relation", {"confidence": 1.0, **extra, **required})


# mem0: a JSON list of objects, each with a text

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


# Databases of claude-mem and of mcp-memory-service

CLAUDE_MEM, MCP_MEMORY_SERVICE = "claude-mem", "mcp-memory-service"
TABLES: Mapping[str, Mapping[str, Collection[str]]] = {  # with the columns by which a program is known
    CLAUDE_MEM: {
        "observations": ("id", "project", "type", "created_at_epoch"),
        "session_summaries": ("id", "project", "request"),
    },
    MCP_MEMORY_SERVICE: {"memories": ("content_hash", "content", "tags", "memory_type", "created_at_iso")},
}
_OBSERVATION_COLUMNS = (
    "id memory_session_id sdk_session_id project text type title subtitle facts narrative concepts files_read "
    "files_modified created_at created_at_epoch"
).split()
_SUMMARY_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_SUMMARY_COLUMNS = (
    *("id", "memory_session_id", "sdk_session_id", "project", "files_read", "files_edited"),
    *("created_at", "created_at_epoch", *_SUMMARY_PARTS),
)
_MEMORY_COLUMNS = (
    *("id", "content_hash", "content", "tags", "memory_type", "metadata"),
    *("created_at", "created_at_iso", "deleted_at", "store"),
)
_DEFAULT_STORE = "default"


class MemoryDatabase(Struct):
    """The memories of a database as records; `skipped` are those that cannot be imported."""

    file: Path
    format: str
    project: str | None
    redactor: Redactor
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def read_records(self) -> Iterator[ExportRecord]:
        with open_foreign(self.file) as database:
            if not database.has(TABLES[self.format]):
                raise InvalidInput(f"{self.file} is not a database of {self.format}")
            for place, convert, by_id in self._read_rows(database):
                try:
                    yield memory_record(f"{self.file}, {place}", convert(), {"by_id": True} if by_id else None)
                except InvalidInput as exc:
                    self.skipped.append((f"{self.file}, {place}", str(exc)))

    def _read_rows(self, database: ForeignDatabase) -> Iterator[tuple[str, Callable[[], dict[str, Any]], bool]]:
        """Yield the place of each memory, a call for the arguments of `add`, and if its text may be there already."""
        if self.format == CLAUDE_MEM:
            for row in database.read("observations", _OBSERVATION_COLUMNS, order=("id",)):
                yield f"observation {row['id']}", partial(self._convert_observation, row), False
            for row in database.read("session_summaries", _SUMMARY_COLUMNS, order=("id",)):
                yield f"summary {row['id']}", partial(self._convert_summary, row), False
        else:
            for row in database.read("memories", _MEMORY_COLUMNS, order=("id",)):
                if row["deleted_at"] is None:
                    yield f"memory {row['id']}", partial(self._convert_memory, row), _name_store(row) is not None

    def _convert_observation(self, row: Mapping[str, Any]) -> dict[str, Any]:
        texts = [row["subtitle"], row["narrative"], row["text"]]
        details = {"type": row["type"], "files_modified": _parse_texts(row["files_modified"])}
        facts = _parse_texts(row["facts"])
        content = _join(texts) or _join(facts) or row["title"]
        return (
            self._describe(row, "observation", content, details)
            | {
                "title": parse_label(self.redactor(row["title"])),  # in this order: a cut secret is not recognised
                "tags": _parse_tags(self.redactor([row["type"], *_parse_texts(row["concepts"])])),
                "facts": [fact[: validation.MAX_NAME_CHARACTERS] for fact in self.redactor(facts)],
            }
        )

    def _convert_summary(self, row: Mapping[str, Any]) -> dict[str, Any]:
        parts = [(name.replace("_", " ").capitalize(), row[name]) for name in _SUMMARY_PARTS]
        content = _join([f"{name}: {text.strip()}" for name, text in parts if isinstance(text, str) and text.strip()])
        details = {"type": "summary", "files_modified": _parse_texts(row["files_edited"])}
        title = parse_label(self.redactor(row["request"]))
        return self._describe(row, "summary", content, details) | {"title": title, "tags": ["summary"]}

    def _describe(self, row: Mapping[str, Any], kind: str, content: Any, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return what observations and summaries of claude-mem have in common."""
        session = row["memory_session_id"] or row["sdk_session_id"]
        details = {**details, "files_read": _parse_texts(row["files_read"]), "claude_mem_session": session}
        return {
            "id": derive_id(CLAUDE_MEM, kind, str(session), str(row["id"]), str(row["created_at_epoch"])),
            "content": self.redactor(content),
            "project": self.project or parse_label(row["project"]),
            "created_at": parse_time(row["created_at_epoch"]) or parse_time(row["created_at"]),
            "source": CLAUDE_MEM,
            "metadata": self.redactor({name: value for name, value in details.items() if value}),
        }

    def _convert_memory(self, row: Mapping[str, Any]) -> dict[str, Any]:
        details = dict(parse_object(row["metadata"]) or {})
        details |= {"memory_type": row["memory_type"]} if row["memory_type"] else {}
        store = _name_store(row)
        details |= {"store": store} if store else {}
        return {
            "id": derive_id(MCP_MEMORY_SERVICE, str(row["content_hash"]), *filter(None, [store])),
            "content": self.redactor(row["content"]),
            "project": self.project,
            "tags": _parse_tags(self.redactor(str(row["tags"] or "").split(","))),
            "created_at": parse_time(row["created_at"]) or parse_time(row["created_at_iso"]),
            "source": MCP_MEMORY_SERVICE,
            "metadata": self.redactor(details),
        }


def find_memory_format(file: Path) -> str | None:
    """Return the program whose memories a database holds; None for any other file."""
    if not is_sqlite(file):
        return None
    return next((name for name, tables in TABLES.items() if has_tables(file, tables)), None)


def _name_store(row: Mapping[str, Any]) -> str | None:
    """Return the store of a memory of mcp-memory-service, unless it is the default one. Two may hold the same text."""
    return None if row["store"] in (None, "", _DEFAULT_STORE) else str(row["store"])


def _parse_texts(value: Any) -> list[str]:
    """Return a JSON list of texts, without empty ones; of a text that is none, that text."""
    if not isinstance(value, str):
        return []
    try:
        texts = load_json(value, "a list of texts")
    except (InvalidInput, ValueError, RecursionError):
        texts = [value]
    return [text.strip() for text in texts if isinstance(text, str) and text.strip()] if isinstance(texts, list) else []


def _parse_tags(names: Collection[Any]) -> list[str]:
    labels = [parse_label(name) for name in names]
    return list(dict.fromkeys(label for label in labels if label and label != "untagged"))


def _join(texts: Collection[Any]) -> str:
    return "\n\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())
