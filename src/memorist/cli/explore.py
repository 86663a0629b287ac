"""Commands that look around: along time, from memory to memory, at past searches, at projects and tags."""

from collections.abc import Mapping
from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import (
    ProgressBar,
    answer_options,
    as_of_option,
    detail_option,
    drop_unset,
    memory_lines,
    must_confirm,
    print_answer,
    print_json,
    projects_option,
    style,
)
from memorist.engine import Memorist
from memorist.present.render import (
    count_of,
    memory_json,
    memory_line,
    printable,
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
@click.option("--end", metavar="TIME", help="Up to this time, including all of a day or month.")
@click.option("--anchor", metavar="ID", help="Around this memory.")
@click.option("--query", metavar="TEXT", help="Around the memory that matches this best.")
@click.option("--before", type=int, help="How many before the one in the middle (default 5).")
@click.option("--after", type=int, help="How many after it (default 5).")
@projects_option
@click.option("--limit", default=1000, show_default=True, help="How many between two times.")
@as_of_option
@detail_option
@answer_options
def timeline_command(
    context: CommandContext, /, query: str | None, limit: int, detail: str | None, as_json: bool, **options: Any
) -> None:
    """
    Show memories in the order they happened. Choose them by two times, or around a memory or the best match of a query.

    \b
    Example:
        memorist timeline --start "last week"
        memorist timeline --anchor 4f2a91bc --before 3 --after 3
        memorist timeline --query "the outage" --project api
    """
    detail = detail or "index"
    with context.open(embedder="none" if query is None else None) as memory:
        timeline = memory.timeline(query=query, limit=limit, detail=detail, **drop_unset(options))
    if as_json:
        print_json(timeline_json(timeline, detail))
        return
    for entry in timeline:
        click.echo(timeline_entry_text(entry, style(), anchor=entry.id == timeline.anchor, detail=detail))
    if timeline.sessions:
        click.echo("\nSessions:")
    for session in timeline.sessions:
        click.echo(session_line(session, style()))
    if not timeline:
        click.echo("Nothing found.", err=True)
    if timeline.anchor is None and len(timeline) == limit:
        click.echo("There may be more: raise --limit, or choose with --start and --end.", err=True)


@click.command("related")
@click.argument("id")
@click.option("--limit", default=10, show_default=True, help="How many (1..1000).")
@as_of_option
@answer_options
def related_command(context: CommandContext, /, id: str, limit: int, as_of: str | None, as_json: bool) -> None:
    """
    Show the memories linked or similar to a memory. Linked ones come first.

    \b
    Example:
        memorist related 4f2a91bc --limit 5
    """
    with context.open() as memory:
        found = memory.related(id, limit, as_of=as_of)
    lines = (related_line(related, style()) for related in found)
    print_answer(as_json, {"related": [related_json(related) for related in found]}, lines)


@click.command("recalls")
@click.option("--memory", metavar="ID", help="Only searches that found this memory.")
@click.option("--session", metavar="ID", help="Only searches in this session.")
@click.option("--since", metavar="TIME", help="Only from this time on.")
@click.option("--limit", default=20, show_default=True, help="How many.")
@click.option("--never", is_flag=True, help="List the memories that were never recalled instead.")
@click.option("--clear", is_flag=True, help="Delete the record instead, of all searches or those --before a time.")
@click.option("--before", metavar="TIME", help="With --clear: only from before this time.")
@click.option("--yes", is_flag=True, help="With --clear: do not ask for confirmation.")
@answer_options
def recalls_command(
    context: CommandContext,
    /,
    limit: int,
    never: bool,
    clear: bool,
    before: str | None,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """
    Show recorded searches and what they found. `search --record` records a search; the latest come first.

    \b
    Example:
        memorist recalls --since yesterday
        memorist recalls --never
        memorist recalls --clear --before "30 days ago"
    """
    options = drop_unset(options)
    if (before or yes) and not clear:
        raise click.UsageError("--before and --yes belong to --clear")
    if clear:
        if never or options:
            raise click.UsageError("--clear deletes the record of all searches, or of those --before a time")
        _clear_recalls(context, before, yes, as_json)
        return
    if never and options:
        raise click.UsageError("--never lists memories that no search found; use it alone, or with --limit")
    if never:
        _print_never_recalled(context, limit, as_json)
        return
    with context.open(embedder="none") as memory:
        recalls = memory.searches.list(limit=limit, **options)
        ids = dict.fromkeys(found.id for recall in recalls for found in recall.memories)
        memories = {found.id: found for found in memory.get(list(ids))}
    print_answer(
        as_json,
        {"recalls": [record_json(recall) for recall in recalls]},
        (recall_text(recall, memories, style()) for recall in recalls),
        "Nothing found. `memorist search --record log` records a search.",
    )


def _clear_recalls(context: CommandContext, before: str | None, yes: bool, as_json: bool) -> None:
    if must_confirm(yes, "--clear deletes for good"):
        click.confirm("Delete the record of searches? Memories stay as they are.", abort=True, err=True)
    with context.open(embedder="none") as memory:
        cleared = memory.searches.clear(before=before)
    print_answer(as_json, {"cleared": cleared}, f"Deleted {count_of(cleared, 'recorded search', 'recorded searches')}.")


def _print_never_recalled(context: CommandContext, limit: int, as_json: bool) -> None:
    with context.open(embedder="none") as memory:
        page = memory.list(recalled=False, limit=limit)
    answer = {"memories": [memory_json(found) for found in page], "cursor": page.cursor}
    print_answer(as_json, answer, memory_lines(page))
    if page.cursor and not as_json:
        click.echo(f"There is more: `memorist list --never-recalled --cursor {page.cursor}`", err=True)


@click.command("projects")
@answer_options
def projects_command(context: CommandContext, /, as_json: bool) -> None:
    """
    List the projects and how many memories each has.

    \b
    Example:
        memorist projects
    """
    with context.open(embedder="none") as memory:
        counts = memory.facets(None, ["project"], include_superseded=True)["project"]
    _print_counts("projects", counts, "No memory belongs to a project.", as_json)


@click.command("tags")
@projects_option
@answer_options
def tags_command(context: CommandContext, /, project: tuple[str, ...], as_json: bool) -> None:
    """
    List the tags and how many memories have each.

    \b
    Example:
        memorist tags --project api
    """
    with context.open(embedder="none") as memory:
        counts = memory.facets(None, ["tag"], include_superseded=True, project=project or None)["tag"]
    _print_counts("tags", counts, "No memory has a tag.", as_json)


def _print_counts(key: str, counts: Mapping[str, int], nothing: str, as_json: bool) -> None:
    """Print names with their number of memories, the largest first."""
    answer = {key: [{"name": name, "memories": count} for name, count in counts.items()]}
    print_answer(as_json, answer, (f"{count:>6}  {printable(name)}" for name, count in counts.items()), nothing)


@click.command("dupes")
@click.option("--threshold", type=float, help="The share of words that two have in common (0.1..1; default 0.8).")
@projects_option
@click.option("--merge", is_flag=True, help="Keep the newest of each group; it supersedes the others.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@answer_options
def dupes_command(context: CommandContext, /, merge: bool, yes: bool, as_json: bool, **options: Any) -> None:
    """
    Find memories that say almost the same, and merge them. Merging loses nothing: `memorist supersede --undo` reverts
    it.

    \b
    Example:
        memorist dupes --project api
        memorist dupes --threshold 0.9 --merge
    """
    ask = merge and must_confirm(yes, "--merge changes memories")
    with context.open(embedder="none") as memory:
        with ProgressBar("Comparing") as bar:
            groups = memory.review.duplicates(progress=bar, **drop_unset(options))
        if not as_json:
            _print_groups(groups)
        if ask and groups:
            click.confirm(f"Merge {sum(map(len, groups))} memories into {len(groups)}?", abort=True, err=True)
        merged = [_merge_group(memory, group) for group in groups] if merge else []
    if as_json:
        shown = [[memory_json(found) for found in group] for group in groups]
        print_json({"groups": shown, "kept": [found.id for found in merged]})
        return
    for found in merged:
        click.echo(f"Kept {memory_line(found, style())}")


def _merge_group(memory: Memorist, group: tuple[Memory, ...]) -> Memory:
    """Merge a group into its newest memory."""
    newest = max(group, key=lambda found: (found.created_at, found.recorded_at))
    return memory.review.merge(newest.id, [found.id for found in group if found.id != newest.id])


def _print_groups(groups: list[tuple[Memory, ...]]) -> None:
    for group in groups:
        for place, found in enumerate(group):
            click.echo(f"{'  ' if place else '- '}{memory_line(found, style())}")
    if not groups:
        click.echo("Nothing found.", err=True)
