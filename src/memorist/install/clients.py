"""
The clients that know the Model Context Protocol, and where and how each wants to be told of a server and of hooks.

Every form here is one that the client documents, or that its own program was seen to read.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "memorist"  # of the server, in every client
USER, PROJECT = "user", "project"
SCOPES = (USER, PROJECT)
_SECONDS = 10  # after which a client ends a hook; it ends by itself before that

Entry = Callable[[list[str]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ConfigPaths:
    """Where things are on this machine, for this user and this project."""

    home: Path
    project: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    def path(self, template: str) -> Path:
        """A place that begins with the name of another, such as {home}."""
        named, _, rest = template.removeprefix("{").partition("}")
        return self._anchor(named) / rest.removeprefix("/")

    def _anchor(self, name: str) -> Path:
        if name == "claude":  # which a user can move
            return self._named("CLAUDE_CONFIG_DIR", ".claude")
        if name == "claude.json":
            return self._named("CLAUDE_CONFIG_DIR", ".")
        if name == "codex":
            return self._named("CODEX_HOME", ".codex")
        if name == "config":  # of programs of the command line, on every system
            return self._named("XDG_CONFIG_HOME", ".config")
        if name == "settings":  # of programs with windows
            return self._settings()
        if name == "zed":
            return self._settings() / "Zed" if self.platform == "win32" else self._anchor("config") / "zed"
        return {"home": self.home, "project": self.project}[name]

    def _settings(self) -> Path:
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self._named("APPDATA", "AppData/Roaming")
        return self._named("XDG_CONFIG_HOME", ".config")

    def _named(self, variable: str, otherwise: str) -> Path:
        return Path(self.environ.get(variable) or self.home / otherwise)


@dataclass(frozen=True, slots=True)
class Hooks:
    """Where a client lists the commands it calls, for which events, and how."""

    files: Mapping[str, str]  # by scope
    events: tuple[str, ...]
    entry: Callable[[str], dict[str, Any]]
    besides: Mapping[str, Any] = field(default_factory=dict)  # what such a file has to hold


@dataclass(frozen=True, slots=True)
class Client:
    """A client: the files it reads in each scope, and what it wants to find in them."""

    name: str
    title: str
    folder: str  # there once the client was used
    servers: Mapping[str, str]  # the file they are listed in, by scope
    key: str  # under which
    entry: Entry
    hooks: Hooks | None = None
    comments: bool = False  # in its JSON
    then: str = "Start it anew to have it take effect."


def _plain(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


def _typed(command: list[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command)}


def _opencode(command: list[str]) -> dict[str, Any]:
    return {"type": "local", "command": command, "enabled": True}


def _called(timeout: int) -> Callable[[str], dict[str, Any]]:
    """As Claude Code, Codex and Gemini CLI list a command; the last counts in thousandths of a second."""
    return lambda command: {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}


_CLIENTS = (
    Client(
        "claude-code",
        "Claude Code",
        "{claude}",
        {USER: "{claude.json}/.claude.json", PROJECT: "{project}/.mcp.json"},
        "mcpServers",
        _typed,
        Hooks(
            {USER: "{claude}/settings.json", PROJECT: "{project}/.claude/settings.json"},
            ("SessionStart", "UserPromptSubmit", "PreCompact", "SessionEnd"),
            _called(_SECONDS),
        ),
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        "{settings}/Claude",
        {USER: "{settings}/Claude/claude_desktop_config.json"},
        "mcpServers",
        _plain,
    ),
    Client(
        "codex",
        "Codex",
        "{codex}",
        {USER: "{codex}/config.toml", PROJECT: "{project}/.codex/config.toml"},
        "mcp_servers",
        _plain,
        Hooks(
            {USER: "{codex}/hooks.json", PROJECT: "{project}/.codex/hooks.json"},
            ("SessionStart", "UserPromptSubmit"),
            _called(_SECONDS),
        ),
        then="Start it anew; it asks whether to trust the hooks.",
    ),
    Client(
        "cursor",
        "Cursor",
        "{home}/.cursor",
        {USER: "{home}/.cursor/mcp.json", PROJECT: "{project}/.cursor/mcp.json"},
        "mcpServers",
        _plain,
        Hooks(
            {USER: "{home}/.cursor/hooks.json", PROJECT: "{project}/.cursor/hooks.json"},
            ("sessionStart",),
            lambda command: {"command": command},
            {"version": 1},
        ),
        comments=True,
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        "{home}/.gemini",
        {USER: "{home}/.gemini/settings.json", PROJECT: "{project}/.gemini/settings.json"},
        "mcpServers",
        _plain,
        Hooks(
            {USER: "{home}/.gemini/settings.json", PROJECT: "{project}/.gemini/settings.json"},
            ("SessionStart", "BeforeAgent"),
            _called(_SECONDS * 1000),
        ),
        comments=True,
    ),
    Client(
        "opencode",
        "opencode",
        "{config}/opencode",
        {USER: "{config}/opencode/opencode.json", PROJECT: "{project}/opencode.json"},
        "mcp",
        _opencode,
        comments=True,
    ),
    Client(
        "vscode",
        "VS Code",
        "{settings}/Code/User",
        {USER: "{settings}/Code/User/mcp.json", PROJECT: "{project}/.vscode/mcp.json"},
        "servers",
        _typed,
        comments=True,
    ),
    Client(
        "windsurf",
        "Windsurf",
        "{home}/.codeium/windsurf",
        {USER: "{home}/.codeium/windsurf/mcp_config.json"},
        "mcpServers",
        _plain,
    ),
    Client(
        "zed",
        "Zed",
        "{zed}",
        {USER: "{zed}/settings.json", PROJECT: "{project}/.zed/settings.json"},
        "context_servers",
        _plain,
        comments=True,
    ),
)
CLIENTS: Mapping[str, Client] = {client.name: client for client in _CLIENTS}
