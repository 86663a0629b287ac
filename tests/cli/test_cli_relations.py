"""Links, weight and facts of memories: supersede, relate, related, reinforce, pin, fact, dupes."""

import math
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command_line import CommandLine

from timeouts import MAX_WAIT_SECONDS

FACT = {
    "id", "text", "kind", "subject", "predicate", "object", "confidence", "effective", "decay_rate", "created_at",
    "reinforced_at",
}  # fmt: skip


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def old(cli: CommandLine) -> str:
    return cli.add("Retries are capped at 5", "--id", "retries-old", "--project", "api")


@pytest.fixture
def new(cli: CommandLine, old: str) -> str:
    return cli.add("We retry only 3 times now", "--id", "retries-new", "--project", "api")


class TestSupersede:
    def test_the_old_one_is_left_out_of_search_and_marked_in_the_list(
        self, cli: CommandLine, old: str, new: str
    ) -> None:
        done = cli("supersede", old, new)

        assert done.out.startswith("Superseded retries-old  Retries are capped at 5")
        assert cli("search", "capped", "--json").json["results"] == []
        assert "(superseded by retries-new)" in cli("list").lines[1]
        assert "(superseded by retries-new)" in cli("get", old).out

    def test_json_names_what_replaced_it(self, cli: CommandLine, old: str, new: str) -> None:
        memory = cli("supersede", old, new, "--json").json

        assert memory["id"] == old
        assert memory["valid_until"].endswith("Z")
        assert set(memory["superseded_by"]) == {"id", "content", "created_at", "project"}
        assert memory["superseded_by"] == memory["superseded_by"] | {"id": new, "content": "We retry only 3 times now"}

    def test_undo_makes_it_current_again(self, cli: CommandLine, old: str, new: str) -> None:
        cli("supersede", old, new)

        assert cli("supersede", "--undo", old).out.startswith("Current again: retries-old")
        assert cli("get", old, "--json").json["memories"][0]["superseded_by"] is None
        cli("supersede", "--undo", old).assert_failed(1, "not superseded")

    def test_forgetting_what_replaced_another_says_that_the_other_stays_replaced(
        self, cli: CommandLine, old: str, new: str
    ) -> None:
        cli("supersede", old, new)

        assert "`memorist supersede --undo retries-old` makes it current again" in cli("forget", new).err

    def test_at_a_time_of_the_past(self, cli: CommandLine) -> None:
        old = cli.add("it was so", "--created-at", "2026-01-01T00:00Z")
        new = cli.add("it is otherwise")

        assert cli("supersede", old, new, "--at", "2026-02-01T00:00Z", "--json").json["valid_until"] == (
            "2026-02-01T00:00:00Z"
        )
        assert cli.contents("--as-of", "2026-01-15", "--no-superseded") == ["it was so"]
        cli("supersede", old, new, "--at", "banana").assert_failed(1, "banana")

    def test_one_whose_successor_was_forgotten_is_marked_all_the_same(
        self, cli: CommandLine, old: str, new: str
    ) -> None:
        cli("supersede", old, new)
        cli("forget", new)

        assert cli("list").lines[0].endswith("(superseded)")

    @pytest.mark.parametrize(
        ("arguments", "code", "about"),
        [
            (["no-such-id", "retries-new"], 1, "no-such-id"),
            (["retries-old", "no-such-id"], 1, "no-such-id"),
            (["retries-old"], 2, "supersede OLD NEW"),
            (["--undo", "retries-old", "retries-new"], 2, "--undo takes only OLD"),
            (["--undo", "retries-old", "--at", "now"], 2, "--undo takes only OLD"),
        ],
    )
    @pytest.mark.usefixtures("new")
    def test_what_cannot_be_used_is_refused(
        self, cli: CommandLine, arguments: list[str], code: int, about: str
    ) -> None:
        cli("supersede", *arguments).assert_failed(code, about)

    def test_two_cannot_replace_each_other(self, cli: CommandLine, old: str, new: str) -> None:
        cli("supersede", old, new)

        cli("supersede", new, old).assert_failed(1, "itself supersedes")


