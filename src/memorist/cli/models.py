"""Models that can be added to the one that comes along."""

import shutil
from pathlib import Path
from typing import Any

import click

from memorist.cli.app import Session
from memorist.cli.options import json_option, print_json
from memorist.embed.further import FURTHER, Further
from memorist.errors import InvalidInput, NotFound
from memorist.inputs import choice
from memorist.present.render import printable

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
def list_models(session: Session, as_json: bool) -> None:
    """
    List them: what each does, and where it is, or how to get it.

    \b
    Example:
        memorist models list --json
    """
    known = [BUNDLED, *(_told(model, session) for model in FURTHER.values())]
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
    model = next((each for each in FURTHER.values() if each.is_in(folder)), None)
    if model is None:
        raise InvalidInput(
            f"{folder} holds none of the models that can be added ({', '.join(FURTHER)}), or one that is damaged"
        )
    target = model.own_place()
    target.mkdir(parents=True, exist_ok=True)
    for name in model.sums:
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
    model = FURTHER[choice(name, FURTHER, "model")]
    if not model.own_place().is_dir():
        place = model.find()
        hint = f"it is installed as a package: `pip uninstall {model.distribution}`" if place else "it is not there"
        raise NotFound(f"{model.name} was not added with `memorist models add`; {hint}")
    shutil.rmtree(model.own_place())
    click.echo(f"Removed {model.name}.")


def _told(model: Further, session: Session) -> dict[str, Any]:
    place = model.find(session.models)
    return {
        "name": model.name,
        "what": model.what,
        "licence": model.licence,
        "installed": place is not None,
        "path": str(place) if place else None,
        "cure": None if place else model.cure,
    }
