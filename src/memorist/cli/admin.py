"""Looking after a memory: numbers, soundness, vectors, settings.

Models that can be added to the one that comes along.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import click

from memorist import config
from memorist.cli.app import CommandContext
from memorist.cli.options import ProgressBar, embedder_option, json_option, print_json
from memorist.embed.optional_models import OPTIONAL_MODELS, OptionalModel
from memorist.errors import InvalidInput, NotFound
from memorist.present.render import count_of, printable, record_json
from memorist.validation import choice


@click.command("stats")
@json_option
@click.pass_obj
def stats_command(session: CommandContext, /, as_json: bool) -> None:
    """
    Show how much there is, and of what.

    \b
    Example:
        memorist stats --json
    """
    with session.open() as memory:
        stats = record_json(memory.stats()) | {"path": session.target}
    if as_json:
        print_json(stats)
        return
    models = stats.pop("models")
    for name, value in stats.items():
        click.echo(f"{name.replace('_', ' '):<14} {'-' if value is None else value}")
    for model, count in models.items():
        click.echo(f"{'':<14} {count} vectors of {model}")


@click.command("check")
@click.option("--repair", is_flag=True, help="Make anew what does not agree with the text.")
@json_option
@click.pass_obj
def check_command(session: CommandContext, /, repair: bool, as_json: bool) -> int:
    """
    Check the database, its indexes and its vectors. The exit code is 1 where something is left broken.

    \b
    Example:
        memorist check --repair
    """
    with session.open(embedder=None if repair else "none") as memory:
        report = memory.check(repair=repair)
    if as_json:
        print_json(record_json(report))
    else:
        for problem in report.problems:
            click.echo(f"{'repaired' if problem in report.repaired else 'broken'}: {problem}")
        for part in report.skipped:
            click.echo(f"skipped: {part}")
        if report.ok:
            click.echo(
                f"All is well: {count_of(report.memories, 'memory', 'memories')}, {count_of(report.vectors, 'vector')}."
            )
        elif not repair:
            click.echo("`memorist check --repair` makes indexes and vectors anew.", err=True)
    return 0 if report.ok else 1


@click.command("reembed")
@embedder_option
@click.option("--prune", is_flag=True, help="Remove the vectors of all other models when it is done.")
@json_option
@click.pass_obj
def reembed_command(session: CommandContext, /, embedder: str | None, prune: bool, as_json: bool) -> None:
    """
    Make missing vectors, or all of them with another model. Stopped at any point, it goes on from there.

    \b
    Example:
        memorist reembed --embedder local:bge-small
    """
    with session.open(embedder=embedder) as memory:
        stats = memory.stats()
        missing = stats.pending + stats.chunks_pending
        with ProgressBar("Embedding", missing) as bar:
            done = memory.reembed(prune=prune, progress=bar)
    if as_json:
        print_json({"embedded": done})
    else:
        click.echo(f"Made {count_of(done, 'vector')}.")


@click.group("config", invoke_without_command=True)
@json_option
@click.pass_context
def config_command(context: click.Context, as_json: bool) -> None:
    """
    Show or change settings.

    \b
    Example:
        memorist config
        memorist config set profile rank
    """
    if context.invoked_subcommand:
        return
    loaded = context.obj.loaded
    values = record_json(loaded.settings)
    values |= {name: "(set)" for name in config.SECRETS if values[name] is not None}
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        click.echo(f"{name:<13} {'-' if value is None else value!s:<24} {loaded.origins.get(name, 'default')}")
    click.echo(f"Your settings: {config.user_file(os.environ)}", err=True)


@config_command.command("set")
@click.argument("name")
@click.argument("value")
@click.option("--project", is_flag=True, help="In memorist.toml of this folder, not in your own settings.")
def set_command(name: str, value: str, project: bool) -> None:
    """
    Change a setting.

    \b
    Example:
        memorist config set embedder ollama:nomic-embed-text
    """
    file = Path.cwd() / config.PROJECT_FILE if project else config.user_file(os.environ)
    if name in config.SECRETS:
        raise click.UsageError(f"a secret on a command line is seen by others: write {name} into {file} by hand")
    config.write(file, name, value, of_project=project)
    click.echo(f"{name} = {value}  ({file})")


BUNDLED = {
    "name": "local",
    "what": "all-MiniLM-L6-v2 in int8: text as vectors",
    "licence": "Apache-2.0",
    "installed": True,
    "path": None,
    "cure": None,
}


@click.group("models")
def models_command() -> None:
    """
    The models on this machine, and those that can be added.

    \b
    Example:
        memorist models list
        memorist models add models/reranker/src/memorist_reranker
    """


@models_command.command("list")
@json_option
@click.pass_obj
def list_models(session: CommandContext, as_json: bool) -> None:
    """
    List them: what each does, and where it is, or how to get it.

    \b
    Example:
        memorist models list --json
    """
    known = [BUNDLED, *(_told(model, session) for model in OPTIONAL_MODELS.values())]
    if as_json:
        print_json({"models": known})
        return
    for model in known:
        place = model["path"] or ("comes along" if model["installed"] else f"missing: {model['cure']}")
        click.echo(f"{model['name']:<10} {model['what']} ({model['licence']})\n{'':<10} {printable(str(place))}")


@models_command.command("add")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def add_model(folder: Path) -> None:
    """
    Copy a model out of FOLDER to where Memorist finds it; only one that it knows, and that is whole.

    \b
    Example:
        memorist models add models/reranker/src/memorist_reranker
    """
    model = next((each for each in OPTIONAL_MODELS.values() if each.matches(folder)), None)
    if model is None:
        raise InvalidInput(
            f"{folder} holds none of the optional models ({', '.join(OPTIONAL_MODELS)}), or one that is damaged"
        )
    target = model.user_folder()
    target.mkdir(parents=True, exist_ok=True)
    for name in model.checksums:
        part = target / f"{name}.part"
        shutil.copyfile(folder / name, part)
        part.replace(target / name)
    click.echo(f"Added {model.name}.")


@models_command.command("remove")
@click.argument("name")
def remove_model(name: str) -> None:
    """
    Take away a model that `models add` put there.

    \b
    Example:
        memorist models remove reranker
    """
    model = OPTIONAL_MODELS[choice(name, OPTIONAL_MODELS, "model")]
    if not model.user_folder().is_dir():
        place = model.find()
        hint = f"it is installed as a package: `pip uninstall {model.distribution}`" if place else "it is not there"
        raise NotFound(f"{model.name} was not added with `memorist models add`; {hint}")
    shutil.rmtree(model.user_folder())
    click.echo(f"Removed {model.name}.")


def _told(model: OptionalModel, session: CommandContext) -> dict[str, Any]:
    place = model.find(session.models)
    return {
        "name": model.name,
        "what": model.description,
        "licence": model.licence,
        "installed": place is not None,
        "path": str(place) if place else None,
        "cure": None if place else model.install_hint,
    }
