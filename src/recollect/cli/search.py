"""Finding memories."""

from typing import Any

import click

from recollect.cli.app import Session
from recollect.cli.options import filters, given, json_option, print_json, style
from recollect.present.render import hit_text, results_json
from recollect.profiles import PROFILES
from recollect.records import FUSIONS, GRAMMARS


@click.command("search")
@click.argument("query")
@click.option("--limit", "-n", type=int, help="How many (1..1000; default 10).")
@click.option("--mode", default="hybrid", show_default=True, help="hybrid, keyword or semantic.")
@click.option("--profile", help=f"How to rank: {', '.join(PROFILES)}.")
@click.option("--grammar", help=f"How to read the query: {', '.join(GRAMMARS)}.")
@click.option("--fusion", help=f"How to join words and meaning: {', '.join(FUSIONS)}.")
@click.option("--alpha", type=float, help="Share of meaning against words (0..1).")
@click.option("--min-relevance", type=float, help="Nothing less relevant than this (0..1).")
@click.option("--min-similarity", type=float, help="Nothing by meaning alone that is farther away (0..1).")
@click.option("--min-confidence", type=float, help="Nothing less certain than this (0..1).")
@click.option("--min-score", type=float, help="Nothing that scores less (0..1).")
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@filters
@json_option
@click.pass_obj
def search_command(session: Session, /, query: str, mode: str, explain: bool, as_json: bool, **wanted: Any) -> None:
    """
    Find memories by word and by meaning. QUERY may hold "phrases" and beginnings*.

    \b
    Example:
        recollect search "how do we ship code?" --project api
        recollect search ADR-016 --mode keyword --json
    """
    if not query.strip():
        raise click.UsageError("the query is empty; `recollect list` shows what there is")
    with session.open(embedder="none" if mode == "keyword" else None) as memory:
        results = memory.search(query, mode=mode, explain=explain, **given(wanted))
    if as_json:
        print_json(results_json(results, explain=explain))
        return
    for place, hit in enumerate(results, 1):
        click.echo(hit_text(place, hit, style(), explain=explain))
    if not results:
        click.echo("Nothing found.", err=True)
    for threshold, count in results.hidden.items():
        click.echo(f"{count} held back by {threshold}.", err=True)
    if results.degraded:
        click.echo(f"Note: {results.degraded}", err=True)
