"""The command line on a PostgreSQL server."""

from pathlib import Path

import pytest
from command_line import CommandLine

from memorist.config import conceal_password


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


def test_memories_are_added_found_and_counted(cli: CommandLine, postgres_url: str) -> None:
    cli("--db", postgres_url, "add", "We deploy with make ship", "--project", "api")

    (found,) = cli("--db", postgres_url, "search", "deploy", "--json").json["results"]
    assert found["content"] == "We deploy with make ship"
    stats = cli("--db", postgres_url, "stats", "--json").json
    assert stats["memories"] == 1
    assert stats["database"].startswith("PostgreSQL ")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://anna:s3cret@host/db", "postgresql://anna:***@host/db"),
        (
            "postgresql://anna:a&b#c?d@host:5432/db?sslmode=require",
            "postgresql://anna:***@host:5432/db?sslmode=require",
        ),
        ("postgres://host/db?password=s3cret&sslmode=require", "postgres://host/db?password=***&sslmode=require"),
        ("postgresql://host/db?replica=postgresql%3A%2F%2Fanna%3As3cret%40b%2Fdb", "postgresql://host/db?replica=***"),
        ("postgresql://anna:p@ss@host/db", "postgresql://anna:***@host/db"),
        ("postgresql://host:5432/db?user=a@b", "postgresql://host:5432/db?user=a@b"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("folder/a:b@c.db", "folder/a:b@c.db"),
    ],
)
def test_a_password_is_not_shown(address: str, shown: str) -> None:
    assert conceal_password(address) == shown


def test_the_settings_do_not_show_a_password(cli: CommandLine) -> None:
    cli.settings.write_text('database = "postgresql://anna:s3cret@host/db"')

    for command in (["config", "list"], ["config", "list", "--json"], ["config", "get", "database"]):
        shown = cli("--db", "postgresql://anna:s3cret@host/db", *command)
        assert "anna" in shown.out
        assert "s3cret" not in shown.out + shown.err


def test_a_password_is_not_taken_from_a_command_line(cli: CommandLine) -> None:
    cli("config", "set", "database", "postgresql://anna:s3cret@host/db").assert_failed(2, "PGPASSWORD")


def test_a_server_that_is_not_there_is_named_without_the_password(cli: CommandLine) -> None:
    failed = cli("--db", "postgresql://anna:s3cret@127.0.0.1:1/db", "stats")

    failed.assert_failed(1, "cannot connect to postgresql://anna@127.0.0.1:1/db")
    assert "s3cret" not in failed.err
