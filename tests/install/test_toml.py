"""TOML gets one table, and stays as it was everywhere else."""

from typing import Any

import pytest

from memorist import ConfigError
from memorist.install.toml import parse_document, patch_table

TABLE = ("mcp_servers", "memorist")
OURS = {"command": "/usr/bin/memorist", "args": ["mcp"]}
WRITTEN = """\
model = "gpt-5"   # the big one

[mcp_servers.files]
command = "files"  # [mcp_servers.memorist] is not here yet

# for the evenings
[profiles.late]
model = "small"
"""
ADDED = '\n[mcp_servers.memorist]\ncommand = "/usr/bin/memorist"\nargs = ["mcp"]\n'


def holding(text: str, entry: dict[str, Any] | None) -> dict[str, Any]:
    """The values of a text, with this entry."""
    values = parse_document(text)
    others = {name: value for name, value in values.get("mcp_servers", {}).items() if name != "memorist"}
    return values | {"mcp_servers": others | ({} if entry is None else {"memorist": entry})}


def with_ours(text: str, **more: Any) -> str:
    return patch_table(text, holding(text, OURS | more), *TABLE)


def without(text: str) -> str:
    return patch_table(text, holding(text, None), *TABLE)


@pytest.mark.parametrize("text", [WRITTEN, "", WRITTEN.rstrip("\n") + "\n"])
def test_a_table_is_added_at_the_end_and_taken_out_without_a_trace(text: str) -> None:
    assert with_ours(text) == text + (ADDED if text else ADDED.lstrip("\n"))
    assert without(with_ours(text)) == text


def test_a_table_that_is_there_is_replaced_in_its_place_and_those_below_it_stay() -> None:
    text = WRITTEN.replace(
        "# for the evenings",
        '[mcp_servers.memorist]\ncommand = "old"\n\n[mcp_servers.memorist.env]\nA = "1"\n\n# for the evenings',
    )

    new = with_ours(text, env={"A": "1"})

    assert new == text.replace('command = "old"', 'command = "/usr/bin/memorist"\nargs = ["mcp"]')
    assert without(new) == WRITTEN


def test_a_table_with_a_name_that_only_begins_alike_is_left_alone() -> None:
    text = '[mcp_servers.memorist_too]\ncommand = "x"\n'

    assert without(text) == text
    assert with_ours(text).startswith(text)


def test_comments_in_a_table_stay_when_it_changes() -> None:
    text = '# mine\n[mcp_servers.memorist]  # ours\ncommand = "old"  # moved\n# last\n'

    assert with_ours(text) == (
        '# mine\n[mcp_servers.memorist]  # ours\ncommand = "/usr/bin/memorist"  # moved\nargs = ["mcp"]\n# last\n'
    )


def test_tables_keep_their_order_with_an_array_of_tables_between_them() -> None:
    text = '[mcp_servers.files]\ncommand = "files"\n\n[[rules]]\ntext = """\n[mcp_servers.memorist]\n"""\n'

    added = with_ours(text)

    assert added == text + ADDED
    assert with_ours(added, args=["--db", "m.db", "mcp"]) == added.replace('["mcp"]', '["--db", "m.db", "mcp"]')
    assert without(added) == text


def test_line_ends_stay_as_they_are() -> None:
    text = WRITTEN.replace("\n", "\r\n")

    assert with_ours(text) == text + ADDED.replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { memorist = { command = "old" } }\n',
        'mcp_servers.memorist.command = "old"\n',
        '[mcp_servers]\nmemorist = { command = "old" }\n',
        '[mcp_servers.memorist]\ncommand = "old"\nenv = { A = "1" }\n',
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    entry = parse_document(text)["mcp_servers"]["memorist"] | OURS

    with pytest.raises(ConfigError, match="by hand"):
        patch_table(text, holding(text, entry), *TABLE)


def test_any_character_can_stand_in_a_path() -> None:
    path = "/home/😀 é\x7f\t/memorist"

    assert parse_document(with_ours("", command=path))["mcp_servers"]["memorist"]["command"] == path


@pytest.mark.parametrize("value", ["2020-01-01", "2020-01-01T10:00:00Z", "[10:00:00]"])
def test_what_cannot_be_written_anew_is_refused(value: str) -> None:
    text = f'[mcp_servers.memorist]\ncommand = "old"\nwhen = {value}\n'

    with pytest.raises(ConfigError, match="by hand"):
        patch_table(text, holding(text, parse_document(text)["mcp_servers"]["memorist"] | OURS), *TABLE)
    assert without(text) == ""


def test_what_is_no_toml_is_refused() -> None:
    with pytest.raises(ConfigError, match="TOML"):
        parse_document("[mcp_servers\n")
    with pytest.raises(ConfigError, match="TOML"):
        parse_document(f"digits = {'1' * 5_000}")
