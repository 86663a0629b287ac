"""Looking around: along time, from one memory to others, back at what was recalled, and for what was said twice."""

from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import (
    ProgressBar,
    as_of_option,
    detail_option,
    given,
    json_option,
    must_ask,
    print_json,
    print_memories,
    style,
)
from memorist.present.render import (
    memory_json,
    memory_line,
    recall_text,
    record_json,
    related_json,
    related_line,
    session_line,
    timeline_entry_text,
    timeline_json,
)
from memorist.records import Memory


@click.command("timeline")
@click.option("--start", metavar="TIME", help="From this time on.")
@click.option("--end", metavar="TIME", help="Up to this time; a day or month is taken in whole.")
@click.option("--anchor", metavar="ID", help="Around this memory.")
@click.option("--query", metavar="TEXT", help="Around the memory that answers this best.")
@click.option("--before", type=int, help="How many before the one in the middle (default 5).")
@click.option("--after", type=int, help="How many after it (default 5).")
@click.option("--project", multiple=True, help="Only this project (repeat for any of several).")
@click.option("--limit", default=1000, show_default=True, help="How many between two times.")
@as_of_option
@detail_option
@json_option
@click.pass_obj
def timeline_command(
    session: CommandContext, /, query: str | None, limit: int, detail: str | None, as_json: bool, **wanted: Any
) -> None:
    """
    Show what happened, in order: between two times, around a memory, or around the best match of a query.

    \b
    Example:
        memorist timeline --start "last week"
        memorist timeline --anchor 4f2a91bc --before 3 --after 3
        memorist timeline --query "the outage" --project api
    """
    detail = detail or "index"
    with session.open(embedder="none" if query is None else None) as memory:
        timeline = memory.timeline(query=query, limit=limit, detail=detail, **given(wanted))
    if as_json:
        print_json(timeline_json(timeline, detail))
        return
    for entry in timeline:
        click.echo(timeline_entry_text(entry, style(), anchor=entry.id == timeline.anchor, detail=detail))
    if timeline.sessions:
        click.echo("\nSessions:")
    for touched in timeline.sessions:
        click.echo(session_line(touched, style()))
    if not timeline:
        click.echo("Nothing found.", err=True)
    if timeline.anchor is None and len(timeline) == limit:
        click.echo("There may be more: --limit shows it, --start and --end choose.", err=True)


@click.command("related")
@click.argument("id")
@click.option("--limit", default=10, show_default=True, help="How many (1..1000).")
@as_of_option
@json_option
@click.pass_obj
def related_command(session: CommandContext, /, id: str, limit: int, as_of: str | None, as_json: bool) -> None:
    """
    Show what belongs to a memory: first what it is linked with, then what is most similar.

    \b
    Example:
        memorist related 4f2a91bc --limit 5
    """
    with session.open() as memory:
        found = memory.related(id, limit, as_of=as_of)
    if as_json:
        print_json({"related": [related_json(one) for one in found]})
        return
    for one in found:
        click.echo(related_line(one, style()))
    if not found:
        click.echo("Nothing found.", err=True)


@click.command("recalls")
@click.option("--memory", metavar="ID", help="Only questions that found this memory.")
@click.option("--session", metavar="ID", help="Only questions asked in this session.")
@click.option("--since", metavar="TIME", help="Only from this time on.")
@click.option("--limit", default=20, show_default=True, help="How many.")
@click.option("--never", is_flag=True, help="List the memories that were never recalled instead.")
@json_option
@click.pass_obj
def recalls_command(session: CommandContext, /, limit: int, never: bool, as_json: bool, **wanted: Any) -> None:
    """
    Show what was recalled, when, and for which question: searches with --record, the latest first.

    \b
    Example:
        memorist recalls --since yesterday
        memorist recalls --never
    """
    if never and given(wanted):
        raise click.UsageError("--never is about memories that no question found; give it alone, or with --limit")
    if never:
        _never_recalled(session, limit, as_json)
        return
    with session.open(embedder="none") as memory:
        recalls = memory.recalls(limit=limit, **given(wanted))
        ids = dict.fromkeys(found.id for recall in recalls for found in recall.memories)
        known = {one.id: one for one in memory.get(list(ids))}
    if as_json:
        print_json({"recalls": [record_json(recall) for recall in recalls]})
        return
    for recall in recalls:
        click.echo(recall_text(recall, known, style()))
    if not recalls:
        click.echo("Nothing found. `memorist search --record log` writes down what it finds.", err=True)


def _never_recalled(session: CommandContext, limit: int, as_json: bool) -> None:
    with session.open(embedder="none") as memory:
        page = memory.list(recalled=False, limit=limit)
    if as_json:
        print_json({"memories": [memory_json(one) for one in page], "cursor": page.cursor})
        return
    print_memories(page)
    if page.cursor:
        click.echo(f"There is more: `memorist list --never-recalled --cursor {page.cursor}`", err=True)


@click.command("dupes")
@click.option("--threshold", type=float, help="The share of words two have in common (0.1..1; default 0.8).")
@click.option("--project", multiple=True, help="Only in this project (repeat for any of several).")
@click.option("--merge", is_flag=True, help="Keep the newest of each group; it supersedes the others.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def dupes_command(session: CommandContext, /, merge: bool, yes: bool, as_json: bool, **wanted: Any) -> None:
    """
    Find memories that say almost the same, and merge them if you like. Nothing is lost by it: `memorist supersede
    --undo` brings one back.

    \b
    Example:
        memorist dupes --project api
        memorist dupes --threshold 0.9 --merge
    """
    asking = merge and must_ask(yes, "--merge changes memories")
    with session.open(embedder="none") as memory:
        with ProgressBar("Comparing") as bar:
            groups = memory.duplicates(progress=bar, **given(wanted))
        if not as_json:
            _print_groups(groups)
        if asking and groups:
            click.confirm(f"Merge {sum(map(len, groups))} memories into {len(groups)}?", abort=True, err=True)
        kept = [_merge(memory, group) for group in groups] if merge else []
    if as_json:
        shown = [[memory_json(one) for one in group] for group in groups]
        print_json({"groups": shown, "kept": [one.id for one in kept]})
        return
    for one in kept:
        click.echo(f"Kept {memory_line(one, style())}")


def _merge(memory: Any, group: tuple[Memory, ...]) -> Memory:
    newest = max(group, key=lambda one: (one.created_at, one.recorded_at))
    kept: Memory = memory.merge(newest.id, [one.id for one in group if one.id != newest.id])
    return kept


def _print_groups(groups: list[tuple[Memory, ...]]) -> None:
    for group in groups:
        for place, one in enumerate(group):
            click.echo(f"{'  ' if place else '- '}{memory_line(one, style())}")
    if not groups:
        click.echo("Nothing found.", err=True)
