"""`recollect search`: the shape of its answers, its options, and what it refuses."""

import json
from datetime import datetime
from pathlib import Path

import pytest
from command_line import CommandLine

from recollect.profiles import PROFILES

ANSWER = {"query", "mode", "profile", "took_ms", "degraded", "suggestion", "hidden", "results"}
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


class TestText:
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
        assert "held back by min_relevance" in done.err
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
        assert "Usage: recollect search" in done.err

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
            (["--mode", "semantic"], "semantic search has nothing to go by"),
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
    monkeypatch.delenv("RECOLLECT_EMBEDDER")
    cli("reembed")

    done = cli.spawn("search", "when do we eat?", "--json")

    answer = json.loads(done.out)
    assert answer["degraded"] is None
    assert answer["results"][0]["content"] == "Lunch is at noon"
    assert answer["results"][0]["match"] == ["vector"]
