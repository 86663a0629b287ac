"""`memorist install`: each client's config, with ours in it and everything else as it was."""

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, CommandResult

from memorist import ConfigError
from memorist.install import config_edits
from memorist.install.clients import CLIENTS, PROJECT, USER, ConfigPaths

IN_BOTH = [name for name, client in CLIENTS.items() if PROJECT in client.server_files]
HOOKED = [name for name, client in CLIENTS.items() if client.hooks]


class Machine:
    """A user's home, with clients in it."""

    def __init__(self, cli: CommandLine) -> None:
        self.cli = cli

    def install(self, *arguments: str) -> CommandResult:
        return self.cli("install", *arguments)

    def file(self, template: str) -> Path:
        return ConfigPaths(self.cli.home, self.cli.work, os.environ).expand(template)

    def files(self, name: str, scope: str) -> list[Path]:
        client = CLIENTS[name]
        templates = [client.server_files[scope], *([client.hooks.files[scope]] if client.hooks else [])]
        return [self.file(template) for template in dict.fromkeys(templates)]

    @property
    def everything(self) -> dict[str, bytes]:
        """Every file there is."""
        places = [path for top in (self.cli.home, self.cli.work) for path in top.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in places}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    return Machine(CommandLine(tmp_path, monkeypatch, capsys))


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    return path


def read(path: Path) -> dict[str, Any]:
    text = path.read_text("utf-8")
    values: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return values


def commands(value: Any) -> list[str]:
    """All commands of hooks, wherever they are listed."""
    if isinstance(value, list):
        return [one for item in value for one in commands(item)]
    if isinstance(value, dict):
        own = [value["command"]] if isinstance(value.get("command"), str) else []
        return [*own, *(one for item in value.values() for one in commands(item))]
    return []


