"""
Sessions of Gemini CLI: JSONL, in which lines add a message, replace one, take some back or change what is said of the
session; in earlier versions one JSON document.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from memorist.importers.formats.conversation import ConversationBuilder, TranscriptFormat
from memorist.importers.formats.values import as_list, as_object, extract_text, first_value

_ROLES = {"user": "user", "gemini": "assistant"}  # other messages are notices of the program
_CONTEXT_STARTS = ("<session_context>", "<hook_context>", "<scratchpad>", "<state_snapshot>")
_REPLY_TO_SUMMARY = "Got it. Thanks for the additional context!"  # which the program says in the model's name
_ROOT_FILE, _MAX_ROOT_BYTES = ".project_root", 10_000


def _is_gemini(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("$set"), dict) or (
        isinstance(value.get("projectHash"), str) and isinstance(value.get("sessionId"), str)
    )


def _join_lines(lines: Iterable[Any]) -> dict[str, Any]:
    """Return the session as one value. What was compressed stays; what was taken back does not."""
    session: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    for line in lines:
        if not isinstance(line, dict):
            continue
        if isinstance(target := line.get("$rewindTo"), str):
            ids = list(messages)
            for dropped in ids[ids.index(target) if target in messages else 0 :]:
                del messages[dropped]
            continue
        changes = as_object(line.get("$set")) or line
        for message in [changes] if isinstance(changes.get("id"), str) else as_list(changes.get("messages")):
            if isinstance(message, dict) and isinstance(id := message.get("id"), str):
                before = messages.get(id, message)  # it is written again with its tools, or at a later time
                messages[id] = before | message | {"timestamp": before.get("timestamp")}
        if not isinstance(changes.get("id"), str):
            first_start = session.get("startTime") or changes.get("startTime")
            session |= changes | ({"startTime": first_start} if first_start else {})
    return session | {"messages": list(messages.values())}


def _find_root(file: Path, value: Any) -> Any:
    """Add the folder of the project, which a file beside the folder of the sessions names."""
    for folder in file.absolute().parents[1:3]:
        with suppress(OSError), (folder / _ROOT_FILE).open("rb") as root:
            return value | {"root": root.read(_MAX_ROOT_BYTES).decode(errors="replace").strip()}
    return value


def _read_gemini(builder: ConversationBuilder, value: Any, tools: bool) -> None:
    if value.get("kind") == "subagent" and not tools:
        return
    builder.describe(
        id=value.get("sessionId"),
        title=value.get("summary"),
        folder=value.get("root"),
        created=value.get("startTime"),
        updated=value.get("lastUpdated"),
    )
    for message in builder.select_messages(value.get("messages")):
        at, id, kind = message.get("timestamp"), message.get("id"), message.get("type")
        if not isinstance(kind, str):
            builder.unreadable += 1
            continue
        role = _ROLES.get(kind)
        if role is None or builder.has_turn(id):
            continue
        content = first_value(message, ("displayContent", "content")) if role == "user" else message.get("content")
        text = _extract_text(content)
        if not text.startswith(_CONTEXT_STARTS) and text != _REPLY_TO_SUMMARY:
            builder.add(role, text, at, id)
        if tools:
            _add_calls(builder, message)


def _extract_text(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    return extract_text([part for part in parts if as_object(part).get("thought") is not True])


def _add_calls(builder: ConversationBuilder, message: dict[str, Any]) -> None:
    for call in as_list(message.get("toolCalls")):
        if not isinstance(call, dict) or builder.has_turn(call.get("id")):
            continue
        at, id, name = call.get("timestamp"), call.get("id"), call.get("name")
        builder.add_call(id, name, call.get("args"), at, id)
        for number, part in enumerate(as_list(call.get("result"))):
            output = as_object(as_object(as_object(part).get("functionResponse")).get("response"))
            builder.add_output(id, name, first_value(output, ("output", "error")), at, id, f"result{number}")


GEMINI = TranscriptFormat(
    "gemini-cli",
    "a session of Gemini CLI (JSONL or JSON)",
    "Gemini CLI",
    ("{gemini}/.gemini/tmp/*/chats",),
    matches=_is_gemini,
    read_value=_read_gemini,
    join_lines=_join_lines,
    complete=_find_root,
)
