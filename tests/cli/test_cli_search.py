"""`memorist search`: the shape of its answers, its options, and what it refuses."""

import json
import os
import re
from datetime import datetime
from pathlib import Path

import pytest
from command_line import CommandLine

import memorist
from memorist.arguments import FILTERS
from memorist.cli.search import HIDDEN_REASONS
from memorist.profiles import PROFILES
from memorist.records import FACETS
from memorist.search import pipeline

ANSWER = {
    "query", "mode", "profile", "took_ms", "degraded", "suggestion", "hidden", "results", "facets", "lens", "detail",
    "relevant",
}  # fmt: skip
INDEX = {
    "id", "score", "relevance", "match", "created_at", "kind", "tags", "summary", "project", "superseded_by",
}  # fmt: skip
RESULT = {
    "id", "score", "relevance", "match", "snippet", "content", "created_at", "project", "session", "sector", "tier",
    "pinned", "highlights", "kind", "tags", "salience", "source", "superseded_by", "related_count", "facts",
}  # fmt: skip


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    line = CommandLine(tmp_path, monkeypatch, capsys)
    line.add("We deploy with `make ship` from the release branch", "--project", "api", "--tag", "deploy")
    line.add("Lunch is at noon", "--project", "office", "--kind", "habit", "--salience", "0.2")
    return line


class TestJson:
    def test_it_prints_one_object_with_the_documented_keys(self, cli: CommandLine) -> None:
        answer = cli("search", "ship", "--json").json

        assert set(answer) == ANSWER
        assert (answer["query"], answer["mode"], answer["profile"]) == ("ship", "hybrid", "balanced")
        assert answer["took_ms"] > 0
        assert (answer["suggestion"], answer["hidden"]) == (None, {})
        assert (answer["facets"], answer["lens"], answer["detail"], answer["relevant"]) == ({}, None, "full", True)

    def test_every_result_has_the_documented_keys(self, cli: CommandLine) -> None:
        (result,) = cli("search", "ship", "--json").json["results"]

        assert set(result) >= RESULT
        assert "trace" not in result
        assert result == result | {
            "match": ["keyword"],
            "snippet": "We deploy with `make <mark>ship</mark>` from the release branch",
            "content": "We deploy with `make ship` from the release branch",
            "highlights": [[21, 25]],
            "project": "api",
            "session": None,
            "sector": "semantic",
            "tier": "project",
            "pinned": False,
            "kind": None,
            "tags": ["deploy"],
            "salience": 0.5,
            "source": None,
            "superseded_by": None,
            "related_count": 0,
            "access_count": 0,
            "valid_until": None,
            "facts": [],
        }
        assert 0 < result["score"] <= 1
        assert 0 < result["relevance"] <= 1
        assert result["created_at"].endswith("Z")
        assert datetime.fromisoformat(result["created_at"]).tzinfo is not None

    def test_explain_adds_a_trace_that_adds_up_to_the_score(self, cli: CommandLine) -> None:
        answer = cli("search", "ship", "--json", "--explain").json

        (result,) = answer["results"]
        assert sum(result["trace"].values()) == pytest.approx(result["score"])
        assert answer["plan"]["terms"] == ["ship"]

    def test_nothing_found_is_an_empty_list_and_no_error(self, cli: CommandLine) -> None:
        assert cli("search", "unicorn", "--json").json["results"] == []

    def test_without_a_model_it_says_what_was_missing(self, cli: CommandLine) -> None:
        assert "keyword" in cli("search", "ship", "--json").json["degraded"]
        assert cli("search", "ship", "--mode", "keyword", "--json").json["degraded"] is None

    def test_what_a_threshold_held_back_is_counted(self, cli: CommandLine) -> None:
        answer = cli(
            "search", "ship lunch", "--min-score", "0.99", "--profile", "notes", "--grammar", "or", "--json"
        ).json

        assert len(answer["results"]) == 1
        assert answer["hidden"] == {"min_score": 1}


