"""Commands on models: the bundled one, and optional ones that can be added."""

import shutil
from pathlib import Path
from typing import Any

import click

from memorist.atomic_file import replace_atomically
from memorist.cli.app import CommandContext
from memorist.cli.groups import CommandGroup
from memorist.cli.options import json_option, print_json
from memorist.embed.onnx_models import OPTIONAL_MODELS, OptionalModel
from memorist.errors import InvalidInput, NotFound
from memorist.present.render import printable
from memorist.validation import choice

_BUNDLED_MODEL = {
    "name": "local",
    "description": "all-MiniLM-L6-v2 in int8: text as vectors",
    "licence": "Apache-2.0",
    "installed": True,
    "path": None,
    "install_hint": None,
}


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
@json_option
@click.pass_obj
def list_command(context: CommandContext, /, as_json: bool) -> None:
    """
    List the models: what each does, and where it is or how to get it.

    \b
    Example:
        memorist models list --json
    """
    models = [_BUNDLED_MODEL, *(_model_json(model, context) for model in OPTIONAL_MODELS.values())]
    if as_json:
        print_json({"models": models})
        return
    for model in models:
        place = model["path"] or ("bundled" if model["installed"] else f"missing: {model['install_hint']}")
        click.echo(f"{model['name']:<10} {model['description']} ({model['licence']})\n{'':<10} {printable(str(place))}")


@models_command.command("add")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def add_command(folder: Path) -> None:
    """
    Copy an optional model from FOLDER to your models. It must be known and complete.

    \b
    Example:
        memorist models add models/reranker/src/memorist_reranker
    """
    model = next((model for model in OPTIONAL_MODELS.values() if model.matches(folder)), None)
    if model is None:
        raise InvalidInput(
            f"{folder} holds none of the optional models ({', '.join(OPTIONAL_MODELS)}), or a damaged one"
        )
    target = model.user_folder()
    target.mkdir(parents=True, exist_ok=True)
    for name in model.checksums:
        with open(folder / name, "rb") as source, replace_atomically(target / name) as copy:
            shutil.copyfileobj(source, copy)
    click.echo(f"Added {model.name}.")


@models_command.command("remove")
@click.argument("name")
def remove_command(name: str) -> None:
    """
    Remove a model that `models add` added.

    \b
    Example:
        memorist models remove reranker
    """
    model = OPTIONAL_MODELS[choice(name, OPTIONAL_MODELS, "model")]
    if not model.user_folder().is_dir():
        installed = model.find()
        hint = f"it is a package: `pip uninstall {model.distribution}`" if installed else "it is not installed"
        raise NotFound(f"{model.name} was not added with `memorist models add`; {hint}")
    shutil.rmtree(model.user_folder())
    click.echo(f"Removed {model.name}.")


def _model_json(model: OptionalModel, context: CommandContext) -> dict[str, Any]:
    path = model.find(context.models)
    return {
        "name": model.name,
        "description": model.description,
        "licence": model.licence,
        "installed": path is not None,
        "path": str(path) if path else None,
        "install_hint": None if path else model.install_hint,
    }
