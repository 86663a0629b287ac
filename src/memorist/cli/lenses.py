"""Commands on lenses."""

from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.groups import CommandGroup
from memorist.cli.options import drop_unset, filter_options, json_option, print_json
from memorist.errors import InvalidInput
from memorist.present.render import describe_lens, printable, record_json
from memorist.profiles import PROFILES


@click.group("lens", cls=CommandGroup, default_command="list")
def lens_command() -> None:
    """
    Save filters and ranking options under a name. `memorist search --lens NAME` uses them.

    \b
    Example:
        memorist lens set decisions --kind decision --boost tag=adr:1.5
        memorist search "how do we retry?" --lens decisions
    """


@lens_command.command("list")
@json_option
@click.pass_obj
def list_command(context: CommandContext, /, as_json: bool) -> None:
    """
    List the saved lenses.

    \b
    Example:
        memorist lens list
    """
    with context.open(embedder="none") as memory:
        lenses = memory.lenses()
    if as_json:
        print_json({"lenses": [record_json(lens) for lens in lenses]})
        return
    for lens in lenses:
        click.echo(f"{printable(lens.name)}  {' · '.join(describe_lens(lens))}")
    if not lenses:
        click.echo("Nothing found. `memorist lens set` saves a lens.", err=True)


@lens_command.command("show")
@click.argument("name")
@json_option
@click.pass_obj
def show_command(context: CommandContext, /, name: str, as_json: bool) -> None:
    """
    Show the filters and options of a lens.

    \b
    Example:
        memorist lens show decisions
    """
    with context.open(embedder="none") as memory:
        lens = memory.lens(name)
    if as_json:
        print_json(record_json(lens))
        return
    for line in [printable(lens.name), *(f"  {part}" for part in describe_lens(lens))]:
        click.echo(line)


@lens_command.command("set")
@click.argument("name")
@filter_options
@click.option("--profile", help=f"How to rank: {', '.join(PROFILES)}.")
@click.option("--boost", "boosts", multiple=True, metavar="FIELD=VALUE:FACTOR",
              help="Multiply the score of a sector, kind, tag or source, as in tag=decision:1.5.")  # fmt: skip
@click.option("--recency", metavar="FORM:NUMBER",
              help="How age counts: multiply:WEIGHT, add:RATE, tiers or none, as in multiply:0.3.")  # fmt: skip
@json_option
@click.pass_obj
def set_command(
    context: CommandContext, /, name: str, boosts: tuple[str, ...], recency: str | None, as_json: bool, **options: Any
) -> None:
    """
    Save a lens, replacing one of the same name.

    \b
    Example:
        memorist lens set decisions --kind decision --since "last year" --boost tag=adr:1.5 --recency multiply:0.3
    """
    recency_options = None if recency is None else _parse_recency(recency)
    with context.open(create=True, embedder="none") as memory:
        lens = memory.set_lens(name, boosts=_parse_boosts(boosts), recency=recency_options, **drop_unset(options))
    if as_json:
        print_json(record_json(lens))
    else:
        click.echo(f"Set {printable(lens.name)}  {' · '.join(describe_lens(lens))}")


@lens_command.command("remove")
@click.argument("name")
@click.pass_obj
def remove_command(context: CommandContext, /, name: str) -> None:
    """
    Remove a lens. Memories are not touched.

    \b
    Example:
        memorist lens remove decisions
    """
    with context.open(embedder="none") as memory:
        memory.remove_lens(name)
    click.echo(f"Removed {printable(name)}")


def _parse_boosts(texts: tuple[str, ...]) -> dict[str, dict[str, float]]:
    boosts: dict[str, dict[str, float]] = {}
    for text in texts:
        field, _, rest = text.partition("=")
        value, _, factor = rest.rpartition(":")
        if not (field and value):
            raise InvalidInput(f"--boost {text!r} cannot be read; write FIELD=VALUE:FACTOR, as in tag=decision:1.5")
        boosts.setdefault(field, {})[value] = _parse_number(factor, "--boost", text)
    return boosts


def _parse_recency(text: str) -> dict[str, Any]:
    """Return the form with its number: the rate a day of `add`, or the weight of `multiply`."""
    form, colon, number = text.partition(":")
    if not colon:
        return {"form": form}
    return {"form": form, "rate" if form == "add" else "weight": _parse_number(number, "--recency", text)}


def _parse_number(text: str, option: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{option} {whole!r} must end in a number, not {text!r}") from None
