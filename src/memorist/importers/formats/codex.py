"""
Sessions of Codex: JSONL, a file each ("rollout"), in which messages to and from the model stand among other records.

What the user typed has the form of what Codex itself tells the model, which is known by its tags.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from memorist.importers.formats.conversation import ConversationBuilder, LineReader, TranscriptFormat
from memorist.importers.formats.values import (
    as_object,
    as_text,
    extract_text,
    look_up,
    parse_id,
    parse_object,
    parse_title,
)

_KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
_TITLES_FILE, _MAX_TITLES_BYTES = "session_index.jsonl", 10_000_000
_CONTEXT = re.compile(
    r"<(user_instructions|environment_context|(?:environments|apps|skills|plugins)_instructions|skill|hook_prompt"
    r"|user_shell_command|turn_aborted|subagent_notification|codex_internal_context|goal_context|recommended_plugins"
    r"|external_\w+|collaboration_mode|multi_agent_mode|realtime_conversation|context_window|permissions"
    r"|personality_spec)\b"
)
_CONTEXT_STARTS = ("# AGENTS.md instructions", "Warning: apply_patch was requested", "Warning: The maximum number of")
_CALLS = {  # the keys of a tool's name and input, by the type of the record
    "function_call": ("name", "arguments"),
    "custom_tool_call": ("name", "input"),
    "local_shell_call": ("type", "action"),
    "web_search_call": ("type", "action"),
}


def _is_codex(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _KINDS and isinstance(value.get("payload"), dict)


class _CodexLines(LineReader):
    """Lines of one session, which the first of them names, and the file, too."""

    def __init__(self, file: Path) -> None:
        self._session = parse_id(file.stem[-36:]) or ""
        self._title_file = file.parents[min(4, len(file.parents) - 1)] / _TITLES_FILE  # sessions/YYYY/MM/DD/rollout...
        self._is_subagent = False

    def scan(self, line: Mapping[str, Any]) -> str | None:
        meta = as_object(line.get("payload"))
        if line.get("type") == "session_meta" and (id := parse_id(meta.get("id"))):
            self._session = id
            source = meta.get("source")
            self._is_subagent = meta.get("thread_source") == "subagent" or "subagent" in as_object(source)
        return self._session

    def find_session(self, line: Mapping[str, Any]) -> str | None:
        return self._session

    def read_line(self, builder: ConversationBuilder, line: Mapping[str, Any], tools: bool) -> str | None:
        kind, record = line.get("type"), line.get("payload")
        if not isinstance(record, dict):
            return "the line has no payload"
        if self._is_subagent and not tools:
            return None
        if kind == "session_meta":
            title = None if builder.title else _read_titles(self._title_file).get(self._session)
            builder.describe(title=title, folder=record.get("cwd"), created=record.get("timestamp"))
        elif kind == "event_msg" and record.get("type") == "thread_rolled_back":
            _drop_turns(builder, record.get("num_turns"))
        elif kind == "response_item":
            _add_item(builder, record, line.get("timestamp"), tools)
        return None


def _add_item(builder: ConversationBuilder, record: Mapping[str, Any], at: Any, tools: bool) -> None:
    kind, id, call = record.get("type"), record.get("id"), record.get("call_id")
    if builder.has_turn(id):  # a session that was moved to another file repeats them
        return
    if kind == "message" and record.get("role") in ("user", "assistant"):
        clean_part = _strip_context if record["role"] == "user" else str.strip
        builder.add(record["role"], extract_text(record.get("content"), clean_part), at, id)
    elif tools and (keys := look_up(_CALLS, kind)):
        name, arguments = (record.get(key) for key in keys)
        builder.add_call(call, name, arguments, at, id)
    elif tools and as_text(kind).endswith("_call_output"):
        builder.add_output(call, None, record.get("output"), at, id)


def _strip_context(text: str) -> str:
    """Return a part of a user's message, or nothing if Codex wrote it."""
    text = text.strip()
    return "" if text.startswith(_CONTEXT_STARTS) or _CONTEXT.match(text) else text


def _drop_turns(builder: ConversationBuilder, count: Any) -> None:
    """Drop the last messages of the user and all that followed them: they were taken back."""
    if isinstance(count, int) and count > 0:
        asked = [number for number, turn in enumerate(builder.turns) if turn.role == "user"][-count:]
        del builder.turns[asked[0] if asked else len(builder.turns) :]


def _read_titles(file: Path) -> Mapping[str, str]:
    try:
        status = file.stat()
    except OSError:
        return {}
    return _parse_titles(file, status.st_mtime_ns) if status.st_size <= _MAX_TITLES_BYTES else {}


@lru_cache(4)
def _parse_titles(file: Path, modified: int) -> Mapping[str, str]:
    """Return the titles of sessions by id; later lines replace earlier ones."""
    titles = {}
    for line in file.read_text("utf-8", "replace").splitlines():
        entry = as_object(parse_object(line))
        if (id := parse_id(entry.get("id"))) and (title := parse_title(entry.get("thread_name"))):
            titles[id] = title
    return titles


CODEX = TranscriptFormat(
    "codex",
    "a session of Codex (JSONL)",
    "Codex",
    ("{codex}/sessions", "{codex}/archived_sessions"),
    matches=_is_codex,
    open_lines=_CodexLines,
)
