"""The plugin for Claude Code says what `memorist install claude-code` writes."""

import json
from pathlib import Path
from typing import Any

from memorist import __version__
from memorist.install import config_edits
from memorist.install.clients import CLIENTS

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugin"
CLIENT = CLIENTS["claude-code"]


def read(file: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return values


def test_its_hooks_are_those_of_the_command() -> None:
    assert CLIENT.hooks
    assert (
        read(PLUGIN / "hooks" / "hooks.json")["hooks"]
        == (config_edits.add_hooks({}, CLIENT.hooks, ["memorist"])[config_edits.HOOKS_KEY])
    )


def test_its_server_is_that_of_the_command() -> None:
    (server,) = read(PLUGIN / ".mcp.json")["mcpServers"].values()

    assert {"type": "stdio"} | server == CLIENT.server_entry(["memorist", "mcp"])


def test_it_has_the_version_of_the_package() -> None:
    manifest = read(PLUGIN / ".claude-plugin" / "plugin.json")

    assert (manifest["name"], manifest["version"]) == ("memorist", __version__)


def test_the_marketplace_leads_to_it() -> None:
    (plugin,) = read(ROOT / ".claude-plugin" / "marketplace.json")["plugins"]

    assert (ROOT / plugin["source"]).resolve() == PLUGIN
    assert plugin["name"] == read(PLUGIN / ".claude-plugin" / "plugin.json")["name"]
