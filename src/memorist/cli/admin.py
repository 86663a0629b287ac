"""Looking after a memory: numbers, soundness, vectors, settings."""

import os
from pathlib import Path

import click

from memorist import config
from memorist.cli.app import Session
from memorist.cli.options import Bar, embedder_option, json_option, print_json
from memorist.present.render import counted, record_json


@click.command("stats")
@json_option
@click.pass_obj
def stats_command(session: Session, /, as_json: bool) -> None:
    """
    Show how much there is, and of what.

    \b
    Example:
        memorist stats --json
    """
    with session.open() as memory:
        stats = record_json(memory.stats()) | {"path": session.target}
    if as_json:
        print_json(stats)
        return
    models = stats.pop("models")
    for name, value in stats.items():
        click.echo(f"{name.replace('_', ' '):<14} {'-' if value is None else value}")
    for model, count in models.items():
        click.echo(f"{'':<14} {count} vectors of {model}")


@click.command("check")
@click.option("--repair", is_flag=True, help="Make anew what does not agree with the text.")
@json_option
@click.pass_obj
def check_command(session: Session, /, repair: bool, as_json: bool) -> int:
    """
    Check the database, its indexes and its vectors. The exit code is 1 where something is left broken.

    \b
    Example:
        memorist check --repair
    """
    with session.open(embedder=None if repair else "none") as memory:
        report = memory.check(repair=repair)
    if as_json:
        print_json(record_json(report))
    else:
        for problem in report.problems:
            click.echo(f"{'repaired' if problem in report.repaired else 'broken'}: {problem}")
        for part in report.skipped:
            click.echo(f"skipped: {part}")
        if report.ok:
            click.echo(
                f"All is well: {counted(report.memories, 'memory', 'memories')}, {counted(report.vectors, 'vector')}."
            )
        elif not repair:
            click.echo("`memorist check --repair` makes indexes and vectors anew.", err=True)
    return 0 if report.ok else 1


@click.command("reembed")
@embedder_option
@click.option("--prune", is_flag=True, help="Remove the vectors of all other models when it is done.")
@json_option
@click.pass_obj
def reembed_command(session: Session, /, embedder: str | None, prune: bool, as_json: bool) -> None:
    """
    Make missing vectors, or all of them with another model. Stopped at any point, it goes on from there.

    \b
    Example:
        memorist reembed --embedder local:bge-small
    """
    with session.open(embedder=embedder) as memory:
        stats = memory.stats()
        missing = stats.pending + stats.chunks_pending
        with Bar("Embedding", missing) as bar:
            done = memory.reembed(prune=prune, progress=bar)
    if as_json:
        print_json({"embedded": done})
    else:
        click.echo(f"Made {counted(done, 'vector')}.")


@click.group("config", invoke_without_command=True)
@json_option
@click.pass_context
def config_command(context: click.Context, as_json: bool) -> None:
    """
    Show or change settings.

    \b
    Example:
        memorist config
        memorist config set profile rank
    """
    if context.invoked_subcommand:
        return
    loaded = context.obj.loaded
    values = record_json(loaded.settings)
    values |= {name: "(set)" for name in config.SECRETS if values[name] is not None}
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        click.echo(f"{name:<13} {'-' if value is None else value!s:<24} {loaded.origins.get(name, 'default')}")
    click.echo(f"Your settings: {config.user_file(os.environ)}", err=True)


@config_command.command("set")
@click.argument("name")
@click.argument("value")
@click.option("--project", is_flag=True, help="In memorist.toml of this folder, not in your own settings.")
def set_command(name: str, value: str, project: bool) -> None:
    """
    Change a setting.

    \b
    Example:
        memorist config set embedder ollama:nomic-embed-text
    """
    file = Path.cwd() / config.PROJECT_FILE if project else config.user_file(os.environ)
    if name in config.SECRETS:
        raise click.UsageError(f"a secret on a command line is seen by others: write {name} into {file} by hand")
    config.write(file, name, value, of_project=project)
    click.echo(f"{name} = {value}  ({file})")
