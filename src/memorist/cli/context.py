"""The command that prints context for an agent's prompt."""

from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import drop_unset, flag_option, json_option, print_json, read_argument


@click.command("context")
@click.argument("message", required=False)
@click.option("--budget", type=int, help="How many tokens at most (default 2000).")
@click.option("--limit", "-n", type=int, help="How many memories at most, besides pinned ones (default 5).")
@click.option("--min-relevance", type=float, help="Only memories at least this relevant (default 0.25).")
@click.option("--project", help="Only this project, and what is global or belongs to no project.")
@click.option("--recent", type=int, help="Without a message: how many of the latest memories (default 10).")
@flag_option("--no-core", "core", sets=False, help="Leave out pinned memories.")
@flag_option("--no-documents", "documents", sets=False, help="Leave out indexed files.")
@json_option
@click.pass_obj
def context_command(context: CommandContext, /, message: str | None, as_json: bool, **options: Any) -> None:
    """
    Print relevant memories as a block for an agent's prompt. If nothing is relevant to MESSAGE, nothing is printed.

    Without a message, print what to know before one: pinned memories and the latest ones. With - as MESSAGE, it is
    read from standard input.

    \b
    Example:
        memorist context "how do we ship code?" --project api --budget 1000
        memorist context --project api
    """
    options = drop_unset(options)
    for name in ("recent",) if message is not None else ("limit", "min_relevance", "documents"):
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
