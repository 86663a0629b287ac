"""Where clients keep their config, on each system."""

from pathlib import Path

import pytest

from memorist.install.clients import CLIENTS, USER, ConfigPaths

HOME = Path("/home/ada")


def place(name: str, platform: str, **environ: str) -> str:
    file = ConfigPaths(HOME, Path("/work"), environ, platform).expand(CLIENTS[name].server_files[USER])
    return file.as_posix()


@pytest.mark.parametrize(
    ("name", "platform", "file"),
    [
        ("vscode", "linux", "/home/ada/.config/Code/User/mcp.json"),
        ("vscode", "darwin", "/home/ada/Library/Application Support/Code/User/mcp.json"),
        ("vscode", "win32", "/home/ada/AppData/Roaming/Code/User/mcp.json"),
        ("claude-desktop", "darwin", "/home/ada/Library/Application Support/Claude/claude_desktop_config.json"),
        ("zed", "linux", "/home/ada/.config/zed/settings.json"),
        ("zed", "darwin", "/home/ada/.config/zed/settings.json"),
        ("zed", "win32", "/home/ada/AppData/Roaming/Zed/settings.json"),
        ("opencode", "darwin", "/home/ada/.config/opencode/opencode.json"),
        ("claude-code", "win32", "/home/ada/.claude.json"),
        ("codex", "win32", "/home/ada/.codex/config.toml"),
    ],
)
def test_the_file_is_where_the_client_looks(name: str, platform: str, file: str) -> None:
    assert place(name, platform) == file


def test_a_folder_that_was_moved_is_where_it_is_said_to_be() -> None:
    assert place("vscode", "win32", APPDATA="/roaming") == "/roaming/Code/User/mcp.json"
    assert place("zed", "linux", XDG_CONFIG_HOME="/xdg") == "/xdg/zed/settings.json"
    assert place("claude-code", "linux", CLAUDE_CONFIG_DIR="/claude") == "/claude/.claude.json"
