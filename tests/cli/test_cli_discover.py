"""`memorist import --discover`: what other programs keep on this machine, listed, and taken in on one word."""

import os
from pathlib import Path

import pytest
from command_line import CommandLine

from agent_files import SESSION, TALK, write_codex, write_gemini, write_opencode, write_zed
from terminal import terminal


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CLAUDE_CONFIG_DIR", "CLAUDE_MEM_DATA_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def machine(cli: CommandLine) -> CommandLine:
    """A user who talked to Codex, Gemini CLI and opencode."""
    write_codex(cli.home / ".codex", TALK)
    write_gemini(cli.home / ".gemini", TALK)
    write_opencode(cli.home / ".local" / "share", TALK)
    return cli


def test_it_lists_where_how_many_and_how_many_are_new(machine: CommandLine) -> None:
    told = machine("import", "--discover")

    assert [line.split("  ")[0] for line in told.out.splitlines()] == ["Codex", "Gemini CLI", "opencode"]
    assert all("1 conversation," in line and "1 new" in line for line in told.out.splitlines())
    assert str(machine.home / ".codex" / "sessions") in told.out
    assert "--discover --yes" in told.err
    assert machine("list").out == ""


def test_yes_imports_it_and_then_nothing_is_new(machine: CommandLine) -> None:
    told = machine("import", "--discover", "--yes", "--json").json

    assert [source["new"] for source in told["sources"]] == [1, 1, 1]
    assert [report["added"] for report in told["imports"]] == [len(TALK)] * 3
    again = machine("import", "--discover", "--yes", "--json").json
    assert [(source["total"], source["new"]) for source in again["sources"]] == [(1, 0)] * 3
    assert again["imports"] == []


def test_a_conversation_that_has_gone_on_is_new_again(machine: CommandLine) -> None:
    write_codex(machine.home / ".codex", TALK[:2])
    machine("import", "--discover", "codex", "--yes")
    write_codex(machine.home / ".codex", TALK)

    (source,) = machine("import", "--discover", "codex", "--json").json["sources"]
    (report,) = machine("import", "--discover", "codex", "--yes", "--json").json["imports"]

    assert (source["total"], source["new"]) == (1, 1)
    assert (report["added"], report["known"], report["sessions"]) == (2, 2, 0)
    assert machine("session", "show", f"codex:{SESSION}").code == 0


def test_what_cannot_be_read_is_said_and_does_not_stop_the_rest(machine: CommandLine) -> None:
    damaged = write_zed(machine.home / ".local" / "share" / "zed", TALK)
    damaged.write_bytes(damaged.read_bytes()[:100] + b"\xff" * 4000)

    told = machine("import", "--discover", "--yes")

    assert "threads.db is a SQLite database that cannot be read" in told.err
    assert told.out.count(" added") == 3


def test_at_a_terminal_one_word_takes_it_in(machine: CommandLine) -> None:
    with terminal("import", "--discover", environment=os.environ) as screen:
        screen.expect("Import what is new (3)? [y/N]")
        screen.type("y\n")
        screen.expect("opencode.db (opencode): 4 added")
        assert screen.end()[0] == 0

    assert len(machine("list", "--json").json["memories"]) == 3 * len(TALK)


def test_nothing_on_the_machine_is_no_error(cli: CommandLine) -> None:
    told = cli("import", "--discover")

    assert (told.code, told.out) == (0, "")
    assert "Nothing found" in told.err


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ((), "name what to import"),
        (("a.json", "--yes"), "--yes is for --discover"),
        (("--discover", "--format", "codex"), "name programs"),
        (("--discover", "emacs"), "codex"),
    ],
)
def test_a_wrong_call_says_what_is_right(cli: CommandLine, arguments: tuple[str, ...], about: str) -> None:
    told = cli("import", *arguments)

    assert told.code != 0
    assert about in told.err
