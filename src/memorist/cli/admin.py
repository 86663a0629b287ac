"""Commands that look after the database, the models and the settings."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memorist import config
from memorist.cli.app import CommandContext, CommandGroup
from memorist.cli.options import ProgressBar, answer_options, embedder_option, must_confirm, print_answer
from memorist.errors import InvalidInput, NotFound
from memorist.present.render import count_of, printable, printable_line, record_json
from memorist.validation import choice

if TYPE_CHECKING:
    from memorist.embed.onnx_models import OptionalModel

_BUNDLED_MODEL = {
    "name": "local",
    "description": "memorist-embed-v1 in int8: text as vectors, trained to find memories",
    "licence": "Apache-2.0",
    "installed": True,
    "path": None,
    "install_hint": None,
}
_NAME_WIDTH = max(map(len, config.TYPES))  # of a setting in a list
_project_option = click.option(
    "--project", is_flag=True, help="In the memorist.toml of this folder, not in your own settings."
)


@click.command("stats")
@answer_options
def stats_command(context: CommandContext, /, as_json: bool) -> None:
    """
    Show how much is stored.

    \b
    Example:
        memorist stats --json
    """
    with context.open() as memory:
        stats = record_json(memory.stats()) | {"path": config.conceal_password(context.target)}
    lines = [
        f"{name.replace('_', ' '):<14} {'-' if value is None else value}"
        for name, value in stats.items()
        if name != "models"
    ]
    lines += [f"{'':<14} {count} vectors of {model}" for model, count in stats["models"].items()]
    print_answer(as_json, stats, lines)


@click.command("check")
@click.option("--repair", is_flag=True, help="Rebuild what does not agree with the text.")
@answer_options
def check_command(context: CommandContext, /, repair: bool, as_json: bool) -> int:
    """
    Check the database, its indexes and its vectors. The exit code is 1 if anything is left broken.

    \b
    Example:
        memorist check --repair
    """
    with context.open(embedder=None if repair else "none") as memory:
        report = memory.check(repair=repair)
    left = [one for one in report.problems if one not in report.repaired]
    lines = [f"{'broken' if one in left else 'repaired'}: {printable(one)}" for one in report.problems]
    lines += [f"skipped: {printable(part)}" for part in report.skipped]
    if report.ok:
        counts = f"{count_of(report.memories, 'memory', 'memories')}, {count_of(report.vectors, 'vector')}"
        lines.append(f"All is well: {counts}.")
    print_answer(as_json, record_json(report), lines)
    if not (report.ok or as_json):
        _advise(left, repair, config.conceal_password(context.target))
    return 0 if report.ok else 1


def _advise(left: Sequence[str], repair: bool, target: str) -> None:
    """Say what helps against the problems that are left."""
    if not repair:
        click.echo("`memorist check --repair` rebuilds indexes and vectors.", err=True)
        return
    if any(problem.startswith("text:") for problem in left):
        click.echo(
            "A damaged text cannot be repaired: restore a backup (`memorist backup restore`), or write it anew "
            "(`memorist update`).",
            err=True,
        )
    if any(not problem.startswith("text:") for problem in left):
        click.echo(
            "What is left cannot be repaired: restore a backup (`memorist backup restore`), or copy all that can be "
            f"read to a new file (`memorist salvage {printable(target)} NEW`).",
            err=True,
        )


@click.command("reembed")
@embedder_option
@click.option("--prune", is_flag=True, help="Then remove the vectors of all other models.")
@answer_options
def reembed_command(context: CommandContext, /, embedder: str | None, prune: bool, as_json: bool) -> None:
    """
    Compute missing vectors, or all of them with another model. If it is stopped, the next run continues from there.

    \b
    Example:
        memorist reembed --embedder ollama:nomic-embed-text
    """
    with context.open(embedder=embedder) as memory:
        stats = memory.stats()
        with ProgressBar("Embedding", stats.pending + stats.chunks_pending) as bar:
            done = memory.reembed(prune=prune, progress=bar)
    print_answer(as_json, {"embedded": done}, f"Computed {count_of(done, 'vector')}.")


# Models


@click.group("models", cls=CommandGroup, default_command="list")
def models_command() -> None:
    """
    List, add and remove models.

    \b
    Example:
        memorist models list
        memorist models add models/reranker/src/memorist_reranker
    """


@models_command.command("list")
@answer_options
def _list_models(context: CommandContext, /, as_json: bool) -> None:
    """
    List the models: what each does, and where it is or how to get it.

    \b
    Example:
        memorist models list --json
    """
    from memorist.embed.onnx_models import OPTIONAL_MODELS

    models = [_BUNDLED_MODEL, *(_model_json(model, context) for model in OPTIONAL_MODELS.values())]
    lines = []
    for model in models:
        place = model["path"] or ("bundled" if model["installed"] else f"missing: {model['install_hint']}")
        lines.append(f"{model['name']:<10} {model['description']} ({model['licence']})")
        lines.append(f"{'':<10} {printable(str(place))}")
    print_answer(as_json, {"models": models}, lines)


@models_command.command("add")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def _add_model(folder: Path) -> None:
    """
    Copy an optional model from FOLDER to your models. It must be known and complete.

    \b
    Example:
        memorist models add models/reranker/src/memorist_reranker
    """
    import shutil

    from memorist.atomic_file import make_folder, replace_atomically
    from memorist.embed.onnx_models import OPTIONAL_MODELS

    model = next((model for model in OPTIONAL_MODELS.values() if model.matches(folder)), None)
    if model is None:
        raise InvalidInput(
            f"{folder} holds none of the optional models ({', '.join(OPTIONAL_MODELS)}), or a damaged one"
        )
    target = model.user_folder()
    make_folder(target, private=True)  # it may be the first in the folder that memories go to
    for name in model.checksums:
        with open(folder / name, "rb") as source, replace_atomically(target / name) as copy:
            shutil.copyfileobj(source, copy)
    click.echo(f"Added {model.name}.")


@models_command.command("remove")
@click.argument("name")
def _remove_model(name: str) -> None:
    """
    Remove a model that `models add` added.

    \b
    Example:
        memorist models remove reranker
    """
    import shutil

    from memorist.embed.onnx_models import OPTIONAL_MODELS

    model = OPTIONAL_MODELS[choice(name, OPTIONAL_MODELS, "model")]
    if not model.user_folder().is_dir():
        installed = model.find()
        hint = f"it is a package: `pip uninstall {model.distribution}`" if installed else "it is not installed"
        raise NotFound(f"{model.name} was not added with `memorist models add`; {hint}")
    shutil.rmtree(model.user_folder())
    click.echo(f"Removed {model.name}.")


def _model_json(model: "OptionalModel", context: CommandContext) -> dict[str, Any]:
    path = model.find(context.models)
    return {
        "name": model.name,
        "description": model.description,
        "licence": model.licence,
        "installed": path is not None,
        "path": str(path) if path else None,
        "install_hint": None if path else model.install_hint,
    }


# Settings


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
@answer_options
def _list_settings(context: CommandContext, /, as_json: bool) -> None:
    """
    List all settings with their values and where each comes from.

    \b
    Example:
        memorist config list
    """
    values, origins = _visible_values(context), context.loaded.origins
    shown = {name: _format_value(value) for name, value in values.items()}
    width = max(map(len, shown.values()))
    lines = (
        f"{name:<{_NAME_WIDTH}} {value:<{width}}  {printable_line(origins.get(name, 'default'))}"
        for name, value in shown.items()
    )
    print_answer(as_json, values, lines)
    if not as_json:
        click.echo(f"Your settings: {printable_line(str(config.user_file(os.environ)))}", err=True)


@config_command.command("get")
@click.argument("name")
@answer_options
def _get_setting(context: CommandContext, /, name: str, as_json: bool) -> None:
    """
    Print the value of a setting.

    \b
    Example:
        memorist config get embedder
    """
    config.check_name(name, "config get")
    value, origin = _visible_values(context)[name], context.loaded.origins.get(name, "default")
    lines = [] if value is None else [_format_value(value)]
    print_answer(as_json, {"name": name, "value": value, "origin": origin}, lines, f"{name} is unset.")


@config_command.command("set")
@click.argument("name")
@click.argument("value")
@_project_option
def _set_setting(name: str, value: str, project: bool) -> None:
    """
    Change a setting. A list is written as in JSON.

    \b
    Example:
        memorist config set embedder ollama:nomic-embed-text
        memorist config set trusted '["~/work/shop", "~/team/*"]'
    """
    file = _config_file(project)
    if config.conceal_password(value) != value:
        raise click.UsageError("others can see a password on a command line: use PGPASSWORD, or a file ~/.pgpass")
    if name in config.SECRETS:
        raise click.UsageError(f"others can see a secret on a command line: write {name} into {file} by hand")
    config.write_setting(file, name, value, in_project=project)
    click.echo(printable(f"{name} = {value}  ({file})"))


@config_command.command("unset")
@click.argument("name")
@_project_option
def _unset_setting(name: str, project: bool) -> None:
    """
    Remove a setting, so that its default counts again.

    \b
    Example:
        memorist config unset embedder
    """
    file = _config_file(project)
    if config.remove_setting(file, name):
        click.echo(printable(f"Unset {name}  ({file})"))
    else:
        click.echo(printable(f"Nothing changed: {name} is not set in {file}."), err=True)


def _config_file(project: bool) -> Path:
    return Path.cwd() / config.PROJECT_FILE if project else config.user_file(os.environ)


def _visible_values(context: CommandContext) -> dict[str, Any]:
    """Return all values, but of a secret only that it is set."""
    values = record_json(context.loaded.settings)
    values |= {name: "(set)" for name in config.SECRETS if values[name] is not None}
    return values | ({"database": config.conceal_password(values["database"])} if values["database"] else {})


def _format_value(value: Any) -> str:
    """Return a value as `config set` takes it."""
    if value is None:
        return "(unset)"
    return printable_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


@click.command("trust")
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@click.option("--revoke", is_flag=True, help="Trust the file no longer.")
@click.option("--list", "list_files", is_flag=True, help="List the files that are trusted.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print JSON.")
def trust_command(folder: Path, revoke: bool, list_files: bool, yes: bool, as_json: bool) -> None:
    """
    Let agents use the settings of a project.

    Hooks and the MCP server ignore a memorist.toml that you have not approved, because it came with the folder. It is
    approved as it is now: after a change, run this again.

    \b
    Example:
        memorist trust
        memorist trust ~/work/shop --yes
        memorist trust --list
    """
    if as_json and not list_files:
        raise click.UsageError("--json needs --list")
    if list_files:
        paths = [str(path) for path in config.list_trusted_files()]
        print_answer(as_json, {"trusted": paths}, map(printable, paths), "Nothing is trusted.")
        return
    file = config.find_project_file(folder.absolute())
    if file is None:
        raise NotFound(f"there is no {config.PROJECT_FILE} in {folder.absolute()} or in a folder above it")
    shown = printable(str(file))
    if revoke:
        if config.trusted_files().remove(file):
            click.echo(f"{shown} is no longer trusted.")
        else:
            click.echo(f"Nothing changed: {shown} was not trusted.", err=True)
        return
    content = config.read_project_file(file)
    for name, value in config.parse_project_settings(file, content).items():
        click.echo(f"{name:<{_NAME_WIDTH}} {_format_value(value)}")
    if must_confirm(yes, f"{file} decides where your agents read and write"):
        click.confirm(f"Shall agents use these settings of {shown}?", abort=True)
    config.trust(file, content)
    click.echo(f"Trusted {shown} as it is now.")


# Databases on a server


@click.group("admin", cls=CommandGroup)
def admin_command() -> None:
    """
    Administer a database on a server.

    \b
    Example:
        MEMORIST_DB=postgresql://postgres@db.example.com/memorist memorist admin distribute
    """


@admin_command.command("distribute")
@answer_options
def _distribute(context: CommandContext, /, as_json: bool) -> None:
    """
    Have Citus distribute an empty PostgreSQL database over its servers, so that each namespace is on one of them. The
    user must be a superuser. Run it again after an upgrade of Memorist that brings new tables.

    \b
    Example:
        MEMORIST_DB=postgresql://postgres@db.example.com/memorist memorist admin distribute
    """
    from memorist.engine import distribute

    report = distribute(context.target, busy_timeout=context.loaded.settings.busy_timeout)
    done = f"{report.version} now distributes {count_of(len(report.distributed), 'table')} by namespace."
    print_answer(as_json, record_json(report), done if report.distributed else "All tables are distributed already.")
