"""Readers of other programs' files: a value of any type, in any place, is passed over or refused, and nothing else."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from test_memory_databases import CLAUDE_MEM_TABLES, MCP_MEMORY_TABLE, write_claude_mem, write_mcp_memory

import memorist
from agent_files import (
    CURSOR_TABLES,
    OPENCODE_TABLES,
    SESSION,
    TALK,
    ZED_TABLE,
    codex_lines,
    database,
    gemini_lines,
    gemini_message,
    iso,
    millis,
    opencode_message,
    vscode_folder,
    vscode_lines,
    vscode_value,
    zed_messages,
    zed_row,
)
from memorist.errors import ConfigError, InvalidInput
from memorist.evaluate.dataset import fingerprint, load_dataset
from memorist.hooks import parse_event
from memorist.importers.formats.conversation import ImportedConversation
from memorist.importers.markdown_folder import MarkdownFolder
from memorist.importers.memories import CLAUDE_MEM, MCP_MEMORY_SERVICE, Redactor, is_mem0, read_mem0
from memorist.importers.memorist_export import check_record
from memorist.importers.transcripts import ImportProblem, read_conversations
from memorist.install.clients import CLIENTS, ConfigPaths
from memorist.install.config_edits import list_installed, plan_install, plan_removal
from strange_values import STRANGE, parse, replace_each, to_json, to_lines

SAMPLES = Path(__file__).parents[1] / "data" / "transcripts"
ASKED = TALK[:2]
DEEP = '{"a": ' + "[" * 600 + "]" * 600 + "}"
CELLS = (None, 7, -(2**63), 1e400, b"", b"\xff\0[", "", "a\0b", "[]", "{}", "[[1], {}]", '{"a": NaN}', "[" * 5000, DEEP)


def read_all(file: Path) -> None:
    with suppress(InvalidInput):
        for one in read_conversations(file, tools=True):
            assert isinstance(one, ImportedConversation | ImportProblem)


def write_text(file: Path, text: str) -> Path:
    file.write_text(text, "utf-8")
    return file


def write_list(texts: Iterable[str]) -> str:
    return "[" + ",\n".join(texts) + "]"


# Lines of one message each, and values that are one conversation each: all variants are in one file


def codex_calls() -> list[dict[str, Any]]:
    payloads = [
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "id": "fco_1", "call_id": "c1", "output": [{"type": "text", "text": "a.py"}]},
        {"type": "local_shell_call", "id": "lsc_1", "call_id": "c2", "action": {"command": ["ls"]}},
    ]
    back = {"timestamp": iso(9), "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    return [*({"timestamp": iso(1), "type": "response_item", "payload": payload} for payload in payloads), back]


def test_lines_of_codex(tmp_path: Path) -> None:
    lines = [*codex_lines(ASKED, source={"subagent": "review"}), *codex_calls()]
    read_all(write_text(tmp_path / "rollout-a.jsonl", to_lines(lines) + to_lines_of_each(lines)))


def test_titles_of_codex(tmp_path: Path) -> None:
    (tmp_path / "a/b/c/d").mkdir(parents=True)
    write_text(tmp_path / "session_index.jsonl", to_lines_of_each([{"id": SESSION, "thread_name": "Retries"}]))
    read_all(write_text(tmp_path / "a/b/c/d/rollout-a.jsonl", to_lines(codex_lines(ASKED))))


def to_lines_of_each(lines: Iterable[Any]) -> str:
    return "".join(f"{to_json(each)}\n" for line in lines for each in replace_each(line))


@pytest.mark.parametrize("sample", ["claude-code.jsonl", "plain.jsonl", "openai.jsonl"])
def test_lines_of_one_message_each(tmp_path: Path, sample: str) -> None:
    text = (SAMPLES / sample).read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    read_all(write_text(tmp_path / sample, text + to_lines_of_each(lines)))


@pytest.mark.parametrize("sample", ["chatgpt.json", "claude.json", "openai.json"])
def test_exports_of_whole_conversations(tmp_path: Path, sample: str) -> None:
    value = json.loads((SAMPLES / sample).read_text("utf-8"))
    conversations = value if isinstance(value, list) else [value]
    each = [to_json(variant) for conversation in conversations for variant in replace_each(conversation)]
    read_all(write_text(tmp_path / sample, write_list([to_json(conversations[0]), *each])))


# Logs of changes, where one damaged line changes what the others mean


def gemini_calls() -> list[dict[str, Any]]:
    result = [{"functionResponse": {"id": "t1", "name": "ls", "response": {"output": "client.py"}}}]
    call = {"id": "t1", "name": "ls", "args": {"path": "."}, "result": result, "timestamp": iso(2)}
    return [gemini_message(9, "assistant", "Two.", toolCalls=[call]), {"$rewindTo": "c0"}]


LOGS: dict[str, Callable[[], Sequence[dict[str, Any]]]] = {
    "gemini-cli": lambda: [*gemini_lines(ASKED), *gemini_calls()],
    "vscode": lambda: vscode_lines(ASKED),
}


@pytest.mark.parametrize("program", LOGS)
def test_logs_of_changes(tmp_path: Path, program: str) -> None:
    file = vscode_folder(tmp_path) / "session.jsonl"
    for lines in replace_each(list(LOGS[program]())):
        read_all(write_text(file, to_lines(lines)))


def test_documents_of_vscode(tmp_path: Path) -> None:
    value = vscode_value(ASKED)
    value["requests"][0]["response"] += [
        {"kind": "inlineReference", "inlineReference": {"path": "/home/ada/client.py"}},
        {"kind": "markdownContent", "content": {"value": "See above."}},
        {"kind": "toolInvocationSerialized", "toolId": "ls", "toolCallId": "t", "pastTenseMessage": {"value": "Ran"}},
    ]
    each = [to_json(variant) for variant in replace_each(value)]
    read_all(write_text(tmp_path / "chats.json", write_list([to_json(value), *each])))


def test_workspaces_of_vscode(tmp_path: Path) -> None:
    file = write_text(vscode_folder(tmp_path) / "a.json", to_json(vscode_value(ASKED)))
    for workspace in replace_each({"folder": "file:///home/ada/payments", "workspace": "file:///home/ada/x"}):
        write_text(file.parent.parent / "workspace.json", to_json(workspace))
        read_all(file)


# Databases


def test_records_of_cursor(tmp_path: Path) -> None:
    call = {"name": "ls", "rawArgs": "{}", "result": "client.py"}
    bubble = {"bubbleId": "b", "type": 2, "text": "Two.", "createdAt": iso(1), "toolFormerData": call}
    bubble |= {"workspaceUris": ["file:///home/ada/payments"]}
    inside = {"composerId": "c", "name": "Retries", "createdAt": millis(0), "lastUpdatedAt": millis(1)}
    inside |= {"status": "generating", "generatingBubbleIds": ["b"], "conversation": [bubble]}
    listed = {"fullConversationHeadersOnly": [{"bubbleId": "b", "type": 2}], "conversationMap": {"b": bubble}}
    with database(tmp_path / "state.vscdb", *CURSOR_TABLES) as connection:
        insert = "insert into cursorDiskKV values (?, ?)"
        for number, value in enumerate(map(to_json, (*replace_each(inside), *replace_each(inside | listed)))):
            connection.execute(insert, (f"composerData:{number}", value.encode()))
        for number, value in enumerate(map(to_json, replace_each(bubble))):
            headers = [{"bubbleId": "b", "type": 2}]
            apart = {"composerId": f"apart{number}", "fullConversationHeadersOnly": headers}
            connection.execute(insert, (f"composerData:apart{number}", to_json(apart)))
            connection.execute(insert, (f"bubbleId:apart{number}:b", value))
        for number, cell in enumerate(CELLS):
            connection.execute(insert, (f"composerData:cell{number}", cell))
    read_all(tmp_path / "state.vscdb")


def test_workspaces_of_cursor(tmp_path: Path) -> None:
    file, workspace = tmp_path / "User/globalStorage/state.vscdb", tmp_path / "User/workspaceStorage/a"
    with database(file, *CURSOR_TABLES) as connection:
        connection.execute("insert into cursorDiskKV values ('composerData:c', '{}')")
    listed = {"allComposers": [{"composerId": "c"}]}
    for number, value in enumerate(replace_each(listed)):
        with database(workspace.with_name(str(number)) / "state.vscdb", *CURSOR_TABLES) as connection:
            connection.execute("insert into ItemTable values ('composer.composerData', ?)", (to_json(value),))
        write_text(workspace.with_name(str(number)) / "workspace.json", '{"folder": "file:///home/ada/payments"}')
    read_all(file)


def test_rows_of_opencode(tmp_path: Path) -> None:
    state = {"input": {"path": "."}, "output": "client.py"}
    part = {"type": "tool", "tool": "ls", "callID": "c1", "state": state, "text": "Two.", "synthetic": False}
    session = ("global", None, "/home/ada/payments", "Retries", to_json({"messageID": "msg_9"}), 1, 2)
    tables = [table.replace("not null", "") for table in OPENCODE_TABLES]
    with database(tmp_path / "opencode.db", *tables) as connection:

        def add(id: Any, message: str, part: str, revert: Any = session[4]) -> None:
            values = (id, *session[:4], revert, *session[5:])
            connection.execute("insert or ignore into session values (?, ?, ?, ?, ?, ?, ?, ?)", values)
            connection.execute("insert into message values (?, ?, ?, ?)", (f"msg_{id}", id, 1, message))
            connection.execute("insert into part values (?, ?, ?, ?)", (f"prt_{id}", f"msg_{id}", id, part))

        info = opencode_message(1, ASKED[1]) | {"summary": False, "error": None, "finish": "stop"}
        for number, value in enumerate(replace_each(info)):
            add(f"ses_m{number}", to_json(value), to_json(part))
        for number, value in enumerate(replace_each(part)):
            add(f"ses_p{number}", to_json(info), to_json(value))
        for number, value in enumerate(replace_each({"messageID": "msg_9"})):
            add(f"ses_r{number}", to_json(info), to_json(part), to_json(value))
        for number, cell in enumerate(CELLS):
            add(f"ses_c{number}", cell, cell, cell)
            for column in ("id", "parent_id", "directory", "title", "time_created"):
                add(f"{column}{number}", to_json(info), to_json(part))
                connection.execute(f"update or ignore session set {column} = ? where id = '{column}{number}'", (cell,))
    read_all(tmp_path / "opencode.db")


def test_files_of_opencode(tmp_path: Path) -> None:
    session = {"id": "ses_1", "projectID": "global", "directory": "/home/ada/payments", "title": "Retries"}
    session |= {"time": {"created": 1, "updated": 2}, "revert": {"messageID": "msg_9"}, "parentID": None}
    message = opencode_message(1, ASKED[1]) | {"id": "msg_1", "sessionID": "ses_1"}
    for folder in ("session/global", "message/ses_1", "part/msg_1"):
        (tmp_path / "storage" / folder).mkdir(parents=True)
    for number, value in enumerate(replace_each(message)):
        write_text(tmp_path / "storage" / "message" / "ses_1" / f"msg_{number}.json", to_json(value))
    for value in replace_each(session):
        read_all(write_text(tmp_path / "storage" / "session" / "global" / "ses_1.json", to_json(value)))


def test_threads_of_zed(tmp_path: Path) -> None:
    call = {"ToolUse": {"id": "t1", "name": "ls", "raw_input": "{}", "input": {}}}
    answer = {"content": [call, {"Text": "Two."}], "tool_results": {"t1": {"content": [{"Text": "client.py"}]}}}
    legacy = {"id": 1, "role": "assistant", "segments": [{"type": "text", "text": "Two."}], "text": "Two."}
    legacy |= {"is_hidden": False, "tool_uses": [{"id": "t1", "name": "ls", "input": {}}]}
    folders = {"worktree_snapshots": [{"worktree_path": "/home/ada/payments"}]}
    thread = {"title": "Retries", "messages": [*zed_messages(ASKED), {"Agent": answer}, legacy]}
    thread |= {"initial_project_snapshot": folders}
    with database(tmp_path / "threads.db", ZED_TABLE.replace("not null", "")) as connection:
        insert = "insert or replace into threads values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        for number, value in enumerate(map(to_json, replace_each(thread))):
            connection.execute(insert, (f"json{number}", *zed_row(value.encode(), "json")[1:6], None, None, iso(0)))
        for number, cell in enumerate(CELLS):
            for column in range(9):
                row = [f"{number}.{column}", *zed_row(to_json(thread).encode(), "json")[1:]]
                row[column] = cell
                connection.execute(insert, row)
    read_all(tmp_path / "threads.db")


@pytest.mark.parametrize(
    ("format", "tables", "fill"),
    [
        (
            CLAUDE_MEM,
            dict(zip(("observations", "session_summaries"), CLAUDE_MEM_TABLES[1:], strict=True)),
            write_claude_mem,
        ),
        (MCP_MEMORY_SERVICE, {"memories": MCP_MEMORY_TABLE}, write_mcp_memory),
    ],
    ids=[CLAUDE_MEM, MCP_MEMORY_SERVICE],
)
def test_memories_of_other_programs(tmp_path: Path, format: str, tables: Mapping[str, str], fill: Any) -> None:
    valid = apsw.Connection(str(fill(tmp_path / "valid.db")))
    loose = [table.replace("not null", "").replace("unique", "") for table in tables.values()]
    with database(tmp_path / "strange.db", *loose) as connection:
        for name in tables:
            row = next(valid.execute(f"select * from {name}"))
            insert = f"insert into {name} values ({', '.join('?' * len(row))})"
            for place in range(1, len(row)):
                for cell in CELLS:
                    connection.execute(insert, (None, *row[1:place], cell, *row[place + 1 :]))
    valid.close()

    with memorist.open(":memory:", embedder="none") as memory:
        assert memory.transfer.import_(tmp_path / "strange.db").format == format


# Memories and other files


def test_memories_of_mem0(tmp_path: Path) -> None:
    entry = {"id": "m-000001", "memory": "Tea, no milk.", "categories": ["food"], "created_at": "2026-03-02T09:00:00Z"}
    entry |= {"metadata": {"by": "ada"}, "user_id": "ada"}
    for variant in replace_each({"results": [entry]}):
        file = write_text(tmp_path / "mem0.json", to_json(variant))
        is_mem0(file)
        with suppress(InvalidInput):
            list(read_mem0(file, None, Redactor(())))


def test_records_of_an_export() -> None:
    at = "2026-03-02T09:00:00+00:00"
    fact = {"id": "f1", "text": "It is tea.", "confidence": 1.0, "created_at": at, "reinforced_at": at}
    was = {"content": "Coffee.", "sector": "semantic", "tier": "long", "tags": [], "salience": 1.0, "metadata": {}}
    memory = {"type": "memory", "id": "m1", "content": "Tea.", "tags": ["a"], "sector": "semantic", "tier": "project"}
    memory |= {"salience": 1.0, "metadata": {"by": "ada"}, "pinned": False, "access_count": 0, "facts": [fact]}
    memory |= dict.fromkeys(("created_at", "updated_at", "reinforced_at", "recorded_at"), at)
    memory |= {"versions": [{"version": 1, "replaced_at": at, "was": was | {"updated_at": 1}}]}
    memory |= {"sessions": [{"session": "s1", "usage": "created", "at": at, "latest": at}]}
    lens = {"type": "lens", "name": "tea", "definition": {"project": "shop"}}
    for record in (memory, lens):
        for variant in replace_each(record):
            with suppress(InvalidInput):
                check_record(parse(variant), "line 2")


def test_notes_of_markdown(tmp_path: Path) -> None:
    at = "2026-03-02T09:00:00+00:00"
    fact = {"id": "f1", "text": "It is tea.", "kind": "drink", "confidence": 1.0, "created_at": at}
    relation = {"kind": "about", "target": "m2", "confidence": 1.0, "since": at, "said_by": "ada"}
    fields = {"memorist": 1, "id": "m1", "title": "Tea", "created_at": at, "tags": ["a"], "facts": [fact]}
    fields |= {"salience": 0.5, "pinned": True, "by_id": True, "updated_at": at, "relations": [relation]}
    fields |= {"superseded_by": {"id": "m2", "since": at}, "metadata": {"by": "ada"}, "project": "shop", "type": "note"}
    for number, variant in enumerate(replace_each(fields)):
        lines = "".join(f"{name}: {to_json(value)}\n" for name, value in variant.items())
        write_text(tmp_path / f"{number}.md", f"---\n{lines}---\nTea, no milk.\n")
        write_text(tmp_path / f"{number}-other.md", f"---\ncreated: {at}\n{lines}---\nTea, no milk.\n")
    assert list(MarkdownFolder(tmp_path, None, Redactor(())).read_records())


def test_questions_of_a_dataset(tmp_path: Path) -> None:
    document = {"_id": "d1", "title": "Tea", "text": "Tea, no milk.", "metadata": {"scope": "s", "date": "2026-03-02"}}
    question = {"_id": "q1", "text": "What to drink?", "metadata": {"scope": "s", "category": "food", "date": "2026"}}
    write_text(tmp_path / "qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    for name, record, other in (("corpus", document, question), ("queries", question, document)):
        for variant in replace_each(record):
            write_text(tmp_path / f"{'queries' if name == 'corpus' else 'corpus'}.jsonl", f"{to_json(other)}\n")
            write_text(tmp_path / f"{name}.jsonl", f"{to_json(variant)}\n")
            with suppress(InvalidInput):
                fingerprint(load_dataset(tmp_path).documents)


def test_events_of_agents() -> None:
    fields = {"session_id": "s", "transcript_path": "~/t.jsonl", "cwd": "~/x", "prompt": "What is MAX_TRIES?"}
    for variant in replace_each(fields | {"source": "user", "workspace_roots": ["~/x"]}):
        with suppress(InvalidInput):
            parse_event("UserPromptSubmit", to_json(variant).encode())


@pytest.mark.parametrize("client", ["claude-code", "cursor"])  # without comments in its JSON, and with
def test_configs_of_clients(tmp_path: Path, client: str) -> None:
    paths = ConfigPaths(tmp_path / "home", tmp_path / "project", {}, "linux")
    chosen = CLIENTS[client]
    ours = {"type": "command", "command": "memorist hook SessionStart"}
    values = {chosen.server_key: {"memorist": {"command": "memorist", "args": ["mcp"]}, "other": {"command": "x"}}}
    values |= {"hooks": {"SessionStart": [{"hooks": [ours, {"command": "x"}]}, ours], "sessionStart": [ours]}}
    files = {paths.expand(chosen.server_files["user"])}
    files |= {paths.expand(chosen.hooks.files["user"])} if chosen.hooks else set()
    for variant in replace_each(values, STRANGE[:-2]):  # of the deepest, the indentation alone has megabytes
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, to_json(variant))
        for plan in (
            lambda: list_installed(chosen, "user", paths),
            lambda: plan_install(chosen, "user", paths, ["memorist"]),
            lambda: plan_removal(chosen, "user", paths),
        ):
            with suppress(ConfigError):
                plan()
