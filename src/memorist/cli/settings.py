"""Commands on settings."""

import json
import os
from pathlib import Path
from typing import Any

import click

from memorist import config
from memorist.cli.app import CommandContext
from memorist.cli.groups import CommandGroup
from memorist.cli.options import json_option, print_json
from memorist.present.render import printable, record_json

_project_option = click.option(
    "--project", is_flag=True, help="In the memorist.toml of this folder, not in your own settings."
)


@click.group("config", cls=CommandGroup, default_command="list")
def config_command() -> None:
    """
    Show or change settings.

    \b
    Example:
        memorist config
        memorist config set profile rank
        memorist config unset profile
    """


@config_command.command("list")
@json_option
@click.pass_obj
def list_command(context: CommandContext, /, as_json: bool) -> None:
    """
    List all settings with their values and where each comes from.

    \b
    Example:
        memorist config list
    """
    values, origins = _visible_values(context), context.loaded.origins
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        click.echo(f"{name:<13} {_format_value(value):<24} {origins.get(name, 'default')}")
    click.echo(f"Your settings: {config.user_file(os.environ)}", err=True)


@config_command.command("get")
@click.argument("name")
@json_option
@click.pass_obj
def get_command(context: CommandContext, /, name: str, as_json: bool) -> None:
    """
    Print the value of a setting.

    \b
    Example:
        memorist config get embedder
    """
    config.check_name(name, "config get")
    value, origin = _visible_values(context)[name], context.loaded.origins.get(name, "default")
    if as_json:
        print_json({"name": name, "value": value, "origin": origin})
    elif value is None:
        click.echo(f"{name} is unset.", err=True)
    else:
        click.echo(_format_value(value))


@config_command.command("set")
@click.argument("name")
@click.argument("value")
@_project_option
def set_command(name: str, value: str, project: bool) -> None:
    """
    Change a setting. A list is written as in JSON.

    \b
    Example:
        memorist config set embedder ollama:nomic-embed-text
        memorist config set trusted '["~/work/shop", "~/team/*"]'
    """
    file = _config_file(project)
    if name in config.SECRETS:
        raise click.UsageError(f"others can see a secret on a command line: write {name} into {file} by hand")
    config.write_setting(file, name, value, in_project=project)
    click.echo(f"{name} = {value}  ({file})")


@config_command.command("unset")
@click.argument("name")
@_project_option
def unset_command(name: str, project: bool) -> None:
    """
    Remove a setting, so that its default counts again.

    \b
    Example:
        memorist config unset embedder
    """
    file = _config_file(project)
    if config.remove_setting(file, name):
        click.echo(f"Unset {name}  ({file})")
    else:
        click.echo(f"Nothing changed: {name} is not set in {file}.", err=True)


def _config_file(project: bool) -> Path:
    return Path.cwd() / config.PROJECT_FILE if project else config.user_file(os.environ)


def _visible_values(context: CommandContext) -> dict[str, Any]:
    """Return all values, but of a secret only that it is set."""
    values = record_json(context.loaded.settings)
    return values | {name: "(set)" for name in config.SECRETS if values[name] is not None}


def _format_value(value: Any) -> str:
    """Return a value as `config set` takes it."""
    if value is None:
        return "(unset)"
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