class TestDetail:
    def test_an_entry_of_an_index_has_a_summary_and_no_text(self, cli: CommandLine) -> None:
        (result,) = cli("search", "ship", "--detail", "index", "--json").json["results"]

        assert set(result) == INDEX
        assert result["summary"] == "We deploy with `make ship` from the release branch"

    def test_a_snippet_shows_the_passage_too(self, cli: CommandLine) -> None:
        (result,) = cli("search", "ship", "--detail", "snippet", "--json").json["results"]

        assert set(result) == INDEX | {"snippet", "highlights"}
        assert "<mark>ship</mark>" in result["snippet"]

    def test_explain_adds_its_trace_to_any(self, cli: CommandLine) -> None:
        (result,) = cli("search", "ship", "--detail", "index", "--explain", "--json").json["results"]

        assert set(result) == INDEX | {"trace", "raw"}

    def test_as_text_the_summary_the_passage_or_all_of_it(self, cli: CommandLine) -> None:
        cli.add("first line about zebras\n\nand a second one", "--summary", "About stripes")

        def shown(detail: str) -> list[str]:
            return cli("search", "zebras", "--detail", detail).lines[:-1]

        assert shown("index") == [" 1. About stripes"]
        assert shown("snippet") == [" 1. first line about zebras and a second one"]
        assert shown("full") == [" 1. first line about zebras", "", "and a second one"]


class TestLife:
    """The life of a memory: superseded, forgotten, recorded, as of a time."""

    @pytest.fixture(autouse=True)
    def _superseded(self, cli: CommandLine) -> None:
        with memorist.open(cli.database, embedder="none") as memory:
            facts = [{"text": "the cap is 5", "kind": "decision", "confidence": 0.8}]
            memory.add("Retries are capped at 5", id="retries-old", facts=facts, created_at="2026-01-10T12:00Z")
            memory.add("Retries are capped at 3", id="retries-new", on_near_duplicate="off")
            memory.supersede("retries-old", "retries-new", at="2026-02-01")
            memory.pin("retries-new")

    def found(self, cli: CommandLine, *options: str) -> list[str]:
        return [hit["id"] for hit in cli("search", "retries capped", *options, "--json").json["results"]]

    def test_what_was_superseded_is_held_back_unless_asked_for(self, cli: CommandLine) -> None:
        done = cli("search", "retries capped")

        assert "1 more is superseded (--include-superseded shows it)." in done.err.splitlines()
        assert self.found(cli) == ["retries-new"]
        assert self.found(cli, "--include-superseded") == ["retries-new", "retries-old"]

    def test_a_superseded_hit_is_marked_and_names_its_successor(self, cli: CommandLine) -> None:
        asked = ("search", "the cap is 5", "--mode", "keyword", "--include-superseded")
        hit = cli(*asked, "--json").json["results"][0]

        assert hit["superseded_by"] == hit["superseded_by"] | {
            "id": "retries-new", "content": "Retries are capped at 3",
        }  # fmt: skip
        assert cli(*asked).lines[1].endswith("(superseded by retries-new)")

    def test_facts_stand_beneath_their_memory(self, cli: CommandLine) -> None:
        asked = ("search", "retries", "--as-of", "2026-01-20")
        (hit,) = cli(*asked, "--json").json["results"]

        assert [(fact["text"], fact["kind"]) for fact in hit["facts"]] == [("the cap is 5", "decision")]
        assert cli(*asked).lines[2] == "    - the cap is 5  (decision, 0.78)"
        assert cli(*asked, "--no-facts", "--json").json["results"][0]["facts"] == []
        assert len(cli(*asked, "--no-facts").lines) == 2

    @pytest.mark.parametrize(
        ("options", "found"),
        [
            (["--as-of", "2026-01-20"], ["retries-old"]),
            (["--as-of", "2026-01-05"], []),
            (["--pinned"], ["retries-new"]),
            (["--month", "2026-01", "--include-superseded"], ["retries-old"]),
            (["--fact-kind", "decision", "--include-superseded"], ["retries-old"]),
            (["--fact-kind", "state", "--include-superseded"], []),
            (["--never-recalled"], ["retries-new"]),
        ],
    )
    def test_filters(self, cli: CommandLine, options: list[str], found: list[str]) -> None:
        assert self.found(cli, *options) == found

    def test_a_recorded_search_is_logged_and_counted(self, cli: CommandLine) -> None:
        cli("search", "retries", "--record", "log")
        cli("search", "retries", "--record", "reinforce")
        cli("search", "retries", "--record", "off")

        assert len(cli("recalls", "--json").json["recalls"]) == 2
        (memory,) = cli("get", "retries-new", "--json").json["memories"]
        assert memory["access_count"] == 2
        assert memory["salience"] > 0.5
        assert self.found(cli, "--never-recalled") == []

    def test_a_search_that_cannot_be_written_down_is_answered_and_says_so(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)
        done = cli("search", "retries", "--record", "log")

        assert done.code == 0
        assert "Retries are capped at 3" in done.out
        assert "could not be recorded" in done.err

    def test_confidence_can_weigh_on_the_score(self, cli: CommandLine) -> None:
        def trace(mode: str) -> set[str]:
            asked = ("search", "retries", "--include-superseded", "--confidence-mode", mode)
            return {step for hit in cli(*asked, "--explain", "--json").json["results"] for step in hit["trace"]}

        assert "confidence" in trace("multiply") - trace("off")


