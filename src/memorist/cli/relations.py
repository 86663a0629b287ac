"""What is said about memories: which replaced which, what they have to do with each other, how much they count.

Facts: what a memory says, piece by piece, and how sure each piece is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import (
    as_of_option,
    given,
    json_option,
    print_json,
    print_memories,
    say_redacted,
    session_option,
    style,
)
from memorist.present.render import fact_json, fact_text, memory_json, memory_line, printable, record_json
from memorist.records import Fact, Memory

MOST_PINNED = 1000  # that are listed


@click.command("supersede")
@click.argument("old")
@click.argument("new", required=False)
@click.option("--at", metavar="TIME", help="Since when (default: now, or the time of a NEW that was dated back).")
@click.option("--undo", is_flag=True, help="Let OLD hold again.")
@json_option
@click.pass_obj
def supersede_command(
    session: CommandContext, /, old: str, new: str | None, at: str | None, undo: bool, as_json: bool
) -> None:
    """
    Say that memory NEW replaces memory OLD, which from then on is left out of search.

    \b
    Example:
        memorist supersede 4f2a91bc 9c03d7e5
        memorist supersede --undo 4f2a91bc
    """
    if undo and (new is not None or at is not None):
        raise click.UsageError("--undo takes the one memory that is to hold again")
    if not undo and new is None:
        raise click.UsageError("say which memory replaces it: supersede OLD NEW")
    with session.open(embedder="none") as memory:
        changed = memory.unsupersede(old) if undo else memory.supersede(old, new, at=at)
    if as_json:
        print_json(memory_json(changed))
    else:
        click.echo(f"{'Holds again:' if undo else 'Superseded'} {memory_line(changed, style())}")


@click.command("relate")
@click.argument("a")
@click.argument("b")
@click.argument("kind")
@click.option("--confidence", type=float, help="How sure that is (0..1; default 1).")
@click.option("--said-by", metavar="WHO", help="Who says so.")
@click.option("--undo", is_flag=True, help="Take it back.")
@json_option
@click.pass_obj
def relate_command(
    session: CommandContext, /, a: str, b: str, kind: str, undo: bool, as_json: bool, **said: Any
) -> None:
    """
    Say what memory A has to do with memory B, in a word of your own: A KIND B.

    \b
    Example:
        memorist relate 4f2a91bc 9c03d7e5 explains --confidence 0.8
        memorist relate --undo 4f2a91bc 9c03d7e5 explains
    """
    if undo and given(said):
        raise click.UsageError("--undo takes back what was said, whoever said it and however sure")
    with session.open(embedder="none") as memory:
        if undo:
            memory.unrelate(a, b, kind)
            line, answer = f"Took back: {a} {kind} {b}", {"undone": {"source": a, "target": b, "kind": kind}}
        else:
            relation = memory.relate(a, b, kind, **given(said))
            line = f"Noted: {relation.source[-8:]} {relation.kind} {relation.target[-8:]}"
            answer = record_json(relation)
    if as_json:
        print_json(answer)
    else:
        click.echo(printable(line))


@click.command("reinforce")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--amount", type=float, help="The share of what is missing to 1 (default 0.1); with --less, of what is there (0.2)."
)
@click.option("--less", is_flag=True, help="Let them count for less instead.")
@session_option
@json_option
@click.pass_obj
def reinforce_command(
    session: CommandContext, /, ids: tuple[str, ...], less: bool, as_json: bool, **wanted: Any
) -> None:
    """
    Confirm memories: their salience rises, and the confidence of their facts. With --less, salience falls.

    \b
    Example:
        memorist reinforce 4f2a91bc
        memorist reinforce --less 9c03d7e5 --amount 0.5
    """
    if less and wanted["session"] is not None:
        raise click.UsageError("a session notes what it reinforced; leave --session out with --less")
    with session.open(embedder="none") as memory:
        change = memory.deemphasize if less else memory.reinforce
        told = f"{'Deemphasized' if less else 'Reinforced'} {{line}}  salience {{salience:.2f}}"
        _each(ids, lambda id: change(id, **given(wanted)), told, as_json)


@click.command("pin")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--remove", is_flag=True, help="Unpin them.")
@json_option
@click.pass_obj
def pin_command(session: CommandContext, /, ids: tuple[str, ...], remove: bool, as_json: bool) -> None:
    """
    Pin the few memories that always belong in context. Without an ID, list them.

    \b
    Example:
        memorist pin 4f2a91bc
        memorist pin
        memorist pin --remove 4f2a91bc
    """
    if remove and not ids:
        raise click.UsageError("say which ones to unpin; `memorist pin` lists them")
    with session.open(embedder="none") as memory:
        if ids:
            _each(
                ids, memory.unpin if remove else memory.pin, f"{'Unpinned' if remove else 'Pinned'} {{line}}", as_json
            )
            return
        pinned = memory.list(pinned=True, limit=MOST_PINNED)
    if as_json:
        print_json({"memories": [memory_json(one) for one in pinned]})
        return
    print_memories(pinned, "Nothing is pinned.")


def _each(ids: Sequence[str], change: Callable[[str], Memory], told: str, as_json: bool) -> None:
    """Change memories one by one, and tell of each when it is done."""
    changed = []
    for id in ids:
        changed.append(one := change(id))
        if not as_json:
            click.echo(told.format(line=memory_line(one, style()), salience=one.salience))
    if as_json:
        print_json({"memories": [memory_json(one) for one in changed]})


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
def add_command(session: CommandContext, /, memory_id: str, text: str, as_json: bool, **fields: Any) -> None:
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
def list_command(session: CommandContext, /, memory_id: str, as_of: str | None, as_json: bool) -> None:
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
def reinforce_fact_command(session: CommandContext, /, fact_id: str, as_json: bool, **wanted: Any) -> None:
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
def remove_command(session: CommandContext, /, fact_id: str) -> None:
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
