"""Files: indexed, watched, searched."""

import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import ProgressBar, given, json_option, print_json, secrets, style, together
from memorist.documents import IndexReport
from memorist.errors import InvalidInput
from memorist.present.render import (
    count_of,
    display_path,
    document_hit_text,
    document_json,
    document_line,
    printable,
    record_json,
    report_line,
    report_lines,
    results_json,
)

NO_FILES = "No files are indexed; `memorist index PATH` takes them in."

choice = together(
    click.option("--project", help="The project the files belong to."),
    click.option("--include", multiple=True, metavar="GLOB", help="Only what matches (repeat for any of several)."),
    click.option("--exclude", multiple=True, metavar="GLOB", help="Not what matches."),
    secrets,
)


@click.command("index")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@choice
@click.option("--remove", is_flag=True, help="Take files, or all files of a folder, out of the index.")
@click.option("--verbose", "-v", is_flag=True, help="Name every file that was skipped, and every secret's place.")
@json_option
@click.pass_obj
def index_command(
    session: CommandContext, /, paths: tuple[str, ...], remove: bool, verbose: bool, as_json: bool, **wanted: Any
) -> int:
    """
    Take in files and folders, to be found by `memorist docs`. Only what has changed since is read again; what is gone
    goes. Stopped at any point, it goes on from there.

    \b
    Example:
        memorist index docs README.md --project api
        memorist index . --include "*.md" --exclude drafts/
        memorist index --remove docs/old
    """
    if remove:
        if given(wanted):
            raise click.UsageError("--remove takes paths only")
        return _remove(session, paths, as_json)
    options = {"project": session.loaded.settings.project} | given(wanted)
    bar = ProgressBar("Indexing", what="files")
    with session.open(create=True) as memory:
        try:
            with bar:
                report: IndexReport = memory.index(list(paths), progress=bar, **options)
        except KeyboardInterrupt:
            done = f"{bar.done:,} of {bar.total:,} files were done. " if bar.total else ""
            click.echo(f"Stopped. {done}What is done stays; run it again to go on from there.", err=True)
            return 130
    if report.quiet and not report.unchanged:
        raise InvalidInput(_nothing(report, options.get("include", ())))
    if as_json:
        print_json(record_json(report))
        return 0
    click.echo(report_line(report))
    for line in report_lines(report, verbose=verbose):
        click.echo(line)
    return 0


def _nothing(report: IndexReport, include: Sequence[str]) -> str:
    """That there was nothing to index, and the commonest reasons of what there was instead."""
    empty = [
        f"{display_path(path)}: {reason}" for path, reason in report.skipped if reason.startswith("nothing to index")
    ]
    others = Counter(reason for _, reason in report.skipped if not reason.startswith("nothing to index"))
    reasons = [f"{count} × {reason}" for reason, count in others.most_common(3)]
    if include and not reasons:
        reasons = [f"no file matches --include {' or '.join(map(repr, include))}"]
    return "; ".join([*(empty[:3] or ["nothing to index"]), *reasons])


def _remove(session: CommandContext, paths: tuple[str, ...], as_json: bool) -> int:
    with session.open(embedder="none") as memory:
        removed = {path: memory.unindex(path) for path in paths}
    if as_json:
        print_json({"removed": sum(removed.values())})
    for path, count in removed.items():
        if count and not as_json:
            click.echo(f"Took {count_of(count, 'file')} out of the index: {printable(path)}")
        elif not count:
            click.echo(f"Error: not indexed: {printable(path)}; `memorist docs --list` shows what is", err=True)
    return 0 if all(removed.values()) else 1


@click.command("watch")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@choice
@json_option
@click.pass_obj
def watch_command(session: CommandContext, /, paths: tuple[str, ...], as_json: bool, **wanted: Any) -> None:
    """
    Index files and folders, and again whenever they change, until Ctrl-C. A line is printed each time something was
    taken in. Where the system tells of no changes, as on some network drives, set WATCHFILES_FORCE_POLLING=1.

    \b
    Example:
        memorist watch docs notes --project api
    """
    options = {"project": session.loaded.settings.project} | given(wanted)
    stop = threading.Event()
    known: frozenset[tuple[str, str]] | None = None
    with _ending(stop), session.open(create=True) as memory:
        for report in memory.watch(list(paths), stop=stop, **options):
            if as_json:
                click.echo(json.dumps(record_json(report), ensure_ascii=False))
                continue
            click.echo(f"{datetime.now():%H:%M:%S}  {report_line(report)}")
            if known is None:  # of the first time, as `index` tells: by reason
                for line in report_lines(report, verbose=False):
                    click.echo(line)
            else:
                for path, reason in (each for each in report.skipped if each not in known):
                    click.echo(f"          {display_path(path)}: {printable(reason)}")
            known = frozenset(report.skipped)


