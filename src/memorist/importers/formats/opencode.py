"""
Sessions of opencode: a SQLite database with tables of sessions, messages and their parts; in earlier versions a folder
`storage` with a JSON file for each of them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memorist.importers.formats.conversation import ConversationBuilder, TranscriptFormat
from memorist.importers.formats.values import (
    as_list,
    as_object,
    as_text,
    extract_text,
    first_value,
    parse_object,
)
from memorist.store.sqlite.foreign import ForeignDatabase

_TABLES = {
    "session": ("id", "directory", "title"),
    "message": ("id", "session_id", "data"),
    "part": ("id", "message_id", "session_id", "data"),
}
_SESSION_COLUMNS = ("id", "parent_id", "directory", "title", "time_created", "time_updated", "revert")
_ROLES = ("user", "assistant")
_MAX_FILE_BYTES = 50_000_000  # of one message or part


def _read_database(database: ForeignDatabase, file: Path, tools: bool) -> Iterator[ConversationBuilder | str]:
    for row in database.read("session", _SESSION_COLUMNS, order=("time_created", "id")):
        session = row | {
            "parentID": row["parent_id"],
            "time": {"created": row["time_created"], "updated": row["time_updated"]},
            "revert": parse_object(row["revert"]),
        }
        messages: list[dict[str, Any] | None] = []
        parts = defaultdict(list)
        for part in database.read("part", _TABLES["part"], where={"session_id": row["id"]}, order=("id",)):
            parts[part["message_id"]].append(as_object(parse_object(part["data"])) | {"id": part["id"]})
        for message in database.read("message", ("id", "data"), where={"session_id": row["id"]}, order=("id",)):
            info = parse_object(message["data"])
            whole = {"id": message["id"], "parts": parts[message["id"]]}
            messages.append(None if info is None else info | whole)
        builder = ConversationBuilder("opencode")
        _read_session(builder, session | {"messages": messages}, tools)
        yield builder


def _is_session_file(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and as_text(value.get("id")).startswith("ses_")
        and isinstance(value.get("projectID"), str)
        and isinstance(value.get("time"), dict)
    )


def _load_messages(file: Path, session: Any) -> Any:
    """Add the messages of a session and their parts, which other folders of the storage hold."""
    storage, messages = file.absolute().parent.parent.parent, []
    for message_file in _list_files(storage / "message", session["id"]):
        message = _load(message_file)
        if message is not None:
            parts = [_load(part) for part in _list_files(storage / "part", message.get("id"))]
            message |= {"parts": [part for part in parts if part is not None]}
        messages.append(message)
    return session | {"messages": messages}


def _list_files(folder: Path, name: Any) -> list[Path]:
    """Return the files of a folder that another program's id names, but none outside."""
    if not isinstance(name, str) or not name.replace("_", "").isalnum():
        return []
    return sorted((folder / name).glob("*.json"))


def _read_session(builder: ConversationBuilder, session: Mapping[str, Any], tools: bool) -> None:
    if session.get("parentID") is not None and not tools:  # a subagent's
        return
    time = as_object(session.get("time"))
    builder.describe(
        id=session.get("id"),
        title=session.get("title"),
        folder=session.get("directory"),
        created=time.get("created"),
        updated=time.get("updated"),
    )
    messages = as_list(session.get("messages"))
    taken_back = as_object(session.get("revert")).get("messageID")
    for message in builder.select_messages(messages):
        if not isinstance(id := message.get("id"), str):
            builder.unreadable += 1
            continue
        if isinstance(taken_back, str) and id >= taken_back:  # ids rise with time
            break
        if message is not messages[-1] or _is_complete(message):
            _add_message(builder, message, tools)


def _is_complete(message: Mapping[str, Any]) -> bool:
    """Return False for an answer that is still being written: it is imported once it is whole."""
    return message.get("role") != "assistant" or any(
        (as_object(message.get("time")).get("completed"), message.get("error"), message.get("finish"))
    )


def _add_message(builder: ConversationBuilder, message: Mapping[str, Any], tools: bool) -> None:
    role, id = message.get("role"), message.get("id")
    if role not in _ROLES or message.get("summary") is True:  # for the model, in place of what was said
        return
    at, parts = as_object(message.get("time")).get("created"), as_list(message.get("parts"))
    said = [part for part in parts if not any(as_object(part).get(key) is True for key in ("synthetic", "ignored"))]
    builder.add(role, extract_text(said), at, id)
    for part in map(as_object, parts if tools else []):
        if state := as_object(part.get("state")):
            call, name, part_id = part.get("callID"), part.get("tool"), part.get("id")
            builder.add_call(call, name, state.get("input"), at, part_id)
            builder.add_output(call, name, first_value(state, ("output", "error")), at, part_id, "result")


def _load(file: Path) -> dict[str, Any] | None:
    try:
        return parse_object(file.read_bytes()) if file.stat().st_size <= _MAX_FILE_BYTES else None
    except OSError:
        return None


OPENCODE = TranscriptFormat(
    "opencode",
    "opencode's database (opencode.db) or storage",
    "opencode",
    ("{data}/opencode/*.db", "{data}/opencode/storage/session"),
    matches=_is_session_file,
    read_value=_read_session,
    complete=_load_messages,
    tables=_TABLES,
    read_database=_read_database,
)
