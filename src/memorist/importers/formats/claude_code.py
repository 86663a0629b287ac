"""Sessions of Claude Code: JSONL, a file each."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memorist.importers.formats.conversation import ConversationBuilder, LineReader, TranscriptFormat
from memorist.importers.formats.values import (
    SESSION_KEYS,
    as_object,
    extract_text,
    first_value,
    look_up,
    parse_id,
    parse_title,
)

_GENERATED_FLAGS = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_TITLE_LINES = {"ai-title": (2, "aiTitle"), "custom-title": (3, "customTitle")}  # rank and key; a summary ranks 1
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"
_WRAPPER = re.compile(
    r"\s*<(command-[a-z]+|local-command-[a-z]+|bash-(?:input|stdout|stderr)|ide_[a-z_]+|task-notification"
    r"|user-prompt-submit-hook)\b[^>]*>"
)
_GENERATED_STARTS = (
    "Caveat: The messages below were generated",
    "[Request interrupted by user",
    "This session is being continued from a previous conversation",
)


def _is_claude_code(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or "role" in value:
        return False
    markers: tuple[tuple[str, ...], ...] = (("sessionId",), ("leafUuid",), ("messageId", "snapshot"))
    if value["type"] in ("user", "assistant"):
        markers += (("uuid",), ("session_id",))
    return any(all(key in value for key in keys) for keys in markers)


class _ClaudeCodeLines(LineReader):
    """Lines of Claude Code. A resumed session repeats earlier lines, which count once."""

    def __init__(self, file: Path) -> None:
        self._file_session = parse_id(file.stem)  # files are named after their sessions
        self._seen: set[str] = set()  # ids of lines
        self._summaries: dict[str, str] = {}  # titles, by the id of a line

    def scan(self, line: Mapping[str, Any]) -> str | None:
        session = self.find_session(line)
        if session is None and isinstance(leaf := line.get("leafUuid"), str):
            self._summaries[leaf] = parse_title(line.get("summary")) or ""
        return session

    def find_session(self, line: Mapping[str, Any]) -> str | None:
        session = parse_id(first_value(line, SESSION_KEYS))
        return session or (self._file_session if line.get("type") in ("user", "assistant") else None)

    def read_line(self, builder: ConversationBuilder, line: Mapping[str, Any], tools: bool) -> str | None:
        kind, uuid, message = line.get("type"), parse_id(line.get("uuid")), line.get("message")
        _add_claude_code_details(builder, line, self._summaries.get(uuid or ""))
        aside = line.get("isSidechain") is True  # a subagent's conversation
        if any(line.get(flag) is True for flag in _GENERATED_FLAGS) or (aside and not tools) or uuid in self._seen:
            return None
        queued = as_object(line.get("attachment")) if kind == "attachment" else {}
        if queued.get("type") == "queued_command" and queued.get("commandMode", "prompt") == "prompt":
            kind, message = "user", {"content": queued.get("prompt")}
        elif kind not in ("user", "assistant"):
            return None
        if not isinstance(message, dict):
            return "the line has no message"
        if message.get("model") == "<synthetic>":  # an error message, or a word in place of an answer
            return None
        at, content = line.get("timestamp"), message.get("content")
        text = extract_text(content, _strip_wrappers if kind == "user" else str.strip)
        if text or tools:
            self._seen.update(id for id in (uuid, parse_id(queued.get("source_uuid"))) if id)
        # A message typed during an answer is sometimes a line of its own as well; it counts once.
        repeated = kind == "user" and builder.repeats_last(text) and (bool(queued) or builder.queued == text)
        if queued:
            builder.queued = text
        if not repeated and text != "(no content)":
            builder.add("tool" if aside else str(kind), text, at, uuid, tool="agent" if aside else None)
        if tools:
            builder.add_tool_parts(content, at, uuid)
        return None


def _add_claude_code_details(builder: ConversationBuilder, line: Mapping[str, Any], summary: str | None) -> None:
    builder.describe(folder=line.get("cwd"))
    rank, key = look_up(_TITLE_LINES, line.get("type")) or (1, "")
    title = summary if rank == 1 else parse_title(line.get(key))
    if title and rank >= builder.title_rank:
        builder.title, builder.title_rank = title, rank


def _strip_wrappers(text: str) -> str:
    """Return the text that the user typed, without what the program put around it."""
    parts, at = [], 0
    while (opened := text.find(_REMINDER, at)) >= 0 and (closed := text.find(_REMINDER_END, opened)) >= 0:
        parts.append(text[at:opened])
        at = closed + len(_REMINDER_END)
    text, at = "".join([*parts, text[at:]]), 0
    while wrapped := _WRAPPER.match(text, at):
        closing = f"</{wrapped[1]}>"
        closed = text.find(closing, wrapped.end())
        at = closed + len(closing) if closed >= 0 else len(text)
    text = text[at:].strip()
    return "" if text.startswith(_GENERATED_STARTS) else text


CLAUDE_CODE = TranscriptFormat(
    "claude-code",
    "a Claude Code session (JSONL)",
    "Claude Code",
    ("{claude}/projects",),
    matches=_is_claude_code,
    open_lines=_ClaudeCodeLines,
)
