"""`memorist mcp` before it serves: the extra it needs, and settings that are secrets."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("arguments", [["mcp"], ["mcp", "--http", "127.0.0.1:0"]])
def test_without_its_extra_it_names_the_cure(cli: CommandLine, arguments: list[str]) -> None:
    code = f"""
import sys
sys.modules["mcp"] = sys.modules["mcp_types"] = None
from memorist.cli.app import main
main({arguments!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == "Error: the MCP server needs an extra: pip install 'memorist[mcp]'\n"


def test_an_address_that_is_none_is_one_line(cli: CommandLine) -> None:
    cli("mcp", "--http", "nowhere").assert_failed(1, "HOST:PORT")


def test_names_without_http_are_wrong_usage(cli: CommandLine) -> None:
    assert cli("mcp", "--allow-host", "memory.example").code == 2


class TestTheToken:
    def test_is_never_shown(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MEMORIST_HTTP_TOKEN", TOKEN)

        for shown in (cli("config"), cli("config", "--json")):
            assert TOKEN not in shown.out + shown.err
        assert cli("config", "--json").json["http_token"] == "(set)"

    @pytest.mark.parametrize("value", ["8123456789012345678", '["8123456789012345678"]', '"812345678901234"'])
    def test_is_not_shown_where_it_is_wrong_either(self, cli: CommandLine, value: str) -> None:
        cli.settings.write_text(f"http_token = {value}\n")

        done = cli("config")

        done.assert_failed(1, "http_token")
        assert "81234567" not in done.err

    def test_does_not_belong_on_a_command_line(self, cli: CommandLine) -> None:
        done = cli("config", "set", "http_token", TOKEN)

        assert done.code == 2
        assert TOKEN not in done.err
        assert not cli.settings.read_text()

    def test_does_not_belong_in_a_project(self, cli: CommandLine) -> None:
        (cli.work / "memorist.toml").write_text(f'http_token = "{TOKEN}"\n')

        done = cli("config")

        done.assert_failed(1, "secret")
        assert TOKEN not in done.err

    @pytest.mark.parametrize("weak", ["short", "with a space in the middle", "mit-ümlaut-und-genug-zeichen"])
    def test_is_long_and_plain(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, weak: str) -> None:
        monkeypatch.setenv("MEMORIST_HTTP_TOKEN", weak)

        done = cli("mcp", "--http", "127.0.0.1:0")

        done.assert_failed(1, "16 or more")
        assert weak not in done.err


def test_an_answer_cannot_be_set_too_short_to_hold_anything(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORIST_ANSWER_TOKENS", "10")

    cli("config").assert_failed(1, "answer_tokens")