class TestEveryClient:
    @pytest.mark.parametrize("name", CLIENTS)
    def test_it_learns_of_the_server_by_its_full_path(self, machine: Machine, name: str) -> None:
        machine.install(name)

        client = CLIENTS[name]
        entry = read(machine.files(name, USER)[0])[client.server_key]["memorist"]
        words = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
        assert words[-1] == "mcp"
        assert Path(words[0]).is_absolute()
        assert os.access(words[0], os.X_OK)

    @pytest.mark.parametrize("name", HOOKED)
    def test_it_calls_the_hooks(self, machine: Machine, name: str) -> None:
        machine.install(name)

        hooks, client = read(machine.files(name, USER)[-1])["hooks"], CLIENTS[name].hooks
        assert client
        assert set(hooks) == set(client.events)
        for event in client.events:
            (command,) = commands(hooks[event])
            assert command.endswith(f" hook {event}")

    @pytest.mark.parametrize("name", IN_BOTH)
    def test_a_projects_files_name_no_path_of_this_machine(self, machine: Machine, name: str) -> None:
        machine.install(name, "--scope", "project")

        assert not any(file.exists() for file in machine.files(name, USER))
        for file in machine.files(name, PROJECT):
            text = file.read_text("utf-8")
            assert "memorist" in text
            assert str(machine.cli.home.parent) not in text
            assert os.sep + "bin" not in text

    @pytest.mark.parametrize("name", CLIENTS)
    def test_installing_twice_is_installing_once(self, machine: Machine, name: str) -> None:
        machine.install(name)
        before = machine.everything

        again = machine.install(name)

        assert (again.code, again.out) == (0, "")
        assert "Nothing to change" in again.err
        assert machine.everything == before

    @pytest.mark.parametrize("scope", [USER, PROJECT])
    @pytest.mark.parametrize("name", CLIENTS)
    def test_removing_takes_out_what_installing_put_in(self, machine: Machine, name: str, scope: str) -> None:
        if scope not in CLIENTS[name].server_files:
            machine.install(name, "--scope", scope).assert_failed(1, "its scope is user")
            return
        mine = {".json": '{"mine": {"a": 1}, "list": [1,2]}', ".toml": '# mine\nmodel = "x"\n'}
        for file in machine.files(name, scope):
            written(file, mine[file.suffix])
        before = machine.everything

        machine.install(name, "--scope", scope)
        machine.install(name, "--scope", scope, "--remove")

        kept = {file: data for file, data in machine.everything.items() if ".before-memorist" not in file}
        if name == "cursor":  # which does not read a file of hooks without its version
            kept = {file: data.replace(b', "version": 1', b"") for file, data in kept.items()}
        assert kept == before

    @pytest.mark.parametrize("name", CLIENTS)
    def test_a_file_that_held_nothing_but_ours_goes(self, machine: Machine, name: str) -> None:
        machine.install(name)
        machine.install(name, "--remove")

        assert [file for file in machine.everything if ".before-memorist" not in file] == []

    @pytest.mark.parametrize("name", CLIENTS)
    def test_removing_where_nothing_is_changes_nothing(self, machine: Machine, name: str) -> None:
        done = machine.install(name, "--remove")

        assert (done.code, done.out) == (0, "")
        assert done.err == f"Nothing to remove: {CLIENTS[name].title} is not set up.\n"
        assert machine.everything == {}

    @pytest.mark.parametrize("name", CLIENTS)
    def test_a_dry_run_shows_a_diff_and_changes_nothing(self, machine: Machine, name: str) -> None:
        done = machine.install(name, "--dry-run")

        assert machine.everything == {}
        for file in machine.files(name, USER):
            assert f"+++ {file}" in done.lines
        assert any(line.startswith("+") and "memorist" in line for line in done.lines)

    @pytest.mark.parametrize("name", CLIENTS)
    def test_a_file_that_is_broken_is_left_alone(self, machine: Machine, name: str) -> None:
        for file in machine.files(name, USER):
            written(file, '{"mine": ' if file.suffix == ".json" else "mine = [\n")
        before = machine.everything

        for options in ((), ("--remove",), ("--dry-run",)):
            machine.install(name, *options).assert_failed(1, "was left as it is")

        assert machine.everything == before


