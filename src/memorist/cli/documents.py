"""Commands on files: index, watch and search them."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import click

from memorist.cli.app import CommandContext, complete_path, print_note
from memorist.cli.options import (
    NOTHING_RELEVANT,
    ProgressBar,
    answer_options,
    combine_options,
    declared_options,
    drop_unset,
    print_answer,
    print_json,
    read_argument,
    secret_options,
    style,
)
from memorist.engine.documents import Documents
from memorist.errors import InvalidInput
from memorist.file_records import DocumentHit
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
from memorist.reports import IndexProgress, IndexReport

_NO_FILES = "No files are indexed; `memorist index PATH` indexes them."

_paths_argument = click.argument("paths", metavar="PATH...", nargs=-1, required=True, shell_complete=complete_path)
_index_options = combine_options(
    click.option("--project", help="The project that the files belong to."),
    click.option("--include", multiple=True, metavar="GLOB", help="Only files that match (repeat for any of several)."),
    click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out files that match."),
    secret_options,
)


@click.command("index")
@_paths_argument
@_index_options
@click.option("--remove", is_flag=True, help="Remove files, or all files of a folder, from the index.")
@click.option("--verbose", "-v", is_flag=True, help="Name every skipped file and where each secret was.")
@answer_options
def index_command(
    context: CommandContext, /, paths: tuple[str, ...], remove: bool, verbose: bool, as_json: bool, **options: Any
) -> int:
    """
    Index files and folders, reading only what has changed. Files that are gone leave the index; `memorist docs`
    searches it. If it is stopped, the next run continues from there.

    \b
    Example:
        memorist index docs README.md --project api
        memorist index . --include "*.md" --exclude drafts/
        memorist index --remove docs/old
    """
    options = drop_unset(options)
    if remove:
        if options:
            raise click.UsageError("--remove takes only paths")
        return _remove_files(context, paths, as_json)
    bar = ProgressBar("Indexing", unit="files")
    with context.open(create=True) as memory:
        try:
            with bar:
                report: IndexReport = memory.documents.index(
                    list(paths),
                    progress=partial(_show_progress, bar),
                    **{"project": context.loaded.settings.project} | options,
                )
        except KeyboardInterrupt:
            done = f"{bar.done:,} of {bar.total:,} files are done. " if bar.total else ""
            click.echo(f"Stopped. {done}Run it again to continue from there.", err=True)
            return 130
    if report.quiet and not report.unchanged:
        raise InvalidInput(_explain_nothing(report, options.get("include", ())))
    print_answer(as_json, record_json(report), [report_line(report), *report_lines(report, verbose=verbose)])
    return 0


def _show_progress(bar: ProgressBar, now: IndexProgress) -> None:
    bar(now.files, now.total_files, f"{count_of(now.chunks, 'chunk')} embedded" if now.chunks else "")


def _explain_nothing(report: IndexReport, include: Sequence[str]) -> str:
    """Return a message that nothing was indexed, with the commonest reasons."""
    empty = [
        f"{display_path(path)}: {reason}" for path, reason in report.skipped if reason.startswith("nothing to index")
    ]
    others = Counter(reason for _, reason in report.skipped if not reason.startswith("nothing to index"))
    reasons = [f"{count} × {reason}" for reason, count in others.most_common(3)]
    if include and not reasons:
        reasons = [f"no file matches --include {' or '.join(map(repr, include))}"]
    return "; ".join([*(empty[:3] or ["nothing to index"]), *reasons])


def _remove_files(context: CommandContext, paths: tuple[str, ...], as_json: bool) -> int:
    with context.open(embedder="none") as memory:
        removed = {path: memory.documents.remove(path) for path in paths}
    if as_json:
        print_json({"removed": sum(removed.values())})
    for path, count in removed.items():
        if count and not as_json:
            click.echo(f"Removed {count_of(count, 'file')} from the index: {printable(path)}")
        elif not count:
            click.echo(f"Error: not indexed: {printable(path)}; `memorist docs --list` lists what is", err=True)
    return 0 if all(removed.values()) else 1


@click.command("watch")
@_paths_argument
@_index_options
@answer_options
def watch_command(context: CommandContext, /, paths: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """
    Index files and folders whenever they change. It runs until Ctrl-C and prints a line each time it has indexed
    something. If changes go unnoticed, as on some network drives, set WATCHFILES_FORCE_POLLING=1.

    \b
    Example:
        memorist watch docs notes --project api
    """
    options = {"project": context.loaded.settings.project} | drop_unset(options)
    stop = threading.Event()
    known: frozenset[tuple[str, str]] | None = None
    with _stop_on_signals(stop), context.open(create=True) as memory:
        for report in memory.documents.watch(list(paths), stop=stop, **options):
            if as_json:
                print_json(record_json(report), indent=None)
                continue
            click.echo(f"{datetime.now():%H:%M:%S}  {report_line(report)}")
            if known is None:  # the first time, skipped files are counted by reason, as `index` does
                for line in report_lines(report, verbose=False):
                    click.echo(line)
            else:
                for path, reason in (skipped for skipped in report.skipped if skipped not in known):
                    click.echo(f"          {display_path(path)}: {printable(reason)}")
            known = frozenset(report.skipped)


@contextmanager
def _stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Set `stop` on Ctrl-C or SIGTERM; a second signal ends the program at once."""
    signals = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in signals}

    def request_stop(number: int, frame: object) -> None:
        stop.set()
        signal.signal(number, handlers[signal.Signals(number)])

    for number in signals:
        signal.signal(number, request_stop)
    try:
        yield
    finally:
        for number in signals:
            signal.signal(number, handlers[number])


