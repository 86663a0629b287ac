"""
Chats of VS Code (Copilot and others): a JSON document each or, in later versions, a log of changes to one as JSONL.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from memorist.importers.formats.conversation import ConversationBuilder, TranscriptFormat
from memorist.importers.formats.values import (
    as_list,
    as_object,
    extract_text,
    parse_id,
    parse_label,
    parse_object,
    parse_time,
    project_of_folder,
)

_INITIAL, _SET, _PUSH, _DELETE = range(4)  # kinds of changes
_UNFINISHED = (0, 4)  # states of an answer: pending, needs input
_WORKSPACE_FILE, _MAX_WORKSPACE_BYTES = "workspace.json", 100_000


def _is_vscode(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("kind") == _INITIAL and isinstance(value.get("v"), dict):
        value = value["v"]
    return isinstance(value.get("requests"), list) and any(
        key in value for key in ("sessionId", "responderUsername", "creationDate", "requesterUsername")
    )


def _join_lines(lines: Iterable[Any]) -> Any:
    """Apply a log of changes; one that does not fit is left out."""
    state: Any = {}
    for line in map(as_object, lines):
        kind, path, value = line.get("kind"), as_list(line.get("k")), line.get("v")
        if kind == _INITIAL:
            state = value
        elif path:
            with suppress(LookupError, TypeError):
                _apply(state, kind, path, value, line.get("i"))
    return state


def _apply(state: Any, kind: Any, path: list[Any], value: Any, kept: Any) -> None:
    *steps, last = path
    for step in steps:
        state = state[step]
    if kind == _PUSH:
        if isinstance(state, dict):
            state.setdefault(last, [])
        items = state[last]
        if isinstance(kept, int) and isinstance(items, list):
            del items[max(kept, 0) :]
        items += as_list(value)
    elif kind == _DELETE:
        state[last] = None
    elif kind == _SET and isinstance(state, list) and last == len(state):
        state.append(value)
    elif kind == _SET:
        state[last] = value


def _find_workspace(file: Path, value: Any) -> Any:
    """Add the folder of the workspace, which a file beside the folder of the chats names."""
    with suppress(OSError), (file.absolute().parent.parent / _WORKSPACE_FILE).open("rb") as raw:
        workspace = as_object(parse_object(raw.read(_MAX_WORKSPACE_BYTES)))
        return value | {"workspace": workspace.get("folder") or workspace.get("workspace")}
    return value


def folder_of_uri(uri: Any) -> str | None:
    """Return the path in the URI of a folder or of a workspace's file."""
    if not isinstance(uri, str):
        return None
    try:
        path = unquote(urlsplit(uri).path) if "://" in uri else uri
    except ValueError:
        return None
    return path.removesuffix(".code-workspace")


def _read_vscode(builder: ConversationBuilder, value: Any, tools: bool) -> None:
    builder.describe(
        id=value.get("sessionId"),
        title=value.get("customTitle"),
        folder=folder_of_uri(value.get("workspace")),
        created=value.get("creationDate"),
    )
    for request in builder.select_messages(value.get("requests")):
        if request.get("isHidden") is True or request.get("shouldBeRemovedOnSend"):  # it was taken back
            continue
        at, id, message = request.get("timestamp"), request.get("requestId"), request.get("message")
        builder.add("user", extract_text(as_object(message).get("text", message)), at, id)
        state, parts = as_object(request.get("modelState")), as_list(request.get("response"))
        if state.get("value") in _UNFINISHED:  # it is imported once it is whole
            continue
        done = parse_time(state.get("completedAt")) or at
        if tools:
            _add_calls(builder, parts, at, id)
        answer = parse_id(request.get("responseId"))
        builder.add("assistant", _render(parts), done, answer or id, None if answer else "answer")


def _render(parts: list[Any]) -> str:
    """Return the text of an answer; names of files and symbols stand between pieces of it."""
    pieces: list[str] = []
    for part in parts:
        kind, content = as_object(part).get("kind"), as_object(part).get("content")
        if kind is None or kind in ("markdownContent", "markdownVuln"):
            text = as_object(content if kind else part).get("value")
        elif kind == "inlineReference":
            text = _name_reference(part)
        else:
            pieces.append("\n\n")
            continue
        pieces.append(text if isinstance(text, str) else "")
    return "".join(pieces)


def _name_reference(part: Any) -> str | None:
    target = as_object(part.get("inlineReference"))
    path = target.get("path") or as_object(as_object(target.get("location")).get("uri")).get("path")
    return parse_label(part.get("name")) or parse_label(target.get("name")) or project_of_folder(path)


def _add_calls(builder: ConversationBuilder, parts: list[Any], at: Any, id: Any) -> None:
    for number, part in enumerate(parts):
        if as_object(part).get("kind") in ("toolInvocationSerialized", "toolInvocation"):
            message = part.get("pastTenseMessage") or part.get("invocationMessage")
            output, call = as_object(message).get("value", message), parse_id(part.get("toolCallId"))
            builder.add_output(None, part.get("toolId"), output, at, call or id, None if call else number)


VSCODE = TranscriptFormat(
    "vscode",
    "a chat of VS Code (JSON or JSONL)",
    "VS Code",
    tuple(
        f"{{settings}}/{edition}/User/{place}"
        for edition in ("Code", "Code - Insiders", "VSCodium")
        for place in ("workspaceStorage/*/chatSessions", "globalStorage/emptyWindowChatSessions")
    ),
    matches=_is_vscode,
    read_value=_read_vscode,
    join_lines=_join_lines,
    complete=_find_workspace,
)
