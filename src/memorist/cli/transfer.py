"""Commands that move memories: export, import, backup, migrate, salvage."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from memorist.cli.app import CommandContext, CommandGroup, complete_path
from memorist.cli.options import ProgressBar, answer_options, drop_unset, print_answer, print_json, secret_options
from memorist.config import is_file_path, is_missing_or_empty
from memorist.errors import InvalidInput, MissingExtra
from memorist.present.render import count_of, printable, printable_json, record_json
from memorist.reports import DiscoveredSource, ImportReport, MigrationReport

_MAX_REASONS = 20  # that are shown
_MAX_REASON_CHARACTERS = 1000
_STAGES = ("comparing", "copying", "verifying")
_PLURALS = {"memory": "memories", "lens": "lenses", "feedback": "feedback"}  # those without an s

_file_argument = click.argument("file", metavar="FILE", shell_complete=complete_path)


@click.command("export")
@_file_argument
@click.option("--format", "format_name", help="jsonl (everything, can be imported; default) or markdown (a folder).")
@click.option("--vectors", is_flag=True, help="Include the vectors, which can be computed again from the texts.")
@answer_options
def export_command(
    context: CommandContext, /, file: str, format_name: str | None, vectors: bool, as_json: bool
) -> None:
    """
    Export everything to a file, or to a folder of Markdown. With - as FILE, it is written to standard output.

    \b
    Example:
        memorist export memories.jsonl
        memorist export - | gzip > memories.jsonl.gz
        memorist export notes --format markdown
    """
    format_name = format_name or "jsonl"
    if file == "-" and format_name != "jsonl":
        raise click.UsageError("markdown is a folder of files; name one")
    if file == "-" and as_json:
        raise click.UsageError("the export goes to standard output; --json needs a file instead of -")
    with context.open(embedder="none") as memory, ProgressBar("Exporting") as bar:
        target = _open_stdout() if file == "-" else file
        done = memory.transfer.export(target, format=format_name, vectors=vectors, progress=bar)
    if as_json:
        print_json({"path": file, "format": format_name, "exported": done})
        return
    count = count_of(done, "record") if format_name == "jsonl" else count_of(done, "memory", "memories")
    click.echo(f"Exported {count} to {printable(file)}.", err=True)


def _open_stdout() -> Any:
    """Return standard output for bytes; on a terminal, one that escapes control characters of texts."""
    return _TerminalWriter() if sys.stdout.isatty() else sys.stdout.buffer


class _TerminalWriter:
    """Writes JSON to a terminal, with control characters escaped."""

    def write(self, line: bytes) -> int:
        sys.stdout.write(printable_json(line.decode()))
        return len(line)


@click.command("import")
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=complete_path)
@click.option("--format", "format_name", help="The format, such as markdown, mem0 or codex (default: detected).")
@click.option("--project", help="The project they belong to.")
@click.option("--tools", is_flag=True, help="Also import the tool calls and results of conversations.")
@click.option("--discover", is_flag=True, help="List what other programs keep here, and offer to import it.")
@click.option("--yes", is_flag=True, help="With --discover: import it without asking.")
@secret_options
@answer_options
def import_command(
    context: CommandContext,
    /,
    paths: tuple[str, ...],
    format_name: str | None,
    discover: bool,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """
    Import exports, notes, memories and conversations. Notes are a folder of Markdown (such as basic-memory's), memories
    a JSON list (such as mem0's). Files may be compressed with gzip; - reads standard input. Existing memories stay as
    they are, and importing a file again changes nothing.

    With --discover, PATH names programs instead (codex, zed ...); without any, all that are known are looked for.

    \b
    Example:
        memorist import memories.jsonl
        memorist import ~/notes --project home
        memorist import conversations.json --tools
        memorist import --discover
        memorist import --discover codex cursor --yes
        gunzip -c memories.jsonl.gz | memorist import -
    """
    if discover and format_name:
        raise click.UsageError("--discover knows the formats; name programs instead of --format")
    if not discover and (yes or not paths):
        raise click.UsageError("--yes is for --discover" if paths else "name what to import, or use --discover")
    run = _Import(context, as_json, drop_unset(options))
    if discover:
        run.discover(paths, yes)
    else:
        run.import_paths([(path, format_name) for path in paths])


class _Import(Struct):
    """A run of `memorist import`."""

    context: CommandContext
    as_json: bool
    options: dict[str, Any]

    def import_paths(self, paths: Sequence[tuple[str, str | None]]) -> None:
        """Import paths, each in its format, and print a report of each."""
        reports: list[dict[str, Any]] = []
        try:
            with self.context.open(create=True) as memory:
                for path, format in paths:
                    report = self._import(memory, path, format)
                    reports.append({"path": path} | record_json(report))
                    if not self.as_json:
                        _print_report(path, report)
        finally:  # if a later file fails, the earlier ones are imported
            if self.as_json and reports:
                print_json({"imports": reports})

    def discover(self, programs: Sequence[str], yes: bool) -> None:
        """List what there is, and import it if the user says so."""
        with self.context.open(embedder="none") as memory:
            sources = memory.transfer.discover(programs, tools=self.options.get("tools", False))
        new = [source for source in sources if source.new]
        if not self.as_json:
            _print_sources(sources)
        if not yes:
            if self.as_json:
                print_json({"sources": [record_json(source) for source in sources]})
            if self.as_json or not new or not _asks_to_import(new):
                return
        reports = self._import_sources(new)
        if self.as_json:
            listed = [record_json(source) for source in sources]
            print_json({"sources": listed, "imports": [record_json(report) for report in reports]})

    def _import_sources(self, sources: Sequence[DiscoveredSource]) -> list[ImportReport]:
        """Import each path of some programs; one that cannot be read is reported, and the others are imported."""
        reports: list[ImportReport] = []
        if not sources:
            return reports
        with self.context.open(create=True) as memory:
            for source in sources:
                for path in source.paths:
                    try:
                        report = self._import(memory, path, source.program)
                    except (InvalidInput, MissingExtra) as exc:
                        report = ImportReport(source.program, skipped=((path, str(exc)),))
                    reports.append(report)
                    if not self.as_json and (report.added or report.skipped):
                        _print_report(path, report)
        return reports

    def _import(self, memory: Any, path: str, format: str | None) -> ImportReport:
        source: Any = sys.stdin.buffer if path == "-" else path
        with ProgressBar("Importing") as bar:
            report: ImportReport = memory.transfer.import_(source, format=format, progress=bar, **self.options)
        return report


def _print_sources(sources: Sequence[DiscoveredSource]) -> None:
    if not sources:
        click.echo("Nothing found that other programs keep on this machine.", err=True)
    for source in sources:
        place = printable(source.paths[0]) + (f" and {len(source.paths) - 1} more" if len(source.paths) > 1 else "")
        noun = ("memory", "memories") if source.kind == "memories" else ("conversation", "conversations")
        click.echo(f"{source.title:<19} {count_of(source.total, *noun):>20}, {source.new:>5,} new   {place}")
        _print_reasons("Skipped", source.skipped)


def _asks_to_import(sources: Sequence[DiscoveredSource]) -> bool:
    """Ask whether to import; without a terminal, say how to."""
    if not sys.stdin.isatty():
        click.echo("`memorist import --discover --yes` imports what is new.", err=True)
        return False
    count = sum(source.new for source in sources)
    return click.confirm(f"Import what is new ({count:,})?", err=True)


def _print_report(path: str, report: ImportReport) -> None:
    sessions = f", {count_of(report.sessions, 'session')}" if report.sessions else ""
    counts = f"{report.added:,} added{sessions}, {report.known:,} already known"
    click.echo(f"{printable(path)} ({report.format}): {counts}.")
    if report.redacted:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.redacted.items()))
        click.echo(f"Redacted: {kinds}. `--allow TEXT` keeps what is not a secret.", err=True)
    _print_reasons("Skipped", report.skipped)


def _print_reasons(outcome: str, places: Sequence[tuple[str, str]]) -> None:
    """Print on stderr the first places that something befell, each with the reason."""
    for place, reason in places[:_MAX_REASONS]:
        click.echo(f"{outcome} {printable(str(place))}: {printable(reason[:_MAX_REASON_CHARACTERS])}", err=True)
    if len(places) > _MAX_REASONS:
        click.echo(f"... and {len(places) - _MAX_REASONS} more; --json lists all.", err=True)


@click.group("backup", cls=CommandGroup)
def backup_command() -> None:
    """
    Copy the whole database, or restore a copy. Other programs may use the database meanwhile.

    \b
    Example:
        memorist backup create memory-monday.db
        memorist backup restore memory-monday.db --force
    """


@backup_command.command("create")
@_file_argument
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@answer_options
def _create_backup(context: CommandContext, /, file: str, force: bool, as_json: bool) -> None:
    """
    Copy the database to FILE and check the copy.

    \b
    Example:
        memorist backup create memory-monday.db
    """
    if context.target == ":memory:" or is_missing_or_empty(context.target):
        raise InvalidInput(f"there is no database at {context.target} yet: nothing to back up")
    with context.open(embedder="none") as memory:
        memory.transfer.backup(file, overwrite=force)
    size = Path(file).stat().st_size
    line = f"Backed up to {printable(file)}: checked, {size:,} bytes."
    print_answer(as_json, {"path": file, "bytes": size}, line)


@backup_command.command("restore")
@_file_argument
@click.option("--force", is_flag=True, help="Replace an existing database, which is kept beside it.")
@answer_options
def _restore_backup(context: CommandContext, /, file: str, force: bool, as_json: bool) -> None:
    """
    Replace the database with the backup FILE and all its namespaces. The old database is kept beside it as
    memory.db.before-restore, each time in a new file.

    \b
    Example:
        memorist backup restore memory-monday.db --force
    """
    from memorist.engine import restore_backup

    target = context.target
    if not is_file_path(target):
        raise InvalidInput(f"a backup can only be restored to a file, not to {target}")
    kept = restore_backup(file, target, overwrite=force, busy_timeout=context.loaded.settings.busy_timeout)
    lines = [f"Restored {printable(file)} to {printable(target)}."]
    lines += [f"The old database is kept as {printable(str(kept))}."] if kept else []
    print_answer(as_json, {"path": file, "restored_to": target, "kept": str(kept) if kept else None}, lines)


@click.command("migrate")
@click.argument("source", metavar="FROM", shell_complete=complete_path)
@click.argument("target", metavar="TO", shell_complete=complete_path)
@click.option("--namespace", metavar="NAME", help="Copy this namespace (default: the setting).")
@click.option("--all-namespaces", is_flag=True, help="Copy every namespace. From PostgreSQL, only a superuser can.")
@click.option("--keep-going", is_flag=True, help="Copy what can be read of damaged records, and list them.")
@answer_options
def migrate_command(
    context: CommandContext,
    /,
    source: str,
    target: str,
    namespace: str | None,
    all_namespaces: bool,
    keep_going: bool,
    as_json: bool,
) -> int:
    """
    Copy memories from one database to another, SQLite or PostgreSQL. FROM and TO are files or postgresql://
    addresses. Everything is copied, also vectors, and compared before the command says that it is done. FROM is only
    read. TO must be empty; after an interruption, run the same command again to go on. The exit code is 1 if a record
    was damaged.

    \b
    Example:
        memorist migrate memory.db postgresql://memorist@db.example.com/memorist
        memorist migrate postgresql://memorist@db.example.com/memorist memory.db --namespace team
    """
    from memorist.engine import list_namespaces

    if namespace is not None and all_namespaces:
        raise click.UsageError("--namespace names one, --all-namespaces copies all; leave one of them out")
    settings, reports = context.loaded.settings, list[MigrationReport]()
    source, target = (os.path.expanduser(name) if is_file_path(name) else name for name in (source, target))
    timeout = settings.busy_timeout
    names = list_namespaces(source, busy_timeout=timeout) if all_namespaces else [namespace or settings.namespace]
    try:
        for name in names:
            report = _migrate_namespace(source, target, namespace=name, keep_going=keep_going, busy_timeout=timeout)
            reports.append(report)
            if not as_json:
                _print_migration(report)
    except KeyboardInterrupt:
        click.echo("What was copied stays. Run the same command again to go on.", err=True)
        raise
    finally:  # if a later namespace fails, the earlier ones are copied
        if as_json and reports:
            print_json({"migrations": [{**record_json(report), "verified": True} for report in reports]})
    if not names:
        raise InvalidInput(f"there is nothing to copy: {printable(source)} has no memories")
    return 1 if any(report.damaged for report in reports) else 0


def _migrate_namespace(source: str, target: str, **options: Any) -> MigrationReport:
    """Copy a namespace, with a progress bar for each stage."""
    from memorist.engine import migrate

    with ExitStack() as stack:
        bars = {stage: stack.enter_context(ProgressBar(stage.capitalize())) for stage in _STAGES}
        return migrate(source, target, progress=lambda stage, done, total: bars[stage](done, total), **options)


def _print_migration(report: MigrationReport) -> None:
    kinds = ", ".join(count_of(count, type, _PLURALS.get(type)) for type, count in report.records.items())
    before = f" ({report.present:,} of them by an earlier run)" if report.present else ""
    total = count_of(sum(report.records.values()), "record")
    click.echo(f"Copied {total} of the namespace {printable(report.namespace)}{before}: {kinds}.")
    click.echo(f"Verified: the copy has the same records (SHA-256 {report.sha256[:16]}…), {report.seconds:.1f} s.")
    _print_reasons("Damaged:", report.damaged)


@click.command("salvage")
@click.argument("damaged", metavar="DAMAGED", shell_complete=complete_path)
@click.argument("new", metavar="NEW", shell_complete=complete_path)
@answer_options
def salvage_command(context: CommandContext, /, damaged: str, new: str, as_json: bool) -> int:
    """
    Copy what can be read in a damaged database to a new file. DAMAGED stays as it is. The exit code is 1 if anything
    was lost.

    \b
    Example:
        memorist salvage memory.db salvaged.db
    """
    from memorist.engine import salvage

    report = salvage(damaged, new, busy_timeout=context.loaded.settings.busy_timeout)
    kept = ", ".join(f"{table.replace('_', ' ')} {count:,}" for table, count in report.kept.items() if count)
    lines = [f"Salvaged to {printable(new)}: {kept}."]
    lines += [f"lost: {printable(line)}" for line in report.lost]
    lines += [f"damaged: {printable(problem)}" for problem in report.problems]
    print_answer(as_json, {"path": new} | record_json(report), lines)
    return 1 if report.lost or report.problems else 0
