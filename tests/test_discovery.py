"""What other programs keep on this machine: found where they keep it, and compared with what is stored."""

import json
from pathlib import Path

import pytest

from agent_files import (
    TALK,
    WRITERS,
    Said,
    iso,
    write_codex,
    write_cursor,
    write_opencode_storage,
    write_vscode,
    write_zed,
)
from memorist import Memorist
from memorist.config import UserFolders
from memorist.errors import InvalidInput
from memorist.importers.discovery import PROGRAMS

HOME = Path("/home/ada")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "MCP_MEMORY_BASE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(
        "memorist.engine.transfer.UserFolders", lambda home, environ: UserFolders(home, environ, "linux")
    )
    return tmp_path


def test_each_program_is_found_where_it_keeps_its_conversations(memory: Memorist, home: Path) -> None:
    write_codex(home / ".codex", TALK)
    write_cursor(home / ".config" / "Cursor", TALK)
    write_opencode_storage(home / ".local" / "share" / "opencode", TALK)
    write_vscode(home / ".config" / "Code" / "User", TALK)
    write_zed(home / ".local" / "share" / "zed", TALK)

    found = memory.transfer.discover()

    assert [source.program for source in found] == ["codex", "cursor", "opencode", "zed", "vscode"]
    assert [(source.total, source.new, source.skipped) for source in found] == [(1, 1, ())] * 5
    for source in found:
        for path in source.paths:
            assert memory.transfer.import_(path, format=source.program).added == len(TALK)
    assert [source.new for source in memory.transfer.discover()] == [0] * 5


def test_a_forgotten_turn_is_not_new_and_a_further_one_is(memory: Memorist, home: Path) -> None:
    write_codex(home / ".codex", TALK)
    memory.transfer.import_(home / ".codex" / "sessions")
    memory.forget(next(iter(memory.list())).id)
    assert [source.new for source in memory.transfer.discover(["codex"])] == [0]

    write_codex(home / ".codex", [*TALK, Said("user", "Thanks.")])

    assert [source.new for source in memory.transfer.discover(["codex"])] == [1]


def test_calls_of_tools_are_new_only_where_they_are_asked_for(memory: Memorist, home: Path) -> None:
    file = write_codex(home / ".codex", TALK)
    memory.transfer.import_(file)
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": "{}"}
    with file.open("a") as lines:
        lines.write(json.dumps({"timestamp": iso(9), "type": "response_item", "payload": call}) + "\n")

    assert [source.new for source in memory.transfer.discover(["codex"])] == [0]
    assert [source.new for source in memory.transfer.discover(["codex"], tools=True)] == [1]


def test_folders_without_conversations_are_not_listed(memory: Memorist, home: Path) -> None:
    (home / ".codex" / "sessions").mkdir(parents=True)

    assert memory.transfer.discover() == []


def test_a_program_that_is_unknown_is_refused(memory: Memorist, home: Path) -> None:
    with pytest.raises(InvalidInput, match="emacs"):
        memory.transfer.discover(["emacs"])


def test_every_format_of_a_program_is_looked_for() -> None:
    assert {name.removesuffix(" (JSON)") for name in WRITERS} < set(PROGRAMS)


@pytest.mark.parametrize(
    ("template", "platform", "environ", "expected"),
    [
        ("{zed-data}", "darwin", {}, "/home/ada/Library/Application Support/Zed"),
        ("{zed-data}", "linux", {"XDG_DATA_HOME": "/data"}, "/data/zed"),
        ("{zed-data}", "win32", {"LOCALAPPDATA": "/local"}, "/local/Zed"),
        ("{settings}/Cursor", "darwin", {}, "/home/ada/Library/Application Support/Cursor"),
        ("{settings}/Cursor", "win32", {"APPDATA": "/roaming"}, "/roaming/Cursor"),
        ("{data}/opencode", "darwin", {}, "/home/ada/.local/share/opencode"),
        ("{mcp-memory}", "linux", {"XDG_DATA_HOME": "/data"}, "/home/ada/.local/share/mcp-memory"),
        ("{mcp-memory}", "win32", {"LOCALAPPDATA": "/local"}, "/local/mcp-memory"),
        ("{mcp-memory}", "linux", {"MCP_MEMORY_BASE_DIR": "/base"}, "/base"),
        ("{gemini}/.gemini", "linux", {"GEMINI_CLI_HOME": "/g"}, "/g/.gemini"),
        ("{claude-mem}", "linux", {"CLAUDE_MEM_DATA_DIR": "/cm"}, "/cm"),
    ],
)
def test_folders_follow_the_system_and_the_environment(
    template: str, platform: str, environ: dict[str, str], expected: str
) -> None:
    assert UserFolders(HOME, environ, platform).expand(template) == Path(expected)
