"""Conversations of Codex, Gemini CLI, VS Code, Cursor, opencode and Zed, read from where these programs keep them."""

import json
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memorist
from agent_files import (
    CURSOR_TABLES,
    OPENCODE_TABLES,
    SESSION,
    TALK,
    WRITERS,
    ZED_TABLE,
    Said,
    at,
    codex_lines,
    codex_message,
    compress,
    database,
    gemini_lines,
    gemini_message,
    iso,
    uuid,
    vscode_folder,
    vscode_lines,
    vscode_value,
    write_codex,
    write_cursor,
    write_gemini,
    write_lines,
    write_opencode,
    write_vscode,
    write_zed,
    write_zed_rows,
    zed_messages,
    zed_row,
)
from memorist.errors import InvalidInput, MissingExtra
from memorist.importers import input_file
from memorist.importers.formats.conversation import ImportedConversation
from memorist.importers.transcripts import ImportProblem, read_conversations
from memorist.validation import MAX_NAME_CHARACTERS
from strange_values import strange, to_lines

every_program = pytest.mark.parametrize("program", WRITERS)


def find_file(path: Path) -> Path:
    return path if path.is_file() else path / "session" / "global" / "ses_1.json"


def read(path: Path, **options: Any) -> ImportedConversation:
    (found,) = read_conversations(find_file(path), **options)
    assert isinstance(found, ImportedConversation), found
    return found


def problems(path: Path) -> list[str]:
    return [one.reason for one in read_conversations(find_file(path)) if isinstance(one, ImportProblem)]


def said(conversation: ImportedConversation) -> list[Said]:
    return [Said(turn.role, turn.text) for turn in conversation.turns if turn.tool is None]


