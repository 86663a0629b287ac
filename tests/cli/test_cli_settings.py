"""Settings and where they come from; stats, check, reembed and demo."""

import json
import os
from pathlib import Path

import apsw
import pytest
from command_line import CommandLine

import memorist
from conftest import HashingEmbedder
from memorist.config import FORMER_NAME


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def user_file(cli: CommandLine) -> Path:
    return cli.settings


@pytest.fixture
def project_file(cli: CommandLine) -> Path:
    return cli.work / "memorist.toml"


class TestPrecedence:
    def test_flag_over_environment_over_project_over_user(
        self, cli: CommandLine, user_file: Path, project_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def namespace(*flags: str) -> str:
            value: str = cli(*flags, "config", "--json").json["namespace"]
            return value

        assert namespace() == "default"
        user_file.write_text('namespace = "of-user"')
        assert namespace() == "of-user"
        project_file.write_text('namespace = "of-project"')
        assert namespace() == "of-project"
        monkeypatch.setenv("MEMORIST_NAMESPACE", "of-environment")
        assert namespace() == "of-environment"
        assert namespace("--namespace", "of-flag") == "of-flag"

    def test_each_setting_comes_from_the_place_that_counts_most_for_it(
        self, cli: CommandLine, user_file: Path, project_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        user_file.write_text('profile = "rank"\nthreads = 3\nbusy_timeout = 7\n')
        project_file.write_text('profile = "notes"\nproject = "api"\n')
        monkeypatch.setenv("MEMORIST_THREADS", "1")

        settings = cli("config", "--json").json
        shown = cli("config").out

        assert settings == settings | {"profile": "notes", "project": "api", "threads": 1, "busy_timeout": 7.0}
        assert str(project_file) in shown
        assert str(user_file) in shown
        assert "environment" in shown

    def test_the_database_by_flag_and_by_environment(self, cli: CommandLine, tmp_path: Path) -> None:
        cli.add("in the one of the environment")
        cli("--db", str(tmp_path / "other.db"), "add", "in the other one")

        assert cli.contents() == ["in the one of the environment"]
        listed = cli("--db", str(tmp_path / "other.db"), "list", "--json").json["memories"]
        assert [one["content"] for one in listed] == ["in the other one"]

    def test_a_projects_file_in_a_folder_above_counts_and_its_database_lies_beside_it(
        self, cli: CommandLine, project_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MEMORIST_DB")
        project_file.write_text('database = "team.db"\nproject = "api"\n')
        below = cli.work / "src" / "deep"
        below.mkdir(parents=True)
        monkeypatch.chdir(below)

        memory = cli("add", "of the project", "--json").json

        assert memory["project"] == "api"
        assert (cli.work / "team.db").is_file()
        assert list(below.iterdir()) == []

    @pytest.mark.parametrize("file", ["config.toml", "work/memorist.toml"])
    @pytest.mark.parametrize(
        ("named", "meant"),
        [("mine.db", "{beside}/mine.db"), ("~/mine.db", "{home}/mine.db"), ("/a/b.db", "/a/b.db"), (":memory:",) * 2],
    )
    def test_a_path_in_a_file_means_the_same_wherever_one_is(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, file: str, named: str, meant: str
    ) -> None:
        monkeypatch.delenv("MEMORIST_DB")
        (cli.home.parent / file).write_text(f'database = "{named}"')
        (cli.work / "deep").mkdir()
        monkeypatch.chdir(cli.work / "deep")

        beside = (cli.home.parent / file).parent
        assert cli("config", "--json").json["database"] == meant.format(beside=beside, home=cli.home)

    def test_a_path_that_is_set_is_one_from_where_it_was_typed(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MEMORIST_DB")

        cli("config", "set", "database", "mine.db")

        assert cli("config", "--json").json["database"] == str(cli.work / "mine.db")

    def test_a_namespace_by_environment_is_the_same_wall(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cli.add("of the default one")
        monkeypatch.setenv("MEMORIST_NAMESPACE", "other")

        assert cli.contents() == []

    def test_the_profile_of_the_settings_is_the_one_searches_use(self, cli: CommandLine, user_file: Path) -> None:
        user_file.write_text('profile = "notes"')
        cli.add("one text")

        assert cli("search", "text", "--json").json["profile"] == "notes"
        assert cli("search", "text", "--profile", "rank", "--json").json["profile"] == "rank"

    def test_how_long_recalls_are_kept_is_for_the_user_to_say(self, cli: CommandLine, project_file: Path) -> None:
        assert "recall_days" in cli("config").out
        assert cli("config", "--json").json["recall_days"] == 90

        assert cli("config", "set", "recall_days", "30").code == 0
        assert cli("config", "set", "recall_megabytes", "50").code == 0

        settings = cli("config", "--json").json
        assert (settings["recall_days"], settings["recall_megabytes"]) == (30, 50)
        cli("config", "set", "recall_days", "0").assert_failed(1, "recall_days must be from 1 to 36500")
        project_file.write_text("recall_days = 1")
        cli("list").assert_failed(1, "not allowed in a project's file")

    def test_the_users_file_names_the_model_and_its_provider_or_none(
        self, cli: CommandLine, user_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MEMORIST_EMBEDDER")
        for embedder, model in (("ollama:nomic-embed-text", "ollama:nomic-embed-text"), ("none", None)):
            user_file.write_text(f'embedder = "{embedder}"')
            assert cli("stats", "--json").json["model"] == model

    @pytest.mark.parametrize(
        ("section", "embedder"),
        [
            ('enabled = true\nprovider = "openai"\nmodel = "text-embedding-3-small"', "openai:text-embedding-3-small"),
            ('provider = "ollama"\nmodel = "nomic-embed-text"', "ollama:nomic-embed-text"),
            ('enabled = false\nprovider = "openai"\nmodel = "text-embedding-3-small"', "none"),
            ('provider = "local"', "local"),
            ("enabled = true", "local"),
            ("enabled = false", "none"),
            ("", "local"),
        ],
    )
    def test_the_section_of_agentstack_says_so_too_and_turning_vectors_off_keeps_the_provider(
        self, cli: CommandLine, user_file: Path, monkeypatch: pytest.MonkeyPatch, section: str, embedder: str
    ) -> None:
        monkeypatch.delenv("MEMORIST_EMBEDDER")
        user_file.write_text(f"threads = 2\n\n[memory.vectorSearch]\n{section}\n")

        assert cli("config", "--json").json["embedder"] == embedder
        cli("config", "set", "profile", "rank")
        assert cli("config", "--json").json["profile"] == "rank"
        assert section in user_file.read_text()

    def test_vectors_of_the_setting_embedder_can_be_turned_off_in_that_section(
        self, cli: CommandLine, user_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MEMORIST_EMBEDDER")
        user_file.write_text('embedder = "ollama:nomic-embed-text"\n[memory.vectorSearch]\nenabled = false\n')

        assert cli("config", "--json").json["embedder"] == "none"


class TestBrokenSettings:
    @pytest.mark.parametrize(
        ("text", "about"),
        [
            ("nonsense = 1", "'nonsense'"),
            ("this is = = no toml", "cannot be read"),
            ("profile = 5", "must be text"),
            ('threads = "many"', "must be a number"),
            ("threads = true", "must be a number"),
            ('profile = "nonsense"', "nonsense"),
            ('synchronous = "off"', "off"),
            ("busy_timeout = -1", "busy_timeout"),
            ('namespace = ""', "namespace"),
            ('embedder = "nonsense"', "nonsense"),
            ("[memory]\nvectors = 1", "[memory.vectorSearch]"),
            ("memory = 1", "[memory.vectorSearch]"),
            ("[memory.vectorSearch]\nenable = false", "enabled, provider, model"),
            ('[memory.vectorSearch]\nenabled = "no"', "enabled = 'no'"),
            ("[memory.vectorSearch]\nprovider = 1", "provider = 1"),
            ('[memory.vectorSearch]\nprovider = "nonsense"\nmodel = "x"', "nonsense"),
            ('[memory.vectorSearch]\nprovider = "openai"', "names no model"),
            ('[memory.vectorSearch]\nmodel = "x"', "provider"),
            ('embedder = "none"\n[memory.vectorSearch]\nprovider = "local"', "embedder"),
            ('trusted = ["."]', "whole paths"),
            ('trusted = ["*"]', "whole paths"),
            ("\ufeff[table]\nx = 1", "cannot be read"),
            (f"threads = {'1' * 5_000}", "cannot be read"),
            (f"threads = 0x{'f' * 5_000}", "threads"),
            (f"busy_timeout = {'1' * 400}", "not inf"),
            (f"redact_allow = [0x{'f' * 5_000}]", "redact_allow"),
            (f"project = 0x{'f' * 5_000}", "must be text"),
        ],
    )
    def test_what_a_file_cannot_mean_is_one_clear_line(
        self, cli: CommandLine, user_file: Path, monkeypatch: pytest.MonkeyPatch, text: str, about: str
    ) -> None:
        monkeypatch.delenv("MEMORIST_EMBEDDER")
        user_file.write_text(text, "utf-8")

        cli("stats").assert_failed(1, about)

    def test_the_file_at_fault_is_named(self, cli: CommandLine, user_file: Path, project_file: Path) -> None:
        user_file.write_bytes(b"\xff\xfe")
        cli("list").assert_failed(1, str(user_file))

        user_file.write_bytes(b"")
        project_file.write_text("nonsense = 1")
        cli("list").assert_failed(1, str(project_file))

    @pytest.mark.parametrize("command", [["list"], ["config"], ["mcp"]])
    def test_a_file_that_the_environment_names_and_is_not_there_is_an_error(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, command: list[str]
    ) -> None:
        monkeypatch.setenv("MEMORIST_CONFIG", "~/mistyped.toml")
        cli(*command).assert_failed(1, f"MEMORIST_CONFIG names {cli.home / 'mistyped.toml'}, which does not exist")

        (cli.home / "mistyped.toml").mkdir()
        cli(*command).assert_failed(1, "is a folder")

    def test_an_empty_device_as_the_file_of_settings_means_none(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MEMORIST_CONFIG", os.devnull)

        assert cli("config", "get", "profile").out == "balanced\n"

    def test_an_environment_variable_at_fault_is_named(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MEMORIST_THREADS", "many")

        cli("list").assert_failed(1, "MEMORIST_THREADS")

    @pytest.mark.parametrize("embedder", ["openai:text-embedding-3-small", "ollama:nomic-embed-text"])
    def test_a_projects_file_may_not_send_memories_elsewhere(
        self, cli: CommandLine, project_file: Path, embedder: str
    ) -> None:
        project_file.write_text(f'embedder = "{embedder}"')

        done = cli("add", "for nobody else")

        done.assert_failed(1, str(project_file))
        assert "your own config" in done.err
        assert not cli.database.exists()

    @pytest.mark.parametrize("embedder", ["none", "local"])
    def test_a_projects_file_may_choose_a_model_on_this_machine_or_switch_it_off(
        self, cli: CommandLine, project_file: Path, monkeypatch: pytest.MonkeyPatch, embedder: str
    ) -> None:
        monkeypatch.delenv("MEMORIST_EMBEDDER")
        project_file.write_text(f'embedder = "{embedder}"')

        assert cli("config", "--json").json["embedder"] == embedder

    def test_a_projects_file_may_not_trust_itself(self, cli: CommandLine, project_file: Path) -> None:
        project_file.write_text(f'trusted = ["{cli.work}"]')

        cli("list").assert_failed(1, "trusted")


class TestConfigSet:
    def test_a_value_goes_into_the_users_file_and_the_rest_of_it_stays(self, cli: CommandLine, user_file: Path) -> None:
        user_file.write_text('# my own remark\nprofile = "rank"\nthreads = 2\n')

        done = cli("config", "set", "profile", "notes")

        assert done.out == f"profile = notes  ({user_file})\n"
        assert user_file.read_text() == '# my own remark\nprofile = "notes"\nthreads = 2\n'
        assert cli("config", "--json").json["profile"] == "notes"

    def test_the_file_and_its_folder_are_made(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        file = cli.home / "deep" / "down" / "config.toml"
        monkeypatch.setenv("MEMORIST_CONFIG", str(file))

        assert cli("config", "set", "busy_timeout", "2.5").code == 0
        assert cli("config", "--json").json["busy_timeout"] == 2.5

    def test_with_project_it_goes_into_the_projects_file(self, cli: CommandLine, project_file: Path) -> None:
        name = 'a "quoted" \\ name, 😀 \x7f'
        cli("config", "set", "--project", "project", name)

        assert cli("config", "--json").json["project"] == name
        assert project_file.is_file()

    @pytest.mark.parametrize(("name", "value"), [("nonsense", "1"), ("threads", "many"), ("busy_timeout", "long")])
    def test_what_is_no_setting_is_refused_and_nothing_is_written(
        self, cli: CommandLine, user_file: Path, name: str, value: str
    ) -> None:
        cli("config", "set", name, value).assert_failed(1, name)
        assert not user_file.read_text()

    def test_a_second_model_beside_that_of_the_section_is_refused_and_nothing_is_written(
        self, cli: CommandLine, user_file: Path
    ) -> None:
        text = '[memory.vectorSearch]\nprovider = "ollama"\nmodel = "nomic-embed-text"\n'
        user_file.write_text(text)

        cli("config", "set", "embedder", "none").assert_failed(1, "[memory.vectorSearch]")
        assert user_file.read_text() == text

    @pytest.mark.parametrize(("name", "value"), [("profile", "nonsense"), ("synchronous", "off"), ("namespace", " ")])
    def test_a_value_no_command_could_use_is_refused(self, cli: CommandLine, name: str, value: str) -> None:
        cli("config", "set", name, value).assert_failed(1, name)

    def test_half_a_character_is_refused_or_kept_out(self, cli: CommandLine, user_file: Path) -> None:
        cli("config", "set", "redact_allow", "\udcff").assert_failed(1, "redact_allow")
        assert not user_file.read_text()

    def test_a_file_that_cannot_be_written_is_one_clear_line(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (cli.home / "file").touch()
        monkeypatch.setenv("MEMORIST_CONFIG", str(cli.home / "file" / "config.toml"))

        cli("config", "set", "profile", "rank").assert_failed(1, "config.toml")

    @pytest.mark.parametrize("text", ["this is = = no toml", "profile = 'rank'\nprofile = 'notes'\n"])
    def test_a_file_that_is_not_toml_is_left_as_it_is(self, cli: CommandLine, user_file: Path, text: str) -> None:
        user_file.write_text(text)

        cli("config", "set", "threads", "2").assert_failed(1, str(user_file))
        assert user_file.read_text() == text

    def test_a_file_that_is_a_link_stays_one(self, cli: CommandLine, user_file: Path) -> None:
        (dotfiles := cli.home / "dotfiles").mkdir()
        user_file.unlink()
        user_file.symlink_to(dotfiles / "memorist.toml")

        cli("config", "set", "profile", "rank")

        assert user_file.is_symlink()
        assert (dotfiles / "memorist.toml").read_text() == 'profile = "rank"\n'

    def test_the_comment_beside_a_value_stays(self, cli: CommandLine, user_file: Path) -> None:
        user_file.write_text("threads = 2  # a small machine\n\nredact = true\n")

        cli("config", "set", "threads", "4")

        assert user_file.read_text() == "threads = 4  # a small machine\n\nredact = true\n"


class TestConfigUnset:
    def test_it_is_taken_out_of_the_users_file_and_the_rest_stays(self, cli: CommandLine, user_file: Path) -> None:
        user_file.write_text('# my own remark\nprofile = "rank"\nthreads = 2\n')

        done = cli("config", "unset", "profile")

        assert (done.code, done.out) == (0, f"Unset profile  ({user_file})\n")
        assert user_file.read_text() == "# my own remark\nthreads = 2\n"
        assert cli("config", "get", "profile").out == "balanced\n"

    def test_with_project_it_is_taken_out_of_the_projects_file(self, cli: CommandLine, project_file: Path) -> None:
        project_file.write_text('project = "api"\n')

        assert cli("config", "unset", "project", "--project").code == 0
        assert project_file.read_text() == ""

    def test_what_is_not_set_changes_nothing_and_says_so(self, cli: CommandLine, user_file: Path) -> None:
        done = cli("config", "unset", "profile")

        assert (done.code, done.out) == (0, "")
        assert done.err == f"Nothing changed: profile is not set in {user_file}.\n"
        assert not user_file.read_text()

    def test_a_secret_can_be_taken_out(self, cli: CommandLine, user_file: Path) -> None:
        user_file.write_text('http_token = "0123456789abcdef0123456789abcdef"\n')

        assert cli("config", "unset", "http_token").code == 0
        assert user_file.read_text() == ""

    def test_what_is_no_setting_is_named(self, cli: CommandLine) -> None:
        cli("config", "unset", "nonsense").assert_failed(1, "there is no setting 'nonsense'")


class TestConfigValues:
    @pytest.mark.parametrize(
        ("name", "value", "shown"),
        [
            ("redact", "yes", "true"),
            ("redact", "off", "false"),
            ("threads", "3", "3"),
            ("busy_timeout", "2", "2.0"),
            ("profile", "rank", "rank"),
            ("project", 'the "best" one', 'the "best" one'),
            ("redact_allow", '["/^ghp_zz/", "naïve"]', '["/^ghp_zz/", "naïve"]'),
            ("redact_allow", "naïve", '["naïve"]'),
        ],
    )
    def test_a_value_is_shown_as_it_can_be_set(self, cli: CommandLine, name: str, value: str, shown: str) -> None:
        cli("config", "set", name, value)

        assert cli("config", "get", name).out == f"{shown}\n"
        assert any(line.startswith(f"{name:<17} {shown} ") for line in cli("config", "list").lines)
        assert cli("config", "set", name, shown).code == 0
        assert cli("config", "get", name).out == f"{shown}\n"

    def test_what_is_unset_is_shown_as_such(self, cli: CommandLine) -> None:
        done = cli("config", "get", "chat")

        assert (done.code, done.out, done.err) == (0, "", "chat is unset.\n")
        assert ["chat", "(unset)", "default"] in [line.split() for line in cli("config").lines]

    def test_as_json_with_its_origin(self, cli: CommandLine, user_file: Path) -> None:
        user_file.write_text("threads = 2\n")

        assert cli("config", "get", "threads", "--json").json == {
            "name": "threads", "value": 2, "origin": str(user_file),
        }  # fmt: skip

    def test_a_secret_is_not_shown(self, cli: CommandLine, user_file: Path) -> None:
        user_file.write_text('http_token = "0123456789abcdef0123456789abcdef"\n')

        assert cli("config", "get", "http_token").out == "(set)\n"

    def test_what_is_no_setting_is_named(self, cli: CommandLine) -> None:
        cli("config", "get", "nonsense").assert_failed(1, "there is no setting 'nonsense'")


class TestFormerName:
    @pytest.fixture
    def folders(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
        """The folders of the user's data, under the former name and under the present one; the first has a database."""
        monkeypatch.delenv("MEMORIST_DB")
        monkeypatch.setenv("XDG_DATA_HOME", str(cli.home / "data"))
        former, present = cli.home / "data" / FORMER_NAME, cli.home / "data" / "memorist"
        former.mkdir(parents=True)
        with memorist.open(former / "memory.db", embedder="none") as memory:
            memory.add("from before")
        return former, present

    def test_its_database_is_used_where_it_is_with_a_note(self, cli: CommandLine, folders: tuple[Path, Path]) -> None:
        former, present = folders

        done = cli("list", "--json")

        assert [memory["content"] for memory in done.json["memories"]] == ["from before"]
        assert done.err == (
            f"Note: using the database of {FORMER_NAME.capitalize()}, as Memorist was called before: "
            f"{former / 'memory.db'}. Move it to {present / 'memory.db'} to keep it under the new name.\n"
        )
        assert cli("add", "from now").err.count("Note:") == 1
        assert cli.contents() == ["from now", "from before"]
        assert not present.exists()

    def test_one_of_the_present_name_counts_more(self, cli: CommandLine, folders: tuple[Path, Path]) -> None:
        folders[1].mkdir()
        (folders[0] / "memory.db").rename(folders[1] / "memory.db")
        with memorist.open(folders[0] / "memory.db", embedder="none") as memory:
            memory.add("left behind")

        done = cli("list", "--json")

        assert [memory["content"] for memory in done.json["memories"]] == ["from before"]
        assert done.err == ""

    def test_a_database_that_is_named_is_the_one(self, cli: CommandLine, folders: tuple[Path, Path]) -> None:
        done = cli("--db", str(cli.work / "own.db"), "stats", "--json")

        assert done.json["memories"] == 0
        assert str(cli.work / "own.db") in done.err

    def test_the_library_logs_it(self, folders: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO", "memorist"), memorist.open(embedder="none") as memory:
            assert [one.content for one in memory.list()] == ["from before"]

        assert [record.name for record in caplog.records] == ["memorist"]
        assert str(folders[0] / "memory.db") in caplog.text

    def test_a_hook_uses_it_and_prints_nothing_else(self, cli: CommandLine, folders: tuple[Path, Path]) -> None:
        done = cli.spawn("hook", "SessionStart", stdin=b'{"cwd": "."}')

        assert "from before" in done.out
        assert done.err == ""


class TestStats:
    def test_numbers_as_a_flat_object(self, cli: CommandLine) -> None:
        cli.add("one", "--project", "api")
        cli.add("two", "--project", "web")
        cli("forget", cli.add("three"))

        stats = cli("stats", "--json").json

        assert stats == stats | {"memories": 2, "deleted": 1, "projects": 2, "vectors": 0, "namespace": "default"}
        assert stats["path"] == str(cli.database)
        assert stats["size_bytes"] > 0

    def test_as_text(self, cli: CommandLine) -> None:
        cli.add("one")

        assert "memories       1" in cli("stats").lines


class TestCheck:
    def test_a_sound_database(self, cli: CommandLine) -> None:
        cli.add("one")

        assert cli("check").out == "All is well: 1 memory, 0 vectors.\n"
        assert cli("check", "--json").json == {
            "ok": True, "problems": [], "repaired": [], "skipped": [], "memories": 1, "vectors": 0,
        }  # fmt: skip

    def test_a_broken_index_is_exit_code_one_until_it_is_repaired(self, cli: CommandLine) -> None:
        cli.add("one findable text")
        connection = apsw.Connection(str(cli.database))
        connection.execute("insert into memories_stems(memories_stems) values ('delete-all')")
        connection.close()

        broken = cli("check", "--json")
        advice = cli("check")
        repaired = cli("check", "--repair", "--json")

        assert broken.code == advice.code == 1
        assert not json.loads(broken.out)["ok"]
        assert "check --repair" in advice.err
        assert repaired.json["repaired"] == repaired.json["problems"] != []
        assert cli("check", "--json").json["ok"]
        assert len(cli("search", "findable text", "--json").json["results"]) == 1


class TestReembed:
    def test_without_a_model_it_says_so(self, cli: CommandLine) -> None:
        cli("reembed").assert_failed(1, "no embedding model")

    def test_an_unknown_model_is_named(self, cli: CommandLine) -> None:
        cli("reembed", "--embedder", "nonsense").assert_failed(1, "nonsense")

    def test_missing_vectors_are_made_and_those_of_other_models_pruned(self, cli: CommandLine) -> None:
        with memorist.open(cli.database, embedder=HashingEmbedder("old")) as memory:
            memory.add_many(["one", "two"])
        cli.add("three")

        assert cli("reembed", "--embedder", "local", "--json").json == {"embedded": 3}
        assert cli("reembed", "--embedder", "local").out == "Computed 0 vectors.\n"
        models = cli("stats", "--json").json["models"]
        assert models["old"] == 2
        assert sum(models.values()) == 5
        cli("reembed", "--embedder", "local", "--prune")
        assert "old" not in cli("stats", "--json").json["models"]


class TestListOfSettings:
    def test_its_columns_line_up_whatever_the_length_of_a_value(self, cli: CommandLine) -> None:
        assert cli("config", "set", "trusted", '["~/a/rather/long/path/to/a/folder"]').code == 0

        lines = cli("config").lines

        assert len({line.rindex(" ") for line in lines}) == 1  # before the origin


class TestDemo:
    def test_it_shows_the_three_ways_of_finding_and_what_to_type_next(self, cli: CommandLine) -> None:
        before = sorted(cli.home.parent.rglob("*"))

        done = cli("demo")

        assert done.code == 0
        assert done.out.count("$ memorist search") == 3
        assert "score" in done.out
        for legs in ("· vector ", "· keyword ", "· keyword + vector "):
            assert legs in done.out
        assert "memorist add" in done.lines[-3]
        assert "\x1b" not in done.out
        assert sorted(cli.home.parent.rglob("*")) == before

    def test_a_remark_that_only_one_leg_finds_it_stands_below_a_hit_of_that_leg_alone(self, cli: CommandLine) -> None:
        shown = cli("demo").out

        for question in shown.split("$ memorist search")[1:4]:
            _, _, numbers, explanation, *rest = question.splitlines()
            if any("only meaning" in line for line in rest):
                assert "· vector " in numbers
            if any("only the exact word" in line for line in rest):
                assert "cosine" not in explanation
