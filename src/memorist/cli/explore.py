"""Commands that look around: along time, from memory to memory, at past searches, at projects and tags."""

from collections.abc import Mapping
from typing import Any

import click

from memorist.arguments import Filters
from memorist.cli.app import CommandContext
from memorist.cli.options import (
    ProgressBar,
    answer_options,
    declared_options,
    detail_option,
    drop_unset,
    must_confirm,
    print_answer,
    print_json,
    print_page,
    style,
)
from memorist.engine import Memorist
from memorist.engine.review import Review
from memorist.engine.searches import Searches
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
@declared_options(Memorist.timeline, leave_out=["limit", "detail"])
@click.option("--limit", default=1000, show_default=True, help="How many between two times.")
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
@declared_options(Memorist.related)
@answer_options
def related_command(context: CommandContext, /, id: str, as_json: bool, **options: Any) -> None:
    """
    Show the memories linked or similar to a memory. Linked ones come first.

    \b
    Example:
        memorist related 4f2a91bc --limit 5
    """
    with context.open() as memory:
        found = memory.related(id, **drop_unset(options))
    lines = (related_line(related, style()) for related in found)
    print_answer(as_json, {"related": [related_json(related) for related in found]}, lines)


@click.command("recalls")
@declared_options(Searches.list, only=["memory", "session", "since"])
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
    print_page(as_json, page, "`memorist list --never-recalled --cursor {cursor}`")


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
@declared_options(Filters, only=["project"])
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
@declared_options(Review.duplicates, only=["threshold", "project"])
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
