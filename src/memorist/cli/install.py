"""Install Memorist into the config of an agent's client."""

import os
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import json_option, print_json
from memorist.errors import ConfigError
from memorist.install import config_edits
from memorist.install.clients import CLIENTS, PROJECT, SCOPES, USER, Client, ConfigPaths
from memorist.install.config_edits import FileChange
from memorist.present.render import printable
from memorist.validation import choice


@click.command("install")
@click.argument("client", required=False, metavar="[CLIENT]")
@click.option(
    "--scope", default=USER, help="user (every project; default) or project (this folder, for all who use it)."
)
@click.option("--hooks/--no-hooks", default=True, help="With or without hooks, where the client has them.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--remove", is_flag=True, help="Take out what was installed, and nothing else.")
@json_option
@click.pass_obj
def install_command(
    session: CommandContext, /, client: str | None, scope: str, hooks: bool, dry_run: bool, remove: bool, as_json: bool
) -> None:
    """
    Tell a CLIENT of Memorist: its MCP server, and hooks where the client has them. Without one, list the clients.

    Whatever else is in the client's config stays as it is, and a copy of the file is kept beside it.

    \b
    Example:
        memorist install
        memorist install claude-code --dry-run
        memorist install cursor --scope project
        memorist install codex --remove
    """
    places = ConfigPaths(Path.home(), Path.cwd(), os.environ)
    if client is None:
        if remove or dry_run:
            raise click.UsageError("name the client; `memorist install` lists them")
        _list_clients(places, as_json)
        return
    wanted = CLIENTS[choice(client, CLIENTS, "client")]
    choice(scope, SCOPES, "scope")
    if remove:
        changes = config_edits.plan_removal(wanted, scope, places)
    else:
        changes = config_edits.plan_install(wanted, scope, places, _program(session, scope), hooks=hooks)
    copies = [] if dry_run else config_edits.write_changes(changes)
    if as_json:
        files = [{"file": str(one.file), "diff": one.diff} for one in changes]
        print_json({"client": wanted.name, "scope": scope, "changes": files, "copies": [str(copy) for copy in copies]})
    else:
        _tell(wanted, changes, copies, dry_run)
    if not remove and find_spec("mcp") is None:
        click.echo("Its server needs an extra: pip install 'memorist[mcp]'", err=True)


def _tell(client: Client, changes: list[FileChange], copies: list[Path], dry_run: bool) -> None:
    for one in changes:
        if dry_run:
            click.echo(one.diff, nl=False)
        else:
            click.echo(f"{'Removed' if one.new is None else 'Wrote'} {printable(str(one.file))}")
    for copy in copies:
        click.echo(f"What was there is kept as {printable(str(copy))}", err=True)
    if not changes:
        click.echo(f"Nothing to change: {client.title} is as it should be.", err=True)
    elif not dry_run:
        click.echo(client.next_step, err=True)


def _program(session: CommandContext, scope: str) -> list[str]:
    """
    How a client starts us: by its full path, for clients have a PATH of their own; but by name alone in a project's
    files, which are for other machines, too.
    """
    database, namespace = session.arguments.get("database"), session.arguments.get("namespace")
    if database and scope == USER:
        database = os.path.abspath(os.path.expanduser(database))
    options = [*(["--db", database] if database else []), *(["--namespace", namespace] if namespace else [])]
    if scope == PROJECT:
        return ["memorist", *options]
    script = Path(sys.argv[0])
    if script.stem != "memorist" or not script.is_file():
        script = Path(sysconfig.get_path("scripts"), "memorist.exe" if os.name == "nt" else "memorist")
    if script.is_file():
        return [str(script.absolute()), *options]
    return [sys.executable, "-m", "memorist", *options]


def _list_clients(places: ConfigPaths, as_json: bool) -> None:
    rows = [_row(client, places) for client in CLIENTS.values()]
    if as_json:
        print_json({"clients": rows})
        return
    for row in rows:
        known = ", ".join(f"{' and '.join(parts)} ({scope})" for scope, parts in row["installed"].items())
        state = row["problem"] or known or ("not installed" if row["detected"] else "not found here")
        click.echo(f"{row['name']:<15} {printable(state)}")
    click.echo("`memorist install CLIENT` sets one up; --dry-run shows what it would change.", err=True)


def _row(client: Client, places: ConfigPaths) -> dict[str, Any]:
    """What there is to know of a client; where its config cannot be read, why."""
    installed, problem = {}, None
    for scope in client.server_files:
        try:
            installed[scope] = config_edits.list_installed(client, scope, places)
        except (ConfigError, OSError) as exc:
            problem = str(exc)
    return {
        "name": client.name,
        "title": client.title,
        "detected": os.path.isdir(places.expand(client.folder)),  # also where one may not look
        "scopes": list(client.server_files),
        "hooks": list(client.hooks.events) if client.hooks else [],
        "installed": {scope: parts for scope, parts in installed.items() if parts},
        "problem": problem,
    }
