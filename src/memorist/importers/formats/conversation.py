"""The one form that every format is read into: turns, conversations, and how a format is recognised and read."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from memorist.importers.formats.values import (
    as_list,
    as_object,
    as_text,
    digest,
    extract_text,
    look_up,
    parse_id,
    parse_label,
    parse_time,
    parse_title,
    project_of_folder,
)
from memorist.store.sqlite.foreign import ForeignDatabase
from memorist.validation import clean


class Turn(Struct, frozen=True):
    """A message; with a `tool`, the input or the output of that tool."""

    id: str | None  # of the other program, unique in its conversation
    role: str  # user, assistant, system or tool
    text: str
    at: datetime | None  # in UTC
    tool: str | None = None


class ImportedConversation(Struct, frozen=True):
    """A conversation with at least one turn. Its id is that of the other program, or derived from its beginning."""

    id: str
    format: str
    title: str | None
    project: str | None
    started_at: datetime | None
    ended_at: datetime | None
    turns: tuple[Turn, ...]


_UNNAMED_TOOL = "tool"


class ConversationBuilder(Struct):
    """
    Collects a conversation while it is read.

    Ids, times, names and contents are taken as a file has them, of whatever type: here they become what a turn holds.
    """

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

    def describe(
        self,
        *,
        id: Any = None,
        title: Any = None,
        project: Any = None,
        folder: Any = None,
        created: Any = None,
        updated: Any = None,
    ) -> None:
        """Note what a file says of the conversation as a whole; what is known already stays."""
        self.id = self.id or parse_id(id)
        self.title = self.title or parse_title(title)
        self.project = self.project or parse_label(project) or project_of_folder(folder)
        self.created = self.created or parse_time(created)
        self.updated = self.updated or parse_time(updated)

    def select_messages(self, values: Any) -> Iterator[dict[str, Any]]:
        """Yield the objects of a list, and count everything else in it as unreadable."""
        for value in as_list(values):
            if isinstance(value, dict):
                yield value
            else:
                self.unreadable += 1

    def has_turn(self, id: Any) -> bool:
        return parse_id(id) in self.ids

    def add(self, role: str, text: str, at: Any, id: Any, part: object = None, tool: str | None = None) -> None:
        """Add a turn; one that is a part of a message has an id made of the message's and the name of the part."""
        if text := clean(text).strip():
            id = parse_id(id)
            if id is not None and part is not None:
                id = f"{id}:{part}"
            known = id in self.ids
            if id is not None:
                self.ids.add(id)
            self.turns.append(Turn(None if known else id, role, text, parse_time(at), tool))

    def add_call(self, call: Any, name: Any, arguments: Any, at: Any, id: Any, part: object = None) -> None:
        """Add the input of a tool; the output finds the name of the tool by the id of the call."""
        tool = parse_label(name) or _UNNAMED_TOOL
        if isinstance(call, str):
            self.calls[call] = tool
        with suppress(RecursionError):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            self.add("assistant", text, at, id, part, tool)

    def add_output(self, call: Any, name: Any, output: Any, at: Any, id: Any, part: object = None) -> None:
        """Add the output of a tool, which is named here or by its call."""
        tool = parse_label(name) or look_up(self.calls, call) or _UNNAMED_TOOL
        self.add("tool", extract_text(output), at, id, part, tool)

    def add_tool_parts(self, content: Any, at: Any, id: Any) -> None:
        """Add the tool calls and outputs among the parts of a message, in the form of Anthropic's API."""
        for number, part in enumerate(as_list(content)):
            kind = as_text(as_object(part).get("type"))
            if kind.endswith("tool_use"):
                self.add_call(part.get("id"), part.get("name"), part.get("input"), at, id, number)
            elif kind.endswith("tool_result"):
                self.add_output(part.get("tool_use_id"), None, part.get("content"), at, id, number)

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


class TranscriptFormat(Struct, frozen=True):
    """
    A format: how it is called, where it is found, recognised and read.

    A conversation is a JSON value, lines, or rows of a database.
    """

    name: str
    description: str  # completes "expected ..."
    program: str = ""  # whose format it is, as people call it
    places: tuple[str, ...] = ()  # files, folders and globs in which the program keeps conversations
    matches: Callable[[Any], bool] = _matches_nothing  # a JSON value, or a line
    read_value: Callable[[ConversationBuilder, Any, bool], None] | None = None  # adds a value to a builder
    complete: Callable[[Path, Any], Any] | None = None  # adds to a value what files beside its own say about it
    join_lines: Callable[[Iterable[Any]], Any] | None = None  # makes one value of lines that change each other
    open_lines: Callable[[Path], LineReader] | None = None  # makes a reader for lines that are messages
    tables: Mapping[str, Collection[str]] = field(default_factory=dict)  # with their columns, of a SQLite database
    read_database: Callable[[ForeignDatabase, Path, bool], Iterator[ConversationBuilder | str]] | None = None
    # yields conversations, which may have no turns, and why one cannot be read
