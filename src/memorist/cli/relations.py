"""Commands that say something about memories: link them, note facts, and change how much they count."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from memorist.arguments import FactFields
from memorist.cli.app import CommandContext, CommandGroup
from memorist.cli.options import (
    answer_options,
    as_of_option,
    declared_options,
    drop_unset,
    memory_lines,
    print_answer,
    print_json,
    print_redacted,
    session_option,
    style,
)
from memorist.engine.facts import Facts
from memorist.engine.links import Links
from memorist.ids import shorten_id
from memorist.present.render import fact_json, fact_text, memory_json, memory_line, printable, record_json
from memorist.records import Fact, Memory

_MAX_PINNED = 1000  # that are listed


@click.command("supersede")
@click.argument("old")
@click.argument("new", required=False)
@click.option("--at", metavar="TIME", help="Since when (default: now, or the time of a NEW that was dated back).")
@click.option("--undo", is_flag=True, help="Make OLD current again.")
@answer_options
def supersede_command(
    context: CommandContext, /, old: str, new: str | None, at: str | None, undo: bool, as_json: bool
) -> None:
    """
    Mark a memory as replaced by another. From then on, search leaves OLD out.

    \b
    Example:
        memorist supersede 4f2a91bc 9c03d7e5
        memorist supersede --undo 4f2a91bc
    """
    if undo and (new is not None or at is not None):
        raise click.UsageError("--undo takes only OLD, the memory to make current again")
    if not undo and new is None:
        raise click.UsageError("give the memory that replaces it: supersede OLD NEW")
    with context.open(embedder="none") as memory:
        changed = memory.unsupersede(old) if new is None else memory.supersede(old, new, at=at)
    line = f"{'Current again:' if undo else 'Superseded'} {memory_line(changed, style())}"
    print_answer(as_json, memory_json(changed), line)


@click.command("relate")
@click.argument("a")
@click.argument("b")
@click.argument("kind")
@declared_options(Links.add, only=["confidence", "said_by"])
@click.option("--undo", is_flag=True, help="Remove the link.")
@answer_options
def relate_command(
    context: CommandContext, /, a: str, b: str, kind: str, undo: bool, as_json: bool, **options: Any
) -> None:
    """
    Link two memories with a word of your own. It reads as a sentence: A KIND B.

    \b
    Example:
        memorist relate 4f2a91bc 9c03d7e5 explains --confidence 0.8
        memorist relate --undo 4f2a91bc 9c03d7e5 explains
    """
    options = drop_unset(options)
    if undo and options:
        raise click.UsageError("--undo removes the link whoever made it; leave out --confidence and --said-by")
    with context.open(embedder="none") as memory:
        if undo:
            memory.links.remove(a, b, kind)
            line, answer = f"Removed: {a} {kind} {b}", {"undone": {"source": a, "target": b, "kind": kind}}
        else:
            relation = memory.links.add(a, b, kind, **options)
            line = f"Linked: {shorten_id(relation.source)} {relation.kind} {shorten_id(relation.target)}"
            answer = record_json(relation)
    print_answer(as_json, answer, printable(line))


@click.command("reinforce")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--amount",
    type=float,
    help="The share of the way to 1 that salience rises (default 0.1); with --less, the share it loses (0.2).",
)
@click.option("--less", is_flag=True, help="Make them count for less instead.")
@session_option
@answer_options
def reinforce_command(
    context: CommandContext, /, ids: tuple[str, ...], less: bool, as_json: bool, **options: Any
) -> None:
    """
    Make memories count for more, or for less. Salience rises, and so does the confidence of their facts; with --less,
    salience falls.

    \b
    Example:
        memorist reinforce 4f2a91bc
        memorist reinforce --less 9c03d7e5 --amount 0.5
    """
    if less and options["session"] is not None:
        raise click.UsageError("--session records what was reinforced; leave it out with --less")
    with context.open(embedder="none") as memory:
        change = memory.deemphasize if less else memory.reinforce
        template = f"{'Deemphasized' if less else 'Reinforced'} {{line}}  salience {{salience:.2f}}"
        _change_all(ids, lambda id: change(id, **drop_unset(options)), lambda _: template, as_json)


@click.command("pin")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--remove", is_flag=True, help="Unpin them.")
@answer_options
def pin_command(context: CommandContext, /, ids: tuple[str, ...], remove: bool, as_json: bool) -> None:
    """
    Pin memories that belong in every context, or list them. Pin only a few.

    \b
    Example:
        memorist pin 4f2a91bc
        memorist pin
        memorist pin --remove 4f2a91bc
    """
    if remove and not ids:
        raise click.UsageError("give the ids to unpin; `memorist pin` lists them")
    with context.open(embedder="none") as memory:
        if ids:
            change = memory.unpin if remove else memory.pin
            done, was_so = ("Unpinned", "Was not pinned:") if remove else ("Pinned", "Already pinned:")
            _change_all(
                ids, change, lambda id: f"{done if memory.get(id).pinned == remove else was_so} {{line}}", as_json
            )
            return
        pinned = memory.list(pinned=True, limit=_MAX_PINNED)
    answer = {"memories": [memory_json(found) for found in pinned]}
    print_answer(as_json, answer, memory_lines(pinned), "Nothing is pinned.")


def _change_all(
    ids: Sequence[str], change: Callable[[str], Memory], find_template: Callable[[str], str], as_json: bool
) -> None:
    """Change memories one by one, and print each as soon as it is done, by a template chosen before the change."""
    changed = []
    for id in ids:
        template = find_template(id)
        changed.append(memory := change(id))
        if not as_json:
            click.echo(template.format(line=memory_line(memory, style()), salience=memory.salience))
    if as_json:
        print_json({"memories": [memory_json(memory) for memory in changed]})


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
@declared_options(FactFields)
@answer_options
def _add_fact(context: CommandContext, /, memory_id: str, text: str, as_json: bool, **options: Any) -> None:
    """
    Add a fact to a memory. Search then also finds the memory by the words of the fact.

    \b
    Example:
        memorist fact add 4f2a91bc "retries are capped at 5" --kind decision --confidence 0.9
    """
    with context.open(embedder="none") as memory:
        _print_fact(memory.facts.add(memory_id, text, **drop_unset(options)), "Noted", as_json)
    parts = {name: options[name] for name in ("subject", "predicate", "object")}
    print_redacted(context.redaction(by_model=True).report_secrets({"text": text} | parts))


@fact_command.command("list")
@click.argument("memory_id", metavar="MEMORY")
@as_of_option
@answer_options
def _list_facts(context: CommandContext, /, memory_id: str, as_of: str | None, as_json: bool) -> None:
    """
    List the facts of a memory with their current confidence.

    \b
    Example:
        memorist fact list 4f2a91bc
    """
    with context.open(embedder="none") as memory:
        found = memory.get(memory_id, as_of=as_of)
    answer = {"memory_id": found.id, "facts": [fact_json(fact) for fact in found.facts]}
    print_answer(as_json, answer, map(_fact_line, found.facts))


@fact_command.command("reinforce")
@click.argument("fact_id", metavar="FACT")
@declared_options(Facts.reinforce)
@answer_options
def _reinforce_fact(context: CommandContext, /, fact_id: str, as_json: bool, **options: Any) -> None:
    """
    Confirm a fact, so that its confidence rises.

    \b
    Example:
        memorist fact reinforce a3a2239b --amount 0.5
    """
    with context.open(embedder="none") as memory:
        _print_fact(memory.facts.reinforce(fact_id, **drop_unset(options)), "Reinforced", as_json)


@fact_command.command("remove")
@click.argument("fact_id", metavar="FACT")
@click.pass_obj
def _remove_fact(context: CommandContext, /, fact_id: str) -> None:
    """
    Remove a fact and its history from its memory.

    \b
    Example:
        memorist fact remove a3a2239b
    """
    with context.open(embedder="none") as memory:
        removed = memory.facts.remove(fact_id)
    click.echo(f"Removed {removed.id[-8:]}  {printable(removed.text)}")


def _print_fact(fact: Fact, verb: str, as_json: bool) -> None:
    print_answer(as_json, record_json(fact), f"{verb} {_fact_line(fact)}")


def _fact_line(fact: Fact) -> str:
    return f"{style()(fact.id[-8:], fg='cyan')}  {fact_text(fact, style()).removeprefix('- ')}"
