"""Sessions: the conversations and pieces of work in which memories are made and used."""

from typing import Any

import click

from memorist.cli.app import CommandContext
from memorist.cli.options import given, json_option, print_json, say_redacted, style, switch
from memorist.present.render import local_time, memory_json, memory_line, session_json, session_line, timestamp
from memorist.records import Session as LivedSession


@click.group("session")
def session_command() -> None:
    """
    Start, end and look at sessions: the conversations and pieces of work in which memories are made and used.

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
def start_command(session: CommandContext, /, as_json: bool, **fields: Any) -> None:
    """
    Start a session, and print its id: for `add --session` and `search --record-session`.

    \b
    Example:
        memorist session start --project api --summary "Looking into retries"
    """
    with session.open(create=True, embedder="none") as memory:
        started = memory.start_session(**{"project": session.loaded.settings.project} | given(fields))
    say_redacted(session.redaction().report({"summary": fields["summary"]}))
    if as_json:
        print_json(session_json(started))
    else:
        click.echo(started.id)


@session_command.command("end")
@click.argument("id")
@click.option("--summary", help="What it was about.")
@json_option
@click.pass_obj
def end_command(session: CommandContext, /, id: str, summary: str | None, as_json: bool) -> None:
    """
    End a session; nothing can be added to it any more.

    \b
    Example:
        memorist session end 5f09a972 --summary "Retries are capped now"
    """
    with session.open(embedder="none") as memory:
        _answer(memory.end_session(id, summary), "Ended", as_json)
    say_redacted(session.redaction().report({"summary": summary}))


@session_command.command("summarise")
@click.argument("id")
@click.argument("text")
@json_option
@click.pass_obj
def summarise_command(session: CommandContext, /, id: str, text: str, as_json: bool) -> None:
    """
    Say what a session was about; also after it has ended.

    \b
    Example:
        memorist session summarise 5f09a972 "Retries are capped now"
    """
    with session.open(embedder="none") as memory:
        _answer(memory.summarise_session(id, text), "Summarised", as_json)
    say_redacted(session.redaction().report({"summary": text}))


@session_command.command("list")
@click.option("--project", help="Only of this project.")
@switch("--active", sets=True, help="Only those that have not ended.")
@click.option("--limit", default=20, show_default=True, help="How many.")
@json_option
@click.pass_obj
def list_command(session: CommandContext, /, as_json: bool, **wanted: Any) -> None:
    """
    List sessions, the latest first.

    \b
    Example:
        memorist session list --project api --active
    """
    with session.open(embedder="none") as memory:
        found = memory.sessions(**given(wanted))
    if as_json:
        print_json({"sessions": [session_json(one) for one in found]})
        return
    for one in found:
        click.echo(session_line(one, style()))
    if not found:
        click.echo("Nothing found.", err=True)


@session_command.command("show")
@click.argument("id")
@click.option("--limit", default=50, show_default=True, help="How many of its memories.")
@json_option
@click.pass_obj
def show_command(session: CommandContext, /, id: str, limit: int, as_json: bool) -> None:
    """
    Show a session, and the memories that were made or used in it, newest first.

    \b
    Example:
        memorist session show 5f09a972
    """
    with session.open(embedder="none") as memory:
        found = memory.session(id)
        page = memory.list(session=found.id, limit=limit)
    if as_json:
        print_json(
            {"session": session_json(found), "memories": [memory_json(one) for one in page], "cursor": page.cursor}
        )
        return
    click.echo(session_line(found, style()))
    for one in page:
        click.echo(f"  {memory_line(one, style())}")
    if page.cursor:
        click.echo("There is more: --limit shows it.", err=True)


@session_command.command("of")
@click.argument("memory_id", metavar="MEMORY")
@json_option
@click.pass_obj
def of_command(session: CommandContext, /, memory_id: str, as_json: bool) -> None:
    """
    Show the session that used a memory last, and how.

    \b
    Example:
        memorist session of 4f2a91bc
    """
    with session.open(embedder="none") as memory:
        context = memory.session_context(memory_id)
    if as_json:
        used = context and {
            "session": session_json(context.session),
            "usage": context.usage,
            "at": timestamp(context.at),
        }
        print_json(used or {"session": None, "usage": None, "at": None})
    elif context:
        click.echo(f"{context.usage} {local_time(context.at)} in {session_line(context.session, style())}")
    else:
        click.echo("No session used it.", err=True)


def _answer(session: LivedSession, what: str, as_json: bool) -> None:
    if as_json:
        print_json(session_json(session))
    else:
        click.echo(f"{what} {session_line(session, style())}")
