"""
Import the memories of claude-mem and of mcp-memory-service from their SQLite databases.

Vectors there are of other models, and are made anew. A memory that was deleted there is left out.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from memorist import validation
from memorist.errors import InvalidInput
from memorist.importers.export_records import Redactor, derive_id, memory_record
from memorist.importers.formats.values import parse_label, parse_object, parse_time
from memorist.importers.json_limits import load_json
from memorist.store.export import ExportRecord
from memorist.store.sqlite.foreign import ForeignDatabase, has_tables, is_sqlite, open_foreign

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
