"""
The clients of the Model Context Protocol: the config files in which each lists servers and hooks, and in what form.

Every form here is documented by the client, or was tested with it.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from memorist.config import UserFolders

NAME = "memorist"  # of the server, in every client
USER, PROJECT = "user", "project"
SCOPES = (USER, PROJECT)
_HOOK_TIMEOUT_SECONDS = 10  # of the client; a hook ends by itself before that
_MAX_CODEX_END_SECONDS = 3  # it warns of a longer one at the end of a session

_MakeEntry = Callable[[list[str]], dict[str, Any]]


class ConfigPaths(Struct, frozen=True):
    """The folders of this machine, of this user and of this project that config files are in."""

    home: Path
    project: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    def expand(self, template: str) -> Path:
        """Return the path of a template that begins with the name of a folder, such as {home}/.cursor."""
        if template.startswith("{project}"):
            return self.project / template.removeprefix("{project}").removeprefix("/")
        return UserFolders(self.home, self.environ, self.platform).expand(template)


def _plain_entry(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


def _typed_entry(command: list[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain_entry(command)}


def _opencode_entry(command: list[str]) -> dict[str, Any]:
    return {"type": "local", "command": command, "enabled": True}


def _command_group(timeout: int, *, at_end: int | None = None) -> Callable[[str, str], dict[str, Any]]:
    """
    Return the form of Claude Code and Codex, with a timeout in seconds, and of Gemini CLI, in milliseconds; `at_end` is
    the timeout at the end of a session.
    """

    def make_entry(command: str, event: str) -> dict[str, Any]:
        limit = at_end if at_end is not None and event == "SessionEnd" else timeout
        return {"hooks": [{"type": "command", "command": command, "timeout": limit}]}

    return make_entry


class HookConfig(Struct, frozen=True):
    """The files in which a client lists hooks, the events it calls them for, and the form of an entry."""

    files: Mapping[str, str]  # by scope
    events: tuple[str, ...]
    entry: Callable[[str, str], dict[str, Any]]  # for a command and an event
    required: Mapping[str, Any] = field(default_factory=dict)  # other values that such a file must hold


class Client(Struct, frozen=True):
    """A client, its config files in each scope, and the form of their entries."""

    name: str
    title: str
    folder: str  # exists once the client was used
    server_files: Mapping[str, str]  # by scope
    server_key: str = "mcpServers"  # under which the file lists servers
    server_entry: _MakeEntry = _plain_entry
    hooks: HookConfig | None = None
    allows_comments: bool = False  # in its JSON
    next_step: str = "Restart it for this to take effect."


_CLIENTS = (
    Client(
        "claude-code",
        "Claude Code",
        "{claude}",
        {USER: "{claude.json}/.claude.json", PROJECT: "{project}/.mcp.json"},
        server_entry=_typed_entry,
        hooks=HookConfig(
            {USER: "{claude}/settings.json", PROJECT: "{project}/.claude/settings.json"},
            ("SessionStart", "UserPromptSubmit", "PreCompact", "SessionEnd"),
            _command_group(_HOOK_TIMEOUT_SECONDS),
        ),
    ),
    Client(
        "claude-desktop", "Claude Desktop", "{settings}/Claude", {USER: "{settings}/Claude/claude_desktop_config.json"}
    ),
    Client(
        "codex",
        "Codex",
        "{codex}",
        {USER: "{codex}/config.toml", PROJECT: "{project}/.codex/config.toml"},
        server_key="mcp_servers",
        hooks=HookConfig(
            {USER: "{codex}/hooks.json", PROJECT: "{project}/.codex/hooks.json"},
            ("SessionStart", "UserPromptSubmit", "PreCompact", "SessionEnd"),
            _command_group(_HOOK_TIMEOUT_SECONDS, at_end=_MAX_CODEX_END_SECONDS),
        ),
        next_step="Restart it; it asks whether to trust the hooks.",
    ),
    Client(
        "cursor",
        "Cursor",
        "{home}/.cursor",
        {USER: "{home}/.cursor/mcp.json", PROJECT: "{project}/.cursor/mcp.json"},
        hooks=HookConfig(
            {USER: "{home}/.cursor/hooks.json", PROJECT: "{project}/.cursor/hooks.json"},
            ("sessionStart",),
            lambda command, event: {"command": command},
            {"version": 1},
        ),
        allows_comments=True,
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        "{home}/.gemini",
        {USER: "{home}/.gemini/settings.json", PROJECT: "{project}/.gemini/settings.json"},
        hooks=HookConfig(
            {USER: "{home}/.gemini/settings.json", PROJECT: "{project}/.gemini/settings.json"},
            ("SessionStart", "BeforeAgent", "PreCompress", "SessionEnd"),
            _command_group(_HOOK_TIMEOUT_SECONDS * 1000),
        ),
        allows_comments=True,
    ),
    Client(
        "opencode",
        "opencode",
        "{config}/opencode",
        {USER: "{config}/opencode/opencode.json", PROJECT: "{project}/opencode.json"},
        "mcp",
        _opencode_entry,
        allows_comments=True,
    ),
    Client(
        "vscode",
        "VS Code",
        "{settings}/Code/User",
        {USER: "{settings}/Code/User/mcp.json", PROJECT: "{project}/.vscode/mcp.json"},
        "servers",
        _typed_entry,
        allows_comments=True,
    ),
    Client("windsurf", "Windsurf", "{home}/.codeium/windsurf", {USER: "{home}/.codeium/windsurf/mcp_config.json"}),
    Client(
        "zed",
        "Zed",
        "{zed}",
        {USER: "{zed}/settings.json", PROJECT: "{project}/.zed/settings.json"},
        server_key="context_servers",
        allows_comments=True,
    ),
)
CLIENTS: Mapping[str, Client] = {client.name: client for client in _CLIENTS}
