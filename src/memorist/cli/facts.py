"""Commands on the facts of a memory."""

from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.groups import CommandGroup
from memorist.cli.options import as_of_option, drop_unset, json_option, print_json, print_redacted, style
from memorist.present.render import fact_json, fact_text, printable, record_json
from memorist.records import Fact


@click.group("fact", cls=CommandGroup)
def fact_command() -> None:
    """
    Note facts about a memory and how certain they are. Confidence fades with time and rises again when a fact is
    reinforced.

    \b
    Example:
        memorist fact add 4f2a91bc "retries are capped at 5" --kind decision
        memorist fact list 4f2a91bc
    """


@fact_command.command("add")
@click.argument("memory_id", metavar="MEMORY")
@click.argument("text")
@click.option("--kind", help="identity, decision, preference ... or a word of your own; it decides how fast it fades.")
@click.option("--confidence", type=float, help="How certain it is now (0..1; default 1).")
@click.option("--decay-rate", type=float, help="The confidence it loses a day, instead of the rate of its kind.")
@click.option("--subject", help="Who or what it is about.")
@click.option("--predicate", help="What it says about the subject.")
@click.option("--object", help="The other thing it involves.")
@json_option
@click.pass_obj
def add_command(context: CommandContext, /, memory_id: str, text: str, as_json: bool, **options: Any) -> None:
    """
    Add a fact to a memory. Search then also finds the memory by the words of the fact.

    \b
    Example:
        memorist fact add 4f2a91bc "retries are capped at 5" --kind decision --confidence 0.9
    """
    with context.open(embedder="none") as memory:
        _print_fact(memory.add_fact(memory_id, text, **drop_unset(options)), "Noted", as_json)
    parts = {name: options[name] for name in ("subject", "predicate", "object")}
    print_redacted(context.redaction().report_secrets({"text": text} | parts))


@fact_command.command("list")
@click.argument("memory_id", metavar="MEMORY")
@as_of_option
@json_option
@click.pass_obj
def list_command(context: CommandContext, /, memory_id: str, as_of: str | None, as_json: bool) -> None:
    """
    List the facts of a memory with their current confidence.

    \b
    Example:
        memorist fact list 4f2a91bc
    """
    with context.open(embedder="none") as memory:
        found = memory.get(memory_id, as_of=as_of)
    if as_json:
        print_json({"memory_id": found.id, "facts": [fact_json(fact) for fact in found.facts]})
        return
    for fact in found.facts:
        click.echo(_fact_line(fact))
    if not found.facts:
        click.echo("Nothing found.", err=True)


@fact_command.command("reinforce")
@click.argument("fact_id", metavar="FACT")
@click.option("--amount", type=float, help="The share of the way to 1 that confidence rises (default 0.1).")
@json_option
@click.pass_obj
def reinforce_command(context: CommandContext, /, fact_id: str, as_json: bool, **options: Any) -> None:
    """
    Confirm a fact, so that its confidence rises.

    \b
    Example:
        memorist fact reinforce a3a2239b --amount 0.5
    """
    with context.open(embedder="none") as memory:
        _print_fact(memory.reinforce_fact(fact_id, **drop_unset(options)), "Reinforced", as_json)


@fact_command.command("remove")
@click.argument("fact_id", metavar="FACT")
@click.pass_obj
def remove_command(context: CommandContext, /, fact_id: str) -> None:
    """
    Remove a fact and its history from its memory.

    \b
    Example:
        memorist fact remove a3a2239b
    """
    with context.open(embedder="none") as memory:
        removed = memory.remove_fact(fact_id)
    click.echo(f"Removed {removed.id[-8:]}  {printable(removed.text)}")


def _print_fact(fact: Fact, verb: str, as_json: bool) -> None:
    if as_json:
        print_json(record_json(fact))
    else:
        click.echo(f"{verb} {_fact_line(fact)}")


def _fact_line(fact: Fact) -> str:
    return f"{style()(fact.id[-8:], fg='cyan')}  {fact_text(fact, style()).removeprefix('- ')}"