class TestRelate:
    def test_what_was_said_of_two_memories_comes_first_among_the_related(
        self, cli: CommandLine, old: str, new: str
    ) -> None:
        cli.add("We retry only on Mondays", "--project", "api")

        said = cli("relate", new, old, "contradicts", "--confidence", "0.8", "--said-by", "anna")
        first, second = cli("related", new, "--json").json["related"]

        assert said.out == "Linked: retries-new contradicts retries-old\n"
        assert first["id"] == old
        assert first["relation"] == first["relation"] | {
            "source": new, "target": old, "kind": "contradicts", "confidence": 0.8, "said_by": "anna",
            "valid_until": None,
        }  # fmt: skip
        assert (second["content"], second["relation"]) == ("We retry only on Mondays", None)
        assert first["related_count"] == 1

    def test_as_text_each_says_how_it_is_related(self, cli: CommandLine, old: str, new: str) -> None:
        cli.add("We retry only on Mondays", "--project", "api")
        cli("relate", new, old, "contradicts")

        lines = cli("related", old).lines

        assert lines[0].startswith("retries-new  We retry only 3 times now")
        assert lines[1] == "    retries-new contradicts retries-old (1.00)"
        assert "    similar" in cli("related", new).lines

    def test_a_memory_with_several_links_is_shown_once_with_all_of_them(
        self, cli: CommandLine, old: str, new: str
    ) -> None:
        cli("relate", new, old, "contradicts")
        cli("relate", old, new, "explains", "--confidence", "0.5")

        (only,) = cli("related", old, "--json").json["related"]

        assert only["relation"]["kind"] == "contradicts"
        assert [relation["kind"] for relation in only["further_relations"]] == ["explains"]
        assert cli("related", old).lines[1:] == [
            "    retries-new contradicts retries-old (1.00)",
            "    retries-old explains retries-new (0.50)",
        ]

    def test_limit_and_as_of(self, cli: CommandLine, old: str, new: str) -> None:
        cli("relate", new, old, "contradicts")

        assert len(cli("related", new, "--limit", "1", "--json").json["related"]) == 1
        cli("related", new, "--as-of", "2020-01-01").assert_failed(1, "did not exist yet")

    def test_undo_takes_it_back(self, cli: CommandLine, old: str, new: str) -> None:
        cli("relate", new, old, "contradicts")

        assert cli("relate", "--undo", new, old, "contradicts").out == "Removed: retries-new contradicts retries-old\n"
        assert cli("get", old, "--json").json["memories"][0]["related_count"] == 0
        cli("relate", "--undo", new, old, "contradicts").assert_failed(1, "nothing to take back")

    @pytest.mark.parametrize(
        ("arguments", "code", "about"),
        [
            (["relate", "retries-new", "no-such-id", "explains"], 1, "no-such-id"),
            (["relate", "retries-new", "retries-new", "explains"], 1, "itself"),
            (["relate", "retries-new", "retries-old", "supersedes"], 1, "supersede"),
            (["relate", "retries-new", "retries-old", " "], 1, "kind"),
            (["relate", "retries-new", "retries-old", "explains", "--confidence", "2"], 1, "confidence"),
            (["relate", "--undo", "retries-new", "retries-old", "explains", "--said-by", "anna"], 2, "--undo"),
            (["relate", "retries-new", "retries-old"], 2, "KIND"),
            (["related", "no-such-id"], 1, "no-such-id"),
            (["related", "retries-new", "--limit", "0"], 1, "limit"),
            (["related", "retries-new", "--as-of", "banana"], 1, "banana"),
        ],
    )
    @pytest.mark.usefixtures("new")
    def test_what_cannot_be_used_is_refused(
        self, cli: CommandLine, arguments: list[str], code: int, about: str
    ) -> None:
        cli(*arguments).assert_failed(code, about)


