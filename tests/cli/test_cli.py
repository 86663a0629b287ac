"""Properties of every command: help, completion, exit codes, missing databases, and output without a terminal."""

import inspect
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from command_line import CommandLine, CommandResult

import memorist
from memorist.cli.app import ALIASES, COMMAND_GROUPS, COMMANDS, app
from timeouts import MAX_WAIT_SECONDS

ESCAPE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "bell\x07 back\x08 \x1b[31mred\x1b[0m \x9b31m csi \x7f \u202eevil\u202c end"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    @pytest.mark.parametrize("flag", ["--help", "-h"])
    def test_every_command_has_help_with_an_example(self, cli: CommandLine, command: str, flag: str) -> None:
        done = cli(command, flag)

        assert done.code == 0
        assert "Example:" in done.out
        assert f"memorist {command}" in done.out.partition("Example:")[2]

    def test_help_lists_every_command_in_its_group_with_a_line_about_it(self, cli: CommandLine) -> None:
        out = cli("--help").out

        titles = re.findall(r"^(\w[\w ]*):$", out, re.MULTILINE)
        assert titles == ["Options", *COMMAND_GROUPS]
        for title, entries in COMMAND_GROUPS.items():
            section = out.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
            assert [line.split(None, 1) for line in section.splitlines()] == [
                [name, entry.help] for name, entry in entries.items()
            ]

    def test_no_command_is_in_two_groups(self) -> None:
        assert sum(map(len, COMMAND_GROUPS.values())) == len(COMMANDS)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_the_line_about_a_command_is_the_first_sentence_of_its_help(self, command: str) -> None:
        found = app.get_command(click.Context(app), command)

        assert found is not None
        paragraph = " ".join(inspect.cleandoc(found.help or "").partition("\n\n")[0].split())
        assert COMMANDS[command].help == re.split(r"(?<=\.) ", paragraph)[0]

    def test_without_a_command_it_shows_help_and_it_is_wrong_usage(self, cli: CommandLine) -> None:
        done = cli()

        assert done.code == 2
        assert "Usage: memorist" in done.out + done.err

    @pytest.mark.parametrize(
        "arguments", [["nonsense"], ["search"], ["get"], ["add", "x", "--nonsense"], ["search", "x", "--limit", "many"]]
    )
    def test_wrong_usage_is_exit_code_two(self, cli: CommandLine, arguments: list[str]) -> None:
        done = cli(*arguments)

        assert (done.code, done.out) == (2, "")
        assert "Usage: memorist" in done.err
        assert "Error: " in done.err


GROUPS = {
    name: command for name in COMMANDS if isinstance(command := app.get_command(click.Context(app), name), click.Group)
}
PARTS = [(name, part) for name, group in GROUPS.items() for part in group.commands]


class TestOptions:
    @pytest.mark.parametrize(
        "words", [[name] for name in COMMANDS] + [[name, part] for name, part in PARTS], ids=" ".join
    )
    def test_every_option_says_in_a_sentence_what_it_does(self, words: list[str]) -> None:
        command: click.Command | None = app
        for word in words:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(app), word)

        assert command is not None
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        wrong = {
            option.name: option.help for option in options if not re.fullmatch("[A-Za-z].*[.)]", option.help or "")
        }
        assert wrong == {}

    @pytest.mark.parametrize(
        ("words", "help"),
        [
            (["timeline"], "--before INTEGER How many before the one in the middle (0..10000; default 5)."),
            (["context"], "-n, --limit INTEGER How many memories, besides pinned ones (0..1000; default 5)."),
            (["dupes"], "--threshold FLOAT The share of words that two have in common (0.1..1; default 0.8)."),
            (["relate"], "--said-by WHO Who says so."),
            (["session", "list"], "--active Only sessions that have not ended."),
            (["docs"], "--mode TEXT Which legs search: hybrid, keyword, semantic (default hybrid)."),
        ],
    )
    def test_help_has_the_limits_and_defaults_of_the_method(
        self, cli: CommandLine, words: list[str], help: str
    ) -> None:
        assert help in " ".join(cli(*words, "--help").out.split())