class TestFacets:
    def test_counts_by_field_given_one_by_one_or_with_commas(self, cli: CommandLine) -> None:
        one_by_one = cli("search", "ship lunch", "--facets", "project", "--facets", "tag", "--json").json["facets"]
        with_commas = cli("search", "ship lunch", "--facets", "project, tag", "--json").json["facets"]

        assert one_by_one == with_commas == {"project": {"api": 1, "office": 1}, "tag": {"deploy": 1}}

    def test_all_of_them(self, cli: CommandLine) -> None:
        assert set(cli("search", "ship", "--facets", "all", "--json").json["facets"]) == set(FACETS)

    def test_as_a_table_below_the_hits(self, cli: CommandLine) -> None:
        assert cli("search", "ship lunch", "--facets", "project,kind,source").lines[-3:] == [
            "project        1  api",
            "               1  office",
            "kind           1  habit",
        ]

    def test_a_long_column_is_cut_and_says_so(self, cli: CommandLine) -> None:
        cli.add("ship ship ship", *(part for number in range(12) for part in ("--tag", f"tag {number:02}")))

        lines = cli("search", "ship", "--facets", "tag").lines

        assert len(lines) == 4 + 10 + 1
        assert lines[-1] == f"{'':16}  and 3 more"


class TestNotes:
    """Notes about an answer on stderr."""

    @pytest.mark.parametrize(
        ("options", "note"),
        [
            (["--project", "api"], "1 more is in another project."),
            (["--kind", "habit"], "1 more is of another kind."),
            (["--sector", "episodic"], "2 more are in another sector."),
            (["--tier", "global"], "2 more are in another tier."),
            (["--source", "x"], "2 more are from another source."),
            (["--tag", "deploy"], "1 more is without all the tags."),
            (["--since", "tomorrow"], "2 more are older (--since)."),
            (["--until", "2020"], "2 more are newer (--until)."),
            (["--month", "2020-01"], "2 more are from another month."),
            (["--fact-kind", "x"], "2 more are without a fact of that kind."),
            (["--pinned"], "2 more are not pinned."),
            (["--as-of", "2020"], "2 more are from after that time (--as-of)."),
            (["--min-salience", "0.4"], "1 more is below min_salience."),
            (["--min-confidence", "1", "--min-relevance", "0.99"], "2 more are below min_relevance."),
        ],
    )
    def test_what_a_filter_held_back_is_told_in_words(self, cli: CommandLine, options: list[str], note: str) -> None:
        assert note in cli("search", "ship lunch", *options).err.splitlines()

    def test_every_filter_has_words_of_its_own(self) -> None:
        assert set(FILTERS) - {"min_salience", "include_global"} | {"superseded"} == set(HIDDEN_REASONS)

    def test_a_suggestion_is_offered_and_not_applied(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pipeline, "suggest_query", lambda *_: "ship\x1b")
        done = cli("search", "shpi")

        assert "Did you mean: ship\ufffd?" in done.err.splitlines()
        assert done.out == ""
        assert cli("search", "shpi", "--json").json["suggestion"] == "ship\x1b"

    def test_an_answer_that_is_only_what_comes_closest_says_so(self, cli: CommandLine) -> None:
        query = "which ship sailed around the cape with unicorns and dragons"

        assert "none of these is likely to answer" in cli("search", query).err
        assert cli("search", query, "--json").json["relevant"] is False
        assert "likely to answer" not in cli("search", "make ship").err


