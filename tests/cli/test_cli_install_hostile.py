"""`memorist install` on config files that nobody would write by hand, or that came with a folder from somewhere."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine

from memorist.install.clients import CLIENTS, PROJECT, USER, ConfigPaths

IN_PROJECTS = [name for name, client in CLIENTS.items() if PROJECT in client.server_files]
OURS = {"command": "/old/memorist", "args": ["mcp"]}


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(tmp_path, monkeypatch, capsys)


def files_of(cli: CommandLine, name: str, scope: str) -> list[Path]:
    client = CLIENTS[name]
    paths = ConfigPaths(cli.home, cli.work, os.environ)
    templates = [client.server_files[scope], *([client.hooks.files[scope]] if client.hooks else [])]
    files = [paths.expand(template) for template in dict.fromkeys(templates)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
    return files


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestLinksInAProject:
    @pytest.mark.parametrize("name", IN_PROJECTS)
    def test_one_that_leads_out_of_it_is_not_followed(self, cli: CommandLine, name: str) -> None:
        for file in files_of(cli, name, PROJECT):
            file.symlink_to(cli.home / f"{file.name}-of-the-user")

        cli("install", name, "--scope", PROJECT).assert_failed(1, "leads out of the project")

        assert everything(cli.home) == {}

    def test_a_folder_that_leads_out_of_it_is_not_followed(self, cli: CommandLine) -> None:
        (cli.work / ".cursor").symlink_to(cli.home)

        cli("install", "cursor", "--scope", PROJECT).assert_failed(1, "leads out of the project")

        assert everything(cli.home) == {}

    @pytest.mark.parametrize("name", IN_PROJECTS)
    def test_a_copy_of_the_old_file_is_not_written_through_one(self, cli: CommandLine, name: str) -> None:
        """Whoever made the project chose what the old file says and where its copy would go: a shell's profile."""
        victim = cli.home / ".bash_profile"
        for file in files_of(cli, name, PROJECT):
            file.write_text('# $(evil)\nx = "$(evil)"\n' if file.suffix == ".toml" else '{"x": "$(evil)"}')
            file.with_name(f"{file.name}.before-memorist").symlink_to(victim)

        assert cli("install", name, "--scope", PROJECT).code == 0

        assert not victim.exists()

    @pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="this system has no such device")
    @pytest.mark.parametrize("arguments", [(), ("cursor", "--scope", "project"), ("cursor", "--remove")])
    def test_a_device_without_an_end_is_not_read(self, cli: CommandLine, arguments: tuple[str, ...]) -> None:
        for scope in (USER, PROJECT):
            files_of(cli, "cursor", scope)[0].symlink_to("/dev/zero")

        done = cli("install", *arguments)

        assert done.code == (1 if arguments else 0)
        assert "not a file" in done.err + done.out or "leads out" in done.err + done.out

    def test_a_pipe_is_not_waited_for(self, cli: CommandLine) -> None:
        os.mkfifo(files_of(cli, "cursor", PROJECT)[0])

        cli("install", "cursor", "--scope", PROJECT).assert_failed(1, "not a file")

    def test_what_is_far_too_long_is_not_read(self, cli: CommandLine) -> None:
        with files_of(cli, "cursor", USER)[0].open("wb") as file:
            file.truncate(10**12)

        cli("install", "cursor").assert_failed(1, "longer than")


