"""Measuring on the command line: eval and feedback."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine

from conftest import MODELS
from memorist.evaluate.dataset import GOLDEN_EXAMPLE

REMEMBERED = Path(__file__).parents[1] / "data" / "remembered"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def asked(cli: CommandLine) -> CommandLine:
    """A memory that was asked, and told which answer was good."""
    ship = cli.add("We ship with make from the release branch")
    cli.add("We ship parcels on Mondays")
    cli("search", "how do we ship?", "--mode", "keyword", "--record", "log")
    cli("feedback", ship, "good")
    return cli


def evaluated(cli: CommandLine, *options: str) -> list[str]:
    """Keyword search of the frozen set, quick as it is."""
    return ["eval", str(REMEMBERED), "--mode", "keyword", "--cache", str(cli.work / "cache"), *options]


class TestEval:
    def test_a_table_with_what_was_chosen_marked(self, cli: CommandLine) -> None:
        done = cli(*evaluated(cli))

        assert done.code == 0, done.err
        assert done.lines[0].startswith("remembered: 183 documents, 150 questions (100 more")
        assert [line.split()[0] for line in done.lines[2:5]] == ["grep", "*", "balanced"]
        assert any(line.startswith("  identifier: 20 questions") for line in done.lines)

    def test_json_has_every_figure(self, cli: CommandLine) -> None:
        (one,) = cli(*evaluated(cli, "--json")).json["sets"]

        assert one["chosen"] == ["balanced keyword"]
        by_name = {way["name"]: way for way in one["ways"]}
        assert (
            by_name["balanced keyword"]["measures"]["ndcg@10"]["mean"] > by_name["grep"]["measures"]["ndcg@10"]["mean"]
        )
        assert by_name["balanced keyword"]["latency_ms"]["p95"] >= by_name["balanced keyword"]["latency_ms"]["p50"] > 0

    def test_below_the_floor_it_fails_after_the_table(self, cli: CommandLine) -> None:
        done = cli(*evaluated(cli, "--min-ndcg", ".99"))

        assert done.code == 1
        assert done.lines[0].startswith("remembered")
        assert done.err.splitlines()[-1].startswith("Error: nDCG@10 of balanced keyword on remembered is 0.")
        assert cli(*evaluated(cli, "--min-ndcg", ".1")).code == 0

    def test_a_sample_and_options_of_the_profile(self, cli: CommandLine) -> None:
        (one,) = cli(*evaluated(cli, "-n", "10", "--set", "grammar=and", "--set", "columns.title=1", "--json")).json[
            "sets"
        ]

        assert one["questions"] == 10
        assert one["chosen"] == ['balanced:grammar=and,columns={"title":1} keyword']

    def test_without_a_model_what_was_missing_is_said(self, cli: CommandLine) -> None:
        done = cli("eval", str(REMEMBERED), "--cache", "cache", "-n", "5")

        assert "Note: balanced: " in done.out
        assert "Note: balanced semantic: " in done.out
        assert (
            "Note: balanced: "
            in cli("eval", str(REMEMBERED), "--cache", "cache", "--compare", "keyword", "balanced").out
        )

    def test_two_profiles_are_compared(self, cli: CommandLine) -> None:
        done = cli(*evaluated(cli, "--compare", "balanced", "balanced:grammar=and", "--show", "1"))

        assert done.lines[0] == "remembered: balanced keyword -> balanced:grammar=and keyword"
        assert "significant" in done.out
        assert sum(line.startswith("  worse") for line in done.lines) == 1
        assert done.out.count("unchanged") == 1

    def test_saved_runs_are_compared_without_measuring_again(self, cli: CommandLine) -> None:
        cli(*evaluated(cli, "--save", "before"))
        cli(*evaluated(cli, "--save", "after.json", "--set", "stemmed=false"))

        done = cli("eval", "--compare", "before", "after.json", "--cache", "cache", "--json")

        (change,) = done.json["changes"]
        assert (change["before"], change["after"]) == ("balanced keyword", "balanced:stemmed=false keyword")
        assert change["measures"]["ndcg@10"]["p"] <= 1
        assert {one["id"] for one in change["worse"]}.isdisjoint(one["id"] for one in change["better"])

    def test_a_saved_run_is_compared_with_a_profile(self, cli: CommandLine) -> None:
        cli(*evaluated(cli, "--save", "before"))

        done = cli(*evaluated(cli, "--compare", "before", "rank"))

        assert done.lines[0] == "remembered: balanced keyword -> rank keyword"

    def test_a_page_is_written(self, cli: CommandLine) -> None:
        cli(*evaluated(cli, "--html", "page.html"))

        page = (cli.work / "page.html").read_text("utf-8")
        assert "<svg" in page
        assert "http" not in page

    @pytest.mark.parametrize(
        ("arguments", "code", "about"),
        [
            (["eval"], 2, "nothing to measure"),
            (["eval", "nowhere"], 1, "has no corpus.jsonl"),
            (["eval", str(REMEMBERED), "--profile", "swift"], 1, "there is no profile 'swift'"),
            (["eval", str(REMEMBERED), "--set", "alpha"], 1, "'alpha' does not set an option"),
            (["eval", str(REMEMBERED), "--part", "dev"], 1, "there is: qrels.tsv"),
            (["eval", str(REMEMBERED), "--scope", "x"], 1, "has no question of scope 'x'"),
            (["eval", str(REMEMBERED), "--seed", "-1"], 2, "--seed"),
            (["eval", "--compare", "a", "b"], 2, "there is no saved run 'a'"),
            (["eval", "--from-recalls"], 1, "no memory is rated as a good answer yet"),
        ],
    )
    def test_what_cannot_be_measured_is_said(
        self, arguments: list[str], code: int, about: str, cli: CommandLine
    ) -> None:
        cli(*arguments, "--cache", "cache").assert_failed(code, about)

    def test_the_reranker_that_the_setting_models_names_reads_nothing_twice(
        self, elsewhere: Path, cli: CommandLine
    ) -> None:
        (elsewhere / "reranker").symlink_to(MODELS / "reranker" / "src" / "memorist_reranker")
        cli("config", "set", "models", str(elsewhere))
        command = evaluated(cli, "--profile", "precise:rerank=2", "-n", "3", "--json")

        first, second = ([way for one in cli(*command).json["sets"] for way in one["ways"]][-1] for _ in range(2))

        assert first["degraded"] == []
        assert first["measures"] == second["measures"]
        assert first["latency_ms"]["p50"] > 0
        assert second["latency_ms"]["p50"] is None

    def test_without_a_place_it_keeps_things_in_the_users_cache(self, cli: CommandLine) -> None:
        cli("eval", str(REMEMBERED), "--mode", "keyword", "-n", "3", "--save", "mine")

        assert (cli.home / ".cache" / "memorist" / "runs" / "mine.json").is_file()


class TestOwnMemories:
    def test_what_was_called_good_is_measured(self, asked: CommandLine) -> None:
        (one,) = asked("eval", "--from-recalls", "--mode", "keyword", "--json").json["sets"]

        assert (one["name"], one["documents"], one["questions"]) == ("recalls", 2, 1)
        assert next(way for way in one["ways"] if way["name"] == "balanced keyword")["measures"]["hit@5"]["mean"] == 1.0

    def test_a_golden_file_is_measured_and_nothing_is_written(self, asked: CommandLine) -> None:
        id = asked("list", "--json").json["memories"][0]["id"]
        (asked.work / "golden.jsonl").write_text(json.dumps({"query": "parcels", "relevant": [id, "01234567"]}))
        before = asked.database.read_bytes()

        done = asked("eval", "--golden", "golden.jsonl", "--mode", "keyword", "--json")

        assert done.json["sets"][0]["questions"] == 1
        assert done.err == "Note: no memory has these ids of golden.jsonl: 01234567\n"
        assert asked.database.read_bytes() == before

    def test_help_shows_what_a_golden_file_looks_like(self, cli: CommandLine) -> None:
        assert GOLDEN_EXAMPLE in cli("eval", "--help").out

    @pytest.mark.parametrize("line", ["", "no json", "[]", '{"question": "parcels"}', '{"query": "x", "relevant": 1}'])
    def test_a_file_that_is_no_golden_file_is_told_what_one_looks_like(self, asked: CommandLine, line: str) -> None:
        (asked.work / "golden.jsonl").write_text(line)

        asked("eval", "--golden", "golden.jsonl", "--mode", "keyword").assert_failed(1, f"such as {GOLDEN_EXAMPLE}")


class TestFeedback:
    def test_it_is_listed_with_the_question(self, asked: CommandLine) -> None:
        done = asked("feedback")
        (said,) = asked("feedback", "--json").json["feedback"]

        assert done.out.startswith("good  ")
        assert done.out.endswith("how do we ship?\n")
        assert (said["query"], said["good"]) == ("how do we ship?", True)

    def test_a_question_of_ones_own(self, asked: CommandLine) -> None:
        id = asked("list", "--json").json["memories"][0]["id"]

        said = asked("feedback", id[-8:], "bad", "--query", "who carries parcels?", "--json").json["feedback"]

        assert [(one["memory"], one["query"], one["good"]) for one in said] == [(id, "who carries parcels?", False)]

    def test_nothing_said_yet(self, cli: CommandLine) -> None:
        done = cli("feedback")

        assert (done.code, done.out) == (0, "")
        assert done.err.startswith("Nothing found.")

    def test_good_or_bad_has_to_be_said(self, asked: CommandLine) -> None:
        asked("feedback", "01234567").assert_failed(2, "add a rating: good or bad")
        assert asked("feedback", "01234567", "meh").code == 2

    def test_a_question_is_about_a_memory(self, asked: CommandLine) -> None:
        asked("feedback", "--query", "how do we ship?").assert_failed(2, "--query needs a memory: give its id")

    def test_a_memory_that_no_search_found_needs_a_question(self, cli: CommandLine) -> None:
        done = cli("feedback", cli.add("We ship with make"), "good")

        done.assert_failed(1, "no recorded search found memory")
        assert done.err.endswith('give the query that it answers (--query "how do we ship?")\n')