class TestGroups:
    def test_there_are_commands_of_several_parts(self) -> None:
        assert set(GROUPS) == {"fact", "session", "lens", "backup", "models", "config", "admin"}

    @pytest.mark.parametrize(("command", "part"), PARTS)
    def test_every_part_has_help_with_an_example_and_is_documented(
        self, cli: CommandLine, command: str, part: str
    ) -> None:
        out = cli(command, part, "--help").out
        page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")

        assert f"memorist {command} {part}" in out.partition("Example:")[2]
        assert f"$ memorist {command} {part}" in page

    @pytest.mark.parametrize("command", ["session", "lens", "models", "config"])
    @pytest.mark.parametrize("options", [[], ["--json"]])
    def test_without_a_part_it_lists(self, cli: CommandLine, command: str, options: list[str]) -> None:
        done = cli(command, *options)

        assert done.code == 0
        assert (done.out, done.err) == (cli(command, "list", *options).out, cli(command, "list", *options).err)

    @pytest.mark.parametrize("command", ["fact", "backup"])
    def test_without_a_part_and_nothing_to_list_it_shows_help(self, cli: CommandLine, command: str) -> None:
        done = cli(command)

        assert (done.code, done.err) == (0, "")
        assert done.out == cli(command, "--help").out


class TestTypos:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["serach", "x"], "No such command 'serach'. Did you mean 'search'?"),
            (["session", "lsit"], "No such command 'lsit'. Did you mean 'list'?"),
            (["config", "unst", "profile"], "No such command 'unst'. Did you mean 'unset'?"),
            (["hlep"], "No such command 'hlep'. Did you mean 'help'?"),
            (["Help"], "No such command 'Help'. Did you mean 'help'?"),
            (["xyzzy"], "No such command 'xyzzy'."),
            (["lens", "xyzzy"], "No such command 'xyzzy'."),
        ],
    )
    def test_a_mistyped_command_gets_a_suggestion(self, cli: CommandLine, arguments: list[str], message: str) -> None:
        done = cli(*arguments)

        done.assert_failed(2, message)
        assert done.err.splitlines()[-1] == f"Error: {message}"

    @pytest.mark.parametrize("arguments", [["search", "x", "--projct", "api"], ["lens", "list", "--jsn"]])
    def test_a_mistyped_option_gets_a_suggestion(self, cli: CommandLine, arguments: list[str]) -> None:
        cli(*arguments).assert_failed(2, "Did you mean")


class TestGlobalOptions:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["list", "--json", "--db", "{}"],
            ["list", "--db={}", "--json"],
            ["--db", "{}", "list", "--json", "--db", "{}"],
        ],
    )
    def test_the_database_can_be_named_after_the_command(self, cli: CommandLine, arguments: list[str]) -> None:
        other = str(cli.work / "other.db")
        assert cli("add", "the ferry leaves at nine", "--db", other).code == 0

        found = cli(*(word.format(other) for word in arguments)).json["memories"]

        assert [memory["content"] for memory in found] == ["the ferry leaves at nine"]
        assert not cli.database.exists()

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_and_anywhere_around_a_part_of_a_command(self, cli: CommandLine, place: int) -> None:
        words = ["session", "start"]
        words[place:place] = ["--namespace", "crew"]
        started = cli(*words).out.strip()

        assert [one["id"] for one in cli("session", "--namespace", "crew", "--json").json["sessions"]] == [started]
        assert cli("session", "list", "--json").json["sessions"] == []

    @pytest.mark.parametrize("words", [["list"], ["session"], ["session", "start"]])
    def test_the_version_can_be_asked_for_anywhere(self, cli: CommandLine, words: list[str]) -> None:
        assert cli(*words, "--version") == cli("--version")
        assert not cli.database.exists()

    def test_two_places_that_differ_are_an_error(self, cli: CommandLine) -> None:
        done = cli("--db", "a.db", "search", "x", "--db", "b.db")

        done.assert_failed(2, "--db is given twice, as 'a.db' and 'b.db'; leave one of them out")
        assert list(cli.work.iterdir()) == []

    @pytest.mark.parametrize("command", COMMANDS)
    def test_the_help_of_a_command_names_only_its_own_options(self, cli: CommandLine, command: str) -> None:
        options = cli(command, "--help").out.partition("\nOptions:\n")[2]

        assert not re.search(r"^  --db\b", options, re.MULTILINE)

    def test_a_command_with_such_an_option_of_its_own_keeps_it(self, cli: CommandLine) -> None:
        assert "Copy this namespace" in cli("migrate", "--help").out


