"""Lenses: ways of looking, by name."""

from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import filters, given, json_option, print_json
from memorist.errors import InvalidInput
from memorist.present.render import describe_lens, printable, record_json
from memorist.profiles import PROFILES


@click.group("lens")
def lens_command() -> None:
    """
    Name ways of looking: filters, a profile, and what counts for more. `memorist search --lens NAME` uses one.

    \b
    Example:
        memorist lens set decisions --kind decision --boost tag=adr:1.5
        memorist search "how do we retry?" --lens decisions
    """


@lens_command.command("list")
@json_option
@click.pass_obj
def list_command(session: CommandContext, /, as_json: bool) -> None:
    """
    List the lenses that were set.

    \b
    Example:
        memorist lens list
    """
    with session.open(embedder="none") as memory:
        lenses = memory.lenses()
    if as_json:
        print_json({"lenses": [record_json(lens) for lens in lenses]})
        return
    for lens in lenses:
        click.echo(f"{printable(lens.name)}  {' · '.join(describe_lens(lens))}")
    if not lenses:
        click.echo("Nothing found. `memorist lens set` makes one.", err=True)


@lens_command.command("show")
@click.argument("name")
@json_option
@click.pass_obj
def show_command(session: CommandContext, /, name: str, as_json: bool) -> None:
    """
    Show what a lens does.

    \b
    Example:
        memorist lens show decisions
    """
    with session.open(embedder="none") as memory:
        lens = memory.lens(name)
    if as_json:
        print_json(record_json(lens))
        return
    for line in [printable(lens.name), *(f"  {part}" for part in describe_lens(lens))]:
        click.echo(line)


@lens_command.command("set")
@click.argument("name")
@filters
@click.option("--profile", help=f"How to rank: {', '.join(PROFILES)}.")
@click.option("--boost", "boosts", multiple=True, metavar="FIELD=VALUE:FACTOR",
              help="Let a sector, kind, tag or source count for more, as in tag=decision:1.5.")  # fmt: skip
@click.option("--recency", metavar="FORM:NUMBER",
              help="How age counts: multiply:WEIGHT, add:RATE, tiers or none, as in multiply:0.3.")  # fmt: skip
@json_option
@click.pass_obj
def set_command(
    session: CommandContext, /, name: str, boosts: tuple[str, ...], recency: str | None, as_json: bool, **wanted: Any
) -> None:
    """
    Make a lens, or change what one does altogether.

    \b
    Example:
        memorist lens set decisions --kind decision --since "last year" --boost tag=adr:1.5 --recency multiply:0.3
    """
    looking = {"boosts": _boosts(boosts), "recency": None if recency is None else _recency(recency)}
    with session.open(create=True, embedder="none") as memory:
        lens = memory.set_lens(name, **looking, **given(wanted))
    if as_json:
        print_json(record_json(lens))
    else:
        click.echo(f"Set {printable(lens.name)}  {' · '.join(describe_lens(lens))}")


@lens_command.command("remove")
@click.argument("name")
@click.pass_obj
def remove_command(session: CommandContext, /, name: str) -> None:
    """
    Remove a lens. Memories stay as they are.

    \b
    Example:
        memorist lens remove decisions
    """
    with session.open(embedder="none") as memory:
        memory.remove_lens(name)
    click.echo(f"Removed {printable(name)}")


def _boosts(given: tuple[str, ...]) -> dict[str, dict[str, float]]:
    boosts: dict[str, dict[str, float]] = {}
    for text in given:
        field, _, rest = text.partition("=")
        value, _, factor = rest.rpartition(":")
        if not (field and value):
            raise InvalidInput(f"--boost {text!r} cannot be read; write FIELD=VALUE:FACTOR, as in tag=decision:1.5")
        boosts.setdefault(field, {})[value] = _number(factor, "--boost", text)
    return boosts


def _recency(text: str) -> dict[str, Any]:
    """The form, with the number it needs: what `add` loses a day, or the weight of `multiply`."""
    form, colon, number = text.partition(":")
    if not colon:
        return {"form": form}
    return {"form": form, "rate" if form == "add" else "weight": _number(number, "--recency", text)}


def _number(text: str, option: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{option} {whole!r} must end in a number, not {text!r}") from None