class TestReinforce:
    def test_salience_rises_by_a_share_of_what_is_missing(self, cli: CommandLine, old: str, new: str) -> None:
        memories = cli("reinforce", old, new, "--amount", "0.5", "--json").json["memories"]

        assert [(one["id"], one["salience"]) for one in memories] == [(old, 0.75), (new, 0.75)]

    def test_less_lets_it_fall_by_a_share_of_what_is_there(self, cli: CommandLine, old: str) -> None:
        done = cli("reinforce", "--less", old)

        assert re.fullmatch(r"Deemphasized retries-old  Retries are capped at 5 .* salience 0.40\n", done.out)

    def test_in_a_session(self, cli: CommandLine, old: str) -> None:
        id = cli("session", "start").out.strip()
        cli("reinforce", old, "--session", id)

        assert cli("session", "of", old, "--json").json["usage"] == "reinforced"
        cli("reinforce", "--less", old, "--session", id).assert_failed(2, "--session")

    def test_those_before_an_unknown_one_are_done_and_told(self, cli: CommandLine, old: str) -> None:
        done = cli("reinforce", old, "no-such-id")

        assert (done.code, done.out.split("  ")[0]) == (1, "Reinforced retries-old")
        assert "no-such-id" in done.err

    def test_what_cannot_be_used_is_refused(self, cli: CommandLine, old: str) -> None:
        cli("reinforce", old, "--amount", "7").assert_failed(1, "amount")
        cli("reinforce", old, "--session", "nope").assert_failed(1, "nope")
        cli("reinforce").assert_failed(2, "ID")


class TestPin:
    def test_pinned_ones_are_listed_until_they_are_unpinned(self, cli: CommandLine, old: str, new: str) -> None:
        assert cli("pin").err == "Nothing is pinned.\n"
        assert cli("pin", old, new).lines[0].startswith("Pinned retries-old  Retries are capped at 5")
        assert [one["id"] for one in cli("pin", "--json").json["memories"]] == [new, old]
        assert cli("pin", new).out.startswith("Already pinned: retries-new")
        assert cli("pin", "--remove", new).out.startswith("Unpinned retries-new")
        assert cli("pin", "--remove", new).out.startswith("Was not pinned: retries-new")
        (line,) = cli("pin").lines
        assert line.startswith("retries-old")
        assert line.endswith("(pinned)")

    def test_json_tells_what_became_of_it(self, cli: CommandLine, old: str) -> None:
        assert cli("pin", old, "--json").json["memories"][0]["pinned"] is True

    def test_what_cannot_be_used_is_refused(self, cli: CommandLine) -> None:
        cli("pin", "no-such-id").assert_failed(1, "no-such-id")
        cli("pin", "--remove").assert_failed(2, "give the ids")


class TestFact:
    def test_a_fact_is_kept_with_all_its_parts(self, cli: CommandLine, old: str) -> None:
        fact = cli(
            "fact", "add", old, "the cap is 5", "--kind", "decision", "--confidence", "0.8", "--decay-rate", "0.5",
            "--subject", "retries", "--predicate", "capped at", "--object", "5", "--json",
        ).json  # fmt: skip
        listed = cli("fact", "list", old, "--json").json

        assert fact["memory_id"] == listed["memory_id"] == old
        (shown,) = listed["facts"]
        assert set(shown) == FACT
        assert shown == shown | {
            "id": fact["id"], "text": "the cap is 5", "kind": "decision", "confidence": 0.8, "decay_rate": 0.5,
            "subject": "retries", "predicate": "capped at", "object": "5",
        }  # fmt: skip
        assert shown["effective"] == pytest.approx(0.8, abs=1e-3)
        assert set(cli("get", old, "--json").json["memories"][0]["facts"][0]) == FACT

    def test_an_older_fact_has_decayed_since_it_was_last_reinforced(self, cli: CommandLine, old: str) -> None:
        then = (datetime.now(UTC) - timedelta(days=10)).isoformat()

        fact = cli("fact", "add", old, "the cap is 5", "--decay-rate", "0.1", "--reinforced-at", then, "--json").json

        assert fact["effective"] == pytest.approx(math.exp(-1), abs=1e-3)

    def test_as_text_with_what_is_left_of_its_confidence(self, cli: CommandLine, old: str) -> None:
        noted = cli("fact", "add", old, "the cap\nis 5", "--kind", "decision", "--confidence", "0.8").out

        assert re.fullmatch(r"Noted \S{8}  the cap is 5  \(decision, 0.80\)\n", noted)
        assert cli("fact", "list", old).out == noted.removeprefix("Noted ")
        assert "  - the cap is 5  (decision, 0.80)" in cli("get", old).lines

    def test_reinforced_it_is_surer_and_removed_it_is_gone(self, cli: CommandLine, old: str) -> None:
        id = cli("fact", "add", old, "the cap is 5", "--confidence", "0.5", "--json").json["id"]

        surer = cli("fact", "reinforce", id[-8:], "--amount", "0.5", "--json").json
        removed = cli("fact", "remove", id[-8:])

        assert surer["confidence"] == pytest.approx(0.75, abs=1e-3)
        assert removed.out == f"Removed {id[-8:]}  the cap is 5\n"
        assert cli("fact", "list", old).err == "Nothing found.\n"

    def test_as_of_a_time_before_it_was_noted(self, cli: CommandLine) -> None:
        id = cli.add("dated back", "--created-at", "2026-01-01")
        cli("fact", "add", id, "noted today")

        assert cli("fact", "list", id, "--as-of", "2026-01-02", "--json").json["facts"] == []

    @pytest.mark.parametrize(
        ("arguments", "code", "about"),
        [
            (["add", "no-such-id", "x"], 1, "no-such-id"),
            (["add", "retries-old", " "], 1, "empty"),
            (["add", "retries-old", "x", "--confidence", "2"], 1, "confidence"),
            (["add", "retries-old", "x", "--decay-rate", "-1"], 1, "decay_rate"),
            (["add", "retries-old"], 2, "TEXT"),
            (["list", "no-such-id"], 1, "no-such-id"),
            (["list", "retries-old", "--as-of", "2020-01-01"], 1, "did not exist yet"),
            (["reinforce", "no-such-fact"], 1, "no-such-fact"),
            (["remove", "no-such-fact"], 1, "no-such-fact"),
            (["invent"], 2, "invent"),
        ],
    )
    @pytest.mark.usefixtures("old")
    def test_what_cannot_be_used_is_refused(
        self, cli: CommandLine, arguments: list[str], code: int, about: str
    ) -> None:
        cli("fact", *arguments).assert_failed(code, about)