class TestAliases:
    """The nouns and verbs of the library's rooms lead to the everyday commands."""

    @pytest.mark.parametrize(
        ("alias", "command"),
        [
            ("facts", "fact"),
            ("facts add", "fact add"),
            ("sessions", "session"),
            ("sessions start", "session start"),
            ("sessions get", "session show"),
            ("session get", "session show"),
            ("lenses", "lens"),
            ("lenses set", "lens set"),
            ("lenses get", "lens show"),
            ("searches", "recalls"),
            ("searches list", "recalls"),
            ("searches clear", "recalls"),
            ("links add", "relate"),
            ("links remove", "relate"),
        ],
    )
    def test_the_words_of_the_library_are_the_command(self, cli: CommandLine, alias: str, command: str) -> None:
        done = cli(*alias.split(), "--help")

        assert done.code == 0
        assert f"Usage: memorist {command} " in done.out

    def test_an_alias_does_what_its_command_does(self, cli: CommandLine) -> None:
        first, second = cli.add("retries are capped at 5"), cli.add("the billing service bans noisy clients")

        assert cli("links", "add", second, first, "explains").code == 0
        assert len(cli("related", first, "--json").json["related"]) == 1
        assert cli("links", "remove", second, first, "explains").out.startswith("Removed")
        assert cli("searches", "clear", "--yes").out == "Deleted 0 recorded searches.\n"

    def test_a_noun_with_nothing_to_list_names_its_verbs(self, cli: CommandLine) -> None:
        cli("links").assert_failed(2, "Did you mean `memorist links add` or `memorist links remove`?")

    def test_every_alias_leads_to_a_command_and_hides_none(self) -> None:
        assert all(target.split()[0] in COMMANDS for target in ALIASES.values())
        assert not set(ALIASES) & set(COMMANDS)


class TestHelpWanted:
    """Somebody who guesses is led on."""

    def test_help_shows_the_help_of_the_program(self, cli: CommandLine) -> None:
        assert cli("help") == cli("--help")

    @pytest.mark.parametrize("command", [["search"], ["session", "start"], ["sessions"]])
    def test_help_shows_the_help_of_a_command(self, cli: CommandLine, command: list[str]) -> None:
        assert cli("help", *command) == cli(*command, "--help")

    def test_help_shows_the_help_of_a_group_and_its_parts(self, cli: CommandLine) -> None:
        assert cli("session", "help") == cli("session", "--help")
        assert cli("session", "help", "start") == cli("session", "start", "--help")

    def test_help_on_what_is_no_command_suggests_one(self, cli: CommandLine) -> None:
        cli("help", "serach").assert_failed(2, "No such command 'serach'. Did you mean 'search'?")

    @pytest.mark.parametrize(
        ("words", "command"),
        [
            (["how do we ship code"], 'memorist search "how do we ship code"'),
            (["retries?"], 'memorist search "retries?"'),
            (["how", "do", "we", "ship", "code"], 'memorist search "how do we ship code"'),
            (["ports", "in", "use?"], 'memorist search "ports in use?"'),
            (['what is "x"'], """memorist search 'what is "x"'"""),
        ],
    )
    def test_a_question_is_told_how_to_be_asked(self, cli: CommandLine, words: list[str], command: str) -> None:
        cli(*words).assert_failed(2, f"Did you mean `{command}`?")


class TestCompletion:
    @pytest.fixture
    def complete(self, cli: CommandLine) -> Callable[..., list[str]]:
        """Give what a shell is offered for the last of some words."""

        def run(*words: str, shell: str = "bash") -> list[str]:
            typed = " ".join(["memorist", *words])
            place = words[-1] if shell == "fish" else str(len(words))
            request = [("COMP_WORDS", typed), ("COMP_CWORD", place), ("_MEMORIST_COMPLETE", f"{shell}_complete")]
            done = cli.spawn(environment=request)
            assert (done.code, done.err) == (0, "")
            return done.lines

        return run

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_of_a_shell_is_printed(self, cli: CommandLine, shell: str) -> None:
        done = cli.spawn(environment=[("_MEMORIST_COMPLETE", f"{shell}_source")])

        assert done.code == 0
        assert "_memorist_completion" in done.out
        assert f"{shell}_complete" in done.out

    def test_commands_are_offered_from_the_table(self, complete: Callable[..., list[str]]) -> None:
        assert complete("") == [f"plain,{name}" for name in COMMANDS]
        assert complete("re") == [f"plain,{name}" for name in COMMANDS if name.startswith("re")]

    def test_with_their_help_where_the_shell_shows_it(self, complete: Callable[..., list[str]]) -> None:
        assert complete("sea", shell="zsh") == ["plain", "search", COMMANDS["search"].help]
        assert complete("sea", shell="fish") == [f"plain,search\t{COMMANDS['search'].help}"]

    def test_subcommands_and_options_are_offered(self, complete: Callable[..., list[str]]) -> None:
        assert complete("config", "un") == ["plain,unset"]
        assert complete("search", "--explai") == ["plain,--explain"]
        assert complete("session", "list", "--act") == ["plain,--active"]
        assert complete("--names") == ["plain,--namespace"]

    @pytest.mark.parametrize("words", [["index", "no"], ["import", "no"], ["add", "--file", "no"], ["--db", "no"]])
    def test_paths_are_left_to_the_shell(self, complete: Callable[..., list[str]], words: list[str]) -> None:
        assert complete(*words) == ["file,no"]


