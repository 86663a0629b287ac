"""The command that searches memories."""

from collections.abc import Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import (
    NOTHING_RELEVANT,
    detail_option,
    drop_unset,
    filter_options,
    flag_option,
    json_option,
    print_json,
    read_argument,
    style,
)
from memorist.documents import DocumentHit
from memorist.present.render import document_hit_text, hit_text, printable, results_json
from memorist.profiles import PROFILES
from memorist.records import FACETS, FUSIONS, GRAMMARS, RECORD_MODES, Results

_MAX_FACET_VALUES = 10  # of each field, in the table of facets

# Why a filter or a threshold hid memories.
HIDDEN_REASONS: Mapping[str, str] = {
    "superseded": "superseded (--include-superseded shows {them})",
    "project": "in another project",
    "sector": "in another sector",
    "tier": "in another tier",
    "kind": "of another kind",
    "source": "from another source",
    "tags": "without all the tags",
    "since": "older (--since)",
    "until": "newer (--until)",
    "session": "not in that session",
    "fact_kind": "without a fact of that kind",
    "month": "from another month",
    "pinned": "not pinned",
    "recalled": "already recalled",
    "as_of": "from after that time (--as-of)",
}


@click.command("search")
@click.argument("query")
@click.option("--limit", "-n", type=int, help="How many (1..1000; default 10).")
@click.option("--mode", default="hybrid", show_default=True, help="hybrid, keyword or semantic.")
@click.option("--profile", help=f"How to rank: {', '.join(PROFILES)}.")
@click.option("--lens", metavar="NAME", help="Use a lens saved with `memorist lens set`.")
@click.option("--grammar", help=f"How to read the query: {', '.join(GRAMMARS)}.")
@click.option("--fusion", help=f"How to combine keyword and vector scores: {', '.join(FUSIONS)}.")
@click.option("--alpha", type=float, help="The weight of meaning against keywords (0..1).")
@click.option(
    "--rerank",
    callback=lambda context, option, value: int(value) if value and value.isdecimal() else value,
    help="Have a model rerank the best hits: off, auto, or how many.",
)
@click.option("--confidence-mode", help="How the confidence of facts affects the score: off, blend or multiply.")
@click.option("--min-relevance", type=float, help="Only hits at least this relevant (0..1).")
@click.option("--min-similarity", type=float, help="Only hits by meaning that are at least this similar (0..1).")
@click.option("--min-confidence", type=float, help="Only hits at least this confident (0..1).")
@click.option("--min-score", type=float, help="Only hits with at least this score (0..1).")
@filter_options
@flag_option("--include-superseded", sets=True, help="Also show superseded memories, ranked lower.")
@flag_option("--documents", "include_documents", sets=True, help="Also search indexed files, in one ranking.")
@flag_option("--no-facts", "include_facts", sets=False, help="Do not show facts.")
@click.option("--facets", multiple=True, metavar="FIELD", help=f"Count by: {', '.join(FACETS)}; or all.")
@click.option("--record", help=f"What to record about this search: {', '.join(RECORD_MODES)}.")
@click.option("--record-session", metavar="ID", help="The session to record it for.")
@detail_option
@click.option("--explain", is_flag=True, help="Show how each score was computed.")
@json_option
@click.pass_obj
def search_command(
    context: CommandContext,
    /,
    query: str,
    mode: str,
    facets: tuple[str, ...],
    detail: str | None,
    explain: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """
    Search memories by keyword and by meaning. QUERY may contain "phrases" and prefixes*; - reads standard input.

    \b
    Example:
        memorist search "how do we ship code?" --project api
        memorist search ADR-016 --mode keyword --json
        memorist search retries --as-of "last month" --facets kind,tag
        git log -1 --format=%s | memorist search -
    """
    query = read_argument(query)
    if not query.strip():
        raise click.UsageError("the query is empty; `memorist list` lists all memories")
    with context.open(embedder="none" if mode == "keyword" else None) as memory:
        results = memory.search(
            query,
            mode=mode,
            explain=explain,
            detail=detail or "full",
            facets=_parse_facets(facets),
            **drop_unset(options),
        )
    if memory.recalls_lost:
        click.echo("Note: this search could not be recorded; are you allowed to write to the database?", err=True)
    if as_json:
        print_json(results_json(results, explain=explain))
        return
    for place, hit in enumerate(results, 1):
        if isinstance(hit, DocumentHit):
            click.echo(document_hit_text(place, hit, style(), whole=detail == "full"))
        else:
            click.echo(hit_text(place, hit, style(), explain=explain, detail=detail or "snippet"))
    for line in _facet_lines(results.facets):
        click.echo(line)
    for note in _result_notes(results):
        click.echo(note, err=True)


def _parse_facets(values: Sequence[str]) -> tuple[str, ...]:
    """Return the fields to count by, given one by one or separated by commas."""
    fields = tuple(field.strip() for value in values for field in value.split(","))
    return FACETS if "all" in fields else fields


def _facet_lines(facets: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a line for each value with its count; the first of a field names the field."""
    lines = []
    for field, counts in facets.items():
        rows = [f"{count:>6}  {printable(value)}" for value, count in islice(counts.items(), _MAX_FACET_VALUES)]
        if len(counts) > _MAX_FACET_VALUES:
            rows.append(f"{'':>6}  and {len(counts) - _MAX_FACET_VALUES} more")
        lines += [f"{name:<9} {row}" for name, row in zip(chain([field], repeat("")), rows, strict=False)]
    return lines


def _result_notes(results: Results) -> list[str]:
    """Return what to tell the user about an answer besides its hits."""
    notes = []
    if not results:
        notes.append("Nothing found.")
    elif not results.relevant:
        notes.append(NOTHING_RELEVANT)
    if results.suggestion:
        notes.append(f"Did you mean: {printable(results.suggestion)}?")
    for name, count in results.hidden.items():
        verb, them = ("is", "it") if count == 1 else ("are", "them")
        notes.append(f"{count} more {verb} {HIDDEN_REASONS.get(name, f'below {name}').format(them=them)}.")
    if results.degraded:
        notes.append(f"Note: {results.degraded}")
    return notes