class TestStandardInput:
    def test_a_dash_reads_the_query(self, cli: CommandLine) -> None:
        done = cli("search", "-", "--json", stdin="ship\n")

        assert done.json["query"] == "ship"
        assert done.json["results"] == cli("search", "ship", "--json").json["results"] != []

    def test_an_empty_one_is_refused(self, cli: CommandLine) -> None:
        cli("search", "-", stdin="\n").assert_failed(2, "the query is empty")


class TestText:
    def test_every_hit_shows_the_score_that_ranks_it_beside_its_relevance(self, cli: CommandLine) -> None:
        shown = cli("search", "ship lunch", "--grammar", "or")

        scores = re.findall(r"score (\d\.\d\d) · relevance \d\.\d\d · keyword", shown.out)
        assert len(scores) == 2
        assert scores == sorted(scores, reverse=True)

    def test_a_hit_is_shown_with_its_short_id_and_its_relevance(self, cli: CommandLine) -> None:
        (result,) = cli("search", "ship", "--json").json["results"]

        first, second = cli("search", "ship").lines

        assert first == " 1. We deploy with `make ship` from the release branch"
        assert result["id"][-8:] in second
        assert f"relevance {result['relevance']:.2f}" in second
        assert "api" in second
        assert "#deploy" in second

    def test_explain_adds_a_line_about_the_score(self, cli: CommandLine) -> None:
        plain, explained = cli("search", "ship").lines, cli("search", "ship", "--explain").lines

        assert explained[: len(plain)] == plain
        assert "score" in explained[-1]
        assert "keyword" in explained[-1]

    def test_nothing_found_is_said_on_stderr(self, cli: CommandLine) -> None:
        done = cli("search", "unicorn", "--mode", "keyword")

        assert (done.code, done.out, done.err) == (0, "", "Nothing found.\n")

    def test_what_is_missing_or_held_back_is_said_on_stderr(self, cli: CommandLine) -> None:
        done = cli("search", "ship lunch", "--min-relevance", "1")

        assert (done.code, done.out) == (0, "")
        assert "2 more are below min_relevance." in done.err
        assert "Note: keyword search only" in done.err


