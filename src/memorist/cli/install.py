"""The command that sets up agents' clients."""

import os
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import answer_options, print_answer, print_json
from memorist.errors import ConfigError
from memorist.install import config_edits
from memorist.install.clients import CLIENTS, PROJECT, SCOPES, USER, Client, ConfigPaths
from memorist.install.config_edits import FileChange
from memorist.present.render import printable
from memorist.validation import choice


@click.command("install")
@click.argument("client", required=False, metavar="[CLIENT]")
@click.option(
    "--scope",
    default=USER,
    help="user (all your projects; default) or project (this folder, for everyone who uses it).",
)
@click.option("--hooks/--no-hooks", default=True, help="With or without hooks, if the client has them.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--remove", is_flag=True, help="Remove what was installed, and nothing else.")
@answer_options
def install_command(
    context: CommandContext, /, client: str | None, scope: str, hooks: bool, dry_run: bool, remove: bool, as_json: bool
) -> None:
    """
    Set up an agent's client, or list the clients. This adds the MCP server, and hooks if the client has them.

    Everything else in the client's config stays as it is, and a copy of the old file is kept beside it.

    \b
    Example:
        memorist install
        memorist install claude-code --dry-run
        memorist install cursor --scope project
        memorist install codex --remove
    """
    paths = ConfigPaths(Path.home(), Path.cwd(), os.environ)
    if client is None:
        if remove or dry_run:
            raise click.UsageError("name the client; `memorist install` lists them")
        _print_clients(paths, as_json)
        return
    chosen = CLIENTS[choice(client, CLIENTS, "client")]
    choice(scope, SCOPES, "scope")
    if remove:
        changes = config_edits.plan_removal(chosen, scope, paths)
    else:
        changes = config_edits.plan_install(chosen, scope, paths, _build_command(context, scope), hooks=hooks)
    copies = [] if dry_run else config_edits.write_changes(changes)
    if as_json:
        files = [{"file": str(change.file), "diff": change.diff} for change in changes]
        print_json({"client": chosen.name, "scope": scope, "changes": files, "copies": [str(copy) for copy in copies]})
    else:
        state = "remove: {} is not set up." if remove else "change: {} is set up as requested."
        _print_changes(chosen, changes, copies, dry_run, f"Nothing to {state.format(chosen.title)}")
    if not remove and find_spec("mcp") is None:
        click.echo("The MCP server needs an extra: pip install 'memorist[mcp]'", err=True)


def _print_changes(
    client: Client, changes: list[FileChange], copies: list[Path], dry_run: bool, unchanged: str
) -> None:
    for change in changes:
        if dry_run:
            click.echo(printable(change.diff.replace("\r\n", "\n")), nl=False)
        else:
            click.echo(f"{'Removed' if change.new is None else 'Wrote'} {printable(str(change.file))}")
    for copy in copies:
        click.echo(f"The old file is kept as {printable(str(copy))}", err=True)
    if not changes:
        click.echo(unchanged, err=True)
    elif not dry_run:
        click.echo(client.next_step, err=True)


def _build_command(context: CommandContext, scope: str) -> list[str]:
    """Return the command by which a client starts Memorist: with its full path, as a client's PATH may differ."""
    database, namespace = context.arguments.get("database"), context.arguments.get("namespace")
    if database and scope == USER:
        database = os.path.abspath(os.path.expanduser(database))
    options = [*(["--db", database] if database else []), *(["--namespace", namespace] if namespace else [])]
    if scope == PROJECT:  # its files are used on other machines, too
        return ["memorist", *options]
    script = Path(sys.argv[0])
    if script.stem != "memorist" or not script.is_file():
        script = Path(sysconfig.get_path("scripts"), "memorist.exe" if os.name == "nt" else "memorist")
    if script.is_file():
        return [str(script.absolute()), *options]
    return [sys.executable, "-m", "memorist", *options]


def _print_clients(paths: ConfigPaths, as_json: bool) -> None:
    rows, lines = [_client_json(client, paths) for client in CLIENTS.values()], []
    for row in rows:
        installed = ", ".join(f"{' and '.join(parts)} ({scope})" for scope, parts in row["installed"].items())
        state = row["problem"] or installed or ("not installed" if row["detected"] else "not found here")
        lines.append(f"{row['name']:<15} {printable(state)}")
    print_answer(as_json, {"clients": rows}, lines)
    if not as_json:
        click.echo("`memorist install CLIENT` sets one up; --dry-run shows what it would change.", err=True)


def _client_json(client: Client, paths: ConfigPaths) -> dict[str, Any]:
    """Return the state of a client; if its config cannot be read, the reason is the `problem`."""
    installed, problem = {}, None
    for scope in client.server_files:
        try:
            installed[scope] = config_edits.list_installed(client, scope, paths)
        except (ConfigError, OSError) as exc:
            problem = str(exc)
    return {
        "name": client.name,
        "title": client.title,
        "detected": os.path.isdir(paths.expand(client.folder)),  # Path.is_dir raises if access is denied
        "scopes": list(client.server_files),
        "hooks": list(client.hooks.events) if client.hooks else [],
        "installed": {scope: parts for scope, parts in installed.items() if parts},
        "problem": problem,
    }