class TestForms:
    @pytest.mark.parametrize("name", CLIENTS)
    @pytest.mark.parametrize(
        "entry",
        [
            {"command": "/mine/wrapper", "args": ["--for", "memorist"]},
            {"url": "https://example.com/mcp"},
            {"command": ["docker", "run", "memories"]},
            {"command": 5},
        ],
        ids=["wrapper", "url", "docker", "number"],
    )
    def test_a_server_of_the_users_own_under_our_name_is_left_alone(
        self, cli: CommandLine, name: str, entry: dict[str, Any]
    ) -> None:
        file = files_of(cli, name, USER)[0]
        if file.suffix == ".toml":
            key, value = next(iter(entry.items()))
            file.write_text(f"[mcp_servers.memorist]\n{key} = {json.dumps(value)}\n")
        else:
            file.write_text(json.dumps({CLIENTS[name].server_key: {"memorist": entry}}))
        before = everything(cli.home)

        cli("install", name).assert_failed(1, "of your own")
        assert cli("install", name, "--remove").err.startswith("Nothing to remove")

        assert everything(cli.home) == before

    def test_our_server_is_known_with_the_options_that_a_user_gave_it(self, cli: CommandLine) -> None:
        file = files_of(cli, "cursor", USER)[0]
        entry = {"command": "/old/memorist", "args": ["mcp", "--read-only"]}
        file.write_text(json.dumps({"mcpServers": {"memorist": entry}}))

        assert cli("install", "cursor", "--remove").code == 0

        assert not file.exists() or "memorist" not in file.read_text()

    @pytest.mark.parametrize("value", [[], "x", 5, None, True])
    def test_an_entry_that_is_no_object_is_left_alone(self, cli: CommandLine, value: Any) -> None:
        file = files_of(cli, "cursor", USER)[0]
        file.write_text(json.dumps({"mcpServers": {"memorist": value}}))

        cli("install", "cursor").assert_failed(1, "of your own")

    @pytest.mark.parametrize("name", CLIENTS)
    @pytest.mark.parametrize("depth", [300, 900, 5000, 200_000])
    def test_deep_nesting_is_kept_or_refused(self, cli: CommandLine, name: str, depth: int) -> None:
        for file in files_of(cli, name, USER):
            value = "[" * depth + "]" * depth
            file.write_text(f"a = {value}\n" if file.suffix == ".toml" else f'{{"a": {value}}}')
        before = everything(cli.home)

        done = cli("install", name)

        if done.code == 0:
            assert cli("install", name, "--remove").code == 0
        else:
            done.assert_failed(1, "left as it is")
        assert before.items() <= everything(cli.home).items()

    def test_half_a_character_in_another_hook_is_kept(self, cli: CommandLine) -> None:
        hook = '{"hooks": [{"command": "memorist hook SessionStart"}, {"command": "\\ud800"}]}'
        file = files_of(cli, "claude-code", USER)[1]
        file.write_text(f'{{"hooks": {{"SessionStart": [{hook}]}}}}')

        assert cli("install", "claude-code").code == 0

        assert "\\ud800" in file.read_text("utf-8")

    @pytest.mark.parametrize("text", ["/* " * 200_000, '"\\' * 200_000], ids=["comments", "texts"])
    def test_a_file_that_is_made_to_be_slow_is_not(self, cli: CommandLine, text: str) -> None:
        """Where each opening is searched to the end of the file for its close, this takes hours."""
        files_of(cli, "cursor", USER)[0].write_text(text)

        cli("install", "cursor").assert_failed(1, "not JSON")

    def test_a_diff_cannot_steer_the_terminal(self, cli: CommandLine) -> None:
        files_of(cli, "cursor", USER)[0].write_text('{\n  // \x1b[2J\x9b2J\u202e\n  "a": 1\n}\n')

        done = cli("install", "cursor", "--dry-run")

        assert done.code == 0
        assert not {"\x1b", "\x9b", "\u202e"} & set(done.out)
        assert '+  "mcpServers": {\n' in done.out


class TestWriting:
    def test_a_file_that_is_read_only_is_left_alone(self, cli: CommandLine) -> None:
        server, hooks = files_of(cli, "claude-code", USER)
        server.write_text("{}")
        hooks.write_text("{}")
        hooks.chmod(0o400)
        before = everything(cli.home)

        cli("install", "claude-code").assert_failed(1, "read-only")

        assert everything(cli.home) == before

    def test_where_the_second_file_cannot_be_written_the_first_is_as_before(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server, hooks = files_of(cli, "claude-code", USER)
        server.write_text('{"mine": 1}')
        replace = os.replace

        def refuse(source: Any, target: Any, **options: Any) -> None:
            if Path(target) == hooks:
                raise OSError(28, "No space left on device", str(target))
            replace(source, target, **options)

        monkeypatch.setattr(os, "replace", refuse)
        cli("install", "claude-code").assert_failed(1, "No space left")

        assert server.read_text() == '{"mine": 1}'

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("zed", '{\n\t"context_servers": {},\n\t"x": 1\n}'),
            ("windsurf", '{"mcpServers": {}, "x": {}}'),
            ("gemini-cli", '\ufeff{\r\n  "hooks": {"SessionStart": []},\r\n  "mcpServers": {}\r\n}'),
            ("claude-code", "{}"),
            ("cursor", '{ "theme": true}'),
            ("codex", ""),
            ("opencode", "\n"),
        ],
    )
    def test_removing_brings_back_every_byte(self, cli: CommandLine, name: str, text: str) -> None:
        for file in files_of(cli, name, USER):
            file.write_bytes(text.encode())
        before = everything(cli.home)

        cli("install", name)
        cli("install", name)
        assert cli("install", name, "--remove").code == 0

        assert before.items() <= everything(cli.home).items()

    def test_what_was_changed_since_stays_when_ours_is_removed(self, cli: CommandLine) -> None:
        file = files_of(cli, "zed", USER)[0]
        file.write_text('{\n  "context_servers": {},\n  "x": 1\n}\n')
        cli("install", "zed")
        file.write_text(file.read_text().replace('"x": 1', '// new\n  "x": 1'))

        cli("install", "zed", "--remove")

        assert file.read_text() == '{\n  // new\n  "x": 1\n}\n'

    def test_a_private_file_comes_back_private(self, cli: CommandLine) -> None:
        file = files_of(cli, "windsurf", USER)[0]
        file.write_text("{}")
        file.chmod(0o600)

        cli("install", "windsurf")
        cli("install", "windsurf", "--remove")

        assert stat.S_IMODE(file.stat().st_mode) == 0o600
