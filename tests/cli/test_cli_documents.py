"""Files on the command line: index, watch, docs."""

import json
import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click
import pytest
from command_line import CommandLine

import memorist
from memorist.cli import documents
from memorist.cli.options import ProgressBar
from memorist.ingest import sync
from memorist.reports import IndexProgress

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def notes(cli: CommandLine) -> Path:
    """A folder where we are, with two files to index and one that is not."""
    folder = cli.work / "notes"
    folder.mkdir()
    (folder / "retries.md").write_text("# Retries\n\n## The cap\n\nRetries are capped at 5.\n")
    (folder / "deploy.md").write_text("# Deploying\n\nWe deploy with make ship.\n\nFrom the release branch.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\0")
    return folder


class TestIndex:
    def test_says_what_became_of_the_files(self, cli: CommandLine, notes: Path) -> None:
        assert cli("index", "notes").lines == [
            "2 added, 2 chunks (0 embedded), 1 skipped",
            "Skipped:",
            "       1  no reader for .png files",
        ]
        (notes / "retries.md").write_text("changed")
        (notes / "deploy.md").rename(notes / "ship.md")

        assert cli("index", "notes").lines[0] == "1 changed, 1 renamed, 2 chunks (0 embedded), 1 skipped"
        assert cli("index", "notes").lines[0] == "2 unchanged, 1 skipped"
        (notes / "ship.md").unlink()
        assert cli("index", "notes").lines[0] == "1 unchanged, 1 removed, 1 skipped"

    def test_as_json(self, cli: CommandLine, notes: Path) -> None:
        report = cli("index", "notes", "--json").json

        assert report == {
            "added": 2, "changed": 0, "unchanged": 0, "renamed": 0, "removed": 0, "chunks": 2, "embedded": 0,
            "skipped": [[str(notes / "picture.png"), "no reader for .png files"]], "redacted": {}, "redacted_at": [],
        }  # fmt: skip

    def test_names_what_was_skipped_if_asked(self, cli: CommandLine, notes: Path) -> None:
        assert "          notes/picture.png: no reader for .png files" in cli("index", "notes", "--verbose").lines

    def test_chooses_by_pattern(self, cli: CommandLine, notes: Path) -> None:
        assert cli("index", "notes", "--include", "*.md", "--exclude", "deploy*", "--json").json["added"] == 1

    def test_says_where_secrets_stand_and_never_what_they_are(self, cli: CommandLine, notes: Path) -> None:
        for number in range(7):
            (notes / f"s{number}.md").write_text(f"# Secret\n\nthe token {TOKEN}\n")

        done = cli("index", "notes")

        assert "7 redacted" in done.lines[0]
        assert re.search(r"^ +7  \S+ at notes/s0\.md:3, .*notes/s4\.md:3 and 2 more$", done.out, re.MULTILINE)
        assert TOKEN not in done.out
        assert "notes/s6.md:3" in cli("index", "notes", "--project", "again", "--verbose").out

    def test_keeps_them_if_asked(self, cli: CommandLine, notes: Path) -> None:
        (notes / "s.md").write_text(f"the token {TOKEN}")

        assert cli("index", "notes", "--allow", "A1b2", "--json").json["redacted"] == {}
        cli("index", "--remove", "notes")
        assert cli("index", "notes", "--no-redact", "--json").json["redacted"] == {}
        assert TOKEN in cli("docs", "token", "--json").json["results"][0]["content"]

    def test_into_a_project_that_is_given_or_configured(
        self, cli: CommandLine, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cli("index", "notes/retries.md", "--project", "api")
        monkeypatch.setenv("MEMORIST_PROJECT", "web")
        cli("index", "notes/deploy.md")

        shown = cli("docs", "--list", "--json").json["documents"]
        assert [document["project"] for document in shown] == ["web", "api"]

    def test_takes_out_what_is_named(self, cli: CommandLine, notes: Path) -> None:
        cli("index", "notes")

        done = cli("index", "--remove", "notes/deploy.md", "nix")
        assert (done.code, done.out) == (1, "Removed 1 file from the index: notes/deploy.md\n")
        assert done.err == "Error: not indexed: nix; `memorist docs --list` lists what is\n"
        assert cli("index", "--remove", "notes", "--json").json == {"removed": 1}
        again = cli("index", "--remove", "notes", "--json")
        assert (again.code, json.loads(again.out)) == (1, {"removed": 0})
        cli("index", "--remove", "notes", "--project", "api").assert_failed(2, "--remove takes only paths")

    def test_what_is_not_there_is_an_error_and_nothing_is_indexed(self, cli: CommandLine, notes: Path) -> None:
        cli("index", "notes", "nix").assert_failed(1, "no such file or folder: nix")
        assert cli("docs", "--list").lines == []
        cli("index").assert_failed(2, "PATH")

    def test_nothing_to_index_is_an_error_with_reasons(self, cli: CommandLine, notes: Path) -> None:
        (cli.work / "empty").mkdir()

        cli("index", "empty").assert_failed(1, "empty: nothing to index in it")
        cli("index", "notes", "--include", "*.gif", "--include", "*.bmp").assert_failed(
            1, "notes: nothing to index in it; no file matches --include '*.gif' or '*.bmp'"
        )
        cli("index", "notes/picture.png", "--json").assert_failed(1, "1 × it is binary")

    def test_ctrl_c_keeps_what_is_done(self, cli: CommandLine, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        class Interrupted(ProgressBar):
            def __call__(self, done: int, total: int | None = None, detail: str = "") -> None:
                super().__call__(done, total, detail)
                if done:
                    raise KeyboardInterrupt

        monkeypatch.setattr(documents, "ProgressBar", Interrupted)
        monkeypatch.setattr(sync, "_MAX_PENDING_CHUNKS", 1)  # each file is stored by itself
        done = cli("index", "notes")

        assert (done.code, done.out) == (130, "")
        assert done.err == "Stopped. 1 of 2 files are done. Run it again to continue from there.\n"
        assert len(cli("docs", "--list").lines) == 1
        assert cli("check").code == 0

    def test_progress_tells_how_fast_and_how_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        printed: list[str] = []
        times = iter([0.0, 10.0, 10.01, 20.0])
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setattr(click, "echo", lambda text, **_: printed.append(text.replace("\r\x1b[K", "")))

        with ProgressBar("Indexing", unit="files", clock=lambda: next(times)) as bar:
            for done in (0, 1000, 1001, 2000):
                bar(done, 8000)

        assert printed == [
            "Indexing  1,000 of 8,000 files  100 a second, 1:10 left",
            "Indexing  2,000 of 8,000 files  100 a second, 1:00 left",
            "",
        ]

    def test_progress_without_an_end_tells_how_fast(self, monkeypatch: pytest.MonkeyPatch) -> None:
        printed: list[str] = []
        times = iter([0.0, 10.0])
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setattr(click, "echo", lambda text, **_: printed.append(text.replace("\r\x1b[K", "")))

        with ProgressBar("Exporting", clock=lambda: next(times)) as bar:
            bar(0)
            bar(1000)

        assert printed == ["Exporting  1,000  100 a second", ""]

    def test_progress_shows_chunks_of_a_file_in_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        printed: list[str] = []
        times = iter([0.0, 10.0, 20.0])
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setattr(click, "echo", lambda text, **_: printed.append(text.replace("\r\x1b[K", "")))

        with ProgressBar("Indexing", unit="files", clock=lambda: next(times)) as bar:
            for files, chunks in ((0, 0), (0, 256), (1, 512)):
                documents._show_progress(bar, IndexProgress(files, 2, chunks))

        assert printed == [
            "Indexing  0 of 2 files, 256 chunks embedded",
            "Indexing  1 of 2 files, 512 chunks embedded  0 a second, 0:20 left",
            "",
        ]


class TestDocs:
    @pytest.fixture(autouse=True)
    def _indexed(self, cli: CommandLine, notes: Path) -> None:
        cli("index", "notes", "--project", "api")

    def test_shows_where_it_stands_and_the_passage(self, cli: CommandLine) -> None:
        first, second = cli("docs", "capped").lines

        assert re.fullmatch(
            r" 1\. notes/retries\.md:\d+-5  Retries( › The cap)?  \(score \d\.\d\d · relevance \d\.\d\d · keyword\)",
            first,
        )
        assert "Retries are capped at 5." in second

    def test_a_dash_reads_the_query_from_standard_input(self, cli: CommandLine) -> None:
        assert cli("docs", "-", stdin="capped\n").lines == cli("docs", "capped").lines != []

    def test_links_show_where_a_file_leads_and_what_leads_to_it(self, cli: CommandLine, notes: Path) -> None:
        (notes / "plan.md").write_text("# Plan\n\nSee [[retries]].\nThen [gone](gone.md).\n")
        cli("index", "notes", "--project", "api")

        assert cli("docs", "--links", "notes/plan.md").lines[1:] == [
            "      3  notes/retries.md",
            "      4  gone.md (not indexed)",
        ]
        assert cli("docs", "--links", "notes/retries.md").lines[1:] == ["  from   notes/plan.md"]
        assert cli("docs", "--links", "notes/plan.md", "--json").json["links"][0]["path"] == str(notes / "retries.md")
        cli("docs", "--links", "notes/none.md").assert_failed(1, "is not indexed")
        cli("docs", "retries", "--links", "notes/plan.md").assert_failed(2, "--links shows the links of one file")

    def test_paths_are_whole_from_elsewhere(
        self, cli: CommandLine, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(cli.home)

        assert cli("docs", "capped").lines[0].startswith(f" 1. {notes}/retries.md:")

    def test_as_json(self, cli: CommandLine, notes: Path) -> None:
        answer = cli("docs", "capped", "--json").json
        (hit,) = answer["results"]

        assert (answer["query"], answer["mode"]) == ("capped", "hybrid")
        assert (hit["path"], hit["title"]) == (str(notes / "retries.md"), "Retries")
        assert {"breadcrumb", "start_line", "end_line", "snippet", "score", "relevance", "content", "match"} <= set(hit)
        assert "<mark>capped</mark>" in hit["snippet"]

    def test_the_id_of_a_place_gets_its_text(self, cli: CommandLine, notes: Path) -> None:
        (hit,) = cli("docs", "capped", "--json").json["results"]

        for given in (hit["id"], hit["id"][-8:]):
            (chunk,) = cli("get", given, "--history", "--json").json["memories"]
            assert (chunk["id"], chunk["content"], chunk["history"]) == (hit["id"], hit["content"], [])
            assert (chunk["source"], chunk["namespace"]) == (f"{notes}/retries.md", "default")
            assert hit["content"].splitlines()[-1] in cli("get", given).out
        cli("get", "00000000").assert_failed(1, "no memory has the id")

    def test_the_id_of_a_place_is_not_that_of_a_memory_to_change(self, cli: CommandLine, notes: Path) -> None:
        (hit,) = cli("docs", "capped", "--json").json["results"]

        cli("related", hit["id"]).assert_failed(
            1, f"is not a memory but a chunk of {notes}/retries.md; `memorist docs`"
        )
        cli("forget", hit["id"]).assert_failed(1, "no memory has the id")

    def test_with_neighbours_shows_the_text_as_it_stands(self, cli: CommandLine) -> None:
        assert cli("docs", "release", "--neighbours", "1").lines[-1] == "    From the release branch."

    def test_takes_the_options_of_a_search(self, cli: CommandLine) -> None:
        assert cli("docs", "deploy", "--project", "api", "--limit", "1", "--mode", "keyword").lines
        assert cli("docs", "deploy", "--project", "web").lines == []
        cli("docs", "deploy", "--mode", "psychic").assert_failed(1, "psychic")
        cli("docs", "deploy", "--limit", "0").assert_failed(1, "limit")

    def test_nothing_found_is_said_on_stderr(self, cli: CommandLine) -> None:
        done = cli("docs", "unicorn")

        assert (done.code, done.out, done.err.splitlines()[0]) == (0, "", "Nothing found.")

    def test_without_any_files_it_says_what_makes_some(self, cli: CommandLine, tmp_path: Path) -> None:
        for wanted in ("unicorn", "--list"):
            done = cli("--db", str(tmp_path / "none.db"), "docs", wanted)
            assert (done.code, done.out) == (0, "")
            assert "No files are indexed; `memorist index PATH` indexes them." in done.err.splitlines()

    def test_lists_the_files(self, cli: CommandLine, notes: Path) -> None:
        deploy, retries = cli("docs", "--list").lines
        assert re.fullmatch(r"notes/deploy\.md  Deploying  \d{4}-\d\d-\d\d \d\d:\d\d · 1 chunk · api", deploy)
        assert retries.startswith("notes/retries.md  Retries  ")

        shown = cli("docs", "--list", "--limit", "1", "--project", "api", "--json").json["documents"]
        assert [(one["path"], one["title"], one["chunks"]) for one in shown] == [
            (str(notes / "deploy.md"), "Deploying", 1)
        ]
        assert not {"links", "linked_from"} & set(shown[0])  # which a list does not follow
        twice = cli("docs", "--list", "--project", "api", "--project", "api").lines
        assert len(twice) == 2
        assert cli("docs", "--list", "--project", "web").err == "No files of this project are indexed.\n"

    def test_filters_by_what_the_files_are(self, cli: CommandLine, notes: Path) -> None:
        (notes / "tagged.md").write_text("---\ntags: [ops]\ntype: procedural\n---\nDeploy with care")
        cli("index", "notes")

        for filter in (("--tag", "ops"), ("--sector", "procedural")):
            (hit,) = cli("docs", "deploy", *filter, "--json").json["results"]
            assert hit["path"] == str(notes / "tagged.md")
        assert cli("docs", "deploy", "--until", "2000-01-01").out == ""
        assert cli("docs", "deploy", "--since", "2000-01-01").out
        cli("docs", "--list", "--tag", "ops").assert_failed(2, "only --project and --limit")

    def test_needs_a_query_or_a_list(self, cli: CommandLine) -> None:
        cli("docs").assert_failed(2, "the query is empty")
        cli("docs", "-", stdin="\n").assert_failed(2, "the query is empty")
        cli("docs", " ").assert_failed(2, "the query is empty")
        cli("docs", "query", "--list").assert_failed(2, "takes no query")

    def test_control_characters_never_reach_the_terminal(self, cli: CommandLine, notes: Path) -> None:
        (notes / "e\x1bvil.md").write_text("# T\x1b[31mitle\n\nzebra \x1b[2J")
        cli("index", "notes")

        assert "\x1b" not in cli("docs", "zebra").out + cli("docs", "--list").out


@pytest.mark.skipif(os.name == "nt", reason="other signals there")
class TestWatch:
    @pytest.fixture(autouse=True)
    def _extra(self) -> None:
        pytest.importorskip("watchfiles", reason="the extra `watch` is not installed")

    @pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
    def test_prints_a_line_for_each_time_and_ends_cleanly(
        self, cli: CommandLine, notes: Path, ending: signal.Signals
    ) -> None:
        with cli.start("watch", "notes", "--project", "api") as process:
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            first, *skipped = [process.stdout.readline().decode() if process.stdout else "" for _ in range(3)]
            (notes / "third.md").write_text("three")
            second = process.stdout.readline().decode() if process.stdout else ""
            process.send_signal(ending)
            out, err = process.communicate()
            watchdog.cancel()

        assert re.fullmatch(r"\d\d:\d\d:\d\d  2 added, 2 chunks \(0 embedded\), 1 skipped\n", first)
        assert skipped == ["Skipped:\n", "       1  no reader for .png files\n"]
        assert re.fullmatch(r"\d\d:\d\d:\d\d  1 added, 2 unchanged, 1 chunk \(0 embedded\), 1 skipped\n", second)
        assert (process.returncode, out, err) == (0, b"", b"")
        with memorist.open(cli.database, embedder="none") as memory:
            assert {document.project for document in memory.documents.list()} == {"api"}
            assert memory.check().problems == ()

    def test_as_lines_of_json(self, cli: CommandLine, notes: Path) -> None:
        with cli.start("watch", "notes", "--json") as process:
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            reports: list[Any] = [json.loads(process.stdout.readline())] if process.stdout else []
            (notes / "deploy.md").unlink()
            reports += [json.loads(process.stdout.readline())] if process.stdout else []
            process.send_signal(signal.SIGTERM)
            process.communicate()
            watchdog.cancel()

        assert [(report["added"], report["removed"]) for report in reports] == [(2, 0), (0, 1)]

    def test_what_is_not_there_is_an_error(self, cli: CommandLine) -> None:
        cli("watch", "nix").assert_failed(1, "no such file or folder: nix")
        cli("watch").assert_failed(2, "PATH")