@click.command("docs")
@click.argument("query", required=False)
@click.option("--list", "list_files", is_flag=True, help="List the indexed files.")
@click.option(
    "--links",
    metavar="PATH",
    shell_complete=complete_path,
    help="Show the links of a file, and which files link to it.",
)
@declared_options(Documents.search, only=["project", "sector", "tags", "since", "until"])
@click.option("--limit", "-n", type=int, help="How many (1..1000; default 10; with --list, all).")
@declared_options(Documents.search, only=["mode", "neighbours"])
@answer_options
def docs_command(
    context: CommandContext, /, query: str | None, list_files: bool, links: str | None, as_json: bool, **options: Any
) -> None:
    """
    Search indexed files, or list them. QUERY may contain "phrases" and prefixes*; - reads standard input.

    \b
    Example:
        memorist docs "how are retries capped?"
        memorist docs deploy --project api --neighbours 1
        memorist docs --list
        memorist docs --links docs/retries.md
    """
    options = drop_unset(options)
    if links is not None:
        if query is not None or list_files or options:
            raise click.UsageError("--links shows the links of one file; it takes no query and no other option")
        _print_links(context, links, as_json)
        return
    if list_files:
        if query is not None or set(options) - {"project", "limit"}:
            raise click.UsageError("--list lists all files; it takes no query, only --project and --limit")
        _print_files(context, options, as_json)
        return
    query = read_argument(query or "")
    if not query.strip():
        raise click.UsageError("the query is empty; `memorist docs --list` lists the indexed files")
    with context.open() as memory:
        results = memory.documents.search(query, **options)
        any_files = bool(results) or bool(memory.documents.list(limit=1))
    if as_json:
        print_json(results_json(results, explain=False))
        return
    for place, hit in enumerate(results, 1):
        assert isinstance(hit, DocumentHit)  # a search of files finds nothing else
        click.echo(document_hit_text(place, hit, style(), whole=bool(options.get("neighbours"))))
    if not results:
        click.echo("Nothing found." if any_files else _NO_FILES, err=True)
    elif not results.relevant:
        click.echo(NOTHING_RELEVANT, err=True)
    if results.degraded:
        print_note(results.degraded)


def _print_files(context: CommandContext, options: dict[str, Any], as_json: bool) -> None:
    projects = dict.fromkeys(options.pop("project", (None,)))
    options.setdefault("limit", 1_000_000_000)
    with context.open(embedder="none") as memory:
        found = [document for project in projects for document in memory.documents.list(project=project, **options)]
    documents = sorted(found, key=lambda document: document.path)[: options["limit"]]
    print_answer(
        as_json,
        {"documents": [document_json(document) for document in documents]},
        (document_line(document, style()) for document in documents),
        _NO_FILES if None in projects else "No files of this project are indexed.",
    )


def _print_links(context: CommandContext, path: str, as_json: bool) -> None:
    with context.open(embedder="none") as memory:
        document = memory.documents.find(path)
    lines = [document_line(document, style())]
    for link in document.links:
        target = display_path(link.path) if link.path else f"{printable(link.target)} (not indexed)"
        lines.append(f"  {link.line:>5}  {target}")
    lines += [f"  from   {display_path(source)}" for source in document.linked_from]
    print_answer(as_json, record_json(document), lines)
