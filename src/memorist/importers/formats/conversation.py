"""The one form that every format is read into: turns, conversations, and how a format is recognised and read."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from memorist.importers.formats.values import as_list, as_object, as_text, digest, extract_text, look_up, parse_label
from memorist.store.sqlite.foreign import ForeignDatabase
from memorist.validation import clean


@dataclass(frozen=True, slots=True)
class Turn:
    """A message; with a `tool`, the input or the output of that tool."""

    id: str | None  # of the other program, unique in its conversation
    role: str  # user, assistant, system or tool
    text: str
    at: datetime | None  # in UTC
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    """A conversation with at least one turn. Its id is that of the other program, or derived from its beginning."""

    id: str
    format: str
    title: str | None
    project: str | None
    started_at: datetime | None
    ended_at: datetime | None
    turns: tuple[Turn, ...]


@dataclass(slots=True)
class ConversationBuilder:
    """Collects a conversation while it is read."""

    format: str
    id: str | None = None
    title: str | None = None
    title_rank: int = 0
    project: str | None = None
    created: datetime | None = None
    updated: datetime | None = None
    unreadable: int = 0  # damaged messages
    turns: list[Turn] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    calls: dict[str, str] = field(default_factory=dict)  # the name of each tool, by the id of its call
    queued: str | None = None  # the last message that was typed during an answer

    def add(self, role: str, text: str, at: datetime | None, id: str | None, tool: str | None = None) -> None:
        if text := clean(text).strip():
            known = id in self.ids
            if id is not None:
                self.ids.add(id)
            self.turns.append(Turn(None if known else id, role, text, at, tool))

    def repeats_last(self, text: str) -> bool:
        """Return True if the last turn is the same text, by the user."""
        last = next((turn for turn in reversed(self.turns) if turn.tool is None), None)
        return last is not None and last.role == "user" and last.text == clean(text).strip()

    def build(self, derived_ids: Counter[str]) -> ImportedConversation:
        """Return the conversation; `derived_ids` counts those of other conversations of the same file."""
        times = [turn.at for turn in self.turns if turn.at is not None]
        started = min((time for time in (self.created, *times) if time is not None), default=None)
        ended = max(times, default=None) or self.updated
        if started is not None and ended is not None:
            ended = max(started, ended)
        id = self.id or self._derive_id(derived_ids)
        return ImportedConversation(id, self.format, self.title, self.project, started, ended, tuple(self.turns))

    def _derive_id(self, derived_ids: Counter[str]) -> str:
        """Derive an id from the turns up to the first answer, which stay, and the order of those that begin alike."""
        messages = [turn for turn in self.turns if turn.tool is None] or self.turns
        length = next((count for count, turn in enumerate(messages, 1) if turn.role == "assistant"), 1)
        opening = [(turn.role, turn.text, turn.at and turn.at.isoformat()) for turn in messages[:length]]
        id = digest(json.dumps([self.format, opening]))
        derived_ids[id] += 1
        return id if derived_ids[id] == 1 else digest(f"{id} {derived_ids[id]}")


class LineReader:
    """Reads a file whose lines are one message each, in two passes: `scan` for all lines, then `read_line`."""

    def scan(self, line: Mapping[str, Any]) -> str | None:
        """Note what a line says about other lines, and return its session."""
        return self.find_session(line)

    def find_session(self, line: Mapping[str, Any]) -> str | None:
        """Return the key that groups a line with others; None for a line without a conversation."""
        raise NotImplementedError

    def read_line(self, builder: ConversationBuilder, line: Mapping[str, Any], tools: bool) -> str | None:
        """Add a line to its conversation; return why it could not be read, if it is damaged."""
        raise NotImplementedError


def _matches_nothing(value: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class TranscriptFormat:
    """A format: how it is called, recognised and read. A conversation is a JSON value, lines, or rows of a database."""

    name: str
    description: str  # completes "expected ..."
    matches: Callable[[Any], bool] = _matches_nothing  # a JSON value, or a line
    read_value: Callable[[ConversationBuilder, Any, bool], None] | None = None  # adds a value to a builder
    complete: Callable[[Path, Any], Any] | None = None  # adds to a value what files beside its own say about it
    join_lines: Callable[[Iterable[Any]], Any] | None = None  # makes one value of lines that change each other
    open_lines: Callable[[Path], LineReader] | None = None  # makes a reader for lines that are messages
    tables: Mapping[str, Collection[str]] = field(default_factory=dict)  # with their columns, of a SQLite database
    read_database: Callable[[ForeignDatabase, Path, bool], Iterator[ConversationBuilder | str]] | None = None
    # yields conversations, which may have no turns, and why one cannot be read


# Tool calls, as several formats write them


def add_tools(builder: ConversationBuilder, content: Any, at: datetime | None, id: str | None) -> None:
    """Add the tool calls and results among the parts of a message."""
    for number, part in enumerate(as_list(content)):
        kind = as_text(as_object(part).get("type"))
        own_id = id and f"{id}:{number}"
        if kind.endswith("tool_use"):
            add_call(builder, part.get("id"), part.get("name"), part.get("input"), at, own_id)
        elif kind.endswith("tool_result"):
            name = look_up(builder.calls, part.get("tool_use_id")) or "tool"
            builder.add("tool", extract_text(part.get("content")), at, own_id, name)


def add_call(
    builder: ConversationBuilder, call: Any, name: Any, arguments: Any, at: datetime | None, id: str | None
) -> None:
    name = parse_label(name) or "tool"
    if isinstance(call, str):
        builder.calls[call] = name
    with suppress(RecursionError):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        builder.add("assistant", text, at, id, name)