class TestErrors:
    @pytest.mark.parametrize("command", [["stats"], ["search", "x"], ["list"], ["add", "x"], ["check"]])
    def test_a_database_that_is_a_directory(self, cli: CommandLine, command: list[str]) -> None:
        cli("--db", str(cli.work), *command).assert_failed(1, "is a directory")

    @pytest.mark.parametrize("command", [["stats"], ["search", "x"], ["add", "x"]])
    def test_a_file_that_is_no_database_is_left_as_it_is(self, cli: CommandLine, command: list[str]) -> None:
        notes = cli.work / "notes.txt"
        notes.write_text("these are notes, not a database\n" * 100)

        cli("--db", str(notes), *command).assert_failed(1, "not a database")
        assert notes.read_text() == "these are notes, not a database\n" * 100

    def test_an_error_in_a_process_of_its_own_is_one_line_and_no_traceback(self, cli: CommandLine) -> None:
        cli.spawn("search", "x", "--mode", "telepathic").assert_failed(1, "telepathic")

    def test_an_empty_database_path_is_an_error(self, cli: CommandLine) -> None:
        cli("--db", "", "add", "x").assert_failed(1, "empty")


READING: list[list[str]] = [
    ["search", "anything"], ["search", "anything", "--json"], ["search", "anything", "--mode", "keyword"],
    ["list"], ["list", "--json"], ["list", "--deleted"], ["stats"], ["stats", "--json"], ["check"], ["check", "--json"],
    ["config"], ["config", "--json"], ["timeline"], ["timeline", "--query", "anything", "--json"], ["recalls"],
    ["recalls", "--json"], ["recalls", "--never", "--json"], ["dupes"], ["dupes", "--merge", "--yes", "--json"],
    ["pin"], ["pin", "--json"], ["session", "list"], ["session", "list", "--json"], ["lens", "list"],
    ["lens", "list", "--json"], ["projects"], ["projects", "--json"], ["tags"], ["tags", "--json"],
]  # fmt: skip