@contextmanager
def _ending(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C, or a request to end, sets `stop`; a second one ends whatever is still going on."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.getsignal(each) for each in signals}

    def ask(number: int, frame: object) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for each in signals:
        signal.signal(each, ask)
    try:
        yield
    finally:
        for each in signals:
            signal.signal(each, before[each])


@click.command("docs")
@click.argument("query", required=False)
@click.option("--list", "listing", is_flag=True, help="List the files that are indexed.")
@click.option("--links", metavar="PATH", help="Show where the links of a file lead, and which files lead to it.")
@click.option("--project", multiple=True, help="Only this project (repeat for any of several).")
@click.option("--sector", multiple=True, help="Only files of this sector.")
@click.option("--tag", "tags", multiple=True, help="Only files with this tag (repeat for all of several).")
@click.option("--since", metavar="TIME", help="Only what was written from this time on.")
@click.option("--until", metavar="TIME", help="Only what was written before this time.")
@click.option("--limit", "-n", type=int, help="How many (1..1000; default 10; all files of a list).")
@click.option("--mode", help="hybrid (default), keyword or semantic.")
@click.option("--neighbours", type=int, help="Show so many chunks before and after each, too.")
@json_option
@click.pass_obj
def docs_command(
    session: CommandContext, /, query: str | None, listing: bool, links: str | None, as_json: bool, **wanted: Any
) -> None:
    """
    Find places in the files that `memorist index` took in. QUERY may hold "phrases" and beginnings*.

    \b
    Example:
        memorist docs "how are retries capped?"
        memorist docs deploy --project api --neighbours 1
        memorist docs --list
        memorist docs --links docs/retries.md
    """
    options = given(wanted)
    if links is not None:
        if query is not None or listing or options:
            raise click.UsageError("--links shows those of one file; it takes nothing else")
        _links(session, links, as_json)
        return
    if listing:
        if query is not None or set(options) - {"project", "limit"}:
            raise click.UsageError("--list shows all files; it takes no query, only --project and --limit")
        _list(session, options, as_json)
        return
    if not (query or "").strip():
        raise click.UsageError("what to look for? `memorist docs --list` shows which files there are")
    with session.open() as memory:
        results = memory.search_documents(query, **options)
        some = bool(results) or bool(memory.documents(limit=1))
    if as_json:
        print_json(results_json(results, explain=False))
        return
    for place, hit in enumerate(results, 1):
        click.echo(document_hit_text(place, hit, style(), whole=bool(options.get("neighbours"))))
    if not results:
        click.echo("Nothing found." if some else NO_FILES, err=True)
    elif not results.relevant:
        click.echo("Note: nothing here is likely to answer this; it is only what comes closest.", err=True)
    if results.degraded:
        click.echo(f"Note: {results.degraded}", err=True)


def _list(session: CommandContext, options: dict[str, Any], as_json: bool) -> None:
    projects = dict.fromkeys(options.pop("project", (None,)))
    options.setdefault("limit", 1_000_000_000)
    with session.open(embedder="none") as memory:
        found = [each for project in projects for each in memory.documents(project=project, **options)]
    documents = sorted(found, key=lambda each: each.path)[: options["limit"]]
    if as_json:
        print_json({"documents": [document_json(each) for each in documents]})
        return
    for each in documents:
        click.echo(document_line(each, style()))
    if not documents:
        click.echo(NO_FILES if None in projects else "No files of this project are indexed.", err=True)


def _links(session: CommandContext, path: str, as_json: bool) -> None:
    with session.open(embedder="none") as memory:
        document = memory.document(path)
    if as_json:
        print_json(record_json(document))
        return
    click.echo(document_line(document, style()))
    for link in document.links:
        click.echo(
            f"  {link.line:>5}  {display_path(link.path) if link.path else f'{printable(link.target)} (not indexed)'}"
        )
    for source in document.linked_from:
        click.echo(f"  from   {display_path(source)}")
