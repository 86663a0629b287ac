"""Looking around on the command line: timeline, recalls, lens."""

import re
from pathlib import Path

import pytest
from command_line import CommandLine

import memorist

INDEX = {"id", "created_at", "kind", "tags", "summary", "project", "session", "superseded_by", "valid_until"}


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


class TestTimeline:
    @pytest.fixture(autouse=True)
    def _march(self, cli: CommandLine) -> None:
        with memorist.open(cli.database, embedder="none") as memory:
            memory.sessions.start("api", id="spring", summary="Spring cleaning")
            memory.add_many(
                {
                    "content": f"On day {day} we cleaned room {day}", "id": f"day-00{day}", "tags": [f"t{day}"],
                    "created_at": f"2026-03-0{day}T12:00", "project": "api" if day < 7 else "web",
                    "session": "spring" if day < 3 else None,
                }
                for day in range(1, 8)
            )  # fmt: skip

    def shown(self, cli: CommandLine, *options: str) -> list[str]:
        return [entry["id"] for entry in cli("timeline", *options, "--json").json["entries"]]

    def test_between_two_times_in_order(self, cli: CommandLine) -> None:
        assert self.shown(cli, "--start", "2026-03-02", "--end", "2026-03-04") == ["day-002", "day-003", "day-004"]
        assert len(self.shown(cli, "--end", "2026-03", "--project", "api")) == 6
        assert self.shown(cli, "--start", "2026-03-07") == ["day-007"]

    def test_around_a_memory_of_its_own_project(self, cli: CommandLine) -> None:
        answer = cli("timeline", "--anchor", "day-005", "--before", "2", "--json").json

        assert answer["anchor"] == "day-005"
        assert [entry["id"] for entry in answer["entries"]] == ["day-003", "day-004", "day-005", "day-006"]

    def test_around_the_best_match_of_a_query(self, cli: CommandLine) -> None:
        assert self.shown(cli, "--query", "room 4", "--before", "1", "--after", "1") == [
            "day-003",
            "day-004",
            "day-005",
        ]

    def test_a_query_that_finds_nothing_is_said_on_stderr(self, cli: CommandLine) -> None:
        done = cli("timeline", "--query", "unicorn")

        assert (done.code, done.out, done.err) == (0, "", "Nothing found.\n")

    def test_an_entry_of_the_index_and_the_sessions_touched_once(self, cli: CommandLine) -> None:
        answer = cli("timeline", "--end", "2026-03-03", "--json").json

        first = answer["entries"][0]
        assert set(first) == INDEX
        assert first["summary"] == "On day 1 we cleaned room 1"
        assert first["session"] == first["session"] | {"id": "spring", "summary": "Spring cleaning", "project": "api"}
        (touched,) = answer["sessions"]
        assert set(touched) >= {"id", "started_at", "ended_at", "summary", "project"}
        assert answer["anchor"] is None

    def test_more_detail(self, cli: CommandLine) -> None:
        (snippet,) = cli("timeline", "--start", "2026-03-07", "--detail", "snippet", "--json").json["entries"]
        (full,) = cli("timeline", "--start", "2026-03-07", "--detail", "full", "--json").json["entries"]

        assert set(snippet) == INDEX | {"snippet"}
        assert snippet["snippet"] == "On day 7 we cleaned room 7"
        assert full == cli("get", "day-007", "--json").json["memories"][0]
        assert cli("timeline", "--start", "2026-03-07", "--detail", "full").lines[1] == "On day 7 we cleaned room 7"

    def test_as_text_the_anchor_and_what_was_superseded_are_marked(self, cli: CommandLine) -> None:
        cli("supersede", "day-001", "day-003")

        lines = cli("timeline", "--anchor", "day-002", "--after", "1").lines

        assert lines[:3] == [
            "  2026-03-01 12:00  day-001  On day 1 we cleaned room 1  #t1  (superseded by day-003)",
            "> 2026-03-02 12:00  day-002  On day 2 we cleaned room 2  #t2",
            "  2026-03-03 12:00  day-003  On day 3 we cleaned room 3  #t3",
        ]
        assert lines[3:5] == ["", "Sessions:"]
        assert lines[5].startswith("spring  ")
        assert lines[5].endswith("open · api · 2 memories  Spring cleaning")

    def test_as_of_a_time_when_less_was_known(self, cli: CommandLine) -> None:
        assert self.shown(cli, "--as-of", "2026-03-02") == ["day-001", "day-002"]

    def test_a_timeline_that_is_cut_says_so(self, cli: CommandLine) -> None:
        assert "There may be more" in cli("timeline", "--limit", "3").err
        assert cli("timeline", "--limit", "8").err == ""

    @pytest.mark.parametrize(
        ("arguments", "about"),
        [
            (["--start", "banana"], "banana"),
            (["--end", "banana"], "banana"),
            (["--as-of", "banana"], "banana"),
            (["--anchor", "no-such-id"], "no-such-id"),
            (["--anchor", "day-001", "--query", "room"], "not both"),
            (["--before", "-1"], "before"),
            (["--limit", "0"], "limit"),
            (["--detail", "tiny"], "tiny"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, cli: CommandLine, arguments: list[str], about: str) -> None:
        cli("timeline", *arguments).assert_failed(1, about)


class TestProjectsAndTags:
    @pytest.fixture(autouse=True)
    def _tagged(self, cli: CommandLine) -> None:
        cli.add("We ship with make", "--project", "api", "--tag", "deploy", "--tag", "decision")
        cli.add("Retries are capped at 5", "--project", "api", "--tag", "decision")
        cli.add("The page is blue", "--project", "web", "--tag", "design")
        cli("forget", cli.add("Gone", "--project", "old", "--tag", "gone"))
        cli.add("Of no project")

    def test_projects_are_listed_with_their_counts_the_largest_first(self, cli: CommandLine) -> None:
        assert cli("projects").lines == ["     2  api", "     1  web"]
        assert cli("projects", "--json").json == {
            "projects": [{"name": "api", "memories": 2}, {"name": "web", "memories": 1}]
        }

    def test_tags_are_listed_with_their_counts(self, cli: CommandLine) -> None:
        assert cli("tags").lines == ["     2  decision", "     1  deploy", "     1  design"]
        assert cli("tags", "--project", "web", "--json").json == {"tags": [{"name": "design", "memories": 1}]}

    def test_what_is_superseded_counts_as_in_list(self, cli: CommandLine) -> None:
        old, new = (cli.add(text, "--project", "api") for text in ("an old plan", "a new plan"))
        cli("supersede", old, new)

        assert cli("projects").lines[0] == f"     {len(cli.contents('--project', 'api'))}  api"

    def test_that_there_are_none_is_said(self, cli: CommandLine) -> None:
        assert cli("--namespace", "other", "projects").err == "No memory belongs to a project.\n"
        assert cli("--namespace", "other", "tags").err == "No memory has a tag.\n"


class TestRecalls:
    @pytest.fixture(autouse=True)
    def _asked(self, cli: CommandLine) -> None:
        with memorist.open(cli.database, embedder="none") as memory:
            memory.add("We ship on Fridays", id="ship-friday", facts=["shipping day is Friday"])
            memory.add("Lunch is at noon", id="lunch-noon")
            memory.sessions.start(id="morning")
        cli("search", "ship", "--record", "log", "--record-session", "morning")
        cli("search", "unicorn", "--record", "log")
        cli("search", "lunch")

    def test_what_was_recalled_when_and_for_which_question(self, cli: CommandLine) -> None:
        unicorn, ship = cli("recalls", "--json").json["recalls"]

        about = {"id", "query", "at", "mode", "profile", "lens", "session", "memories", "surface", "tokens"}
        assert set(ship) == about
        assert (ship["query"], ship["session"], ship["lens"]) == ("ship", "morning", None)
        assert (ship["surface"], ship["tokens"]) == ("cli", None)
        assert ship["at"].endswith("Z")
        (found,) = ship["memories"]
        assert set(found) == {"id", "place", "score", "relevance", "facts", "prompt"}
        assert (found["id"], found["place"], len(found["facts"])) == ("ship-friday", 1, 1)
        assert (unicorn["query"], unicorn["memories"], unicorn["session"]) == ("unicorn", [], None)

    def test_what_a_hook_put_into_a_prompt(self, cli: CommandLine) -> None:
        with memorist.open(cli.database, embedder="none", surface="hook") as memory:
            memory.context("when do we ship?")

        assert re.search(r"when do we ship\?  hybrid · \d+ tokens put into the prompt by hook", cli("recalls").lines[0])

    def test_the_record_is_deleted_on_request(self, cli: CommandLine) -> None:
        assert cli("recalls", "--clear", "--before", "yesterday", "--yes").out == "Deleted 0 recorded searches.\n"
        assert cli("recalls", "--clear", "--yes", "--json").json == {"cleared": 2}
        assert cli("recalls", "--json").json == {"recalls": []}
        assert "belong to --clear" in cli("recalls", "--before", "yesterday").err

    def test_as_text(self, cli: CommandLine) -> None:
        first, second, third = cli("recalls").lines

        assert "  unicorn  hybrid" in first
        assert second.endswith("  ship  hybrid · session morning")
        assert third.startswith("     1. ship-friday  We ship on Fridays  relevance ")

    @pytest.mark.parametrize(
        ("filters", "queries"),
        [
            (["--memory", "ship-friday"], ["ship"]),
            (["--memory", "lunch-noon"], []),
            (["--session", "morning"], ["ship"]),
            (["--since", "yesterday"], ["unicorn", "ship"]),
            (["--since", "tomorrow"], []),
            (["--limit", "1"], ["unicorn"]),
        ],
    )
    def test_filters(self, cli: CommandLine, filters: list[str], queries: list[str]) -> None:
        assert [recall["query"] for recall in cli("recalls", *filters, "--json").json["recalls"]] == queries

    def test_never_lists_the_memories_no_recorded_search_found(self, cli: CommandLine) -> None:
        assert [one["id"] for one in cli("recalls", "--never", "--json").json["memories"]] == ["lunch-noon"]
        assert cli("recalls", "--never").lines[0].startswith("lunch-noon  Lunch is at noon")
        assert cli.contents("--never-recalled") == ["Lunch is at noon"]

    def test_what_was_forgotten_or_erased_since_is_not_shown(self, cli: CommandLine) -> None:
        cli("forget", "ship-friday")
        assert "(forgotten)" in cli("recalls").out

        cli("forget", "ship-friday", "--hard")
        assert "(the question was erased)" in cli("recalls").out

    def test_nothing_recorded_tells_how_to_record(self, cli: CommandLine) -> None:
        assert "--record log" in cli("--namespace", "other", "recalls").err

    @pytest.mark.parametrize(
        ("arguments", "code", "about"),
        [
            (["--memory", "no-such-id"], 1, "no-such-id"),
            (["--session", "nope"], 1, "nope"),
            (["--since", "banana"], 1, "banana"),
            (["--limit", "0"], 1, "limit"),
            (["--never", "--memory", "ship-friday"], 2, "--never"),
        ],
    )
    def test_what_cannot_be_used_is_refused(
        self, cli: CommandLine, arguments: list[str], code: int, about: str
    ) -> None:
        cli("recalls", *arguments).assert_failed(code, about)


class TestLens:
    def test_a_lens_is_set_shown_and_removed(self, cli: CommandLine) -> None:
        lens = cli(
            "lens", "set", "decisions", "--kind", "decision", "--tag", "adr", "--since", "last year", "--pinned",
            "--profile", "rank", "--boost", "tag=key:value:1.5", "--boost", "tag=b:2", "--boost", "sector=semantic:3",
            "--recency", "multiply:0.3", "--json",
        ).json  # fmt: skip

        assert lens == {
            "name": "decisions",
            "filters": {"kind": ["decision"], "tags": ["adr"], "since": "last year", "pinned": True},
            "boosts": {"tag": {"key:value": 1.5, "b": 2.0}, "sector": {"semantic": 3.0}},
            "recency": {"form": "multiply", "weight": 0.3},
            "profile": "rank",
        }
        assert cli("lens", "show", "decisions", "--json").json == lens
        assert cli("lens", "list", "--json").json == {"lenses": [lens]}
        assert cli("lens", "remove", "decisions").out == "Removed decisions\n"
        assert cli("lens", "list", "--json").json == {"lenses": []}

    def test_as_text(self, cli: CommandLine) -> None:
        done = cli("lens", "set", "mine", "--project", "api", "--project", "web", "--boost", "kind=bug:2")

        assert done.out == "Set mine  project api, web · kind=bug counts x2\n"
        assert cli("lens", "list").out == "mine  project api, web · kind=bug counts x2\n"
        assert cli("lens", "show", "mine").lines == ["mine", "  project api, web", "  kind=bug counts x2"]
        assert "lens set" in cli("--namespace", "other", "lens", "list").err

    @pytest.mark.parametrize(
        ("text", "meant"),
        [
            ("tiers", {"form": "tiers"}),
            ("add:0.05", {"form": "add", "rate": 0.05}),
            ("multiply:1", {"form": "multiply", "weight": 1.0}),
        ],
    )
    def test_recency_takes_the_number_its_form_needs(self, cli: CommandLine, text: str, meant: dict[str, str]) -> None:
        assert cli("lens", "set", "fresh", "--recency", text, "--json").json["recency"] == meant

    def test_a_search_looks_through_it(self, cli: CommandLine) -> None:
        cli.add("a plan to ship", "--kind", "plan")
        cli.add("a bug in the ship", "--kind", "bug")
        cli("lens", "set", "bugs", "--kind", "bug")
        cli("lens", "set", "plans first", "--boost", "kind=plan:5")

        bugs = cli("search", "ship", "--lens", "bugs", "--json").json
        plans = cli("search", "ship", "--lens", "plans first", "--json").json

        assert (bugs["lens"], [hit["kind"] for hit in bugs["results"]]) == ("bugs", ["bug"])
        assert [hit["kind"] for hit in plans["results"]] == ["plan", "bug"]

    @pytest.mark.parametrize(
        ("arguments", "about"),
        [
            (["set", "x", "--boost", "decision"], "FIELD=VALUE:FACTOR"),
            (["set", "x", "--boost", "tag=decision"], "FIELD=VALUE:FACTOR"),
            (["set", "x", "--boost", "tag=decision:much"], "must end in a number"),
            (["set", "x", "--boost", "tag=decision:-1"], "boosts.tag.decision"),
            (["set", "x", "--boost", "tag=decision:nan"], "boosts.tag.decision"),
            (["set", "x", "--boost", "colour=red:2"], "colour"),
            (["set", "x", "--recency", "multiply:soon"], "must end in a number"),
            (["set", "x", "--recency", "divide:1"], "divide"),
            (["set", "x", "--profile", "nonsense"], "nonsense"),
            (["set", "x", "--sector", "cosmic"], "cosmic"),
            (["set", "x", "--since", "banana"], "banana"),
            (["set", " "], "name"),
            (["show", "nope"], "nope"),
            (["remove", "nope"], "nope"),
        ],
    )
    def test_what_cannot_be_used_is_refused_and_nothing_is_set(
        self, cli: CommandLine, arguments: list[str], about: str
    ) -> None:
        cli("lens", *arguments).assert_failed(1, about)
        assert cli("lens", "list", "--json").json == {"lenses": []}
