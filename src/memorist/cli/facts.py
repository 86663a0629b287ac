"""Facts: what a memory says, piece by piece, and how sure each piece is."""

from typing import Any

import click

from memorist.cli.app import Session
from memorist.cli.options import as_of_option, given, json_option, print_json, say_redacted, style
from memorist.present.render import fact_json, fact_text, printable, record_json
from memorist.records import Fact


@click.group("fact")
def fact_command() -> None:
    """
    Note what a memory says, piece by piece, and how sure each piece is. Confidence fades with time; a fact that is
    reinforced gains some of it again.

    \b
    Example:
        memorist fact add 4f2a91bc "retries are capped at 5" --kind decision
        memorist fact list 4f2a91bc
    """


@fact_command.command("add")
@click.argument("memory_id", metavar="MEMORY")
@click.argument("text")
@click.option("--kind", help="identity, decision, preference ..., or a word of your own: how fast it fades.")
@click.option("--confidence", type=float, help="How sure it is now (0..1; default 1).")
@click.option("--decay-rate", type=float, help="What it loses a day, in place of the rate of its kind.")
@click.option("--subject", help="Who or what it is about.")
@click.option("--predicate", help="What it says of that.")
@click.option("--object", help="And of what else.")
@json_option
@click.pass_obj
def add_command(session: Session, /, memory_id: str, text: str, as_json: bool, **fields: Any) -> None:
    """
    Attach a fact to a memory, which is then found by the words of the fact, too.

    \b
    Example:
        memorist fact add 4f2a91bc "retries are capped at 5" --kind decision --confidence 0.9
    """
    with session.open(embedder="none") as memory:
        _answer(memory.add_fact(memory_id, text, **given(fields)), "Noted", as_json)
    said = {part: fields[part] for part in ("subject", "predicate", "object")}
    say_redacted(session.redaction().report({"text": text} | said))


@fact_command.command("list")
@click.argument("memory_id", metavar="MEMORY")
@as_of_option
@json_option
@click.pass_obj
def list_command(session: Session, /, memory_id: str, as_of: str | None, as_json: bool) -> None:
    """
    List the facts of a memory, each with the confidence it has left.

    \b
    Example:
        memorist fact list 4f2a91bc
    """
    with session.open(embedder="none") as memory:
        found = memory.get(memory_id, as_of=as_of)
    if as_json:
        print_json({"memory_id": found.id, "facts": [fact_json(fact) for fact in found.facts]})
        return
    for fact in found.facts:
        click.echo(_line(fact))
    if not found.facts:
        click.echo("Nothing found.", err=True)


@fact_command.command("reinforce")
@click.argument("fact_id", metavar="FACT")
@click.option("--amount", type=float, help="The share of what is missing to 1 (default 0.1).")
@json_option
@click.pass_obj
def reinforce_command(session: Session, /, fact_id: str, as_json: bool, **wanted: Any) -> None:
    """
    Confirm a fact: what is left of its confidence rises.

    \b
    Example:
        memorist fact reinforce a3a2239b --amount 0.5
    """
    with session.open(embedder="none") as memory:
        _answer(memory.reinforce_fact(fact_id, **given(wanted)), "Reinforced", as_json)


@fact_command.command("remove")
@click.argument("fact_id", metavar="FACT")
@click.pass_obj
def remove_command(session: Session, /, fact_id: str) -> None:
    """
    Take a fact out of its memory, with its history.

    \b
    Example:
        memorist fact remove a3a2239b
    """
    with session.open(embedder="none") as memory:
        removed = memory.remove_fact(fact_id)
    click.echo(f"Removed {removed.id[-8:]}  {printable(removed.text)}")


def _answer(fact: Fact, what: str, as_json: bool) -> None:
    if as_json:
        print_json(record_json(fact))
    else:
        click.echo(f"{what} {_line(fact)}")


def _line(fact: Fact) -> str:
    return f"{style()(fact.id[-8:], fg='cyan')}  {fact_text(fact, style()).removeprefix('- ')}"