class TestOthersEntries:
    SETTINGS = """\
{
  "model": "opus",
  "hooks": {
    "SessionStart": [
      {"matcher": "startup", "hooks": [{"type": "command", "command": "my-memorist hook SessionStart"}]}
    ],
    "UserPromptSubmit": [
      {
        "hooks": [
          {"type": "command", "command": "date"}
        ]
      }
    ],
    "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]
  },
  "permissions": {"allow": ["Bash(ls:*)"]}
}
"""

    def test_hooks_of_others_stay_beside_ours(self, machine: Machine) -> None:
        file = written(machine.file("{claude}/settings.json"), self.SETTINGS)

        machine.install("claude-code")

        hooks = read(file)["hooks"]
        assert commands(hooks["SessionStart"])[0] == "my-memorist hook SessionStart"
        assert commands(hooks["UserPromptSubmit"])[0] == "date"
        assert commands(hooks["Stop"]) == ["say done"]
        assert all(len(commands(hooks[event])) == 2 for event in ("SessionStart", "UserPromptSubmit"))

        machine.install("claude-code", "--remove")

        assert file.read_text("utf-8") == self.SETTINGS

    def test_in_a_group_with_others_only_ours_goes(self, machine: Machine) -> None:
        ours, other = ({"type": "command", "command": one} for one in ("/opt/memorist hook SessionStart", "date"))
        file = written(
            machine.file("{claude}/settings.json"), json.dumps({"hooks": {"SessionStart": [{"hooks": [other, ours]}]}})
        )

        machine.install("claude-code", "--remove")

        assert read(file) == {"hooks": {"SessionStart": [{"hooks": [other]}]}}

    @pytest.mark.parametrize(
        "command",
        [
            "/old/place/memorist hook SessionStart",
            "'/a b/memorist' --namespace work hook SessionStart",
            '"C:\\\\Users\\\\a\\\\memorist.exe" hook SessionStart',
            "/usr/bin/python3 -m memorist --db '/a b/m.db' hook SessionStart",
        ],
    )
    def test_a_hook_of_ours_from_another_place_is_replaced(self, machine: Machine, command: str) -> None:
        entry = {"hooks": [{"type": "command", "command": command.replace("\\\\", "\\"), "timeout": 60}]}
        file = written(machine.file("{claude}/settings.json"), json.dumps({"hooks": {"SessionStart": [entry]}}))

        machine.install("claude-code")

        (now,) = commands(read(file)["hooks"]["SessionStart"])
        assert now != entry["hooks"][0]["command"]
        assert now.endswith(" hook SessionStart")

    def test_what_a_user_added_to_the_server_stays(self, machine: Machine) -> None:
        mine = {"command": "/old/memorist", "args": ["mcp"], "env": {"MEMORIST_DB": "/data/m.db"}}
        file = written(machine.file("{home}/.cursor/mcp.json"), json.dumps({"mcpServers": {"memorist": mine}}))

        machine.install("cursor")

        entry = read(file)["mcpServers"]["memorist"]
        assert entry["env"] == {"MEMORIST_DB": "/data/m.db"}
        assert entry["command"] != "/old/memorist"

    def test_comments_stay_where_the_client_allows_them(self, machine: Machine) -> None:
        text = '{\n  // my theme\n  "theme": "One Dark", // dark\n}\n'
        file = written(machine.file("{zed}/settings.json"), text)

        machine.install("zed")

        assert file.read_text("utf-8").startswith(
            '{\n  // my theme\n  "theme": "One Dark", // dark\n  "context_servers"'
        )
        machine.install("zed", "--remove")
        assert file.read_text("utf-8") == text

    @pytest.mark.parametrize(
        ("values", "about"),
        [({"hooks": []}, '"hooks" in it is not an object'), ({"hooks": {"SessionStart": {}}}, "is not a list")],
    )
    def test_hooks_in_a_form_nobody_knows_are_left_alone(
        self, machine: Machine, values: dict[str, Any], about: str
    ) -> None:
        file = written(machine.file("{claude}/settings.json"), json.dumps(values))

        machine.install("claude-code").assert_failed(1, about)

        assert read(file) == values
        assert not machine.file("{claude.json}/.claude.json").exists()

    def test_opencode_keeps_the_file_with_comments_it_has(self, machine: Machine) -> None:
        file = written(machine.file("{config}/opencode/opencode.jsonc"), '{\n  "model": "x", // mine\n}\n')

        machine.install("opencode")

        assert '"memorist"' in file.read_text("utf-8")
        assert not file.with_suffix(".json").exists()

    @pytest.mark.parametrize(
        "text",
        [
            "{\n  // mine\n}\n",
            '{\n  // mine\n  "theme": 1\n}\n',
            '{\n  "mcpServers": {\n    // the one for files is broken\n  }\n}\n',
        ],
    )
    def test_a_comment_stays_where_nothing_else_does(self, machine: Machine, text: str) -> None:
        file = written(machine.file("{home}/.cursor/mcp.json"), text)

        machine.install("cursor")
        machine.install("cursor", "--remove")

        kept = file.read_text("utf-8")
        assert [line.strip() for line in kept.splitlines()] == [line.strip() for line in text.splitlines()]

    def test_a_comment_stays_in_toml_too(self, machine: Machine) -> None:
        file = written(machine.file("{codex}/config.toml"), "# to be filled\n")

        machine.install("codex")
        machine.install("codex", "--remove")

        assert file.read_text("utf-8") == "# to be filled\n"

    def test_a_list_that_was_empty_before_stays(self, machine: Machine) -> None:
        text = '{\n  "hooks": {\n    "Stop": []\n  }\n}\n'
        file = written(machine.file("{claude}/settings.json"), text)

        machine.install("claude-code")
        assert read(file)["hooks"]["Stop"] == []
        machine.install("claude-code", "--remove")

        assert file.read_text("utf-8") == text

    @pytest.mark.parametrize("options", [(), ("--remove",)])
    def test_a_name_that_stands_there_twice_is_left_alone(self, machine: Machine, options: tuple[str, ...]) -> None:
        text = '{"mcpServers": {"memorist": {"command": "x"}}, "b": 2, "mcpServers": {"memorist": {"command": "y"}}}'
        file = written(machine.file("{home}/.cursor/mcp.json"), text)

        machine.install("cursor", *options).assert_failed(1, '"mcpServers" occurs twice')

        assert file.read_text("utf-8") == text