def replace_title(file: Path, title: str) -> None:
    """Give the conversation of a file another title, where its program keeps one."""
    if file.suffix in (".json", ".jsonl"):
        file.write_text(file.read_text().replace("Retry limits", title))
        return
    with apsw.Connection(str(file)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")]
        if "threads" in tables:
            connection.execute("update threads set summary = ?, data = ?", (title, zed_thread(title)))
        elif "session" in tables:
            connection.execute("update session set title = ?", (title,))
        else:
            connection.execute(
                "update cursorDiskKV set value = json_set(value, '$.name', ?) where key like 'composerData:%'", (title,)
            )


def zed_thread(title: str) -> bytes:
    return compress(json.dumps({"title": title, "messages": zed_messages(TALK)}).encode())


def calls(conversation: ImportedConversation) -> list[tuple[str, str | None, str]]:
    return [(turn.role, turn.tool, turn.text) for turn in conversation.turns if turn.tool]


# All of them


@every_program
def test_what_was_said_is_read_in_its_order_and_nothing_else(tmp_path: Path, program: str) -> None:
    found = read(WRITERS[program](tmp_path, TALK))

    assert said(found) == list(TALK)
    assert found.format == program.removesuffix(" (JSON)")


@every_program
def test_project_and_time_are_kept(tmp_path: Path, program: str) -> None:
    found = read(WRITERS[program](tmp_path, TALK))

    assert found.project == "payments"
    assert found.started_at == at(0)


@every_program
def test_a_title_is_kept_where_the_program_gives_one(tmp_path: Path, program: str) -> None:
    found = read(WRITERS[program](tmp_path, TALK))

    assert found.title == (None if program in ("codex", "gemini-cli") else "Retry limits")


@every_program
def test_every_turn_has_an_id_of_its_own_that_stays(tmp_path: Path, program: str) -> None:
    before = read(WRITERS[program](tmp_path / "before", TALK[:2]))
    after = read(WRITERS[program](tmp_path / "after", TALK))

    ids = [turn.id for turn in after.turns]
    assert len({id for id in ids if id}) == len(TALK)
    assert [turn.id for turn in before.turns] == ids[:2]
    assert before.id == after.id


talks = st.lists(
    st.builds(
        Said,
        st.sampled_from(["user", "assistant"]),
        st.text("abcXYZ äß東\n\"'\\{}", min_size=1, max_size=30).filter(str.strip),
    ),
    min_size=1,
    max_size=6,
)


def stored(memory: memorist.Memorist) -> list[Any]:
    return [(turn.content, turn.created_at, turn.metadata, turn.project) for turn in memory.list(limit=100)]


@every_program
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(talks, st.integers(0, 6))
def test_importing_again_adds_nothing_and_growth_adds_only_what_is_new(
    program: str, talk: Sequence[Said], length: int
) -> None:
    with (
        TemporaryDirectory() as folder,
        memorist.open(":memory:", embedder="none") as once,
        memorist.open(":memory:", embedder="none") as twice,
    ):
        whole = WRITERS[program](Path(folder, "whole"), talk)
        once.transfer.import_(whole)
        if talk[:length]:
            twice.transfer.import_(WRITERS[program](Path(folder, "part"), talk[:length]))
        twice.transfer.import_(whole)

        assert stored(twice) == stored(once)
        assert twice.transfer.import_(whole).added == 0
        assert len(stored(once)) == len([one for one in talk if one.text.strip()])


@pytest.mark.parametrize("program", ["codex", "gemini-cli", "vscode"])
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(st.floats(0, 1))
def test_of_a_file_that_was_read_while_it_was_written_all_is_imported_later(program: str, where: float) -> None:
    with (
        TemporaryDirectory() as folder,
        memorist.open(":memory:", embedder="none") as once,
        memorist.open(":memory:", embedder="none") as twice,
    ):
        file = WRITERS[program](Path(folder), TALK)
        whole = file.read_bytes()
        once.transfer.import_(file)

        file.write_bytes(whole[: int(len(whole) * where)])
        with suppress(InvalidInput):
            twice.transfer.import_(file)
        file.write_bytes(whole)
        twice.transfer.import_(file)

        assert stored(twice) == stored(once)


@every_program
def test_a_secret_that_a_long_title_is_cut_in_is_masked(tmp_path: Path, program: str) -> None:
    file = find_file(WRITERS[program](tmp_path, TALK))
    secret = "ghp_" + ("a1B2c3D4e5F6g7H8" * 3)[:36]
    long_title = "x" * (MAX_NAME_CHARACTERS - 16) + f" {secret}"
    replace_title(file, long_title)

    with memorist.open(":memory:", embedder="none") as memory:
        memory.transfer.import_(file)
        (session,) = memory.sessions.list()

    summary = session.summary or ""
    assert "ghp_" not in summary
    assert len(summary) <= MAX_NAME_CHARACTERS


@every_program
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.floats(0, 1), st.booleans())
def test_a_damaged_file_is_reported_and_raises_nothing_else(
    program: str, seed: int, where: float, is_cut: bool
) -> None:
    with TemporaryDirectory() as folder:
        file = find_file(WRITERS[program](Path(folder), TALK))
        data = bytearray(file.read_bytes())
        cut = int(len(data) * where)
        if is_cut:
            del data[cut:]
        else:
            data[cut : cut + 40] = random.Random(seed).randbytes(40)
        file.write_bytes(data)

        try:
            found = list(read_conversations(file, tools=True))
        except InvalidInput:
            return
        assert all(isinstance(one, ImportedConversation | ImportProblem) for one in found)


@pytest.mark.parametrize("program", ["codex", "gemini-cli", "vscode"])
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_values_of_any_type_are_passed_over(program: str, data: st.DataObject) -> None:
    lines = {"codex": codex_lines, "gemini-cli": gemini_lines, "vscode": vscode_lines}[program](TALK)
    for _ in range(3):
        holder: Any = lines
        while isinstance(holder, dict | list) and holder:
            key = data.draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
            if not isinstance(holder[key], dict | list) or not holder[key] or data.draw(st.booleans()):
                holder[key] = data.draw(strange)
                break
            holder = holder[key]
    with TemporaryDirectory() as folder:
        file = Path(folder, "rollout-x.jsonl")
        file.write_text(to_lines(lines), "utf-8")

        with suppress(InvalidInput):
            list(read_conversations(file, tools=True))


