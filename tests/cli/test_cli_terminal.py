"""Text that others wrote steers no terminal, whichever command prints it, and says so as JSON without a loss."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine

import memorist
from memorist.hooks import _HookLog
from memorist.web.server import _LineFormatter
from model_server import ModelServer, Refuses, model_server

# A title, a colour, a clear screen, the 8-bit introducer, an override of direction, a line separator, DEL and a bell.
EVIL = "x\x1b]0;owned\x07\x1b[31m\x1b[2J\x9b31m\u202eyes\u2066\u2028no\x7f\x85"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


def assert_harmless(text: str) -> None:
    assert STEERING.findall(text) == []


@pytest.mark.parametrize("command", [["search", "badger"], ["docs", "badger"], ["add", "another"], ["reembed"]])
def test_the_error_of_a_provider_is_printed_on_one_line_without_control_characters(
    cli: CommandLine, server: ModelServer, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    cli.add("the badger digs")
    (cli.work / "note.md").write_text("# Badgers\n\nA badger digs.\n")
    cli("index", "note.md")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MEMORIST_EMBEDDER", "ollama:badger-model")
    server.script += [Refuses(404, f"{EVIL}\nError: all is lost")] * 20

    done = cli(*command)

    assert_harmless(done.out + done.err)
    assert not [line for line in done.err.splitlines() if line.startswith("Error: all is lost")]


class TestStoredText:
    @pytest.fixture(autouse=True)
    def stored(self, cli: CommandLine) -> None:
        with memorist.open(cli.database, embedder="none") as memory:
            session = memory.sessions.start(id=f"s{EVIL[:1]}", summary=EVIL)
            added = memory.add(
                f"badger {EVIL}", id="evil", title=EVIL, source=EVIL, tags=[EVIL[:9]], metadata={EVIL: EVIL},
                facts=[EVIL], session=session.id,
            )  # fmt: skip
            memory.add("badger", id="other", project="p")
            memory.links.add(added.id, "other", "about", said_by=EVIL)
            memory.lenses.set("lens", tags=EVIL[:9])
            memory.search(f"badger {EVIL}", record="log")
            memory.searches.add_feedback("evil", True, query=EVIL)
        (cli.work / f"note {EVIL.replace('/', '')}.md").write_text(f"# {EVIL}\n\nA badger {EVIL}\n")
        (cli.work / f"skipped {EVIL.replace('/', '')}.md").write_bytes(b"\0\1\2")
        cli("index", ".")

    def test_is_printed_without_control_characters(self, cli: CommandLine) -> None:
        commands = [
            "search badger", "search badger --explain --facets all", "list", "list --detail full", "get evil",
            "get evil --history", "timeline", "related evil", "recalls", "tags", "projects", "fact list evil",
            "session list", "lens list", "docs badger", "docs --list", "index . -v", "feedback", "context badger",
            "stats", "check", "config", "get nothing", "dupes", "pin evil",
        ]  # fmt: skip

        assert {command: found for command in commands if (found := self.find_steering(cli, command))} == {}

    def test_is_escaped_in_json_and_stays_the_same(self, cli: CommandLine) -> None:
        commands = ["search badger", "list", "get evil", "recalls", "docs badger", "index .", "session list"]

        assert {name: found for name in commands if (found := self.find_steering(cli, f"{name} --json"))} == {}
        assert cli("get", "evil", "--json").json["memories"][0]["content"] == f"badger {EVIL}"

    def find_steering(self, cli: CommandLine, command: str) -> list[str]:
        done = cli(*command.split())
        return STEERING.findall(done.out + done.err)

    def test_is_exported_to_a_pipe_as_it_is(self, cli: CommandLine) -> None:
        done = cli.spawn("export", "-")

        assert "\u202e" in done.out

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
    def test_is_escaped_in_an_export_to_a_terminal(self, cli: CommandLine) -> None:
        from terminal import terminal

        with terminal("export", "-", environment=os.environ) as screen:
            code, shown = screen.end()

        assert code == 0
        assert STEERING.findall(shown.replace("\r", "")) == []
        assert "\\u202eyes" in shown


def test_settings_and_their_files_are_printed_without_control_characters(cli: CommandLine) -> None:
    folder = cli.work / f"of {EVIL.replace('/', '')}"
    folder.mkdir()
    os.chdir(folder)
    (folder / "memorist.toml").write_text('namespace = "n"\n')

    printed = [
        cli("config"),
        cli("config", "set", "--project", "project", EVIL),
        cli("config", "unset", "--project", "project"),
        cli("config", "unset", "--project", "project"),
        cli("list", f"--{EVIL}"),
        cli(EVIL),
        cli("import", f"missing {EVIL}"),
    ]

    assert_harmless("".join(done.out + done.err for done in printed))


def test_the_changes_of_a_clients_config_are_printed_without_control_characters(cli: CommandLine) -> None:
    (cli.home / ".cursor").mkdir()
    (cli.home / ".cursor" / "mcp.json").write_text('{"mcpServers": {}, "note": "x\x7f\x9b\u202e"}')

    done = cli("install", "cursor", "--dry-run")

    assert "memorist" in done.out
    assert_harmless(done.out + done.err)


def test_a_line_of_the_servers_log_is_one_line() -> None:
    import logging

    record = logging.LogRecord("memorist", logging.WARNING, "", 1, "it failed: %s", (f"{EVIL}\nERROR a lie",), None)

    line = _LineFormatter("%(levelname)s %(message)s").format(record)

    assert line.count("\n") == 0
    assert_harmless(line)


def test_the_log_of_hooks_steers_no_terminal(tmp_path: Path) -> None:
    log = _HookLog(tmp_path / "hooks.log", str)

    log.write_error("Stop", memorist.EmbedderError(f"{EVIL}\nError: a lie"))
    log.write_error("Stop", ValueError(EVIL))

    text = (tmp_path / "hooks.log").read_text("utf-8")
    assert_harmless(text)
    assert not re.search("^Error: a lie", text, re.MULTILINE)
