"""Conversations as other agents' programs write them to disk: made here, in the form of the real files."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import apsw

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
SESSION = "5f09c1de-0000-4000-8000-000000000001"


class Said(NamedTuple):
    """A message, by "user" or "assistant"."""

    role: str
    text: str


TALK = (
    Said("user", "Why does the client give up after two tries?"),
    Said("assistant", "MAX_TRIES is 2."),
    Said("user", "Make it five."),
    Said("assistant", "Done: MAX_TRIES is 5."),
)


def at(number: int) -> datetime:
    return START + timedelta(minutes=number)


def iso(number: int) -> str:
    return at(number).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def millis(number: int) -> int:
    return int(at(number).timestamp() * 1000)


def uuid(number: int) -> str:
    return str(UUID(int=0x5F09C1DE << 96 | 4 << 76 | 8 << 60 | number + 16))


def write_lines(file: Path, lines: Iterable[Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return file


@contextmanager
def database(file: Path, *statements: str) -> Iterator[apsw.Connection]:
    """Open a database as its program does, and make its tables."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    connection = apsw.Connection(str(file))
    try:
        with connection:  # at once: each write for itself waits for the disk
            for statement in statements:
                connection.execute(statement)
            yield connection
    finally:
        connection.close()


# Codex


def codex_lines(said: Sequence[Said], **meta: Any) -> list[dict[str, Any]]:
    agents = "# AGENTS.md instructions for /home/ada/payments\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"
    environment = "<environment_context>\n  <cwd>/home/ada/payments</cwd>\n</environment_context>"
    payload = {"id": SESSION, "timestamp": iso(0), "cwd": "/home/ada/payments", "source": "cli", **meta}
    lines = [
        {"type": "session_meta", "payload": payload},
        {"type": "event_msg", "payload": {"type": "task_started"}},
        codex_message("developer", "<permissions instructions>\nAsk.\n</permissions instructions>", "msg_dev"),
        codex_message("user", agents, "msg_context", environment),
    ]
    for number, (role, text) in enumerate(said):
        event = {"type": "user_message" if role == "user" else "agent_message", "message": text}
        lines += [codex_message(role, text, f"msg_{number}"), {"type": "event_msg", "payload": event}]
    return [{"timestamp": iso(max(0, (place - 4) // 2)), "ordinal": place} | line for place, line in enumerate(lines)]


def codex_message(role: str, *texts: str) -> dict[str, Any]:
    first, id, *others = texts
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in (first, *others)]
    return {"type": "response_item", "payload": {"type": "message", "id": id, "role": role, "content": content}}


def write_codex(folder: Path, said: Sequence[Said]) -> Path:
    file = folder / "sessions" / "2026" / "03" / "02" / f"rollout-2026-03-02T09-00-00-{SESSION}.jsonl"
    return write_lines(file, codex_lines(said))


# Gemini CLI


def gemini_lines(said: Sequence[Said]) -> list[dict[str, Any]]:
    context = {"id": "c0", "timestamp": iso(0), "type": "user", "content": [{"text": "<session_context>\nToday"}]}
    lines: list[dict[str, Any]] = [
        {"sessionId": SESSION, "projectHash": "d05c", "startTime": iso(0), "lastUpdated": iso(0), "kind": "main"},
        {"$set": {"messages": [context]}},
    ]
    for number, (role, text) in enumerate(said):
        lines += [gemini_message(number, role, text), {"$set": {"lastUpdated": iso(number)}}]
    return lines


def gemini_message(number: int, role: str, text: str, **fields: Any) -> dict[str, Any]:
    kind = {"type": "user", "content": [{"text": text}]} if role == "user" else {"type": "gemini", "content": text}
    return {"id": uuid(number), "timestamp": iso(number), **kind, **fields}


def write_gemini(folder: Path, said: Sequence[Said]) -> Path:
    file = folder / "tmp" / "payments" / "chats" / "session-2026-03-02T09-00-5f09c1de.jsonl"
    write_lines(file, gemini_lines(said))
    (file.parent.parent / ".project_root").write_text("/home/ada/payments")
    return file


# VS Code


def vscode_value(said: Sequence[Said]) -> dict[str, Any]:
    requests: list[dict[str, Any]] = []
    for number, (role, text) in enumerate(said):
        if role == "user" or not requests or requests[-1]["response"]:
            asked = text if role == "user" else ""
            requests.append(
                {"requestId": f"request_{uuid(number)}", "message": {"text": asked, "parts": []}, "response": [],
                 "timestamp": millis(number)}
            )  # fmt: skip
        if role == "assistant":
            requests[-1] |= {
                "response": [{"kind": "thinking", "value": "Hm."}, {"value": text, "isTrusted": False}],
                "responseId": f"response_{uuid(number)}",
                "modelState": {"value": 1, "completedAt": millis(number)},
            }
    head = {"version": 3, "sessionId": SESSION, "creationDate": millis(0), "responderUsername": "GitHub Copilot"}
    return head | {"customTitle": "Retry limits", "requests": requests}


def vscode_lines(said: Sequence[Said]) -> list[dict[str, Any]]:
    whole = vscode_value(said)
    lines: list[dict[str, Any]] = [{"kind": 0, "v": whole | {"requests": []}}]
    for number, request in enumerate(whole["requests"]):
        asked = request | {"response": [], "modelState": {"value": 0}}
        lines.append({"kind": 2, "k": ["requests"], "v": [asked]})
        lines.append({"kind": 2, "k": ["requests", number, "response"], "v": request["response"], "i": 0})
        lines += [
            {"kind": 1, "k": ["requests", number, key], "v": request[key]}
            for key in ("responseId", "modelState")
            if key in request
        ]
    return lines


def vscode_folder(folder: Path) -> Path:
    chats = folder / "workspaceStorage" / "a1b2" / "chatSessions"
    chats.mkdir(parents=True, exist_ok=True)
    (chats.parent / "workspace.json").write_text(json.dumps({"folder": "file:///home/ada/payments"}))
    return chats


def write_vscode(folder: Path, said: Sequence[Said]) -> Path:
    return write_lines(vscode_folder(folder) / f"{SESSION}.jsonl", vscode_lines(said))


def write_vscode_document(folder: Path, said: Sequence[Said]) -> Path:
    file = vscode_folder(folder) / f"{SESSION}.json"
    file.write_text(json.dumps(vscode_value(said)))
    return file


# Cursor

CURSOR_TABLES = tuple(
    f"create table {name} (key text unique on conflict replace, value blob)" for name in ("ItemTable", "cursorDiskKV")
)


def write_cursor(folder: Path, said: Sequence[Said]) -> Path:
    file = folder / "User" / "globalStorage" / "state.vscdb"
    headers = [{"bubbleId": uuid(number), "type": 1 if one.role == "user" else 2} for number, one in enumerate(said)]
    composer = {"_v": 10, "composerId": SESSION, "name": "Retry limits", "fullConversationHeadersOnly": headers}
    composer |= {"createdAt": millis(0), "lastUpdatedAt": millis(len(said))}
    records = {f"composerData:{SESSION}": composer}
    for number, (header, one) in enumerate(zip(headers, said, strict=True)):
        bubble = header | {"_v": 3, "text": one.text, "createdAt": iso(number), "thinking": {"text": "Hm."}}
        bubble |= {"workspaceUris": ["file:///home/ada/payments"]}
        records[f"bubbleId:{SESSION}:{uuid(number)}"] = bubble
    with database(file, *CURSOR_TABLES) as connection:
        for key, value in records.items():
            connection.execute("insert into cursorDiskKV values (?, ?)", (key, json.dumps(value).encode()))
    return file


# opencode

OPENCODE_TABLES = (
    """create table session (id text primary key, project_id text not null, parent_id text, directory text not null,
       title text not null, revert text, time_created integer not null, time_updated integer not null)""",
    "create table message (id text primary key, session_id text not null, time_created integer, data text not null)",
    "create table part (id text primary key, message_id text not null, session_id text, data text not null)",
)


def opencode_message(number: int, one: Said) -> dict[str, Any]:
    time = {"created": millis(number)} | ({"completed": millis(number)} if one.role == "assistant" else {})
    return {"role": one.role, "time": time}


def opencode_parts(one: Said) -> list[dict[str, Any]]:
    extra = {"type": "text", "text": "Called the Read tool", "synthetic": True} if one.role == "user" else None
    parts: list[dict[str, Any] | None] = [{"type": "step-start"}, {"type": "text", "text": one.text}, extra]
    return [part for part in parts if part]


def write_opencode(folder: Path, said: Sequence[Said]) -> Path:
    file = folder / "opencode" / "opencode.db"
    with database(file, *OPENCODE_TABLES) as connection:
        session = ("ses_1", "global", None, "/home/ada/payments", "Retry limits", None, millis(0), millis(len(said)))
        connection.execute("insert into session values (?, ?, ?, ?, ?, ?, ?, ?)", session)
        for number, one in enumerate(said):
            message = f"msg_{number:04}"
            data = json.dumps(opencode_message(number, one))
            connection.execute("insert into message values (?, 'ses_1', ?, ?)", (message, millis(number), data))
            for place, part in enumerate(opencode_parts(one)):
                row = (f"prt_{number:04}_{place}", message, json.dumps(part))
                connection.execute("insert into part values (?, ?, 'ses_1', ?)", row)
    return file


def write_opencode_storage(folder: Path, said: Sequence[Said]) -> Path:
    """The folder of earlier versions."""
    storage = folder / "storage"
    session = {"id": "ses_1", "projectID": "global", "directory": "/home/ada/payments", "title": "Retry limits"}
    _write(storage / "session" / "global" / "ses_1.json", session | {"time": {"created": millis(0)}})
    for number, one in enumerate(said):
        id = f"msg_{number:04}"
        message = opencode_message(number, one) | {"id": id, "sessionID": "ses_1"}
        _write(storage / "message" / "ses_1" / f"{id}.json", message)
        for place, part in enumerate(opencode_parts(one)):
            _write(storage / "part" / id / f"prt_{place}.json", part | {"id": f"prt_{place}", "messageID": id})
    return storage


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


# Zed

ZED_TABLE = """
    create table threads (id text primary key, summary text not null, updated_at text not null,
    data_type text not null, data blob not null, parent_id text, folder_paths text, folder_paths_order text,
    created_at text)
"""


def zed_messages(said: Sequence[Said]) -> list[Any]:
    messages: list[Any] = []
    for number, (role, text) in enumerate(said):
        if role == "user":
            messages.append({"User": {"id": uuid(number), "content": [{"Text": text}]}})
        else:
            content = [{"Thinking": {"text": "Hm.", "signature": None}}, {"Text": text}]
            messages.append({"Agent": {"content": content, "tool_results": {}, "reasoning_details": None}})
    return messages


def zed_row(data: bytes, data_type: str = "zstd") -> tuple[Any, ...]:
    return (SESSION, "Retry limits", iso(9), data_type, data, None, "/home/ada/payments", "0", iso(0))


def write_zed(folder: Path, said: Sequence[Said]) -> Path:
    thread = {"title": "Retry limits", "messages": zed_messages(said), "updated_at": iso(9), "version": "0.3.0"}
    return write_zed_rows(folder, zed_row(compress(json.dumps(thread).encode())))


def write_zed_rows(folder: Path, *rows: tuple[Any, ...]) -> Path:
    file = folder / "threads" / "threads.db"
    with database(file, ZED_TABLE) as connection:
        for row in rows:
            connection.execute("insert into threads values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    return file


def compress(data: bytes) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from backports import zstd
    packed: bytes = zstd.compress(data)
    return packed


WRITERS: dict[str, Callable[[Path, Sequence[Said]], Path]] = {
    "codex": write_codex,
    "gemini-cli": write_gemini,
    "vscode": write_vscode,
    "vscode (JSON)": write_vscode_document,
    "cursor": write_cursor,
    "opencode": write_opencode,
    "opencode (JSON)": write_opencode_storage,
    "zed": write_zed,
}
