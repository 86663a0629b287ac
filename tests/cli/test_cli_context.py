"""`memorist context`."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine

import memorist


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    line = CommandLine(tmp_path, monkeypatch, capsys)
    with memorist.open(line.database) as memory:
        memory.add("We deploy with `make ship` from the release branch", project="api")
        memory.pin(memory.add("Always answer in British English").id)
    return line


def test_it_prints_a_block_about_the_message(cli: CommandLine) -> None:
    out = cli("context", "how do we deploy?", "--no-core").out

    assert out.startswith("<relevant-context>\n")
    assert "make ship" in out
    assert "British" not in out


def test_metadata_filters_it(cli: CommandLine) -> None:
    with memorist.open(cli.database) as memory:
        memory.add("Anna deploys on Mondays", metadata={"user": "anna"})

    out = cli("context", "when do we deploy?", "--metadata", '{"user": "anna"}').out

    assert "Mondays" in out
    assert "make ship" not in out


def test_the_message_can_come_from_standard_input(cli: CommandLine) -> None:
    assert "make ship" in cli("context", "-", stdin="how do we deploy?").out


def test_without_a_message_it_prints_what_to_know_before_one(cli: CommandLine) -> None:
    out = cli("context", "--recent", "5").out

    assert out.index("British") < out.index("make ship")


def test_nothing_relevant_is_said_on_stderr_alone(cli: CommandLine) -> None:
    done = cli("context", "quantum chromodynamics", "--no-core")

    assert (done.out, done.err, done.code) == ("", "Nothing relevant.\n", 0)


def test_json_has_the_block_and_its_tokens(cli: CommandLine) -> None:
    answer = json.loads(cli("context", "how do we deploy?", "--json").out)

    assert answer["context"].startswith("<relevant-context>")
    assert 0 < answer["tokens"] <= 2000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["how?", "--recent", "3"], "--recent cannot be used with a message"),
        (["--limit", "3"], "--limit cannot be used without a message"),
        (["--metadata", "{}"], "--metadata cannot be used without a message"),
        (["--no-documents"], "--no-documents cannot be used without a message"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(cli: CommandLine, arguments: list[str], said: str) -> None:
    done = cli("context", *arguments)

    assert done.code == 2
    assert said in done.err


def test_a_budget_that_is_too_small_is_refused(cli: CommandLine) -> None:
    done = cli("context", "how?", "--budget", "3")

    assert done.code == 1
    assert "budget" in done.err