def test_secrets_in_them_are_masked(tmp_path: Path) -> None:
    secret = Said("user", "It is redis://ci:s3cr3tpw@cache/1")
    with memorist.open(":memory:", embedder="none") as memory:
        for program, write in WRITERS.items():
            report = memory.transfer.import_(write(tmp_path / program.replace(" ", ""), [secret]))
            assert sum(report.redacted.values()) in (0, 1)  # the two forms of one program are one conversation

        assert not any("s3cr3tpw" in turn.content for turn in memory.list(limit=100))


# Codex


def test_codex_shows_tools_when_asked(tmp_path: Path) -> None:
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "exec_command",
        "arguments": '{"cmd": "ls"}',
    }
    output = {"type": "function_call_output", "id": "fco_1", "call_id": "c1", "output": "client.py"}
    lines = codex_lines(TALK[:1])
    lines += [{"timestamp": iso(1), "type": "response_item", "payload": payload} for payload in (call, output)]
    file = write_lines(tmp_path / "rollout-a.jsonl", lines)

    assert calls(read(file, tools=True)) == [
        ("assistant", "exec_command", '{"cmd": "ls"}'),
        ("tool", "exec_command", "client.py"),
    ]
    assert calls(read(file)) == []


def test_codex_leaves_out_turns_that_were_taken_back(tmp_path: Path) -> None:
    taken_back = {"timestamp": iso(9), "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    again = {"timestamp": iso(9)} | codex_message("user", "Make it six.", "msg_9")
    file = write_lines(tmp_path / "rollout-a.jsonl", [*codex_lines(TALK), taken_back, again])

    assert said(read(file)) == [*TALK[:2], Said("user", "Make it six.")]


def test_codex_leaves_out_subagents_unless_tools_are_asked_for(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "rollout-a.jsonl", codex_lines(TALK, source={"subagent": "review"}))

    assert list(read_conversations(file)) == []
    assert said(read(file, tools=True)) == list(TALK)


def test_codex_names_a_session_by_the_last_title_in_its_index(tmp_path: Path) -> None:
    file = write_codex(tmp_path, TALK)
    titles = [{"id": SESSION, "thread_name": name, "updated_at": iso(1)} for name in ("First", "Retry limits")]
    write_lines(tmp_path / "session_index.jsonl", ["damaged", *titles])

    assert read(file).title == "Retry limits"


def test_codex_sessions_may_be_compressed(tmp_path: Path) -> None:
    file = write_codex(tmp_path, TALK)
    file.with_name(file.name + ".zst").write_bytes(compress(file.read_bytes()))
    file.unlink()

    with memorist.open(":memory:", embedder="none") as memory:
        assert memory.transfer.import_(tmp_path / "sessions").added == len(TALK)
        assert memory.sessions.get(f"codex:{SESSION}").project == "payments"


# Gemini CLI


def test_gemini_counts_a_message_once_however_often_it_is_written(tmp_path: Path) -> None:
    again = [gemini_message(number, *one) | {"timestamp": iso(50)} for number, one in enumerate(TALK[:2])]
    head = gemini_lines([])[0] | {"startTime": iso(50)}
    file = write_gemini(tmp_path, TALK)
    write_lines(file, [*gemini_lines(TALK[:2]), head, {"$set": {"messages": again}}, *gemini_lines(TALK)[-4:]])

    found = read(file)

    assert said(found) == list(TALK)
    assert [turn.at for turn in found.turns[:2]] == [at(0), at(1)]
    assert found.started_at == at(0)


def test_gemini_leaves_out_what_was_taken_back(tmp_path: Path) -> None:
    rewound = [*gemini_lines(TALK), {"$rewindTo": uuid(2)}, gemini_message(9, "user", "Make it six.")]
    file = write_lines(tmp_path / "session-a.jsonl", rewound)

    assert said(read(file)) == [*TALK[:2], Said("user", "Make it six.")]


def test_gemini_keeps_what_was_compressed_but_not_its_summary(tmp_path: Path) -> None:
    summary = gemini_message(9, "user", "<state_snapshot>They raised it.</state_snapshot>")
    file = write_lines(tmp_path / "session-a.jsonl", [*gemini_lines(TALK), {"$set": {"messages": [summary]}}])

    assert said(read(file)) == list(TALK)


def test_gemini_leaves_out_its_own_words_around_a_summary(tmp_path: Path) -> None:
    summary = "<scratchpad>Hm.</scratchpad>\n<state_snapshot>They raised it.</state_snapshot>"
    added = [
        gemini_message(9, "user", summary),
        gemini_message(10, "assistant", "Got it. Thanks for the additional context!"),
    ]
    file = write_lines(tmp_path / "session-a.jsonl", [*gemini_lines(TALK), {"$set": {"messages": added}}])

    assert said(read(file)) == list(TALK)


def test_gemini_shows_tools_when_asked_and_what_the_user_typed(tmp_path: Path) -> None:
    result = [{"functionResponse": {"id": "t1", "name": "ls", "response": {"output": "client.py"}}}]
    call = {"id": "t1", "name": "ls", "args": {"path": "."}, "result": result, "timestamp": iso(2)}
    typed = gemini_message(0, "user", "Read @client.py\nMAX_TRIES = 2", displayContent=[{"text": "Read @client.py"}])
    answer = gemini_message(1, "assistant", "", content=[{"text": "Hm.", "thought": True}, {"text": "Two."}])
    lines = [gemini_lines([])[0], typed, answer, answer | {"toolCalls": [call]}]
    file = write_lines(tmp_path / "session-a.jsonl", lines)

    assert said(read(file)) == [Said("user", "Read @client.py"), Said("assistant", "Two.")]
    assert calls(read(file, tools=True)) == [("assistant", "ls", '{"path": "."}'), ("tool", "ls", "client.py")]


def test_what_an_unnamed_tool_gave_is_no_message(tmp_path: Path) -> None:
    call = {"id": "t1", "args": {}, "result": [{"functionResponse": {"response": {"output": "client.py"}}}]}
    lines = [*gemini_lines(TALK[:1]), gemini_message(1, "assistant", "Two.", toolCalls=[call])]
    file = write_lines(tmp_path / "session-a.jsonl", lines)

    assert said(read(file, tools=True)) == [TALK[0], Said("assistant", "Two.")]
    assert calls(read(file, tools=True)) == [("assistant", "tool", "{}"), ("tool", "tool", "client.py")]


def test_gemini_sessions_of_earlier_versions_are_one_document(tmp_path: Path) -> None:
    whole = gemini_lines([])[0] | {"messages": [gemini_message(number, *one) for number, one in enumerate(TALK)]}
    file = tmp_path / "session-a.json"
    file.write_text(json.dumps(whole | {"summary": "Retry limits"}, indent=2))

    assert said(read(file)) == list(TALK)
    assert read(file).title == "Retry limits"


# VS Code


def test_vscode_names_files_within_an_answer(tmp_path: Path) -> None:
    value = vscode_value(TALK[:2])
    reference = {"kind": "inlineReference", "inlineReference": {"path": "/home/ada/payments/client.py"}}
    value["requests"][0]["response"] = [{"value": "See "}, reference, {"value": ", line 3."}]
    file = vscode_folder(tmp_path) / "a.json"
    file.write_text(json.dumps(value))

    assert said(read(file))[1].text == "See client.py, line 3."


def test_vscode_waits_for_the_end_of_an_answer(tmp_path: Path) -> None:
    file = write_vscode(tmp_path, TALK)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))  # the last line says that the answer is complete

    assert said(read(file)) == list(TALK[:3])


