"""What an agent should know before it answers."""

from typing import Any

import click

from memorist.cli.app import Session
from memorist.cli.options import given, json_option, print_json, switch, text_from


@click.command("context")
@click.argument("message", required=False)
@click.option("--budget", type=int, help="How many tokens at most (default 2000).")
@click.option("--limit", "-n", type=int, help="How many memories at most, besides pinned ones (default 5).")
@click.option("--min-relevance", type=float, help="Only what is at least so likely to be about it (default 0.25).")
@click.option("--project", help="Only of this project, and what belongs to none or is global.")
@click.option("--recent", type=int, help="Without a message: how many of the latest memories (default 10).")
@switch("--no-core", "core", sets=False, help="Without the pinned memories.")
@switch("--no-documents", "documents", sets=False, help="Without places in indexed files.")
@json_option
@click.pass_obj
def context_command(session: Session, /, message: str | None, as_json: bool, **options: Any) -> None:
    """
    Print what memories know about MESSAGE, as a block for an agent's prompt; nothing where nothing is relevant.

    Without a message, print what to know before one: pinned memories, and the latest ones. `-` reads the message from
    standard input.

    \b
    Example:
        memorist context "how do we ship code?" --project api --budget 1000
        memorist context --project api
    """
    asked = given(options)
    wrong = ("recent",) if message is not None else ("limit", "min_relevance", "documents")
    for name in wrong:
        if name in asked:
            flag = "--no-documents" if name == "documents" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} has no meaning {'with' if message is not None else 'without'} a message")
    if message == "-":
        message = text_from("-")
    with session.open() as memory:
        block = memory.briefing(**asked) if message is None else memory.context(message, **asked)
    if as_json:
        from memorist.embed.tokens import count_tokens

        print_json({"message": message, "context": block, "tokens": count_tokens(block) if block else 0})
    elif block:
        click.echo(block)
    else:
        click.echo("Nothing relevant.", err=True)
