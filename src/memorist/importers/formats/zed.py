"""Threads of Zed's agent: rows of threads.db, each a JSON document that is compressed with Zstandard."""

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput
from memorist.importers.formats.conversation import ConversationBuilder, TranscriptFormat
from memorist.importers.formats.values import (
    as_list,
    as_object,
    extract_text,
    first_value,
    look_up,
)
from memorist.importers.input_file import load_json, open_zstd, read_document
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
        builder = ConversationBuilder("zed")
        builder.describe(
            id=row["id"],
            title=first_value(thread, ("title", "summary")),
            folder=str(row["folder_paths"] or "").split("\n")[0],
            created=row["created_at"],
            updated=row["updated_at"],
        )
        builder.describe(title=row["summary"], folder=_find_folder(thread))
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


def _find_folder(thread: Mapping[str, Any]) -> Any:
    """Return the first folder that was open when the thread began."""
    folders = as_list(as_object(thread.get("initial_project_snapshot")).get("worktree_snapshots"))
    return as_object(folders[0]).get("worktree_path") if folders else None


def _add_messages(builder: ConversationBuilder, thread: Mapping[str, Any], tools: bool) -> None:
    """
    Add the messages of a thread. Answers have no id of their own, and are counted from the question before them.

    Versions before 0.3.0 have a role and segments in place of a tagged content.
    """
    asked, answers = None, 0
    messages = [message for message in as_list(thread.get("messages")) if message != "Resume"]
    for message in builder.select_messages(messages):
        if isinstance(message.get("role"), str):
            _add_legacy_message(builder, message, tools)
        elif user := as_object(message.get("User")):
            asked, answers = user.get("id"), 0
            builder.add("user", _join_tagged(user.get("content")), None, asked)
        elif answer := as_object(message.get("Agent")):
            answers += 1
            builder.add("assistant", _join_tagged(answer.get("content")), None, asked, answers)
            if tools:
                _add_calls(builder, answer, asked, answers)


def _join_tagged(content: Any) -> str:
    """Join the texts among parts such as {"Text": "..."}; thoughts, images and attached files are left out."""
    return extract_text([as_object(part).get("Text") for part in as_list(content)])


def _add_calls(builder: ConversationBuilder, answer: Mapping[str, Any], asked: Any, answers: int) -> None:
    results = as_object(answer.get("tool_results"))
    for number, part in enumerate(as_list(answer.get("content"))):
        if not (call := as_object(as_object(part).get("ToolUse"))):
            continue
        call_id, name, place = call.get("id"), call.get("name"), f"{answers}:call{number}"
        builder.add_call(call_id, name, first_value(call, ("raw_input", "input")), None, asked, place)
        output = as_object(look_up(results, call_id)).get("content")
        text = _join_tagged(output if isinstance(output, list) else [output]) or output
        builder.add_output(call_id, name, text, None, asked, f"{place}:result")


def _add_legacy_message(builder: ConversationBuilder, message: Mapping[str, Any], tools: bool) -> None:
    role, id = message["role"].lower(), message.get("id")
    if role not in ("user", "assistant") or message.get("is_hidden") is True:
        return
    text = extract_text(message["segments"] if "segments" in message else message.get("text"))
    builder.add(role, text, None, id)
    for number, call in enumerate(map(as_object, as_list(message.get("tool_uses")) if tools else [])):
        builder.add_call(call.get("id"), call.get("name"), call.get("input"), None, id, f"call{number}")


ZED = TranscriptFormat(
    "zed", "Zed's threads.db", "Zed", ("{zed-data}/threads/threads.db",), tables=_TABLES, read_database=_read_zed
)