class TestFiles:
    @pytest.mark.parametrize("before", [None, '{"mine": 1}'])
    def test_a_file_that_another_program_wrote_in_the_meantime_is_left_alone(
        self, machine: Machine, before: str | None
    ) -> None:
        file = machine.file("{home}/.cursor/mcp.json")
        if before:
            written(file, before)
        places = ConfigPaths(machine.cli.home, machine.cli.work, os.environ)
        changes = config_edits.plan_install(CLIENTS["cursor"], USER, places, ["memorist"])
        written(file, '{"precious": 1}')

        with pytest.raises(ConfigError, match="in the meantime"):
            config_edits.write_changes(changes)

        assert file.read_text("utf-8") == '{"precious": 1}'

    def test_what_was_there_is_kept_beside_it_each_time(self, machine: Machine) -> None:
        file = written(machine.file("{home}/.cursor/mcp.json"), '{"mine": 1}')

        machine.install("cursor")
        machine.install("cursor", "--remove")

        copies = sorted(file.parent.glob("mcp.json.before-memorist*"))
        assert [copy.name for copy in copies] == ["mcp.json.before-memorist", "mcp.json.before-memorist-2"]
        assert copies[0].read_text() == '{"mine": 1}'
        assert "memorist" in copies[1].read_text()

    def test_a_file_that_is_private_stays_private_and_so_does_its_copy(self, machine: Machine) -> None:
        file = written(machine.file("{claude.json}/.claude.json"), '{"key": "secret"}')
        file.chmod(0o600)

        machine.install("claude-code")

        for path in (file, file.with_name(".claude.json.before-memorist")):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_link_stays_a_link(self, machine: Machine) -> None:
        real = written(machine.cli.home / "dotfiles" / "mcp.json", '{"mine": 1}')
        link = machine.file("{home}/.cursor/mcp.json")
        link.parent.mkdir()
        link.symlink_to(real)

        machine.install("cursor")

        assert link.is_symlink()
        assert "memorist" in real.read_text()

    def test_a_folder_that_cannot_be_written_is_one_clear_line(self, machine: Machine) -> None:
        if os.geteuid() == 0:
            written(machine.cli.home / ".cursor", "a file in the place of the folder")
        else:
            (machine.cli.home / ".cursor").mkdir(mode=0o500)

        machine.install("cursor").assert_failed(1, ".cursor")

    def test_clients_that_let_their_folder_be_moved_are_found_there(
        self, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
            monkeypatch.setenv(variable, str(machine.cli.home / variable))

        machine.install("claude-code")
        machine.install("codex")

        assert sorted(Path(file).relative_to(machine.cli.home).as_posix() for file in machine.everything) == [
            "CLAUDE_CONFIG_DIR/.claude.json",
            "CLAUDE_CONFIG_DIR/settings.json",
            "CODEX_HOME/config.toml",
            "CODEX_HOME/hooks.json",
        ]


class TestOptions:
    def test_without_hooks_only_the_server_is_installed(self, machine: Machine) -> None:
        machine.install("claude-code", "--no-hooks")

        assert machine.file("{claude.json}/.claude.json").exists()
        assert not machine.file("{claude}/settings.json").exists()

    @pytest.mark.parametrize("name", HOOKED)
    def test_without_hooks_those_that_are_there_go(self, machine: Machine, name: str) -> None:
        machine.install(name, "--no-hooks")
        before = {file: data for file, data in machine.everything.items() if ".before-memorist" not in file}
        machine.install(name)

        machine.install(name, "--no-hooks")

        assert {file: data for file, data in machine.everything.items() if ".before-memorist" not in file} == before
        assert machine.install(name, "--no-hooks").out == ""

    def test_a_database_and_a_namespace_go_with_it(self, machine: Machine) -> None:
        machine.cli("--db", "team.db", "--namespace", "work", "install", "claude-code")

        options = ["--db", str(machine.cli.work / "team.db"), "--namespace", "work"]
        entry = read(machine.file("{claude.json}/.claude.json"))["mcpServers"]["memorist"]
        assert entry["args"] == [*options, "mcp"]
        assert commands(read(machine.file("{claude}/settings.json")))[0].endswith(
            f" {' '.join(options)} hook SessionStart"
        )
        machine.install("claude-code", "--remove")
        assert [file for file in machine.everything if ".before-memorist" not in file] == []

    @pytest.mark.parametrize(
        ("arguments", "about"), [(["emacs"], "claude-code"), (["codex", "--scope", "all"], "user")]
    )
    def test_what_there_is_not_is_refused(self, machine: Machine, arguments: list[str], about: str) -> None:
        machine.install(*arguments).assert_failed(1, about)

    @pytest.mark.parametrize("option", ["--remove", "--dry-run"])
    def test_there_is_no_changing_all_clients_at_once(self, machine: Machine, option: str) -> None:
        machine.install(option).assert_failed(2, "name the client")

    def test_json_tells_what_changed(self, machine: Machine) -> None:
        told = machine.install("codex", "--dry-run", "--json").json

        assert (told["client"], told["scope"], told["copies"]) == ("codex", "user", [])
        assert [change["file"] for change in told["changes"]] == list(map(str, machine.files("codex", USER)))
        assert all("memorist" in change["diff"] for change in told["changes"])


class TestListing:
    def test_it_says_which_clients_are_there_and_which_know_of_us(self, machine: Machine) -> None:
        (machine.cli.home / ".gemini").mkdir()
        machine.install("cursor")
        machine.install("codex", "--scope", "project", "--no-hooks")

        clients = {client["name"]: client for client in machine.install("--json").json["clients"]}

        assert list(clients) == list(CLIENTS)
        assert clients["cursor"]["installed"] == {"user": ["server", "hooks"]}
        assert clients["codex"]["installed"] == {"project": ["server"]}
        assert [name for name, client in clients.items() if client["detected"]] == ["cursor", "gemini-cli"]
        assert clients["gemini-cli"]["installed"] == {}
        lines = machine.install().lines
        assert [line.split() for line in lines if "cursor" in line] == [["cursor", "server", "and", "hooks", "(user)"]]

    def test_a_file_that_cannot_be_opened_hides_no_other(self, machine: Machine) -> None:
        machine.file("{home}/.cursor/mcp.json").mkdir(parents=True)
        machine.install("zed")

        clients = {client["name"]: client for client in machine.install("--json").json["clients"]}

        assert "mcp.json" in clients["cursor"]["problem"]
        assert clients["zed"]["installed"] == {"user": ["server"]}

    def test_a_broken_file_of_one_client_hides_no_other(self, machine: Machine) -> None:
        written(machine.file("{home}/.cursor/mcp.json"), "{")
        machine.install("zed")

        clients = {client["name"]: client for client in machine.install("--json").json["clients"]}

        assert "not JSON" in clients["cursor"]["problem"]
        assert clients["zed"]["installed"] == {"user": ["server"]}
