"""`memorist trust`: a project's settings count for agents once the user has approved them, as they are then."""

from pathlib import Path

import pytest
from command_line import CommandLine


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def file(cli: CommandLine) -> Path:
    file = cli.work / "memorist.toml"
    file.write_text('project = "payroll"\nlog_recalls = false\n')
    return file


def own_files(cli: CommandLine) -> list[Path]:
    return [path for path in cli.home.rglob("*") if path.is_file()]


class TestTrusting:
    def test_it_shows_what_is_approved(self, cli: CommandLine, file: Path) -> None:
        done = cli("trust", "--yes")

        assert (done.code, done.err) == (0, "")
        assert done.lines == ["project           payroll", "log_recalls       false", f"Trusted {file} as it is now."]

    def test_it_is_noted_among_the_users_own_files_and_nowhere_in_the_project(
        self, cli: CommandLine, file: Path
    ) -> None:
        cli("trust", "--yes")

        assert list(cli.work.iterdir()) == [file]
        (note,) = own_files(cli)
        assert note.stat().st_mode & 0o077 == 0

    def test_it_asks_first(self, cli: CommandLine, file: Path) -> None:
        assert cli("trust").code == 2
        assert own_files(cli) == []

    def test_the_nearest_file_is_meant_as_everywhere(
        self, cli: CommandLine, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (cli.work / "src").mkdir()
        monkeypatch.chdir(cli.work / "src")

        assert f"Trusted {file}" in cli("trust", "--yes").out

    def test_where_there_is_none_it_says_so(self, cli: CommandLine) -> None:
        cli("trust", "--yes").assert_failed(1, "no memorist.toml")

    @pytest.mark.parametrize("text", ["colour = 1", "chat = 'openai:x'", "redact = false", "a = " + "[" * 10_000])
    def test_what_could_not_be_used_is_not_approved(self, cli: CommandLine, file: Path, text: str) -> None:
        file.write_text(text)

        cli("trust", "--yes").assert_failed(1, str(file))
        assert own_files(cli) == []

    def test_trusted_files_are_listed_and_one_that_has_changed_is_not_among_them(
        self, cli: CommandLine, file: Path
    ) -> None:
        assert cli("trust", "--list").err == "Nothing is trusted.\n"
        cli("trust", "--yes")
        assert cli("trust", "--list").lines == [str(file)]
        assert cli("trust", "--list", "--json").json == {"trusted": [str(file)]}

        file.write_text("log_recalls = false\n")

        assert cli("trust", "--list").lines == []

    def test_trust_can_be_taken_back(self, cli: CommandLine, file: Path) -> None:
        cli("trust", "--yes")

        assert cli("trust", "--revoke").lines == [f"{file} is no longer trusted."]
        assert cli("trust", "--list").lines == []
        assert cli("trust", "--revoke").err == f"Nothing changed: {file} was not trusted.\n"

    def test_a_link_that_is_pointed_elsewhere_is_another_file(self, cli: CommandLine, file: Path) -> None:
        first, second = cli.work / "first", cli.work / "second"
        for folder, project in ((first, "one"), (second, "two")):
            folder.mkdir()
            (folder / "memorist.toml").write_text(f'project = "{project}"\n')
        link = cli.work / "link"
        link.symlink_to(first)
        cli("trust", str(link), "--yes")
        link.unlink()
        link.symlink_to(second)

        assert cli("trust", "--revoke", str(link)).err.startswith("Nothing changed")

    def test_control_characters_of_a_file_do_not_reach_the_terminal(self, cli: CommandLine, file: Path) -> None:
        file.write_text('project = "a\\u001b[2Jb"\n')

        assert "\x1b" not in cli("trust", "--yes").out


class TestAddressesInAFile:
    """A person who types a command in a folder has not read its settings either."""

    @pytest.fixture(autouse=True)
    def own_database(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MEMORIST_DB")
        cli.settings.write_text(f'database = "{cli.database}"\n')
        monkeypatch.setenv("PGPASSWORD", "hunter2")

    @pytest.mark.parametrize("setting", ["database", "models"])
    @pytest.mark.parametrize("address", ["postgresql://127.0.0.1:1/x", "//evil.example/share/x"])
    def test_nothing_is_sent_to_a_host_that_only_the_file_names(
        self, cli: CommandLine, file: Path, setting: str, address: str
    ) -> None:
        file.write_text(f"{setting} = '{address}'\n")

        cli("list").assert_failed(1, "memorist trust")

    def test_it_is_where_the_user_trusts_the_file(self, cli: CommandLine, file: Path) -> None:
        file.write_text("database = 'postgresql://127.0.0.1:1/x'\n")
        assert cli("trust", "--yes").code == 0

        done = cli("list")

        assert done.code == 1
        assert "memorist trust" not in done.err

    def test_an_address_that_the_user_names_instead_counts(
        self, cli: CommandLine, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.write_text("database = 'postgresql://127.0.0.1:1/x'\n")
        monkeypatch.setenv("MEMORIST_DB", str(cli.database))

        assert cli("list").code == 0

    @pytest.mark.parametrize(
        "content", [b"a = " + b"[" * 10_000, b"#" * 20_000, b".".join([b"a"] * 5_000) + b" = 1"], ids=["a", "b", "c"]
    )
    def test_a_file_no_one_would_write_is_one_clear_line(self, cli: CommandLine, file: Path, content: bytes) -> None:
        file.write_bytes(content)

        cli("list").assert_failed(1, str(file))
