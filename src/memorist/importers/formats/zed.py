"""Threads of Zed's agent: rows of threads.db, each a JSON document that is compressed with Zstandard."""

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput
from memorist.importers.formats.conversation import ConversationBuilder, TranscriptFormat, add_call
from memorist.importers.formats.values import (
    as_list,
    as_object,
    extract_text,
    first_value,
    look_up,
    parse_id,
    parse_label,
    parse_time,
    parse_title,
    project_of_folder,
)
from memorist.importers.input_file import open_zstd, read_document
from memorist.importers.json_limits import load_json
from memorist.store.sqlite.foreign import ForeignDatabase

_TABLES = {"threads": ("id", "summary", "updated_at", "data_type", "data")}
_COLUMNS = (*_TABLES["threads"], "parent_id", "folder_paths", "created_at")


def _read_zed(database: ForeignDatabase, file: Path, tools: bool) -> Iterator[ConversationBuilder | str]:
    for row in database.read("threads", _COLUMNS, order=("created_at", "id")):
        if row["parent_id"] is not None and not tools:  # a subagent's
            continue
        thread = _unpack(row)
        if isinstance(thread, str):
            yield f"thread {str(row['id'])[:128]!r} cannot be read: {thread}"
            continue
        builder = ConversationBuilder("zed", id=parse_id(row["id"]))
        builder.title = parse_title(first_value(thread, ("title", "summary"))) or parse_title(row["summary"])
        builder.created, builder.updated = parse_time(row["created_at"]), parse_time(row["updated_at"])
        builder.project = project_of_folder(str(row["folder_paths"] or "").split("\n")[0]) or _find_project(thread)
        _add_messages(builder, thread, tools)
        yield builder


def _unpack(row: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return the document of a row, or why there is none."""
    data = row["data"].encode() if isinstance(row["data"], str) else row["data"]
    if not isinstance(data, bytes):
        return "it has no data"
    try:
        if row["data_type"] == "zstd":
            with open_zstd(BytesIO(data)) as packed:
                data = read_document(packed, len(data), "it")
        thread = load_json(data, "it")
    except (InvalidInput, ValueError, EOFError, RecursionError) as exc:
        return str(exc)
    return thread if isinstance(thread, dict) else "it is not a JSON object"


def _find_project(thread: Mapping[str, Any]) -> str | None:
    """Return the project of the first folder that was open when the thread began."""
    folders = as_list(as_object(thread.get("initial_project_snapshot")).get("worktree_snapshots"))
    return next((project_of_folder(as_object(folder).get("worktree_path")) for folder in folders), None)


def _add_messages(builder: ConversationBuilder, thread: Mapping[str, Any], tools: bool) -> None:
    """
    Add the messages of a thread. Answers have no id of their own, and are counted from the question before them.

    Versions before 0.3.0 have a role and segments in place of a tagged content.
    """
    asked, answers = "", 0
    for message in as_list(thread.get("messages")):
        if message == "Resume":
            continue
        if not isinstance(message, dict):
            builder.unreadable += 1
            continue
        if isinstance(message.get("role"), str):
            _add_legacy_message(builder, message, tools)
        elif user := as_object(message.get("User")):
            asked, answers = parse_id(user.get("id")) or "", 0
            builder.add("user", _join_tagged(user.get("content")), None, asked or None)
        elif answer := as_object(message.get("Agent")):
            answers += 1
            id = f"{asked}:{answers}" if asked else None
            builder.add("assistant", _join_tagged(answer.get("content")), None, id)
            if tools:
                _add_calls(builder, answer, id)


def _join_tagged(content: Any) -> str:
    """Join the texts among parts such as {"Text": "..."}; thoughts, images and attached files are left out."""
    return extract_text([as_object(part).get("Text") for part in as_list(content)])


def _add_calls(builder: ConversationBuilder, answer: Mapping[str, Any], id: str | None) -> None:
    results = as_object(answer.get("tool_results"))
    for number, part in enumerate(as_list(answer.get("content"))):
        if not (call := as_object(as_object(part).get("ToolUse"))):
            continue
        own_id = id and f"{id}:call{number}"
        add_call(builder, call.get("id"), call.get("name"), first_value(call, ("raw_input", "input")), None, own_id)
        output = as_object(look_up(results, call.get("id"))).get("content")
        text = _join_tagged(output if isinstance(output, list) else [output]) or extract_text(output)
        builder.add("tool", text, None, own_id and f"{own_id}:result", parse_label(call.get("name")) or "tool")


def _add_legacy_message(builder: ConversationBuilder, message: Mapping[str, Any], tools: bool) -> None:
    role, id = message["role"].lower(), parse_id(message.get("id"))
    if role not in ("user", "assistant") or message.get("is_hidden") is True:
        return
    text = extract_text(message["segments"] if "segments" in message else message.get("text"))
    builder.add(role, text, None, id)
    for number, call in enumerate(as_list(message.get("tool_uses")) if tools else []):
        fields = as_object(call)
        add_call(builder, fields.get("id"), fields.get("name"), fields.get("input"), None, id and f"{id}:call{number}")


ZED = TranscriptFormat("zed", "Zed's threads.db", tables=_TABLES, read_database=_read_zed)