def test_vscode_leaves_out_requests_that_were_taken_back(tmp_path: Path) -> None:
    changes = [
        {"kind": 1, "k": ["requests", 0, "shouldBeRemovedOnSend"], "v": {"requestId": "x"}},
        {"kind": 3, "k": ["customTitle"]},
        {"kind": 1, "k": ["requests", 10**9, "vote"], "v": 1},
        {"kind": 2, "k": ["nothing", "here"], "v": [1]},
    ]
    file = write_lines(vscode_folder(tmp_path) / "a.jsonl", [*vscode_lines(TALK), *changes])

    found = read(file)

    assert (said(found), found.title) == (list(TALK[2:]), None)


# Cursor


def test_cursor_finds_the_project_in_the_list_of_a_workspace(tmp_path: Path) -> None:
    file = write_cursor(tmp_path, [Said("assistant", "Hello.")])
    folder = tmp_path / "User" / "workspaceStorage" / "a1b2"
    listing = {"allComposers": [{"composerId": SESSION}]}
    with database(folder / "state.vscdb", *CURSOR_TABLES) as connection:
        connection.execute("insert into ItemTable values ('composer.composerData', ?)", (json.dumps(listing),))
    (folder / "workspace.json").write_text(json.dumps({"folder": "file:///home/ada/my%20shop"}))

    assert read(file).project == "my shop"