class TestMissingDatabase:
    @pytest.mark.parametrize("command", READING, ids=" ".join)
    def test_a_reading_command_answers_with_nothing_and_creates_nothing(
        self, cli: CommandLine, tmp_path: Path, command: list[str]
    ) -> None:
        before = sorted(tmp_path.rglob("*"))

        database = tmp_path / "no" / "such" / "memory.db"
        done = cli("--db", str(database), *command)

        assert done.code == 0
        if command[0] != "config":
            assert done.err.startswith(f"Note: there is no database at {database} yet")
        assert sorted(tmp_path.rglob("*")) == before
        if "--json" in command:
            answer = json.loads(done.out)
            assert answer.get("results", answer.get("memories", [])) in ([], 0)

    def test_getting_from_it_names_what_is_missing(self, cli: CommandLine) -> None:
        done = cli("get", "0123456789", "--json")

        assert done.code == 1
        assert json.loads(done.out) == {"memories": [], "missing": ["0123456789"]}
        assert not cli.database.exists()

    def test_the_users_own_database_is_made_by_the_first_add(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MEMORIST_DB")
        monkeypatch.setenv("XDG_DATA_HOME", str(cli.home / "data"))

        assert cli.contents() == []
        assert list(cli.home.iterdir()) == []
        cli.add("the first one")

        assert cli.contents() == ["the first one"]
        assert [file.suffix for file in cli.home.rglob("*") if file.is_file()] == [".db"]


class TestOutput:
    @pytest.fixture
    def hostile(self, cli: CommandLine) -> str:
        """A memory, and all that can be said of one, in hostile words."""
        with memorist.open(cli.database, embedder="none") as memory:
            session = memory.sessions.start(HOSTILE, id="\x9b31m \u202e", summary=HOSTILE).id
            one, other = (
                memory.add(
                    f"{HOSTILE} {more} of many words that are all the same", title=HOSTILE, project=HOSTILE,
                    kind=HOSTILE, tags=[HOSTILE], source=HOSTILE, session=session,
                    facts=[{"text": HOSTILE, "kind": HOSTILE}],
                )
                for more in ("one", "two")
            )  # fmt: skip
            memory.links.add(one.id, other.id, HOSTILE, said_by=HOSTILE)
            memory.pin(one.id)
            memory.lenses.set(HOSTILE, project=HOSTILE, boosts={"tag": {HOSTILE: 2}})
            memory.search(f"csi {HOSTILE}", record="log", record_session=session, lens=HOSTILE)
        return one.id

    COMMANDS: tuple[Callable[[str], list[str]], ...] = (
        lambda id: ["list"],
        lambda id: ["get", id],
        lambda id: ["search", "csi", "--explain", "--facets", "all"],
        lambda id: ["search", "csi", "--detail", "full"],
        lambda id: ["search", "csi", "--detail", "index"],
        lambda id: ["list", "--detail", "snippet"],
        lambda id: ["list", "--detail", "full"],
        lambda id: ["timeline"],
        lambda id: ["timeline", "--detail", "full"],
        lambda id: ["related", id],
        lambda id: ["recalls"],
        lambda id: ["dupes"],
        lambda id: ["pin"],
        lambda id: ["reinforce", id],
        lambda id: ["fact", "list", id],
        lambda id: ["session", "list"],
        lambda id: ["session", "of", id],
        lambda id: ["lens", "list"],
        lambda id: ["projects"],
        lambda id: ["tags"],
        lambda id: ["lens", "show", HOSTILE],
        lambda id: ["lens", "remove", HOSTILE],
        lambda id: ["add", f"{HOSTILE} three of many words that are all the same", "--project", HOSTILE],
        lambda id: ["update", id, "--salience", "1"],
        lambda id: ["forget", id],
    )

    @pytest.mark.parametrize("command", COMMANDS)
    def test_control_characters_of_stored_text_are_not_printed(
        self, cli: CommandLine, hostile: str, command: Callable[[str], list[str]]
    ) -> None:
        done = cli(*command(hostile))

        assert done.code == 0
        assert done.out
        assert ESCAPE.search(done.out + done.err) is None

    def test_control_characters_of_stored_names_are_not_printed_in_an_error(
        self, cli: CommandLine, hostile: str
    ) -> None:
        done = cli("search", "csi", "--lens", "nope")

        done.assert_failed(1, "there are: bell")
        assert ESCAPE.search(done.err) is None

    def test_control_characters_of_former_texts_are_not_printed(self, cli: CommandLine, hostile: str) -> None:
        cli("update", hostile, "harmless now", "--title", "harmless")

        done = cli("get", hostile, "--history")

        assert "until" in done.out
        assert ESCAPE.search(done.out) is None

    def test_json_carries_the_stored_text_as_it_is(self, cli: CommandLine, hostile: str) -> None:
        done = cli("get", hostile, "--json")

        assert done.json["memories"][0]["content"].startswith(HOSTILE)
        assert re.search("[\x00-\x08\x0b-\x1f]", done.out) is None

    @pytest.mark.parametrize("command", [["list"], ["search", "ship", "--explain"], ["stats"], ["check"], ["config"]])
    def test_without_a_terminal_there_are_no_escape_codes_and_no_progress_bar(
        self, cli: CommandLine, command: list[str]
    ) -> None:
        cli.add("we ship on Fridays", "--project", "api", "--tag", "deploy")

        done = cli.spawn(*command, environment=[("TERM", "xterm-256color")])

        assert done.code == 0
        assert done.out
        assert "\x1b" not in done.out + done.err

    def test_any_text_can_be_printed_whatever_the_terminal_speaks(self, cli: CommandLine) -> None:
        cli.add("部署 naïve 🚀")

        done = cli.spawn("list", environment=[("LC_ALL", "C"), ("PYTHONIOENCODING", "ascii"), ("PYTHONUTF8", "0")])

        assert "部署 naïve 🚀" in done.out

    def test_help_opens_no_database_even_if_settings_are_broken(self, cli: CommandLine) -> None:
        cli.settings.write_text("this is = = no toml")

        assert cli("search", "--help").code == 0


class TestStrangeInput:
    def test_bytes_that_are_no_text_in_an_argument_are_replaced(self, cli: CommandLine) -> None:
        added = cli.spawn("add", b"caf\xff\xfe latte", "--json")
        found = cli.spawn("search", b"latte \xff", "--json")

        assert added.json["content"] == "caf\ufffd\ufffd latte"
        assert [hit["id"] for hit in found.json["results"]] == [added.json["id"]]

    def test_bytes_that_are_no_text_on_standard_input_are_replaced(self, cli: CommandLine) -> None:
        done = cli("add", "-", "--json", stdin=b"caf\xff latte\n")

        assert done.json["content"] == "caf\ufffd latte"
        assert "not all of standard input is UTF-8" in done.err

    def test_half_a_surrogate_pair_in_json_is_replaced(self, cli: CommandLine) -> None:
        lines = cli.work / "lines.jsonl"
        lines.write_bytes(b'"half \\ud83d pair"\n{"content": "raw \xed\xa0\xbd bytes"}\n')

        assert cli("add", "--jsonl", str(lines)).code == 0
        assert sorted(cli.contents()) == ["half \ufffd pair", "raw \ufffd\ufffd\ufffd bytes"]

    def test_a_query_of_operators_and_quotes_is_only_text(self, cli: CommandLine) -> None:
        cli.add("nothing to see")

        for query in (
            '"',
            "AND OR NOT",
            "(((",
            "a:b",
            "'; drop table memories; --",
            "\x00",
            "\ud800",
            "*",
            "x y " * 2_500,
        ):
            assert cli("search", query, "--json").json["results"] == []

    def test_a_word_of_10_kb_is_answered_at_once(self, cli: CommandLine) -> None:
        cli.add("nothing to see")
        with cli.start("search", "x" * 10_000, "--json") as process:
            try:
                process.communicate(timeout=MAX_WAIT_SECONDS)
            finally:
                process.kill()

        assert process.returncode == 0

    def test_a_query_that_begins_with_a_dash_follows_two_dashes(self, cli: CommandLine) -> None:
        cli.add("the flag is --force")

        assert len(cli("search", "--json", "--", "--force").json["results"]) == 1


class TestInterruptions:
    def test_a_reader_that_goes_away_is_no_error_worth_a_word(self, cli: CommandLine) -> None:
        assert self._half_read(cli).err == ""

    def test_a_reader_that_goes_away_leaves_exit_code_zero(self, cli: CommandLine) -> None:
        assert self._half_read(cli).code == 0

    @staticmethod
    def _half_read(cli: CommandLine) -> CommandResult:
        """`memorist list | head -1`, with more to list than a pipe holds."""
        with memorist.open(cli.database, embedder="none") as memory:
            memory.add_many(f"memory {number} {'text ' * 20}" for number in range(3000))
        with cli.start("list", "--limit", "3000") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            first = process.stdout.readline().decode()
            process.stdout.close()
            err = process.stderr.read().decode()
        assert "memory 2999" in first
        return CommandResult(process.returncode, first, err)

    def test_ctrl_c_while_adding_stops_with_130_and_keeps_what_was_committed(self, cli: CommandLine) -> None:
        lines = cli.work / "many.jsonl"
        lines.write_text("".join(f'"line {number}"\n' for number in range(60_000)))
        with cli.start("add", "--jsonl", str(lines)) as process:
            self._wait_for_the_first_batch(cli.database, process)
            os.kill(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=MAX_WAIT_SECONDS)

        kept = cli.contents("--limit", "60000")
        assert (process.returncode, out) == (130, b"")
        assert err.decode().strip() == "Stopped."
        assert 0 < len(kept) < 60_000
        assert kept[::-1] == [f"line {number}" for number in range(len(kept))]
        assert cli("check", "--json").json["ok"]

    @staticmethod
    def _wait_for_the_first_batch(database: Path, process: subprocess.Popen[bytes]) -> None:
        for _ in range(3000):
            if database.exists():
                with memorist.open(database, embedder="none") as memory:
                    if memory.list(limit=1):
                        return
            try:
                process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail("the command ended before anything was kept")
        pytest.fail("nothing was kept within 30 seconds")
