"""Commands that find memories: search, lenses for it, and context for an agent's prompt."""

from collections.abc import Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Any

import click

from memorist.arguments import FILTERS
from memorist.cli.app import CommandContext, CommandGroup
from memorist.cli.options import (
    NOTHING_RELEVANT,
    answer_options,
    declared_options,
    detail_option,
    drop_unset,
    filter_options,
    print_answer,
    print_json,
    read_argument,
    style,
)
from memorist.engine import Memorist
from memorist.errors import InvalidInput
from memorist.file_records import DocumentHit
from memorist.present.render import (
    describe_lens,
    document_hit_text,
    hit_text,
    printable,
    printable_line,
    record_json,
    results_json,
)
from memorist.profiles.profile import ProfileOptions
from memorist.records import FACETS, Lens, Results

_MAX_FACET_VALUES = 10  # of each field, in the table of facets

# Why a filter or a threshold hid memories.
HIDDEN_REASONS: Mapping[str, str] = {
    "superseded": "superseded (--include-superseded shows {them})",
    **{name: filter.hides for name, filter in FILTERS.items() if filter.hides},
}


def _parse_recency(text: str) -> dict[str, Any]:
    """Return the form with its number: the rate a day of `add`, or the weight of `multiply`, the form without one."""
    form, colon, number = text.partition(":")
    if not colon:
        try:
            return {"form": "multiply", "weight": float(form)}
        except ValueError:
            return {"form": form}
    return {"form": form, "rate" if form == "add" else "weight": _parse_number(number, "--recency", text)}


def _parse_number(text: str, option: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{option} {whole!r} must end in a number, not {text!r}") from None


recency_option = click.option(
    "--recency",
    metavar="FORM:NUMBER",
    callback=lambda context, option, value: None if value is None else _parse_recency(value),
    help="How age counts: multiply:WEIGHT (or WEIGHT), add:RATE, tiers or none, as in multiply:0.3.",
)


@click.command("search")
@click.argument("query")
@declared_options(Memorist.search, only="limit offset mode profile lens".split())
@recency_option
@click.option("--use-vector/--no-vector", default=None, help="Search by meaning for every query, or by words alone.")
@declared_options(
    ProfileOptions,
    only="grammar fusion alpha k rerank confidence_mode min_relevance min_similarity min_confidence min_score".split(),
)
@filter_options
@declared_options(Memorist.search, only=["include_superseded", "include_documents", "include_facts"])
@click.option("--facets", multiple=True, metavar="FIELD", help=f"Count by: {', '.join(FACETS)}; or all.")
@declared_options(Memorist.search, only=["record", "record_session"])
@detail_option
@click.option("--explain", is_flag=True, help="Show how each score was computed.")
@answer_options
def search_command(
    context: CommandContext,
    /,
    query: str,
    mode: str | None,
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
    by_words = mode == "keyword" or options["use_vector"] is False
    with context.open(embedder="none" if by_words else None) as memory:
        results = memory.search(
            query,
            mode=mode or "hybrid",
            explain=explain,
            detail=detail or "full",
            facets=_parse_facets(facets),
            **drop_unset(options),
        )
    if memory.searches.lost:
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
        notes.append(f"Note: {printable_line(results.degraded)}")
    return notes


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
@answer_options
def _list_lenses(context: CommandContext, /, as_json: bool) -> None:
    """
    List the saved lenses.

    \b
    Example:
        memorist lens list
    """
    with context.open(embedder="none") as memory:
        lenses = memory.lenses.list()
    answer = {"lenses": [record_json(lens) for lens in lenses]}
    print_answer(as_json, answer, map(_lens_line, lenses), "Nothing found. `memorist lens set` saves a lens.")


@lens_command.command("show")
@click.argument("name")
@answer_options
def _show_lens(context: CommandContext, /, name: str, as_json: bool) -> None:
    """
    Show the filters and options of a lens.

    \b
    Example:
        memorist lens show decisions
    """
    with context.open(embedder="none") as memory:
        lens = memory.lenses.get(name)
    lines = [printable(lens.name), *(f"  {part}" for part in describe_lens(lens))]
    print_answer(as_json, record_json(lens), lines)


@lens_command.command("set")
@click.argument("name")
@filter_options
@declared_options(Memorist.search, only=["profile"])
@click.option("--boost", "boosts", multiple=True, metavar="FIELD=VALUE:FACTOR",
              help="Multiply the score of a sector, kind, tag or source, as in tag=decision:1.5.")  # fmt: skip
@recency_option
@answer_options
def _set_lens(context: CommandContext, /, name: str, boosts: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """
    Save a lens, replacing one of the same name.

    \b
    Example:
        memorist lens set decisions --kind decision --since "last year" --boost tag=adr:1.5 --recency multiply:0.3
    """
    with context.open(create=True, embedder="none") as memory:
        lens = memory.lenses.set(name, boosts=_parse_boosts(boosts), **drop_unset(options))
    print_answer(as_json, record_json(lens), f"Set {_lens_line(lens)}")


@lens_command.command("remove")
@click.argument("name")
@click.pass_obj
def _remove_lens(context: CommandContext, /, name: str) -> None:
    """
    Remove a lens. Memories are not touched.

    \b
    Example:
        memorist lens remove decisions
    """
    with context.open(embedder="none") as memory:
        memory.lenses.remove(name)
    click.echo(f"Removed {printable(name)}")


def _lens_line(lens: Lens) -> str:
    return f"{printable(lens.name)}  {' · '.join(describe_lens(lens))}"


def _parse_boosts(texts: tuple[str, ...]) -> dict[str, dict[str, float]]:
    boosts: dict[str, dict[str, float]] = {}
    for text in texts:
        field, _, rest = text.partition("=")
        value, _, factor = rest.rpartition(":")
        if not (field and value):
            raise InvalidInput(f"--boost {text!r} cannot be read; write FIELD=VALUE:FACTOR, as in tag=decision:1.5")
        boosts.setdefault(field, {})[value] = _parse_number(factor, "--boost", text)
    return boosts


@click.command("context")
@click.argument("message", required=False)
@declared_options(Memorist.context, only="budget limit min_relevance project metadata".split())
@declared_options(Memorist.briefing, only=["recent"])
@declared_options(Memorist.context, only=["core", "documents"])
@answer_options
def context_command(context: CommandContext, /, message: str | None, as_json: bool, **options: Any) -> None:
    """
    Print relevant memories as a block for an agent's prompt. If nothing is relevant to MESSAGE, nothing is printed.

    Without a message, print what to know before one: pinned memories and the latest ones. With - as MESSAGE, it is
    read from standard input.

    \b
    Example:
        memorist context "how do we ship code?" --project api --budget 1000
        memorist context "what does she like?" --metadata '{"user": "anna"}'
        memorist context --project api
    """
    options = drop_unset(options)
    for name in ("recent",) if message is not None else ("limit", "min_relevance", "metadata", "documents"):
        if name in options:
            flag = "--no-documents" if name == "documents" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} cannot be used {'with' if message is not None else 'without'} a message")
    message = None if message is None else read_argument(message)
    with context.open() as memory:
        block = memory.briefing(**options) if message is None else memory.context(message, **options)
    if as_json:
        from memorist.embed.wordpiece import count_tokens

        print_json({"message": message, "context": block, "tokens": count_tokens(block) if block else 0})
    elif block:
        click.echo(block)
    else:
        click.echo("Nothing relevant.", err=True)
