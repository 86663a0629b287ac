"""Redaction from the command line: set by file, environment and flag, and told on stderr without the secret."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
MARK = "[redacted:github-token]"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> None:
    monkeypatch.setenv("MEMORIST_REDACT", "1")


class TestSetting:
    def test_off_unless_set(self, cli: CommandLine) -> None:
        done = cli("add", f"key {TOKEN}")

        assert cli.contents() == [f"key {TOKEN}"]
        assert done.err == ""

    def test_facts_and_summaries_of_sessions_are_redacted_unless_it_is_off(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        id = cli.add("a memory")
        session = cli("session", "start", "--summary", f"about {TOKEN}")
        fact = cli("fact", "add", id, f"its key is {TOKEN}")
        monkeypatch.setenv("MEMORIST_REDACT", "off")
        kept = cli("fact", "add", id, f"another key is {TOKEN}")

        assert "Redacted: 1 github-token" in session.err
        assert "Redacted: 1 github-token" in fact.err
        assert MARK in fact.out
        assert TOKEN in kept.out
        assert kept.err == ""

    def test_by_file(self, cli: CommandLine) -> None:
        cli.settings.write_text("redact = true\nredact_allow = ['/^ghp_zz/']\n")

        cli.add(f"key {TOKEN}")

        assert cli.contents() == [f"key {MARK}"]
        assert cli("config", "--json").json["redact_allow"] == ["/^ghp_zz/"]

    def test_a_projects_file_switches_it_on(self, cli: CommandLine) -> None:
        (cli.work / "memorist.toml").write_text("redact = true\n")

        cli.add(f"key {TOKEN}")

        assert cli.contents() == [f"key {MARK}"]

    @pytest.mark.parametrize("line", ["redact = false", "redact_allow = ['/.*/']"])
    def test_a_projects_file_neither_switches_it_off_nor_makes_exceptions(self, cli: CommandLine, line: str) -> None:
        (cli.work / "memorist.toml").write_text(line)

        cli("add", f"key {TOKEN}").assert_failed(1, "memorist.toml")

        assert not cli.database.exists()

    @pytest.mark.parametrize("value", ["1", "true", "Yes", "ON"])
    def test_by_environment(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        monkeypatch.setenv("MEMORIST_REDACT", value)
        cli.add(f"key {TOKEN}")
        monkeypatch.setenv("MEMORIST_REDACT", "off")
        cli.add(f"open {TOKEN}")

        assert cli.contents() == [f"open {TOKEN}", f"key {MARK}"]

    @pytest.mark.parametrize("value", ["/^ghp_aB/", TOKEN, json.dumps(["none", "/E3fG5$/"])])
    def test_what_is_allowed_by_environment(
        self, cli: CommandLine, on: None, monkeypatch: pytest.MonkeyPatch, value: str
    ) -> None:
        monkeypatch.setenv("MEMORIST_REDACT_ALLOW", value)
        cli.add(f"key {TOKEN}")

        assert cli.contents() == [f"key {TOKEN}"]

    def test_a_flag_counts_most(self, cli: CommandLine, on: None) -> None:
        cli.add(f"open {TOKEN}", "--no-redact")
        cli.settings.write_text("redact = false\n")
        id = cli.add(f"key {TOKEN}", "--redact")
        assert cli.contents() == [f"key {MARK}", f"open {TOKEN}"]

        cli("update", id, f"again {TOKEN}", "--no-redact")
        assert cli("get", id, "--json").json["memories"][0]["content"] == f"again {TOKEN}"
        cli("update", id, f"once more {TOKEN}", "--redact")
        assert cli("get", id, "--json").json["memories"][0]["content"] == f"once more {MARK}"

    def test_set_by_command(self, cli: CommandLine) -> None:
        cli("config", "set", "redact", "yes")
        cli("config", "set", "redact_allow", '["/^ghp_zz/", "a \\"quoted\\" one"]')

        settings = cli("config", "--json").json

        assert settings["redact"] is True
        assert settings["redact_allow"] == ["/^ghp_zz/", 'a "quoted" one']
        cli("config", "set", "redact_allow", "/x y/")
        assert cli("config", "--json").json["redact_allow"] == ["/x y/"]

    def test_a_value_of_several_lines_is_replaced_whole(self, cli: CommandLine) -> None:
        (file := cli.settings).write_text('redact_allow = [\n  "one",\n  "two",\n]\nredact = true\n')

        cli("config", "set", "redact_allow", "three")

        assert file.read_text() == 'redact_allow = ["three"]\nredact = true\n'

    @pytest.mark.parametrize(
        ("text", "about"),
        [
            ('redact = "maybe"', "true or false"),
            ("redact = 1", "true or false"),
            ('redact_allow = "one"', "a list of texts"),
            ("redact_allow = [5]", "must be text"),
            ('redact_allow = ["/(/"]', "regular expression"),
        ],
    )
    def test_what_cannot_be_used_is_said(self, cli: CommandLine, text: str, about: str) -> None:
        cli.settings.write_text(text)

        cli("list").assert_failed(1, about)


class TestReport:
    @pytest.fixture(autouse=True)
    def _on(self, on: None) -> None: ...

    def test_add_says_it_on_stderr(self, cli: CommandLine) -> None:
        done = cli("add", f"one\ntwo\nthe token: {TOKEN}")

        assert done.err == "Redacted: 1 github-token (line 3, column 12)\n"
        assert TOKEN not in done.out + done.err

    def test_with_json_on_stdout_too(self, cli: CommandLine) -> None:
        done = cli("add", f"key {TOKEN}", "--title", f"a {TOKEN}", "--fact", f"is {TOKEN}", "--json")

        assert [entry.get("field") for entry in done.json["metadata"]["redacted"]] == [None, "title", "facts"]
        assert done.err == (
            "Redacted: 3 github-token (line 1, column 5; line 1, column 3 of title; line 1, column 4 of facts)\n"
        )

    def test_also_where_it_is_known_already(self, cli: CommandLine) -> None:
        cli.add(f"key {TOKEN}")

        assert cli("add", f"key {TOKEN}", "--fact", f"is {TOKEN}").err.count("github-token (line 1, column 5;") == 1

    def test_many_are_counted(self, cli: CommandLine) -> None:
        lines = [json.dumps({"content": f"note {number} {TOKEN}"}) for number in range(3)] + ['"plain"']

        done = cli("add", "--jsonl", "-", stdin="\n".join(lines))

        assert done.err == "Redacted: 3 github-token\n"
        assert not any(TOKEN in text for text in cli.contents())

    def test_update_tells_of_what_was_given_now(self, cli: CommandLine) -> None:
        id = cli.add(f"key {TOKEN}", "--title", f"a {TOKEN}")

        assert cli("update", id, f"now the key {TOKEN}").err == "Redacted: 1 github-token (line 1, column 13)\n"
        assert cli("update", id, "--tag", "x").err == ""

    def test_facts_and_sessions_tell_it_too(self, cli: CommandLine) -> None:
        id = cli.add("fine")

        noted = cli("fact", "add", id, f"is {TOKEN}", "--object", TOKEN)
        assert noted.err == "Redacted: 2 github-token (line 1, column 4 of text; line 1, column 1 of object)\n"
        started = cli("session", "start", "--id", "s-1", "--summary", f"on {TOKEN}")
        renamed = cli("session", "summarise", "s-1", f"on {TOKEN}")
        ended = cli("session", "end", "s-1", "--summary", f"on {TOKEN}")
        assert {one.err for one in (started, renamed, ended)} == {
            "Redacted: 1 github-token (line 1, column 4 of summary)\n"
        }
        assert TOKEN not in noted.out + renamed.out + ended.out

    def test_nothing_to_tell_is_nothing_said(self, cli: CommandLine) -> None:
        assert cli("add", "fine").err == ""
