"""Finding memories.

What an agent should know before it answers.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import detail_option, filters, given, json_option, print_json, style, switch, text_from
from memorist.documents import DocumentHit
from memorist.present.render import document_hit_text, hit_text, printable, results_json
from memorist.profiles import PROFILES
from memorist.records import FACETS, FUSIONS, GRAMMARS, RECORD_MODES, Results

MOST_VALUES = 10  # of one field, in the table of facets

# What is said of memories that a part of the filter, or a threshold, held back.
REASONS: Mapping[str, str] = {
    "superseded": "superseded (--include-superseded shows {them})",
    "project": "in another project",
    "sector": "of another sector",
    "tier": "of another tier",
    "kind": "of another kind",
    "source": "from another source",
    "tags": "without all the tags",
    "since": "older (--since)",
    "until": "newer (--until)",
    "session": "not of that session",
    "fact_kind": "without a fact of that kind",
    "month": "from another month",
    "pinned": "not pinned",
    "recalled": "recalled before",
    "as_of": "from after that time (--as-of)",
}


@click.command("search")
@click.argument("query")
@click.option("--limit", "-n", type=int, help="How many (1..1000; default 10).")
@click.option("--mode", default="hybrid", show_default=True, help="hybrid, keyword or semantic.")
@click.option("--profile", help=f"How to rank: {', '.join(PROFILES)}.")
@click.option("--lens", metavar="NAME", help="Look through a lens that `memorist lens set` made.")
@click.option("--grammar", help=f"How to read the query: {', '.join(GRAMMARS)}.")
@click.option("--fusion", help=f"How to join words and meaning: {', '.join(FUSIONS)}.")
@click.option("--alpha", type=float, help="Share of meaning against words (0..1).")
@click.option(
    "--rerank",
    callback=lambda context, option, given: int(given) if given and given.isdecimal() else given,
    help="Let a model read the best a second time: off, auto, or how many.",
)
@click.option("--confidence-mode", help="What the confidence of facts does to a score: off, blend or multiply.")
@click.option("--min-relevance", type=float, help="Nothing less relevant than this (0..1).")
@click.option("--min-similarity", type=float, help="Nothing by meaning alone that is farther away (0..1).")
@click.option("--min-confidence", type=float, help="Nothing less certain than this (0..1).")
@click.option("--min-score", type=float, help="Nothing that scores less (0..1).")
@filters
@switch("--include-superseded", sets=True, help="Show what was superseded, too, further down.")
@switch("--documents", "include_documents", sets=True, help="Show places in indexed files, too, in one ranking.")
@switch("--no-facts", "include_facts", sets=False, help="Show no facts.")
@click.option("--facets", multiple=True, metavar="FIELD", help=f"Count by: {', '.join(FACETS)}; or all.")
@click.option("--record", help=f"What to write down of this search: {', '.join(RECORD_MODES)}.")
@click.option("--record-session", metavar="ID", help="The session it is written down for, where anything is.")
@detail_option
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@json_option
@click.pass_obj
def search_command(
    session: CommandContext,
    /,
    query: str,
    mode: str,
    facets: tuple[str, ...],
    detail: str | None,
    explain: bool,
    as_json: bool,
    **wanted: Any,
) -> None:
    """
    Find memories by word and by meaning. QUERY may hold "phrases" and beginnings*.

    \b
    Example:
        memorist search "how do we ship code?" --project api
        memorist search ADR-016 --mode keyword --json
        memorist search retries --as-of "last month" --facets kind,tag
    """
    if not query.strip():
        raise click.UsageError("the query is empty; `memorist list` shows what there is")
    with session.open(embedder="none" if mode == "keyword" else None) as memory:
        results = memory.search(
            query, mode=mode, explain=explain, detail=detail or "full", facets=_fields(facets), **given(wanted)
        )
    if memory.recalls_lost:
        click.echo("Note: this search could not be written down; is the database yours to write?", err=True)
    if as_json:
        print_json(results_json(results, explain=explain))
        return
    for place, hit in enumerate(results, 1):
        if isinstance(hit, DocumentHit):
            click.echo(document_hit_text(place, hit, style(), whole=detail == "full"))
        else:
            click.echo(hit_text(place, hit, style(), explain=explain, detail=detail or "snippet"))
    for line in _table(results.facets):
        click.echo(line)
    for note in _notes(results):
        click.echo(note, err=True)


def _fields(given: Sequence[str]) -> tuple[str, ...]:
    """The fields to count by, given one by one or with commas between them."""
    fields = tuple(field.strip() for some in given for field in some.split(","))
    return FACETS if "all" in fields else fields


def _table(facets: Mapping[str, Mapping[str, int]]) -> list[str]:
    """One line a value: the field where it begins, the count, the value."""
    lines = []
    for field, counts in facets.items():
        rows = [f"{count:>6}  {printable(value)}" for value, count in islice(counts.items(), MOST_VALUES)]
        if len(counts) > MOST_VALUES:
            rows.append(f"{'':>6}  and {len(counts) - MOST_VALUES} more")
        lines += [f"{name:<9} {row}" for name, row in zip(chain([field], repeat("")), rows, strict=False)]
    return lines


def _notes(results: Results) -> list[str]:
    """What a person should know about an answer, besides the answer."""
    notes = []
    if not results:
        notes.append("Nothing found.")
    elif not results.relevant:
        notes.append("Note: nothing here is likely to answer this; it is only what comes closest.")
    if results.suggestion:
        notes.append(f"Did you mean: {printable(results.suggestion)}?")
    for name, count in results.hidden.items():
        verb, them = ("is", "it") if count == 1 else ("are", "them")
        notes.append(f"{count} more {verb} {REASONS.get(name, f'below {name}').format(them=them)}.")
    if results.degraded:
        notes.append(f"Note: {results.degraded}")
    return notes


@click.command("context")
@click.argument("message", required=False)
@click.option("--budget", type=int, help="How many tokens at most (default 2000).")
@click.option("--limit", "-n", type=int, help="How many memories at most, besides pinned ones (default 5).")
@click.option("--min-relevance", type=float, help="Only what is at least so likely to be about it (default 0.25).")
@click.option("--project", help="Only of this project, and what belongs to none or is global.")
@click.option("--recent", type=int, help="Without a message: how many of the latest memories (default 10).")
@switch("--no-core", "core", sets=False, help="Without the pinned memories.")
@switch("--no-documents", "documents", sets=False, help="Without places in indexed files.")
@json_option
@click.pass_obj
def context_command(session: CommandContext, /, message: str | None, as_json: bool, **options: Any) -> None:
    """
    Print what memories know about MESSAGE, as a block for an agent's prompt; nothing where nothing is relevant.

    Without a message, print what to know before one: pinned memories, and the latest ones. `-` reads the message from
    standard input.

    \b
    Example:
        memorist context "how do we ship code?" --project api --budget 1000
        memorist context --project api
    """
    asked = given(options)
    wrong = ("recent",) if message is not None else ("limit", "min_relevance", "documents")
    for name in wrong:
        if name in asked:
            flag = "--no-documents" if name == "documents" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} has no meaning {'with' if message is not None else 'without'} a message")
    if message == "-":
        message = text_from("-")
    with session.open() as memory:
        block = memory.briefing(**asked) if message is None else memory.context(message, **asked)
    if as_json:
        from memorist.embed.wordpiece import count_tokens

        print_json({"message": message, "context": block, "tokens": count_tokens(block) if block else 0})
    elif block:
        click.echo(block)
    else:
        click.echo("Nothing relevant.", err=True)