class TestDupes:
    TEXT = "The nightly job copies every invoice of the day to the archive server in Oslo"

    @pytest.fixture(autouse=True)
    def _alike(self, cli: CommandLine) -> None:
        cli.add(self.TEXT, "--id", "dupe-first", "--tag", "ops")
        cli.add(f"{self.TEXT} now", "--id", "dupe-second", "--tag", "oslo")
        cli.add("Something else altogether", "--id", "alone-here")

    def test_groups_are_listed_and_nothing_changes(self, cli: CommandLine) -> None:
        lines = cli("dupes").lines
        answer = cli("dupes", "--json").json

        assert [line[:10] for line in lines] == ["- dupe-fir", "  dupe-sec"]
        assert [[one["id"] for one in group] for group in answer["groups"]] == [["dupe-first", "dupe-second"]]
        assert answer["kept"] == []
        assert cli("stats", "--json").json["superseded"] == 0

    def test_merge_keeps_the_newest_and_nothing_is_lost(self, cli: CommandLine) -> None:
        answer = cli("dupes", "--merge", "--yes", "--json").json
        first, second = cli("get", "dupe-first", "dupe-second", "--json").json["memories"]

        assert answer["kept"] == ["dupe-second"]
        assert first["superseded_by"]["id"] == "dupe-second"
        assert second["tags"] == ["oslo", "ops"]
        assert cli("dupes").err == "Nothing found.\n"
        assert cli("supersede", "--undo", "dupe-first").code == 0

    def test_threshold_and_project(self, cli: CommandLine) -> None:
        assert cli("dupes", "--threshold", "1", "--json").json["groups"] == []
        assert cli("dupes", "--project", "web", "--json").json["groups"] == []
        cli("dupes", "--threshold", "3").assert_failed(1, "threshold")

    def test_without_a_terminal_to_ask_at_merging_needs_a_yes(self, cli: CommandLine) -> None:
        cli("dupes", "--merge").assert_failed(2, "--yes")
        assert cli("stats", "--json").json["superseded"] == 0

    @pytest.mark.parametrize(("answer", "code", "superseded"), [(b"n\n", 130, 0), (b"y\n", 0, 1)])
    def test_at_a_terminal_it_asks_first(self, cli: CommandLine, answer: bytes, code: int, superseded: int) -> None:
        master, slave = os.openpty()
        with cli.start("dupes", "--merge", "--json", stdin=slave) as process:
            os.write(master, answer)
            _, err = process.communicate(timeout=MAX_WAIT_SECONDS)
        for end in (master, slave):
            os.close(end)

        assert process.returncode == code
        assert b"Merge 2 memories into 1?" in err
        assert cli("stats", "--json").json["superseded"] == superseded