def test_cursor_reports_damage_and_goes_on(tmp_path: Path) -> None:
    file = write_cursor(tmp_path, TALK)
    with apsw.Connection(str(file)) as connection:
        connection.execute("insert into cursorDiskKV values ('composerData:b', 'damaged'), ('composerData:c', null)")
        connection.execute(
            "update cursorDiskKV set value = '[' where key like 'bubbleId:%' and key like ?", ("%" + uuid(1),)
        )

    found = list(read_conversations(file))

    assert [said(one) for one in found if isinstance(one, ImportedConversation)] == [[TALK[0], *TALK[2:]]]
    assert problems(file) == ["1 messages of 'Retry limits' cannot be read", "composerData:b is not a JSON object"]


def test_cursor_shows_tools_when_asked(tmp_path: Path) -> None:
    file = write_cursor(tmp_path, TALK[:1])
    call = {"type": 2, "bubbleId": uuid(0), "toolFormerData": {"name": "read_file", "rawArgs": "{}", "result": "x = 1"}}
    with apsw.Connection(str(file)) as connection:
        connection.execute("update cursorDiskKV set value = ? where key like 'bubbleId:%'", (json.dumps(call),))

    assert calls(read(file, tools=True)) == [("assistant", "read_file", "{}"), ("tool", "read_file", "x = 1")]


@pytest.mark.parametrize("state", [{"status": "generating"}, {"status": "none", "generatingBubbleIds": [uuid(3)]}])
def test_cursor_waits_for_the_end_of_the_last_answer(tmp_path: Path, state: dict[str, Any]) -> None:
    file = write_cursor(tmp_path, TALK)
    connection = apsw.Connection(str(file))
    sql = "update cursorDiskKV set value = json_patch(value, ?) where key like 'composerData:%'"

    connection.execute(sql, (json.dumps(state),))
    assert said(read(file)) == list(TALK[:3])

    connection.execute(sql, (json.dumps({"status": "completed", "generatingBubbleIds": []}),))
    assert said(read(file)) == list(TALK)


# opencode


def test_opencode_waits_for_the_end_of_the_last_answer(tmp_path: Path) -> None:
    file = write_opencode(tmp_path, TALK)
    unfinished = json.dumps({"role": "assistant", "time": {"created": 1}})
    with apsw.Connection(str(file)) as connection:
        connection.execute("update message set data = ? where id in ('msg_0001', 'msg_0003')", (unfinished,))

    assert said(read(file)) == list(TALK[:3])  # the first was stopped, and is all there will be


def test_opencode_leaves_out_what_was_taken_back_and_subagents(tmp_path: Path) -> None:
    file = write_opencode(tmp_path, TALK)
    with apsw.Connection(str(file)) as connection:
        connection.execute("update session set revert = ?", (json.dumps({"messageID": "msg_0002"}),))
        connection.execute("insert into session values ('ses_2', 'global', 'ses_1', '/', 'Sub', null, 1, 1)")
        connection.execute("update message set session_id = 'ses_2' where id = 'msg_0003'")
        connection.execute("update part set session_id = 'ses_2' where message_id = 'msg_0003'")

    assert said(read(file)) == list(TALK[:2])
    assert len(list(read_conversations(file, tools=True))) == 2


def test_opencode_shows_tools_when_asked(tmp_path: Path) -> None:
    file = write_opencode(tmp_path, TALK[:2])
    state = {"status": "completed", "input": {"command": "ls"}, "output": "client.py\n"}
    part = json.dumps({"type": "tool", "tool": "bash", "callID": "c", "state": state})
    with apsw.Connection(str(file)) as connection:
        connection.execute("insert into part values ('prt_9', 'msg_0001', 'ses_1', ?)", (part,))

    assert calls(read(file, tools=True)) == [("assistant", "bash", '{"command": "ls"}'), ("tool", "bash", "client.py")]


