"""Commands that look after the database: statistics, integrity, vectors."""

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import ProgressBar, embedder_option, json_option, print_json
from memorist.present.render import count_of, record_json


@click.command("stats")
@json_option
@click.pass_obj
def stats_command(context: CommandContext, /, as_json: bool) -> None:
    """
    Show how much is stored.

    \b
    Example:
        memorist stats --json
    """
    with context.open() as memory:
        stats = record_json(memory.stats()) | {"path": context.target}
    if as_json:
        print_json(stats)
        return
    models = stats.pop("models")
    for name, value in stats.items():
        click.echo(f"{name.replace('_', ' '):<14} {'-' if value is None else value}")
    for model, count in models.items():
        click.echo(f"{'':<14} {count} vectors of {model}")


@click.command("check")
@click.option("--repair", is_flag=True, help="Rebuild what does not agree with the text.")
@json_option
@click.pass_obj
def check_command(context: CommandContext, /, repair: bool, as_json: bool) -> int:
    """
    Check the database, its indexes and its vectors. The exit code is 1 if anything is left broken.

    \b
    Example:
        memorist check --repair
    """
    with context.open(embedder=None if repair else "none") as memory:
        report = memory.check(repair=repair)
    if as_json:
        print_json(record_json(report))
    else:
        for problem in report.problems:
            click.echo(f"{'repaired' if problem in report.repaired else 'broken'}: {problem}")
        for part in report.skipped:
            click.echo(f"skipped: {part}")
        if report.ok:
            counts = f"{count_of(report.memories, 'memory', 'memories')}, {count_of(report.vectors, 'vector')}"
            click.echo(f"All is well: {counts}.")
        elif not repair:
            click.echo("`memorist check --repair` rebuilds indexes and vectors.", err=True)
    return 0 if report.ok else 1


@click.command("reembed")
@embedder_option
@click.option("--prune", is_flag=True, help="Then remove the vectors of all other models.")
@json_option
@click.pass_obj
def reembed_command(context: CommandContext, /, embedder: str | None, prune: bool, as_json: bool) -> None:
    """
    Compute missing vectors, or all of them with another model. If it is stopped, the next run continues from there.

    \b
    Example:
        memorist reembed --embedder local:bge-small
    """
    with context.open(embedder=embedder) as memory:
        stats = memory.stats()
        with ProgressBar("Embedding", stats.pending + stats.chunks_pending) as bar:
            done = memory.reembed(prune=prune, progress=bar)
    if as_json:
        print_json({"embedded": done})
    else:
        click.echo(f"Computed {count_of(done, 'vector')}.")
