"""Memories carried elsewhere and back: export, import, backup."""

import sys
from pathlib import Path
from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import ProgressBar, given, json_option, print_json, secrets
from memorist.config import nothing_at
from memorist.documents import ImportReport
from memorist.errors import InvalidInput
from memorist.present.render import count_of, printable, record_json

SHOWN = 20  # of what was passed over


@click.command("export")
@click.argument("file", metavar="FILE")
@click.option("--format", "form", help="jsonl (all there is, to be imported again; default) or markdown (a folder).")
@click.option("--vectors", is_flag=True, help="With the vectors, which can be made again from the texts.")
@json_option
@click.pass_obj
def export_command(session: CommandContext, /, file: str, form: str | None, vectors: bool, as_json: bool) -> None:
    """
    Write everything to FILE, or as markdown to a folder. - is standard output.

    \b
    Example:
        memorist export memories.jsonl
        memorist export - | gzip > memories.jsonl.gz
        memorist export notes --format markdown
    """
    wanted = form or "jsonl"
    if file == "-" and wanted != "jsonl":
        raise click.UsageError("markdown is a folder of files; name one")
    if file == "-" and as_json:
        raise click.UsageError("standard output is where the export goes; --json needs a file for it")
    with session.open(embedder="none") as memory, ProgressBar("Exporting") as bar:
        target: Any = sys.stdout.buffer if file == "-" else file
        done = memory.export(target, format=wanted, vectors=vectors, progress=bar)
    if as_json:
        print_json({"path": file, "format": wanted, "exported": done})
        return
    what = count_of(done, "record") if wanted == "jsonl" else count_of(done, "memory", "memories")
    click.echo(f"Exported {what} to {printable(file)}.", err=True)


@click.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--format", "form", help="memorist, markdown, mem0 or a format of conversations (default: found out).")
@click.option("--project", help="The project they belong to.")
@click.option("--tools", is_flag=True, help="Of conversations, the calls and results of tools, too.")
@secrets
@json_option
@click.pass_obj
def import_command(
    session: CommandContext, /, paths: tuple[str, ...], form: str | None, as_json: bool, **wanted: Any
) -> None:
    """
    Take in an export, a folder of markdown notes (as of basic-memory), a JSON list of memories (as of mem0), or
    conversations; files may be packed with gzip, and - is standard input. What is there stays as it is; doing it again
    changes nothing.

    \b
    Example:
        memorist import memories.jsonl
        memorist import ~/notes --project home
        memorist import conversations.json --tools
        gunzip -c memories.jsonl.gz | memorist import -
    """
    reports: list[dict[str, Any]] = []
    try:
        with session.open(create=True) as memory:
            for path in paths:
                source: Any = sys.stdin.buffer if path == "-" else path
                with ProgressBar("Importing") as bar:
                    report = memory.import_(source, format=form, progress=bar, **given(wanted))
                reports.append({"path": path} | record_json(report))
                if not as_json:
                    _tell(path, report)
    finally:  # where a later one fails, too: the earlier ones are in
        if as_json and reports:
            print_json({"imports": reports})


def _tell(path: str, report: ImportReport) -> None:
    sessions = f", {count_of(report.sessions, 'session')}" if report.sessions else ""
    numbers = f"{report.added:,} added{sessions}, {report.known:,} known already"
    click.echo(f"{printable(path)} ({report.format}): {numbers}.")
    if report.redacted:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.redacted.items()))
        click.echo(f"Redacted: {kinds}. `--allow TEXT` leaves what is no secret.", err=True)
    for place, reason in report.skipped[:SHOWN]:
        click.echo(f"Skipped {printable(str(place))}: {printable(reason)}", err=True)
    if len(report.skipped) > SHOWN:
        click.echo(f"... and {len(report.skipped) - SHOWN} more; --json lists all.", err=True)


@click.group("backup")
def backup_command() -> None:
    """
    Copy the whole database, while others use it, and put a copy back.

    \b
    Example:
        memorist backup create memory-monday.db
        memorist backup restore memory-monday.db --force
    """


@backup_command.command("create")
@click.argument("file", metavar="FILE")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@json_option
@click.pass_obj
def create_command(session: CommandContext, /, file: str, force: bool, as_json: bool) -> None:
    """
    Copy the database to FILE, as it is at this moment, and check the copy.

    \b
    Example:
        memorist backup create memory-monday.db
    """
    if session.target == ":memory:" or nothing_at(Path(session.target)):
        raise InvalidInput(f"there is no database at {session.target} yet: nothing to back up")
    with session.open(embedder="none") as memory:
        memory.backup(file, overwrite=force)
    size = Path(file).stat().st_size
    if as_json:
        print_json({"path": file, "bytes": size})
    else:
        click.echo(f"Backed up to {printable(file)}: checked, {size:,} bytes.")


@backup_command.command("restore")
@click.argument("file", metavar="FILE")
@click.option("--force", is_flag=True, help="Put it in the place of a database that is there, which is kept beside it.")
@json_option
@click.pass_obj
def restore_command(session: CommandContext, /, file: str, force: bool, as_json: bool) -> None:
    """
    Make the database what the backup FILE holds, all namespaces of it. What was there is kept beside it, as
    memory.db.before-restore, each time in a file of its own.

    \b
    Example:
        memorist backup restore memory-monday.db --force
    """
    from memorist.engine import restore_backup

    target = session.target
    if target == ":memory:" or "://" in target:
        raise InvalidInput(f"a backup is restored to a file, not to {target}")
    timeout = session.loaded.settings.busy_timeout
    kept = restore_backup(file, target, overwrite=force, busy_timeout=timeout)
    if as_json:
        print_json({"path": file, "restored_to": target, "kept": None if kept is None else str(kept)})
        return
    click.echo(f"Restored {printable(file)} to {printable(target)}.")
    if kept is not None:
        click.echo(f"What was there is kept as {printable(str(kept))}.")