class TestOptions:
    @pytest.mark.parametrize(
        ("filters", "found"),
        [
            (["--project", "api"], ["We deploy"]),
            (["--project", "office"], ["Lunch is"]),
            (["--project", "office", "--project", "api"], ["Lunch is", "We deploy"]),
            (["--tag", "deploy"], ["We deploy"]),
            (["--kind", "habit"], ["Lunch is"]),
            (["--min-salience", "0.5"], ["We deploy"]),
            (["--min-salience", "0"], ["Lunch is", "We deploy"]),
            (["--sector", "episodic"], []),
            (["--tier", "global"], []),
            (["--source", "nowhere"], []),
            (["--until", "2020-01-01"], []),
            (["--since", "2020-01-01"], ["Lunch is", "We deploy"]),
        ],
    )
    def test_filters(self, cli: CommandLine, filters: list[str], found: list[str]) -> None:
        results = cli("search", "ship lunch", *filters, "--json").json["results"]

        assert sorted(result["content"][:9].strip() for result in results) == found

    @pytest.mark.parametrize("flag", ["--limit", "-n"])
    def test_limit(self, cli: CommandLine, flag: str) -> None:
        assert len(cli("search", "ship lunch", flag, "1", "--json").json["results"]) == 1

    @pytest.mark.parametrize("profile", PROFILES)
    def test_every_profile_can_be_asked_for_by_name(self, cli: CommandLine, profile: str) -> None:
        answer = cli("search", "ship", "--profile", profile, "--json").json

        assert answer["profile"] == profile
        assert len(answer["results"]) == 1

    def test_grammar_and_fusion_can_be_replaced(self, cli: CommandLine) -> None:
        def found(*options: str) -> int:
            return len(cli("search", "ship lunch", *options, "--json").json["results"])

        assert found("--grammar", "and") == 0
        assert found("--grammar", "or") == 2
        assert found("--fusion", "rrf", "--alpha", "0") == 2

    def test_the_modes_have_the_names_of_the_sources_too(self, cli: CommandLine) -> None:
        assert cli("search", "ship", "--mode", "fts", "--json").json["mode"] == "keyword"


class TestRefusals:
    @pytest.mark.parametrize("query", ["", "   "])
    def test_an_empty_query_is_wrong_usage(self, cli: CommandLine, query: str) -> None:
        done = cli("search", query)

        done.assert_failed(2, "the query is empty")
        assert "Usage: memorist search" in done.err

    @pytest.mark.parametrize(
        ("arguments", "about"),
        [
            (["--mode", "telepathic"], "hybrid, keyword, semantic"),
            (["--profile", "nonsense"], "balanced"),
            (["--grammar", "latin"], "auto"),
            (["--fusion", "cold"], "convex"),
            (["--limit", "0"], "limit"),
            (["--limit", "1001"], "limit"),
            (["--limit", "-1"], "limit"),
            (["--alpha", "2"], "alpha"),
            (["--alpha", "nan"], "alpha"),
            (["--min-relevance", "7"], "min_relevance"),
            (["--min-score", "-1"], "min_score"),
            (["--since", "banana"], "banana"),
            (["--sector", "cosmic"], "cosmic"),
            (["--tier", "basement"], "basement"),
            (["--session", "nope"], "nope"),
            (["--lens", "nope"], "nope"),
            (["--month", "march"], "march"),
            (["--as-of", "banana"], "banana"),
            (["--detail", "tiny"], "tiny"),
            (["--record", "loudly"], "loudly"),
            (["--record-session", "nope"], "nope"),
            (["--facets", "project,colour"], "colour"),
            (["--confidence-mode", "guess"], "guess"),
            (["--mode", "semantic"], "semantic search is not possible"),
        ],
    )
    @pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
    def test_what_cannot_be_used_is_one_line_on_stderr_and_nothing_on_stdout(
        self, cli: CommandLine, arguments: list[str], about: str, form: list[str]
    ) -> None:
        cli("search", "ship", *arguments, *form).assert_failed(1, about)


def test_meaning_finds_what_words_do_not_with_the_bundled_model(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMORIST_EMBEDDER")
    cli("reembed")

    done = cli.spawn("search", "when do we eat?", "--json")

    answer = json.loads(done.out)
    assert answer["degraded"] is None
    assert answer["results"][0]["content"] == "Lunch is at noon"
    assert answer["results"][0]["match"] == ["vector"]
