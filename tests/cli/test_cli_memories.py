"""Memories on the command line: add, get, list, update, edit, forget, restore, purge."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import CommandLine


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


class TestAdd:
    def test_text_is_remembered_and_shown_with_its_short_id(self, cli: CommandLine) -> None:
        done = cli("add", "We deploy with `make ship`")

        assert done.code == 0
        assert re.match(r"Remembered \S{8}  We deploy with `make ship`", done.out)
        assert cli.contents() == ["We deploy with `make ship`"]

    def test_all_details_are_kept(self, cli: CommandLine) -> None:
        memory = cli(
            "add", "Retries are capped at 5", "--project", "api", "--sector", "reflective", "--tier", "global",
            "--kind", "decision", "--tag", "retry", "--tag", "adr", "--salience", "0.9", "--source", "ADR-016",
            "--title", "Retries", "--summary", "five", "--metadata", '{"by": "anna", "votes": [1, 2]}',
            "--created-at", "2026-03-31T18:00:00Z", "--id", "adr-016-retries", "--json",
        ).json  # fmt: skip

        assert memory == memory | {
            "id": "adr-016-retries",
            "content": "Retries are capped at 5",
            "project": "api",
            "sector": "reflective",
            "tier": "global",
            "kind": "decision",
            "tags": ["retry", "adr"],
            "salience": 0.9,
            "source": "ADR-016",
            "title": "Retries",
            "summary": "five",
            "metadata": {"by": "anna", "votes": [1, 2]},
            "created_at": "2026-03-31T18:00:00Z",
        }
        assert cli("get", "adr-016-retries", "--json").json["memories"] == [memory]

    def test_a_dash_reads_standard_input(self, cli: CommandLine) -> None:
        cli("add", "-", stdin="first line\nsecond line\n")

        assert cli.contents() == ["first line\nsecond line"]

    def test_a_file_is_remembered_whole(self, cli: CommandLine) -> None:
        (cli.work / "note.md").write_text("# Title\n\nText with ümlauts\n", "utf-8")
        cli("add", "--file", "note.md")

        assert cli.contents() == ["# Title\n\nText with ümlauts"]

    def test_the_same_text_again_is_the_same_memory_reinforced(self, cli: CommandLine) -> None:
        first = cli("add", "once", "--json").json
        second = cli("add", "once", "--json").json

        assert second["id"] == first["id"]
        assert second["salience"] > first["salience"]
        assert cli.contents() == ["once"]

    def test_an_id_of_its_own_is_updated(self, cli: CommandLine) -> None:
        texts = ("Retries are capped at 5", "Retries are capped at 5", "Retries are capped at 3")
        first, again, changed = (
            cli("add", text, "--id", "retries; $(x)", "--on-near-duplicate", "off") for text in texts
        )

        assert first.out.startswith("Remembered retries; $(x)  ")
        assert again.out.startswith("Nothing changed: ")
        assert changed.out.startswith("Updated ")
        assert cli("forget", "retries; $(x)").out.endswith("`memorist restore 'retries; $(x)'` brings it back\n")
        assert "memorist restore 'retries; $(x)'" in cli("get", "retries; $(x)").err

    def test_an_update_moves_the_time_it_expires(self, cli: CommandLine) -> None:
        cli("add", "The guest code is 9921", "--id", "guest-code", "--expires-at", "2100-01-01T00:00Z")

        assert cli("update", "guest-code", "--expires-at", "2101-01-01T00:00Z").out.startswith("Updated ")
        assert cli("get", "guest-code", "--json").json["memories"][0]["expires_at"].startswith("2101-01-01")
        cli("update", "guest-code", "--expires-at", "2020-01-01T00:00Z")
        assert "no memory has the id" in cli("get", "guest-code").err

    def test_facts_come_with_it(self, cli: CommandLine) -> None:
        memory = cli("add", "Retries are capped", "--fact", "the cap is 5", "--fact", "it was 7", "--json").json

        assert [fact["text"] for fact in memory["facts"]] == ["the cap is 5", "it was 7"]
        assert "near" not in memory

    def test_what_says_almost_the_same_is_named(self, cli: CommandLine) -> None:
        old = cli.add("The nightly job copies every invoice to the archive server in Oslo")

        done = cli("add", "The nightly job copies every invoice to the archive server in Oslo now")
        near = cli("add", "The nightly job copies every invoice to the archive server in Oslo again", "--json").json

        assert done.lines[1].startswith(f"Almost the same as {old[-8:]}: The nightly job copies")
        assert set(near["near"]) == {"id", "content", "resemblance", "merged"}
        assert len(cli.contents()) == 3

    def test_what_says_almost_the_same_is_replaced_on_request(self, cli: CommandLine) -> None:
        old = cli.add("The nightly job copies every invoice to the archive server in Oslo")

        done = cli(
            "add",
            "The nightly job copies every invoice to the archive server in Oslo now",
            "--on-near-duplicate",
            "merge",
        )

        assert done.lines[1].startswith(f"Replaces {old[-8:]}: The nightly job copies")
        assert len(cli.contents("--no-superseded")) == 1

    def test_nobody_looks_for_the_same_where_that_is_off(self, cli: CommandLine) -> None:
        cli.add("The nightly job copies every invoice to the archive server in Oslo")

        off = cli(
            "add",
            "The nightly job copies every invoice to the archive server in Oslo now",
            "--on-near-duplicate",
            "off",
        )

        assert len(off.lines) == 1
        cli("add", "x", "--on-near-duplicate", "perhaps").assert_failed(1, "perhaps")
        cli("add", "--jsonl", "-", "--on-near-duplicate", "merge").assert_failed(2, "--on-near-duplicate")

    @pytest.mark.parametrize(
        "arguments", [[], ["text", "--file", "note.md"], ["text", "--jsonl", "-"], ["--file", "a", "--jsonl", "b"]]
    )
    def test_exactly_one_source_is_needed(self, cli: CommandLine, arguments: list[str]) -> None:
        cli("add", *arguments).assert_failed(2, "give one of")

    @pytest.mark.parametrize(
        ("arguments", "about"),
        [
            ([""], "empty"),
            (["  \n "], "empty"),
            (["-"], "empty"),
            (["x", "--sector", "cosmic"], "cosmic"),
            (["x", "--tier", "basement"], "basement"),
            (["x", "--salience", "1.5"], "salience"),
            (["x", "--salience", "nan"], "salience"),
            (["x", "--metadata", "{bad"], "--metadata is not JSON"),
            (["x", "--metadata", "[1]"], "mapping"),
            (["x", "--created-at", "someday"], "someday"),
            (["x", "--id", "n\to"], "'n\\to'"),
            (["x", "--tag", ""], "tag"),
            (["--file", "nowhere.md"], "nowhere.md"),
            (["--jsonl", "nowhere.jsonl"], "nowhere.jsonl"),
        ],
    )
    def test_what_cannot_be_used_is_refused_and_nothing_is_written(
        self, cli: CommandLine, arguments: list[str], about: str
    ) -> None:
        cli("add", *arguments).assert_failed(1, about)
        assert cli.contents() == []

    def test_an_id_that_is_taken_is_refused(self, cli: CommandLine) -> None:
        cli.add("the first", "--id", "my-own-id")

        cli("add", "the second", "--id", "my-own-id", "--if-exists", "error").assert_failed(1, "my-own-id")
        assert cli.contents() == ["the first"]


class TestAddJsonl:
    LINES = '"a text"\n\n{"content": "an object", "tags": ["x"], "project": "web", "id": "own-id-1"}\n'

    def test_many_from_a_file_each_an_object_or_a_text(self, cli: CommandLine) -> None:
        (cli.work / "notes.jsonl").write_text(self.LINES)

        added = cli("add", "--jsonl", "notes.jsonl", "--json").json

        assert added["added"] == 2
        assert added["ids"][1] == "own-id-1"
        (memory,) = cli("get", "own-id-1", "--json").json["memories"]
        assert (memory["content"], memory["tags"], memory["project"]) == ("an object", ["x"], "web")

    def test_options_are_defaults_for_what_a_line_leaves_out(self, cli: CommandLine) -> None:
        (cli.work / "notes.jsonl").write_text(self.LINES)
        done = cli("add", "--jsonl", "notes.jsonl", "--project", "api", "--kind", "note")

        assert done.out == "Remembered 2 memories.\n"
        memories = cli("list", "--json").json["memories"]
        assert {one["content"]: (one["project"], one["kind"]) for one in memories} == {
            "a text": ("api", "note"),
            "an object": ("web", "note"),
        }

    def test_facts_and_a_session_for_all_of_them(self, cli: CommandLine) -> None:
        cli("session", "start", "--id", "import")
        cli("add", "--jsonl", "-", "--session", "import", "--fact", "imported", stdin=self.LINES)

        memories = cli("list", "--session", "import", "--json").json["memories"]
        assert [[fact["text"] for fact in one["facts"]] for one in memories] == [["imported"], ["imported"]]

    def test_many_from_standard_input(self, cli: CommandLine) -> None:
        done = cli("add", "--jsonl", "-", stdin=self.LINES)

        assert (done.code, done.err) == (0, "")
        assert sorted(cli.contents()) == ["a text", "an object"]

    def test_an_empty_file_adds_nothing(self, cli: CommandLine) -> None:
        (cli.work / "notes.jsonl").write_text("\n\n")

        assert cli("add", "--jsonl", "notes.jsonl", "--json").json == {"added": 0, "known": 0, "ids": []}

    def test_what_is_known_already_is_not_said_to_be_new(self, cli: CommandLine) -> None:
        lines = '"one"\n"two"\n{"content": "three", "id": "my-own-id"}\n'
        assert cli("add", "--jsonl", "-", stdin=lines).out == "Remembered 3 memories.\n"

        again = cli("add", "--jsonl", "-", stdin=lines + '"four"\n')

        assert again.out == "Remembered 1 memory; 3 were already known.\n"
        answer = cli("add", "--jsonl", "-", "--json", stdin=lines).json
        assert (answer["added"], answer["known"], len(answer["ids"])) == (0, 3, 3)

    @pytest.mark.parametrize("bad", ["not json", "[1, 2]", "17", "null", '{"content": "cut'])
    def test_a_line_that_cannot_be_read_is_named(self, cli: CommandLine, bad: str) -> None:
        (cli.work / "notes.jsonl").write_text(f'"one"\n"two"\n{bad}\n"four"\n')

        cli("add", "--jsonl", "notes.jsonl").assert_failed(1, "line 3 ")
        assert "four" not in cli.contents()

    def test_the_lines_before_a_line_that_cannot_be_read_are_kept(self, cli: CommandLine) -> None:
        (cli.work / "notes.jsonl").write_text('"one"\n"two"\nnot json\n"four"\n')
        cli("add", "--jsonl", "notes.jsonl").assert_failed(1, "The lines before it were added")

        assert sorted(cli.contents()) == ["one", "two"]

    def test_whole_batches_before_a_line_that_cannot_be_read_are_kept(self, cli: CommandLine) -> None:
        good = "".join(f'"line {number}"\n' for number in range(512))
        (cli.work / "notes.jsonl").write_text(good + "not json\n")
        cli("add", "--jsonl", "notes.jsonl").assert_failed(1, "line 513 ")

        assert len(cli.contents()) == 512

    @pytest.mark.parametrize(
        "bad",
        ['{"content": "x", "nonsense": 1}', '{"content": ""}', '{"content": 7}', '{"content": "x", "tags": 5}'],
    )
    def test_the_memories_before_one_that_cannot_be_used_are_kept(self, cli: CommandLine, bad: str) -> None:
        (cli.work / "notes.jsonl").write_text(f'"one"\n"two"\n{bad}\n"four"\n')

        cli("add", "--jsonl", "notes.jsonl").assert_failed(1, " 3 cannot be added")
        assert sorted(cli.contents()) == ["one", "two"]

    def test_a_memory_that_cannot_be_used_is_named_by_its_line(self, cli: CommandLine) -> None:
        (cli.work / "notes.jsonl").write_text('"one"\n\n\n{"content": "x", "nonsense": 1}\n')

        cli("add", "--jsonl", "notes.jsonl").assert_failed(1, "line 4 ")


class TestGet:
    def test_many_come_in_the_order_asked(self, cli: CommandLine) -> None:
        ids = [cli.add(f"memory {number}") for number in range(4)]
        asked = [ids[2], ids[0], ids[3]]

        assert [one["id"] for one in cli("get", *asked, "--json").json["memories"]] == asked
        shown = cli("get", *asked).out
        assert [shown.index(id) for id in asked] == sorted(shown.index(id) for id in asked)

    def test_a_short_id_is_enough(self, cli: CommandLine) -> None:
        id = cli.add("only one")

        for part in (id[-8:], id[-6:], id[:20]):
            assert cli("get", part, "--json").json["memories"][0]["id"] == id

    def test_a_part_that_is_too_short_finds_nothing(self, cli: CommandLine) -> None:
        id = cli.add("only one")

        assert cli("get", id[-5:]).code == 1

    def test_a_part_that_several_have_is_refused_naming_them(self, cli: CommandLine) -> None:
        cli.add("one", "--id", "018f0000-0000-7000-8000-00000000000a")
        cli.add("two", "--id", "018f0000-0000-7000-8000-00000000000b")

        done = cli("get", "018f0000")

        done.assert_failed(1, "018f0000-0000-7000-8000-00000000000a")
        assert "018f0000-0000-7000-8000-00000000000b" in done.err

    def test_what_is_missing_is_named_and_the_rest_is_shown(self, cli: CommandLine) -> None:
        id = cli.add("here")

        done = cli("get", "not-here-1", id, "not-here-2", "--json")
        shown = cli("get", "not-here-1", id)

        assert done.code == shown.code == 1
        answer = json.loads(done.out)
        assert [one["id"] for one in answer["memories"]] == [id]
        assert answer["missing"] == ["not-here-1", "not-here-2"]
        assert [line[:42] for line in done.err.splitlines()] == [
            "Error: no memory has the id 'not-here-1'; ",
            "Error: no memory has the id 'not-here-2'; ",
        ]
        assert "here" in shown.out

    def test_json_has_every_field_of_a_memory(self, cli: CommandLine) -> None:
        (memory,) = cli("get", cli.add("all of it"), "--json").json["memories"]

        assert set(memory) >= {
            "id", "content", "created_at", "updated_at", "deleted_at", "namespace", "project", "session", "sector",
            "tier", "pinned", "kind", "tags", "salience", "source", "title", "summary", "metadata", "superseded_by",
            "valid_until", "related_count", "access_count", "facts",
        }  # fmt: skip

    def test_history_shows_what_it_said_before(self, cli: CommandLine) -> None:
        id = cli.add("version one")
        cli("update", id, "version two")
        cli("update", id, "version three")

        (memory,) = cli("get", id, "--history", "--json").json["memories"]

        assert memory["content"] == "version three"
        assert [version["content"] for version in memory["history"]] == ["version two", "version one"]
        assert "version one" in cli("get", id, "--history").out

    def test_as_of_a_time_it_says_what_it_said_then(self, cli: CommandLine) -> None:
        id = cli.add("version one", "--created-at", "2026-01-01")
        cli("update", id, "version two")

        (then,) = cli("get", id, "--as-of", "2026-01-02", "--json").json["memories"]

        assert then["content"] == "version one"
        assert "version one" in cli("get", id, "--as-of", "yesterday").out
        cli("get", id, "--as-of", "2025-12-01").assert_failed(1, "did not exist yet")
        cli("get", id, "--as-of", "banana").assert_failed(1, "banana")


class TestList:
    @pytest.fixture(autouse=True)
    def _five(self, cli: CommandLine) -> None:
        for number in range(1, 6):
            cli.add(
                f"memory {number}", "--created-at", f"2026-01-0{number}T00:00:00Z", "--project", f"p{number % 2}",
                "--tag", "all", "--tag", f"t{number}", "--salience", f"0.{number}", "--kind", f"k{number}",
            )  # fmt: skip

    def test_newest_first(self, cli: CommandLine) -> None:
        assert cli.contents() == [f"memory {number}" for number in (5, 4, 3, 2, 1)]
        assert [line.split("  ")[1] for line in cli("list").lines] == [f"memory {n}" for n in (5, 4, 3, 2, 1)]

    def test_pages_follow_each_other_by_cursor_until_there_is_none(self, cli: CommandLine) -> None:
        pages, cursor = [], ()
        for _ in range(3):
            page = cli("list", "--limit", "2", *cursor, "--json").json
            pages.append([one["content"] for one in page["memories"]])
            cursor = ("--cursor", page["cursor"]) if page["cursor"] else ()

        assert pages == [["memory 5", "memory 4"], ["memory 3", "memory 2"], ["memory 1"]]
        assert cursor == ()

    def test_a_page_that_is_not_the_last_tells_how_to_go_on(self, cli: CommandLine) -> None:
        done = cli("list", "--limit", "2")
        more = re.search(r"There is more: repeat the command with (--cursor \S+)", done.err)

        assert more is not None
        assert "memory 3" in cli("list", "--limit", "2", *more[1].split()).lines[0]

    @pytest.mark.parametrize(
        ("filters", "numbers"),
        [
            (["--project", "p1"], [5, 3, 1]),
            (["--project", "p1", "--project", "p0"], [5, 4, 3, 2, 1]),
            (["--tag", "all", "--tag", "t2"], [2]),
            (["--since", "2026-01-04T00:00:00Z"], [5, 4]),
            (["--until", "2026-01-02T00:00:00Z"], [1]),
            (["--min-salience", "0.4"], [5, 4]),
            (["--kind", "k3"], [3]),
            (["--sector", "episodic"], []),
            (["--tier", "project", "--kind", "k1"], [1]),
            (["--source", "nowhere"], []),
            (["--project", "p1' or 1=1 --"], []),
            (["--month", "2026-01", "--kind", "k2"], [2]),
            (["--month", "2025-11"], []),
            (["--fact-kind", "state"], []),
            (["--pinned"], []),
            (["--never-recalled", "--kind", "k4"], [4]),
            (["--as-of", "2026-01-02T12:00Z"], [2, 1]),
        ],
    )
    def test_filters(self, cli: CommandLine, filters: list[str], numbers: list[int]) -> None:
        assert cli.contents(*filters) == [f"memory {number}" for number in numbers]

    @pytest.mark.parametrize(
        ("arguments", "about"),
        [
            (["--limit", "0"], "limit"),
            (["--cursor", "banana"], "banana"),
            (["--since", "banana"], "banana"),
            (["--sector", "cosmic"], "cosmic"),
            (["--min-salience", "7"], "min_salience"),
            (["--session", "nope"], "nope"),
            (["--month", "2026-13"], "2026-13"),
            (["--as-of", "banana"], "banana"),
            (["--detail", "tiny"], "tiny"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, cli: CommandLine, arguments: list[str], about: str) -> None:
        cli("list", *arguments).assert_failed(1, about)

    def test_as_much_of_each_as_is_asked_for(self, cli: CommandLine) -> None:
        index, snippet, full = (
            cli("list", "--limit", "1", "--detail", detail, "--json").json["memories"][0]
            for detail in ("index", "snippet", "full")
        )

        assert index["summary"] == snippet["snippet"] == full["content"] == "memory 5"
        assert set(index) == set(snippet) - {"snippet"}
        assert "content" not in set(index) | set(snippet)
        for detail in ("index", "snippet"):
            assert "  memory 5  " in cli("list", "--limit", "1", "--detail", detail).out
        assert cli("list", "--limit", "1", "--detail", "full").lines[1] == "memory 5"

    def test_superseded_ones_are_in_it_unless_left_out(self, cli: CommandLine) -> None:
        newest, older = cli("list", "--limit", "2", "--json").json["memories"]
        cli("supersede", older["id"], newest["id"])

        assert len(cli.contents()) == 5
        assert "memory 4" not in cli.contents("--no-superseded")

    def test_deleted_lists_the_forgotten_ones_instead(self, cli: CommandLine) -> None:
        (third,) = cli("list", "--kind", "k3", "--json").json["memories"]
        cli("forget", third["id"])

        assert cli.contents("--deleted") == ["memory 3"]
        assert "memory 3" not in cli.contents()

    def test_an_empty_list_says_so_on_stderr(self, cli: CommandLine) -> None:
        done = cli("list", "--project", "nothing")

        assert (done.code, done.out, done.err) == (0, "", "Nothing found.\n")


class TestUpdate:
    def test_text_and_details_change_and_the_rest_stays(self, cli: CommandLine) -> None:
        id = cli.add("capped at 5", "--project", "api", "--tag", "old", "--kind", "decision")

        updated = cli("update", id[-8:], "capped at 3", "--tag", "new", "--metadata", '{"a": 1}', "--json").json

        assert (updated["id"], updated["content"], updated["tags"]) == (id, "capped at 3", ["new"])
        assert (updated["project"], updated["kind"], updated["metadata"]) == ("api", "decision", {"a": 1})
        assert cli("search", "capped", "--json").json["results"][0]["content"] == "capped at 3"

    def test_a_dash_reads_the_new_text_from_standard_input(self, cli: CommandLine) -> None:
        id = cli.add("old")
        done = cli("update", id, "-", stdin="new\n")

        assert done.out.startswith(f"Updated {id[-8:]}  new")
        assert cli.contents() == ["new"]

    def test_the_same_text_again_changes_nothing_and_the_message_says_so(self, cli: CommandLine) -> None:
        id = cli.add("as it was")

        done = cli("update", id, "as it was")

        assert done.out.startswith(f"Nothing changed: {id[-8:]}  as it was")
        assert cli("get", id, "--history", "--json").json["memories"][0]["history"] == []

    @pytest.mark.parametrize(
        ("arguments", "about"),
        [([], "nothing to change"), (["--salience", "2"], "salience"), ([""], "empty"), (["--metadata", "{"], "JSON")],
    )
    def test_what_cannot_be_used_is_refused_and_nothing_changes(
        self, cli: CommandLine, arguments: list[str], about: str
    ) -> None:
        id = cli.add("as it was")

        cli("update", id, *arguments).assert_failed(1, about)
        assert cli.contents() == ["as it was"]

    def test_an_unknown_id_is_named(self, cli: CommandLine) -> None:
        cli("update", "no-such-id", "text").assert_failed(1, "no-such-id")


class TestEdit:
    @pytest.fixture
    def editor(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        """Use a shell command as the editor; $1 is the file."""

        def use(command: str) -> None:
            script = tmp_path / "editor"
            script.write_text(f"#!/bin/sh\n{command}\n")
            script.chmod(0o755)
            monkeypatch.delenv("VISUAL", raising=False)
            monkeypatch.setenv("EDITOR", str(script))

        return use

    @pytest.fixture
    def id(self, cli: CommandLine) -> str:
        return cli.add("capped at 5\nsee ADR-016", "--tag", "decision")

    def test_the_text_is_changed_and_the_old_one_kept(
        self, cli: CommandLine, editor: Callable[[str], None], id: str
    ) -> None:
        editor("""sed -i 's/at 5/at 3/' "$1" """)

        done = cli("edit", id[-8:])

        assert done.out.startswith(f"Updated {id[-8:]}  capped at 3")
        (memory,) = cli("get", id, "--history", "--json").json["memories"]
        assert (memory["content"], memory["tags"]) == ("capped at 3\nsee ADR-016", ["decision"])
        assert [old["content"] for old in memory["history"]] == ["capped at 5\nsee ADR-016"]

    def test_visual_counts_more_than_editor(
        self, cli: CommandLine, editor: Callable[[str], None], id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        editor('echo changed > "$1"')
        monkeypatch.setenv("VISUAL", os.environ["EDITOR"])
        monkeypatch.setenv("EDITOR", "false")

        assert cli("edit", id, "--json").json["content"] == "changed"

    @pytest.mark.parametrize(
        ("command", "reason"),
        [
            ("true", "the text is the same"),
            ('touch -d "+1 minute" "$1"', "the text is the same"),
            (': > "$1"', "the text is empty"),
            ('echo " " > "$1"', "the text is empty"),
        ],
    )
    def test_the_same_text_or_none_changes_nothing_and_says_so(
        self, cli: CommandLine, editor: Callable[[str], None], id: str, command: str, reason: str
    ) -> None:
        editor(command)

        done = cli("edit", id)

        assert (done.code, done.out) == (0, "")
        assert done.err.startswith(f"Nothing changed: {reason}.")
        assert cli.contents() == ["capped at 5\nsee ADR-016"]

    def test_an_editor_that_fails_changes_nothing(
        self, cli: CommandLine, editor: Callable[[str], None], id: str
    ) -> None:
        editor('echo changed > "$1"; exit 3')

        cli("edit", id).assert_failed(1, "Editing failed")
        assert cli.contents() == ["capped at 5\nsee ADR-016"]

    def test_an_unknown_id_is_named_before_the_editor_opens(
        self, cli: CommandLine, editor: Callable[[str], None], tmp_path: Path
    ) -> None:
        editor(f"touch {tmp_path}/opened")

        cli("edit", "no-such-id").assert_failed(1, "no-such-id")
        assert not (tmp_path / "opened").exists()


class TestShortIds:
    @pytest.mark.parametrize("command", [["get"], ["forget"], ["pin"], ["update", "--salience", "1"], ["related"]])
    def test_a_part_that_is_too_short_says_so(self, cli: CommandLine, command: list[str]) -> None:
        id = cli.add("one")

        cli(*command, id[-3:]).assert_failed(1, f"Error: {id[-3:]!r} is too short: give at least 6 characters of an id")


class TestForgetRestorePurge:
    def test_a_forgotten_memory_is_not_found_and_can_be_restored(self, cli: CommandLine) -> None:
        id = cli.add("a secret plan")

        assert id[-8:] in cli("forget", id[-8:]).out
        assert cli("search", "secret", "--json").json["results"] == []
        assert cli("get", id).code == 1
        assert cli("restore", id).out.startswith(f"Restored {id[-8:]}  a secret plan")
        assert len(cli("search", "secret", "--json").json["results"]) == 1

    def test_several_at_once(self, cli: CommandLine) -> None:
        ids = [cli.add(f"memory {number}") for number in range(3)]

        assert len(cli("forget", *ids[:2]).lines) == 2
        assert cli.contents() == ["memory 2"]
        assert len(cli("restore", *ids[:2]).lines) == 2
        assert len(cli.contents()) == 3

    def test_hard_erases_at_once(self, cli: CommandLine) -> None:
        id = cli.add("a secret plan")

        done = cli("forget", id, "--hard")

        assert done.out == f"Erased {id}\n"
        assert done.err == "Erased words may stay in the file until `memorist purge` rewrites it.\n"
        cli("restore", id).assert_failed(1, id)
        assert cli.contents("--deleted") == []

    def test_purge_erases_what_was_forgotten_for_good(self, cli: CommandLine) -> None:
        id = cli.add("zanzibar is the password")
        cli.add("this stays")
        cli("forget", id)

        assert cli("purge", "--yes", "--json").json == {"purged": 1}
        assert cli("purge", "--yes").out == (
            "Erased 0 forgotten memories and rewrote the file: nothing of what was erased is left in it.\n"
        )
        assert cli("purge").code == 2
        cli("restore", id).assert_failed(1, id)
        assert b"zanzibar" not in b"".join(file.read_bytes() for file in cli.database.parent.glob("memory.db*"))
        assert cli.contents() == ["this stays"]

    def test_purge_before_a_time_leaves_what_was_forgotten_since(self, cli: CommandLine) -> None:
        cli("forget", cli.add("forgotten just now"))

        assert cli("purge", "--before", "2020-01-01", "--yes", "--json").json == {"purged": 0}
        assert cli.contents("--deleted") == ["forgotten just now"]
        cli("purge", "--before", "banana", "--yes").assert_failed(1, "banana")

    @pytest.mark.parametrize("command", ["forget", "restore"])
    def test_an_unknown_id_is_named(self, cli: CommandLine, command: str) -> None:
        cli(command, "no-such-id").assert_failed(1, "no-such-id")

    def test_forgetting_twice_tells_how_to_undo_it(self, cli: CommandLine) -> None:
        id = cli.add("once")
        cli("forget", id)

        cli("forget", id).assert_failed(1, f"memorist restore {id}")
        cli("restore", id)
        cli("restore", id).assert_failed(1, "not forgotten")

    def test_a_namespace_is_a_wall_for_all_of_them(self, cli: CommandLine) -> None:
        id = cli.add("behind the wall")

        for command in (["get", id], ["forget", id], ["forget", id, "--hard"], ["update", id, "x"], ["restore", id]):
            assert cli("--namespace", "other", *command).code == 1
        assert cli("--namespace", "other", "list", "--json").json["memories"] == []
        assert cli("--namespace", "other", "search", "wall", "--json").json["results"] == []
        assert cli.contents() == ["behind the wall"]


class TestFiles:
    def test_a_binary_file_is_refused(self, cli: CommandLine, tmp_path: Path) -> None:
        file = tmp_path / "picture.png"
        file.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")

        ended = cli("add", "--file", str(file))

        assert ended.code == 1
        assert "is binary, not text" in ended.err

    @pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
    def test_a_pipe_or_device_is_refused_before_it_is_opened(self, cli: CommandLine, tmp_path: Path) -> None:
        os.mkfifo(pipe := tmp_path / "pipe")

        for path in (str(pipe), "/dev/zero"):
            for option in ("--file", "--jsonl"):
                ended = cli("add", option, path)
                assert ended.code == 1
                assert "it is not a file" in ended.err

    def test_input_without_an_end_is_read_no_further_than_a_memory_can_be(self, cli: CommandLine) -> None:
        ended = cli("add", "-", stdin=b"x" * 5_000_000)

        assert ended.code == 1
        assert "standard input is too long" in ended.err