def test_opencode_storage_follows_no_id_out_of_its_folder(tmp_path: Path) -> None:
    storage = WRITERS["opencode (JSON)"](tmp_path, TALK)
    file = storage / "session" / "global" / "ses_1.json"
    file.write_text(file.read_text().replace("ses_1", "ses_/../../message/ses_1"))

    assert list(read_conversations(file)) == []


# Zed


def test_zed_reads_threads_of_earlier_versions(tmp_path: Path) -> None:
    messages = [
        {"id": number, "role": role, "segments": [{"type": "thinking", "text": "Hm."}, {"type": "text", "text": text}]}
        for number, (role, text) in enumerate(TALK)
    ]
    thread = json.dumps({"version": "0.2.0", "summary": "Retry limits", "messages": messages})

    assert said(read(write_zed_rows(tmp_path, zed_row(thread.encode(), "json")))) == list(TALK)


def test_zed_shows_tools_when_asked(tmp_path: Path) -> None:
    use = {"ToolUse": {"id": "t1", "name": "read_file", "raw_input": '{"path": "a"}', "input": {"path": "a"}}}
    result = {"t1": {"tool_use_id": "t1", "tool_name": "read_file", "content": [{"Text": "x = 1"}]}}
    messages = [*zed_messages(TALK[:1]), {"Agent": {"content": [use], "tool_results": result}}, "Resume"]
    file = write_zed_rows(tmp_path, zed_row(compress(json.dumps({"messages": messages}).encode())))

    assert calls(read(file, tools=True)) == [
        ("assistant", "read_file", '{"path": "a"}'),
        ("tool", "read_file", "x = 1"),
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (compress(b"not JSON"), "Expecting value"),
        (compress(b'{"messages": []}')[:-4], "ended before"),
        (b"not compressed", "damaged"),
        (compress(b'{"messages": ["' + b"x" * 20_000_000 + b'"]}'), "unpacks to more than 200 times its size"),
        (compress(b"[" * 100_000), "while decoding a JSON array"),
        (compress(b"[]"), "it is not a JSON object"),
    ],
)
def test_zed_reports_a_thread_that_cannot_be_read_and_goes_on(tmp_path: Path, data: bytes, reason: str) -> None:
    good = json.dumps({"messages": zed_messages(TALK)}).encode()
    file = write_zed_rows(tmp_path, ("other", *zed_row(data)[1:]), zed_row(compress(good)))

    (told,) = problems(file)

    assert told.startswith("thread 'other' cannot be read: ")
    assert reason in told
    assert [said(one) for one in read_conversations(file) if isinstance(one, ImportedConversation)] == [list(TALK)]


def test_zed_unpacks_no_more_of_a_thread_than_a_document_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_file, "MAX_DOCUMENT_BYTES", 2_000_000)
    data = json.dumps({"messages": [], "noise": random.Random(0).randbytes(2_000_000).hex()}).encode()
    file = write_zed_rows(tmp_path, zed_row(compress(data)))

    (told,) = problems(file)

    assert "too much for one JSON document" in told


def test_without_zstandard_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_zed(tmp_path, TALK)
    monkeypatch.setitem(sys.modules, "backports", None)
    monkeypatch.setattr(input_file.sys, "version_info", (3, 12))

    with pytest.raises(MissingExtra, match=r"memorist\[zstd\]"):
        list(read_conversations(file))


# Databases


@pytest.mark.parametrize(
    "statements",
    [
        ("create table notes (text)",),
        ("create view threads as select 1 id, 2 summary, 3 updated_at, 4 data_type, 5 data",),
        ("create table threads (id, summary)",),
        (ZED_TABLE.replace("data_type text not null,", ""),),
        OPENCODE_TABLES[:2],
    ],
)
def test_a_database_of_an_unknown_program_is_refused(tmp_path: Path, statements: Sequence[str]) -> None:
    with database(tmp_path / "some.db", *statements):
        pass

    with pytest.raises(InvalidInput, match="SQLite database that holds no conversation"):
        read_conversations(tmp_path / "some.db")
