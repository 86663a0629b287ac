"""
Conversations of Cursor, in the table of keys and values of its global state.vscdb: a record for each conversation with
the order of its messages, and a record for each message ("bubble").
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memorist.errors import InvalidInput
from memorist.importers.formats.conversation import ConversationBuilder, TranscriptFormat
from memorist.importers.formats.values import (
    as_list,
    as_object,
    as_text,
    extract_text,
    first_value,
    look_up,
    parse_id,
    parse_object,
    project_of_folder,
)
from memorist.importers.formats.vscode import folder_of_uri
from memorist.store.sqlite.foreign import ForeignDatabase, is_sqlite, open_foreign

_TABLE, _WORKSPACE_TABLE = "cursorDiskKV", "ItemTable"
_COLUMNS = ("key", "value")
_CONVERSATION, _MESSAGE = "composerData:", "bubbleId:"
_ROLES = {1: "user", 2: "assistant"}
_MAX_WORKSPACE_BYTES = 500_000_000  # of the database of a workspace, which is read for the name of a project only


def _read_cursor(database: ForeignDatabase, file: Path, tools: bool) -> Iterator[ConversationBuilder | str]:
    projects = _find_projects(file)
    for row in database.read(_TABLE, _COLUMNS, prefix=("key", _CONVERSATION), order=("key",)):
        if row["value"] is None:  # a conversation that was deleted
            continue
        value = parse_object(row["value"])
        if value is None:
            yield f"{row['key']} is not a JSON object"
            continue
        id = parse_id(value.get("composerId")) or parse_id(str(row["key"])[len(_CONVERSATION) :])
        builder = ConversationBuilder("cursor", id=id, project=look_up(projects, id))
        builder.describe(
            title=first_value(value, ("name", "subtitle")),
            created=value.get("createdAt"),
            updated=value.get("lastUpdatedAt"),
        )
        bubbles = list(_read_bubbles(database, value, id or ""))
        if bubbles and _is_unfinished(bubbles[-1], value):
            bubbles.pop()
        for bubble in builder.select_messages(bubbles):
            _add_bubble(builder, bubble, tools)
        yield builder


def _read_bubbles(database: ForeignDatabase, value: Mapping[str, Any], id: str) -> Iterator[dict[str, Any] | None]:
    """Yield the messages in order, None for one that is damaged; older versions keep them within the conversation."""
    headers, within = as_list(value.get("fullConversationHeadersOnly")), as_object(value.get("conversationMap"))
    if not headers:
        yield from (bubble if isinstance(bubble, dict) else None for bubble in as_list(value.get("conversation")))
        return
    stored = {
        str(row["key"]): row["value"]
        for row in database.read(_TABLE, _COLUMNS, prefix=("key", f"{_MESSAGE}{id}:"), order=("key",))
    }
    for header in map(as_object, headers):
        name = as_text(header.get("bubbleId"))
        data = stored.get(f"{_MESSAGE}{id}:{name}")
        bubble = within.get(name) if data is None else parse_object(data)
        if bubble is None and data is None:
            continue  # it was not kept
        yield {"bubbleId": name, "type": header.get("type")} | bubble if isinstance(bubble, dict) else None


def _is_unfinished(last: Mapping[str, Any] | None, value: Mapping[str, Any]) -> bool:
    """Return True for an answer that is still being written: it is imported once it is whole."""
    is_generating = value.get("status") == "generating" or bool(value.get("generatingBubbleIds"))
    return is_generating and look_up(_ROLES, as_object(last).get("type")) == "assistant"


def _add_bubble(builder: ConversationBuilder, bubble: Mapping[str, Any], tools: bool) -> None:
    role, at, id = look_up(_ROLES, bubble.get("type")), bubble.get("createdAt"), bubble.get("bubbleId")
    if role is None:
        return
    for uri in as_list(bubble.get("workspaceUris")):
        builder.describe(folder=folder_of_uri(uri))
    builder.add(role, extract_text(bubble.get("text")), at, id)
    call = as_object(bubble.get("toolFormerData"))
    if tools and call:
        name, arguments = call.get("name"), extract_text(first_value(call, ("rawArgs", "params")))
        builder.add_call(None, name, arguments, at, id, "call")
        builder.add_output(None, name, call.get("result"), at, id, "result")


def _find_projects(file: Path) -> dict[str, str]:
    """Return the project of each conversation that a workspace lists, by its id."""
    projects = {}
    for folder in sorted(file.absolute().parent.parent.glob("workspaceStorage/*/")):
        listing, name = folder / "state.vscdb", folder / "workspace.json"
        try:
            project = project_of_folder(folder_of_uri(as_object(parse_object(name.read_bytes())).get("folder")))
            if project is None or listing.stat().st_size > _MAX_WORKSPACE_BYTES or not is_sqlite(listing):
                continue
            with open_foreign(listing) as database:
                if not database.has({_WORKSPACE_TABLE: _COLUMNS}):
                    continue
                for row in database.read(_WORKSPACE_TABLE, _COLUMNS, where={"key": "composer.composerData"}):
                    for entry in as_list(as_object(parse_object(row["value"])).get("allComposers")):
                        if id := parse_id(as_object(entry).get("composerId")):
                            projects[id] = project
        except (OSError, InvalidInput):  # only the name of a project is missing then
            continue
    return projects


CURSOR = TranscriptFormat(
    "cursor",
    "Cursor's state.vscdb",
    "Cursor",
    ("{settings}/Cursor/User/globalStorage/state.vscdb",),
    tables={_TABLE: _COLUMNS},
    read_database=_read_cursor,
)
