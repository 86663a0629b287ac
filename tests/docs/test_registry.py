"""server.json, by which the MCP registry knows the server, agrees with the package."""

import json
from pathlib import Path

import memorist
from memorist.cli.app import COMMANDS
from memorist.config import TYPES

ROOT = Path(__file__).parents[2]
ENTRY = json.loads((ROOT / "server.json").read_text("utf-8"))
(PACKAGE,) = ENTRY["packages"]


def test_its_versions_are_those_of_the_package() -> None:
    (source,) = PACKAGE["runtimeArguments"]

    assert ENTRY["version"] == PACKAGE["version"] == memorist.__version__
    assert source["value"] == f"memorist[mcp]=={memorist.__version__}"


def test_its_name_is_in_the_readme_which_proves_whose_it_is() -> None:
    assert f"mcp-name: {ENTRY['name']}" in (ROOT / "README.md").read_text("utf-8")


def test_it_starts_a_command_that_exists_with_settings_that_exist() -> None:
    assert PACKAGE["packageArguments"][0]["value"] in COMMANDS
    names = {variable["name"].removeprefix("MEMORIST_").lower() for variable in PACKAGE["environmentVariables"]}
    assert names - {"db"} <= set(TYPES)


def test_its_description_fits_the_registry() -> None:
    assert len(ENTRY["description"]) <= 100
