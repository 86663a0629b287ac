"""Commands on sessions."""

from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.groups import CommandGroup
from memorist.cli.options import drop_unset, flag_option, json_option, print_json, print_redacted, style
from memorist.present.render import local_time, memory_json, memory_line, session_json, session_line, timestamp
from memorist.records import Session


@click.group("session", cls=CommandGroup, default_command="list")
def session_command() -> None:
    """
    Start, end and list sessions. A session is a conversation or a piece of work in which memories are added and used.

    \b
    Example:
        id=$(memorist session start --project api)
        memorist add "Retries are capped at 5" --session $id
        memorist session end $id --summary "Looked into retries"
    """


@session_command.command("start")
@click.option("--project", help="The project it is about.")
@click.option("--id", "id", help="An id of your own.")
@click.option("--summary", help="What it is about.")
@json_option
@click.pass_obj
def start_command(context: CommandContext, /, as_json: bool, **options: Any) -> None:
    """
    Start a session and print its id. Pass it to `add --session` and `search --record-session`.

    \b
    Example:
        memorist session start --project api --summary "Looking into retries"
    """
    with context.open(create=True, embedder="none") as memory:
        started = memory.start_session(**{"project": context.loaded.settings.project} | drop_unset(options))
    print_redacted(context.redaction().report_secrets({"summary": options["summary"]}))
    if as_json:
        print_json(session_json(started))
    else:
        click.echo(started.id)


@session_command.command("end")
@click.argument("id")
@click.option("--summary", help="What it was about.")
@json_option
@click.pass_obj
def end_command(context: CommandContext, /, id: str, summary: str | None, as_json: bool) -> None:
    """
    End a session; no more memories can be added to it.

    \b
    Example:
        memorist session end 5f09a972 --summary "Retries are capped now"
    """
    with context.open(embedder="none") as memory:
        _print_session(memory.end_session(id, summary), "Ended", as_json)
    print_redacted(context.redaction().report_secrets({"summary": summary}))


@session_command.command("summarise")
@click.argument("id")
@click.argument("text")
@json_option
@click.pass_obj
def summarise_command(context: CommandContext, /, id: str, text: str, as_json: bool) -> None:
    """
    Set the summary of a session, even after it has ended.

    \b
    Example:
        memorist session summarise 5f09a972 "Retries are capped now"
    """
    with context.open(embedder="none") as memory:
        _print_session(memory.summarise_session(id, text), "Summarised", as_json)
    print_redacted(context.redaction().report_secrets({"summary": text}))


@session_command.command("list")
@click.option("--project", help="Only this project.")
@flag_option("--active", sets=True, help="Only sessions that have not ended.")
@click.option("--limit", default=20, show_default=True, help="How many.")
@json_option
@click.pass_obj
def list_command(context: CommandContext, /, as_json: bool, **options: Any) -> None:
    """
    List sessions, the latest first.

    \b
    Example:
        memorist session list --project api --active
    """
    with context.open(embedder="none") as memory:
        sessions = memory.sessions(**drop_unset(options))
    if as_json:
        print_json({"sessions": [session_json(session) for session in sessions]})
        return
    for session in sessions:
        click.echo(session_line(session, style()))
    if not sessions:
        click.echo("Nothing found.", err=True)


@session_command.command("show")
@click.argument("id")
@click.option("--limit", default=50, show_default=True, help="How many of its memories.")
@json_option
@click.pass_obj
def show_command(context: CommandContext, /, id: str, limit: int, as_json: bool) -> None:
    """
    Show a session with its memories, newest first.

    \b
    Example:
        memorist session show 5f09a972
    """
    with context.open(embedder="none") as memory:
        session = memory.session(id)
        page = memory.list(session=session.id, limit=limit)
    if as_json:
        memories = [memory_json(found) for found in page]
        print_json({"session": session_json(session), "memories": memories, "cursor": page.cursor})
        return
    click.echo(session_line(session, style()))
    for found in page:
        click.echo(f"  {memory_line(found, style())}")
    if page.cursor:
        click.echo("There is more: raise --limit to see it.", err=True)


@session_command.command("of")
@click.argument("memory_id", metavar="MEMORY")
@json_option
@click.pass_obj
def of_command(context: CommandContext, /, memory_id: str, as_json: bool) -> None:
    """
    Show the session that last used a memory, and how it used it.

    \b
    Example:
        memorist session of 4f2a91bc
    """
    with context.open(embedder="none") as memory:
        used = memory.session_context(memory_id)
    if as_json:
        session, usage, at = (session_json(used.session), used.usage, timestamp(used.at)) if used else (None,) * 3
        print_json({"session": session, "usage": usage, "at": at})
    elif used:
        click.echo(f"{used.usage} {local_time(used.at)} in {session_line(used.session, style())}")
    else:
        click.echo("No session used it.", err=True)


def _print_session(session: Session, verb: str, as_json: bool) -> None:
    if as_json:
        print_json(session_json(session))
    else:
        click.echo(f"{verb} {session_line(session, style())}")
