"""Sessions on the command line: started, ended, summarised, looked at, and what memories have to do with them."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine

SESSION = {"id", "started_at", "ended_at", "summary", "project", "memory_count"}


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def id(cli: CommandLine) -> str:
    return cli("session", "start", "--project", "api", "--summary", "Looking into retries").out.strip()


class TestStartAndEnd:
    def test_start_prints_the_id_and_nothing_else(self, cli: CommandLine, id: str) -> None:
        assert cli.database.is_file()
        assert cli("session", "show", id, "--json").json["session"]["id"] == id

    def test_start_with_an_id_of_ones_own_and_the_project_of_the_settings(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MEMORIST_PROJECT", "web")
        session = cli("session", "start", "--id", "chat 7", "--json").json

        assert set(session) == SESSION
        assert (session["id"], session["project"], session["ended_at"]) == ("chat 7", "web", None)

    def test_end_says_when_and_what_it_was_about(self, cli: CommandLine, id: str) -> None:
        ended = cli("session", "end", id[-8:], "--summary", "Retries are capped", "--json").json

        assert (ended["id"], ended["summary"]) == (id, "Retries are capped")
        assert ended["ended_at"].endswith("Z")

    def test_end_takes_the_summary_as_an_argument_as_summarise_does(self, cli: CommandLine, id: str) -> None:
        assert cli("session", "end", id, "Looked into retries", "--json").json["summary"] == "Looked into retries"

    def test_end_takes_one_summary(self, cli: CommandLine, id: str) -> None:
        done = cli("session", "end", id, "Looked into retries", "--summary", "Retries")

        done.assert_failed(2, "the summary is given twice: as an argument and with --summary; leave one of them out")
        assert cli("session", "show", id, "--json").json["session"]["ended_at"] is None

    def test_what_is_added_to_a_session_gets_its_project_rather_than_that_of_the_settings(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with_project = cli("session", "start", "--project", "api").out.strip()
        without = cli("session", "start").out.strip()
        monkeypatch.setenv("MEMORIST_PROJECT", "web")
        lines = "\n".join(json.dumps({"content": text, "session": with_project}) for text in ("three", "four"))

        def project_of(*arguments: str) -> str:
            project: str = cli("add", *arguments, "--json").json["project"]
            return project

        assert project_of("one", "--session", with_project) == "api"
        assert project_of("one", "--session", with_project, "--project", "app") == "app"
        assert project_of("two", "--session", without) == "web"
        assert cli("add", "--jsonl", "-", stdin=lines).code == 0
        assert cli.contents("--project", "api") == ["four", "three", "one"]

    def test_summarise_also_after_the_end(self, cli: CommandLine, id: str) -> None:
        assert cli("session", "end", id).out.startswith(f"Ended {id}")
        done = cli("session", "summarise", id, "It was about retries")

        assert done.out.startswith(f"Summarised {id}")
        assert done.out.endswith("  It was about retries\n")

    def test_an_ended_session_takes_nothing_more(self, cli: CommandLine, id: str) -> None:
        memory = cli.add("before")
        cli("session", "end", id)

        for command in (
            ["session", "end", id], ["add", "after", "--session", id], ["reinforce", memory, "--session", id],
            ["update", memory, "x", "--session", id], ["search", "x", "--record", "log", "--record-session", id],
        ):  # fmt: skip
            cli(*command).assert_failed(1, f"session {id} ended on")
        assert cli.contents() == ["before"]

    @pytest.mark.parametrize(
        ("arguments", "code", "about"),
        [
            (["start", "--id", ""], 1, "session id"),
            (["start", "--project", " "], 1, "project"),
            (["end", "nope"], 1, "nope"),
            (["summarise", "nope", "x"], 1, "nope"),
            (["summarise", "nope"], 2, "TEXT"),
            (["show", "nope"], 1, "nope"),
            (["of", "no-such-id"], 1, "no-such-id"),
            (["list", "--limit", "0"], 1, "limit"),
            (["nonsense"], 2, "nonsense"),
        ],
    )
    def test_what_cannot_be_used_is_refused(
        self, cli: CommandLine, arguments: list[str], code: int, about: str
    ) -> None:
        cli("session", *arguments).assert_failed(code, about)

    def test_an_id_that_is_taken_is_refused(self, cli: CommandLine, id: str) -> None:
        cli("session", "start", "--id", id).assert_failed(1, "already")

    def test_an_unknown_session_is_named_by_every_command(self, cli: CommandLine) -> None:
        memory = cli.add("here")

        for command in (
            ["add", "x", "--session", "nope"], ["update", memory, "x", "--session", "nope"],
            ["list", "--session", "nope"], ["search", "x", "--session", "nope"],
            ["search", "x", "--record", "log", "--record-session", "nope"],
        ):  # fmt: skip
            cli(*command).assert_failed(1, "no session has the id 'nope'")


class TestLooking:
    def test_list_the_latest_first_of_a_project_or_those_still_open(self, cli: CommandLine) -> None:
        for name, project in (("one", "api"), ("two", "web"), ("three", "api")):
            cli("session", "start", "--id", name, "--project", project)
        cli("session", "end", "three")

        def listed(*options: str) -> list[str]:
            return [session["id"] for session in cli("session", "list", *options, "--json").json["sessions"]]

        assert listed() == ["three", "two", "one"]
        assert listed("--project", "api") == ["three", "one"]
        assert listed("--active") == ["two", "one"]
        assert listed("--limit", "1") == ["three"]
        assert [line.split()[0] for line in cli("session", "list").lines] == ["three", "two", "one"]
        assert cli("session", "list", "--project", "nowhere").err == "Nothing found.\n"

    def test_show_has_the_memories_made_and_used_in_it(self, cli: CommandLine, id: str) -> None:
        used = cli.add("made elsewhere, and changed here")
        cli("update", used, "--kind", "note", "--session", id)
        cli.add("made here", "--session", id)

        shown = cli("session", "show", id[-8:], "--json").json
        first, *lines = cli("session", "show", id).lines

        assert set(shown["session"]) == SESSION
        assert shown["session"]["memory_count"] == 2
        assert [one["content"] for one in shown["memories"]] == ["made here", "made elsewhere, and changed here"]
        assert first.startswith(id)
        assert first.endswith("open · api · 2 memories  Looking into retries")
        assert "made here" in lines[0]
        assert "There is more" in cli("session", "show", id, "--limit", "1").err

    def test_a_memory_names_the_session_it_comes_from(self, cli: CommandLine, id: str) -> None:
        memory = cli("add", "made here", "--session", id, "--json").json
        (hit,) = cli("search", "made", "--session", id, "--json").json["results"]

        assert memory["session"] == memory["session"] | {
            "id": id, "summary": "Looking into retries", "project": "api",
        }  # fmt: skip
        assert set(memory["session"]) == {"id", "started_at", "summary", "project"}
        assert hit["session"] == memory["session"]
        assert f"  from session {id}: Looking into retries" in cli("get", memory["id"]).lines
        assert cli.contents("--session", id) == ["made here"]

    def test_of_a_memory_the_session_that_used_it_last(self, cli: CommandLine, id: str) -> None:
        memory = cli.add("made here", "--session", id)
        cli("session", "start", "--id", "later")
        cli("search", "made", "--record", "log", "--record-session", "later")

        used = cli("session", "of", memory, "--json").json

        assert (used["session"]["id"], used["usage"]) == ("later", "recalled")
        assert used["at"].endswith("Z")
        assert cli("session", "of", memory).out.startswith("recalled ")

    def test_of_a_memory_no_session_used(self, cli: CommandLine) -> None:
        memory = cli.add("alone")

        assert cli("session", "of", memory).err == "No session used it.\n"
        assert cli("session", "of", memory, "--json").json == {"session": None, "usage": None, "at": None}
