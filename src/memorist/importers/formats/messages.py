"""Lists of messages as in the API of OpenAI, and lines of one message each."""

from collections.abc import Mapping
from typing import Any

from memorist.importers.formats.conversation import ConversationBuilder, LineReader, TranscriptFormat
from memorist.importers.formats.values import (
    SESSION_KEYS,
    as_list,
    as_object,
    extract_text,
    first_value,
    parse_id,
    parse_label,
    parse_role,
)

_TEXT_KEYS = ("content", "text")
_SPEAKER_KEYS = ("role", "speaker", "author", "sender", "from")
_TIME_KEYS = "timestamp created_at create_time created time date ts at".split()
_ID_KEYS = ("id", "uuid", "message_id")


def _is_openai(value: Any) -> bool:
    return is_message_list(value.get("messages") if isinstance(value, dict) else value)


def is_message_list(value: Any) -> bool:
    """Return True for a list of messages as in the API of OpenAI."""
    return isinstance(value, list) and any(
        isinstance(item, dict) and isinstance(item.get("role"), str) and ("content" in item or "tool_calls" in item)
        for item in value
    )


def _read_openai(builder: ConversationBuilder, value: Any, tools: bool) -> None:
    head = as_object(value)
    builder.describe(
        id=first_value(head, (*SESSION_KEYS, "id")),
        title=first_value(head, ("title", "name")),
        project=head.get("project"),
        created=first_value(head, _TIME_KEYS),
    )
    for message in builder.select_messages(head.get("messages") if head else value):
        if "role" not in message and "type" not in message:
            builder.unreadable += 1
        elif role := parse_role(message.get("role")):
            _add_message(builder, message, role, message.get("content"), tools)


def _is_plain_line(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(first_value(value, _TEXT_KEYS), str | list)


class _PlainLines(LineReader):
    """Lines that are one message each."""

    def find_session(self, line: Mapping[str, Any]) -> str | None:
        return parse_id(first_value(line, SESSION_KEYS)) or ""

    def read_line(self, builder: ConversationBuilder, line: Mapping[str, Any], tools: bool) -> str | None:
        content, speaker = first_value(line, _TEXT_KEYS), first_value(line, _SPEAKER_KEYS)
        if not isinstance(content, str | list | dict) and "tool_calls" not in line:
            return f"the line has no text; it can be in: {', '.join(_TEXT_KEYS)}"
        builder.describe(project=line.get("project"), title=line.get("title"))
        if isinstance(speaker, dict):
            speaker = first_value(speaker, ("role", "name"))
        role = parse_role(speaker)
        if role is None and (name := parse_label(speaker)) and (words := extract_text(content)):
            content = f"{name}: {words}"  # a person's name is a part of what was said
        _add_message(builder, line, role or "user", content, tools)
        return None


def _add_message(
    builder: ConversationBuilder, message: Mapping[str, Any], role: str, content: Any, tools: bool
) -> None:
    at, id = first_value(message, _TIME_KEYS), first_value(message, _ID_KEYS)
    if role != "tool":
        builder.add(role, extract_text(content), at, id)
    elif tools:
        builder.add_output(message.get("tool_call_id"), first_value(message, ("name", "tool")), content, at, id)
    if tools:
        builder.add_tool_parts(content, at, id)
        for number, call in enumerate(map(as_object, as_list(message.get("tool_calls")))):
            function = as_object(call.get("function"))
            name, arguments = function.get("name"), function.get("arguments")
            builder.add_call(call.get("id"), name, arguments, at, id, f"call{number}")


OPENAI = TranscriptFormat(
    "openai", "a list of messages with role and content (JSON)", matches=_is_openai, read_value=_read_openai
)
PLAIN_LINES = TranscriptFormat(
    "jsonl",
    "JSONL with role and content, or speaker and text, on each line",
    matches=_is_plain_line,
    open_lines=lambda file: _PlainLines(),
)
